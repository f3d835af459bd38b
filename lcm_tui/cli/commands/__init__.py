"""The commands, a module for each first word: what it takes, and what it calls (`declaring`)."""
