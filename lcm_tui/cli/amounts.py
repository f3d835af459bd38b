"""Ages and sizes as people type them."""

from __future__ import annotations

import re
from datetime import timedelta

from lcm_tui.cli.options import invalid

#: Days of a unit, as the engine's own pruning counts them (docs/engine/doctor.md, "Its cleaners").
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
#: Bytes of a unit, powers of 1000 as sizes are shown.
_BYTES = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}
#: About 270 years: beyond, there is nothing older.
_MAX_DAYS = 100_000


def age_of(option: str, value: str) -> timedelta:
    """An age such as ``90d``, ``12w``, ``3m`` (of 30 days) or ``1y``."""
    match = re.fullmatch(r"([0-9]{1,6})([dwmy])", value)
    days = int(match[1]) * _DAYS[match[2]] if match else 0
    if not 0 < days <= _MAX_DAYS:
        raise invalid(option, "must be a number and one of d, w, m (30 days), y, such as 90d", value)
    return timedelta(days=days)


def bytes_of(option: str, value: str) -> int:
    """A size such as ``50MB``, ``800KB`` or ``1.5GB``."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT]?B?)", value.upper())
    unit = None if match is None else match[2] if match[2] in _BYTES else f"{match[2]}B"
    if match is None or unit not in _BYTES:
        raise invalid(option, "must be a size such as 50MB, 800KB or 1.5GB", value)
    return int(float(match[1]) * _BYTES[unit])
