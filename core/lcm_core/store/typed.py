"""Rows whose values have the type of their column, whatever is stored: SQLite keeps what it is given.

A column of numbers can hold text, bytes, a real or infinity, and one of text can hold bytes. Everything that
is shown or checked reads through here, so that no other place has to think of it (docs/hostile-files.md).
What is changed or put back is read as it is stored (`lcm_core.store.database.Reader.stored`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from lcm_core.store.schema import NUMBERS, PLACES

GREATEST: Final = 2**63 - 1
LEAST: Final = -(2**63)
#: The id of no message, for one that is no whole number.
NO_MESSAGE: Final = LEAST // 2

_Kinds = frozenset[type]
_NUMBER: Final[_Kinds] = frozenset({int, type(None)})
_PLACE: Final[_Kinds] = frozenset({int})
_TEXT: Final[_Kinds] = frozenset({str, type(None)})
_NO_BYTES: Final[_Kinds] = frozenset({int, float, str, type(None)})
#: Ids of rows that SQLite counts.
_NUMBER_KEYS: Final = frozenset({"conversation_id", "message_id"})
#: Columns of text by whose values rows are asked for, or that are put together with other text.
_TEXTS: Final = frozenset(
    {
        *("summary_id", "parent_summary_id", "file_id", "brief_id", "part_id", "session_id", "session_key"),
        *("kind", "role", "content", "item_type", "part_type", "status", "created_at", "updated_at"),
        *("latest_at", "earliest_at", "storage_uri", "file_name", "metadata", "tool_name", "tool_call_id"),
    }
)
_LEADING: Final = re.compile(r"\s*([+-]?\d{1,30})")


def number(value: object) -> int | None:
    """A value as SQLite casts it to an integer: what it begins with, 0 without; the nearest if too large."""
    if isinstance(value, float):
        if value != value:  # NaN, which SQLite never stores
            return None
        return int(max(float(LEAST), min(value, 9.2e18))) if abs(value) < 9.2e18 else _limit(value > 0)
    if isinstance(value, bytes):
        value = value[:64].decode("latin-1")
    if isinstance(value, str):
        found = _LEADING.match(value[:64])
        value = int(found[1]) if found else 0
    if isinstance(value, int):
        return max(LEAST, min(value, GREATEST))
    return None


def place(value: object) -> int:
    """A place as a number: -1, which is before all others and which no engine gives, where it is none."""
    return value if isinstance(value, int) else -1


def text(value: object) -> str | None:
    """A value as SQLite casts it to text; bytes that are no UTF-8 as surrogate escapes."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def number_key(value: object) -> int | None:
    """The id that a value is: one that no row has where it is no whole number, equal for equal values.

    ``12abc`` does not name row 12: SQLite, and so the engine, finds nothing under it.
    """
    if value is None or isinstance(value, int):
        return value
    return NO_MESSAGE - zlib.crc32(repr(value)[:1000].encode("utf-8", "replace"))


def _limit(above: bool) -> int:
    return GREATEST if above else LEAST


def _no_bytes(value: object) -> object:
    return text(value) if isinstance(value, bytes) else value


_Repair = Callable[[object], object]
_PROMISED: Final[Mapping[str, tuple[_Kinds, _Repair]]] = {
    **dict.fromkeys(NUMBERS, (_NUMBER, number)),
    **dict.fromkeys(PLACES, (_PLACE, place)),
    **dict.fromkeys(_NUMBER_KEYS, (_NUMBER, number_key)),
    **dict.fromkeys(_TEXTS, (_TEXT, text)),
}
_OTHER: Final = (_NO_BYTES, _no_bytes)


class _RepairedRow(tuple[Any, ...]):
    """A row of which a value did not fit, as `sqlite3.Row` would have it."""

    names: tuple[str, ...]

    def keys(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.names)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return super().__getitem__(self.names.index(key))
            except ValueError:
                raise IndexError(f"no column {key}") from None
        return super().__getitem__(key)


def typed(rows: list[Any]) -> list[Any]:
    """Rows with every value of the type that its column's name promises, or NULL.

    A column of another name holds a number or text, no bytes. Rows that are as promised stay as they are.
    """
    if not rows:
        return rows
    names = tuple(rows[0].keys())
    wrong = {
        column: repair
        for column, (kinds, repair) in enumerate(_PROMISED.get(name, _OTHER) for name in names)
        if not kinds.issuperset(map(type, map(itemgetter(column), rows)))
    }
    return [_repaired(row, names, wrong) for row in rows] if wrong else rows


def _repaired(row: Sequence[object], names: tuple[str, ...], wrong: Mapping[int, _Repair]) -> _RepairedRow:
    repaired = _RepairedRow(wrong[at](value) if at in wrong else value for at, value in enumerate(row))
    repaired.names = names
    return repaired


def parameter(value: object) -> object:
    """A value that SQLite can bind: a whole number beyond 64 bits as a real, which compares as it would."""
    if isinstance(value, int) and not LEAST <= value <= GREATEST:
        return float(value) if abs(value) < 10**300 else float("inf") * (1 if value > 0 else -1)
    return value
