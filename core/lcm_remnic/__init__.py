"""Remnic's LCM store: read, imported into, verified, undone (docs/remnic.md)."""
