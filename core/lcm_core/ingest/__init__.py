"""Transcripts of the host, read from disk."""
