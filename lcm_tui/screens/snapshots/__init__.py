"""The snapshots of a context that an engine of ours keeps: the list of them, and each as it was sent."""
