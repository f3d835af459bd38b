"""Family B, leaves: which messages they were made from, and in which order (B15 to B18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.disproved import false_messages
from lcm_core.dag.checks.facts import (
    Limits,
    Structure,
    StructureRule,
    Tally,
    counted,
    found,
    summary_row,
)
from lcm_core.dag.checks.numbering import can_be_numbered, misnumbered
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN


def _leaves(structure: Structure) -> Iterator[SummaryId]:
    return (one for one in structure.links if structure.nodes[one].is_leaf)


def _summarised_twice(structure: Structure, limits: Limits) -> Iterator[Finding]:
    first: dict[int, SummaryId] = {}
    pairs: dict[tuple[SummaryId, SummaryId], list[int]] = {}
    for leaf in _leaves(structure):
        for message_id in structure.links[leaf].message_ids:
            other = first.setdefault(message_id, leaf)
            if other != leaf:
                pairs.setdefault((other, leaf), []).append(message_id)
    false_ones = false_messages(structure) if pairs else {}
    for (one, other), shared in pairs.items():
        rows = Tally(limits)
        for message_id in shared:
            rows.add("summary_messages", other, message_id)
        fix, confidence = None, _BY_DESIGN
        why = "the context reaches no more than one of the two."
        if one in structure.live and other in structure.live:
            confidence, why = _BROKEN, "the model reads both"
            if set(shared) <= false_ones.get(one, frozenset()) | false_ones.get(other, frozenset()):
                fix, why = FixId.DELETE_FALSE_LINES, f"{why}, and the counters prove one of them wrong."
            else:
                why += ", and the counters prove neither wrong."
        words = f"went into leaf {one} and into leaf {other}; {why}"
        yield from rows.told("B15", confidence, structure, "message", words, fix)


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
    proven, doubtful = Tally(limits), Tally(limits)
    for summary_id in dict.fromkeys(misnumbered(structure)):
        (proven if can_be_numbered(structure, summary_id) else doubtful).add("summaries", summary_id)
    words = "have sources that are not numbered from 0 in their order"
    yield from proven.told(
        "B17", _SUSPICIOUS, structure, "summary", f"{words}; none is lost.", FixId.NUMBER_SOURCES
    )
    words += ": some were taken away or moved."
    yield from doubtful.told("B17", _SUSPICIOUS, structure, "summary", words)


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
