"""Taking an operation back, or making it again, alone or with what depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.change.journal import Operation
from lcm_core.change.plan import Plan
from lcm_core.change.undo import (
    NotUndoableError,
    named,
    plan_redo,
    plan_redo_batch,
    plan_undo,
    plan_undo_batch,
    plan_undo_with_later,
)
from lcm_core.store.database import Reader

from lcm_tui.changes.change import BlockedError, Change, Choice, Surroundings
from lcm_tui.views.history import HistoryLine

ABOUT: Final = """
Undo restores the rows that an operation replaced; redo applies it again. Every row is compared first: if one
has changed since, the undo is refused with the reason. Both are operations in the history, too.
"""


#: Kinds of operations of which a batch is undone as a whole at first.
WHOLE: Final = frozenset({"compact", "focus", "refocus"})


class _Titled(Surroundings):
    """Says in the title what is undone: an operation, or a batch with the number of its conversations."""

    def __init__(self, verb: str, one: Operation, batch: Sequence[Operation], whole: Choice) -> None:
        self._verb, self._one, self._batch, self._whole = verb, one, batch, whole

    def title(self) -> str:
        """The title as it is chosen now."""
        owners = {each.conversation_id for each in (self._batch if self._whole.on else (self._one,))}
        if not owners:
            return f"{self._verb} a batch"
        if len(owners) > 1:
            return f"{self._verb}, {len(owners):,} conversations"
        [owner] = owners
        return self._verb if owner is None else f"{self._verb}, conversation {owner}"


def undoing_line(line: HistoryLine) -> Change:
    """Undo what holds of a line of the history, or redo it when nothing of it does."""
    batch = line.holding or [one.operation for one in line.listed]
    return undoing(batch[0], holds=bool(line.holding), batch=batch if len(line.listed) > 1 else ())


def undoing(one: Operation, *, holds: bool, batch: Sequence[Operation] = ()) -> Change:
    """Undo an operation that *holds*, redo one that was undone; with a *batch* at first all of it.

    The passes of a compaction, and a brief with its sweep, are one change to the operator.
    """
    if one.batch is not None and one.kind in WHOLE:
        batch = batch or (one,)
    of_batch = Choice("with all of its batch", ("no", "yes"), chosen="yes" if batch else "no")
    later = Choice.switch("with later operations that depend on it")
    choices = (*([of_batch] if one.batch is not None else []), *([later] if holds else []))

    async def plan(reader: Reader) -> Sequence[Plan]:
        try:
            return await _plan(reader, one, redo=not holds, whole=of_batch.on, with_later=later.on)
        except NotUndoableError as error:
            if not error.dependents or of_batch.on:
                raise
            raise _depended_on(error, choices.index(later)) from error

    around = _Titled("Undo" if holds else "Redo", one, batch, of_batch)
    return Change(plan, around.title(), ABOUT, choices, around=around)


async def _plan(
    reader: Reader, one: Operation, *, redo: bool, whole: bool, with_later: bool
) -> Sequence[Plan]:
    """*whole*: all of its batch that is in the same state; *with_later*: what depends on it too.

    What somebody else has undone (or redone) meanwhile is refused: an undo never becomes a redo by itself.
    """
    if whole and one.batch is not None:
        return await (plan_redo_batch if redo else plan_undo_batch)(reader, one.batch)
    if with_later and not redo:
        return await plan_undo_with_later(reader, one.id)
    return (await (plan_redo if redo else plan_undo)(reader, one.id),)


def _depended_on(error: NotUndoableError, choice: int) -> BlockedError:
    """What depends on an operation, and the choice that takes all of it back."""
    names = "; ".join(named(one) for one in error.dependents)
    number = len(error.dependents)
    key, offer = choice + 1, "Undo both" if number == 1 else f"Undo all {number + 1}"
    said = (
        "1 later change depends on it and goes"
        if number == 1
        else f"{number} later changes depend on it and go"
    )
    return BlockedError(
        f"{said} with it: {names}. Press {key} to {offer[0].lower()}{offer[1:]}.", choice, offer
    )
