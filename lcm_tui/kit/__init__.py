"""What a screen is made of: widgets, dialogs, commands, the terminal, the session."""
