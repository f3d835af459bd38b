"""Messages and summaries that the context does not reach: left out by ``/new``, or lost (A8, A11, B13).

``/new`` takes raw messages and shallow summaries out of the context and keeps their rows, so that something
is out of reach proves nothing by itself. The rules are those of docs/engine/doctor.md, "Holes"; a message is
also lost when its place in the context is still to be seen as a gap of exactly its size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.facts import SECOND, Limits, Structure, Tally, told
from lcm_core.dag.checks.relink import lost_messages, run_of
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import ContextItem, SummaryId

#: A session is begun anew now and then; more blocks than that are damage.
_MOST_RESETS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring messages, by place; compaction events between them do not count."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Ordinals that are missing between two context items, and the messages that lie between these."""

    missing: int
    messages: int
    block: Block


def blocks_outside(structure: Structure) -> list[Block]:
    """The runs of messages that the context neither holds nor covers."""
    return _runs(
        structure,
        [not held and covered < 2 for held, covered in zip(structure.raw, structure.linked, strict=True)],
    )


def _runs(structure: Structure, wanted: Sequence[bool]) -> list[Block]:
    runs: list[Block] = []
    first = last = -1
    for place, chosen in enumerate(wanted):
        if structure.messages.events[place]:
            continue
        if chosen:
            first, last = (place if first < 0 else first), place
        elif first >= 0:
            runs.append(Block(first, last))
            first = -1
    if first >= 0:
        runs.append(Block(first, last))
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

    def explains(self, block: Block) -> bool:
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


def resets(structure: Structure, limits: Limits) -> list[Block]:
    """The runs of messages that ``/new`` left out."""
    blocks = blocks_outside(structure)
    if len(blocks) > _MOST_RESETS:
        return []
    rule = _ResetRule(structure, limits)
    return [block for block in blocks if rule.explains(block)]


def holes(structure: Structure, limits: Limits) -> Iterator[Finding]:
    """A11: messages that are neither in the context nor linked from any summary."""
    by_reset = resets(structure, limits)
    unlinked = _unlinked(structure)
    lost = frozenset(lost_blocks(structure, limits))
    left = {one for sources in structure.remains.values() for one in sources}
    proven = {place for ends in lost_messages(structure).values() for place in run_of(structure, ends)}
    for block in _runs(structure, unlinked):
        rows = Tally(limits)
        for place in range(block.first, block.last + 1):
            if unlinked[place] and not structure.messages.events[place]:
                rows.add("messages", structure.messages.ids[place])
        where = structure.span_text(block.first, block.last)
        confidence, fix = Confidence.SUSPICIOUS, None
        why = f"are neither in the context nor under a summary ({where}): out of the model's sight."
        if _within(block, by_reset):
            confidence, why = Confidence.BY_DESIGN, f"are out of the context ({where}): /new left them out."
        elif proven.issuperset(run_of(structure, (block.first, block.last))):
            confidence, fix = Confidence.BROKEN, FixId.RELINK
        elif left.issuperset(_ids(structure, block)):
            confidence, fix = Confidence.BROKEN, FixId.DROP_DANGLING_ITEMS
            why = f"were summarised by what is gone and stands in the context ({where}, A2)."
        elif block in lost:
            confidence, fix = Confidence.BROKEN, FixId.RESTORE_MESSAGES
        elif structure.archived and not structure.items:
            confidence = Confidence.BY_DESIGN
            why = f"are out of the context ({where}): the conversation is archived and has none."
        yield rows.finding(
            "A11", confidence, structure.id, told(rows.count, "message", structure.id, why), fix
        )
    if copies := _copies_outside(structure):
        rows = Tally(limits)
        for place in copies:
            rows.add("messages", structure.messages.ids[place])
        why = "are out of the context and copies of others that the context reaches."
        sentence = told(rows.count, "message", structure.id, why)
        yield rows.finding("A11", Confidence.BY_DESIGN, structure.id, sentence)


def _ids(structure: Structure, block: Block) -> list[int]:
    return [structure.messages.ids[place] for place in run_of(structure, (block.first, block.last))]


def lost_blocks(structure: Structure, limits: Limits) -> list[Block]:
    """The runs of messages that certainly fell out of the context and can be put back."""
    blocks, by_reset = _runs(structure, _unlinked(structure)), resets(structure, limits)
    spans, runs = _leaf_spans(structure), lost_runs(gaps_of(structure))
    found = [block for block in blocks if _inside_a_leaf(spans, block) or block in runs]
    return [block for block in found if not _within(block, by_reset)]


def _within(block: Block, others: Iterable[Block]) -> bool:
    return any(other.first <= block.first and block.last <= other.last for other in others)


def _unlinked(structure: Structure) -> list[bool]:
    """By place: whether nothing holds a message, and it is no copy of one that something holds."""
    found = [not held and not covered for held, covered in zip(structure.raw, structure.linked, strict=True)]
    for place in _copies_outside(structure):
        found[place] = False
    return found


def _copies_outside(structure: Structure) -> list[int]:
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


def _inside_a_leaf(spans: list[tuple[int, int]], block: Block) -> bool:
    index = bisect_left(spans, (block.first, -1))
    return index > 0 and spans[index - 1][1] > block.last


def gaps_of(structure: Structure) -> list[Gap]:
    """The gaps in the ordinals whose two sides cover messages of this conversation, with some in between.

    Before 0.6.0, when nothing took items out on purpose, also one before the first item.
    """
    sides = [(item.ordinal, _covered(structure, item)) for item in structure.items]
    if structure.conversation.active is None:
        sides.insert(0, (-1, (-1, -1)))
    gaps = []
    for (low, front), (high, behind) in pairwise(sides):
        missing = high - low - 1
        if missing <= 0 or front is None or behind is None:
            continue
        between = [place for place in range(front[1] + 1, behind[0]) if not structure.messages.events[place]]
        if between:
            gaps.append(Gap(missing, len(between), Block(between[0], between[-1])))
    return gaps


def _covered(structure: Structure, item: ContextItem) -> tuple[int, int] | None:
    if item.message_id is not None:
        place = structure.messages.position.get(item.message_id)
        return None if place is None else (place, place)
    return structure.spans.get(item.summary_id) if item.summary_id is not None else None


def lost_runs(gaps: Iterable[Gap]) -> frozenset[Block]:
    """The blocks that stood exactly in a gap if they are messages: as many as ordinals are missing."""
    return frozenset(gap.block for gap in gaps if gap.messages == gap.missing)


def fallen(structure: Structure) -> list[SummaryId]:
    """The orphans that stood exactly in a gap of the context."""
    gaps = gaps_of(structure)
    return [orphan for orphan in structure.orphans if fell_out(structure, orphan, gaps)]


def fell_out(structure: Structure, orphan: SummaryId, gaps: Iterable[Gap]) -> bool:
    """Whether an orphan stood exactly in a gap of one: it covers all that lies between the gap's sides."""
    span = structure.spans.get(orphan)
    return span is not None and any(gap.missing == 1 and gap.block == Block(*span) for gap in gaps)


def lost_from_gap(structure: Structure, limits: Limits) -> tuple[str, FixId] | None:
    """What stood in a gap of the ordinals and is still there, and what puts it back, when that is sure."""
    gaps = gaps_of(structure)
    runs, by_reset = lost_runs(gaps), resets(structure, limits)
    for block in blocks_outside(structure):
        if block in runs and block not in by_reset and not _has_links(structure, block):
            return structure.span_text(block.first, block.last), FixId.RESTORE_MESSAGES
    fallen = next((orphan for orphan in structure.orphans if fell_out(structure, orphan, gaps)), None)
    return None if fallen is None else (fallen, FixId.RESTORE_SUMMARIES)


def _has_links(structure: Structure, block: Block) -> bool:
    return any(structure.linked[block.first : block.last + 1])
