"""A batch of drafts: what is written again, how far each has come, what it costs, and what is accepted."""
