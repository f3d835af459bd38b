"""The parameters of a call, as the engine reads them (docs/engine/recall.md, "Parameters")."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from lcm_core.javascript import JsonObject, js_number, trimmed
from lcm_core.recall.answer import ToolError
from lcm_core.times import engine_moment

#: The largest whole number that the engine's language holds exactly; a cap that nobody named.
MAX_SAFE_INTEGER: Final = 2**53 - 1

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?")
_MONTH_ALONE: Final = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2]))?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WRITTEN: Final = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?"
    r"(?:(?P<y1>\d{4})[-/](?P<m1>\d{1,2})[-/](?P<d1>\d{1,2})"
    r"|(?P<m2>\d{1,2})/(?P<d2>\d{1,2})/(?P<y2>\d{4})"
    r"|(?P<n1>[A-Za-z]{3,9})\.?\s+(?P<d3>\d{1,2}),?\s+(?P<y3>\d{4})"
    r"|(?P<d4>\d{1,2})\s+(?P<n2>[A-Za-z]{3,9})\.?,?\s+(?P<y4>\d{4}))"
    r"(?:(?:,?\s+|T)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?"
    r"(?:\s*(?P<half>[AaPp][Mm]))?)?"
    r"(?:\s*(?P<zone>[Zz]|(?:GMT|UTC?|gmt|utc?)?(?P<sign>[+-])(?P<oh>\d{2}):?(?P<om>\d{2})|GMT|UTC?|gmt|utc?))?"
)


class Parameters:
    """What a call was given; a value of a type that does not fit counts as not given."""

    def __init__(self, given: JsonObject) -> None:
        self.given = given

    def text(self, name: str) -> str:
        """A text without the blanks at its ends; empty when none was given."""
        value = self.given.get(name)
        return trimmed(value) if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """A number without its fraction; None when none was given."""
        value = self.given.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:  # all numbers of that language are doubles
            return math.trunc(value) if math.isfinite(float(value)) else None
        except OverflowError:
            return None

    def flag(self, name: str) -> bool:
        """Whether exactly *true* was given."""
        return self.given.get(name) is True

    def texts(self, name: str) -> list[str]:
        """The texts of a list, trimmed, each once, without empty ones."""
        value = self.given.get(name)
        if isinstance(value, str) or not isinstance(value, list | tuple):
            return []
        found = (trimmed(one) for one in value if isinstance(one, str))
        return list(dict.fromkeys(one for one in found if one))

    def moment(self, name: str, zone: tzinfo | None) -> datetime | None:
        """A moment; a day alone begins in UTC, a time without a zone is one of *zone*.

        Raises:
            ToolError: a text that names no moment was given.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            found = _iso_moment(text, zone) or _written_moment(text, zone)
        except (OverflowError, ValueError):
            found = None
        if found is None:
            raise ToolError(f"{name} must be a valid ISO timestamp.")
        return found


def _iso_moment(text: str, zone: tzinfo | None) -> datetime | None:
    """A moment in ISO: a year, a month or a day alone begins in UTC."""
    found = engine_moment(text.upper())
    if found is not None and _WITHOUT_ZONE.fullmatch(text):
        return _local(found, zone)
    month = _MONTH_ALONE.fullmatch(text)
    return found if month is None else datetime(int(month[1]), int(month[2] or 1), 1, tzinfo=UTC)


def _written_moment(text: str, zone: tzinfo | None) -> datetime | None:
    """A moment as people write it: the day in one of four orders, a time, a zone; local without one."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        return None
    month = written["m1"] or written["m2"]
    if month is None:
        name = (written["n1"] or written["n2"])[:3].lower()
        month = str(_MONTHS.index(name) + 1)  # ValueError: no month
    day = written["d1"] or written["d2"] or written["d3"] or written["d4"]
    year = written["y1"] or written["y2"] or written["y3"] or written["y4"]
    hour = int(written["hour"] or 0)
    if written["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if written["half"].lower() == "pm" else 0)
    clock = (hour, int(written["minute"] or 0), int(written["second"] or 0))
    at = datetime(int(year), int(month), int(day), *clock, tzinfo=UTC)
    if written["zone"] is None:
        return _local(at, zone)
    sign = -1 if written["sign"] == "-" else 1
    offset = timedelta(hours=int(written["oh"] or 0), minutes=int(written["om"] or 0))
    return at - sign * offset


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment at which clocks of a zone show what a moment shows in UTC."""
    return moment.replace(tzinfo=zone).astimezone(UTC)


def grouped(number: int) -> str:
    """A whole number with commas, as the engine shows sizes."""
    return f"{number:,}"


def fixed(number: float) -> str:
    """A number with two decimals, as the engine rounds: what lies in the middle goes up."""
    if abs(number) >= 1e21:
        return js_number(number)
    return str(Decimal(number).quantize(Decimal("0.01"), ROUND_HALF_UP))
