"""The road of a change as a value, without a database and without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lcm_core.base.errors import CancelledError, LcmError, RefusedError
from lcm_core.change.commit import Committed
from lcm_core.change.plan import BusyError, Cells, Moved, Plan, ReplacedError, RowChange, StalePlanError

from lcm_tui.flows.change import ATTEMPTS, STOPPED, Changing, Phase

MOVED = Moved("summaries sum_1: content", "old", "new")


def plan(number: int, batch: str | None = None) -> Plan:
    key, row = Cells.of({"id": number}), Cells.of({"id": number})
    return Plan("test", f"Change {number}", 1, (RowChange("t", key, row, None),), batch=batch)


def done(of: Plan) -> Committed:
    return Committed(None, of.edits, 0, None, 0.0, 0.0)


def agreed(*plans: Plan, more: bool = False) -> Changing:
    return Changing().plan(plans, more=more).agree()


def commit_all(state: Changing) -> Changing:
    for one in state.ahead:
        state = state.commit(done(one))
    return state


def titles(state: Changing) -> tuple[list[str], list[str]]:
    return [one.plan.title for one in state.done], [one.title for one in state.ahead]


def test_one_plan_is_planned_agreed_to_and_done():
    state = Changing()
    assert (state.phase, state.ended) == (Phase.PLANNING, False)
    state = state.plan([plan(1)])
    assert (state.phase, state.ahead[0].batch) == (Phase.PLANNED, None)
    state = state.agree()
    assert (state.phase, state.ended) == (Phase.COMMITTING, False)
    state = commit_all(state)
    assert (state.phase, state.ended, state.ahead, state.total) == (Phase.DONE, True, (), 1)
    assert [(row.table, row.delete) for row in state.done[0].rows] == [("t", 1)]


def test_with_nothing_to_do_it_is_done_and_nobody_is_asked():
    state = Changing().plan([])
    assert (state.phase, state.ended, state.total) == (Phase.DONE, True, 0)


def test_plans_that_belong_together_have_a_batch_and_keep_their_own():
    state = Changing().plan([plan(1), plan(2, "batch_own")])
    assert [one.batch for one in state.ahead] == [state.batch, "batch_own"]
    assert Changing().plan([plan(1)], more=True).ahead[0].batch is not None
    begun = agreed(plan(1)).commit(done(plan(1)))
    assert begun.plan([plan(2)]).ahead[0].batch == begun.batch


def test_what_went_stale_once_is_planned_and_asked_about_again():
    state = agreed(plan(1)).fail(StalePlanError([MOVED]))
    assert (state.phase, state.ended, state.moved) == (Phase.STALE, False, (MOVED,))
    state = state.plan([plan(1)])
    assert (state.phase, state.error, state.moved) == (Phase.PLANNED, None, ())
    state = commit_all(state.agree())
    assert (state.phase, state.why) == (Phase.DONE, (MOVED.text,))


def test_stale_three_times_fails_when_nobody_looks_and_not_else():
    state = looked_at = Changing()
    for _ in range(ATTEMPTS):
        assert not state.ended
        state = state.plan([plan(1)]).agree().fail(StalePlanError([MOVED]), attempts=ATTEMPTS)
        looked_at = looked_at.plan([plan(1)]).agree().fail(StalePlanError([MOVED]))
    assert (state.phase, state.ended, state.stale) == (Phase.FAILED, True, ATTEMPTS)
    assert (looked_at.phase, looked_at.ended) == (Phase.STALE, False)


def test_a_file_that_was_replaced_is_stale_with_its_sentence():
    state = agreed(plan(1)).fail(ReplacedError("Another file lies there."))
    assert (state.phase, state.why, state.moved) == (Phase.STALE, ("Another file lies there.",), ())


@pytest.mark.parametrize("error", [RefusedError("No."), BusyError("x.db", 1.0)])
def test_what_fails_in_the_middle_keeps_what_was_done_and_what_is_ahead(error: LcmError):
    state = agreed(plan(1), plan(2), plan(3))
    state = state.commit(done(state.ahead[0])).fail(error)
    assert (state.phase, state.ended, state.error) == (Phase.FAILED, True, error)
    assert titles(state) == (["Change 1"], ["Change 2", "Change 3"])
    assert state.total == 3


def test_who_takes_the_word_back_is_asked_again():
    state = agreed(plan(1)).withdraw()
    assert state.phase is Phase.PLANNED
    assert state.plan([plan(1)]).phase is Phase.PLANNED


def test_stopped_between_two_earlier_changes_stay():
    nothing_was_changed = CancelledError("Cancelled; nothing was changed.")
    state = agreed(plan(1), plan(2))
    assert state.stop(nothing_was_changed).error is nothing_was_changed
    state = state.commit(done(state.ahead[0])).stop(nothing_was_changed)
    assert (state.phase, str(state.error)) == (Phase.CANCELLED, STOPPED)
    assert titles(state) == (["Change 1"], ["Change 2"])


def test_stale_in_the_middle_the_rest_is_planned_and_asked_about():
    state = agreed(plan(1), plan(2))
    state = state.commit(done(state.ahead[0])).fail(StalePlanError([MOVED])).plan([plan(2)])
    assert (state.phase, titles(state)) == (Phase.PLANNED, (["Change 1"], ["Change 2"]))
    assert {one.plan.batch for one in commit_all(state.agree()).done} == {state.batch}


def test_the_rest_that_was_agreed_to_is_committed_unasked_until_something_moves():
    state = commit_all(agreed(plan(1), more=True))
    assert (state.phase, state.done[0].plan.edits) == (Phase.PLANNING, ())
    assert [row.delete for row in state.done[0].rows] == [1]
    state = state.plan([plan(2)], more=True)
    assert state.phase is Phase.COMMITTING
    assert state.fail(StalePlanError([MOVED])).plan([plan(2)], more=True).phase is Phase.PLANNED
    assert commit_all(state).plan([]).phase is Phase.DONE


def test_only_what_the_history_knows_is_taken_back_as_a_batch():
    state = commit_all(agreed(plan(1), plan(2)))
    assert state.undo_batch is None

    class Journaled(Committed):
        @property
        def id(self) -> str:
            return "op_1"

    known = Journaled(None, (), 0, None, 0.0, 0.0)
    assert replace(state, done=(replace(state.done[0], committed=known),)).undo_batch == state.batch
