"""Values of the core as tables, lines and texts, for the app and the command line."""
