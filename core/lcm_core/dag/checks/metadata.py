"""Family D: what is recorded beside the text of a summary (engine.md 2.3 and section 9).

A sum is judged only when all that it is made of is there: a lost source is a finding of its own, and so is a
negative count. D1, D11 and D12 need texts; `quality` and `bodies` judge them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

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
    told,
)
from lcm_core.dag.checks.relink import lost_sources
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN
_QUARTER_HOUR: Final = 15 / 1_440
#: Time zones lie between -12 and +14 hours.
_MAX_SKEW: Final = 14 / 24 + _QUARTER_HOUR / 2
#: A summary is made within this time (days) of the last message that it covers, whatever the clocks.
_TOLERANCE: Final = 60 * SECOND


def _source_nodes(structure: Structure, node: Node) -> list[Node] | None:
    """All sources of a condensed summary; None when one is gone, foreign or itself, or none is recorded."""
    edges = structure.edges.get(node.summary_id, ())
    sources = [structure.nodes.get(edge.source) for edge in edges if edge.source != node.summary_id]
    whole = [source for source in sources if source is not None]
    return whole if whole and len(whole) == len(edges) else None


def _sources_are_whole(structure: Structure, node: Node) -> bool:
    ordinals = [edge.ordinal for edge in structure.edges.get(node.summary_id, ())]
    return ordinals == list(range(len(ordinals)))


def _wrong_sum(
    check: str, name: str, stored: Callable[[Node], int | None], part: Callable[[Node], int | None]
) -> StructureRule:
    """A rule for a counter that is the sum of *part* over the sources of a condensed summary."""

    def rule(structure: Structure, limits: Limits) -> Iterator[Finding]:
        relinked = lost_sources(structure)
        for node in structure.nodes.values():
            value, sources = stored(node), None if node.is_leaf else _source_nodes(structure, node)
            if node.is_leaf and check != "D4" and value:
                yield _wrong_counter(
                    check, structure, node, f"The {name} of leaf {node.summary_id} is not 0."
                )
            if value is None or value < 0 or not sources:
                continue
            parts = [part(source) for source in sources]
            if any(one is None or one < 0 for one in parts):
                continue
            wanted = sum(one or 0 for one in parts)
            if wanted != value:
                fix: FixId | None = FixId.RECOMPUTE_COUNTERS
                if node.summary_id in relinked:
                    fix = FixId.RELINK
                elif not _sources_are_whole(structure, node):
                    fix = None
                what = f"The {name} of {node.summary_id} is {value:,}; its sources give {wanted:,}."
                yield _wrong_counter(check, structure, node, what, fix)

    return rule


def _wrong_counter(
    check: str, structure: Structure, node: Node, sentence: str, fix: FixId | None = FixId.RECOMPUTE_COUNTERS
) -> Finding:
    return found(check, _BROKEN, structure.id, [summary_row(node.summary_id)], sentence, fix)


def _below_count(node: Node) -> int | None:
    return None if node.descendant_count is None else node.descendant_count + 1


def _below_tokens(node: Node) -> int | None:
    if node.descendant_tokens is None or node.tokens < 0 or node.descendant_tokens < 0:
        return None
    return node.tokens + node.descendant_tokens


def _source_tokens(structure: Structure, limits: Limits) -> Iterator[Finding]:
    yield from _condensed_source_tokens(structure, limits)
    labels = structure.labels or {}
    for node in structure.nodes.values():
        if not node.is_leaf or node.source_tokens is None or node.source_tokens < 0:
            continue
        ids = structure.links[node.summary_id].message_ids if node.summary_id in structure.links else ()
        places = list(structure.places(node.summary_id))
        if not places or len(places) < len(ids):
            continue
        least = sum(structure.messages.tokens[place] for place in places)
        most = least + sum(labels.get(message_id, 0) for message_id in ids)
        if not least <= node.source_tokens <= most:
            what = (
                f"The source tokens of {node.summary_id} are {node.source_tokens:,}; its messages give "
                f"{least:,}."
            )
            yield _wrong_counter("D4", structure, node, what)


def _no_time_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    for node in structure.nodes.values():
        if node.earliest is None or node.latest is None:
            known = _range_of_sources(structure, node) is not None
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
            known = _range_of_sources(structure, node) is not None
            yield found(
                "D6",
                _BROKEN,
                structure.id,
                [summary_row(node.summary_id)],
                f"The time range of {node.summary_id} ends before it begins.",
                FixId.RECOMPUTE_TIMES if known else None,
            )


def _range_of_sources(structure: Structure, node: Node) -> tuple[float, float] | None:
    """First and last time of what a summary was made from, as the engine takes it; None when incomplete."""
    if node.is_leaf:
        places = list(structure.places(node.summary_id))
        links = structure.links.get(node.summary_id)
        days = [structure.messages.days[place] for place in places]
        if links is None or len(places) < len(links.message_ids) or not all(days):
            return None
        return min(days), max(days)
    sources = _source_nodes(structure, node)
    if not sources:
        return None
    starts = [one.created if one.earliest is None else one.earliest for one in sources]
    ends = [one.created if one.latest is None else one.latest for one in sources]
    if any(math.isnan(moment) for moment in (*starts, *ends)):
        return None
    return min(starts), max(ends)


def _differing_ranges(structure: Structure) -> Iterator[tuple[Node, float | None]]:
    """The summaries whose time range is not that of their sources, with the skew when there is one."""
    for node in structure.nodes.values():
        wanted = _range_of_sources(structure, node)
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
    relinked: Mapping[SummaryId, object] | None = None
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            continue
        relinked = lost_sources(structure) if relinked is None else relinked
        whole = node.is_leaf or _sources_are_whole(structure, node)
        yield found(
            "D7",
            _SUSPICIOUS,
            structure.id,
            [summary_row(node.summary_id)],
            f"The time range of {node.summary_id} is not that of its sources.",
            FixId.RELINK if node.summary_id in relinked else FixId.RECOMPUTE_TIMES if whole else None,
        )


def _skewed_range(structure: Structure, limits: Limits) -> Iterator[Finding]:
    by_skew: dict[int, Tally] = {}
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            by_skew.setdefault(round(skew * 96), Tally(limits)).add("summaries", node.summary_id)
    for quarters, rows in sorted(by_skew.items()):
        yield rows.finding(
            "D8",
            _SUSPICIOUS,
            structure.id,
            told(
                rows.count,
                "summary",
                structure.id,
                f"have a time range that is off by {quarters / 4:+g} hours, as a host in that time zone left "
                "them before 0.6.0.",
            ),
            FixId.RECOMPUTE_TIMES,
        )


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
    if future:
        yield future.finding(
            "D9",
            _SUSPICIOUS,
            structure.id,
            told(future.count, "row", structure.id, "lie more than a day in the future."),
        )
    if early:
        yield early.finding(
            "D9",
            _SUSPICIOUS,
            structure.id,
            told(
                early.count,
                "summary",
                structure.id,
                "cover messages of a later time than the time of making.",
            ),
        )


def _day(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value


def _unreadable_times(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for place, day in enumerate(structure.messages.days):
        if not day:
            rows.add("messages", structure.messages.ids[place])
    for node in structure.nodes.values():
        if any(
            moment is not None and math.isnan(moment) for moment in (node.earliest, node.latest, node.created)
        ):
            rows.add("summaries", node.summary_id)
    if rows:
        yield rows.finding(
            "D10",
            _BROKEN,
            structure.id,
            told(rows.count, "row", structure.id, "have times that cannot be read."),
        )


def _unknown_model(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for node in structure.nodes.values():
        if node.model == "unknown":
            rows.add("summaries", node.summary_id)
    if rows:
        yield rows.finding(
            "D13",
            _BY_DESIGN,
            structure.id,
            told(rows.count, "summary", structure.id, "have no record of the model that made it."),
        )


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
        if rows:
            sentence = told(rows.count, "row", structure.id, f"have {what} below zero.")
            yield rows.finding("D14", _BROKEN, structure.id, sentence, fix)


def _counters(node: Node) -> tuple[int | None, ...]:
    return node.depth, node.descendant_count, node.descendant_tokens, node.source_tokens


_condensed_source_tokens: Final = _wrong_sum(
    "D4", "source token sum", lambda node: node.source_tokens, lambda node: node.source_tokens
)

RULES: Final[Mapping[str, StructureRule]] = {
    "D2": _wrong_sum("D2", "descendant count", lambda node: node.descendant_count, _below_count),
    "D3": _wrong_sum("D3", "descendant token sum", lambda node: node.descendant_tokens, _below_tokens),
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
