"""What is recorded beside a summary's text, made again (docs/format.md, "Numbers beside a summary").

Every function gives None where that cannot be told: a version that does not record it, a source that is gone
or foreign, a count below zero. The checks compare with it, the fixes write it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lcm_core.dag.checks.facts import NO_LINKS, Node, Structure


def source_nodes(structure: Structure, node: Node) -> list[Node] | None:
    """All sources of a condensed summary; None when one is gone, foreign or itself, or none is recorded."""
    edges = structure.edges.get(node.summary_id, ())
    sources = [structure.nodes.get(edge.source) for edge in edges if edge.source != node.summary_id]
    whole = [source for source in sources if source is not None]
    return whole if whole and len(whole) == len(edges) else None


def sources_are_whole(structure: Structure, node: Node) -> bool:
    """Whether the links or edges of a summary are numbered without a gap: none was taken away."""
    if node.is_leaf:
        ordinals = list(structure.links.get(node.summary_id, NO_LINKS).ordinals)
    else:
        ordinals = [edge.ordinal for edge in structure.edges.get(node.summary_id, ())]
    return ordinals == list(range(len(ordinals)))


def depth_of(structure: Structure, node: Node) -> int | None:
    """0 for a leaf, one more than the deepest source for others."""
    if node.is_leaf:
        return 0
    depths = [source.depth for source in source_nodes(structure, node) or ()]
    known = [depth for depth in depths if depth is not None and depth >= 0]
    return max(known) + 1 if known and len(known) == len(depths) else None


def descendant_count_of(structure: Structure, node: Node) -> int | None:
    """How many summaries lie below, repeats counted."""
    return _sum_of(structure, node, lambda one: _plus(one.descendant_count, 1))


def descendant_tokens_of(structure: Structure, node: Node) -> int | None:
    """The tokens of all summaries below."""
    return _sum_of(structure, node, lambda one: _plus(one.descendant_tokens, one.tokens))


def source_tokens_of(structure: Structure, node: Node) -> tuple[int, int] | None:
    """The tokens of all messages below, at least and at most: the present engine adds senders' names."""
    if not node.is_leaf:
        total = _sum_of(structure, node, lambda one: _plus(one.source_tokens, 0))
        return None if total is None else (total, total)
    links = structure.links.get(node.summary_id)
    places = list(structure.places(node.summary_id))
    if links is None or not places or len(places) < len(links.message_ids):
        return None
    tokens, labels = structure.messages.tokens, structure.labels or {}
    least = sum(tokens[place] for place in places)
    if any(tokens[place] < 0 for place in places):
        return None
    return least, least + sum(labels.get(message_id, 0) for message_id in links.message_ids)


def range_of(structure: Structure, node: Node) -> tuple[float, float] | None:
    """First and last time of what a summary was made from, as the engine takes it, in days."""
    if node.is_leaf:
        places = list(structure.places(node.summary_id))
        links = structure.links.get(node.summary_id)
        days = [structure.messages.days[place] for place in places]
        if links is None or not places or len(places) < len(links.message_ids) or not all(days):
            return None
        return min(days), max(days)
    sources = source_nodes(structure, node)
    if not sources:
        return None
    starts = [one.created if one.earliest is None else one.earliest for one in sources]
    ends = [one.created if one.latest is None else one.latest for one in sources]
    if any(math.isnan(moment) for moment in (*starts, *ends)):
        return None
    return min(starts), max(ends)


def _plus(count: int | None, tokens: int) -> int | None:
    return None if count is None or count < 0 or tokens < 0 else count + tokens


def _sum_of(structure: Structure, node: Node, part: Callable[[Node], int | None]) -> int | None:
    """The sum of *part* over the sources of a condensed summary; 0 for a leaf."""
    if node.is_leaf:
        return 0
    sources = source_nodes(structure, node)
    if not sources:
        return None
    parts = [part(source) for source in sources]
    known = [one for one in parts if one is not None]
    return sum(known) if len(known) == len(parts) else None
