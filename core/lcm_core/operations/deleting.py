"""The edits that take a conversation away with all its rows, in pieces that keep no host waiting.

Whatever refers to a row goes before it, so the database is sound after every piece, and what is left can be
planned anew after any of them: its context first, then what the engine has prepared, briefs, summaries (each
before what it was made from), messages, what else belongs to it, and the conversation itself (docs/format.md,
"Deleting").
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lcm_core.change.breaks import context_key
from lcm_core.change.place import Listing, splice_at
from lcm_core.change.plan import (
    Cells,
    Edit,
    Ref,
    RowChange,
    Splice,
    deletion,
    deletions,
    ref_of,
    touched_rows,
)
from lcm_core.records import ConversationId
from lcm_core.store import prepared
from lcm_core.store.database import Reader
from lcm_core.store.families import owning_tables
from lcm_core.store.lifecycle import consumers_first, message_ids
from lcm_core.store.rows import StoredRow, referring_columns, rows_by

T = TypeVar("T")

#: Rows of one commit, and characters of their texts; measured on 1 GB: the lock is held for some 0.05 s.
PIECE_ROWS: Final = 250
PIECE_CHARACTERS: Final = 1_000_000
#: Rows that are read at a time.
PAGE: Final = 400

#: Rows that go with one summary or message, by its id.
_ByOwner = dict[object, list[RowChange]]


@dataclass(slots=True)
class Piece:
    """Edits of one commit."""

    edits: list[Edit] = field(default_factory=list)
    rows: int = 0
    characters: int = 0

    def add(self, edits: Iterable[Edit]) -> None:
        """Take what may not be parted."""
        for edit in edits:
            self.edits.append(edit)
            for _, _, row in touched_rows(edit):
                self.rows += 1
                self.characters += sum(len(cell) for cell in row.cells if isinstance(cell, str | bytes))

    @property
    def full(self) -> bool:
        """Whether the next edits had better go into another commit."""
        return self.rows >= PIECE_ROWS or self.characters >= PIECE_CHARACTERS

    def leaves(self) -> frozenset[str]:
        """What it leaves behind for the next pieces to take: items that are in no context any more."""
        gone = {
            value
            for edit in deletions(self.edits)
            if edit.table in ("messages", "summaries")
            for value in edit.key.cells
        }
        return frozenset(
            context_key("B13" if isinstance(ref, str) else "A11", edit.conversation_id, ref)
            for edit in self.edits
            if isinstance(edit, Splice) and isinstance(edit.conversation_id, int)
            for ref in map(ref_of, edit.removed)
            if ref not in gone
        )


async def pieces(reader: Reader, conversation_id: ConversationId) -> AsyncIterator[Piece]:
    """The deletion of what is there of a conversation, in order; only as much is read as is asked for."""
    piece = Piece()
    async for unit in _units(reader, conversation_id):
        piece.add(unit)
        if piece.full:
            yield piece
            piece = Piece()
    if piece.edits:
        yield piece


async def _units(reader: Reader, conversation_id: ConversationId) -> AsyncIterator[Sequence[Edit]]:
    for splice in _context(await rows_by(reader, "context_items", "conversation_id", [conversation_id])):
        yield [splice]
    for batch in await prepared.batches_of(reader, conversation_id):
        for table, row in batch.rows:
            yield [_delete(table, row)]
    briefs = await rows_by(reader, "focus_briefs", "conversation_id", [conversation_id])
    for brief in briefs:
        sources = await rows_by(reader, "focus_brief_sources", "brief_id", [brief["brief_id"]])
        yield [*(_delete("focus_brief_sources", row) for row in sources), _delete("focus_briefs", brief)]
    owning = [table for table in owning_tables(reader) if table not in _IN_ORDER]
    gone: set[tuple[str, Cells]] = set()  # rows of these that went with a summary or a message
    own = frozenset(brief["brief_id"] for brief in briefs)
    async for unit in _summaries_and_messages(reader, conversation_id, own):
        gone.update((edit.table, edit.key) for edit in unit if edit.table in owning)
        yield unit
    for table in owning:
        rows = await rows_by(reader, table, "conversation_id", [conversation_id])
        for edit in (_delete(table, row) for row in rows):
            if (table, edit.key) not in gone:
                yield [edit]
    for row in await rows_by(reader, "conversations", "conversation_id", [conversation_id]):
        yield [_delete("conversations", row)]


async def _summaries_and_messages(
    reader: Reader, conversation_id: ConversationId, briefs: frozenset[object]
) -> AsyncIterator[Sequence[RowChange]]:
    in_turn, on_cycles = await consumers_first(reader, conversation_id)
    owned = _Owned(frozenset([*in_turn, *on_cycles]), briefs)
    for ids in _pages(in_turn):
        for unit in await _summaries(reader, ids, owned):
            yield unit
    if on_cycles:
        yield [edit for unit in await _summaries(reader, on_cycles, owned) for edit in unit]
    for numbers in _pages(await message_ids(reader, conversation_id)):
        for unit in await _messages(reader, numbers, owned):
            yield unit


_IN_ORDER: Final = prepared.TABLES | {
    "context_items",
    "conversations",
    "focus_briefs",
    "messages",
    "summaries",
}
#: What refers to a summary or a message and is not deleted with it but before.
_LINES: Final = prepared.TABLES | {
    *("context_items", "summary_messages", "summary_parents", "focus_brief_sources")
}


def _context(rows: Sequence[StoredRow]) -> Iterator[Splice]:
    """The whole context, from its end: nothing shifts."""
    cells = sorted(map(Cells.of, rows), key=lambda row: _ordinal(row))
    found: list[tuple[int, Ref]] = [(_ordinal(row), ref_of(row)) for row in cells]
    listing = Listing.of(found)
    while cells:
        start = max(0, len(cells) - PIECE_ROWS)
        owner = cells[start]["conversation_id"]
        assert isinstance(owner, int)
        yield splice_at(listing, owner, start, cells[start:], ())
        del cells[start:]


def _ordinal(row: Cells) -> int:
    ordinal = row["ordinal"]
    return ordinal if isinstance(ordinal, int) else -1


@dataclass(frozen=True, slots=True)
class _Owned:
    """What refers to rows of the conversation and is deleted in its own turn."""

    summaries: frozenset[object]
    briefs: frozenset[object]


async def _summaries(reader: Reader, ids: Sequence[str], owned: _Owned) -> list[Sequence[RowChange]]:
    """Each summary with its lines to what it was made from, and with lines that lead from nowhere to it."""
    rows = {row["summary_id"]: row for row in await rows_by(reader, "summaries", "summary_id", ids)}
    lines: _ByOwner = {}
    for table in ("summary_parents", "summary_messages"):
        _collect(lines, table, "summary_id", await rows_by(reader, table, "summary_id", ids))
    above = await rows_by(reader, "summary_parents", "parent_summary_id", ids)
    stray = [row for row in above if row["summary_id"] not in owned.summaries]
    _collect(lines, "summary_parents", "parent_summary_id", stray)
    covered = await rows_by(reader, "focus_brief_sources", "summary_id", ids)
    stray = [row for row in covered if row["brief_id"] not in owned.briefs]
    _collect(lines, "focus_brief_sources", "summary_id", stray)
    for table, column in await _others(reader, "summaries"):
        _collect(lines, table, column, await rows_by(reader, table, column, ids))
    return [[*lines.get(summary, ()), _delete("summaries", rows[summary])] for summary in ids]


async def _messages(reader: Reader, ids: Sequence[int], owned: _Owned) -> list[Sequence[RowChange]]:
    """Each message with its parts, and with links that lead from nowhere to it."""
    rows = {row["message_id"]: row for row in await rows_by(reader, "messages", "message_id", ids)}
    lines: _ByOwner = {}
    links = await rows_by(reader, "summary_messages", "message_id", ids)
    stray = [row for row in links if row["summary_id"] not in owned.summaries]
    _collect(lines, "summary_messages", "message_id", stray)
    for table, column in await _others(reader, "messages"):
        _collect(lines, table, column, await rows_by(reader, table, column, ids))
    return [[*lines.get(message, ()), _delete("messages", rows[message])] for message in ids]


async def _others(reader: Reader, target: str) -> list[tuple[str, str]]:
    """Tables whose rows go with a row of *target*, also those that we know nothing else about."""
    return [
        (one.table, one.column)
        for one in await referring_columns(reader, target)
        if one.table not in _LINES and one.table != target
    ]


def _collect(found: _ByOwner, table: str, column: str, rows: Iterable[StoredRow]) -> None:
    for row in rows:
        found.setdefault(row[column], []).append(_delete(table, row))


def _delete(table: str, row: StoredRow) -> RowChange:
    return deletion(table, Cells.of(row))


def _pages(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
