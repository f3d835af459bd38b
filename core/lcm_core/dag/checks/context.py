"""Family A: the context list (engine.md section 9)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.facts import (
    ABNORMAL_ORDINAL,
    Limits,
    Structure,
    StructureRule,
    Tally,
    counted,
    found,
    summary_row,
    told,
)
from lcm_core.dag.checks.holes import holes, lost_from_gap, resets
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import ContextItem, SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN


def item_row(structure: Structure, item: ContextItem) -> RowRef:
    """A row of ``context_items``."""
    return RowRef("context_items", (structure.id, item.ordinal))


def _dangling_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for item in structure.items:
        if item.message_id is not None and _owner_of_message(structure, item.message_id) is None:
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A1",
            _BROKEN,
            structure.id,
            told(
                rows.count, "context item", structure.id, "name a message that is gone; the engine skips it."
            ),
            FixId.DROP_DANGLING_ITEMS,
        )


def _dangling_summaries(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for item in structure.items:
        if item.summary_id is not None and _owner_of_summary(structure, item.summary_id) is None:
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A2",
            _BROKEN,
            structure.id,
            told(
                rows.count,
                "context item",
                structure.id,
                "name a summary that is gone: what it covered is out of the model's sight.",
            ),
            FixId.DROP_DANGLING_ITEMS,
        )


def _owner_of_message(structure: Structure, message_id: int) -> int | None:
    if message_id in structure.messages.position:
        return structure.id
    return structure.foreign_messages.get(message_id)


def _owner_of_summary(structure: Structure, summary_id: SummaryId) -> int | None:
    return structure.id if summary_id in structure.nodes else structure.foreign_summaries.get(summary_id)


def _repeated(structure: Structure, limits: Limits, check: str, what: str) -> Iterator[Finding]:
    key = "summary_id" if what == "summary" else "message_id"
    counts = Counter(value for item in structure.items if (value := getattr(item, key)) is not None)
    seen: set[object] = set()
    rows = Tally(limits)
    for item in structure.items:
        value = getattr(item, key)
        if value is None or counts[value] == 1:
            continue
        if value in seen:
            rows.add("context_items", structure.id, item.ordinal)
        seen.add(value)
    if rows:
        yield rows.finding(
            check,
            _BROKEN,
            structure.id,
            told(
                len(seen),
                what,
                structure.id,
                f"stand in the context more than once ({counted(rows.count, 'item')} too many): the model "
                "reads the same thing again.",
            ),
            FixId.DROP_DUPLICATE_ITEMS,
        )


def _repeated_summaries(structure: Structure, limits: Limits) -> Iterator[Finding]:
    return _repeated(structure, limits, "A3", "summary")


def _repeated_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    return _repeated(structure, limits, "A4", "message")


def _foreign_items(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    owners: dict[int, None] = {}
    for item in structure.items:
        owner = (
            structure.foreign_messages.get(item.message_id)
            if item.message_id is not None
            else structure.foreign_summaries.get(item.summary_id or "")
        )
        if owner is not None:
            owners[owner] = None
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A5",
            _BROKEN,
            structure.id,
            told(
                rows.count,
                "context item",
                structure.id,
                f"belong to conversation {', '.join(str(owner) for owner in sorted(owners))}.",
            ),
        )


def _covered_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for item in structure.items:
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        if place is not None and structure.linked[place] == 2:
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A6",
            _BROKEN,
            structure.id,
            told(
                rows.count,
                "message",
                structure.id,
                "stand beside a summary in the context that covers the same: the model reads it twice.",
            ),
            FixId.DROP_COVERED_ITEMS,
        )


def _beside_their_consumer(structure: Structure, limits: Limits) -> Iterator[Finding]:
    ordinals = _ordinals(structure)
    for summary_id in structure.summaries_in_context:
        covered = [one for one in structure.below([summary_id]) if one != summary_id and one in ordinals]
        covered.sort(key=lambda one: ordinals[one][0].ordinal)
        if covered:
            items = [item for one in (summary_id, *covered) for item in ordinals[one]]
            yield found(
                "A7",
                _BROKEN,
                structure.id,
                [summary_row(summary_id), *(item_row(structure, item) for item in items)],
                f"Summary {summary_id} stands in the context beside "
                f"{counted(len(covered), 'summary')} "
                "that it already covers: the model reads the same time twice.",
                FixId.DROP_COVERED_ITEMS,
            )


def _ordinals(structure: Structure) -> Mapping[SummaryId, list[ContextItem]]:
    places: dict[SummaryId, list[ContextItem]] = {}
    for item in structure.items:
        if item.summary_id is not None:
            places.setdefault(item.summary_id, []).append(item)
    return places


def _gaps(structure: Structure, limits: Limits) -> Iterator[Finding]:
    ordinals = [item.ordinal for item in structure.items if 0 <= item.ordinal < ABNORMAL_ORDINAL]
    rows = Tally(limits)
    missing = 0
    for before, after in pairwise(ordinals):
        if after - before > 1:
            missing += after - before - 1
            rows.add("context_items", structure.id, after)
    if not rows:
        return
    lost, fix = lost_from_gap(structure, limits), FixId.CLOSE_GAPS
    if lost is not None:
        # Closing the gap would wipe away where it was.
        (what, fix), confidence = lost, _BROKEN
        why = f"what stood there is still in the database ({what})"
    elif structure.soft_reset is not None or resets(structure, limits):
        confidence, why = _BY_DESIGN, "/new took items out and closes no gaps"
    elif missing <= _deleted_messages(structure):
        confidence, why = _BY_DESIGN, "messages were deleted, as pruning of heartbeats does"
    else:
        confidence, why = _SUSPICIOUS, "nothing that is recorded explains it"
    yield rows.finding(
        "A8",
        confidence,
        structure.id,
        told(missing, "ordinal", structure.id, f"are missing in its context; {why}."),
        fix,
    )


def _deleted_messages(structure: Structure) -> int:
    """Numbers that are missing between messages: rows that a host deleted."""
    seqs = structure.messages.seqs
    return max(0, seqs[-1] - seqs[0] + 1 - len(seqs)) if seqs else 0


def _abnormal_ordinals(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for item in structure.items:
        if item.ordinal < 0 or item.ordinal >= ABNORMAL_ORDINAL:
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A9",
            _BROKEN,
            structure.id,
            told(
                rows.count,
                "context item",
                structure.id,
                "have ordinals that only a renumbering uses: one was cut short.",
            ),
            FixId.CLOSE_GAPS,
        )


def _disorder(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    newest_start, last_place = 0.0, -1
    for item in structure.items:
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        node = None if item.summary_id is None else structure.nodes.get(item.summary_id)
        if place is not None:
            ends = structure.messages.days[place]
            back = place < last_place
            last_place = max(last_place, place)
        elif node is not None:
            ends, back = _day(node.latest), False
        else:
            continue
        if back or (ends and ends < newest_start):
            rows.add("context_items", structure.id, item.ordinal)
        if node is not None:
            newest_start = max(newest_start, _day(node.earliest))
    if rows:
        yield rows.finding(
            "A10",
            _SUSPICIOUS,
            structure.id,
            told(
                rows.count,
                "context item",
                structure.id,
                "stand behind something newer, as after a transplant or a merge.",
            ),
        )


def _day(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value


def _message_holes(structure: Structure, limits: Limits) -> Iterable[Finding]:
    return () if structure.archived else holes(structure, limits)


def _behind_newer_summary(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    newest_first = -1
    for item in structure.items:
        if item.summary_id is not None and item.summary_id in structure.spans:
            newest_first = max(newest_first, structure.spans[item.summary_id][0])
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        if place is not None and place < newest_first:
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A12",
            _SUSPICIOUS,
            structure.id,
            told(
                rows.count,
                "raw message",
                structure.id,
                "stand behind a summary that covers only later messages.",
            ),
        )


def _empty_context(structure: Structure, limits: Limits) -> Iterator[Finding]:
    if structure.items or not len(structure.messages) or structure.archived:
        return
    reset = structure.soft_reset is not None or any(resets(structure, limits))
    yield found(
        "A13",
        _BY_DESIGN if reset else _SUSPICIOUS,
        structure.id,
        [RowRef("conversations", (structure.id,))],
        f"Conversation {structure.id} has {counted(len(structure.messages), 'message')} and no context: "
        + ("/new emptied it." if reset else "its import was cut short, or the context was deleted."),
    )


def _over_budget(structure: Structure, limits: Limits) -> Iterator[Finding]:
    budget = structure.token_budget
    if not budget or structure.debt_pending:
        return
    raw = sum(structure.raw)
    tokens = sum(count for count, held in zip(structure.messages.tokens, structure.raw, strict=True) if held)
    tokens += sum(structure.nodes[one].tokens for one in structure.summaries_in_context)
    if tokens > budget and raw <= limits.fresh_tail:
        yield found(
            "A14",
            _SUSPICIOUS,
            structure.id,
            [RowRef("conversation_compaction_maintenance", (structure.id,))],
            f"The context of conversation {structure.id} holds {tokens:,} tokens, {tokens - budget:,} over "
            "its "
            "budget, and there is nothing left to compact.",
        )


def _wrong_type(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for item in structure.items:
        wanted = {"message": (True, False), "summary": (False, True)}.get(item.item_type)
        if wanted != (item.message_id is not None, item.summary_id is not None):
            rows.add("context_items", structure.id, item.ordinal)
    if rows:
        yield rows.finding(
            "A15",
            _BROKEN,
            structure.id,
            told(rows.count, "context item", structure.id, "refer to something else than the type says."),
        )


RULES: Final[Mapping[str, StructureRule]] = {
    "A1": _dangling_messages,
    "A2": _dangling_summaries,
    "A3": _repeated_summaries,
    "A4": _repeated_messages,
    "A5": _foreign_items,
    "A6": _covered_messages,
    "A7": _beside_their_consumer,
    "A8": _gaps,
    "A9": _abnormal_ordinals,
    "A10": _disorder,
    "A11": _message_holes,
    "A12": _behind_newer_summary,
    "A13": _empty_context,
    "A14": _over_budget,
    "A15": _wrong_type,
}
