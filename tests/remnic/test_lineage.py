"""Order, ranges and upward links of any graph, also of one that no engine makes, by plain definitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_remnic.source import Link, MessageKey, Outline, SourceSummary, in_order, place_summaries

_NAMES = st.integers(0, 7).map(lambda number: f"sum_{number}")


@st.composite
def _outlines(draw: st.DrawFn) -> Outline:
    depths = draw(st.dictionaries(_NAMES, st.integers(0, 3), min_size=1))
    edges = draw(st.lists(st.builds(Link, _NAMES, _NAMES, st.integers(0, 3)), max_size=20))
    links = draw(st.lists(st.builds(Link, _NAMES, st.integers(0, 12), st.integers(0, 3)), max_size=10))
    summaries = tuple(SourceSummary(name, 1, depth, {}) for name, depth in depths.items())
    return Outline((), summaries, tuple(links), tuple(edges), (), 0)


@pytest.mark.long
@given(_outlines())
def test_ranges_hold_all_turns_below_and_no_parent_leads_back(outline: Outline):
    turns = {message: 100 - message for message in range(10)}  # 10 to 12 are gone
    placed, lost = place_summaries(outline, turns)
    ids = {one.summary_id for one in outline.summaries}
    assert ids == {one.summary.summary_id for one in placed} | set(lost)
    for one in placed:
        below, waiting = set(), {one.summary.summary_id}
        while waiting - below:
            below |= waiting
            waiting = {str(e.target) for e in outline.edges if e.summary_id in below and e.target in ids}
        reached = [turns[k.target] for k in outline.links if k.summary_id in below and k.target in turns]
        assert (one.start, one.end) == (min(reached), max(reached))
    parents = {one.summary.summary_id: one.parent for one in placed}
    for name in parents:
        seen: list[str] = []
        above: str | None = name
        while above is not None:
            assert above not in seen
            seen.append(above)
            above = parents[above]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 5)), max_size=12))
def test_turns_are_by_time_and_never_against_seq(described: list[tuple[int, int]]):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    messages = [
        MessageKey(number, conversation, number, (start + timedelta(hours=hours)).isoformat())
        for number, (conversation, hours) in enumerate(described)
    ]
    ordered = in_order(reversed(messages))
    assert sorted(one.message_id for one in ordered) == list(range(len(messages)))
    for conversation in {one.conversation_id for one in messages}:
        places = [one.seq for one in ordered if one.conversation_id == conversation]
        assert places == sorted(places)
    if all(a.created_at <= b.created_at for a, b in pairwise(messages)):
        keys = [(one.created_at, one.conversation_id, one.seq) for one in ordered]
        assert keys == sorted(keys)
