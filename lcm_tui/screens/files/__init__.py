"""The large files that the engine took out of messages: which there are, and the text of one."""
