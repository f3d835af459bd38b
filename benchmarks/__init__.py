"""Databases of a known shape, and how fast the program shows them. By hand: ``python -m benchmarks``."""
