"""The checks of summaries and what they were made from (docs/spec/doctor.md, "Family B: the graph")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.base.findings import FixId, RowRef
from lcm_core.base.records import Edge, SummaryId
from lcm_core.base.text import counted, phrase, some
from lcm_core.base.values import replace
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    OTHER_TOOL,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Hit,
    Limits,
    Rule,
    hit,
    summary_row,
)
from lcm_core.checks.context import foreign_unreached
from lcm_core.checks.proofs import (
    CoverageBlock,
    can_be_numbered,
    depth_of,
    false_messages,
    false_sources,
    fell_out,
    gaps_of,
    leaves_of_shared,
    live_consumers,
    lost_messages,
    lost_sources,
    misnumbered,
    resets,
    within,
    without_edges,
)
from lcm_core.checks.structure import NO_LINKS, SECOND, StoredNode, Structure

_RECALL_ONLY: Final = (
    "The text is complete and the model reads it; only recall from it finds nothing. An older backup has "
    "the links."
)
_ID_FORM: Final = re.compile(r"sum_[0-9a-f]{16}")


def _edge_row(edge: Edge) -> RowRef:
    return RowRef("summary_parents", (edge.consumer, edge.source))


def _edges(structure: Structure) -> Iterator[Edge]:
    for edges in structure.edges.values():
        yield from edges


def _leaves(structure: Structure) -> Iterator[SummaryId]:
    return (one for one in structure.links if structure.nodes[one].is_leaf)


def _bare_leaves(structure: Structure) -> list[SummaryId]:
    return [
        node.summary_id
        for node in structure.nodes.values()
        if node.is_leaf and not _has_messages(structure, node)
    ]


def _leaf_without_sources(structure: Structure, limits: Limits) -> Iterator[Hit]:
    bare = _bare_leaves(structure)
    proven = lost_messages(structure) if bare else {}
    for leaf in bare:
        run = proven.get(leaf)
        yield hit(
            BROKEN,
            f"Leaf {leaf} is linked to no message: nothing can be recalled from it"
            + (f"; its counters prove that it was made from {structure.span_text(*run)}." if run else "."),
            summary_row(leaf),
            fix=FixId.RELINK if run else None,
        )


def _has_messages(structure: Structure, node: StoredNode) -> bool:
    """Whether any link leads to a message that is there, if only to another conversation's (B7)."""
    owners = structure.foreign_messages
    return any(
        message_id in structure.messages.position or owners.get(message_id) is not None
        for message_id in structure.links.get(node.summary_id, NO_LINKS).message_ids
    )


def _sources_there(structure: Structure, node: StoredNode) -> list[Edge]:
    """The edges to summaries that are there, if only to another conversation's (B7), and not to itself."""
    owners = structure.foreign_summaries
    return [
        edge
        for edge in structure.edges.get(node.summary_id, ())
        if edge.source != node.summary_id
        and (edge.source in structure.nodes or owners.get(edge.source) is not None)
    ]


def _bare_condensed(structure: Structure) -> Iterator[SummaryId]:
    nodes = structure.nodes.values()
    return (node.summary_id for node in nodes if not node.is_leaf and not _sources_there(structure, node))


def _condensed_without_sources(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for summary_id in _bare_condensed(structure):
        what = f"Condensed summary {summary_id} has no sources: nothing can be recalled from it."
        yield hit(BROKEN, what, summary_row(summary_id))


def _edges_to_itself(structure: Structure) -> Iterator[tuple[SummaryId, SummaryId]]:
    return ((edge.consumer, edge.source) for edge in _edges(structure) if edge.consumer == edge.source)


def _self_edges(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for line in _edges_to_itself(structure):
        what = f"Summary {line[1]} is recorded as its own source."
        yield hit(BROKEN, what, RowRef("summary_parents", line), fix=FixId.DELETE_ORPHAN_LINKS)


def _on_cycles(structure: Structure) -> Iterator[SummaryId]:
    return (one for ring in structure.graph.rings_first if len(ring) > 1 for one in ring)


def _cycles(structure: Structure, limits: Limits) -> Iterator[Hit]:
    if len(structure.graph.sources_first) == len(structure.nodes):
        return
    repaired = without_edges(structure, false_sources(structure))
    left = repaired.graph.cyclic
    for ring in structure.graph.rings:
        proven = left.isdisjoint(ring)
        why = (
            "the counters prove which of them were not" if proven else "no record proves which edge is wrong"
        )
        words = f"form a cycle, starting at {ring[0]}; {why}."
        yield hit(
            BROKEN,
            phrase(len(ring), "summary", structure.id, words),
            *(summary_row(one) for one in ring[: limits.rows]),
            fix=FixId.DELETE_FALSE_LINES if proven else None,
        )


def _foreign_lines(structure: Structure) -> Iterator[tuple[SummaryId, int | SummaryId]]:
    """The links and edges to rows of another conversation."""
    for summary_id, links in structure.links.items() if structure.has_foreign_messages else ():
        for message_id in links.message_ids:
            if structure.foreign_messages.get(message_id) is not None:
                yield summary_id, message_id
    for edge in _edges(structure):
        if structure.foreign_summaries.get(edge.source) is not None:
            yield edge.consumer, edge.source


def _across_conversations(structure: Structure, limits: Limits) -> Iterator[Hit]:
    false_ones: Mapping[SummaryId, frozenset[int | SummaryId]] = {
        **false_sources(structure),
        **false_messages(structure),
    }
    proven, others = FaultRows(limits), FaultRows(limits)
    for consumer, source in _foreign_lines(structure):
        rows = proven if source in false_ones.get(consumer, ()) else others
        rows.add("summary_messages" if isinstance(source, int) else "summary_parents", consumer, source)
    for rows, why, fix in (
        (proven, "without them the counters of their summaries are right", FixId.DELETE_FALSE_LINES),
        (others, "no record proves that the summaries were not made from these rows", None),
    ):
        words = f"lead into another conversation; {why}."
        yield from rows.hits(BROKEN, "link or edge", structure.id, words, fix)


def _of_two_kinds(structure: Structure) -> Iterator[SummaryId]:
    for name, node in structure.nodes.items():
        if structure.edges.get(name) if node.is_leaf else structure.links.get(name):
            yield name


def _wrong_kind_of_source(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for name in _of_two_kinds(structure):
        if structure.nodes[name].is_leaf:
            edges = structure.edges[name]
            rows = [_edge_row(edge) for edge in edges[: limits.rows]]
            what = f"Leaf {name} was made from {counted(len(edges), 'summary')}."
        else:
            links = structure.links[name].message_ids
            rows = [RowRef("summary_messages", (name, one)) for one in links[: limits.rows]]
            what = f"Condensed summary {name} is linked to {counted(len(links), 'message')}."
        yield hit(BROKEN, what, summary_row(name), *rows)


def _not_of_kind(structure: Structure) -> Iterator[StoredNode]:
    nodes = structure.nodes.values()
    return (node for node in nodes if node.depth is not None and node.is_leaf != (node.depth == 0))


def _depth_of_kind(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for node in _not_of_kind(structure):
        kind = "Leaf" if node.is_leaf else "Condensed summary"
        yield _wrong_depth_of(structure, node, f"{kind} {node.summary_id} has depth {node.depth}.")


def _wrong_depth_of(structure: Structure, node: StoredNode, sentence: str) -> Hit:
    fix = None if depth_of(structure, node) in (None, node.depth) else FixId.RECOMPUTE_DEPTH
    return hit(BROKEN, sentence, summary_row(node.summary_id), fix=fix)


def _depths_of_sources(structure: Structure, node: StoredNode) -> list[int | None]:
    sources = (structure.nodes.get(edge.source) for edge in structure.edges.get(node.summary_id, ()))
    return [one.depth for one in sources if one is not None and one.summary_id != node.summary_id]


def _wrong_depth(structure: Structure, limits: Limits) -> Iterator[Hit]:
    cyclic, disproved = structure.graph.cyclic, false_sources(structure)
    for node in structure.nodes.values():
        depths = [depth for depth in _depths_of_sources(structure, node) if depth is not None]
        if not depths or node.depth is None or node.summary_id in cyclic or node.is_leaf:
            continue
        wanted = max(depths) + 1
        if node.depth != wanted:
            what = f"Summary {node.summary_id} has depth {node.depth}, but its sources require {wanted}."
            found = _wrong_depth_of(structure, node, what)
            # The depth may be right and a source too many.
            yield replace(found, fix=FixId.DELETE_FALSE_LINES) if node.summary_id in disproved else found


def _inverted(structure: Structure) -> Iterator[tuple[StoredNode, StoredNode, bool]]:
    """Consumers with a source that is as deep, or was made later: both, and whether it is as deep."""
    for edge in _edges(structure):
        consumer, source = structure.nodes.get(edge.consumer), structure.nodes.get(edge.source)
        if consumer is None or source is None or consumer is source:
            continue
        if consumer.depth is not None and source.depth is not None and source.depth >= consumer.depth:
            yield consumer, source, True
        elif source.created > consumer.created + SECOND:
            yield consumer, source, False


def _inverted_edges(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for consumer, source, as_deep in _inverted(structure):
        row = RowRef("summary_parents", (consumer.summary_id, source.summary_id))
        what = f"Source {source.summary_id} of {consumer.summary_id}"
        if as_deep:
            why = f"has depth {source.depth}, its consumer {consumer.depth}"
            yield hit(BROKEN, f"{what} {why}.", row)
        else:
            yield hit(SUSPICIOUS, f"{what} was made after its consumer.", row)


def _orphans(structure: Structure, limits: Limits) -> Iterator[Hit]:
    if structure.archived or not structure.orphans:
        return
    by_reset, gaps = resets(structure, limits), gaps_of(structure)
    lost = {source: consumer for consumer, sources in lost_sources(structure).items() for source in sources}
    left = {source: gone for gone, sources in structure.remains.items() for source in sources}
    for orphan in structure.orphans:
        confidence, why, fix = SUSPICIOUS, "no record explains it", None
        span = structure.spans.get(orphan)
        if orphan in lost:
            confidence, fix = BROKEN, FixId.RELINK
            why = f"the counters of {lost[orphan]} prove that it was one of its sources"
        elif orphan in left:
            confidence, fix = BROKEN, FixId.DROP_DANGLING_ITEMS
            why = (
                f"edges name it as a source of {left[orphan]}, which is missing and still in the context (A2)"
            )
        elif fell_out(structure, orphan, gaps):
            confidence, fix = BROKEN, FixId.RESTORE_SUMMARIES
            why = "it covers exactly the gap in the context"
        elif span is not None and within(CoverageBlock(*span), by_reset):
            confidence, why = BY_DESIGN, "/new left it out"
        elif span is not None and _reached_otherwise(structure, orphan):
            confidence = BY_DESIGN
            why = "the context contains what it covers in another form, as after dissolving it"
        what = f"Neither the context nor another summary uses {orphan}; {why}."
        yield hit(confidence, what, summary_row(orphan), fix=fix)


def _reached_otherwise(structure: Structure, orphan: SummaryId) -> bool:
    """Whether the context reaches all that a summary was made from; what was made from nothing is lost."""
    graph, waiting = structure.graph, [orphan]
    for node in waiting:  # grows while it is walked
        sources, places = graph.sources.get(node, ()), structure.places(node)
        reached = all(structure.raw[place] or structure.linked[place] == 2 for place in places)
        if not reached or not (sources or places):
            return False
        waiting += (one for one in sources if one not in graph.live and one not in waiting)
    return True


def _lost(structure: Structure) -> Iterator[str]:
    """The orphans of which the context does not reach all; and other conversations' that nothing reaches."""
    yield from (one for one in structure.orphans if not _reached_otherwise(structure, one))
    yield from foreign_unreached(structure, structure.foreign_summaries)


def _unused_in_archive(structure: Structure, limits: Limits) -> Iterator[Hit]:
    rows = FaultRows(limits, "summaries", structure.orphans if structure.archived else ())
    return rows.hits(BY_DESIGN, "summary", structure.id, "are unused; it is archived.")


def _consumed_twice(structure: Structure, limits: Limits) -> Iterator[Hit]:
    false_ones: Mapping[SummaryId, frozenset[SummaryId]] | None = None
    for source, consumers in structure.graph.consumers.items():
        others = [one for one in consumers if one != source]
        if len(others) < 2 or source not in structure.nodes:
            continue
        fix, confidence = None, BY_DESIGN
        why = "; the context reaches no more than one of them."
        live = live_consumers(structure, source)
        if live:
            if false_ones is None:
                false_ones = false_sources(structure)
            false = [one for one in live if source in false_ones.get(one, ())]
            confidence, why = BROKEN, ", and the model reads more than one of them"
            if len(live) - len(false) <= 1:
                fix = FixId.DELETE_FALSE_LINES
                why += f"; the counters of {some(false)} say that it was not."
            else:
                why += "; their counters do not say that it was not."
        yield hit(
            confidence,
            f"Summary {source} was condensed into {counted(len(others), 'summary')}{why}",
            *(_edge_row(Edge(one, source, 0)) for one in others[: limits.rows]),
            fix=fix,
        )


def _summarised_twice(structure: Structure, limits: Limits) -> Iterator[Hit]:
    first: dict[int, SummaryId] = {}
    pairs: dict[tuple[SummaryId, SummaryId], list[int]] = {}
    for leaf in _leaves(structure) if structure.overlap else ():
        for message_id in structure.links[leaf].message_ids:
            other = first.setdefault(message_id, leaf)
            if other != leaf:
                pairs.setdefault((other, leaf), []).append(message_id)
    false_ones = false_messages(structure) if pairs else {}
    for (one, other), shared in pairs.items():
        fix, confidence = None, BY_DESIGN
        why = "the context reaches no more than one of the two."
        if one in structure.graph.live and other in structure.graph.live:
            confidence, why = BROKEN, "the model reads both, and the counters prove neither wrong."
            if set(shared) <= false_ones.get(one, frozenset()) | false_ones.get(other, frozenset()):
                fix = FixId.DELETE_FALSE_LINES
                why = "the model reads both, and the counters prove one of them wrong."
        rows = FaultRows(limits, "summary_messages", ((other, message_id) for message_id in shared))
        words = f"went into leaf {one} and into leaf {other}; {why}"
        yield from rows.hits(confidence, "message", structure.id, words, fix)


def _leaf_with_gap(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    for leaf in _leaves(structure):
        places = set(structure.places(leaf))
        if len(places) < 2:
            continue
        first, last = min(places), max(places)
        if last - first + 1 == len(places):
            continue
        between = (at for at in range(first, last) if at not in places and not messages.events[at])
        rows = FaultRows(limits, "messages", (messages.ids[at] for at in between))
        if rows:
            number = counted(rows.count, "message")
            what = f"Leaf {leaf} covers {structure.span_text(first, last)}, but {number} in between"
            yield rows.hit(SUSPICIOUS, f"{what} did not go into it.")


def _source_order(structure: Structure, limits: Limits) -> Iterator[Hit]:
    proven, doubtful = FaultRows(limits), FaultRows(limits)
    for summary_id in dict.fromkeys(misnumbered(structure)):
        (proven if can_be_numbered(structure, summary_id) else doubtful).add("summaries", summary_id)
    for rows, why, fix in (
        (proven, "; none is lost.", FixId.NUMBER_SOURCES),
        (doubtful, ": some were removed or moved.", None),
    ):
        words = f"have sources that are not numbered from 0 in their order{why}"
        yield from rows.hits(SUSPICIOUS, "summary", structure.id, words, fix)


def _interleaved(structure: Structure, limits: Limits) -> Iterator[Hit]:
    spans = []
    for leaf in _leaves(structure):
        places = structure.places(leaf)
        if places:
            spans.append((min(places), max(places), leaf))
    spans.sort()
    for before, after in pairwise(spans):
        if after[0] <= before[1]:
            yield hit(
                SUSPICIOUS,
                f"Leaves {before[2]} ({structure.span_text(before[0], before[1])}) and {after[2]} "
                f"({structure.span_text(after[0], after[1])}) cover the same time.",
                summary_row(before[2]),
                summary_row(after[2]),
            )


def _single_source(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for node in structure.nodes.values():
        edges = _sources_there(structure, node)
        if not node.is_leaf and len(edges) == 1:
            what = (
                f"Summary {node.summary_id} was condensed from one summary only, which no engine version "
                "does."
            )
            yield hit(SUSPICIOUS, what, summary_row(node.summary_id), _edge_row(edges[0]))


def _abnormal_ids(structure: Structure, limits: Limits) -> Iterator[Hit]:
    nameless = FaultRows(limits, "summaries", structure.nameless)
    words = "have no id: nothing can refer to such a row."
    yield from nameless.hits(BROKEN, "summary", structure.id, words)
    odd = FaultRows(limits, "summaries", (one for one in structure.nodes if not _ID_FORM.fullmatch(one)))
    words = "have an id of another form than the engine's, so the engine does not find it in texts."
    yield from odd.hits(SUSPICIOUS, "summary", structure.id, words)


def _half_swapped(structure: Structure, limits: Limits) -> Iterator[Hit]:
    held, circling = set(structure.summaries_in_context), structure.graph.cyclic
    for summary_id in structure.summaries_in_context:
        sources = {edge.source for edge in structure.edges.get(summary_id, ())}
        if sources and sources <= held - {summary_id}:
            number = counted(len(sources), "source")
            yield hit(
                BROKEN,
                f"Summary {summary_id} is in the context together with all {number} that it was to replace.",
                *map(summary_row, (summary_id, *sorted(sources))),
                fix=FixId.DROP_COVERED_ITEMS if circling.isdisjoint(sources) else None,
            )


# fmt: off
CHECKS: Final[tuple[Rule[Structure], ...]] = (
    Rule("B1", ERROR, "leaf without sources", "Is there a leaf that is linked to no message?",
         why="A leaf is linked to the messages that it was made from; without, nothing can be recalled from "
         "it.", needs=("summaries", "summary_messages"),
         unfixed=f"No messages can be proven to be its sources. {_RECALL_ONLY}",
         broken="leaf {ref} has no source messages", find=_leaf_without_sources, subjects=_bare_leaves),
    Rule("B2", ERROR, "condensed without sources", "Is there a condensed summary without any source?",
         why="A condensed summary has edges to its sources; without links, nothing can be recalled from it.",
         needs=("summaries", "summary_parents"),
         unfixed=f"No summaries can be proven to be its sources. {_RECALL_ONLY}",
         broken="condensed summary {ref} has no sources", find=_condensed_without_sources,
         subjects=_bare_condensed),
    Rule("B5", ERROR, "self edge", "Is a summary recorded as its own source?",
         why="No summary is made from itself: following its sources would never end.",
         needs=("summaries", "summary_parents"), broken="summary {ref} is its own source", find=_self_edges,
         subjects=_edges_to_itself),
    Rule("B6", ERROR, "cycle", "Do the sources of a summary lead back to it?",
         why="A summary is made from older ones, so following its sources ends. In a cycle it never ends, "
         "and depths and counts cannot be right.", needs=("summaries", "summary_parents"),
         unfixed=f"No counter proves which edge is wrong. {_RECALL_ONLY}",
         broken="summary {ref} is part of a cycle", find=_cycles, subjects=_on_cycles),
    Rule("B7", ERROR, "edge across conversations", "Was a summary made from rows of another conversation?",
         why="Summaries are made from rows of their own conversation. The foreign text is recalled here too.",
         needs=("summaries",),
         unfixed="No counter proves that the summary was not made from it. Merge the two conversations when "
         "they are one session (`lcm-tui merge`); otherwise you can leave it: nothing is lost.",
         broken="{kind} {ref} joins two conversations", find=_across_conversations, subjects=_foreign_lines),
    Rule("B8", WARNING, "wrong kind of source",
         "Does a leaf have summaries as sources, or a condensed summary messages?",
         why="A leaf is made from messages, a condensed summary from summaries, and never from both.",
         needs=("summaries", "summary_parents"),
         unfixed=f"Either the kind or the link is wrong. {OTHER_TOOL}",
         broken="summary {ref} has sources that its kind does not have", find=_wrong_kind_of_source,
         subjects=_of_two_kinds),
    Rule("B9", WARNING, "depth does not fit the kind",
         "Is there a leaf above depth 0 or a condensed summary at 0?",
         why="A leaf has depth 0, and only a leaf.", needs=("summaries",),
         broken="the depth of summary {ref} does not fit its kind", find=_depth_of_kind,
         subjects=lambda structure: (node.summary_id for node in _not_of_kind(structure))),
    Rule("B10", WARNING, "wrong depth", "Is a depth other than one more than the deepest source's?",
         why="The depth is one more than that of the deepest source. Compaction uses it to choose what to "
         "condense.", needs=("summaries", "summary_parents"), find=_wrong_depth),
    Rule("B12", ERROR, "inverted edge", "Is a source as deep as the summary made from it, or newer than it?",
         why="Sources are less deep than their consumer and were made before it.",
         needs=("summaries", "summary_parents"),
         unfixed="Either the depth, the time or the edge is wrong; the sources of both (B10, D2, D7) may "
         "tell.", broken="the source of {kind} {ref} is not below its consumer", find=_inverted_edges,
         subjects=lambda structure: (
             (one.summary_id, two.summary_id) for one, two, _ in _inverted(structure)
         )),
    Rule("B13", WARNING, "orphan summary",
         "Is there a summary in an active conversation that neither the context nor another summary uses?",
         why="A summary is in the context or is a source of another one, except what /new removed. The "
         "model cannot reach an orphan.", needs=("summaries", "context_items", "summary_parents"),
         unfixed="Its place is unknown. Search and recall find it, and what it covers.",
         broken="what summary {ref} covers is lost from the context of conversation {conversation}",
         find=_orphans, subjects=_lost),
    Rule("B14", ERROR, "summary consumed twice", "Were two live summaries made from the same summary?",
         why="A summary is condensed once. If two live summaries use it, the model reads it twice.",
         needs=("summaries", "summary_parents"),
         unfixed="No counter proves either edge wrong. Nothing is lost; to save the tokens, rewrite one of "
         "the two (W) and remove the repetition in the draft (e).",
         broken="summary {ref} is in two summaries that conversation {conversation} reads",
         find=_consumed_twice,
         subjects=lambda structure: (
             one for one in structure.graph.consumers if live_consumers(structure, one)
         )),
    Rule("B15", ERROR, "message summarised twice", "Is a message linked from more than one leaf?",
         why="A message is summarised by one leaf. If two leaves use it, the model reads it twice.",
         needs=("summaries", "summary_messages"),
         unfixed="No counter proves either link wrong. Nothing is lost; to save the tokens, rewrite one "
         "leaf (W) and remove the repetition in the draft (e).",
         broken="message {ref} is in two leaves that conversation {conversation} reads",
         find=_summarised_twice, subjects=leaves_of_shared),
    Rule("B16", WARNING, "leaf with a gap",
         "Is there a message between the sources of a leaf that is not one of them?",
         why="A leaf covers an unbroken run of messages. A message in between that it does not cover was "
         "skipped.", needs=("summaries", "summary_messages"),
         unfixed="The message may have been left out on purpose. Search finds it.", find=_leaf_with_gap),
    Rule("B17", WARNING, "source order",
         "Are the ordinals of a summary's sources out of order or not 0 to n-1?",
         why="Links and edges are numbered from 0 in the order of their sources; expansion reads them in "
         "that order.", needs=("summaries",),
         unfixed="A missing number may mean a lost source, and no counter disproves it; or the sources "
         "overlap. They are read in their current order.", find=_source_order),
    Rule("B18", WARNING, "interleaved leaves", "Do two leaves cover overlapping runs of messages?",
         why="Leaves cover one run of messages after the other. Overlapping runs come from two simultaneous "
         "sweeps.", needs=("summaries", "summary_messages"),
         unfixed="Both leaves exist and have different texts; neither can be removed safely.",
         find=_interleaved),
    Rule("B19", WARNING, "single source", "Was a summary condensed from one summary only?",
         why="A condensation needs at least two sources: condensing one loses content and saves nothing.",
         needs=("summaries", "summary_parents"),
         unfixed="Its other sources are unknown; if its counters prove them, B13 has the fix.",
         find=_single_source),
    Rule("B20", ERROR, "abnormal summary id", "Is an id NULL or of another form than the engine's?",
         why="The engine's ids are sum_ and 16 hexadecimal digits. Others cannot be expanded by the model.",
         needs=("summaries",), unfixed=f"Every reference to it would need a new id. {OTHER_TOOL}",
         find=_abnormal_ids),
    Rule("B21", WARNING, "half a swap", "Is a summary in the same context as all of its sources?",
         why="When a summary replaces its sources, they are removed from the context in the same step.",
         needs=("summaries", "context_items", "summary_parents"), find=_half_swapped),
    Rule("B23", WARNING, "unused summary in an archived conversation",
         "Does an archived conversation contain unused summaries?",
         why="Unused summaries in an archived conversation are harmless and use space.",
         needs=("summaries", "context_items", "summary_parents", "conversations.active"),
         find=_unused_in_archive),
)
# fmt: on
