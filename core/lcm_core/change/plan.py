"""A change as a value: every row it would touch, before and after (docs/changes.md, "The plan").

Types only, no I/O. An operation returns a `Plan`; what is previewed is what is committed: the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from lcm_core.store.connecting import SqlValue as SqlValue


class SymbolKind(StrEnum):
    """What a symbol stands for until the commit knows it."""

    ID = "id"  #: the AUTOINCREMENT id of the row that holds it
    SEQ = "seq"  #: one more than the largest seq of the row's conversation
    ORDINAL = "ordinal"  #: one more than the largest ordinal of the row's conversation


@dataclass(frozen=True, slots=True)
class Symbol:
    """A value that is resolved inside the transaction, so that an append by the host makes no plan stale."""

    name: str  #: ``new:1``; unique within a plan
    kind: SymbolKind


Cell = SqlValue | Symbol

#: What a context item stands for: a summary's id where it names one, else a message's; None: neither.
Ref = int | str | Symbol | None

#: A conversation, also one that the plan itself makes.
Owner = int | Symbol


@dataclass(frozen=True, slots=True)
class Cells:
    """Columns and their values, by name: two tuples, as the rows of a plan mostly share the names."""

    columns: tuple[str, ...]  #: in the order of the names
    cells: tuple[Cell, ...]  #: one a column

    @classmethod
    def of(cls, values: Mapping[str, Cell]) -> Cells:
        """Columns in the order of their names, so that equal rows are equal values."""
        columns = in_order(tuple(values))
        return cls(columns, tuple([values[column] for column in columns]))

    @property
    def values(self) -> tuple[tuple[str, Cell], ...]:
        """The columns, each with its value."""
        return tuple(zip(self.columns, self.cells, strict=True))

    def __getitem__(self, column: str) -> Cell:
        try:
            return self.cells[self.columns.index(column)]
        except ValueError:
            raise KeyError(column) from None

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def get(self, column: str, default: Cell = None) -> Cell:
        """The value of a column, or *default* where it is absent."""
        return self.cells[self.columns.index(column)] if column in self.columns else default

    def as_dict(self) -> dict[str, Cell]:
        """The columns as a dictionary of one's own."""
        return dict(zip(self.columns, self.cells, strict=True))

    @property
    def has_symbols(self) -> bool:
        """Whether a value is still to be resolved."""
        return Symbol in map(type, self.cells)

    def but(self, **changed: Cell) -> Cells:
        """The same row with some columns changed."""
        if any(name not in self.columns for name in changed):
            return Cells.of({**self.as_dict(), **changed})
        cells = list(self.cells)
        for name, value in changed.items():
            cells[self.columns.index(name)] = value
        return Cells(self.columns, tuple(cells))

    def without(self, *columns: str) -> Cells:
        """The same row without some columns."""
        return Cells.of({name: value for name, value in self.values if name not in columns})


@lru_cache(maxsize=256)
def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns as `Cells` has them: thousands of rows have the same ones."""
    return tuple(sorted(names))


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row: all columns given.

    Into ``context_items`` only with an ORDINAL symbol (an append); anything else there is a `Splice`.
    """

    table: str
    row: Cells


@dataclass(frozen=True, slots=True)
class Update:
    """Columns of one row give way to others; never of ``context_items``."""

    table: str
    key: Cells
    before: Cells  #: only the columns that change
    after: Cells


@dataclass(frozen=True, slots=True)
class Delete:
    """A row goes; the whole of it is kept here. Never of ``context_items``."""

    table: str
    key: Cells
    before: Cells


@dataclass(frozen=True, slots=True)
class Item:
    """What a context item stands for, and which of several equal ones it is."""

    ref: Ref  #: message id or summary id
    occurrence: int = 0  #: counted from 0 in order of ordinal, not counting the run of a splice
    copies: int = 1  #: how many stand in the context, not counting the run of a splice

    @property
    def item_type(self) -> str:
        """``summary`` or ``message``."""
        return "summary" if isinstance(self.ref, str) else "message"


@dataclass(frozen=True, slots=True)
class Splice:
    """A run of context items gives way to another.

    The run is looked up by identity, so the host may append, compact or prune around it. Rows are whole;
    their ordinals hold when the list still is as it was planned, else they move along.
    """

    conversation_id: Owner
    after: Item | None  #: the neighbour before the run; None: the run begins the list
    before: Item | None  #: the neighbour behind it; None: the run ends the list
    removed: tuple[Cells, ...]
    inserted: tuple[Cells, ...]
    shift: int  #: by how much the ordinals of everything behind the run change
    gap: tuple[int | None, int | None] = (None, None)  #: ordinals of the neighbours before the change
    copies: tuple[int, int] = (0, 0)  #: items for what the removed run stands for, then for the inserted one


@dataclass(frozen=True, slots=True)
class Move:
    """A context item and the ordinal it gets."""

    item: Item
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Renumber:
    """Ordinals change, the order stays: gaps and abnormal ordinals.

    What was appended behind the last move since it was planned moves along where it would be in the way.
    """

    conversation_id: Owner
    moves: tuple[Move, ...]


Edit = Insert | Update | Delete | Splice | Renumber


class Keeping(StrEnum):
    """Where the edits of a plan are kept for its undo."""

    JOURNAL = "journal"  #: in the database; in a file only when they are very large
    APART = "apart"  #: in a file of their own unless they are small: the plan is there to save space
    NOWHERE = "nowhere"  #: never to be undone; what it deletes is overwritten in the file as well


@dataclass(frozen=True, slots=True)
class Plan:
    """A change that nobody has made yet."""

    kind: str  #: dissolve, transplant, fix, undo ...
    title: str  #: one line for people
    conversation_id: int | None
    edits: tuple[Edit, ...] = field(repr=False)  # asyncio.run makes a repr of what it returns
    warnings: tuple[str, ...] = ()
    batch: str | None = None  #: plans that belong together
    undoes: str | None = None  #: the operation that this plan takes back
    #: keys of local findings that it may leave behind: what an undo brings back, or what an operation means
    #: to do (`lcm_core.change.breaks`)
    allows: frozenset[str] = field(default_factory=frozenset, repr=False)
    select: str | int | None = None  #: the summary or message that a screen selects afterwards
    keeping: Keeping = Keeping.JOURNAL
    #: it means to take all that refers to what it deletes: whatever else refers to it came since
    whole: bool = False
    #: how many of the edits each commit makes, where several plans are seen as one; empty: all at once
    parts: tuple[int, ...] = ()

    @property
    def conversations(self) -> frozenset[int]:
        """Conversations whose context it changes."""
        touched = {edit.conversation_id for edit in self.edits if isinstance(edit, Splice | Renumber)}
        return frozenset(one for one in (*touched, self.conversation_id) if isinstance(one, int))

    def __bool__(self) -> bool:
        return bool(self.edits)


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows of a table a plan touches."""

    table: str
    insert: int
    update: int
    delete: int


def row_counts(edits: Iterable[Edit]) -> tuple[RowCount, ...]:
    """Rows per table, tables in the order of their names; shifted context items are not counted."""
    found: dict[str, list[int]] = {}
    for table, place, count in _touched(edits):
        found.setdefault(table, [0, 0, 0])[place] += count
    return tuple(RowCount(table, *counts) for table, counts in sorted(found.items()))


def _touched(edits: Iterable[Edit]) -> Iterator[tuple[str, int, int]]:
    for edit in edits:
        match edit:
            case Insert(table=table):
                yield table, 0, 1
            case Update(table=table):
                yield table, 1, 1
            case Delete(table=table):
                yield table, 2, 1
            case Splice():
                yield "context_items", 0, len(edit.inserted)
                yield "context_items", 2, len(edit.removed)
            case Renumber():
                yield "context_items", 1, len(edit.moves)


def inverse(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that take these back, in the opposite order; symbols must have been resolved."""
    return tuple(_inverse(edit) for edit in reversed(tuple(edits)))


def _inverse(edit: Edit) -> Edit:
    match edit:
        case Insert(table=table, row=row):
            return Delete(table, key_of(table, row), row)
        case Delete(table=table, before=before):
            return Insert(table, before)
        case Update():
            moved = {name: edit.after.get(name, value) for name, value in edit.key.values}
            return Update(edit.table, Cells.of(moved), edit.after, edit.before)
        case Splice():
            ahead, behind = edit.gap
            return Splice(
                edit.conversation_id,
                edit.after,
                edit.before,
                edit.inserted,
                edit.removed,
                -edit.shift,
                (ahead, None if behind is None else behind + edit.shift),
                (edit.copies[1], edit.copies[0]),
            )
        case Renumber():
            return Renumber(
                edit.conversation_id, tuple(Move(move.item, move.new, move.old) for move in edit.moves)
            )


#: The columns that name a row, by table (docs/format.md, "Tables"). A row of another table is named by all
#: its columns.
KEYS: Mapping[str, tuple[str, ...]] = {
    "conversations": ("conversation_id",),
    "messages": ("message_id",),
    "message_parts": ("part_id",),
    "summaries": ("summary_id",),
    "summary_messages": ("summary_id", "message_id"),
    "summary_parents": ("summary_id", "parent_summary_id"),
    "context_items": ("conversation_id", "ordinal"),
    "large_files": ("file_id",),
    "conversation_bootstrap_state": ("conversation_id",),
    "conversation_compaction_telemetry": ("conversation_id",),
    "conversation_compaction_maintenance": ("conversation_id",),
    "focus_briefs": ("brief_id",),
    "focus_brief_sources": ("brief_id", "summary_id", "role"),
    "message_transcript_anchor_trust": ("message_id",),
    "conversation_transcript_epochs": ("conversation_id",),
    "pending_compaction_batches": ("batch_id",),
    "pending_summary_nodes": ("node_id",),
    "pending_summary_node_messages": ("node_id", "message_id"),
    "pending_summary_node_children": ("node_id", "ordinal"),
    "turn_advancements": ("advancement_key",),
}


def key_of(table: str, row: Cells) -> Cells:
    """The columns of a row that name it."""
    columns = in_order(KEYS.get(table, row.columns))
    return Cells(columns, tuple([row[column] for column in columns]))


def ref_of(row: Cells) -> Ref:
    """What a whole row of ``context_items`` stands for."""
    found = row["summary_id"]
    if found is None:
        found = row["message_id"]
    return found if isinstance(found, int | str | Symbol) else None
