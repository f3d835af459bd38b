"""Family B: the structure of the summary DAG (docs/engine/doctor.md, "Family B: the graph").

B3 and B4 are about rows with an end that lies nowhere; `links` judges them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lcm_core.dag.checks.cycles import cyclic_nodes, rings
from lcm_core.dag.checks.derive import depth_of
from lcm_core.dag.checks.disproved import (
    false_messages,
    false_sources,
    live_consumers,
    without_edges,
)
from lcm_core.dag.checks.facts import (
    NO_LINKS,
    SECOND,
    Limits,
    Node,
    Structure,
    StructureRule,
    Tally,
    counted,
    found,
    some,
    summary_row,
    told,
)
from lcm_core.dag.checks.relink import lost_messages
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import Edge, SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN
_ID_FORM: Final = re.compile(r"sum_[0-9a-f]{16}")
_DEEP: Final = 6
_WIDE: Final = 64


def _edge_row(edge: Edge) -> RowRef:
    return RowRef("summary_parents", (edge.consumer, edge.source))


def _leaf_without_sources(structure: Structure, limits: Limits) -> Iterator[Finding]:
    bare = [one for one in structure.nodes.values() if one.is_leaf and not _has_messages(structure, one)]
    proven = lost_messages(structure) if bare else {}
    for node in bare:
        run = proven.get(node.summary_id)
        yield found(
            "B1",
            _BROKEN,
            structure.id,
            [summary_row(node.summary_id)],
            f"Leaf {node.summary_id} is linked to no message: nothing can be recalled from it"
            + (f"; its counters prove that it was made from {structure.span_text(*run)}." if run else "."),
            FixId.RELINK if run else None,
        )


def _has_messages(structure: Structure, node: Node) -> bool:
    """Whether any link leads to a message that is there, if only to another conversation's (B7)."""
    owners = structure.foreign_messages
    return any(
        message_id in structure.messages.position or owners.get(message_id) is not None
        for message_id in structure.links.get(node.summary_id, NO_LINKS).message_ids
    )


def _sources_there(structure: Structure, node: Node) -> list[Edge]:
    """The edges to summaries that are there, if only to another conversation's (B7), and not to itself."""
    owners = structure.foreign_summaries
    return [
        edge
        for edge in structure.edges.get(node.summary_id, ())
        if edge.source != node.summary_id
        and (edge.source in structure.nodes or owners.get(edge.source) is not None)
    ]


def _condensed_without_sources(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if not node.is_leaf and not _sources_there(structure, node):
            yield found(
                "B2",
                _BROKEN,
                structure.id,
                [summary_row(node.summary_id)],
                f"Condensed summary {node.summary_id} has no sources: nothing can be recalled from it.",
            )


def _self_edges(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for edge in _edges(structure):
        if edge.consumer == edge.source:
            yield found(
                "B5",
                _BROKEN,
                structure.id,
                [_edge_row(edge)],
                f"Summary {edge.source} is recorded as its own source.",
                FixId.DELETE_ORPHAN_LINKS,
            )


def _edges(structure: Structure) -> Iterator[Edge]:
    for edges in structure.edges.values():
        yield from edges


def _cycles(structure: Structure, limits: Limits) -> Iterator[Finding]:
    if len(structure.sources_first) == len(structure.nodes):
        return
    mended = without_edges(structure, false_sources(structure))
    left = cyclic_nodes(mended, mended.nodes)
    for ring in rings(structure):
        proven = left.isdisjoint(ring)
        why = (
            "; the counters prove which of them were not"
            if proven
            else "; nothing that is recorded proves which edge is one too many"
        )
        yield found(
            "B6",
            _BROKEN,
            structure.id,
            [summary_row(one) for one in ring[: limits.rows]],
            told(
                len(ring),
                "summary",
                structure.id,
                f"were made from each other in a circle that begins at {ring[0]}{why}.",
            ),
            FixId.DELETE_FALSE_LINES if proven else None,
        )


def _across_conversations(structure: Structure, limits: Limits) -> Iterator[Finding]:
    false_ones: Mapping[SummaryId, frozenset[int | SummaryId]] = {
        **false_sources(structure),
        **false_messages(structure),
    }
    proven, others = Tally(limits), Tally(limits)
    for summary_id, links in structure.links.items():
        for message_id in links.message_ids:
            if structure.foreign_messages.get(message_id) is not None:
                rows = proven if message_id in false_ones.get(summary_id, ()) else others
                rows.add("summary_messages", summary_id, message_id)
    for edge in _edges(structure):
        if structure.foreign_summaries.get(edge.source) is not None:
            rows = proven if edge.source in false_ones.get(edge.consumer, ()) else others
            rows.add("summary_parents", edge.consumer, edge.source)
    words = "lead into another conversation"
    yield from proven.told(
        "B7",
        _BROKEN,
        structure,
        "link or edge",
        f"{words}; without them the counters of their summaries are right.",
        FixId.DELETE_FALSE_LINES,
    )
    yield from others.told(
        "B7",
        _BROKEN,
        structure,
        "link or edge",
        f"{words}; nothing proves that the summaries were not made from these rows.",
    )


def _wrong_kind_of_source(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        edges, links = (
            structure.edges.get(node.summary_id, ()),
            structure.links.get(node.summary_id, NO_LINKS),
        )
        if node.is_leaf and edges:
            rows: Sequence[RowRef] = [summary_row(node.summary_id), *map(_edge_row, edges[: limits.rows])]
            what = f"Leaf {node.summary_id} was made from {counted(len(edges), 'summary')}."
        elif not node.is_leaf and links.message_ids:
            ids = links.message_ids[: limits.rows]
            rows = [
                summary_row(node.summary_id),
                *(RowRef("summary_messages", (node.summary_id, one)) for one in ids),
            ]
            number = counted(len(links.message_ids), "message")
            what = f"Condensed summary {node.summary_id} is linked to {number}."
        else:
            continue
        yield found("B8", _BROKEN, structure.id, rows, what)


def _depth_of_kind(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if node.depth is not None and node.is_leaf != (node.depth == 0):
            kind = "Leaf" if node.is_leaf else "Condensed summary"
            yield _depth_finding("B9", structure, node, f"{kind} {node.summary_id} has depth {node.depth}.")


def _depth_finding(check: str, structure: Structure, node: Node, sentence: str) -> Finding:
    fix = None if depth_of(structure, node) in (None, node.depth) else FixId.RECOMPUTE_DEPTH
    return found(check, _BROKEN, structure.id, [summary_row(node.summary_id)], sentence, fix)


def _source_nodes(structure: Structure, node: Node) -> list[Node]:
    found_nodes = (structure.nodes.get(edge.source) for edge in structure.edges.get(node.summary_id, ()))
    return [one for one in found_nodes if one is not None and one.summary_id != node.summary_id]


def _wrong_depth(structure: Structure, limits: Limits) -> Iterator[Finding]:
    cyclic, disproved = cyclic_nodes(structure, structure.nodes), false_sources(structure)
    for node in structure.nodes.values():
        depths = [one.depth for one in _source_nodes(structure, node) if one.depth is not None]
        if not depths or node.depth is None or node.summary_id in cyclic or node.is_leaf:
            continue
        if node.depth != max(depths) + 1:
            wanted = f"its sources call for {max(depths) + 1}"
            what = f"Summary {node.summary_id} has depth {node.depth}, but {wanted}."
            finding = _depth_finding("B10", structure, node, what)
            if node.summary_id in disproved:  # the depth may be right and a source too many
                finding = replace(finding, fix=FixId.DELETE_FALSE_LINES)
            yield finding


def _mixed_depths(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        if len({one.depth for one in _source_nodes(structure, node)}) > 1:
            rows.add("summaries", node.summary_id)
    words = "have sources of several depths, as databases have that are older than depths."
    yield from rows.told("B11", _BY_DESIGN, structure, "summary", words)


def _inverted_edges(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for edge in _edges(structure):
        consumer, source = structure.nodes.get(edge.consumer), structure.nodes.get(edge.source)
        if consumer is None or source is None or edge.consumer == edge.source:
            continue
        deep = consumer.depth is not None and source.depth is not None and source.depth >= consumer.depth
        late = source.created > consumer.created + SECOND
        if deep or late:
            why = (
                f"has depth {source.depth}, its consumer {consumer.depth}"
                if deep
                else "was made after its consumer"
            )
            yield found(
                "B12",
                _BROKEN if deep else _SUSPICIOUS,
                structure.id,
                [_edge_row(edge)],
                f"Source {edge.source} of {edge.consumer} {why}.",
            )


def _consumed_twice(structure: Structure, limits: Limits) -> Iterator[Finding]:
    false_ones: Mapping[SummaryId, frozenset[SummaryId]] | None = None
    for source, consumers in structure.consumers.items():
        others = [one for one in consumers if one != source]
        if len(others) < 2 or source not in structure.nodes:
            continue
        fix, confidence = None, _BY_DESIGN
        why = "; the context reaches no more than one of them."
        live = live_consumers(structure, source)
        if live:
            if false_ones is None:
                false_ones = false_sources(structure)
            false = [one for one in live if source in false_ones.get(one, ())]
            confidence, why = _BROKEN, ", and the model reads more than one of them"
            if len(live) - len(false) <= 1:
                fix, why = (
                    FixId.DELETE_FALSE_LINES,
                    f"{why}; the counters of {some(false)} say that it was not.",
                )
            else:
                why += "; their counters do not say that it was not."
        yield found(
            "B14",
            confidence,
            structure.id,
            [_edge_row(Edge(one, source, 0)) for one in others[: limits.rows]],
            f"Summary {source} was condensed into {counted(len(others), 'summary')}{why}",
            fix,
        )


def _shape(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        sources = len(structure.edges.get(node.summary_id, ()))
        if (node.depth or 0) > _DEEP or sources > _WIDE:
            rows.add("summaries", node.summary_id)
    words = f"lie above depth {_DEEP} or on more than {_WIDE} sources."
    yield from rows.told("B22", _BY_DESIGN, structure, "summary", words)


def _single_source(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        edges = _sources_there(structure, node)
        if not node.is_leaf and len(edges) == 1:
            yield found(
                "B19",
                _SUSPICIOUS,
                structure.id,
                [summary_row(node.summary_id), _edge_row(edges[0])],
                f"Summary {node.summary_id} was condensed from one summary only, which no engine does.",
            )


def _abnormal_ids(structure: Structure, limits: Limits) -> Iterator[Finding]:
    nameless, odd = Tally(limits), Tally(limits)
    for rowid in structure.nameless:
        nameless.add("summaries", rowid)
    for summary_id in structure.nodes:
        if not _ID_FORM.fullmatch(summary_id):
            odd.add("summaries", summary_id)
    for rows, confidence, words in (
        (nameless, _BROKEN, "have no id: nothing can refer to such a row."),
        (
            odd,
            _SUSPICIOUS,
            "have an id of another form than the engine's, which does not find it in texts.",
        ),
    ):
        yield from rows.told("B20", confidence, structure, "summary", words)


def _half_swapped(structure: Structure, limits: Limits) -> Iterator[Finding]:
    held, circling = set(structure.summaries_in_context), cyclic_nodes(structure, structure.nodes)
    for summary_id in structure.summaries_in_context:
        sources = {edge.source for edge in structure.edges.get(summary_id, ())}
        if sources and sources <= held - {summary_id}:
            yield found(
                "B21",
                _BROKEN,
                structure.id,
                [summary_row(summary_id), *map(summary_row, sorted(sources))],
                f"Summary {summary_id} stands in the context together with all "
                f"{counted(len(sources), 'source')} that it was to replace.",
                FixId.DROP_COVERED_ITEMS if circling.isdisjoint(sources) else None,
            )


RULES: Final[Mapping[str, StructureRule]] = {
    "B1": _leaf_without_sources,
    "B2": _condensed_without_sources,
    "B5": _self_edges,
    "B6": _cycles,
    "B7": _across_conversations,
    "B8": _wrong_kind_of_source,
    "B9": _depth_of_kind,
    "B10": _wrong_depth,
    "B11": _mixed_depths,
    "B12": _inverted_edges,
    "B14": _consumed_twice,
    "B19": _single_source,
    "B20": _abnormal_ids,
    "B21": _half_swapped,
    "B22": _shape,
}
