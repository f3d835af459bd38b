"""A text that a draft was made from, to look into."""
