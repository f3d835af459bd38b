"""The rows of a conversation as they were, from those of now and the operations since (docs/past.md). Pure.

Operations are taken back one after the other, the newest first. Before each, the context is brought to the
moment of that operation: what the host appended later goes, and what the host compacted later is opened
into what its links name. So the list is what the operation left behind, unless the host changed it without a
trace; then that is said, and nothing is put in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lcm_core.change.errors import differences, listed, row_name
from lcm_core.change.journal import Operation
from lcm_core.change.place import Listing, carry_out, carry_out_moves, locate
from lcm_core.change.plan import (
    CONTEXT,
    Cell,
    Cells,
    Edit,
    Ref,
    RowChange,
    Splice,
    inverse,
    key_of,
    ref_of,
)
from lcm_core.past.point import seconds_of

#: A row of a database: its table, and the columns that name it.
RowKey = tuple[str, Cells]

SUMMARIES: Final = "summaries"
LINKS: Final = "summary_messages"
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


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence about what is not known, or what was told by other means than the journal."""

    doubt: Doubt
    text: str
    operation_id: str | None = None

    @property
    def certain(self) -> bool:
        """Whether the state is the true one all the same: only what came later was left out."""
        return self.doubt is Doubt.APPENDED


@dataclass(frozen=True, slots=True)
class Taken:
    """An operation to take back; without edits where its record cannot be read, and why."""

    operation: Operation
    edits: tuple[Edit, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Present:
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


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the context of then."""

    ordinal: int
    ref: Ref
    row: int | Cells  #: the rowid of the item that is there now, or the whole row


@dataclass(frozen=True, slots=True)
class Earlier:
    """A conversation as it was, as what differs from now."""

    conversation_id: int
    items: tuple[Item, ...] | None = field(repr=False)  #: the context; None: as it is now
    rows: Mapping[RowKey, Cells | None] = field(repr=False)  #: those that were otherwise; None: not there
    later: frozenset[str]  #: summaries that another writer made since
    arrived: frozenset[int]  #: messages that another writer stored since
    statements: tuple[Statement, ...]
    there: frozenset[RowKey] = field(repr=False)  #: those of `rows` that are there now
    refs_now: tuple[Ref, ...] = field(repr=False)  #: messages and summaries that today's context represents

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
    rows, later = back.changed(), back.made_since(seconds)
    return Earlier(
        present.conversation_id,
        back.items(),
        rows,
        later,
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
        named = operation_name(one.operation)
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

    def changed(self) -> dict[RowKey, Cells | None]:
        """The rows that were otherwise."""
        return {
            key: self.rows.get(key)
            for key in sorted(self._touched, key=repr)
            if self.rows.get(key) != self.present.rows.get(key)
        }

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
            what = "1 item was" if self._appended == 1 else f"{self._appended:,} items were"
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


def operation_name(operation: Operation) -> str:
    """An operation in a sentence."""
    return f"operation {operation.id}"


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
