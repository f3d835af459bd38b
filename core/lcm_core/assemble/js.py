"""JSON as the engine reads and writes it: its token counts are taken of such text."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from lcm_core.javascript import Json, JsonObject, read_json, written
from lcm_core.tokens import has_surrogates

#: Halves of a pair without the other one, which ``JSON.stringify`` escapes.
_LONE_HALF: Final = re.compile(r"[\ud800-\udfff]")


def parsed(text: str | None) -> Json:
    """The value that *text* writes; None when it is no JSON."""
    try:
        return read_json(text or "")
    except ValueError:
        return None


class Missing(Enum):
    """Stands for a value where there is none: JSON's null is one."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


def parsed_object(text: str | None) -> JsonObject:
    """The object that *text* writes; empty when it is none."""
    value = parsed(text)
    return value if isinstance(value, dict) else {}


def stringify(value: Json) -> str:
    """*value* as ``JSON.stringify`` writes it."""
    try:
        text = written(value)
    except (RecursionError, ValueError):
        return ""
    return _LONE_HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text) if has_surrogates(text) else text
