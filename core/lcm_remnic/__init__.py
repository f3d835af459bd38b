"""Remnic's LCM store: read, imported into, verified, undone (docs/spec/remnic.md)."""
