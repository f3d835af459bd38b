"""The transcript of a session that only the disk knows."""
