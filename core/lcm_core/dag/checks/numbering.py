"""The numbers of a summary's sources (B17): 0 to n-1 in the order of what the sources cover.

Numbers that are missing may be the trace of lost sources, so that numbering anew is proven only when they are
all there in another order, or when the summary's own sums say that no source is lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from itertools import pairwise

from lcm_core.dag.checks.facts import Links, Structure
from lcm_core.dag.checks.relink import adds_up
from lcm_core.records import Edge, SummaryId


def misnumbered(structure: Structure) -> Iterator[SummaryId]:
    """The summaries whose sources are not numbered from 0 in their order; one with both kinds comes twice."""
    for summary_id, links in structure.links.items():
        places = list(structure.places(summary_id))
        if not _is_whole(links.ordinals) or places != sorted(places):
            yield summary_id
    for summary_id, edges in structure.edges.items():
        if summary_id in structure.nodes:
            order = sources_in_order(structure, summary_id)
            if not _is_whole([edge.ordinal for edge in edges]) or (
                order is not None and order != [edge.source for edge in edges]
            ):
                yield summary_id


def _is_whole(ordinals: Collection[int]) -> bool:
    return list(ordinals) == list(range(len(ordinals)))


def sources_in_order(structure: Structure, consumer: SummaryId) -> list[SummaryId] | None:
    """The sources of a summary by what they cover; None where that overlaps, or is not all there."""
    sources = [edge.source for edge in structure.edges.get(consumer, ())]
    if not all(source in structure.nodes and source in structure.spans for source in sources):
        return None
    sources.sort(key=lambda source: structure.spans[source])
    spans = [structure.spans[source] for source in sources]
    return None if any(one[1] >= other[0] for one, other in pairwise(spans)) else sources


def links_in_order(structure: Structure, leaf: SummaryId) -> Links | None:
    """The links of a leaf as they belong; None where one may be lost, or leads out of the conversation."""
    held, places = structure.links[leaf], sorted(structure.places(leaf))
    if len(set(places)) < len(held.message_ids):
        return None
    tokens = sum(structure.messages.tokens[place] for place in places)
    whole = _is_whole(sorted(held.ordinals)) or structure.nodes[leaf].source_tokens == tokens
    ids = array("q", [structure.messages.ids[place] for place in places])
    return Links(ids, array("q", range(len(ids)))) if whole else None


def edges_in_order(structure: Structure, consumer: SummaryId) -> tuple[Edge, ...] | None:
    """The edges of a condensed summary as they belong; None where one may be lost, or nothing tells."""
    order = sources_in_order(structure, consumer)
    held = structure.edges[consumer]
    if order is None or len(set(order)) < len(held):
        return None
    sources = [structure.nodes[source] for source in order]
    if not (_is_whole(sorted(edge.ordinal for edge in held)) or adds_up(structure.nodes[consumer], sources)):
        return None
    return tuple(Edge(consumer, source, at) for at, source in enumerate(order))


def can_be_numbered(structure: Structure, summary_id: SummaryId) -> bool:
    """Whether the order of a summary's sources, and that none is lost, is proven."""
    linked, edged = summary_id in structure.links, summary_id in structure.edges
    return not (
        (linked and links_in_order(structure, summary_id) is None)
        or (edged and edges_in_order(structure, summary_id) is None)
    )
