"""When a message was said, as ``messages.created_at`` keeps it (docs/engine/ingest.md, "Times")."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from lcm_core.ingest.header import EPOCH
from lcm_core.ingest.jsonl import Json, JsonObject
from lcm_core.javascript import BLANKS

_NAMES: Final = ("timestamp", "createdAt", "created_at")
#: Milliseconds on either side of 1970 that the engine's language has a date for.
_LAST: Final = 8.64e15
_ZONED: Final = re.compile(r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z")
_BLANK: Final = re.compile(f"[{BLANKS}]")
_ISO: Final = re.compile(
    r"(?P<year>[0-9]{4}|[+-][0-9]{6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?)?"
    r" ?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?",
    re.IGNORECASE,
)
#: As hosts write it: nothing is left to be done but to check it.
_USUAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
_DATE_ALONE: Final = re.compile(r"(?:[0-9]{4}|[+-][0-9]{6})(?:-[0-9]{2}){0,2}")
_DAYS_OF_400_YEARS: Final = 146_097


def stored_time(message: JsonObject, entry_time: Json = None) -> str | None:
    """``YYYY-MM-DD HH:MM:SS`` of a message; None when nothing readable says it: the present then.

    *entry_time* is that of the transcript's entry; the message's own goes before it.
    """
    given = next((message[name] for name in _NAMES if message.get(name) is not None), None)
    if not _is_given(given):
        given = entry_time
    return time_of(given)


def has_time(message: JsonObject, entry_time: Json = None) -> bool:
    """Whether anything says when a message was said, be it unreadable."""
    return any(_is_given(message.get(name)) for name in _NAMES) or _is_given(entry_time)


def _is_given(value: Json) -> bool:
    if isinstance(value, str):
        return bool(value.strip(BLANKS))
    return isinstance(value, int | float) and not isinstance(value, bool)


def time_of(value: Json) -> str | None:
    """The same of a value: milliseconds since 1970, or a text."""
    if isinstance(value, str) and _USUAL.fullmatch(value) is not None:
        try:
            datetime.fromisoformat(value[:19])
        except ValueError:
            pass
        else:
            return f"{value[:10]} {value[11:19]}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    milliseconds = _parsed(value) if isinstance(value, str) else value
    if milliseconds is None or not abs(milliseconds) <= _LAST or math.isnan(milliseconds):
        return None
    return _written(math.floor(math.trunc(milliseconds) / 1000))


def _written(seconds: int) -> str:
    """A moment as the engine's language writes it, in 19 characters: years of six digits lose seconds."""
    try:
        return (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(" ")
    except OverflowError:
        days, rest = divmod(seconds, 86_400)
        cycles = (days - 11_017) // _DAYS_OF_400_YEARS  # from 2000-03-01, where the calendar begins anew
        inside = EPOCH + timedelta(days=days - cycles * _DAYS_OF_400_YEARS, seconds=rest)
        year = inside.year + 400 * cycles
        sign = "-" if year < 0 else "+"
        text = f"{year:04d}" if 0 <= year <= 9999 else f"{sign}{abs(year):06d}"
        return f"{text}{inside:-%m-%d %H:%M:%S}"[:19]


def _parsed(text: str) -> float | None:
    """A text as the engine reads it: one without a zone is UTC."""
    text = text.strip(BLANKS)
    if not text:
        return None
    if _ZONED.search(text) is None:
        text = f"{_BLANK.sub('T', text, count=1)}Z" if not _DATE_ALONE.fullmatch(text) else text
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour == 24 and not (minute or second):
        day_more, hour = 1, 0
    else:
        day_more = 0
    if found["year"] == "-000000" or (hour > 23 or minute > 59 or second > 59):
        return None
    cycles, inner = divmod(year, 400)
    try:
        moment = datetime(2000 + inner, month, 1, hour, minute, second, tzinfo=UTC)
        if not 1 <= day <= 31:
            return None
        moment += timedelta(days=day - 1 + day_more)
    except ValueError:
        return None
    offset = 0
    zone = found["zone"]
    if zone and zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    fraction = int((found["fraction"] or "0")[:3].ljust(3, "0"))
    seconds = (moment - EPOCH) // timedelta(seconds=1) + (cycles - 5) * _DAYS_OF_400_YEARS * 86_400 - offset
    return seconds * 1000 + fraction
