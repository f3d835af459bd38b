"""Undo and redo of operations, what depends on one, and trimming the history for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from lcm_core.base.errors import CancelledError, LcmError, NotFoundError, RefusedError
from lcm_core.base.values import Record, field, replace
from lcm_core.change.connection import Writer, open_writer, read_catalog
from lcm_core.change.copying import Stop
from lcm_core.change.journal import (
    TABLE,
    Operation,
    all_operations,
    edits_of,
    exists,
    find,
    forget,
    get,
    new_batch_id,
    of_batch,
    remove_export,
)
from lcm_core.change.place import Tables, verify
from lcm_core.change.plan import (
    Cells,
    Edit,
    Moved,
    Plan,
    RowChange,
    Splice,
    Symbol,
    deletions,
    insertions,
    inverse,
    listed,
    ref_of,
    touched_rows,
)
from lcm_core.change.reindex import MESSAGES, SUMMARIES
from lcm_core.change.snapshots import drop_snapshots
from lcm_core.store.database import Reader
from lcm_core.store.listing import TABLE as ASSEMBLIES
from lcm_core.store.opening import Rows, SqlValue
from lcm_core.store.state import MAINTENANCE, REVISION

# -- undo and redo ---------------------------------------------------------------------------------------
# Source: docs/spec/changes.md, "Undo".
#
# Every undo is an operation of its own, and can be undone: that is a redo. An operation points to what
# undid it, which may have been undone in turn; the end of that chain is what holds now. So undo and redo
# are the same: the inverse of the operation at the end of the chain.
#
# Operations that name a row of an earlier one may depend on it, and so may what names one of theirs. Which
# of them do is tried: all of them together must take the rows back to what the operation left, and whatever
# can be spared is. What refers to a deleted row is never spared.


class NotUndoableError(RefusedError):
    """An operation cannot be taken back by itself: rows of it have changed since."""

    def __init__(
        self,
        operation: Operation,
        doing: str,
        moved: Sequence[Moved],
        dependents: Sequence[Operation] = (),
        newest: Operation | None = None,
    ) -> None:
        self.operation = operation
        self.moved = tuple(moved)
        self.dependents = tuple(dependents)  #: what must be taken back with it, newest first
        self.newest = newest  #: without any: the newest operation that touched its rows since
        said_of = f"Operation {operation.id} ({operation.title}) cannot be {doing}"
        if dependents:
            together = "undo both" if len(dependents) == 1 else f"undo all {len(dependents) + 1:,}"
            count = "a later operation depends" if len(dependents) == 1 else "later operations depend"
            message = (
                f"{said_of} by itself: {count} on it ({listed(named(one) for one in dependents)}). "
                f"Nothing was changed; undo the later {'one' if len(dependents) == 1 else 'ones'} first, or "
                f"{together} together (--with-later)."
            )
        else:
            since = (
                "No later operation in the history explains that"
                if newest is None
                else f"The newest operation that touched its rows since is {named(newest)}; undoing all "
                "later ones does not restore them"
            )
            message = (
                f"{said_of} any more: {listed(one.text for one in moved)}. {since}. Nothing was changed."
            )
        super().__init__(
            message,
            details={
                "operationId": operation.id,
                "moved": len(self.moved),
                "standing": " ".join(one.id for one in dependents),
            },
        )


def named(operation: Operation) -> str:
    """An operation in a sentence."""
    return f"{operation.id}: {operation.title}"


async def plan_undo(reader: Reader, operation_id: str) -> Plan:
    """Take an operation back, whichever it is in the history.

    Raises:
        NotFoundError: the history does not hold it.
        NotUndoableError: its rows have changed since.
        RefusedError: it has been undone already, or its record cannot be read.
    """
    return await reader.run(_plan, operation_id, reader.schema.tables, redo=False)


async def plan_undo_with_later(reader: Reader, operation_id: str) -> list[Plan]:
    """Take an operation back with all later ones that depend on it: one batch, the newest first.

    Raises as `plan_undo` does; `NotUndoableError` only where that is not enough.
    """
    return await reader.run(_plan_with_later, operation_id, reader.schema.tables)


async def plan_redo(reader: Reader, operation_id: str) -> Plan:
    """Make an operation again that has been undone.

    Raises:
        NotFoundError: the history does not hold it.
        NotUndoableError: its rows have changed since.
        RefusedError: it is in effect, or its record cannot be read.
    """
    return await reader.run(_plan, operation_id, reader.schema.tables, redo=True)


async def plan_undo_batch(reader: Reader, batch: str, *, with_later: bool = False) -> list[Plan]:
    """Take back what was committed together and is in effect, the newest first, each by a plan of its own.

    The plans are a batch again; *with_later*: with those of all later operations that depend on it.

    Raises:
        NotFoundError: the history does not hold the batch.
        NotUndoableError: rows of one of its operations have changed since.
        RefusedError: all of it has been undone already, or a record cannot be read.
    """
    return await reader.run(_plan_batch, batch, reader.schema.tables, redo=False, with_later=with_later)


async def plan_redo_batch(reader: Reader, batch: str) -> list[Plan]:
    """Make again what was committed together and has been undone; refused as `plan_undo_batch` is."""
    return await reader.run(_plan_batch, batch, reader.schema.tables, redo=True)


async def latest(reader: Reader, *, undone: bool = False) -> Operation:
    """The newest change that is in effect, or the one that was *undone* last; an undo is none of its own.

    Raises:
        NotFoundError: there is none.
    """
    found = await reader.run(_latest, undone)
    if found is None:
        what = "has been undone" if undone else "is in effect"
        raise NotFoundError(
            f"No operation of this database's history {what}. `lcm-tui history list` shows what there is.",
            code="OPERATION_NOT_FOUND",
        )
    return found


async def undone_by(reader: Reader, operation_id: str) -> str | None:
    """What undoes an operation as things are now: the last of undo, redo, undo ...; None when it holds.

    Raises:
        NotFoundError: the history does not hold it.
        RefusedError: the history no longer holds what undid it.
    """
    chain = await reader.run(_chain, operation_id)
    return None if len(chain) % 2 else chain[-1].id


def _plan(db: Rows, operation_id: str, tables: Tables, *, redo: bool) -> Plan:
    wanted = _wanted(db, operation_id, redo=redo)
    [plan] = _plans(db, [wanted], tables)
    return plan


def _wanted(db: Rows, operation_id: str, *, redo: bool) -> Back:
    """The operation that is meant, if there is anything to take back or to make again."""
    chain = _chain(db, operation_id)
    first, last = chain[0], chain[-1]
    undone = len(chain) % 2 == 0
    if undone and not redo:
        raise RefusedError(
            f"Operation {first.id} ({first.title}) was undone by {last.id} on {last.created_at}. "
            "Redo it, or leave it so."
        )
    if redo and not undone:
        raise RefusedError(f"Operation {first.id} ({first.title}) is in effect: there is nothing to redo.")
    return back_of(db, first, last, redo=redo)


def _plan_with_later(db: Rows, operation_id: str, tables: Tables) -> list[Plan]:
    wanted = _wanted(db, operation_id, redo=False)
    dependents = depending_on(db, [wanted], tables)
    return _plans(db, [*dependents, wanted], tables)


def _plans(db: Rows, backs: Sequence[Back], tables: Tables) -> list[Plan]:
    """What takes back what holds now, each plan seeing what those before it do; several are a batch."""
    verified = verify(db, _edits_back(db, backs), tables)
    moved = verified.moved
    dependents = depending_on(db, backs, tables) if moved or _rows_come_or_go(backs) else ()
    if moved or dependents:
        raise _not_undoable(db, backs, dependents, tables)
    left = iter(verified.edits)
    batch = new_batch_id() if len(backs) > 1 else None
    return [
        replace(_inverse_plan(back, tuple(islice(left, len(back.edits))), verified.defaulted), batch=batch)
        for back in backs
    ]


def _rows_come_or_go(backs: Iterable[Back]) -> bool:
    """Whether rows go that something later may refer to, or come back that refer to what is gone since."""
    return any(
        isinstance(edit, Splice) or edit.before is None or edit.after is None
        for back in backs
        for edit in back.edits
    )


def _not_undoable(
    db: Rows, backs: Sequence[Back], dependents: Sequence[Back], tables: Tables
) -> NotUndoableError:
    """Which of several operations it is whose rows have moved, and what depends on it."""
    number = 0
    moved: tuple[Moved, ...] = ()
    for number in range(len(backs)):
        if moved := moved_of(db, backs[: number + 1], tables):
            break
    doing = "redone" if backs[number].redo else "undone"
    newest = None if dependents else _newest_on(db, backs[: number + 1])
    return NotUndoableError(backs[number].first, doing, moved, [one.last for one in dependents], newest)


def _newest_on(db: Rows, backs: Sequence[Back]) -> Operation | None:
    """The newest later operation that names a row of these, whether it holds or was taken back."""
    ours = {name for back in backs for name in _named(back.edits)}
    known = {back.last.id for back in backs}
    first = min(back.last.place for back in backs)
    for one in takewhile(lambda one: one.place > first, all_operations(db)):
        if one.id not in known and not ours.isdisjoint(_named(edits_of(db, one))):
            return one
    return None


def kind_back(one: Operation, *, redo: bool) -> str:
    """What taking an operation back is, or with *redo* making it again: taking an undo back is a redo."""
    makes = "redo" if one.undoes is None else one.kind
    return makes if redo else {"undo": "redo"}.get(makes, "undo")


def _inverse_plan(back: Back, edits: tuple[Edit, ...], defaulted: Iterable[str]) -> Plan:
    kind, title = kind_back(back.first, redo=back.redo), back.first.title
    if back.first.undoes is not None:
        title = title.removeprefix(f"{back.first.kind.capitalize()}: ")
    return Plan(
        kind=kind,
        title=f"{kind.capitalize()}: {title}",
        conversation_id=back.first.conversation_id,
        edits=edits,
        warnings=tuple(
            f"Column {column} was added to the database since; it gets its default" for column in defaulted
        ),
        undoes=back.last.id,
        allows=back.last.removed,
        select=_first_inserted(edits),
    )


def _plan_batch(db: Rows, batch: str, tables: Tables, *, redo: bool, with_later: bool = False) -> list[Plan]:
    backs = []
    for operation in of_batch(db, batch):
        chain = _chain(db, operation.id)
        if (len(chain) % 2 == 0) is redo:
            backs.append(back_of(db, operation, chain[-1], redo=redo))
    if not backs:
        state = "is in effect: there is nothing to redo" if redo else "has been undone already"
        raise RefusedError(f"All of batch {batch} {state}.")
    backs.sort(key=lambda back: back.last.place, reverse=True)
    later = depending_on(db, backs, tables) if with_later else ()
    return _plans(db, [*later, *backs], tables)


def _latest(db: Rows, undone: bool) -> Operation | None:
    seen: dict[str, Operation] = {}
    found: tuple[int, Operation] | None = None
    for operation in all_operations(db):
        seen[operation.id] = operation
        if operation.undoes is not None:
            continue
        chain = list(_links(operation, seen))
        if (len(chain) % 2 == 0) is undone and chain[-1].undone_by is None:
            if not undone:
                return operation
            found = max(found or (0, operation), (chain[-1].place, operation), key=lambda one: one[0])
    return None if found is None else found[1]


def _links(
    operation: Operation, known: Mapping[str, Operation], *, back: bool = False
) -> Iterator[Operation]:
    """An operation, what undid it (*back*: what it undid), and so on, as far as it is known; in no circle."""
    places: set[int] = set()
    one: Operation | None = operation
    while one is not None and one.place not in places:
        places.add(one.place)
        yield one
        one = known.get((one.undoes if back else one.undone_by) or "")


def _chain(db: Rows, operation_id: str) -> list[Operation]:
    """An operation, what undid it, what undid that, and so on."""
    chain = [get(db, operation_id)]
    seen = {operation_id}
    while (following := chain[-1].undone_by) is not None:
        operation = find(db, following)
        if operation is None or following in seen:
            raise RefusedError(
                f"Operation {chain[-1].id} was undone by {following}, which is no longer in the history: "
                "it can be neither undone nor redone."
            )
        seen.add(following)
        chain.append(operation)
    return chain


def _first_inserted(edits: Sequence[Edit]) -> str | int | None:
    """What a screen selects afterwards: the first item that comes back into a context."""
    for edit in edits:
        if isinstance(edit, Splice) and edit.inserted:
            ref = ref_of(edit.inserted[0])
            return ref if isinstance(ref, str | int) else None
    return None


# -- what depends on an operation ----------------------------------------------------------------------


#: Of so many operations at most it is tried which can be spared; of more, all that may depend on it are
#: taken.
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


class Back(Record, frozen=True):
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


def depending_on(db: Rows, wanted: Sequence[Back], tables: Tables) -> tuple[Back, ...]:
    """The later operations that have to be taken back with *wanted*, newest first.

    None where nothing depends on them, or where they cannot be taken back even then: somebody else changed
    their rows.

    Raises:
        RefusedError: the record of a later operation cannot be read.
    """
    found = _may_depend(db, wanted)
    needed = _all_that_need(found, wanted)
    if not moved_of(db, [*needed, *wanted], tables):
        return needed
    if moved_of(db, [*found, *wanted], tables):
        return ()
    spared = len(found) <= TRIED
    while spared:  # what is spared may have been all that another one was needed for
        spared = False
        for one in found:
            fewer = tuple(each for each in found if each is not one)
            if not _needs(one, [*fewer, *wanted]) and not moved_of(db, [*fewer, *wanted], tables):
                found, spared = fewer, True
    return found


def _all_that_need(found: Sequence[Back], wanted: Sequence[Back]) -> tuple[Back, ...]:
    """Those whose rows refer to rows that go, with those that refer to theirs; newest first."""
    needed: tuple[Back, ...] = ()
    while True:
        gone = [*needed, *wanted]
        more = tuple(one for one in found if one in needed or _needs(one, gone))
        if len(more) == len(needed):
            return needed
        needed = more


def moved_of(db: Rows, backs: Iterable[Back], tables: Tables) -> tuple[Moved, ...]:
    """What is in the way of taking some operations back, one after the other."""
    return verify(db, _edits_back(db, backs), tables).moved


def _edits_back(db: Rows, backs: Iterable[Back]) -> list[Edit]:
    """The edits that take some operations back, one after the other.

    The revision of compaction debt only grows: the engine takes an equal one for what it has read, so it is
    raised where the rest of the row goes back (docs/spec/changes.md, "Undo").
    """
    revisions: dict[Cells, SqlValue] = {}
    found: list[Edit] = []
    for edit in (edit for back in backs for edit in back.edits):
        if isinstance(edit, RowChange) and edit.table == MAINTENANCE:
            if edit.key not in revisions:
                revisions[edit.key] = _revision(db, edit)
            edit = _raised(edit, revisions[edit.key])
            raised = edit.after.get(REVISION) if edit.after is not None else None
            if isinstance(raised, int):
                revisions[edit.key] = raised
        found.append(edit)
    return found


def _revision(db: Rows, edit: RowChange) -> SqlValue:
    """The revision of a debt as it stands; None: there is none, or it is not what the edit is about."""
    if edit.before is None or REVISION not in edit.before:
        return None
    owner = edit.key["conversation_id"]
    assert not isinstance(owner, Symbol)
    rows = db.tuples(f"SELECT {REVISION} FROM {MAINTENANCE} WHERE conversation_id IS ?", (owner,))
    return rows[0][0] if rows else None


def _raised(edit: RowChange, now: SqlValue) -> RowChange:
    """The same from the revision *now* to the next."""
    before, after = edit.before, edit.after
    if not isinstance(now, int) or before is None or after is None:
        return edit
    return replace(edit, before=before.but(**{REVISION: now}), after=after.but(**{REVISION: now + 1}))


def _may_depend(db: Rows, wanted: Sequence[Back]) -> tuple[Back, ...]:
    """Later operations that name a row of these, or of one another; newest first."""
    known = {back.last.id for back in wanted}
    later = [one for one in _later(db, min(back.last.place for back in wanted)) if one.id not in known]
    if not later:
        return ()
    named = _Names.of(wanted)
    found: list[Back] = []
    for last in reversed(later):
        first, redo = _first(db, last)
        back = back_of(db, first, last, redo=redo)
        if _Names.of([back]).meet(named):
            found.append(back)
            named = _Names.of([*wanted, *found])
    return tuple(reversed(found))


class _Names(Record, frozen=True):
    """What some edits name."""

    rows: frozenset[Named]
    owners: frozenset[Named]  #: conversations that rows belong to
    conversations: frozenset[Named]  #: those whose own row comes or goes

    @classmethod
    def of(cls, backs: Iterable[Back]) -> _Names:
        edits = [edit for back in backs for edit in back.edits]
        whole = (edit for edit in (*insertions(edits), *deletions(edits)) if edit.table == "conversations")
        return cls(
            frozenset(_named(edits)),
            frozenset(("conversations", (owner,)) for edit in edits for owner in _owners(edit)),
            frozenset((edit.table, edit.key.cells) for edit in whole),
        )

    def meet(self, other: _Names) -> bool:
        """Whether one may depend on the other; that rows are of one conversation is no reason."""
        return not (
            self.rows.isdisjoint(other.rows)
            and self.owners.isdisjoint(other.conversations)
            and self.conversations.isdisjoint(other.owners)
        )


def _owners(edit: Edit) -> Iterator[object]:
    if isinstance(edit, Splice):
        yield edit.conversation_id
    else:
        yield edit.row.get("conversation_id")


def _later(db: Rows, place: int) -> list[Operation]:
    """What was done behind a place and holds, newest first: of each chain of undo and redo its end.

    Of a change that was made and taken back behind it, or taken back and made again, nothing is left there.
    """
    behind = {one.id: one for one in takewhile(lambda one: one.place > place, all_operations(db))}
    return [
        one
        for one in behind.values()
        if one.undone_by is None and len(list(_links(one, behind, back=True))) % 2
    ]


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
        # That two rows are of one conversation makes neither depend on the other.
        if column in row and row[column] is not None and (column != "conversation_id" or table == target):
            yield target, (row[column],)


def _item(ref: object) -> Named:
    return ("summaries" if isinstance(ref, str) else "messages"), (ref,)


def _needs(one: Back, others: Iterable[Back]) -> bool:
    """Whether the others can be taken back only with this one.

    Rows that it made refer to rows that go then; or rows that come back then refer to rows that it deleted.
    """
    gone = {name for each in others for name in _whole(deletions(each.edits))}
    back = set(_whole(insertions(one.edits)))
    return any(name in gone for edit in one.edits for name in _refers(edit, comes=False)) or (
        bool(back)
        and any(name in back for each in others for edit in each.edits for name in _refers(edit, comes=True))
    )


def _whole(edits: Iterable[RowChange]) -> Iterator[Named]:
    """The rows that come or go, as far as others refer to them."""
    return ((edit.table, edit.key.cells) for edit in edits if edit.table in _NAMES.values())


def _refers(edit: Edit, *, comes: bool) -> Iterator[Named]:
    """What the rows refer to that an edit brings, or takes away."""
    for table, stays, row in touched_rows(edit):
        for column, target in _NAMES.items():
            value: SqlValue | object = row.get(column)
            if stays is comes and value is not None and target != table:
                yield target, (value,)


# -- forgetting ------------------------------------------------------------------------------------------
# Trims the journal, and leaves nothing of what was deleted: no record of it, no old copy in the file.
#
# What is forgotten can no longer be undone; the rows themselves stay as they are. SQLite marks what is
# deleted as free and overwrites it some day. Here deleted bytes are overwritten at once, the full-text
# tables are merged until they hold no deleted words, and the file is rewritten, since pages that the host
# rearranged before may hold copies that no row refers to any more.

#: Pages of a full-text table that are merged in one transaction.
_MERGED_PAGES: Final = 500


def forget_history(
    path: Path, conversation_id: int, *, wait: float = 5.0, stopped: Stop | None = None
) -> int:
    """Remove every operation from the journal that holds rows of a conversation; the number of them.

    To be called while its rows are still there: they tell which operations those are. The snapshots of its
    assemblies go too. *stopped* says whether to give up; it is called until the lock is held.

    Raises:
        CancelledError: *stopped* said so.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    with open_writer(path, wait, stopped) as writer:
        writer.overwrite_deleted()
        writer.begin()
        writer.write_only([TABLE, ASSEMBLIES])
        drop_snapshots(writer, [conversation_id])
        named = _forgetting_names(writer, conversation_id)
        wanted = [one.id for one in all_operations(writer) if _concerns(writer, one, conversation_id, named)]
        files = forget(writer, wanted)
        writer.commit()
    for file in files:
        remove_export(file)
    return len(wanted)


def _forgetting_names(writer: Writer, conversation_id: int) -> dict[str, Collection[SqlValue]]:
    """What belongs to a conversation, by the columns that name it."""
    schema = read_catalog(writer).schema
    messages = [row[0] for row in writer.rows(_MESSAGES_OF, (conversation_id,))]
    summaries = []
    if schema.has("summaries"):
        summaries = [row[0] for row in writer.rows(_SUMMARIES_OF, (conversation_id,))]
    held = frozenset(summaries)
    return {
        "conversation_id": frozenset((conversation_id,)),
        "message_id": frozenset(messages),
        "summary_id": held,
        "parent_summary_id": held,
    }


_MESSAGES_OF: Final = "SELECT message_id FROM messages WHERE conversation_id = ?"
_SUMMARIES_OF: Final = "SELECT summary_id FROM summaries WHERE conversation_id = ?"


def _concerns(
    writer: Writer, operation: Operation, conversation_id: int, named: dict[str, Collection[SqlValue]]
) -> bool:
    if operation.conversation_id == conversation_id:
        return True
    try:
        edits = edits_of(writer, operation)
    except LcmError:  # what cannot be read any more may hold anything
        return operation.conversation_id is None
    return any(
        name in named and value in named[name]
        for edit in edits
        for cells in _cells(edit)
        for name, value in cells.values
        if not isinstance(value, bytes | float)
    )


def _cells(edit: Edit) -> Iterable[Cells]:
    yield from (row for _, _, row in touched_rows(edit))
    if isinstance(edit, Splice):
        yield Cells.of({"conversation_id": edit.conversation_id})


# -- the file itself ---------------------------------------------------------------------------------------


class Scrubbed(Record, frozen=True):
    """What became of the places where deleted text may still be."""

    merged: tuple[str, ...]  #: full-text tables without deleted words
    rewritten: bool  #: the whole file was written anew
    truncated: bool = field(name="walEmptied")  #: the write-ahead log is empty
    problems: tuple[str, ...]  #: what was not done and why, one sentence each


def scrub(path: Path, *, rewrite: bool = True, wait: float = 5.0, stopped: Stop | None = None) -> Scrubbed:
    """Take what was deleted out of the full-text tables, the file and its log, as far as others let us.

    *stopped* says whether to give up rewriting the file, which takes long; that is reported as a problem.

    Raises:
        DatabaseMissingError, ReadOnlyError, DatabaseError: the file cannot be opened for writing.
    """
    merged: list[str] = []
    problems: list[str] = []
    rewritten = truncated = False
    with open_writer(path, wait, stopped) as writer:
        writer.overwrite_deleted()
        schema = read_catalog(writer).schema
        for table in (name for name in (MESSAGES, *SUMMARIES) if schema.has(name)):
            try:
                _merge(writer, table)
                merged.append(table)
            except CancelledError:
                problems.append(
                    f"{table} was not merged because the command was stopped: "
                    f"`lcm-tui reindex {table}` fixes it"
                )
            except sqlite3.DatabaseError as error:
                problems.append(f"{table} could not be merged ({error}): `lcm-tui reindex {table}` fixes it")
        if rewrite:
            try:
                writer.rewrite_file(path)
                rewritten = True
            except CancelledError:
                problems.append(
                    "The file was not rewritten because the command was stopped: old page contents may "
                    "remain. Stop the host and run VACUUM on it"
                )
            except (sqlite3.Error, LcmError) as error:
                problems.append(
                    f"The file could not be rewritten ({error}): old page contents may remain. "
                    "Stop the host and run VACUUM on it"
                )
        if writer.value("PRAGMA journal_mode") == "wal":
            [busy, *_] = writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]
            truncated = not busy
            if busy:
                problems.append(
                    f"{path.name}-wal could not be emptied because another process reads the database: stop "
                    "it; the file is removed when the database is closed"
                )
        else:
            truncated = True
    return Scrubbed(tuple(merged), rewritten, truncated, tuple(problems))


def _merge(writer: Writer, table: str) -> None:
    """Merge a full-text table into one piece, which holds no deleted words; in short transactions."""
    pages = -_MERGED_PAGES
    while True:
        before = writer.row_changes
        writer.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
        if writer.row_changes - before < 2:
            return
        pages = _MERGED_PAGES


# -- a shorter history ----------------------------------------------------------------------------------


def prune_history(
    path: Path,
    *,
    keep: int | None = None,
    before: str | None = None,
    conversation_id: int | None = None,
    wait: float = 5.0,
    stopped: Stop | None = None,
) -> int:
    """Forget operations and their exports, and say how many.

    Those beyond the newest *keep*, those made *before* a time (in either stored format), those of one
    conversation; of several conditions all must hold, and with none everything is forgotten. A change, its
    undo and its redo are forgotten together or not at all: without the others none can be taken back.
    *stopped* says whether to give up; it is called until the lock is held.

    Raises:
        CancelledError: *stopped* said so.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    with open_writer(path, wait, stopped) as writer:
        if not exists(writer):
            return 0
        writer.begin()
        writer.write_only([TABLE])
        wanted = prunable(writer, keep=keep, before=before, conversation_id=conversation_id)
        files = forget(writer, wanted)
        writer.commit()
    for file in files:
        remove_export(file)
    return len(wanted)


def prunable(
    db: Rows, *, keep: int | None = None, before: str | None = None, conversation_id: int | None = None
) -> list[SqlValue]:
    """The ids of the operations that `prune_history` would forget, the oldest first."""
    if not exists(db):
        return []
    rows = db.rows(
        f"""SELECT id, undoes, (? IS NULL OR julianday(created_at) < julianday(?))
        AND (? IS NULL OR conversation_id = ?)
        AND (? IS NULL OR rowid NOT IN (SELECT rowid FROM {TABLE} ORDER BY rowid DESC LIMIT ifnull(?, 0)))
        AS wanted FROM {TABLE} ORDER BY rowid""",
        (before, before, conversation_id, conversation_id, keep, keep),
    )
    first: dict[SqlValue, SqlValue] = {}  # of the chain of an operation; what it undoes comes before it
    for row in rows:
        first[row["id"]] = first.get(row["undoes"], row["id"])
    kept = {first[row["id"]] for row in rows if not row["wanted"]}
    return [row["id"] for row in rows if first[row["id"]] not in kept]
