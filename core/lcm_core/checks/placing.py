"""Where the items of a context belong, and what fell out of it. Pure.

``/new`` takes raw messages and shallow summaries out of the context and keeps their rows, so that something
is out of reach proves nothing by itself; a message is lost when nothing explains it, or when its place in the
context is still to be seen as a gap of exactly its size. A renumbering goes through ordinals that no list
has: below zero, the first item first, so that they count backwards; or far above, which keeps the order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lcm_core.checks.check import Limits
from lcm_core.checks.structure import SECOND, Structure
from lcm_core.context_items import ABNORMAL_ORDINAL, ContextItems
from lcm_core.findings import FixId
from lcm_core.records import SummaryId

#: A session is begun anew now and then; more blocks than that are damage.
_MOST_RESETS: Final = 2_000


@dataclass(frozen=True, slots=True)
class CoverageBlock:
    """Neighbouring messages, by place; compaction events between them do not count."""

    first: int
    last: int

    @property
    def ends(self) -> tuple[int, int]:
        """First and last place."""
        return self.first, self.last


@dataclass(frozen=True, slots=True)
class CoverageGap:
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
    """Whether ``/new`` explains that the context does not reach a block (docs/engine/doctor.md, "Holes")."""

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
        places = list(structure.places(summary_id))
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
