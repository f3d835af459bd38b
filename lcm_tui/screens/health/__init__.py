"""What the checks find: the list, the run that makes it, and fixes."""
