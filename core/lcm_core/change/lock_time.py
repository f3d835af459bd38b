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

_ROW: Final = 10e-6  #: s for a row that comes, with its indexes
#: The same where it is less: texts that come in order, links, and items of a context.
_COMES: Final = {
    "messages": 7e-6,
    "summaries": 7e-6,
    "summary_messages": 2e-6,
    "summary_parents": 2.5e-6,
    "context_items": 4e-6,
}
_GOES: Final = 4e-6  #: s for a row that goes, 2.5 where it is a link
_CHANGES: Final = 6e-6  #: s for a row that changes
_ORDINAL: Final = 2.5e-6  #: s for a context item that only changes its ordinal
_BYTE: Final = 5e-9  #: s for a byte of such rows
_SEARCH_ROW: Final = 5e-6  #: s for a row of a search table
_WORDS: Final = 30e-9  #: s for a character of text by words
_TRIGRAMS: Final = 100e-9  #: s for a character of text by three letters each
_FOREIGN: Final = 10  #: times that for one that is no ASCII: of ideographs hardly three are met again
_UNINDEXED: Final = 4  #: times as long until a text is out of a search table as until it is in it

#: What is indexed of a table, by search table: s for a character.
_SEARCH: Final = {
    "messages": (("messages_fts", _WORDS),),
    "summaries": (("summaries_fts", _WORDS), ("summaries_fts_cjk", _TRIGRAMS)),
}


def lock_seconds(steps: Iterable[Step], schema: Schema) -> float:
    """Seconds, about, for which the lock is held while some steps are written."""
    seconds = 0.0
    shifted: dict[Owner, int] = {}  # ordinals of a context are written once, however many splices there are
    for step in steps:
        seconds += sum(_parts(step, schema))
        if isinstance(step.edit, Splice):
            owner = step.edit.conversation_id
            shifted[owner] = max(shifted.get(owner, 0), len(step.shifts))
    return seconds + _ORDINAL * sum(shifted.values())


def lock_warning(seconds: float) -> str | None:
    """What a preview says of it; None where nobody would notice."""
    if seconds < WORTH_SAYING:
        return None
    return f"The host will wait about {seconds:,.{1 if seconds < 10 else 0}f} s while this is written"


def row_seconds(table: str, row: Cells, schema: Schema) -> float:
    """Seconds, about, for one row that comes, with its rows of the search tables."""
    return _COMES.get(table, _ROW) + _bytes(row) + sum(_search(table, row, schema))


def _parts(step: Step, schema: Schema) -> Iterator[float]:
    edit = step.edit
    if isinstance(edit, Splice):
        yield from (_COMES["context_items"] for _ in (*edit.removed, *edit.inserted))
        return
    if edit.before is None:
        yield row_seconds(edit.table, edit.row, schema)
        return
    if edit.after is None:
        yield min(_GOES, _COMES.get(edit.table, _GOES))
    else:
        yield _CHANGES + _bytes(edit.after)
        if "content" in edit.after:
            yield from _search(edit.table, edit.after, schema)
    if "content" in edit.before:
        yield from (_UNINDEXED * one for one in _search(edit.table, edit.before, schema))


def _bytes(row: Cells) -> float:
    return _BYTE * sum(len(cell) for cell in row.cells if isinstance(cell, str | bytes))


def _search(table: str, row: Cells, schema: Schema) -> Iterator[float]:
    text = row.get("content")
    length = 0
    if isinstance(text, str):
        ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
        length = ascii_only + _FOREIGN * (len(text) - ascii_only)
    yield from (_SEARCH_ROW + rate * length for name, rate in _SEARCH.get(table, ()) if schema.has(name))
