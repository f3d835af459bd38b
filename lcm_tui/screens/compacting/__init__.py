"""Compacting a conversation: every pass before any call; then made one by one, or all, and followed."""
