"""The summaries of a conversation as the fixes leave them. Pure.

Links and edges that lead nowhere or are disproved go, lost ones that are proven come back; depth, counters
and time ranges are made again from the sources, upward as far as it shows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.checks.proofs import (
    can_be_numbered,
    depth_of,
    descendant_count_of,
    descendant_tokens_of,
    edges_in_order,
    false_messages,
    false_sources,
    links_in_order,
    lost_messages,
    lost_sources,
    misnumbered,
    range_of,
    run_of,
    source_tokens_of,
    sources_are_whole,
)
from lcm_core.checks.structure import SAME_MOMENT, Links, StoredNode, Structure
from lcm_core.findings import FixId
from lcm_core.operations.fix.requests import NOTHING, Chosen
from lcm_core.records import Edge, SummaryId


def without_loose_ends(structure: Structure) -> Structure:
    """Without links to messages and edges to summaries that are gone, and without edges to oneself."""
    here, elsewhere = structure.messages.position, structure.foreign_messages
    return _without(
        structure,
        lambda _, message_id: message_id not in here and elsewhere.get(message_id) is None,
        lambda edge: not _leads_somewhere(structure, edge),
    )


def without_false_lines(structure: Structure, chosen: Chosen) -> Structure:
    """Without the links and edges that counters disprove, those that *chosen* names by any of their ends."""
    links = {leaf: gone for leaf, gone in false_messages(structure).items() if _names(chosen, leaf, gone)}
    edges = {one: gone for one, gone in false_sources(structure).items() if _names(chosen, one, gone)}
    return _without(
        structure,
        lambda leaf, message_id: message_id in links.get(leaf, ()),
        lambda edge: edge.source in edges.get(edge.consumer, ()),
    )


def _names(chosen: Chosen, summary_id: SummaryId, sources: Collection[int | SummaryId]) -> bool:
    return summary_id in chosen or not chosen.keys.isdisjoint(sources)


def _without(
    structure: Structure, is_link_gone: Callable[[SummaryId, int], bool], is_edge_gone: Callable[[Edge], bool]
) -> Structure:
    """Without some lines; what was numbered without a gap is so again, and another gap stays.

    It is the trace of a loss.
    """
    links, edges = dict(structure.links), dict(structure.edges)
    for summary_id, held in structure.links.items():
        pairs = zip(held.message_ids, held.ordinals, strict=True)
        kept = [pair for pair in pairs if not is_link_gone(summary_id, pair[0])]
        if len(kept) < len(held.message_ids):
            whole = list(held.ordinals) == list(range(len(held.ordinals)))
            links[summary_id] = _links(kept, numbered=whole)
    for summary_id, lines in structure.edges.items():
        there = [edge for edge in lines if not is_edge_gone(edge)]
        if len(there) < len(lines):
            whole = [edge.ordinal for edge in lines] == list(range(len(lines)))
            edges[summary_id] = _edges(summary_id, there, numbered=whole)
    return replace(
        structure,
        links={one: held for one, held in links.items() if held.message_ids},
        edges={one: lines for one, lines in edges.items() if lines},
    )


def _leads_somewhere(structure: Structure, edge: Edge) -> bool:
    if edge.source == edge.consumer:
        return False
    return edge.source in structure.nodes or structure.foreign_summaries.get(edge.source) is not None


def _links(pairs: Iterable[tuple[int, int]], *, numbered: bool) -> Links:
    found = list(pairs)
    ordinals = range(len(found)) if numbered else [ordinal for _, ordinal in found]
    return Links(array("q", [message_id for message_id, _ in found]), array("q", ordinals))


def _edges(consumer: SummaryId, edges: Iterable[Edge], *, numbered: bool) -> tuple[Edge, ...]:
    return tuple(
        Edge(consumer, edge.source, at if numbered else edge.ordinal) for at, edge in enumerate(edges)
    )


def relinked(structure: Structure, chosen: Chosen) -> Structure:
    """With the lost links and edges that counters prove, those that *chosen* names by any of their ends."""
    links, edges = dict(structure.links), dict(structure.edges)
    for leaf, ends in lost_messages(structure).items():
        ids = [structure.messages.ids[place] for place in run_of(structure, ends)]
        if _names(chosen, leaf, ids):
            links[leaf] = Links(array("q", ids), array("q", range(len(ids))))
    for consumer, lost in lost_sources(structure).items():
        if _names(chosen, consumer, lost):
            edges[consumer] = _with_sources(structure, consumer, lost)
    return replace(structure, links=links, edges=edges)


def numbered(structure: Structure, chosen: Chosen) -> Structure:
    """With the sources of the summaries that *chosen* names numbered in their order, where that is proven."""
    links, edges = dict(structure.links), dict(structure.edges)
    for summary_id in dict.fromkeys(misnumbered(structure)):
        if summary_id not in chosen or not can_be_numbered(structure, summary_id):
            continue
        if summary_id in links:
            links[summary_id] = links_in_order(structure, summary_id) or links[summary_id]
        if summary_id in edges:
            edges[summary_id] = edges_in_order(structure, summary_id) or edges[summary_id]
    return replace(structure, links=links, edges=edges)


def _with_sources(structure: Structure, consumer: SummaryId, lost: Iterable[SummaryId]) -> tuple[Edge, ...]:
    """The edges with lost sources in the gaps of their numbers, else all in order of time."""
    kept, coming = list(structure.edges.get(consumer, ())), list(lost)
    free = [
        ordinal
        for ordinal in range(len(kept) + len(coming))
        if ordinal not in {edge.ordinal for edge in kept}
    ]
    if len(free) == len(coming):
        placed = [*kept, *(Edge(consumer, source, at) for source, at in zip(coming, free, strict=True))]
        return tuple(sorted(placed, key=lambda edge: edge.ordinal))
    sources = sorted([*(edge.source for edge in kept), *coming], key=lambda one: _time(structure.nodes[one]))
    return tuple(Edge(consumer, source, at) for at, source in enumerate(sources))


def _time(node: StoredNode) -> tuple[float, float]:
    return node.earliest or 0.0, node.created


@dataclass(frozen=True, slots=True)
class _Measure:
    """One thing that is recorded of a summary and follows from its sources."""

    fix: FixId  #: which fix writes it
    right: Callable[
        [Structure, StoredNode], StoredNode | None
    ]  #: the node as it should be; None: nothing shows it


def _depth(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = depth_of(structure, node)
    return None if wanted is None or node.depth is None else replace(node, depth=wanted)


def _count(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = descendant_count_of(structure, node)
    return None if wanted is None or node.descendant_count is None else replace(node, descendant_count=wanted)


def _tokens(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = descendant_tokens_of(structure, node)
    return (
        None if wanted is None or node.descendant_tokens is None else replace(node, descendant_tokens=wanted)
    )


def _source_tokens(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = source_tokens_of(structure, node)
    if wanted is None or node.source_tokens is None:
        return None
    return node if wanted[0] <= node.source_tokens <= wanted[1] else replace(node, source_tokens=wanted[0])


def _times(structure: Structure, node: StoredNode) -> StoredNode | None:
    wanted = range_of(structure, node)
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

    It was right when it was so in any of the *befores*: as it stood, and with the lines that were repaired.

    So what was right stays right above a change, and what was wrong and is not asked for stays as it is: it
    may be the only trace of a source that was lost.
    """
    nodes = dict(now.nodes)
    work = replace(now, nodes=nodes)
    for summary_id in work.graph.sources_first:
        for measure in _MEASURES:
            node = nodes[summary_id]
            right = measure.right(work, node)
            if right is None or right == node:
                continue
            was_right = any(_was_right(before, summary_id, measure) for before in befores)
            if was_right or _is_wanted(work, node, wanted, measure.fix):
                nodes[summary_id] = right
    return work


def _is_wanted(work: Structure, node: StoredNode, wanted: Mapping[FixId, Chosen], fix: FixId) -> bool:
    chosen = wanted.get(fix, NOTHING)
    if node.summary_id in chosen.keys:
        return True
    if fix is FixId.RECOMPUTE_DEPTH:
        # A count below zero is one finding, whichever column it is in.
        below_zero = node.depth is not None and node.depth < 0
        return chosen.everything or (below_zero and node.summary_id in wanted.get(_COUNTERS, NOTHING))
    return chosen.everything and sources_are_whole(work, node)


_COUNTERS: Final = FixId.RECOMPUTE_COUNTERS


def _was_right(before: Structure, summary_id: SummaryId, measure: _Measure) -> bool:
    """Whether it was right, or nothing showed that it was wrong."""
    node = before.nodes[summary_id]
    right = measure.right(before, node)
    return right is None or _same(right, node)


def _same(one: StoredNode, other: StoredNode) -> bool:
    """Equal, and readable: a time that cannot be read equals nothing."""
    times = (one.earliest, one.latest)
    return one == other and not any(time is not None and math.isnan(time) for time in times)
