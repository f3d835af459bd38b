"""What the rows of a conversation prove of its lineage, its context and its times: for checks and fixes."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, combinations, islice, pairwise, takewhile
from typing import Final, TypeVar

from lcm_core.base.findings import FixId
from lcm_core.base.records import ABNORMAL_ORDINAL, ContextItems, Edge, SummaryId
from lcm_core.base.values import Record, replace
from lcm_core.checks.check import Limits
from lcm_core.checks.structure import NO_LINKS, SAME_MOMENT, SECOND, Links, StoredNode, Structure

# -- lineage ---------------------------------------------------------------------------------------------
# What the sums of a summary prove of its sources. Pure.
#
# A summary keeps sums over its sources and a time range. Where they stop adding up, and one choice alone of
# lost or doubtful lines makes all of them exact again, there is nothing to guess (docs/spec/format.md,
# "Numbers beside a summary").


def source_nodes(structure: Structure, node: StoredNode) -> list[StoredNode] | None:
    """All sources of a condensed summary; None when one is gone, foreign or itself, or none is recorded."""
    edges = structure.edges.get(node.summary_id, ())
    sources = [structure.nodes.get(edge.source) for edge in edges if edge.source != node.summary_id]
    whole = [source for source in sources if source is not None]
    return whole if whole and len(whole) == len(edges) else None


def sources_are_whole(structure: Structure, node: StoredNode) -> bool:
    """Whether the links or edges of a summary are numbered without a gap: none was taken away."""
    if node.is_leaf:
        ordinals = list(structure.links.get(node.summary_id, NO_LINKS).ordinals)
    else:
        ordinals = [edge.ordinal for edge in structure.edges.get(node.summary_id, ())]
    return ordinals == list(range(len(ordinals)))


def depth_of(structure: Structure, node: StoredNode) -> int | None:
    """0 for a leaf, one more than the deepest source for others."""
    if node.is_leaf:
        return 0
    depths = [source.depth for source in source_nodes(structure, node) or ()]
    known = [depth for depth in depths if depth is not None and depth >= 0]
    return max(known) + 1 if known and len(known) == len(depths) else None


def descendant_count_of(structure: Structure, node: StoredNode) -> int | None:
    """How many summaries lie below, repeats counted."""
    return _sum_of(structure, node, lambda one: _plus(one.descendant_count, 1))


def descendant_tokens_of(structure: Structure, node: StoredNode) -> int | None:
    """The tokens of all summaries below."""
    return _sum_of(structure, node, lambda one: _plus(one.descendant_tokens, one.tokens))


def source_tokens_of(structure: Structure, node: StoredNode) -> tuple[int, int] | None:
    """The tokens of all messages below, at least and at most: the present engine adds senders' names."""
    if not node.is_leaf:
        total = _sum_of(structure, node, lambda one: _plus(one.source_tokens, 0))
        return None if total is None else (total, total)
    links = structure.links.get(node.summary_id)
    places = structure.places(node.summary_id)
    if links is None or not places or len(places) < len(links.message_ids):
        return None
    tokens, labels = structure.messages.tokens, structure.labels or {}
    counts = [tokens[place] for place in places]
    if min(counts) < 0:
        return None
    more = sum(labels.get(message_id, 0) for message_id in links.message_ids) if labels else 0
    return sum(counts), sum(counts) + more


def range_of(structure: Structure, node: StoredNode) -> tuple[float, float] | None:
    """First and last time of what a summary was made from, as the engine takes it, in days."""
    if node.is_leaf:
        places = structure.places(node.summary_id)
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


def _sum_of(structure: Structure, node: StoredNode, part: Callable[[StoredNode], int | None]) -> int | None:
    """The sum of *part* over the sources of a condensed summary; 0 for a leaf."""
    if node.is_leaf:
        return 0
    sources = source_nodes(structure, node)
    if not sources:
        return None
    parts = [part(source) for source in sources]
    known = [one for one in parts if one is not None]
    return sum(known) if len(known) == len(parts) else None


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


def _may_be_source(node: StoredNode, consumer: StoredNode) -> bool:
    if node.depth is None or consumer.depth is None or node.depth != consumer.depth - 1:
        return False
    ends = (consumer.earliest, node.earliest, node.latest, consumer.latest)
    times = [moment for moment in ends if moment is not None]
    return len(times) == 4 and times == sorted(times) and node.created <= consumer.created


def adds_up(consumer: StoredNode, sources: list[StoredNode]) -> bool:
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
        if sum(map(structure.messages.tokens.__getitem__, own)) >= leaf.source_tokens:
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
    structure: Structure, leaf: StoredNode, own: frozenset[int], by_time: list[tuple[float, int]]
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


T = TypeVar("T", bound=Hashable)
#: More doubtful lines of one summary than this are not distinguished: each doubles the choices.
_MOST: Final = 8


def false_sources(structure: Structure) -> Mapping[SummaryId, frozenset[SummaryId]]:
    """By consumer, the sources that it was never made from."""
    whole = len(structure.graph.sources_first) == len(structure.nodes)
    cyclic = frozenset[SummaryId]() if whole else structure.graph.cyclic
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
            if not certain and _leaf_adds_up(structure, node, structure.places(consumer)):
                found[consumer] = frozenset(foreign | doubtful)
        elif certain <= structure.nodes.keys():
            gone = _only_choice(doubtful, _condensed_without(structure, node, certain | doubtful))
            if gone is not None and foreign | gone:
                found[consumer] = frozenset(foreign | gone)
    return _but_the_last(found, lambda source: live_consumers(structure, source))


def live_consumers(structure: Structure, source: SummaryId) -> Sequence[SummaryId]:
    """The summaries made from *source* that the model reads, each once, when these are several."""
    live = [
        one
        for one in structure.graph.consumers.get(source, ())
        if one != source and one in structure.graph.live
    ]
    return live if len(live) > 1 and source in structure.nodes else ()


def _condensed_without(
    structure: Structure, node: StoredNode, sources: AbstractSet[SummaryId]
) -> Callable[[AbstractSet[SummaryId]], bool]:
    return lambda gone: adds_up(node, [structure.nodes[one] for one in sources - gone])


def false_messages(structure: Structure) -> Mapping[SummaryId, frozenset[int]]:
    """By leaf, the messages that it was never made from."""
    shared = leaves_of_shared(structure)
    found: dict[SummaryId, frozenset[int]] = {}
    if not shared and not structure.has_foreign_messages:
        return found
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
    for leaf, links in structure.links.items() if structure.overlap else ():
        if leaf in structure.graph.live and structure.nodes[leaf].is_leaf:
            for message_id in links.message_ids:
                other = first.setdefault(message_id, leaf)
                if other != leaf:
                    shared.setdefault(message_id, {other}).add(leaf)
    return shared


def _leaf_without(
    structure: Structure, node: StoredNode, message_ids: AbstractSet[int]
) -> Callable[[AbstractSet[int]], bool]:
    position = structure.messages.position
    return lambda gone: _leaf_adds_up(
        structure, node, [position[one] for one in message_ids - gone if one in position]
    )


def _leaf_adds_up(structure: Structure, leaf: StoredNode, places: Sequence[int]) -> bool:
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


def misnumbered(structure: Structure) -> Iterator[SummaryId]:
    """The summaries whose sources are not numbered from 0 in their order; one with both kinds comes twice."""
    for summary_id, links in structure.links.items():
        places = structure.places(summary_id)
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
    """The edges of a condensed summary as they belong; None where one may be lost, or nothing shows it."""
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


# -- places in the context -------------------------------------------------------------------------------
# Where the items of a context belong, and what is missing from it. Pure.
#
# ``/new`` takes raw messages and shallow summaries out of the context and keeps their rows, so that
# something out of reach proves nothing by itself; a message is lost when nothing explains it, or when its
# place in the context is still visible as a gap of exactly its size. A renumbering goes through ordinals
# that no list has: below zero, the first item first, so that they count backwards; or far above, which
# keeps the order.

#: A session is begun anew now and then; more blocks than that are damage.
_MOST_RESETS: Final = 2_000


class CoverageBlock(Record, frozen=True):
    """Neighbouring messages, by place; compaction events between them do not count."""

    first: int
    last: int

    @property
    def ends(self) -> tuple[int, int]:
        """First and last place."""
        return self.first, self.last


class CoverageGap(Record, frozen=True):
    """Ordinals that are missing between two context items, and the messages that lie between these."""

    missing: int
    messages: int
    block: CoverageBlock


def blocks_outside(structure: Structure) -> list[CoverageBlock]:
    """The runs of messages that the context neither holds nor covers."""
    return _runs(
        structure,
        [not held and covered < 2 for held, covered in zip(structure.raw, structure.linked, strict=True)],
    )


def _runs(structure: Structure, wanted: Sequence[bool]) -> list[CoverageBlock]:
    runs: list[CoverageBlock] = []
    first = last = -1
    for place, chosen in enumerate(wanted):
        if structure.messages.events[place]:
            continue
        if chosen:
            first, last = (place if first < 0 else first), place
        elif first >= 0:
            runs.append(CoverageBlock(first, last))
            first = -1
    if first >= 0:
        runs.append(CoverageBlock(first, last))
    return runs


class _ResetRule:
    """Whether ``/new`` explains that the context does not reach a block (docs/spec/doctor.md, "Holes")."""

    def __init__(self, structure: Structure, limits: Limits) -> None:
        self._structure, self._retained = structure, limits.retain_depth
        first_raw = structure.raw.find(1)
        self._first_raw = len(structure.messages) if first_raw < 0 else first_raw
        spans = structure.spans
        self._orphans = [
            (spans[one], structure.nodes[one].depth or 0) for one in structure.orphans if one in spans
        ]
        self._kept = [
            (spans[one][0], structure.nodes[one].depth or 0)
            for one in structure.summaries_in_context
            if one in spans
        ]

    def explains(self, block: CoverageBlock) -> bool:
        """By the recorded time, else by the shape that ``/new`` leaves behind."""
        structure = self._structure
        if structure.conversation.active is None:
            return False  # before 0.6.0 no command left anything out
        newest = structure.messages.days[block.last]
        if structure.soft_reset is not None and 0 < newest <= structure.soft_reset + SECOND:
            return True
        left_out = [
            depth for (first, last), depth in self._orphans if first <= block.last and last >= block.first
        ]
        if any(depth >= self._retained for depth in left_out):
            return False
        if structure.records_soft_reset and not left_out:
            return False  # the version would have recorded it, and no shallow summary went with the messages
        if self._first_raw < block.first:
            return False
        if left_out and not structure.linked[block.last]:
            # It ends with messages that nothing had summarised, and shallow summaries went with them: what is
            # shallow and older came into the context since, out of a deep summary that was dissolved.
            return True
        return all(depth >= self._retained for first, depth in self._kept if first < block.first)


def resets(structure: Structure, limits: Limits) -> list[CoverageBlock]:
    """The runs of messages that ``/new`` left out."""
    blocks = blocks_outside(structure)
    if len(blocks) > _MOST_RESETS:
        return []
    rule = _ResetRule(structure, limits)
    return [block for block in blocks if rule.explains(block)]


def unlinked_runs(structure: Structure) -> list[CoverageBlock]:
    """The runs of messages that nothing holds, and that are no copies of what something holds."""
    found = [not held and not covered for held, covered in zip(structure.raw, structure.linked, strict=True)]
    for place in copies_outside(structure):
        found[place] = False
    return _runs(structure, found)


def lost_blocks(structure: Structure, limits: Limits) -> list[CoverageBlock]:
    """The runs of messages that certainly fell out of the context and can be put back."""
    blocks, by_reset = unlinked_runs(structure), resets(structure, limits)
    spans, runs = _leaf_spans(structure), lost_runs(gaps_of(structure))
    found = [block for block in blocks if _inside_a_leaf(spans, block) or block in runs]
    return [block for block in found if not within(block, by_reset)]


def within(block: CoverageBlock, others: Iterable[CoverageBlock]) -> bool:
    """Whether one of *others* holds all of a block."""
    return any(other.first <= block.first and block.last <= other.last for other in others)


def copies_outside(structure: Structure) -> list[int]:
    """The places of copies that nothing holds, of messages that the context reaches."""
    return [
        place
        for place in sorted(structure.copies)
        if not (structure.raw[place] or structure.linked[place] or structure.messages.events[place])
    ]


def _leaf_spans(structure: Structure) -> list[tuple[int, int]]:
    """First place of every leaf's own messages, ascending, with the greatest last place up to there."""
    spans = []
    for summary_id in structure.links:
        places = structure.places(summary_id)
        if len(places) > 1:
            spans.append((min(places), max(places)))
    spans.sort()
    furthest: list[tuple[int, int]] = []
    for first, last in spans:
        furthest.append((first, max(last, furthest[-1][1] if furthest else last)))
    return furthest


def _inside_a_leaf(spans: list[tuple[int, int]], block: CoverageBlock) -> bool:
    index = bisect_left(spans, (block.first, -1))
    return index > 0 and spans[index - 1][1] > block.last


def gaps_of(structure: Structure) -> list[CoverageGap]:
    """The gaps in the ordinals whose two sides cover messages of this conversation, with some in between.

    Before 0.6.0, when nothing took items out on purpose, also one before the first item.
    """
    sides = list(zip(structure.items.ordinals, structure.covered_by(structure.items), strict=True))
    if structure.conversation.active is None:
        sides.insert(0, (-1, (-1, -1)))
    gaps = []
    for (low, front), (high, behind) in pairwise(sides):
        missing = high - low - 1
        if missing <= 0 or front is None or behind is None:
            continue
        between = [place for place in range(front[1] + 1, behind[0]) if not structure.messages.events[place]]
        if between:
            gaps.append(CoverageGap(missing, len(between), CoverageBlock(between[0], between[-1])))
    return gaps


def lost_runs(gaps: Iterable[CoverageGap]) -> frozenset[CoverageBlock]:
    """The blocks that stood exactly in a gap if they are messages: as many as ordinals are missing."""
    return frozenset(gap.block for gap in gaps if gap.messages == gap.missing)


def fallen(structure: Structure) -> list[SummaryId]:
    """The orphans that stood exactly in a gap of the context."""
    gaps = gaps_of(structure)
    return [orphan for orphan in structure.orphans if fell_out(structure, orphan, gaps)]


def fell_out(structure: Structure, orphan: SummaryId, gaps: Iterable[CoverageGap]) -> bool:
    """Whether an orphan stood exactly in a gap of one: it covers all that lies between the gap's sides."""
    span = structure.spans.get(orphan)
    return span is not None and any(gap.missing == 1 and gap.block == CoverageBlock(*span) for gap in gaps)


def lost_from_gap(structure: Structure, limits: Limits) -> tuple[str, FixId] | None:
    """What stood in a gap of the ordinals and is still there, and what puts it back, when that is sure."""
    gaps = gaps_of(structure)
    runs, by_reset = lost_runs(gaps), resets(structure, limits)
    for block in blocks_outside(structure):
        if block in runs and block not in by_reset and not _has_links(structure, block):
            return structure.span_text(block.first, block.last), FixId.RESTORE_MESSAGES
    fallen = next((orphan for orphan in structure.orphans if fell_out(structure, orphan, gaps)), None)
    return None if fallen is None else (fallen, FixId.RESTORE_SUMMARIES)


def _has_links(structure: Structure, block: CoverageBlock) -> bool:
    return any(structure.linked[block.first : block.last + 1])


def true_order(structure: Structure) -> list[int] | None:
    """Places in the list as the items belong; None: nothing shows it."""
    items = structure.items
    possible = list(dict.fromkeys(_orders(items.ordinals)))
    if len(possible) == 1:
        return list(possible[0])
    doubtful, spans = _doubtful(structure), structure.covered_by(items)
    proven = (order for order in possible if _ascends(spans[at] for at in order if at not in doubtful))
    found = next(proven, None)
    return None if found is None else list(found)


def _orders(ordinals: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders that an interrupted renumbering may have come from; first as it is."""
    places = range(len(ordinals))
    yield tuple(places)
    if ordinals and ordinals[-1] >= ABNORMAL_ORDINAL:
        yield tuple(sorted(places, key=lambda at: ordinals[at] % ABNORMAL_ORDINAL))
    below = [at for at in places if ordinals[at] < 0]
    if below:
        others, turned = places[len(below) :], below[::-1]
        yield (*turned, *others)
        yield (*others, *turned)


def _doubtful(structure: Structure) -> frozenset[int]:
    """Places of items that show nothing: what occurs twice, and what a summary beside it covers."""
    found = {at for places in structure.items.repeated.values() for at in places}
    for at, place in enumerate(structure.message_places(structure.items)):
        if place is not None and structure.linked[place] == 2:
            found.add(at)
    return frozenset(found)


def _ascends(spans: Iterable[tuple[int, int] | None]) -> bool:
    """Whether items begin no earlier than those before them; what covers nothing may be anywhere."""
    starts = [span[0] for span in spans if span is not None]
    return all(before <= after for before, after in pairwise(starts))


def known_order(structure: Structure, items: ContextItems) -> list[int] | None:
    """Places in *items* as they belong by what they cover; None where that does not give one order.

    It does when each covers something, none covers what lies within another one's run of messages, and the
    recorded times say the same as seq.
    """
    spans = structure.covered_by(items)
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    order = sorted(range(len(items)), key=known.__getitem__)
    if any(known[one][1] >= known[other][0] for one, other in pairwise(order)):
        return None
    return order if next(behind_newer(structure, items, order), None) is None else None


def behind_newer(
    structure: Structure, items: ContextItems, order: Sequence[int] | None = None
) -> Iterator[int]:
    """The places of the items that come behind something newer: by time, and messages also by seq.

    What a transplant copied comes before the rest, whenever it was said.
    """
    newest_start, last_place = 0.0, -1
    places = structure.message_places(items)
    for at in range(len(items)) if order is None else order:
        place, summary = places[at], items.summary_ids[at]
        node = None if summary is None else structure.nodes.get(summary)
        if place is not None:
            ends, back = structure.messages.days[place], place < last_place
            last_place = max(last_place, place)
        elif node is not None:
            span = structure.spans.get(node.summary_id)
            if span is not None and span[1] < structure.copied:
                continue
            ends, back = known_day(node.latest), False
        else:
            continue
        if back or (ends and ends < newest_start):
            yield at
        if node is not None:
            newest_start = max(newest_start, known_day(node.earliest))


def known_day(value: float | None) -> float:
    """A time in days; 0 when there is none or it cannot be read."""
    return 0.0 if value is None or math.isnan(value) else value
