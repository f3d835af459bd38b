"""Whatever stands in a context and whatever comes of a pass: passes are sound, and they end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT
from lcm_core.operations.compact import CompactionSetting, forecast_passes
from lcm_core.operations.selection import (
    Bounds,
    Compaction,
    Outcome,
    Pass,
    PassMade,
    PassMoved,
    PassRefused,
    PassSkipped,
    WeighedContext,
    WeighedItem,
    runs,
    tail_start,
)
from lcm_core.writers.source import Rendering

from tests.support import with_values

Operation = Callable[[Compaction], Generator[Pass, Outcome, Any]]

RULES = st.sampled_from([RULES_0_1, RULES_PRESENT])
OPERATIONS: st.SearchStrategy[Operation] = st.sampled_from(
    [
        Compaction.sweep,
        Compaction.leaf,
        Compaction.single_root,
        lambda compaction: compaction.sweep(hard=True, stop_at=10),
        lambda compaction: compaction.sweep(force=False, observed=10_000),
        lambda compaction: compaction.until_under(50),
    ]
)
_MESSAGE = st.builds(
    lambda tokens, is_user, sound: WeighedItem(0, tokens, is_user, 0, sound),
    st.integers(0, 60),
    st.booleans(),
    st.integers(0, 15).map(bool),
)
_SUMMARY = st.builds(
    lambda tokens, depth, sound, blank: WeighedItem("", tokens, False, depth, sound, blank),
    st.integers(0, 60),
    st.integers(0, 3),
    st.integers(0, 15).map(bool),
    st.booleans(),
)
_ITEMS = st.tuples(
    st.lists(_SUMMARY, max_size=12), st.lists(st.one_of(_MESSAGE, _MESSAGE, _SUMMARY), max_size=40)
)


@st.composite
def contexts(draw: st.DrawFn) -> WeighedContext:
    """Summaries and then mostly messages, each with an id of its own."""
    summaries, rest = draw(_ITEMS)
    items = [
        item._replace(ref=number + 1 if isinstance(item.ref, int) else f"sum_{number}")
        for number, item in enumerate([*summaries, *rest])
    ]
    return WeighedContext.of(items)


@dataclass
class Driver:
    """Carries an operation out in memory; what comes of a pass is drawn."""

    rules: Any
    operation: Operation
    count: int
    outcomes: list[str]
    seen: list[Pass] = field(default_factory=list)
    now: int = 0

    def run(self, context: WeighedContext) -> Any:
        """The result, with every pass checked before it is made."""
        rules = with_values(
            self.rules,
            fresh_tail_count=self.count,
            leaf_chunk_tokens=120,
            leaf_min_fanout=3,
            condensed_min_fanout=3,
            condensed_target_tokens=10,
            max_sweep_iterations=20,
            sweep_deadline_ms=50_000,
        )
        compaction = Compaction(context, rules, 100, lambda: self.now, Bounds(self.count, 120))
        running = self.operation(compaction)
        outcome: Outcome | None = None
        while True:
            try:
                due = next(running) if outcome is None else running.send(outcome)
            except StopIteration as ended:
                return ended.value
            self.now += 1000
            self.check(context, due, tail_start(context, self.count, rules.tail))
            outcome = self.outcome(context, due)

    def check(self, context: WeighedContext, due: Pass, tail: int) -> None:
        """A pass is a run of its kind before the tail, and within its limit."""
        items = context.items[due.run.start : due.run.stop]
        assert items
        assert due.run.stop <= tail
        assert all(item.sound for item in items)
        assert {type(item.ref) for item in items} == ({int} if due.is_leaf else {str})
        assert due.depth == 0 or max(item.depth for item in items) == due.depth - 1
        counted = sum(item.weight for item in items if not item.blank)  # what says nothing weighs nothing
        assert len(items) <= (1 if due.is_leaf else 2) or counted <= 120
        assert due.is_leaf or len(items) >= 2
        self.seen.append(due)
        assert len(self.seen) <= 400

    def outcome(self, context: WeighedContext, due: Pass) -> Outcome:
        """What is made of it."""
        kind = self.outcomes.pop(0) if self.outcomes else "saved"
        before = sum(item.weight for item in context.items[due.run.start : due.run.stop])
        if kind == "skipped" and due.is_leaf:
            return PassSkipped()
        if kind == "moved":
            return PassMoved()
        if kind == "refused":
            return PassRefused()
        size = before + 1 if kind == "grown" else before // 3
        name = f"made_{len(self.seen)}"
        context.replace(due.run, WeighedItem(name, size, depth=due.depth))
        return PassMade(name, "normal", before - size)


KINDS = st.lists(
    st.sampled_from(["saved", "saved", "saved", "skipped", "moved", "grown", "refused"]), max_size=30
)


@pytest.mark.long
@given(contexts(), RULES, OPERATIONS, st.integers(0, 12), KINDS)
def test_every_pass_is_sound_and_there_is_an_end(
    context: WeighedContext, rules, operation: Operation, count: int, outcomes: list[str]
) -> None:
    messages = [item.ref for item in context.items if isinstance(item.ref, int)]
    driver = Driver(rules, operation, count, outcomes)
    driver.run(context)
    left = [item.ref for item in context.items if isinstance(item.ref, int)]
    assert left == [one for one in messages if one in set(left)], "messages changed places"
    assert context.tokens == sum(item.stored or 0 for item in context.items)


@pytest.mark.long
@given(contexts(), RULES, st.integers(0, 12))
def test_sweep_after_sweep_converges(context: WeighedContext, rules, count: int) -> None:
    for _ in range(40):
        driver = Driver(rules, Compaction.sweep, count, [])
        driver.run(context)
        if not driver.seen:
            return
    raise AssertionError("it goes on and on")


@pytest.mark.long
@given(contexts(), RULES, OPERATIONS)
def test_what_is_foreseen_leaves_the_context_alone(
    context: WeighedContext, rules, operation: Operation
) -> None:
    items = list(context.items)
    loaded = context
    seen = forecast_passes(loaded, CompactionSetting(Rendering(rules), 1000), operation)
    assert (context.items, context.tokens) == (items, seen.tokens_before)
    assert seen.damaged == sum(not item.sound for item in items)


def test_two_summaries_right_before_the_tail_are_a_run_however_heavy():
    context = WeighedContext.of([WeighedItem(f"sum_{at}", 100, False, 0, True) for at in range(3)])
    assert list(runs(context, 2, 0, 50)) == [range(2)]
    assert list(runs(context, 3, 0, 50)) == [range(2), range(2, 3)]
