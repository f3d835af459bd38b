"""Family D: what is recorded beside the text of a summary (docs/engine/doctor.md).

A sum is judged only when all that it is made of is there: a lost source is a finding of its own, and so is a
negative count. D1, D11 and D12 need texts; `quality` and `bodies` judge them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lcm_core.dag.checks.derive import (
    descendant_count_of,
    descendant_tokens_of,
    range_of,
    source_tokens_of,
    sources_are_whole,
)
from lcm_core.dag.checks.disproved import false_messages, false_sources
from lcm_core.dag.checks.facts import (
    SAME_MOMENT,
    SECOND,
    Limits,
    Node,
    Structure,
    StructureRule,
    Tally,
    found,
    summary_row,
)
from lcm_core.dag.checks.relink import lost_messages, lost_sources
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN
_QUARTER_HOUR: Final = 15 / 1_440
#: Time zones lie between -12 and +14 hours.
_MAX_SKEW: Final = 14 / 24 + _QUARTER_HOUR / 2
#: A summary is made within this time (days) of the last message that it covers, whatever the clocks.
_TOLERANCE: Final = 60 * SECOND


def _wrong_sum(
    check: str,
    name: str,
    stored: Callable[[Node], int | None],
    wanted_of: Callable[[Structure, Node], int | None],
) -> StructureRule:
    """A rule for a counter that is a sum over the sources of a condensed summary, and 0 for a leaf."""

    def rule(structure: Structure, limits: Limits) -> Iterator[Finding]:
        proven = _proven_sources(structure)
        for node in structure.nodes.values():
            value = stored(node)
            if node.is_leaf:
                if value:
                    what = f"The {name} of leaf {node.summary_id} is not 0."
                    yield _wrong_counter(check, structure, node, what)
                continue
            wanted = wanted_of(structure, node)
            if value is None or value < 0 or wanted is None or wanted == value:
                continue
            what = f"The {name} of {node.summary_id} is {value:,}; its sources give {wanted:,}."
            yield _wrong_counter(check, structure, node, what, _fix_of(structure, node, proven))

    return rule


def _proven_sources(structure: Structure) -> Mapping[SummaryId, FixId]:
    """What the sums of summaries prove: lost sources come back, and lines that never were go."""
    return {
        **dict.fromkeys(false_sources(structure), FixId.DELETE_FALSE_LINES),
        **dict.fromkeys(lost_sources(structure), FixId.RELINK),
    }


def _proven_messages(structure: Structure) -> Mapping[SummaryId, FixId]:
    """The same for leaves."""
    return {
        **dict.fromkeys(false_messages(structure), FixId.DELETE_FALSE_LINES),
        **dict.fromkeys(lost_messages(structure), FixId.RELINK),
    }


def _fix_of(structure: Structure, node: Node, proven: Mapping[SummaryId, FixId]) -> FixId | None:
    """What mends a sum: what it proves; what only shows a loss stays as it is."""
    if node.summary_id in proven:
        return proven[node.summary_id]
    return FixId.RECOMPUTE_COUNTERS if _can_be_made(structure, node) else None


def _can_be_made(structure: Structure, node: Node) -> bool:
    """Whether what follows from the sources can be made again without wiping away the trace of a lost one."""
    edges = structure.edges.get(node.summary_id, ())
    if any(len(structure.consumers[edge.source]) > 1 for edge in edges):
        return False  # one edge too many, perhaps: then the sum that is stored is right (B14)
    return node.summary_id in structure.sources_first and sources_are_whole(structure, node)


def _wrong_counter(
    check: str, structure: Structure, node: Node, sentence: str, fix: FixId | None = FixId.RECOMPUTE_COUNTERS
) -> Finding:
    return found(check, _BROKEN, structure.id, [summary_row(node.summary_id)], sentence, fix)


def _source_tokens(structure: Structure, limits: Limits) -> Iterator[Finding]:
    of_condensed, of_leaves = _proven_sources(structure), _proven_messages(structure)
    for node in structure.nodes.values():
        value, wanted = node.source_tokens, source_tokens_of(structure, node)
        if value is None or value < 0 or wanted is None or wanted[0] <= value <= wanted[1]:
            continue
        who, proven = ("messages", of_leaves) if node.is_leaf else ("sources", of_condensed)
        what = f"The source token sum of {node.summary_id} is {value:,}; its {who} give {wanted[0]:,}."
        yield _wrong_counter("D4", structure, node, what, _fix_of(structure, node, proven))


def _no_time_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if node.earliest is None or node.latest is None:
            known = range_of(structure, node) is not None
            yield found(
                "D5",
                _BROKEN if known else _SUSPICIOUS,
                structure.id,
                [summary_row(node.summary_id)],
                f"Summary {node.summary_id} has no time range"
                + ("; its sources have." if known else ", and neither have its sources."),
                FixId.RECOMPUTE_TIMES if known else None,
            )


def _inverted_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if (
            node.earliest is not None
            and node.latest is not None
            and node.earliest > node.latest + SAME_MOMENT
        ):
            known = range_of(structure, node) is not None
            yield found(
                "D6",
                _BROKEN,
                structure.id,
                [summary_row(node.summary_id)],
                f"The time range of {node.summary_id} ends before it begins.",
                FixId.RECOMPUTE_TIMES if known else None,
            )


def _differing_ranges(structure: Structure) -> Iterator[tuple[Node, float | None]]:
    """The summaries whose time range is not that of their sources, with the skew when there is one."""
    for node in structure.nodes.values():
        wanted = range_of(structure, node)
        if wanted is None or node.earliest is None or node.latest is None:
            continue
        first, last = node.earliest - wanted[0], node.latest - wanted[1]
        if math.isnan(first) or math.isnan(last) or max(abs(first), abs(last)) <= SAME_MOMENT:
            continue
        quarters = round(first / _QUARTER_HOUR)
        shifted = (
            quarters != 0
            and abs(first - last) <= SECOND
            and abs(first - quarters * _QUARTER_HOUR) <= SECOND
            and abs(first) <= _MAX_SKEW
        )
        yield node, first if shifted else None


def _wrong_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    proven: Mapping[SummaryId, FixId] | None = None
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            continue
        if proven is None:
            proven = {**_proven_sources(structure), **_proven_messages(structure)}
        fix = proven.get(node.summary_id)
        if fix is None and _can_be_made(structure, node):
            fix = FixId.RECOMPUTE_TIMES
        yield found(
            "D7",
            _SUSPICIOUS,
            structure.id,
            [summary_row(node.summary_id)],
            f"The time range of {node.summary_id} is not that of its sources.",
            fix,
        )


def _skewed_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    by_skew: dict[int, Tally] = {}
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            by_skew.setdefault(round(skew * 96), Tally(limits)).add("summaries", node.summary_id)
    for quarters, rows in sorted(by_skew.items()):
        words = (
            f"have a time range that is off by {quarters / 4:+g} hours, as a host in that time zone left "
            "them before 0.6.0."
        )
        yield from rows.told("D8", _SUSPICIOUS, structure, "summary", words, FixId.RECOMPUTE_TIMES)


def _time_out_of_place(structure: Structure, limits: Limits) -> Iterator[Finding]:
    future, early = Tally(limits), Tally(limits)
    latest = limits.today + 1.0
    for place, day in enumerate(structure.messages.days):
        if day > latest:
            future.add("messages", structure.messages.ids[place])
    for node in structure.nodes.values():
        if max(_day(node.latest), node.created) > latest:
            future.add("summaries", node.summary_id)
        elif _day(node.latest) > node.created + _TOLERANCE:
            early.add("summaries", node.summary_id)
    words = "lie more than a day in the future."
    yield from future.told("D9", _SUSPICIOUS, structure, "row", words)
    words = "cover messages of a later time than the time of making."
    yield from early.told("D9", _SUSPICIOUS, structure, "summary", words)


def _day(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value


def _unreadable_times(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows, known = Tally(limits), Tally(limits)
    for place, day in enumerate(structure.messages.days):
        if not day:
            rows.add("messages", structure.messages.ids[place])
    for node in structure.nodes.values():
        ends = [moment for moment in (node.earliest, node.latest) if moment is not None]
        if math.isnan(node.created):
            rows.add("summaries", node.summary_id)
        elif any(map(math.isnan, ends)):
            can_be_made = range_of(structure, node) is not None and _can_be_made(structure, node)
            (known if can_be_made else rows).add("summaries", node.summary_id)
    for tally, fix in ((rows, None), (known, FixId.RECOMPUTE_TIMES)):
        yield from tally.told("D10", _BROKEN, structure, "row", "have times that cannot be read.", fix)


def _unknown_model(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        if node.model == "unknown":
            rows.add("summaries", node.summary_id)
    words = "have no record of the model that made it."
    yield from rows.told("D13", _BY_DESIGN, structure, "summary", words)


def _negative(structure: Structure, limits: Limits) -> Iterator[Finding]:
    tokens, sums = Tally(limits), Tally(limits)
    for place, count in enumerate(structure.messages.tokens):
        if count < 0:
            tokens.add("messages", structure.messages.ids[place])
    for node in structure.nodes.values():
        if node.tokens < 0:
            tokens.add("summaries", node.summary_id)
        if any(value is not None and value < 0 for value in _counters(node)):
            sums.add("summaries", node.summary_id)
    for rows, what, fix in (
        (tokens, "token counts", FixId.RECOMPUTE_TOKENS),
        (sums, "counters", FixId.RECOMPUTE_COUNTERS),
    ):
        yield from rows.told("D14", _BROKEN, structure, "row", f"have {what} below zero.", fix)


def _counters(node: Node) -> tuple[int | None, ...]:
    return node.depth, node.descendant_count, node.descendant_tokens, node.source_tokens


RULES: Final[Mapping[str, StructureRule]] = {
    "D2": _wrong_sum("D2", "descendant count", lambda node: node.descendant_count, descendant_count_of),
    "D3": _wrong_sum("D3", "descendant token sum", lambda node: node.descendant_tokens, descendant_tokens_of),
    "D4": _source_tokens,
    "D5": _no_time_range,
    "D6": _inverted_range,
    "D7": _wrong_range,
    "D8": _skewed_range,
    "D9": _time_out_of_place,
    "D10": _unreadable_times,
    "D13": _unknown_model,
    "D14": _negative,
}
