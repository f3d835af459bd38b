"""The checks of what is recorded beside the text of a summary, and of times (D1 to D10, D14).

A sum is judged only when all that it is made of is there: a lost source is a finding of its own, and so is a
negative count. What is recorded of texts (D1, D11, D12) is asked where these are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lcm_core.base.findings import FixId
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Hit,
    Limits,
    Rule,
    hit,
    summary_row,
)
from lcm_core.checks.proofs import (
    descendant_count_of,
    descendant_tokens_of,
    false_messages,
    false_sources,
    known_day,
    lost_messages,
    lost_sources,
    range_of,
    source_tokens_of,
    sources_are_whole,
)
from lcm_core.checks.structure import SAME_MOMENT, SECOND, StoredNode, Structure

_QUARTER_HOUR: Final = 15 / 1_440
#: Time zones lie between -12 and +14 hours.
_MAX_SKEW: Final = 14 / 24 + _QUARTER_HOUR / 2
#: A summary is made within this time (days) of the last message that it covers, whatever the clocks.
_TOLERANCE: Final = 60 * SECOND


def _wrong_sum(
    name: str,
    stored: Callable[[StoredNode], int | None],
    wanted_of: Callable[[Structure, StoredNode], int | None],
) -> Callable[[Structure, Limits], Iterator[Hit]]:
    """A rule for a counter that is a sum over the sources of a condensed summary, and 0 for a leaf."""

    def find(structure: Structure, limits: Limits) -> Iterator[Hit]:
        proven = _proven_sources(structure)
        for node in structure.nodes.values():
            value, row = stored(node), summary_row(node.summary_id)
            if node.is_leaf:
                if value:
                    what = f"The {name} of leaf {node.summary_id} is not 0."
                    yield hit(BROKEN, what, row, fix=FixId.RECOMPUTE_COUNTERS)
                continue
            wanted = wanted_of(structure, node)
            if value is None or value < 0 or wanted is None or wanted == value:
                continue
            what = f"The {name} of {node.summary_id} is {value:,}; its sources give {wanted:,}."
            yield hit(BROKEN, what, row, fix=_fix_of(structure, node, proven))

    return find


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


def _fix_of(
    structure: Structure,
    node: StoredNode,
    proven: Mapping[SummaryId, FixId],
    otherwise: FixId = FixId.RECOMPUTE_COUNTERS,
) -> FixId | None:
    """What corrects a number: what it proves; what only shows a loss stays as it is."""
    if node.summary_id in proven:
        return proven[node.summary_id]
    return otherwise if _can_be_made(structure, node) else None


def _can_be_made(structure: Structure, node: StoredNode) -> bool:
    """Whether what follows from the sources can be made again without wiping away the trace of a lost one."""
    edges = structure.edges.get(node.summary_id, ())
    if any(len(structure.graph.consumers[edge.source]) > 1 for edge in edges):
        return False  # one edge too many, perhaps: then the sum that is stored is right (B14)
    return node.summary_id in structure.graph.sources_first and sources_are_whole(structure, node)


def _source_tokens(structure: Structure, limits: Limits) -> Iterator[Hit]:
    of_condensed, of_leaves = _proven_sources(structure), _proven_messages(structure)
    for node in structure.nodes.values():
        value, wanted = node.source_tokens, source_tokens_of(structure, node)
        if value is None or value < 0 or wanted is None or wanted[0] <= value <= wanted[1]:
            continue
        who, proven = ("messages", of_leaves) if node.is_leaf else ("sources", of_condensed)
        what = f"The source token sum of {node.summary_id} is {value:,}; its {who} give {wanted[0]:,}."
        yield hit(BROKEN, what, summary_row(node.summary_id), fix=_fix_of(structure, node, proven))


def _no_time_range(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for node in structure.nodes.values():
        if node.earliest is None or node.latest is None:
            known = range_of(structure, node) is not None
            yield hit(
                BROKEN if known else SUSPICIOUS,
                f"Summary {node.summary_id} has no time range"
                + ("; its sources have." if known else ", and neither have its sources."),
                summary_row(node.summary_id),
                fix=FixId.RECOMPUTE_TIMES if known else None,
            )


def _inverted_range(structure: Structure, limits: Limits) -> Iterator[Hit]:
    for node in structure.nodes.values():
        first, last = node.earliest, node.latest
        if first is not None and last is not None and first > last + SAME_MOMENT:
            fix = None if range_of(structure, node) is None else FixId.RECOMPUTE_TIMES
            what = f"The time range of {node.summary_id} ends before it begins."
            yield hit(BROKEN, what, summary_row(node.summary_id), fix=fix)


def _differing_ranges(structure: Structure) -> Iterator[tuple[StoredNode, float | None]]:
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


def _wrong_range(structure: Structure, limits: Limits) -> Iterator[Hit]:
    proven: Mapping[SummaryId, FixId] | None = None
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            continue
        if proven is None:
            proven = {**_proven_sources(structure), **_proven_messages(structure)}
        fix = _fix_of(structure, node, proven, FixId.RECOMPUTE_TIMES)
        what = f"The time range of {node.summary_id} is not that of its sources."
        yield hit(SUSPICIOUS, what, summary_row(node.summary_id), fix=fix)


def _skewed_range(structure: Structure, limits: Limits) -> Iterator[Hit]:
    by_skew: dict[int, FaultRows] = {}
    for node, skew in _differing_ranges(structure):
        if skew is not None:
            by_skew.setdefault(round(skew * 96), FaultRows(limits)).add("summaries", node.summary_id)
    for quarters, rows in sorted(by_skew.items()):
        words = (
            f"have a time range that is off by {quarters / 4:+g} hours, as engines before 0.6.0 stored "
            "them on a host in that time zone."
        )
        yield from rows.hits(SUSPICIOUS, "summary", structure.id, words, FixId.RECOMPUTE_TIMES)


def _time_out_of_place(structure: Structure, limits: Limits) -> Iterator[Hit]:
    latest = limits.today + 1.0
    messages = structure.messages
    late = (messages.ids[place] for place, day in enumerate(messages.days) if day > latest)
    future, early = FaultRows(limits, "messages", late), FaultRows(limits)
    for node in structure.nodes.values():
        if max(known_day(node.latest), node.created) > latest:
            future.add("summaries", node.summary_id)
        elif known_day(node.latest) > node.created + _TOLERANCE:
            early.add("summaries", node.summary_id)
    words = "are more than a day in the future."
    yield from future.hits(SUSPICIOUS, "row", structure.id, words)
    words = "cover messages newer than the summary itself."
    yield from early.hits(SUSPICIOUS, "summary", structure.id, words)


def _unreadable_times(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    unread = (messages.ids[place] for place, day in enumerate(messages.days) if not day)
    rows, known = FaultRows(limits, "messages", unread), FaultRows(limits)
    for node in structure.nodes.values():
        ends = [moment for moment in (node.earliest, node.latest) if moment is not None]
        if math.isnan(node.created):
            rows.add("summaries", node.summary_id)
        elif any(map(math.isnan, ends)):
            can_be_made = range_of(structure, node) is not None and _can_be_made(structure, node)
            (known if can_be_made else rows).add("summaries", node.summary_id)
    for found, fix in ((rows, None), (known, FixId.RECOMPUTE_TIMES)):
        yield from found.hits(BROKEN, "row", structure.id, "have times that cannot be read.", fix)


def _negative(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    below = (messages.ids[place] for place, count in enumerate(messages.tokens) if count < 0)
    tokens, sums = FaultRows(limits, "messages", below), FaultRows(limits)
    for node in structure.nodes.values():
        if node.tokens < 0:
            tokens.add("summaries", node.summary_id)
        counters = (node.depth, node.descendant_count, node.descendant_tokens, node.source_tokens)
        if any(value is not None and value < 0 for value in counters):
            sums.add("summaries", node.summary_id)
    words = "have {} below zero."
    fix = FixId.RECOMPUTE_TOKENS
    yield from tokens.hits(BROKEN, "row", structure.id, words.format("token counts"), fix)
    fix = FixId.RECOMPUTE_COUNTERS
    yield from sums.hits(BROKEN, "row", structure.id, words.format("counters"), fix)


class Miscounted(Record, frozen=True):
    """The texts of one kind in a conversation whose token count no estimator gives."""

    owner: ConversationId
    noun: str
    rows: FaultRows


def _token_count(seen: Miscounted, limits: Limits) -> Iterator[Hit]:
    words = "have a token count that no estimator gives."
    return seen.rows.hits(SUSPICIOUS, seen.noun, seen.owner, words, FixId.RECOMPUTE_TOKENS)


#: Asked where texts are read: of those of summaries, then of messages.
# fmt: off
TOKEN_COUNT: Final[Rule[Miscounted]] = Rule("D1", WARNING, "token count",
    "Does a stored token count differ from what either estimator gives?",
    why="The stored count is that of one of the engine's two estimators: a quarter of the length (before "
    "0.8), or by the kind of character. Compaction and assembly use it.",
    unanswered="Messages whose raw blocks are not stored, or were signed.", find=_token_count)

CHECKS: Final[tuple[Rule[Structure], ...]] = (
    Rule("D2", WARNING, "descendant count", "Is the count of summaries below one wrong?",
         why="The sum over the sources of their count plus one; 0 for a leaf.",
         needs=("summaries", "summaries.descendant_count"),
         find=_wrong_sum("descendant count", lambda node: node.descendant_count, descendant_count_of)),
    Rule("D3", WARNING, "descendant tokens", "Is the token sum of the summaries below one wrong?",
         why="The sum of the tokens of the sources and of everything below them; 0 for a leaf.",
         needs=("summaries", "summaries.descendant_token_count"),
         find=_wrong_sum("descendant token sum", lambda node: node.descendant_tokens, descendant_tokens_of)),
    Rule("D4", WARNING, "source tokens", "Is the token sum of the messages below a summary wrong?",
         why="The sum of the tokens of all messages below.",
         needs=("summaries", "summaries.source_message_token_count"), find=_source_tokens),
    Rule("D5", WARNING, "no time range", "Is there a summary without a time range?",
         why="A summary records the time of the first and of the last message below it. Search by time "
         "needs both.", needs=("summaries", "summaries.earliest_at"), find=_no_time_range),
    Rule("D6", WARNING, "time range inverted", "Does a time range end before it begins?",
         why="A time range begins before it ends.", needs=("summaries", "summaries.earliest_at"),
         find=_inverted_range),
    Rule("D7", WARNING, "time range", "Does a time range differ from that of the sources?",
         why="A time range goes from the earliest to the latest of the sources.",
         needs=("summaries", "summaries.earliest_at"), find=_wrong_range),
    Rule("D8", WARNING, "time zone skew", "Is a time range off by a time zone, as 0.1 to 0.5 stored it?",
         why="0.1 to 0.5 read stored times as local times: ranges are off by the time zone of the machine.",
         needs=("summaries", "summaries.earliest_at"), find=_skewed_range),
    Rule("D9", WARNING, "time out of place",
         "Is a message or summary in the future, or does a summary cover newer messages?",
         why="Stored times are in the past, and no summary covers messages newer than itself.",
         find=_time_out_of_place),
    Rule("D10", WARNING, "unreadable time", "Is there a time in neither of the two formats?",
         why="Times are stored as 2026-03-02 10:00:00 or 2026-03-02T10:00:00.000Z; others do not sort.",
         find=_unreadable_times),
    Rule("D14", INFO, "negative counter", "Is a counter below zero?",
         why="Counts of tokens and of summaries begin at 0; negative counts make the sums over the context "
         "wrong.", find=_negative),
)
# fmt: on
