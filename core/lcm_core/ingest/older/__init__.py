"""How engines before 0.15 stored a message, as far as their recorded databases show it."""
