"""What the engine keeps in the file for itself: prepared work, debt, anchors, epochs, turns."""
