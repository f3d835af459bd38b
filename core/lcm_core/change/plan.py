"""A change as a value: its plan, the checks it would break, and the reasons why it was not made.

A plan lists every row that a change would touch, before and after (docs/spec/changes.md, "The plan"). There
is no I/O here. An operation returns a `Plan`; what is previewed is what is committed: the same value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Final

from lcm_core.base.errors import DatabaseBusyError, DatabaseError, ExitCode, LcmError, RefusedError
from lcm_core.base.text import clip, counted, safe_line
from lcm_core.base.values import Record, force_setattr, replace
from lcm_core.store.opening import SqlValue

#: Its rows change by `Splice`.
CONTEXT: Final = "context_items"


class SymbolKind(StrEnum):
    """What a symbol stands for until the commit knows it."""

    ID = "id"  #: the AUTOINCREMENT id of the row that holds it
    SEQ = "seq"  #: one more than the largest seq of the row's conversation
    ORDINAL = "ordinal"  #: one more than the largest ordinal of the row's conversation


class Symbol(Record, frozen=True):
    """A value that is resolved inside the transaction, so that an append by the host makes no plan stale."""

    name: str  #: ``new:1``; unique within a plan
    kind: SymbolKind


Cell = SqlValue | Symbol

#: What a context item stands for: a summary's id where it names one, else a message's; None: neither.
Ref = int | str | Symbol | None

#: A conversation, also one that the plan itself makes.
Owner = int | Symbol


class Cells(Record, frozen=True):
    """Columns and their values, by name: two tuples, as the rows of a plan mostly share the names."""

    columns: tuple[str, ...]  #: in the order of the names
    cells: tuple[Cell, ...]  #: one a column

    @classmethod
    def of(cls, values: Mapping[str, Cell]) -> Cells:
        """Columns in the order of their names, so that equal rows are equal values."""
        columns = sorted_names(tuple(values))
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

    def is_exactly(self, other: Cells) -> bool:
        """Whether both hold the same values with the same types; of numbers with a fraction that is open."""
        return self.columns == other.columns and all(
            type(one) is type(two) and one == two and not isinstance(one, float)
            for one, two in zip(self.cells, other.cells, strict=True)
        )

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
def sorted_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns as `Cells` has them: thousands of rows have the same ones."""
    return tuple(sorted(names))


class RowChange(Record, frozen=True):
    """A row comes, goes or changes; without *before* it comes, without *after* it goes.

    Of a row that comes or goes all columns are given (`insertion`, `deletion`), of one that changes those
    that do. Into ``context_items`` a row comes only with an ORDINAL symbol (an append); anything else there
    is a `Splice`.

    Raises:
        ValueError: it has neither side.
    """

    table: str
    key: Cells  #: what names the row, as it is before the change
    before: Cells | None
    after: Cells | None

    def __post_init__(self) -> None:
        if self.before is None and self.after is None:
            raise ValueError("a row change has a row before it or after it")

    @property
    def row(self) -> Cells:
        """What it says of the row: as it gets, or of one that goes, as it was."""
        row = self.before if self.after is None else self.after
        assert row is not None
        return row


def insertion(table: str, row: Cells) -> RowChange:
    """A whole row comes."""
    return RowChange(table, key_of(table, row), None, row)


def deletion(table: str, row: Cells) -> RowChange:
    """A whole row goes."""
    return RowChange(table, key_of(table, row), row, None)


class Item(Record, frozen=True):
    """What a context item stands for, and which of several equal ones it is."""

    ref: Ref  #: message id or summary id
    occurrence: int = 0  #: counted from 0 in order of ordinal, not counting the run of a splice
    copies: int = 1  #: how many are in the context, not counting the run of a splice

    @property
    def item_type(self) -> str:
        """``summary`` or ``message``."""
        return "summary" if isinstance(self.ref, str) else "message"


class Move(Record, frozen=True):
    """A context item and the ordinal it gets."""

    item: Item
    old: int
    new: int


class Splice(Record, frozen=True):
    """A run of context items gives way to another; or the items stay, and ordinals of them change.

    A run is looked up by identity, so the host may append, compact or prune around it. Rows are whole; their
    ordinals hold when the list still is as it was planned, else they move along.

    With *moves* it is a `renumbering`. Its items are named one by one and without their rows, must be at
    their old ordinals, and keep their order. What was appended behind the last of them since it was planned
    moves along where it would be in the way.

    Raises:
        ValueError: it has both a run and moves.
    """

    conversation_id: Owner
    after: Item | None  #: the neighbour before the run; None: the run begins the list
    before: Item | None  #: the neighbour behind it; None: the run ends the list
    removed: tuple[Cells, ...]
    inserted: tuple[Cells, ...]
    shift: int  #: by how much the ordinals of everything behind the run change
    gap: tuple[int | None, int | None] = (None, None)  #: ordinals of the neighbours before the change
    copies: tuple[int, int] = (0, 0)  #: items for what the removed run stands for, then for the inserted one
    moves: tuple[Move, ...] = ()

    def __post_init__(self) -> None:
        if self.moves and (self.removed or self.inserted):
            raise ValueError("either a run is replaced, or ordinals change one by one")


def renumbering(conversation_id: Owner, moves: Iterable[Move]) -> Splice:
    """Ordinals change, the order stays: gaps and abnormal ordinals."""
    return Splice(conversation_id, None, None, (), (), 0, moves=tuple(moves))


Edit = RowChange | Splice


def _changes_nothing(edit: Edit) -> bool:
    return isinstance(edit, RowChange) and edit.after is not None and not edit.after.values


def insertions(edits: Iterable[Edit]) -> Iterator[RowChange]:
    """The rows that come."""
    return (edit for edit in edits if isinstance(edit, RowChange) and edit.before is None)


def deletions(edits: Iterable[Edit]) -> Iterator[RowChange]:
    """The rows that go."""
    return (edit for edit in edits if isinstance(edit, RowChange) and edit.after is None)


class Keeping(StrEnum):
    """Where the edits of a plan are kept for its undo."""

    JOURNAL = "journal"  #: in the database; in a file only when they are very large
    APART = "apart"  #: in a file of their own unless they are small: the plan is there to save space
    NOWHERE = "nowhere"  #: never to be undone; what it deletes is overwritten in the file as well


class Plan(Record, frozen=True):
    """A change that has not been applied. An update that would not alter its row is not among its edits."""

    kind: str  #: dissolve, transplant, fix, undo ...
    title: str  #: one line for people
    conversation_id: int | None
    edits: tuple[Edit, ...]  # asyncio.run makes a repr of what it returns
    warnings: tuple[str, ...] = ()
    batch: str | None = None  #: plans that belong together
    undoes: str | None = None  #: the operation that this plan takes back
    #: keys of local findings that it may leave behind: what an undo brings back, or what an operation means
    #: to do (`lcm_core.change.plan`)
    allows: frozenset[str] = frozenset()
    select: str | int | None = None  #: the summary or message that a screen selects afterwards
    keeping: Keeping = Keeping.JOURNAL
    #: it means to take all that refers to what it deletes: whatever else refers to it came since
    whole: bool = False
    #: how many of the edits each commit makes, where several plans are seen as one; empty: all at once
    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(map(_changes_nothing, self.edits)):
            kept = tuple(edit for edit in self.edits if not _changes_nothing(edit))
            force_setattr(self, "edits", kept)

    @property
    def conversations(self) -> frozenset[int]:
        """Conversations whose context it changes."""
        touched = {edit.conversation_id for edit in self.edits if isinstance(edit, Splice)}
        return frozenset(one for one in (*touched, self.conversation_id) if isinstance(one, int))

    def __bool__(self) -> bool:
        return bool(self.edits)


class RowCount(Record, frozen=True):
    """How many rows of a table a plan touches."""

    table: str
    insert: int
    update: int
    delete: int


def rows_json(rows: Iterable[RowCount]) -> dict[str, Any]:
    """Rows for machines, by table."""
    return {one.table: {"insert": one.insert, "update": one.update, "delete": one.delete} for one in rows}


def row_counts(edits: Iterable[Edit]) -> tuple[RowCount, ...]:
    """Rows per table, tables in the order of their names; shifted context items are not counted."""
    return summed_rows(map(_row_count, edits))


def different_rows(edits: Iterable[Edit]) -> tuple[RowCount, ...]:
    """The same, but a row that several changes touch counts once, and one that comes and goes not at all."""
    ends: dict[tuple[str, Cells], tuple[bool, bool]] = {}
    splices: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Splice):
            splices.append(edit)
        else:
            existed, _ = ends.get((edit.table, edit.key), (edit.before is not None, False))
            ends[edit.table, edit.key] = (existed, edit.after is not None)
    rows = (
        RowCount(table, not was and now, was and now, was and not now)
        for (table, _), (was, now) in ends.items()
        if was or now
    )
    return summed_rows([*map(_row_count, splices), *rows])


def _row_count(edit: Edit) -> RowCount:
    if isinstance(edit, Splice):
        return RowCount(CONTEXT, len(edit.inserted), len(edit.moves), len(edit.removed))
    came, went = edit.before is None, edit.after is None
    return RowCount(edit.table, came, not came and not went, went)


def summed_rows(counts: Iterable[RowCount]) -> tuple[RowCount, ...]:
    """Counts of the same table added up."""
    found: dict[str, list[int]] = {}
    for one in counts:
        held = found.setdefault(one.table, [0, 0, 0])
        held[:] = held[0] + one.insert, held[1] + one.update, held[2] + one.delete
    return tuple(RowCount(table, *sums) for table, sums in sorted(found.items()))


_ROW_WORDS: Final = {"messages": "message", "summaries": "summary", CONTEXT: "context item"}


def rows_words(counts: Iterable[tuple[str, int]]) -> str:
    """``384 messages, 63 summaries, 900 other rows``: rows by their tables; empty when there are none."""
    by_table: Counter[str] = Counter()
    for table, count in counts:
        by_table[table] += count
    found = [counted(by_table.pop(table), word) for table, word in _ROW_WORDS.items() if by_table[table]]
    rest = sum(by_table.values())
    return ", ".join([*found, counted(rest, "other row" if found else "row")] if rest else found)


def title_of_several(kind: str, number: int, owners: Iterable[int | None], rows: Sequence[RowCount]) -> str:
    """One line about a *number* of changes that are seen as one, with all the *rows* that they touch."""
    several = set(owners)
    where = f"conversation {next(iter(several))}" if len(several) == 1 else f"{len(several)} conversations"
    said = (
        (rows_words((one.table, one.insert) for one in rows), "added"),
        (rows_words((one.table, one.update) for one in rows), "changed"),
        (rows_words((one.table, one.delete) for one in rows), "deleted"),
    )
    title = f"{kind.capitalize()}: {number:,} changes{'' if None in several else f' of {where}'}"
    return "; ".join([title, *(f"{words} {done}" for words, done in said if words)])


def touched_rows(edit: Edit) -> Iterator[tuple[str, bool, Cells]]:
    """The rows that an edit touches: the table, whether it is there afterwards, and what is known of it.

    A row that changes is two. An ordinal that changes is none.
    """
    if isinstance(edit, Splice):
        yield from ((CONTEXT, False, row) for row in edit.removed)
        yield from ((CONTEXT, True, row) for row in edit.inserted)
        return
    if edit.before is not None:
        yield edit.table, False, edit.before if edit.after is None else _named(edit.key, edit.before)
    if edit.after is not None:
        yield edit.table, True, edit.after if edit.before is None else _named(edit.key, edit.after)


def _named(key: Cells, some: Cells) -> Cells:
    return Cells.of({**key.as_dict(), **some.as_dict()})


def inverse(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that take these back, in the opposite order; symbols must have been resolved."""
    return tuple(_inverse(edit) for edit in reversed(tuple(edits)))


def _inverse(edit: Edit) -> Edit:
    if isinstance(edit, RowChange):
        key = edit.key
        if edit.before and edit.after:  # what names the row may change, too
            key = Cells.of({name: edit.after.get(name, value) for name, value in key.values})
        return RowChange(edit.table, key, edit.after, edit.before)
    ahead, behind = edit.gap
    return replace(
        edit,
        removed=edit.inserted,
        inserted=edit.removed,
        shift=-edit.shift,
        gap=(ahead, None if behind is None else behind + edit.shift),
        copies=(edit.copies[1], edit.copies[0]),
        moves=tuple(Move(move.item, move.new, move.old) for move in edit.moves),
    )


# -- symbols ---------------------------------------------------------------------------------------------

#: What symbols stand for, by name.
Values = Mapping[str, SqlValue]


def map_symbols(edit: Edit, to: Callable[[Symbol], Cell]) -> Edit:
    """The edit with something else in the place of each symbol; no other cell of a plan ever changes.

    Where only an id can be (a conversation, what an item stands for), anything but an id leaves the symbol.
    """
    if isinstance(edit, RowChange):
        key = _map_row(edit.key, to)
        before, after = edit.before and _map_row(edit.before, to), edit.after and _map_row(edit.after, to)
        if key is edit.key and before is edit.before and after is edit.after:
            return edit
        return RowChange(edit.table, key, before, after)
    owner = to(edit.conversation_id) if isinstance(edit.conversation_id, Symbol) else None
    return replace(
        edit,
        conversation_id=owner if isinstance(owner, int | Symbol) else edit.conversation_id,
        after=_map_item(edit.after, to) if edit.after else None,
        before=_map_item(edit.before, to) if edit.before else None,
        removed=tuple([_map_row(row, to) for row in edit.removed]),
        inserted=tuple([_map_row(row, to) for row in edit.inserted]),
        moves=tuple([Move(_map_item(move.item, to), move.old, move.new) for move in edit.moves]),
    )


def _map_row(row: Cells, to: Callable[[Symbol], Cell]) -> Cells:
    if not row.has_symbols:  # most rows have none
        return row
    return Cells(row.columns, tuple([to(cell) if isinstance(cell, Symbol) else cell for cell in row.cells]))


def _map_item(item: Item, to: Callable[[Symbol], Cell]) -> Item:
    ref = to(item.ref) if isinstance(item.ref, Symbol) else None
    return replace(item, ref=ref) if isinstance(ref, int | str | Symbol) else item


def substitute(edit: Edit, values: Values) -> Edit:
    """An edit with the symbols that are known by now; one that is not known yet stays."""
    return map_symbols(edit, lambda symbol: values.get(symbol.name, symbol)) if values else edit


def value_of(cell: Cell) -> SqlValue:
    """A value; None in place of a symbol that nobody knows yet."""
    return None if isinstance(cell, Symbol) else cell


def fill_row(row: Cells, values: Values) -> Cells:
    """A row with the symbols that are known by now."""
    return _map_row(row, lambda symbol: values.get(symbol.name, symbol)) if values else row


#: The columns that name a row, by table (docs/spec/format.md, "Tables"). A row of another table is named by
#: all its columns.
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
    "conversation_transcript_cursors": ("conversation_id",),
    "transcript_user_replay_keys": ("conversation_id", "transcript_entry_id"),
    "conversation_transcript_gaps": ("gap_id",),
}


def key_of(table: str, row: Cells) -> Cells:
    """The columns of a row that name it."""
    columns, places = _key_places(table, row.columns)
    return Cells(columns, tuple([row.cells[place] for place in places]))


@lru_cache(maxsize=256)
def _key_places(table: str, columns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The columns of a key, and where they are among a row's: thousands of rows have the same ones."""
    key = sorted_names(KEYS.get(table, columns))
    if lacking := set(key).difference(columns):
        raise KeyError(min(lacking))
    return key, tuple([columns.index(column) for column in key])


def ref_of(row: Cells) -> Ref:
    """What a whole row of ``context_items`` stands for."""
    found = row["summary_id"]
    if found is None:
        found = row["message_id"]
    return found if isinstance(found, int | str | Symbol) else None


# -- what a change would break ---------------------------------------------------------------------------
# The keys of local findings: what a change would break, and what an operation removed.
#
# A key is ``<check>:<conversation or ->:<kind>:<reference>``, for example ``A4:7:message:17``; the check is
# one of docs/spec/doctor.md. Keys are stable: the journal keeps those that an operation removed, so that
# an undo may restore exactly those.

#: Checks of references, by the column that refers.
_REFERENCES: Final[Mapping[tuple[str, str], str]] = {
    ("context_items", "message_id"): "A1",
    ("context_items", "summary_id"): "A2",
    ("summary_messages", "message_id"): "B3",
    ("summary_messages", "summary_id"): "B4",
    ("summary_parents", "summary_id"): "B4",
    ("summary_parents", "parent_summary_id"): "B4",
    ("message_parts", "message_id"): "E13",
    ("focus_brief_sources", "summary_id"): "G11",
}


#: What a key says where the same check finds different things, by check and kind.
_OF_KIND: Final[Mapping[tuple[str, str], str]] = {
    ("G11", "briefs"): "another focus brief of conversation {conversation} is active",
}


def fault_key(check: str, conversation_id: int, subject: Ref | tuple[str, int | str]) -> str:
    """Something wrong with a summary, a message (a symbol, until it has its id) or a line between two."""
    if isinstance(subject, tuple):
        kind = "edge" if isinstance(subject[1], str) else "link"
        return f"{check}:{conversation_id}:{kind}:{subject[0]}/{subject[1]}"
    kind = "summary" if isinstance(subject, str) else "message"
    return f"{check}:{conversation_id}:{kind}:{subject.name if isinstance(subject, Symbol) else subject}"


def briefs_key(conversation_id: SqlValue) -> str:
    """Several focus briefs of a conversation are active."""
    return f"G11:{conversation_id!s}:briefs:active"


def resolved(key: str, values: Mapping[str, SqlValue]) -> str:
    """A key with the id of a message that was planned by the name of its symbol."""
    place, kind, name = key.partition(":message:")
    return f"{place}{kind}{values[name]!s}" if name in values else key


def reference_key(table: str, column: str, value: SqlValue, conversation_id: SqlValue = None) -> str:
    """A reference without a target; *conversation_id* of a context item."""
    check = _REFERENCES.get((table, column), "FK")
    if isinstance(conversation_id, int):
        return f"{check}:{conversation_id}:{'message' if column == 'message_id' else 'summary'}:{value!s}"
    return f"{check}:-:{table}.{column}:{value!s}"


def sentence_of(key: str) -> str:
    """What a key says, as part of a sentence; the check's id follows it."""
    check, _, rest = key.partition(":")
    conversation, _, rest = rest.partition(":")
    kind, _, ref = rest.partition(":")
    from lcm_core.checks.running import CHECKS

    known = CHECKS[check].broken if check in CHECKS else ""
    pattern = _OF_KIND.get((check, kind)) or known or "{kind} refers to {ref}, which is missing"
    return f"{pattern.format(conversation=conversation, kind=kind, ref=ref)} ({check})"


# -- why a change was not made ---------------------------------------------------------------------------
# One sentence for people, and what a caller can act on. Nothing was written when any of these is raised.

#: Cells of a value in a message.
WIDTH = 60
#: Of many reasons this many are said in one sentence; all of them are in the exception.
SAID = 3


class Moved(Record, frozen=True):
    """Something that is not what it was when the plan was made."""

    what: str  #: a row and perhaps a column: ``summaries sum_0123: content``
    expected: str
    found: str

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.what} was {self.expected}, now {self.found}"


class StalePlanError(LcmError):
    """The database moved on since the plan was made: plan again."""

    exit_code: ClassVar[ExitCode] = ExitCode.STALE
    default_code: ClassVar[str] = "STALE_PLAN"
    advice: ClassVar[str] = "preview the change again"

    def __init__(self, moved: Iterable[Moved]) -> None:
        self.moved = tuple(moved)
        super().__init__(
            f"The database has changed since this was planned: {listed(one.text for one in self.moved)}. "
            f"Nothing was changed; {self.advice}.",
            details={"moved": len(self.moved)},
        )


class BusyError(DatabaseBusyError):
    """Another process held the lock for longer than we wait."""

    def __init__(self, path: object, waited: float) -> None:
        self.waited = waited  #: seconds
        super().__init__(
            f"{path} was locked by another process during the whole wait of {waited:.1f} s. Nothing "
            "was changed; wait until it has finished, or stop it, and try again.",
            details={"waitedSeconds": round(waited, 3)},
        )


class ReadOnlyError(DatabaseError):
    """The file or its folder cannot be written."""

    default_code: ClassVar[str] = "DATABASE_READ_ONLY"


class DiskFullError(DatabaseError):
    """There is no room for the change."""

    default_code: ClassVar[str] = "DISK_FULL"


class ReplacedError(DatabaseError):
    """Another file lies at the path than the one that was planned on."""

    exit_code: ClassVar[ExitCode] = ExitCode.STALE
    default_code: ClassVar[str] = "DATABASE_REPLACED"


class WouldBreakError(RefusedError):
    """The change would leave an error that was not there."""

    default_code: ClassVar[str] = "WOULD_BREAK"

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = frozenset(findings)  #: keys, as `lcm_core.change.plan` makes them
        reasons = listed(sentence_of(key) for key in sorted(self.findings))
        super().__init__(
            f"Refused because the change would break the database: {reasons}. Nothing was changed.",
            details={"findings": len(self.findings)},
        )


def listed(reasons: Iterable[str]) -> str:
    """Some reasons as part of a sentence, the first few of them."""
    found = [clip(safe_line(reason), WIDTH * 4) for reason in reasons]
    more = len(found) - SAID
    return "; ".join(found[:SAID]) + (f"; and {more:,} more" if more > 0 else "")


# -- what changed between a plan and its commit ----------------------------------------------------------


def differences(name: Callable[[], str], before: Cells, now: Cells) -> Iterable[Moved]:
    """The columns that do not hold what was recorded: by value and by type, as ``IS`` and ``typeof`` tell.

    *name* says what they are columns of; mostly nobody has to know.
    """
    held = now.as_dict()
    for column, expected in zip(before.columns, before.cells, strict=True):
        if column not in held:
            yield Moved(f"{name()}: column {column}", "there", "gone")
        elif (found := held[column]) != expected or type(found) is not type(expected):
            yield Moved(f"{name()}: {column}", *shown_apart(expected, found))


def shown_apart(one: Cell, other: Cell) -> tuple[str, str]:
    """Two values as a message names them: of two texts, one of them long, the place where they differ."""
    if not (isinstance(one, str) and isinstance(other, str) and max(len(one), len(other)) > WIDTH):
        return _shown(one), _shown(other)
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (this, that) in pairs if this != that), min(len(one), len(other)))
    start = max(same - WIDTH // 4, 0)
    before = "… " if start else ""
    said, instead = (
        f"'{before}{clip(safe_line(text[start : start + WIDTH].strip()), WIDTH * 2 // 3)}' "
        f"({counted(len(text), 'character')})"
        for text in (one, other)
    )
    return said, instead


def _shown(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str) and len(value) > WIDTH:
        return (
            f"a text of {len(value):,} characters beginning with {clip(safe_line(value[:WIDTH]), WIDTH // 2)}"
        )
    return safe_line(value) if isinstance(value, str) else str(value)


def row_name(table: str, key: Cells) -> str:
    """A row by its table and key."""
    return f"{table} {' '.join(_shown(value) for _, value in key.values)}"


def item_name(ref: Ref) -> str:
    """What a context item refers to."""
    return f"{Item(ref).item_type} {ref.name if isinstance(ref, Symbol) else ref}"


def context_name(owner: Owner) -> str:
    """The context of a conversation, which may be one that the plan makes."""
    return f"the context of conversation {owner.name if isinstance(owner, Symbol) else owner}"
