"""What the engine does, as pure functions over values: no SQL, no file, no event loop."""
