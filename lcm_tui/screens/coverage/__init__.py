"""The coverage map of a conversation: its summaries as blocks over the messages, a row for each depth."""
