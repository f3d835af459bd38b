"""Sources that a summary lost and that its own counters prove (B1, B2, B13).

A summary keeps sums over its sources. When they stop adding up, and adding certain rows that nothing uses
makes every sum and the time range exact again, those rows were its sources: there is nothing to guess.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

from lcm_core.dag.checks.facts import NO_LINKS, SAME_MOMENT, Node, Structure
from lcm_core.records import SummaryId

#: Starts and ends that are tried for a leaf; messages of one second make several possible.
_MAX_TRIES = 64


def lost_sources(structure: Structure) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
    """By condensed summary, the orphans that were its sources, in order of time."""
    found: dict[SummaryId, tuple[SummaryId, ...]] = {}
    for consumer in structure.nodes.values():
        if consumer.is_leaf or consumer.depth is None or not consumer.descendant_count:
            continue
        sources = [structure.nodes.get(edge.source) for edge in structure.edges.get(consumer.summary_id, ())]
        kept = [source for source in sources if source is not None]
        if len(kept) < len(sources) or adds_up(consumer, kept):
            continue
        lost = [
            node
            for node in map(structure.nodes.__getitem__, structure.orphans)
            if _may_be_source(node, consumer)
        ]
        if lost and adds_up(consumer, kept + lost):
            lost.sort(key=lambda node: node.earliest or 0.0)
            found[consumer.summary_id] = tuple(node.summary_id for node in lost)
    return found


def _may_be_source(node: Node, consumer: Node) -> bool:
    if node.depth is None or consumer.depth is None or node.depth != consumer.depth - 1:
        return False
    ends = (consumer.earliest, node.earliest, node.latest, consumer.latest)
    times = [moment for moment in ends if moment is not None]
    return len(times) == 4 and times == sorted(times) and node.created <= consumer.created


def adds_up(consumer: Node, sources: list[Node]) -> bool:
    """Whether all sums that this version records, and the time range, are those of *sources*."""
    if not sources:
        return False
    if consumer.descendant_count != sum((one.descendant_count or 0) + 1 for one in sources):
        return False
    if consumer.descendant_tokens is not None and consumer.descendant_tokens != sum(
        one.tokens + (one.descendant_tokens or 0) for one in sources
    ):
        return False
    if consumer.source_tokens is not None and consumer.source_tokens != sum(
        one.source_tokens or 0 for one in sources
    ):
        return False
    starts = [one.earliest for one in sources if one.earliest is not None]
    ends = [one.latest for one in sources if one.latest is not None]
    return (
        bool(starts and ends) and _same(consumer.earliest, min(starts)) and _same(consumer.latest, max(ends))
    )


def _same(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) <= SAME_MOMENT


def lost_messages(structure: Structure) -> Mapping[SummaryId, tuple[int, int]]:
    """By leaf that lost links, all of them or some, the first and last place of what it was made from."""
    found: dict[SummaryId, tuple[int, int]] = {}
    by_time: list[tuple[float, int]] = []
    for leaf in structure.nodes.values():
        if not leaf.is_leaf or not leaf.source_tokens or leaf.earliest is None or leaf.latest is None:
            continue
        own = frozenset(structure.places(leaf.summary_id))
        if len(own) < len(structure.links.get(leaf.summary_id, NO_LINKS).message_ids):
            continue
        if sum(structure.messages.tokens[place] for place in own) >= leaf.source_tokens:
            continue
        by_time = by_time or sorted((day, place) for place, day in enumerate(structure.messages.days))
        fitting = list(_fitting_runs(structure, leaf, own, by_time))
        if len(fitting) == 1:
            found[leaf.summary_id] = fitting[0]
    return found


def run_of(structure: Structure, ends: tuple[int, int]) -> list[int]:
    """The places of a run; compaction events are none."""
    return [place for place in range(ends[0], ends[1] + 1) if not structure.messages.events[place]]


def _fitting_runs(
    structure: Structure, leaf: Node, own: frozenset[int], by_time: list[tuple[float, int]]
) -> Iterator[tuple[int, int]]:
    """The runs with the leaf's time range and token sum, of its own messages and such as nothing uses."""
    messages = structure.messages
    starts, ends = (_at(by_time, moment) for moment in (leaf.earliest, leaf.latest))
    for first in starts:
        for last in ends:
            if own and not first <= min(own) <= max(own) <= last:
                continue
            places = run_of(structure, (first, last))
            if not places or places[0] != first or places[-1] != last:
                continue
            unused = not any(
                structure.raw[place] or structure.linked[place] for place in places if place not in own
            )
            if unused and sum(messages.tokens[place] for place in places) == leaf.source_tokens:
                yield first, last


def _at(by_time: list[tuple[float, int]], moment: float | None) -> list[int]:
    """The places of the messages of one moment, not too many of them."""
    if moment is None or math.isnan(moment):
        return []
    low = bisect_left(by_time, (moment - SAME_MOMENT, -1))
    found = takewhile(lambda one: one[0] <= moment + SAME_MOMENT, islice(by_time, low, low + _MAX_TRIES))
    return sorted(place for _, place in found)
