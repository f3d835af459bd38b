"""OpenClaw's sessions: looked at, imported, checked; and `Engine`, for Python hosts."""
