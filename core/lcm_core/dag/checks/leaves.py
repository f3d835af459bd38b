"""Family B, leaves: which messages they were made from, and in which order (B15 to B18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.facts import (
    Limits,
    Structure,
    StructureRule,
    Tally,
    counted,
    found,
    summary_row,
    told,
)
from lcm_core.findings import Confidence, Finding, RowRef
from lcm_core.records import SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN


def _leaves(structure: Structure) -> Iterator[SummaryId]:
    return (one for one in structure.links if structure.nodes[one].is_leaf)


def _summarised_twice(structure: Structure, limits: Limits) -> Iterator[Finding]:
    first: dict[int, SummaryId] = {}
    pairs: dict[tuple[SummaryId, SummaryId], Tally] = {}
    for leaf in _leaves(structure):
        for message_id in structure.links[leaf].message_ids:
            other = first.setdefault(message_id, leaf)
            if other != leaf:
                pairs.setdefault((other, leaf), Tally(limits)).add("summary_messages", leaf, message_id)
    for (one, other), rows in pairs.items():
        live = one in structure.live and other in structure.live
        yield rows.finding(
            "B15",
            _BROKEN if live else _BY_DESIGN,
            structure.id,
            told(
                rows.count,
                "message",
                structure.id,
                f"went into leaf {one} and into leaf {other}; "
                + ("the model reads both." if live else "the context reaches no more than one of the two."),
            ),
        )


def _leaf_with_gap(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for leaf in _leaves(structure):
        places = set(structure.places(leaf))
        if len(places) < 2:
            continue
        first, last = min(places), max(places)
        if last - first + 1 == len(places):
            continue
        rows = Tally(limits)
        for place in range(first, last):
            if place not in places and not structure.messages.events[place]:
                rows.add("messages", structure.messages.ids[place])
        if rows:
            yield rows.finding(
                "B16",
                _SUSPICIOUS,
                structure.id,
                f"Leaf {leaf} covers {structure.span_text(first, last)}, but "
                f"{counted(rows.count, 'message')} in "
                "between did not go into it.",
            )


def _source_order(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for summary_id, links in structure.links.items():
        places = list(structure.places(summary_id))
        if list(links.ordinals) != list(range(len(links.ordinals))) or places != sorted(places):
            rows.add("summaries", summary_id)
    for summary_id, edges in structure.edges.items():
        if summary_id in structure.nodes and [edge.ordinal for edge in edges] != list(range(len(edges))):
            rows.add("summaries", summary_id)
    if rows:
        yield rows.finding(
            "B17",
            _SUSPICIOUS,
            structure.id,
            told(
                rows.count,
                "summary",
                structure.id,
                "have sources that are not numbered from 0 in their order: some were taken away or moved.",
            ),
        )


def _interleaved(structure: Structure, limits: Limits) -> Iterator[Finding]:
    spans = []
    for leaf in _leaves(structure):
        places = list(structure.places(leaf))
        if places:
            spans.append((min(places), max(places), leaf))
    spans.sort()
    for before, after in pairwise(spans):
        if after[0] <= before[1]:
            rows: list[RowRef] = [summary_row(before[2]), summary_row(after[2])]
            yield found(
                "B18",
                _SUSPICIOUS,
                structure.id,
                rows,
                f"Leaves {before[2]} ({structure.span_text(before[0], before[1])}) and {after[2]} "
                f"({structure.span_text(after[0], after[1])}) cover the same time.",
            )


RULES: Final[Mapping[str, StructureRule]] = {
    "B15": _summarised_twice,
    "B16": _leaf_with_gap,
    "B17": _source_order,
    "B18": _interleaved,
}
