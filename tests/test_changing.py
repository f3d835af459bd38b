"""The one way of a change, without a database and without a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from lcm_core.api import Plan, RefusedError, StalePlanError
from lcm_core.base.errors import CancelledError
from lcm_core.change.commit import Committed
from lcm_core.change.plan import BusyError, Cells, Moved, ReplacedError, RowChange

from lcm_tui.flows import change as flow
from lcm_tui.flows.change import Change, ChangeState, apply

STOPPED = "Cancelled. Earlier changes stay."

MOVED = Moved("summaries sum_1: content", "old", "new")


def plan(number: int, batch: str | None = None) -> Plan:
    key, row = Cells.of({"id": number}), Cells.of({"id": number})
    return Plan("test", f"Change {number}", 1, (RowChange("t", key, row, None),), batch=batch)


class Face:
    """A face that plans what it is given, agrees as often as it may, and counts."""

    database: Any = None
    wait = 0.0

    def __init__(self, *planned: Sequence[Plan], more: int = 0, agrees: int = 9) -> None:
        """*planned*: what each look plans; *more*: how many of them have others behind them."""
        self.planned = list(planned)
        self.more = more
        self.agrees = agrees
        self.asked = self.worked = 0
        self.stops = False

    async def agree(self, state: ChangeState) -> bool:
        self.asked += 1
        if self.asked > self.agrees:
            return False
        await self.plan_rest(state)
        return bool(state.ahead)

    async def plan_rest(self, state: ChangeState) -> None:
        self.more -= 1
        state.plan(self.planned.pop(0), more=self.more >= 0)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        self.worked += 1
        yield

    def cancelled(self) -> bool:
        return self.stops

    def changed(self) -> None:
        pass

    def tell(self, notices) -> None:
        pass


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch):
    """What becomes of the commits, one by one; without any, all succeed."""
    left = []

    async def commit(database: object, one: Plan, **_: object) -> Committed:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return Committed(None, one.edits, 0, None, 0.0, 0.0)

    monkeypatch.setattr(flow, "commit_plan", commit)
    return left


async def applied(face: Face) -> ChangeState:
    async def planner(_: object) -> Sequence[Plan]:
        return ()

    state = ChangeState()
    await apply(face, Change(planner), state)
    return state


def titles(state: ChangeState) -> tuple[list[str], list[str]]:
    return [one.plan.title for one in state.done], [one.title for one in state.ahead]


async def test_one_plan_is_agreed_to_and_committed_without_a_batch(outcomes):
    face = Face([plan(1)])
    state = await applied(face)
    assert (state.finished, state.error, state.done[0].plan.batch, face.asked) == (True, None, None, 1)
    assert [(row.table, row.delete) for row in state.done[0].rows] == [("t", 1)]


async def test_with_nothing_to_do_nothing_is_committed(outcomes):
    face = Face([])
    state = await applied(face)
    assert (state.finished, state.total, face.worked) == (False, 0, 0)


async def test_plans_that_belong_together_have_a_batch_and_keep_their_own(outcomes):
    state = await applied(Face([plan(1), plan(2, "batch_own")]))
    assert [one.plan.batch for one in state.done] == [state.batch, "batch_own"]


@pytest.mark.parametrize("error", [StalePlanError([MOVED]), ReplacedError("Another file lies there.")])
async def test_what_went_stale_is_asked_about_again(outcomes, error):
    outcomes += [None, error]
    face = Face([plan(1), plan(2)], [plan(2)])
    state = await applied(face)
    assert (state.finished, state.error, face.asked, state.stale) == (True, None, 2, 1)
    assert state.why == ((MOVED.text,) if isinstance(error, StalePlanError) else (error.message,))
    assert {one.plan.batch for one in state.done} == {state.batch}


async def test_who_does_not_agree_again_keeps_what_was_done(outcomes):
    outcomes += [None, StalePlanError([MOVED])]
    state = await applied(Face([plan(1), plan(2)], agrees=1))
    assert (state.finished, state.moved, titles(state)) == (False, (MOVED,), (["Change 1"], ["Change 2"]))


@pytest.mark.parametrize("error", [RefusedError("No."), BusyError("x.db", 1.0)])
async def test_what_fails_in_the_middle_keeps_what_was_done_and_what_is_ahead(outcomes, error):
    outcomes += [None, error]
    face = Face([plan(1), plan(2), plan(3)])
    state = await applied(face)
    assert (state.finished, state.error, face.asked, state.total) == (False, error, 1, 3)
    assert titles(state) == (["Change 1"], ["Change 2", "Change 3"])


@pytest.mark.parametrize("done", [0, 1])
async def test_stopped_between_two_earlier_changes_stay(outcomes, done: int):
    outcomes += [*[None] * done, CancelledError("Cancelled; nothing was changed.")]
    state = await applied(Face([plan(1), plan(2)]))
    assert str(state.error) == (STOPPED if done else "Cancelled; nothing was changed.")
    assert len(state.done) == done


async def test_the_rest_that_was_agreed_to_is_committed_unasked_until_something_moves(
    outcomes,
):
    face = Face([plan(1)], [plan(2)], [], more=2)
    state = await applied(face)
    assert (state.finished, face.asked, [len(one.plan.edits) for one in state.done]) == (True, 1, [0, 0])
    assert [row.delete for one in state.done for row in one.rows] == [1, 1]
    outcomes += [None, StalePlanError([MOVED])]
    face = Face([plan(1)], [plan(2)], [plan(2)], [], more=3)
    state = await applied(face)
    assert (state.finished, face.asked, len(state.done)) == (True, 2, 2)


async def test_only_what_the_history_knows_is_taken_back_as_a_batch(outcomes):
    state = await applied(Face([plan(1), plan(2)]))
    assert state.undo_batch is None

    class Journaled(Committed):
        @property
        def id(self) -> str:
            return "op_1"

    state.done[0] = flow.Done(state.done[0].plan, Journaled(None, (), 0, None, 0.0, 0.0), ())
    assert state.undo_batch == state.batch
