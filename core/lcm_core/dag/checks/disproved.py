"""Lines that a summary's own counters disprove (B6, B7, B14, B15). Pure.

The mirror of `relink`. Where a summary stands on a circle, names rows of another conversation, or shares a
source with another one that the model reads, some of its lines may never have been. A summary keeps sums over
its sources: when they and the time range are exact without one choice of those lines, and with no other
choice, there is nothing to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, combinations
from typing import Final, TypeVar

from lcm_core.dag.checks.cycles import cyclic_nodes
from lcm_core.dag.checks.facts import SAME_MOMENT, Node, Structure
from lcm_core.dag.checks.relink import adds_up
from lcm_core.records import SummaryId

T = TypeVar("T", bound=Hashable)
#: More doubtful lines of one summary than this are not told apart: each doubles the choices.
_MOST: Final = 8


def false_sources(structure: Structure) -> Mapping[SummaryId, frozenset[SummaryId]]:
    """By consumer, the sources that it was never made from."""
    whole = len(structure.sources_first) == len(structure.nodes)
    cyclic = frozenset[SummaryId]() if whole else cyclic_nodes(structure, structure.nodes)
    found: dict[SummaryId, frozenset[SummaryId]] = {}
    for consumer, edges in structure.edges.items():
        sources = {edge.source for edge in edges} - {consumer}
        foreign = {one for one in sources if structure.foreign_summaries.get(one) is not None}
        doubtful = {
            one for one in sources if {one, consumer} <= cyclic or consumer in live_consumers(structure, one)
        }
        if not foreign and not doubtful:
            continue
        node = structure.nodes[consumer]
        certain = sources - foreign - doubtful
        if node.is_leaf:
            # It is made from messages: when those account for all of it, no summary was its source.
            if not certain and _leaf_adds_up(structure, node, list(structure.places(consumer))):
                found[consumer] = frozenset(foreign | doubtful)
        elif certain <= structure.nodes.keys():
            gone = _only_choice(doubtful, _condensed_without(structure, node, certain | doubtful))
            if gone is not None and foreign | gone:
                found[consumer] = frozenset(foreign | gone)
    return _but_the_last(found, lambda source: live_consumers(structure, source))


def live_consumers(structure: Structure, source: SummaryId) -> AbstractSet[SummaryId]:
    """The summaries that were made from *source* and that the model reads, when these are several."""
    live = {one for one in structure.consumers.get(source, ()) if one != source and one in structure.live}
    return live if len(live) > 1 and source in structure.nodes else frozenset()


def _condensed_without(
    structure: Structure, node: Node, sources: AbstractSet[SummaryId]
) -> Callable[[AbstractSet[SummaryId]], bool]:
    return lambda gone: adds_up(node, [structure.nodes[one] for one in sources - gone])


def false_messages(structure: Structure) -> Mapping[SummaryId, frozenset[int]]:
    """By leaf, the messages that it was never made from."""
    shared = leaves_of_shared(structure)
    found: dict[SummaryId, frozenset[int]] = {}
    for leaf, links in structure.links.items():
        node, linked = structure.nodes[leaf], set(links.message_ids)
        foreign = {one for one in linked if structure.foreign_messages.get(one) is not None}
        doubtful = {one for one in linked if leaf in shared.get(one, ())}
        certain = linked - foreign - doubtful
        if node.is_leaf and (foreign or doubtful) and certain <= structure.messages.position.keys():
            gone = _only_choice(doubtful, _leaf_without(structure, node, certain | doubtful))
            if gone is not None and foreign | gone:
                found[leaf] = frozenset(foreign | gone)
    return _but_the_last(found, lambda message_id: shared.get(message_id, frozenset()))


def leaves_of_shared(structure: Structure) -> Mapping[int, AbstractSet[SummaryId]]:
    """The messages that went into several leaves that the model reads, with those leaves."""
    first: dict[int, SummaryId] = {}
    shared: dict[int, set[SummaryId]] = {}
    for leaf, links in structure.links.items():
        if leaf in structure.live and structure.nodes[leaf].is_leaf:
            for message_id in links.message_ids:
                other = first.setdefault(message_id, leaf)
                if other != leaf:
                    shared.setdefault(message_id, {other}).add(leaf)
    return shared


def _leaf_without(
    structure: Structure, node: Node, message_ids: AbstractSet[int]
) -> Callable[[AbstractSet[int]], bool]:
    position = structure.messages.position
    return lambda gone: _leaf_adds_up(
        structure, node, [position[one] for one in message_ids - gone if one in position]
    )


def _leaf_adds_up(structure: Structure, leaf: Node, places: Sequence[int]) -> bool:
    """Whether the recorded sum and time range are those of the messages at *places*."""
    if not places or leaf.source_tokens is None or leaf.earliest is None or leaf.latest is None:
        return False
    messages, labels = structure.messages, structure.labels or {}
    least = sum(messages.tokens[place] for place in places)
    most = least + sum(labels.get(messages.ids[place], 0) for place in places)
    days = [messages.days[place] for place in places]
    return (
        least <= leaf.source_tokens <= most
        and abs(leaf.earliest - min(days)) <= SAME_MOMENT
        and abs(leaf.latest - max(days)) <= SAME_MOMENT
    )


def _only_choice(doubtful: AbstractSet[T], fits: Callable[[AbstractSet[T]], bool]) -> AbstractSet[T] | None:
    """The one choice of *doubtful* without which all fits; None when there is none, or several."""
    if len(doubtful) > _MOST:
        return None
    choices = chain.from_iterable(combinations(doubtful, size) for size in range(len(doubtful) + 1))
    fitting = [chosen for choice in choices if fits(chosen := frozenset(choice))]
    return fitting[0] if len(fitting) == 1 else None


def _but_the_last(
    found: Mapping[SummaryId, frozenset[T]], held_by: Callable[[T], Iterable[SummaryId]]
) -> dict[SummaryId, frozenset[T]]:
    """Without the summaries that would leave one of their sources to nobody that the model reads."""
    kept = dict(found)
    for consumer, gone in found.items():
        for one in gone:
            holders = list(held_by(one))
            if holders and all(one in found.get(holder, ()) for holder in holders):
                kept.pop(consumer, None)
    return kept


def without_edges(structure: Structure, gone: Mapping[SummaryId, AbstractSet[SummaryId]]) -> Structure:
    """The same without some edges, by consumer."""
    edges = {
        consumer: tuple(edge for edge in lines if edge.source not in gone.get(consumer, ()))
        for consumer, lines in structure.edges.items()
    }
    return replace(structure, edges=edges)
