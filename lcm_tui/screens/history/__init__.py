"""What lcm-tui changed in this database: every operation, to look at, to undo and to redo."""
