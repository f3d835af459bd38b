"""Family B: the structure of the summary DAG (engine.md section 9).

B3, B4 and B7 are about rows whose other end lies outside a conversation or nowhere; `links` judges them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

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
    bare = [one for one in structure.nodes.values() if one.is_leaf and one.summary_id not in structure.links]
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


def _condensed_without_sources(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if not node.is_leaf and not structure.edges.get(node.summary_id):
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
    """Each cycle once; where several hang together, as many as leave none when they are taken away."""
    cyclic = cyclic_nodes(structure, structure.nodes)
    while cyclic:
        ring = [next(node for node in structure.nodes if node in cyclic)]
        while True:
            following = next(
                one for one in structure.consumers[ring[-1]] if one in cyclic and one != ring[-1]
            )
            if following in ring:
                ring = ring[ring.index(following) :]
                break
            ring.append(following)
        cyclic = cyclic_nodes(structure, cyclic - set(ring))
        yield found(
            "B6",
            _BROKEN,
            structure.id,
            [summary_row(one) for one in ring[: limits.rows]],
            told(
                len(ring),
                "summary",
                structure.id,
                f"were made from each other in a circle that begins at {ring[0]}.",
            ),
        )


def cyclic_nodes(structure: Structure, among: Iterable[SummaryId]) -> set[SummaryId]:
    """The summaries *among* some that lie on a cycle or between two; self edges do not count."""
    kept = set(among)

    def sources(node: SummaryId) -> list[SummaryId]:
        return [
            edge.source
            for edge in structure.edges.get(node, ())
            if edge.source in kept and edge.source != node
        ]

    def consumers(node: SummaryId) -> list[SummaryId]:
        return [one for one in structure.consumers.get(node, ()) if one in kept and one != node]

    for before, after in ((sources, consumers), (consumers, sources)):
        degree = {node: len(before(node)) for node in kept}
        free = [node for node, number in degree.items() if not number]
        while free:
            node = free.pop()
            following = after(node)
            kept.discard(node)
            for one in following:
                degree[one] -= 1
                if not degree[one]:
                    free.append(one)
    return kept


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
            yield found(
                "B9",
                _BROKEN,
                structure.id,
                [summary_row(node.summary_id)],
                f"{'Leaf' if node.is_leaf else 'Condensed summary'} {node.summary_id} has depth "
                f"{node.depth}.",
                FixId.RECOMPUTE_DEPTH if node.is_leaf or structure.edges.get(node.summary_id) else None,
            )


def _source_nodes(structure: Structure, node: Node) -> list[Node]:
    found_nodes = (structure.nodes.get(edge.source) for edge in structure.edges.get(node.summary_id, ()))
    return [one for one in found_nodes if one is not None and one.summary_id != node.summary_id]


def _wrong_depth(structure: Structure, limits: Limits) -> Iterator[Finding]:
    cyclic = cyclic_nodes(structure, structure.nodes)
    for node in structure.nodes.values():
        depths = [one.depth for one in _source_nodes(structure, node) if one.depth is not None]
        if not depths or node.depth is None or node.summary_id in cyclic or node.is_leaf:
            continue
        if node.depth != max(depths) + 1:
            yield found(
                "B10",
                _BROKEN,
                structure.id,
                [summary_row(node.summary_id)],
                f"Summary {node.summary_id} has depth {node.depth}, but its sources call for "
                f"{max(depths) + 1}.",
                FixId.RECOMPUTE_DEPTH,
            )


def _mixed_depths(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        if len({one.depth for one in _source_nodes(structure, node)}) > 1:
            rows.add("summaries", node.summary_id)
    if rows:
        yield rows.finding(
            "B11",
            _BY_DESIGN,
            structure.id,
            told(
                rows.count,
                "summary",
                structure.id,
                "have sources of several depths, as databases have that are older than depths.",
            ),
        )


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
    for source, consumers in structure.consumers.items():
        others = [one for one in consumers if one != source]
        if len(others) < 2 or source not in structure.nodes:
            continue
        live = [one for one in others if one in structure.live]
        yield found(
            "B14",
            _BROKEN if len(live) > 1 else _BY_DESIGN,
            structure.id,
            [_edge_row(Edge(one, source, 0)) for one in others[: limits.rows]],
            f"Summary {source} was condensed into {counted(len(others), 'summary')}"
            + (
                ", and the model reads more than one of them."
                if len(live) > 1
                else "; the context reaches no more than one of them."
            ),
        )


def _shape(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        sources = len(structure.edges.get(node.summary_id, ()))
        if (node.depth or 0) > _DEEP or sources > _WIDE:
            rows.add("summaries", node.summary_id)
    if rows:
        yield rows.finding(
            "B22",
            _BY_DESIGN,
            structure.id,
            told(
                rows.count,
                "summary",
                structure.id,
                f"lie above depth {_DEEP} or on more than {_WIDE} sources.",
            ),
        )


def _single_source(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        edges = structure.edges.get(node.summary_id, ())
        if not node.is_leaf and len(edges) == 1:
            yield found(
                "B19",
                _SUSPICIOUS,
                structure.id,
                [summary_row(node.summary_id), _edge_row(edges[0])],
                f"Summary {node.summary_id} was condensed from one summary only, which no engine does.",
            )


def _abnormal_ids(structure: Structure, limits: Limits) -> Iterator[Finding]:
    if structure.nameless:
        rows = Tally(limits)
        for rowid in structure.nameless:
            rows.add("summaries", rowid)
        yield rows.finding(
            "B20",
            _BROKEN,
            structure.id,
            told(rows.count, "summary", structure.id, "have no id: nothing can refer to such a row."),
        )
    odd = Tally(limits)
    for summary_id in structure.nodes:
        if not _ID_FORM.fullmatch(summary_id):
            odd.add("summaries", summary_id)
    if odd:
        yield odd.finding(
            "B20",
            _SUSPICIOUS,
            structure.id,
            told(
                odd.count,
                "summary",
                structure.id,
                "have an id of another form than the engine's, which does not find it in texts.",
            ),
        )


def _half_swapped(structure: Structure, limits: Limits) -> Iterator[Finding]:
    held = set(structure.summaries_in_context)
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
                FixId.DROP_COVERED_ITEMS,
            )


RULES: Final[Mapping[str, StructureRule]] = {
    "B1": _leaf_without_sources,
    "B2": _condensed_without_sources,
    "B5": _self_edges,
    "B6": _cycles,
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
