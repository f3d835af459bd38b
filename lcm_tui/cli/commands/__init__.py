"""The commands, a module for each theme: what each takes, and what it calls (`cli/command.py`)."""
