"""Plans that take an operation back, or make it again.

Every undo is an operation of its own, and can be undone: that is a redo. An operation points to what undid
it, which may have been undone in turn; the end of that chain is what holds now. So undo and redo are the
same: the inverse of the operation at the end of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.asking import Asking, answer
from lcm_core.change.errors import Moved, RefusedError, said
from lcm_core.change.journal import Operation, edits_of, find, get
from lcm_core.change.plan import Edit, Plan, Splice, inverse, ref_of
from lcm_core.change.verify import Tables, verify
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


async def in_effect(reader: Reader, operation_id: str) -> bool:
    """Whether what an operation did holds now, as far as the history tells."""
    chain = await answer(reader, _chain(operation_id))
    return len(chain) % 2 == 1


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
    edits = inverse((yield from edits_of(last)))
    verified = yield from verify(edits, tables)
    if verified.moved:
        raise NotUndoableError(first, "redone" if redo else "undone", verified.moved)
    return Plan(
        kind="redo" if redo else "undo",
        title=f"{'Redo' if redo else 'Undo'}: {first.title}",
        conversation_id=first.conversation_id,
        edits=verified.edits,
        warnings=tuple(
            f"Column {column} was added to the database since; it takes its default"
            for column in verified.defaulted
        ),
        undoes=last.id,
        allows=last.removed,
        select=_first_inserted(verified.edits),
    )


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
