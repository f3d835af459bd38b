"""Records whose text is text: SQLite stores what it is given, and some program may have given it bytes."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

R = TypeVar("R")


def as_text(record: R) -> R:
    """A record of the store with text in place of bytes."""
    given: Any = record
    texts = {
        field.name: value.decode("utf-8", "surrogateescape")
        for field in dataclasses.fields(given)
        if isinstance(value := getattr(given, field.name), bytes)
    }
    changed: R = dataclasses.replace(given, **texts) if texts else record
    return changed
