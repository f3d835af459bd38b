"""Amounts for people."""

from __future__ import annotations


def size_text(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
