"""Transcripts of the host, read as they lie on disk."""
