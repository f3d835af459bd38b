"""What the model sees of a conversation: its items, the messages as they are sent, and each of them whole."""
