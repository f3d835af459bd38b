"""Depth, counters and time ranges made again from the sources, upward as far as it shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.checks import proofs
from lcm_core.checks.structure import SAME_MOMENT, Node, Structure
from lcm_core.findings import FixId
from lcm_core.operations.fix.wishes import NOTHING, Chosen
from lcm_core.records import SummaryId


@dataclass(frozen=True, slots=True)
class _Measure:
    """One thing that is recorded of a summary and follows from its sources."""

    fix: FixId  #: which fix writes it
    mended: Callable[[Structure, Node], Node | None]  #: the node as it should be; None: it cannot be told


def _depth(structure: Structure, node: Node) -> Node | None:
    wanted = proofs.depth_of(structure, node)
    return None if wanted is None or node.depth is None else replace(node, depth=wanted)


def _count(structure: Structure, node: Node) -> Node | None:
    wanted = proofs.descendant_count_of(structure, node)
    return None if wanted is None or node.descendant_count is None else replace(node, descendant_count=wanted)


def _tokens(structure: Structure, node: Node) -> Node | None:
    wanted = proofs.descendant_tokens_of(structure, node)
    return (
        None if wanted is None or node.descendant_tokens is None else replace(node, descendant_tokens=wanted)
    )


def _source_tokens(structure: Structure, node: Node) -> Node | None:
    wanted = proofs.source_tokens_of(structure, node)
    if wanted is None or node.source_tokens is None:
        return None
    return node if wanted[0] <= node.source_tokens <= wanted[1] else replace(node, source_tokens=wanted[0])


def _times(structure: Structure, node: Node) -> Node | None:
    wanted = proofs.range_of(structure, node)
    if wanted is None:
        return None
    first, last = (
        stored if stored is not None and abs(stored - made) <= SAME_MOMENT else made
        for stored, made in ((node.earliest, wanted[0]), (node.latest, wanted[1]))
    )
    return replace(node, earliest=first, latest=last)


_MEASURES: Final = (
    _Measure(FixId.RECOMPUTE_DEPTH, _depth),
    _Measure(FixId.RECOMPUTE_COUNTERS, _count),
    _Measure(FixId.RECOMPUTE_COUNTERS, _tokens),
    _Measure(FixId.RECOMPUTE_COUNTERS, _source_tokens),
    _Measure(FixId.RECOMPUTE_TIMES, _times),
)


def derived(befores: Sequence[Structure], now: Structure, wanted: Mapping[FixId, Chosen]) -> Structure:
    """*now* with what follows from sources made again where it is *wanted*, and where it was right before.

    It was right when it was so in any of the *befores*: as it stood, and with the lines that were mended.

    So what was right stays right above a change, and what was wrong and is not asked for stays as it is: it
    may be the only trace of a source that was lost.
    """
    nodes = dict(now.nodes)
    work = replace(now, nodes=nodes)
    for summary_id in work.sources_first:
        for measure in _MEASURES:
            node = nodes[summary_id]
            mended = measure.mended(work, node)
            if mended is None or mended == node:
                continue
            was_right = any(_was_right(before, summary_id, measure) for before in befores)
            if was_right or _is_wanted(work, node, wanted, measure.fix):
                nodes[summary_id] = mended
    return work


def _is_wanted(work: Structure, node: Node, wanted: Mapping[FixId, Chosen], fix: FixId) -> bool:
    chosen = wanted.get(fix, NOTHING)
    if node.summary_id in chosen.keys:
        return True
    if fix is FixId.RECOMPUTE_DEPTH:
        # A count below zero is one finding, whichever column it stands in.
        below_zero = node.depth is not None and node.depth < 0
        return chosen.everything or (below_zero and node.summary_id in wanted.get(_COUNTERS, NOTHING))
    return chosen.everything and proofs.sources_are_whole(work, node)


_COUNTERS: Final = FixId.RECOMPUTE_COUNTERS


def _was_right(before: Structure, summary_id: SummaryId, measure: _Measure) -> bool:
    """Whether it was right, or could not be told wrong."""
    node = before.nodes[summary_id]
    mended = measure.mended(before, node)
    return mended is None or _same(mended, node)


def _same(one: Node, other: Node) -> bool:
    """Equal, and readable: a time that cannot be read equals nothing."""
    times = (one.earliest, one.latest)
    return one == other and not any(time is not None and math.isnan(time) for time in times)
