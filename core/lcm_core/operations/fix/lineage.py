"""Links and edges that lead nowhere or are disproved go, and lost ones that are proven come back. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from lcm_core.checks.proofs import (
    can_be_numbered,
    edges_in_order,
    false_messages,
    false_sources,
    links_in_order,
    lost_messages,
    lost_sources,
    misnumbered,
    run_of,
)
from lcm_core.checks.structure import Links, Node, Structure
from lcm_core.operations.fix.wishes import Chosen
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


def _time(node: Node) -> tuple[float, float]:
    return node.earliest or 0.0, node.created
