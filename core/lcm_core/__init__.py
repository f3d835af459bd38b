"""The engine of lcm-tui: everything about LCM databases that needs no terminal."""

__version__ = "0.1.0"
