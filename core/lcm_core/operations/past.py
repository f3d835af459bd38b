"""The past of a conversation: its rows as they were at a point, and what changed (docs/spec/past.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from lcm_core.base.errors import LcmError
from lcm_core.base.text import counted
from lcm_core.base.times import iso_z, parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.journal import SEVERAL, Operation, edits_of, gaps, touching
from lcm_core.change.place import Listing, Tables, carry_out, carry_out_moves, locate
from lcm_core.change.plan import (
    CONTEXT,
    Cell,
    Cells,
    Edit,
    Ref,
    RowChange,
    Splice,
    differences,
    inverse,
    key_of,
    listed,
    ref_of,
    row_name,
)
from lcm_core.operations.past_point import Cut, Point, cut_at, seconds_of
from lcm_core.store.listing import snapshot_until
from lcm_core.store.opening import Rows, listed_values, quoted

# -- the rows of then ------------------------------------------------------------------------------------
# Worked out from those of now and the operations since. Pure.
#
# Operations are taken back one after the other, the newest first. Before each, the context is brought to
# the moment of that operation: what the host appended later goes, and what the host compacted later is
# opened into what its links name. So the list is what the operation left behind, unless the host changed it
# without a trace; then that is said, and nothing replaces it.

#: A row of a database: its table, and the columns that name it.
RowKey = tuple[str, Cells]

SUMMARIES: Final = "summaries"
LINKS: Final = "summary_messages"
#: The tables of a summary and its links, and the column of links that names a source.
SOURCES: Final = {"summary_parents": "parent_summary_id", LINKS: "message_id"}
OF_SUMMARIES: Final = frozenset({SUMMARIES, *SOURCES})
#: Ids of one kind that a statement names.
_NAMED: Final = 3


class Doubt(StrEnum):
    """Why a state is not only what the journal says."""

    APPENDED = "appended"  #: the host added it later: left out, for its time proves it
    COMPACTED = "compacted"  #: the host compacted it later: opened into what the links name
    MADE_LATER = "made-later"  #: its item is newer, and nothing says what was in its place: shown
    SAME_SECOND = "same-second"  #: added in the second of the point: shown
    CONTEXT = "context"  #: the context was not as an operation left it
    ROW = "row"  #: a row was not as an operation left it
    UNREADABLE = "unreadable"  #: the record of an operation cannot be read
    PRUNED = "pruned"  #: operations were removed from the history


class Statement(Record, frozen=True):
    """One sentence about what is not known, or what was told by other means than the journal."""

    doubt: Doubt
    text: str
    operation_id: str | None = None

    @property
    def certain(self) -> bool:
        """Whether the state is the true one all the same: only what came later was left out."""
        return self.doubt is Doubt.APPENDED


class Taken(Record, frozen=True):
    """An operation to take back; without edits where its record cannot be read, and why."""

    operation: Operation
    edits: tuple[Edit, ...]
    problem: str | None = None


class Present(Record, frozen=True):
    """What is in the file now, as far as the past of one conversation needs it."""

    conversation_id: int
    context: Listing  #: its rows are rowids
    #: when an item was added, by rowid; only of those that may be newer than the point, in seconds
    added: Mapping[int, int]
    rows: Mapping[RowKey, Cells]  #: those that edits name and that exist, whole
    #: when a summary was made, likewise; only of those that may be newer than the point
    made: Mapping[str, int]
    sources: Mapping[str, tuple[Ref, ...]]  #: of the summaries in `made`, in order
    said: Mapping[int, int]  #: when a message was stored; only of those that may be newer than the point
    #: messages that were stored after the point, and the summaries that are linked to each
    arrived: Mapping[int, tuple[str, ...]]
    #: what operations before the point put into the context in its very second
    known: frozenset[Ref] = frozenset()


class Item(Record, frozen=True):
    """An item of the context of then."""

    ordinal: int
    ref: Ref
    row: int | Cells  #: the rowid of the item that is there now, or the whole row


class Earlier(Record, frozen=True):
    """A conversation as it was, as what differs from now."""

    conversation_id: int
    items: tuple[Item, ...] | None  #: the context; None: as it is now
    rows: Mapping[RowKey, Cells | None]  #: those that were otherwise; None: not there
    later: frozenset[str]  #: summaries that another writer made since
    arrived: frozenset[int]  #: messages that another writer stored since
    statements: tuple[Statement, ...]
    there: frozenset[RowKey]  #: those of `rows` that are there now
    refs_now: tuple[Ref, ...]  #: messages and summaries that today's context represents

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The messages and summaries that the context represented."""
        return self.refs_now if self.items is None else tuple([item.ref for item in self.items])


def rebuild(present: Present, taken: Sequence[Taken], seconds: int) -> Earlier:
    """Take back *taken*, the newest first, to the point at *seconds* since 1970."""
    back = _Back(present)
    for one in taken:
        back.take(one)
    back.cut_at(seconds, frozenset(), at_the_point=True)
    later = back.made_since(seconds)
    rows = back.changed(later)
    return Earlier(
        present.conversation_id,
        back.items(),
        rows,
        later - back.gone(),
        back.arrived_since(later),
        tuple(back.statements()),
        frozenset(key for key in rows if key in present.rows),
        tuple(present.context.refs),
    )


class _Back:
    """The state on its way back."""

    def __init__(self, present: Present) -> None:
        self.present = present
        self.context = present.context.copy()
        self.rows: dict[RowKey, Cells | None] = dict(present.rows)
        self._touched: set[RowKey] = set()
        #: what an operation names that was there before its own time, if its time were right
        self._untimed: set[Ref] = set()
        self._appended = 0
        self._opened: list[Ref] = []  #: summaries of the host that were replaced by their sources
        self._doubts: list[Statement] = []

    def take(self, one: Taken) -> None:
        """Take one operation back."""
        named = f"operation {one.operation.id}"
        if one.problem is not None:
            lost = "cannot be read, so what it changed is not reversed"
            text = f"Operation {one.operation.id} {lost}: {one.problem}"
            self._doubts.append(Statement(Doubt.UNREADABLE, text, one.operation.id))
            return
        owner = self.present.conversation_id
        splices = [edit for edit in one.edits if isinstance(edit, Splice) and edit.conversation_id == owner]
        seconds = seconds_of(one.operation.created_at)
        self.cut_at(seconds, frozenset(_mentioned(splices)))
        moved: list[str] = []
        for edit in inverse(one.edits):
            if isinstance(edit, RowChange):
                moved += self._change(edit, seconds)
            elif edit.conversation_id == owner and (problem := self._splice(edit)):
                text = f"The context is not as {named} left it: {problem}. That change is not reversed."
                self._doubts.append(Statement(Doubt.CONTEXT, text, one.operation.id))
        if moved:
            text = f"Another program changed rows since {named}: {listed(moved)}. Shown is what it replaced."
            self._doubts.append(Statement(Doubt.ROW, text, one.operation.id))

    def items(self) -> tuple[Item, ...] | None:
        """The context; None where it is as it is now."""
        context = self.context
        if context == self.present.context:
            return None
        return tuple(map(Item, context.ordinals, context.refs, context.rows))

    def changed(self, later: Collection[str]) -> dict[RowKey, Cells | None]:
        """The rows that were otherwise; those of summaries that were made *later* were not there."""
        found: dict[RowKey, Cells | None] = {}
        for key in sorted(self._touched, key=repr):
            row = self.rows.get(key)
            if row is not None and key[0] in OF_SUMMARIES and row.get("summary_id") in later:
                row = None
            if row != self.present.rows.get(key):
                found[key] = row
        return found

    def gone(self) -> frozenset[str]:
        """The summaries that operations have deleted since."""
        return frozenset(
            str(key[1].cells[0])
            for key in self._touched
            if key[0] == SUMMARIES and key not in self.present.rows
        )

    def made_since(self, seconds: int) -> frozenset[str]:
        """The summaries that another writer made after the point, except those that the context shows."""
        shown = set(self.context.refs)
        return frozenset(
            name
            for name, made in self.present.made.items()
            if made > seconds and name not in shown and name not in self._untimed
        )

    def arrived_since(self, later: frozenset[str]) -> frozenset[int]:
        """The messages that another writer stored later, except those that something of then names."""
        named = {ref for ref in (*self.context.refs, *self._untimed) if isinstance(ref, int)}
        gone = {key[1].cells[0] for key, row in self.rows.items() if key[0] == SUMMARIES and row is None}
        gone |= later
        for (table, _), row in self.rows.items():
            if table == LINKS and row is not None and isinstance(ref := row.get("message_id"), int):
                named.add(ref)
        return frozenset(
            message
            for message, summaries in self.present.arrived.items()
            if message not in named and gone.issuperset(summaries)
        )

    def statements(self) -> Iterator[Statement]:
        """What is to be said of the state, the most telling first."""
        yield from self._doubts
        if self._opened:
            text = (
                f"The host compacted into {_names(self._opened)} after this point. Shown in their place is "
                "what their links name as sources."
            )
            yield Statement(Doubt.COMPACTED, text)
        if self._appended:
            what = counted(self._appended, "item was", "items were")
            text = f"{what} added to the context after this point by the host: left out."
            yield Statement(Doubt.APPENDED, text)

    # -- rows --------------------------------------------------------------------------------------------

    def _change(self, edit: RowChange, seconds: int) -> Iterator[str]:
        """Take back a change of one row; yields what was not as the operation left it."""
        key = edit.table, edit.key
        now = self.rows.get(key)
        self._touched.add(key)
        if edit.after is not None and edit.table == SUMMARIES:
            name = str(edit.key.cells[0])
            if self.present.made.get(name, seconds) > seconds:
                self._untimed.add(name)
        if edit.after is None:  # the operation had put it there
            self.rows[key] = None
        elif edit.before is None:  # the operation had taken it away
            if now is not None:
                yield f"{row_name(*key)} is there again"
            self.rows[key] = edit.after
        elif now is None:
            yield f"{row_name(*key)} is gone, and not all of it is known"
        else:
            before = edit.before
            yield from (one.text for one in differences(lambda: row_name(*key), before, now))
            row = Cells.of({**now.as_dict(), **edit.after.as_dict()})
            self.rows[key] = None
            then = edit.table, key_of(edit.table, row)
            self._touched.add(then)
            self.rows[then] = row

    # -- the context -------------------------------------------------------------------------------------

    def _splice(self, edit: Splice) -> str | None:
        """Take back a change of the context; why it cannot be."""
        if edit.moves:
            done = carry_out_moves(self.context, edit)
            return done if isinstance(done, str) else None
        place = locate(self.context, edit, {})
        if isinstance(place, str):
            return place
        carry_out(self.context, edit.conversation_id, place, edit.removed, edit.inserted)
        return None

    def cut_at(self, seconds: int, mentioned: frozenset[Ref], *, at_the_point: bool = False) -> None:
        """Bring the list to a moment: open what was compacted later, leave out what was added later.

        What the operation of that moment itself *mentioned* was there, whatever its time says.
        """
        if not (self.present.added or self.present.made or self.present.said):
            return  # nothing is newer than the point
        self._untimed |= {ref for ref in mentioned if self._is_later(ref, seconds)}
        while (at := self._compacted_later(seconds)) is not None:
            self._open(at, seconds)
        later = [
            at
            for at, ref in enumerate(self.context.refs)
            if isinstance(ref, int) and self._is_later(ref, seconds)
        ]
        for at in reversed(later):
            self._replace(at, ())
        self._appended += len(later)
        if at_the_point:
            self._doubts += self._unsure(seconds)

    def _is_later(self, ref: Ref, seconds: int) -> bool:
        """Whether the time of a message or summary itself proves that it was not there yet."""
        if ref in self._untimed:
            return False
        if isinstance(ref, str):
            return self.present.made.get(ref, seconds) > seconds
        return isinstance(ref, int) and self.present.said.get(ref, seconds) > seconds

    def _unsure(self, seconds: int) -> Iterator[Statement]:
        """What may or may not have been there at the point."""
        refs, rows = self.context.refs, self.context.rows
        same = [
            ref
            for ref, row in zip(refs, rows, strict=True)
            if isinstance(row, int)
            and self.present.added.get(row) == seconds
            and ref not in self.present.known
        ]
        if same:
            text = (
                f"Added to the context in the very second of this point, before or after it: {_names(same)}. "
                "Shown."
            )
            yield Statement(Doubt.SAME_SECOND, text)
        newer = [
            ref
            for ref, row in zip(refs, rows, strict=True)
            if ref not in self._untimed
            and (
                self._is_later(ref, seconds)
                or (isinstance(row, int) and self.present.added.get(row, seconds) > seconds)
            )
        ]
        if newer:
            text = (
                "Added to the context after this point, and nothing says what was in its place: "
                f"{_names(newer)}. Shown."
            )
            yield Statement(Doubt.MADE_LATER, text)

    def _compacted_later(self, seconds: int) -> int | None:
        """The place of a summary that another writer made later, and whose sources are known.

        Each is opened once: in a damaged file one can be below itself.
        """
        for at, ref in enumerate(self.context.refs):
            if not isinstance(ref, str) or ref in self._opened:
                continue
            if self._is_later(ref, seconds) and self.present.sources.get(ref):
                return at
        return None

    def _open(self, at: int, seconds: int) -> None:
        """Put what a summary was made from in its place."""
        name = self.context.refs[at]
        assert isinstance(name, str)
        sources = [
            ref
            for ref in self.present.sources[name]
            if not (isinstance(ref, int) and self._is_later(ref, seconds))
        ]
        self._replace(at, sources)
        self._opened.append(name)

    def _replace(self, at: int, refs: Sequence[Ref]) -> None:
        """Others take the place of one item; what follows moves up or down."""
        context, shift = self.context, len(refs) - 1
        first = context.ordinals[at]
        behind = [ordinal + shift for ordinal in context.ordinals[at + 1 :]]
        ordinals = list(range(first, first + len(refs)))
        rows: list[int | Cells] = [
            self._row(ref, ordinal) for ref, ordinal in zip(refs, ordinals, strict=True)
        ]
        context.ordinals[at:] = [*ordinals, *behind]
        context.refs[at : at + 1] = refs
        context.rows[at : at + 1] = rows

    def _row(self, ref: Ref, ordinal: int) -> Cells:
        """An item of which only its message or summary is known."""
        is_summary = isinstance(ref, str)
        row: dict[str, Cell] = {
            "conversation_id": self.present.conversation_id,
            "ordinal": ordinal,
            "item_type": "summary" if is_summary else "message",
            "message_id": None if is_summary else ref,
            "summary_id": ref if is_summary else None,
            "created_at": "",
        }
        return Cells.of(row)


def _mentioned(splices: Iterable[Splice]) -> Iterator[Ref]:
    """What was in the context when an operation had been committed, as far as it says so."""
    for splice in splices:
        yield from (ref_of(row) for row in splice.inserted)
        yield from (one.ref for one in (splice.after, splice.before) if one is not None)
        yield from (move.item.ref for move in splice.moves)


def _names(refs: Sequence[Ref]) -> str:
    named = [ref if isinstance(ref, str) else f"message {ref}" for ref in refs]
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def row_keys(edits: Iterable[Edit]) -> Iterator[RowKey]:
    """The rows that edits name, but for items of contexts: as they are after them, and before them."""
    for edit in edits:
        if isinstance(edit, RowChange) and edit.table != CONTEXT:
            yield edit.table, edit.key
            if edit.before is not None and edit.after is not None:
                changed = {name: edit.after.get(name, value) for name, value in edit.key.values}
                yield edit.table, Cells.of(changed)


def concerns(operation: Operation, edits: Iterable[Edit], conversation_id: int) -> bool:
    """Whether an operation may have changed a conversation; one that says nothing of whose it is, does."""
    if operation.conversation_id == conversation_id:
        return True
    for edit in edits:
        if isinstance(edit, Splice):
            if edit.conversation_id == conversation_id:
                return True
            continue
        owners = [side.get("conversation_id") for side in (edit.key, edit.before, edit.after) if side]
        if conversation_id in owners or (operation.conversation_id is None and not any(owners)):
            return True
    return False


# -- reading it ------------------------------------------------------------------------------------------
# What the past is worked out from: operations, and the rows of now that they name.

#: Messages that are looked at beyond the last one that was stored later.
ROWS_BEHIND: Final = 500

#: Edits that have been read, by operation: they never change.
Read = dict[str, Taken]


class Found(Record, frozen=True):
    """A conversation as it was at a point, and the operations around it."""

    cut: Cut
    earlier: Earlier
    operations: tuple[Operation, ...]  #: all that changed the conversation, the newest first
    #: the newest snapshot that an engine of ours kept until then, and when
    snapshot: tuple[str, str] | None
    compaction: str | None = None  #: when the host compacted in the very next second; None: it did not

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What is not known, or was told by other means than the journal."""
        return self.earlier.statements

    @property
    def older(self) -> Point | None:
        """The moment before the operation in front of this point; None: there is none."""
        place = len(self.cut.taken)
        return Point(self.operations[place].id) if place < len(self.operations) else None

    @property
    def newer(self) -> Point | None:
        """The moment before the next newer operation; None: the next step is the present."""
        place = len(self.cut.taken) - 2
        return Point(self.operations[place].id) if place >= 0 else None


def operations_on(db: Rows, conversation_id: int, read: Read) -> tuple[Operation, ...]:
    """The operations that changed a conversation, the newest first; their undos and redos are among them."""
    found = touching(db, conversation_id)
    roots = {one.id: one for one in found}
    kept = []
    for one in found:
        if one.conversation_id == conversation_id:
            kept.append(one)
        elif one.conversation_id is None or _root(one, roots).kind in SEVERAL:
            taken = taken_of(db, one, read)
            if taken.problem is not None or concerns(one, taken.edits, conversation_id):
                kept.append(one)
    return tuple(kept)


def _root(one: Operation, by_id: Mapping[str, Operation]) -> Operation:
    """What an undo or redo is of, as far as the journal has it."""
    seen = {one.id}
    while one.undoes is not None and one.undoes in by_id and one.undoes not in seen:
        one = by_id[one.undoes]
        seen.add(one.id)
    return one


def read_past(db: Rows, tables: Tables, conversation_id: int, point: Point, read: Read) -> Found:
    """A conversation as it was; *read* keeps what was read of operations, for the next point.

    Raises:
        NotFoundError: the operation of the point is not in the history, or did not change the conversation.
        UsageError: several operations begin so.
    """
    operations = operations_on(db, conversation_id, read)
    cut = cut_at(point, operations)
    taken = [taken_of(db, one, read) for one in cut.taken]
    same = [one for one in operations if seconds_of(one.created_at) == cut.seconds and one not in cut.taken]
    known = frozenset(_put(taken_of(db, one, read).edits for one in same))
    present = _present(db, tables, conversation_id, cut.seconds, taken, known)
    earlier = rebuild(present, taken, cut.seconds)
    pruned = tuple(_pruned(db, cut))
    earlier = replace(earlier, statements=(*pruned, *earlier.statements))
    snapshot = snapshot_until(db, conversation_id, cut.seconds)
    return Found(cut, earlier, operations, snapshot, _compaction_behind(cut, taken, present))


def _compaction_behind(cut: Cut, taken: Sequence[Taken], present: Present) -> str | None:
    behind = cut.seconds + 1
    made = {name for name, when in present.made.items() if when == behind} - made_by(taken)
    return iso_z(datetime.fromtimestamp(behind, UTC)) if made and cut.beside is None else None


def made_by(taken: Sequence[Taken]) -> frozenset[str]:
    """The summaries that some operations (the newest first) made, not those that an undo brought back."""
    first: dict[str, bool] = {}
    for one in reversed(taken):
        for edit in one.edits:
            if isinstance(edit, RowChange) and edit.table == SUMMARIES:
                first.setdefault(str(edit.key.cells[0]), edit.before is None)
    return frozenset(name for name, made in first.items() if made)


def taken_of(db: Rows, one: Operation, read: Read) -> Taken:
    """An operation with its edits; *read* keeps them."""
    if one.id not in read:
        try:
            read[one.id] = Taken(one, edits_of(db, one))
        except LcmError as error:  # an export that is gone, a record that is damaged
            read[one.id] = Taken(one, (), error.message)
    return replace(read[one.id], operation=one)


def _put(edits: Iterable[Sequence[Edit]]) -> Iterable[Ref]:
    """What some operations put into contexts."""
    return (
        ref_of(row) for some in edits for edit in some if isinstance(edit, Splice) for row in edit.inserted
    )


def _pruned(db: Rows, cut: Cut) -> Iterable[Statement]:
    """Operations that the history had and has no more, behind the point."""
    oldest = cut.taken[-1].place if cut.taken else None
    number, first = gaps(db, oldest)
    if number:
        many = counted(number, "operation was", "operations were")
        text = f"{many} removed from the history since this point: what they changed is not reversed."
        yield Statement(Doubt.PRUNED, text)
    elif cut.beside is None and first is not None and first.place > 1:
        made = parse_utc(first.created_at)
        if made is not None and cut.seconds < made.timestamp():
            text = (
                f"The history begins with operation {first.id} of {iso_z(made)}; older ones were removed. "
                "What they changed after this point is not reversed."
            )
            yield Statement(Doubt.PRUNED, text)


# -- the rows of now -------------------------------------------------------------------------------------


def _present(
    db: Rows,
    tables: Tables,
    conversation_id: int,
    seconds: int,
    taken: Sequence[Taken],
    known: frozenset[Ref],
) -> Present:
    # Both formats of times begin with the date, which the index finds; then they are compared as times.
    day = _day_of(seconds)
    made: dict[str, int] = {}
    if "created_at" in tables.get("summaries", ()):
        made = dict(
            db.tuples(
                """SELECT summary_id, CAST(strftime('%s', created_at) AS INTEGER) AS made FROM main.summaries
                WHERE conversation_id = ? AND created_at >= ? AND made > ?""",
                (conversation_id, day, seconds),
            )
        )
    deleted = _deleted(taken)  # no row of now says when they were made
    made |= {name: when for name, (when, _) in deleted.items() if when > seconds}
    timed = "created_at" in tables.get("context_items", ())
    context, added = _context(db, tables, conversation_id, day)
    opened = {name: refs for name, (_, refs) in deleted.items() if name in made}
    first = [ref for refs in (context.refs, *opened.values()) for ref in refs]
    sources = _sources(
        db, tables, [ref for ref in dict.fromkeys(first) if isinstance(ref, str) and ref in made], made
    )
    sources |= opened
    may_be_later = {
        ref
        for ref, row in zip(context.refs, context.rows, strict=True)
        if isinstance(ref, int) and (row in added or not timed)
    }
    may_be_later |= {ref for some in sources.values() for ref in some if isinstance(ref, int)}
    said = {ref: when for ref, when in _said(db, may_be_later).items() if when >= seconds}
    keys = dict.fromkeys(key for one in taken for key in row_keys(one.edits))
    rows = _rows(db, tables, keys)
    arrived = _arrived(db, tables, conversation_id, seconds)
    return Present(conversation_id, context, added, rows, made, sources, said, arrived, known)


def _deleted(taken: Sequence[Taken]) -> dict[str, tuple[int, tuple[Ref, ...]]]:
    """When the summaries were made that operations have deleted, and what from."""
    made: dict[str, int] = {}
    links: dict[str, list[tuple[int, Ref]]] = {}
    for edit in (edit for one in taken for edit in one.edits if isinstance(edit, RowChange)):
        row = edit.before
        if row is None or edit.after is not None or edit.table not in OF_SUMMARIES:
            continue
        name, stored = str(row.get("summary_id")), row.get("created_at")
        if edit.table == SUMMARIES:
            made.setdefault(name, seconds_of(stored if isinstance(stored, str) else None))
            continue
        ref, ordinal = row.get(SOURCES[edit.table]), row.get("ordinal")
        if isinstance(ref, int | str):
            links.setdefault(name, []).append((ordinal if isinstance(ordinal, int) else 0, ref))
    return {
        name: (when, tuple(ref for _, ref in sorted(links.get(name, ()), key=lambda one: one[0])))
        for name, when in made.items()
    }


def _day_of(seconds: int) -> str:
    """The date of a moment, as stored times begin."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _context(db: Rows, tables: Tables, conversation_id: int, day: str) -> tuple[Listing, dict[int, int]]:
    if "context_items" not in tables:
        return Listing([], [], []), {}
    timed = "created_at" in tables["context_items"]
    when = (
        "CASE WHEN created_at >= ? THEN CAST(strftime('%s', created_at) AS INTEGER) END" if timed else "NULL"
    )
    rows = db.tuples(
        f"""SELECT ordinal, message_id, summary_id, rowid, {when} FROM main.context_items
        WHERE conversation_id = ? ORDER BY ordinal""",
        (*((day,) if timed else ()), conversation_id),
    )
    listing, added = Listing([], [], []), {}
    for ordinal, message_id, summary_id, rowid, made in rows:
        listing.ordinals.append(ordinal if isinstance(ordinal, int) else 0)
        listing.refs.append(message_id if summary_id is None else summary_id)
        listing.rows.append(rowid)
        if made is not None:
            added[rowid] = made
    return listing, added


def _sources(
    db: Rows, tables: Tables, first: Sequence[str], made: Mapping[str, int]
) -> dict[str, tuple[Ref, ...]]:
    """What summaries of the context were made from, and those of their sources that are as new."""
    found: dict[str, tuple[Ref, ...]] = {}
    wanted = list(first)
    while wanted:
        below: dict[str, list[Ref]] = {name: [] for name in wanted}
        for table, column in SOURCES.items():
            if table in tables:
                for row in db.rows_in(
                    f"SELECT summary_id, {column} AS source FROM main.{table} WHERE summary_id IN (?*) "
                    f"ORDER BY ordinal, {column}",
                    wanted,
                ):
                    below[row["summary_id"]].append(row["source"])
        found |= {name: tuple(sources) for name, sources in below.items()}
        new = (ref for sources in below.values() for ref in sources)
        again = (ref for ref in dict.fromkeys(new) if isinstance(ref, str) and ref in made)
        wanted = [ref for ref in again if ref not in found]
    return found


def _arrived(db: Rows, tables: Tables, conversation_id: int, seconds: int) -> dict[int, tuple[str, ...]]:
    """The messages that were stored later, and the summaries that are linked to each.

    They are looked for from the newest on, until of `ROWS_BEHIND` in a row none is later: the time is behind
    the text, and reading it of all messages takes as long as reading them.
    """
    if "created_at" not in tables.get("messages", ()):
        return {}
    found: dict[int, tuple[str, ...]] = {}
    behind, parameters = "", [conversation_id]
    while True:
        rows = db.tuples(
            f"""SELECT seq, message_id, CAST(strftime('%s', created_at) AS INTEGER) FROM main.messages
            WHERE conversation_id = ? {behind} ORDER BY seq DESC, message_id DESC LIMIT {ROWS_BEHIND}""",
            parameters,
        )
        later = [name for _, name, when in rows if when is not None and when > seconds]
        found |= dict.fromkeys(later, ())
        if not later or len(rows) < ROWS_BEHIND:
            break
        behind, parameters = "AND (seq, message_id) < (?, ?)", [conversation_id, *rows[-1][:2]]
    if "summary_messages" in tables:
        linked = "SELECT summary_id, message_id FROM main.summary_messages WHERE message_id IN (?*)"
        for summary_id, message_id in db.rows_in(linked, found):
            found[message_id] += (summary_id,)
    return found


def _said(db: Rows, message_ids: Iterable[int]) -> dict[int, int]:
    rows = db.rows_in(
        "SELECT message_id, CAST(strftime('%s', created_at) AS INTEGER) AS said FROM main.messages "
        "WHERE message_id IN (?*)",
        message_ids,
    )
    return {row["message_id"]: row["said"] for row in rows if row["said"] is not None}


def _rows(db: Rows, tables: Tables, keys: Iterable[RowKey]) -> dict[RowKey, Cells]:
    """The whole rows that some keys name, as they are."""
    found: dict[RowKey, Cells] = {}
    single: dict[tuple[str, str], list[RowKey]] = {}
    for table, key in keys:
        if not tables.get(table, frozenset()).issuperset(key.columns):
            continue
        if len(key.columns) == 1:
            single.setdefault((table, key.columns[0]), []).append((table, key))
            continue
        where = " AND ".join(f"{quoted(name)} IS ?" for name in key.columns)
        sql = f"SELECT {listed_values(tables[table])} FROM main.{quoted(table)} WHERE {where} LIMIT 1"
        for row in db.rows(sql, _values(key)):
            found[table, key] = Cells.of(dict(row))
    for (table, column), named in single.items():
        values = {_values(key)[0]: (one, key) for one, key in named}
        sql = (
            f"SELECT {listed_values(tables[table])} FROM main.{quoted(table)} WHERE {quoted(column)} IN (?*)"
        )
        for row in db.rows_in(sql, values):
            found[values[row[column]]] = Cells.of(dict(row))
    return found


def _values(key: Cells) -> tuple[int | float | str | bytes | None, ...]:
    """The values of a key; the edits of the journal have no symbols."""
    return tuple([cell for cell in key.cells if cell is None or isinstance(cell, int | float | str | bytes)])


# -- what changed since ----------------------------------------------------------------------------------
# Items of the context, and summaries. Pure.


class Since(Record, frozen=True):
    """What came, went and changed between a point and now."""

    left: tuple[Ref, ...]  #: what the context represented then and does not now, in the order of then
    joined: tuple[Ref, ...]  #: what it represents now and did not then, in the order of now
    made: tuple[str, ...]  #: summaries that were not there
    gone: tuple[str, ...]  #: summaries that no longer exist
    changed: tuple[str, ...]  #: summaries of which some column is another one

    def __bool__(self) -> bool:
        return bool(self.left or self.joined or self.made or self.gone or self.changed)


def since(earlier: Earlier) -> Since:
    """Compare a state with that of now."""
    then, now = earlier.refs, earlier.refs_now
    made: list[str] = []
    gone: list[str] = []
    changed: list[str] = []
    for key, row in earlier.rows.items():
        if key[0] != SUMMARIES:
            continue
        name = str(key[1].cells[0])
        (made if row is None else changed if key in earlier.there else gone).append(name)
    return Since(
        tuple(_beyond(then, now)),
        tuple(_beyond(now, then)),
        tuple(sorted({*made, *earlier.later})),
        tuple(sorted(gone)),
        tuple(sorted(changed)),
    )


def _beyond(some: Iterable[Ref], others: Iterable[Ref]) -> Iterator[Ref]:
    """Those of *some* that are not among *others*, each as often as it is missing there."""
    there = Counter(others)
    for ref in some:
        if there[ref]:
            there[ref] -= 1
        else:
            yield ref


# -- where stepping through the past stops ---------------------------------------------------------------
# At our operations, and at the host's compactions. The journal has none of these; summaries have times, so
# the moment before one is a time like any other (docs/spec/past.md).

#: Summaries that are made so soon after each other belong to one compaction: a model takes its time.
TOGETHER_SECONDS: Final = 300


class Compaction(Record, frozen=True):
    """Summaries that the host made one soon after the other."""

    began: int  #: when the first one was stored, in seconds since 1970
    summaries: int

    @property
    def created_at(self) -> str:
        """When the first one was stored."""
        return iso_z(datetime.fromtimestamp(self.began, UTC))

    @property
    def point(self) -> Point:
        """The last second before it."""
        return Point(when=datetime.fromtimestamp(self.began, UTC) - timedelta(seconds=1))


Stop: TypeAlias = Operation | Compaction


def point_before(stop: Stop) -> Point:
    """The moment before an operation or a compaction."""
    return stop.point if isinstance(stop, Compaction) else Point(stop.id)


def stops_on(db: Rows, tables: Tables, conversation_id: int, read: Read) -> tuple[Stop, ...]:
    """The operations that changed a conversation and the compactions of its host, the newest first."""
    operations = operations_on(db, conversation_id, read)
    touching = [one for one in operations if any(row.table == SUMMARIES for row in one.rows)]
    ours = made_by([taken_of(db, one, read) for one in touching])
    compactions = _compactions(db, tables, conversation_id, ours)
    stops: list[Stop] = list(operations)
    for place, one in enumerate(compactions):
        # Those before it in the list are in already.
        stops.insert(place + len(cut_at(one.point, operations).taken), one)
    return tuple(stops)


def stops_since(stops: Sequence[Stop], point: Point) -> int:
    """How many of *stops* came after a point.

    Raises:
        NotFoundError: the operation of the point is not among them.
        UsageError: several begin so.
    """
    cut = cut_at(point, tuple([stop for stop in stops if isinstance(stop, Operation)]))
    for place, stop in enumerate(stops):
        if point_before(stop) == cut.point:
            return place + 1
    ids = {one.id for one in cut.taken}
    return sum(stop.began > cut.seconds if isinstance(stop, Compaction) else stop.id in ids for stop in stops)


def _compactions(db: Rows, tables: Tables, conversation_id: int, ours: Collection[str]) -> list[Compaction]:
    """The newest first."""
    if "created_at" not in tables.get(SUMMARIES, ()):
        return []
    rows = db.tuples(
        """SELECT summary_id, CAST(strftime('%s', created_at) AS INTEGER) AS made FROM main.summaries
        WHERE conversation_id = ? AND made IS NOT NULL ORDER BY made""",
        (conversation_id,),
    )
    found: list[Compaction] = []
    last = 0
    for name, made in rows:
        if name in ours:
            continue
        if found and made - last <= TOGETHER_SECONDS:
            found[-1] = Compaction(found[-1].began, found[-1].summaries + 1)
        elif made >= _FIRST:
            found.append(Compaction(made, 1))
        last = made
    return found[::-1]


#: No engine is older: what is stored with an earlier time says nothing of when it was made.
_FIRST: Final = 946_684_800  # 2000-01-01
