"""After an overflow finished tool calls of the current turn are compacted.

docs/spec/compaction.md, "Current turn", is told a second time, over a line of letters: one for each item
behind the newest user message.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.engine.rules import RULES_1_1, RULES_PRESENT
from lcm_core.operations.compact import CompactionSetting
from lcm_core.operations.selection import (
    Bounds,
    PassMade,
    PassSkipped,
    TurnMessage,
    UnderResult,
    WeighedContext,
    WeighedItem,
    leaf_chunk,
    tail_start,
    tool_chunk,
)
from lcm_core.writers.source import Rendering

from tests.support import with_values

#: Calls by few ids, so that some are used again, have no result, or none is noted.
IDS = ["a", "b", "c", "d", "e", "f", "g", ""]


@dataclass(frozen=True)
class Told:
    """An item: u(ser), s(ummary), p(lain assistant), c(alls), t(ool), x (another role)."""

    kind: str
    tokens: int
    ids: tuple[str, ...] = ()


@st.composite
def turns(draw: st.DrawFn) -> list[Told]:
    """What was before, a user message, and mostly calls with their results behind it."""
    size = st.sampled_from([0, 1, 5, 10, 30, 100])
    items = [Told(kind, draw(size)) for kind in draw(st.lists(st.sampled_from("upps"), max_size=4))]
    if draw(st.integers(0, 9)):
        items.append(Told("u", draw(size)))
    fresh = 0
    for kind in draw(st.lists(st.sampled_from("gggggGGpsctx"), max_size=14)):
        if kind not in "gG":
            ids = tuple(draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=2))) if kind in "ct" else ()
            items.append(Told(kind, draw(size), ids))
            continue
        calls = tuple(f"n{fresh + at}" for at in range(draw(st.integers(1, 3))))
        fresh += len(calls)
        items.append(Told("c", draw(size), calls))
        if kind == "g":
            items += [Told("t", draw(size), (call,)) for call in draw(st.permutations(calls))]
        else:  # several results in one message
            items.append(Told("t", draw(size), calls))
    return items


def context_of(items: list[Told], gaps: frozenset[int] = frozenset()) -> WeighedContext:
    """The same as the code has it; an ordinal is left out before each place of *gaps*."""
    roles = {"u": "user", "p": "assistant", "c": "assistant", "t": "tool", "x": "system"}
    ordinal, whole = -1, []
    for at, item in enumerate(items):
        ordinal += 1 + (at in gaps)
        ref: int | str = f"sum_{at}" if item.kind == "s" else at + 1
        whole.append(WeighedItem(ref, item.tokens, item.kind == "u", ordinal=ordinal))
    context = WeighedContext.of(whole)
    last = max((at for at, item in enumerate(items) if item.kind == "u"), default=len(items))
    context.turn = {
        at + 1: TurnMessage(roles[item.kind], item.ids)
        for at, item in enumerate(items)
        if at > last and item.kind != "s"
    }
    return context


def told_chunk(
    items: list[Told], ordinals: list[int], count: int, most: int | None, limit: int, above: int | None
) -> list[int]:
    """The indices of the chunk, from the page alone."""
    users = [at for at, item in enumerate(items) if item.kind == "u"]
    if not users:
        return []
    start = users[-1] + 1
    raw = [at for at in range(start, len(items)) if items[at].kind != "s"][::-1]
    spared: list[int] = []
    for at in raw:
        within = most is None or sum(items[one].tokens for one in [*spared, at]) <= most
        if spared and (len(spared) >= count or not within):
            break
        spared.append(at)
    stop = min(spared, default=len(items))
    used = Counter(call for at in range(start, len(items)) if items[at].kind == "c" for call in items[at].ids)
    line = "".join(item.kind for item in items[start:stop])
    groups: list[range] = []
    place = 0
    while (match := re.compile("[sp]*(c)(t*)").match(line, place)) is not None:
        first = start + match.start(1)
        calls, answered, end = set(items[first].ids), set(), first + 1
        if "" in calls or any(used[call] > 1 for call in items[first].ids):
            break
        for at in range(start + match.start(2), start + match.end(2)):
            ids = set(items[at].ids)
            if calls == answered or not ids <= calls - answered:
                break
            answered |= ids
            end = at + 1
        if calls != answered:
            break
        groups.append(range(first, end))
        place = end - start
    groups = [group for group in groups if above is None or ordinals[group.start] > above]
    chunk: list[int] = []
    for group in groups:
        spent = sum(items[at].tokens for at in chunk)
        weight = sum(items[at].tokens for at in group)
        beside = chunk and ordinals[group.start] == ordinals[chunk[-1]] + 1 and group.start == chunk[-1] + 1
        if chunk and (not beside or spent >= limit or spent + weight > limit):
            break
        chunk += group
    return chunk


@pytest.mark.long
@given(
    turns(),
    st.frozensets(st.integers(0, 30), max_size=2),
    st.integers(1, 6),
    st.one_of(st.none(), st.sampled_from([0, 10, 60, 200])),
    st.sampled_from([1, 20, 60, 400]),
    st.one_of(st.none(), st.integers(0, 30)),
)
def test_both_tellings_choose_the_same_calls(
    items: list[Told],
    gaps: frozenset[int],
    count: int,
    most: int | None,
    limit: int,
    above: int | None,
) -> None:
    context = context_of(items, gaps)
    tail = with_values(RULES_1_1, fresh_tail_max_tokens=most).tail
    found = list(tool_chunk(context, Bounds(count, limit), tail, above))
    assert found == told_chunk(items, list(context.ordinals), count, most, limit, above)


@pytest.mark.long
@given(turns(), st.integers(-1, 6), st.sampled_from([20, 60, 400]), st.data())
def test_a_sweep_after_an_overflow_leaves_no_call_without_its_result(
    items: list[Told], count: int, limit: int, data: st.DataObject
) -> None:
    rules = with_values(
        RULES_1_1, fresh_tail_count=count, leaf_chunk_tokens=limit, max_sweep_iterations=1_000
    )
    context = context_of(items)
    setting = CompactionSetting(Rendering(rules), 10_000, current_turn=True)
    compaction = setting.compaction(context, lambda: 0)
    bounds = setting.bounds()
    assert bounds.fresh_tail_count == max(1, count)
    running, outcome, taken = compaction.sweep(), None, set[int]()
    skipped: int | None = None
    while True:
        try:
            due = next(running) if outcome is None else running.send(outcome)
        except StopIteration:
            break
        if not due.is_leaf:
            outcome = PassSkipped()
            continue
        ordinary = leaf_chunk(
            context, tail_start(context, bounds.fresh_tail_count, rules.tail), limit, skipped
        )
        refs = [ref for ref in context.refs[due.run.start : due.run.stop] if isinstance(ref, int)]
        assert len(refs) == len(due.run), "no summary is taken"
        if not ordinary:
            assert due.run == tool_chunk(context, bounds, rules.tail, skipped)
            assert refs[0] > max(at for at, item in enumerate(items, 1) if item.kind == "u")
        if data.draw(st.integers(0, 5)) == 0:
            skipped = context.ordinals[due.run.stop - 1]
            outcome = PassSkipped()
            continue
        taken |= set(refs)
        removed = context.removed(due.run, is_leaf=True)
        context.replace(due.run, WeighedItem(f"made_{len(taken)}", removed // 3))
        outcome = PassMade(f"made_{len(taken)}", "normal", removed - removed // 3)
    last = max((at for at, item in enumerate(items, 1) if item.kind == "u"), default=0)
    behind = [at for at in taken if last and at > last]
    assert {call for at in behind if items[at - 1].kind == "c" for call in items[at - 1].ids} == {
        call for at in behind if items[at - 1].kind == "t" for call in items[at - 1].ids
    }
    assert last not in taken


FINISHED = [
    Told("u", 5),
    *(one for at in range(6) for one in (Told("c", 10, (f"n{at}",)), Told("t", 30, (f"n{at}",)))),
]


@pytest.mark.parametrize(("rules", "taken"), [(RULES_1_1, True), (RULES_PRESENT, False)])
def test_only_engines_from_1_1_on_compact_the_current_turn(rules, taken: bool) -> None:
    rules = with_values(rules, fresh_tail_count=2, leaf_chunk_tokens=60)
    for current_turn in (False, True):
        setting = CompactionSetting(Rendering(rules), 100, current_turn=current_turn)
        compaction = setting.compaction(context_of(FINISHED), lambda: 0)
        assert (next(compaction.sweep(), None) is not None) == (taken and current_turn)


def test_an_overflow_aims_below_the_threshold_and_says_whether_it_stored_anything() -> None:
    rules = with_values(RULES_1_1, fresh_tail_count=2, leaf_chunk_tokens=60, context_threshold=0.5)

    def until_under(current_turn: bool, budget: int) -> UnderResult:
        context = context_of(FINISHED)
        setting = CompactionSetting(Rendering(rules), budget, current_turn=current_turn)
        running = setting.compaction(context, lambda: 0).until_under()
        outcome = None
        while True:
            try:
                due = next(running) if outcome is None else running.send(outcome)
            except StopIteration as ended:
                result = ended.value
                assert isinstance(result, UnderResult)
                return result
            removed = context.removed(due.run, is_leaf=True)
            context.replace(due.run, WeighedItem(f"made_{due.number}", 1))
            outcome = PassMade(f"made_{due.number}", "normal", removed - 1)

    under = until_under(current_turn=True, budget=250)
    assert (under.success, under.acted) == (True, True)
    assert under.final_tokens <= 125
    assert until_under(current_turn=False, budget=250) == UnderResult(True, 0, 245)
    assert not until_under(current_turn=False, budget=100).acted
