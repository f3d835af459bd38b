"""A draft edited here, in a text area."""
