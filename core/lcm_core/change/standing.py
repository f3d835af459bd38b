"""What stands on an operation: later ones that have to be taken back with it (docs/changes.md, "Undo").

Operations that name a row of an earlier one may stand on it, and so may what names one of theirs. Which of
them do is tried: all of them together must take the rows back to what the operation left, and whatever can be
spared is. What refers to a row that goes is never spared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lcm_core.change.errors import Moved
from lcm_core.change.journal import PAGE, Operation, edits_of, find, operations
from lcm_core.change.plan import (
    Cells,
    Edit,
    RowChange,
    SqlValue,
    deletions,
    inverse,
    ref_of,
    touched_rows,
)
from lcm_core.change.verify import Tables, verify
from lcm_core.store.connecting import Rows

#: Of so many operations at most it is tried which can be spared; of more, all that may stand on it are taken.
TRIED = 24

#: A row that edits name: the table it is in, and its key; items of contexts by what they stand for.
Named = tuple[str, object]

#: Columns that name a row of another table.
_NAMES = {
    "summary_id": "summaries",
    "parent_summary_id": "summaries",
    "message_id": "messages",
    "conversation_id": "conversations",
    "file_id": "large_files",
    "brief_id": "focus_briefs",
}


@dataclass(frozen=True, slots=True)
class Back:
    """An operation of which something holds now, and the edits that take it back."""

    first: Operation  #: the change that it is about
    last: Operation  #: what holds now: it, or the end of the chain of what undid and redid it
    edits: tuple[Edit, ...]
    redo: bool = False  #: what holds is that it was undone: taking that back makes it again


def back_of(db: Rows, first: Operation, last: Operation, *, redo: bool) -> Back:
    """What takes back the end of a chain.

    Raises:
        RefusedError: its record cannot be read.
    """
    return Back(first, last, inverse(edits_of(db, last)), redo)


def standing_on(db: Rows, wanted: Sequence[Back], tables: Tables) -> tuple[Back, ...]:
    """The later operations that have to be taken back with *wanted*, newest first.

    None where nothing stands on them, or where they cannot be taken back even then: somebody else changed
    their rows.

    Raises:
        RefusedError: the record of a later operation cannot be read.
    """
    found = _may_stand(db, wanted)
    if not found or moved_of(db, [*found, *wanted], tables):
        return ()
    spared = len(found) <= TRIED
    while spared:  # what is spared may have been all that another one was needed for
        spared = False
        for one in found:
            fewer = tuple(each for each in found if each is not one)
            if not _needs(one, [*fewer, *wanted]) and not moved_of(db, [*fewer, *wanted], tables):
                found, spared = fewer, True
    return found


def moved_of(db: Rows, backs: Iterable[Back], tables: Tables) -> tuple[Moved, ...]:
    """What is in the way of taking some operations back, one after the other."""
    edits = [edit for back in backs for edit in back.edits]
    return verify(db, edits, tables).moved


def _may_stand(db: Rows, wanted: Sequence[Back]) -> tuple[Back, ...]:
    """Later operations that name a row of these, or of one another; newest first."""
    named = {one for back in wanted for one in _named(back.edits)}
    known = {back.last.id for back in wanted}
    found: list[Back] = []
    for last in reversed(_later(db, min(back.last.place for back in wanted))):
        if last.id in known:
            continue
        first, redo = _first(db, last)
        back = back_of(db, first, last, redo=redo)
        names = set(_named(back.edits))
        if not names.isdisjoint(named):
            named |= names
            found.append(back)
    return tuple(reversed(found))


def _later(db: Rows, place: int) -> list[Operation]:
    """What holds of the operations behind a place, newest first: what nothing undid."""
    found: list[Operation] = []
    below: int | None = None
    while page := operations(db, limit=PAGE, below=below):
        found += (one for one in page if one.place > place and one.undone_by is None)
        if page[-1].place <= place:
            break
        below = page[-1].place
    return found


def _first(db: Rows, last: Operation) -> tuple[Operation, bool]:
    """The change at the beginning of a chain, and whether its end undid it."""
    first, undone, seen = last, False, {last.id}
    while first.undoes is not None and first.undoes not in seen:
        seen.add(first.undoes)
        before = find(db, first.undoes)
        if before is None:
            break
        first, undone = before, not undone
    return first, undone


def _named(edits: Iterable[Edit]) -> Iterator[Named]:
    for edit in edits:
        if isinstance(edit, RowChange):
            yield from _names(edit.table, edit.key, edit.row)
        else:
            refs = (move.item.ref for move in edit.moves)
            yield from map(_item, (*map(ref_of, edit.removed), *map(ref_of, edit.inserted), *refs))


def _names(table: str, key: Cells, row: Cells) -> Iterator[Named]:
    yield table, key.cells
    for column, target in _NAMES.items():
        # That two rows are of one conversation makes neither stand on the other.
        if column in row and row[column] is not None and (column != "conversation_id" or table == target):
            yield target, (row[column],)


def _item(ref: object) -> Named:
    return ("summaries" if isinstance(ref, str) else "messages"), (ref,)


def _needs(one: Back, others: Iterable[Back]) -> bool:
    """Whether rows that an operation made refer to rows that go when the others are taken back."""
    gone = {
        (edit.table, edit.key.cells)
        for back in others
        for edit in deletions(back.edits)
        if edit.table in _NAMES.values()
    }
    return any(name in gone for edit in one.edits for name in _refers(edit))


def _refers(edit: Edit) -> Iterator[Named]:
    """What the rows refer to that an edit, being one that takes back, takes away."""
    for table, stays, row in touched_rows(edit):
        for column, target in _NAMES.items():
            value: SqlValue | object = row.get(column)
            if not stays and value is not None and target != table:
                yield target, (value,)
