"""The choice of a conversation to copy into."""
