"""Messages and summaries that the context does not reach: left out by ``/new``, or lost (A8, A11, B13).

``/new`` takes raw messages and shallow summaries out of the context and keeps their rows (engine.md 5), so
that something is out of reach proves nothing by itself. The rules are those of the note in engine.md 9; a
message is also lost when its place in the context is still to be seen as a gap of exactly its size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lcm_core.dag.checks.facts import SECOND, Limits, Structure, Tally, told
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import ContextItem, SummaryId


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring messages, by place; compaction events between them do not count."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Ordinals that are missing between two context items."""

    missing: int
    before: int  #: last place that the item in front covers
    after: int  #: first place that the item behind covers


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


def left_out_by_reset(structure: Structure, block: Block, limits: Limits) -> bool:
    """Whether ``/new`` explains that the context does not reach *block* (engine.md 9, note at its head)."""
    if structure.conversation.active is None:
        return False  # before 0.6.0 no command left anything out
    newest = structure.messages.days[block.last]
    if structure.soft_reset is not None and 0 < newest <= structure.soft_reset + SECOND:
        return True
    depths = [
        structure.nodes[orphan].depth or 0
        for orphan in structure.orphans
        if _overlaps(structure.spans.get(orphan), block)
    ]
    if any(depth >= limits.retain_depth for depth in depths):
        return False
    if structure.records_soft_reset and not depths:
        return False  # the version would have recorded it, and no shallow summary went with the messages
    if any(structure.raw[: block.first]):
        return False
    return all(
        (structure.nodes[kept].depth or 0) >= limits.retain_depth
        for kept in structure.summaries_in_context
        if kept in structure.spans and structure.spans[kept][0] < block.first
    )


def _overlaps(span: tuple[int, int] | None, block: Block) -> bool:
    return span is not None and span[0] <= block.last and span[1] >= block.first


def resets(structure: Structure, limits: Limits) -> list[Block]:
    """The runs of messages that ``/new`` left out."""
    return [block for block in blocks_outside(structure) if left_out_by_reset(structure, block, limits)]


def holes(structure: Structure, limits: Limits) -> Iterator[Finding]:
    """A11: messages that are neither in the context nor linked from any summary."""
    by_reset = resets(structure, limits)
    unlinked = [
        not held and not covered for held, covered in zip(structure.raw, structure.linked, strict=True)
    ]
    spans = _leaf_spans(structure)
    gaps = gaps_of(structure)
    for block in _runs(structure, unlinked):
        rows = Tally(limits)
        for place in range(block.first, block.last + 1):
            if unlinked[place] and not structure.messages.events[place]:
                rows.add("messages", structure.messages.ids[place])
        where = structure.span_text(block.first, block.last)
        if any(reset.first <= block.first and block.last <= reset.last for reset in by_reset):
            yield rows.finding(
                "A11",
                Confidence.BY_DESIGN,
                structure.id,
                told(
                    rows.count,
                    "message",
                    structure.id,
                    f"are out of the context ({where}): /new left them out.",
                ),
            )
            continue
        lost = _inside_a_leaf(spans, block) or any(_fills(structure, gap, block) for gap in gaps)
        yield rows.finding(
            "A11",
            Confidence.BROKEN if lost else Confidence.SUSPICIOUS,
            structure.id,
            told(
                rows.count,
                "message",
                structure.id,
                f"are neither in the context nor under a summary ({where}): out of the model's sight.",
            ),
            FixId.RESTORE_MESSAGES if lost else None,
        )


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
    """The gaps in the ordinals whose two sides cover messages of this conversation."""
    gaps = []
    for before, after in zip(structure.items, structure.items[1:], strict=False):
        missing = after.ordinal - before.ordinal - 1
        front, behind = _covered(structure, before), _covered(structure, after)
        if missing > 0 and front and behind and front[1] < behind[0]:
            gaps.append(Gap(missing, front[1], behind[0]))
    return gaps


def _covered(structure: Structure, item: ContextItem) -> tuple[int, int] | None:
    if item.message_id is not None:
        place = structure.messages.position.get(item.message_id)
        return None if place is None else (place, place)
    return structure.spans.get(item.summary_id) if item.summary_id is not None else None


def _fills(structure: Structure, gap: Gap, block: Block) -> bool:
    """Whether a run of messages stood exactly in a gap: as many, and all that lies between its sides."""
    between = [place for place in range(gap.before + 1, gap.after) if not structure.messages.events[place]]
    return (
        len(between) == gap.missing
        and bool(between)
        and between[0] == block.first
        and between[-1] == block.last
    )


def fell_out(structure: Structure, orphan: SummaryId, gaps: Sequence[Gap]) -> bool:
    """Whether an orphan stood exactly in a gap of one: it covers all that lies between the gap's sides."""
    span = structure.spans.get(orphan)
    if span is None:
        return False
    for gap in gaps:
        between = [
            place for place in range(gap.before + 1, gap.after) if not structure.messages.events[place]
        ]
        if gap.missing == 1 and between and (between[0], between[-1]) == span:
            return True
    return False


def lost_from_gap(structure: Structure, limits: Limits) -> tuple[str, FixId] | None:
    """What stood in a gap of the ordinals and is still there, and what puts it back, when that is sure."""
    gaps = gaps_of(structure)
    for block in blocks_outside(structure):
        filled = any(_fills(structure, gap, block) for gap in gaps)
        if filled and not left_out_by_reset(structure, block, limits):
            return structure.span_text(block.first, block.last), FixId.RESTORE_MESSAGES
    fallen = next((orphan for orphan in structure.orphans if fell_out(structure, orphan, gaps)), None)
    return None if fallen is None else (fallen, FixId.RESTORE_SUMMARIES)
