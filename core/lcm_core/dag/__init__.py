"""Pure functions over records of the summary DAG; no I/O."""
