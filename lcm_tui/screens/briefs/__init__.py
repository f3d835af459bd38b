"""The focus briefs of a conversation, and the text of the one that is selected."""
