"""Amounts and times for people."""

from __future__ import annotations

from datetime import tzinfo

from lcm_core.times import format_local, parse_utc


def size_text(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def moment_text(stored: str | None, zone: tzinfo | None) -> str:
    """A stored time in the zone that is shown; as it is written in the database where it cannot be read."""
    return format_local(parse_utc(stored), zone) or stored or "–"
