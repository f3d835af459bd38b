"""What the engine makes of a context before it sends it to the model; no I/O."""
