"""One file an operation: what both faces need to plan it, to ask about it, and to commit it."""
