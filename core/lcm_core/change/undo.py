"""Plans that take an operation back, or make it again.

Every undo is an operation of its own, and can be undone: that is a redo. An operation points to what undid
it, which may have been undone in turn; the end of that chain is what holds now. So undo and redo are the
same: the inverse of the operation at the end of the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from lcm_core.change.asking import Asking, answer
from lcm_core.change.errors import Moved, RefusedError, said
from lcm_core.change.journal import PAGE, Operation, edits_of, find, get, of_batch, operations
from lcm_core.change.plan import Edit, Plan, Splice, inverse, ref_of
from lcm_core.change.verify import Tables, verify
from lcm_core.errors import NotFoundError
from lcm_core.store.database import Reader


class NotUndoableError(RefusedError):
    """Rows of the operation have changed since it was made, so taking it back would lose something."""

    def __init__(self, operation: Operation, doing: str, moved: Sequence[Moved]) -> None:
        self.moved = tuple(moved)
        super().__init__(
            f"Operation {operation.id} ({operation.title}) cannot be {doing} any more: "
            f"{said(one.text for one in self.moved)}. Nothing was changed.",
            details={"operationId": operation.id, "moved": len(self.moved)},
        )


async def plan_undo(reader: Reader, operation_id: str) -> Plan:
    """Take an operation back, whichever it is in the history.

    Raises:
        NotFoundError: the history does not hold it.
        NotUndoableError: its rows have changed since.
        RefusedError: it has been undone already, or its record cannot be read.
    """
    return await answer(reader, _plan(operation_id, reader.schema.tables, redo=False))


async def plan_redo(reader: Reader, operation_id: str) -> Plan:
    """Make an operation again that has been undone.

    Raises:
        NotFoundError: the history does not hold it.
        NotUndoableError: its rows have changed since.
        RefusedError: it is in effect, or its record cannot be read.
    """
    return await answer(reader, _plan(operation_id, reader.schema.tables, redo=True))


async def plan_undo_batch(reader: Reader, batch: str) -> list[Plan]:
    """Take back what was committed together and is in effect, the newest first, each by a plan of its own.

    Raises:
        NotFoundError: the history does not hold the batch.
        NotUndoableError: rows of one of its operations have changed since.
        RefusedError: all of it has been undone already, or a record cannot be read.
    """
    return await answer(reader, _plan_batch(batch, reader.schema.tables, redo=False))


async def plan_redo_batch(reader: Reader, batch: str) -> list[Plan]:
    """Make again what was committed together and has been undone; refused as `plan_undo_batch` is."""
    return await answer(reader, _plan_batch(batch, reader.schema.tables, redo=True))


async def latest(reader: Reader, *, undone: bool = False) -> Operation:
    """The newest change that is in effect, or the one that was *undone* last; an undo is none of its own.

    Raises:
        NotFoundError: there is none.
    """
    found = await answer(reader, _latest(undone))
    if found is None:
        what = "has been undone" if undone else "is in effect"
        raise NotFoundError(
            f"No operation of this database's history {what}. `lcm-tui history list` shows what there is.",
            code="OPERATION_NOT_FOUND",
        )
    return found


async def in_effect(reader: Reader, operation_id: str) -> bool:
    """Whether what an operation did holds now, as far as the history tells."""
    return await undone_by(reader, operation_id) is None


async def undone_by(reader: Reader, operation_id: str) -> str | None:
    """What undoes an operation as things are now: the last of undo, redo, undo ...; None when it holds.

    Raises:
        NotFoundError: the history does not hold it.
        RefusedError: the history no longer holds what undid it.
    """
    chain = await answer(reader, _chain(operation_id))
    return None if len(chain) % 2 else chain[-1].id


def _plan(operation_id: str, tables: Tables, *, redo: bool) -> Asking[Plan]:
    chain = yield from _chain(operation_id)
    first, last = chain[0], chain[-1]
    undone = len(chain) % 2 == 0
    if undone and not redo:
        raise RefusedError(
            f"Operation {first.id} ({first.title}) was undone by {last.id} on {last.created_at}. "
            "Redo it, or leave it so."
        )
    if redo and not undone:
        raise RefusedError(f"Operation {first.id} ({first.title}) is in effect: there is nothing to redo.")
    [plan] = yield from _plans([(first, last)], tables, redo=redo)
    return plan


def _plans(pairs: Sequence[tuple[Operation, Operation]], tables: Tables, *, redo: bool) -> Asking[list[Plan]]:
    """The inverses of what holds now, each seeing what those before it do."""
    inverses: list[tuple[Edit, ...]] = []
    for _, last in pairs:
        inverses.append(inverse((yield from edits_of(last))))
    verified = yield from verify([edit for each in inverses for edit in each], tables)
    if verified.moved:
        raise (yield from _not_undoable(pairs, inverses, tables, redo=redo))
    left = iter(verified.edits)
    return [
        _inverse_plan(first, last, tuple(islice(left, len(edits))), verified.defaulted, redo=redo)
        for (first, last), edits in zip(pairs, inverses, strict=True)
    ]


def _not_undoable(
    pairs: Sequence[tuple[Operation, Operation]],
    inverses: Sequence[tuple[Edit, ...]],
    tables: Tables,
    *,
    redo: bool,
) -> Asking[NotUndoableError]:
    """Which of several operations it is whose rows have moved."""
    number = 0
    moved: tuple[Moved, ...] = ()
    for number in range(len(pairs)):
        edits = [edit for each in inverses[: number + 1] for edit in each]
        if moved := (yield from verify(edits, tables)).moved:
            break
    return NotUndoableError(pairs[number][0], "redone" if redo else "undone", moved)


def _inverse_plan(
    first: Operation, last: Operation, edits: tuple[Edit, ...], defaulted: Iterable[str], *, redo: bool
) -> Plan:
    return Plan(
        kind="redo" if redo else "undo",
        title=f"{'Redo' if redo else 'Undo'}: {first.title}",
        conversation_id=first.conversation_id,
        edits=edits,
        warnings=tuple(
            f"Column {column} was added to the database since; it takes its default" for column in defaulted
        ),
        undoes=last.id,
        allows=last.removed,
        select=_first_inserted(edits),
    )


def _plan_batch(batch: str, tables: Tables, *, redo: bool) -> Asking[list[Plan]]:
    pairs = []
    for operation in (yield from of_batch(batch)):
        chain = yield from _chain(operation.id)
        if (len(chain) % 2 == 0) is redo:
            pairs.append((operation, chain[-1]))
    if not pairs:
        state = "is in effect: there is nothing to redo" if redo else "has been undone already"
        raise RefusedError(f"All of batch {batch} {state}.")
    pairs.sort(key=lambda pair: pair[1].place, reverse=True)
    return (yield from _plans(pairs, tables, redo=redo))


def _latest(undone: bool) -> Asking[Operation | None]:
    seen: dict[str, Operation] = {}
    found: tuple[int, Operation] | None = None
    below: int | None = None
    while page := (yield from operations(limit=PAGE, below=below)):
        for operation in page:
            seen[operation.id] = operation
            if operation.undoes is not None:
                continue
            chain = list(_links(operation, seen))
            if (len(chain) % 2 == 0) is undone and chain[-1].undone_by is None:
                if not undone:
                    return operation
                found = max(found or (0, operation), (chain[-1].place, operation), key=lambda one: one[0])
        below = page[-1].place
    return None if found is None else found[1]


def _links(operation: Operation, seen: Mapping[str, Operation]) -> Iterator[Operation]:
    """An operation, what undid it, what undid that, as far as it is known; never round a circle."""
    places: set[int] = set()
    following: Operation | None = operation
    while following is not None and following.place not in places:
        places.add(following.place)
        yield following
        following = None if following.undone_by is None else seen.get(following.undone_by)


def _chain(operation_id: str) -> Asking[list[Operation]]:
    """An operation, what undid it, what undid that, and so on."""
    chain = [(yield from get(operation_id))]
    seen = {operation_id}
    while (following := chain[-1].undone_by) is not None:
        operation = yield from find(following)
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
