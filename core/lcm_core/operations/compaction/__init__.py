"""Compaction as the engine does it: which passes, what each is made from, and each as a plan."""
