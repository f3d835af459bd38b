"""The parameters of a call, as the engine reads them (docs/engine/recall.md, "Parameters")."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from lcm_core.javascript import JsonObject, js_number, trimmed
from lcm_core.recall.answer import ToolError
from lcm_core.times import engine_moment

#: The largest whole number that the engine's language holds exactly; a cap that nobody named.
MAX_SAFE_INTEGER: Final = 2**53 - 1

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?")


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
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return math.trunc(value)

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
        found = engine_moment(text)
        if found is None:
            raise ToolError(f"{name} must be a valid ISO timestamp.")
        if _WITHOUT_ZONE.fullmatch(text):
            try:
                found = found.replace(tzinfo=None).replace(tzinfo=zone).astimezone(UTC)
            except (OverflowError, ValueError):
                raise ToolError(f"{name} must be a valid ISO timestamp.") from None
        return found


def grouped(number: int) -> str:
    """A whole number with commas, as the engine shows sizes."""
    return f"{number:,}"


def fixed(number: float) -> str:
    """A number with two decimals, as the engine rounds: what lies in the middle goes up."""
    if abs(number) >= 1e21:
        return js_number(number)
    return str(Decimal(number).quantize(Decimal("0.01"), ROUND_HALF_UP))
