"""Remnic's own LCM store: read, filled from a lossless-claw database, compared with it, and brought back.

docs/remnic.md has the format and every rule.
"""
