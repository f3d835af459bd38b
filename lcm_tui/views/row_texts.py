"""The rows that a change touches, as two texts to compare: as they were, and as they are afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from lcm_core.change.plan import CONTEXT, Cells, Edit, touched_rows

#: Rows that are written out; the edits list all of them.
MOST_ROWS: Final = 2_000
#: Of one value.
MOST_CHARACTERS: Final = 200_000
#: What names a row, in the order of preference.
_NAMES: Final = ("summary_id", "message_id", "brief_id", "file_id", "conversation_id")
HEADING: Final = "== "


def row_texts(edits: Iterable[Edit]) -> tuple[str, str]:
    """The rows before and after, a line for each column; those of a context are one line each."""
    before: list[str] = []
    after: list[str] = []
    rows = ((edit, row) for edit in edits for row in touched_rows(edit))
    for _, (table, is_there, row) in islice(rows, MOST_ROWS):
        lines = list(_context_line(row)) if table == CONTEXT else list(_lines(table, row))
        (after if is_there else before).extend(lines)
    if next(rows, None) is not None:
        for side in (before, after):
            side.append(f"{HEADING}more rows: the edits list all")
    return "\n".join(before), "\n".join(after)


def _context_line(row: Cells) -> Iterator[str]:
    held = row.as_dict()
    item = held.get("summary_id") or held.get("message_id")
    yield f"{HEADING}context of {_text(held.get('conversation_id'))}: {_text(item)}"


def _lines(table: str, row: Cells) -> Iterator[str]:
    held = row.as_dict()
    name = next((held[name] for name in _NAMES if held.get(name) is not None), "")
    yield f"{HEADING}{table} {_text(name)}".rstrip()
    for column, value in held.items():
        if value is None:
            continue
        text = _text(value)[:MOST_CHARACTERS]
        if "\n" in text:
            yield f"{column}:"
            yield from text.split("\n")
        else:
            yield f"{column}: {text}"


def _text(value: object) -> str:
    return repr(value) if isinstance(value, bytes) else str(value)
