"""The previous context of a summary: what the model was given when it made it."""
