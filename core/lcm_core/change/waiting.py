"""How long a host waits for the lock while a plan is written: an estimate from rows and bytes.

The rates are a rule, so that the same plan says the same on every machine: what plain sqlite3 took for rows
of the engine's tables on one small server (``python -m benchmarks.lock`` prints estimate and measurement). A
disk that is slow in making a commit last is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lcm_core.change.plan import Cells, Owner, Splice
from lcm_core.change.verify import Step
from lcm_core.store.schema import Schema

#: From so many seconds on a preview says it.
WORTH_SAYING: Final = 0.1

_ROW: Final = 20e-6  #: s for a row that comes, goes or changes, with its indexes
_ORDINAL: Final = 4e-6  #: s for a context item that only changes its ordinal
_BYTE: Final = 10e-9  #: s for a byte of such rows
_SEARCH_ROW: Final = 25e-6  #: s for a row of a search table
_WORDS: Final = 60e-9  #: s for a byte of text by words
_TRIGRAMS: Final = 450e-9  #: s for a byte of text by three letters each

#: What is indexed of a table, by search table: s for a byte.
_SEARCH: Final = {
    "messages": (("messages_fts", _WORDS),),
    "summaries": (("summaries_fts", _WORDS), ("summaries_fts_cjk", _TRIGRAMS)),
}


def host_waits(steps: Iterable[Step], schema: Schema) -> float:
    """Seconds, about, for which the lock is held while some steps are written."""
    seconds = 0.0
    shifted: dict[Owner, int] = {}  # ordinals of a context are written once, however many splices there are
    for step in steps:
        seconds += sum(_parts(step, schema))
        if isinstance(step.edit, Splice):
            owner = step.edit.conversation_id
            shifted[owner] = max(shifted.get(owner, 0), len(step.shifts))
    return seconds + _ORDINAL * sum(shifted.values())


def waiting_words(seconds: float) -> str | None:
    """What a preview says of it; None where nobody would notice."""
    if seconds < WORTH_SAYING:
        return None
    return f"The host will wait about {seconds:,.{1 if seconds < 10 else 0}f} s while this is written"


def row_waits(table: str, row: Cells, schema: Schema) -> float:
    """Seconds, about, for one row that comes or goes, with its rows of the search tables."""
    return _row(row) + sum(_search(table, row, schema))


def _parts(step: Step, schema: Schema) -> Iterator[float]:
    edit = step.edit
    if isinstance(edit, Splice):
        yield from (_row(row) for row in (*edit.removed, *edit.inserted))
        return
    yield _row(edit.row)
    for row in (edit.before, edit.after):
        if row is not None and "content" in row:
            yield from _search(edit.table, row, schema)


def _row(row: Cells) -> float:
    return _ROW + _BYTE * sum(len(cell) for cell in row.cells if isinstance(cell, str | bytes))


def _search(table: str, row: Cells, schema: Schema) -> Iterator[float]:
    text = row.get("content")
    length = len(text) if isinstance(text, str) else 0
    yield from (_SEARCH_ROW + rate * length for name, rate in _SEARCH.get(table, ()) if schema.has(name))
