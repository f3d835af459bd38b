"""Family A: the context list (docs/engine/doctor.md, "Family A: the context")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from lcm_core.dag.checks.cycles import cyclic_nodes
from lcm_core.dag.checks.facts import (
    ABNORMAL_ORDINAL,
    Limits,
    Structure,
    StructureRule,
    Tally,
    counted,
    found,
    some,
    summary_row,
    told,
)
from lcm_core.dag.checks.holes import holes, lost_from_gap, resets
from lcm_core.dag.checks.ordinals import behind_newer, told_order, true_order
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import ContextItem, SummaryId

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN


def item_row(structure: Structure, item: ContextItem) -> RowRef:
    """A row of ``context_items``."""
    return RowRef("context_items", (structure.id, item.ordinal))


def _tally(structure: Structure, limits: Limits, items: Iterable[ContextItem]) -> Tally:
    rows = Tally(limits)
    for item in items:
        rows.add("context_items", structure.id, item.ordinal)
    return rows


def _where(structure: Structure, limits: Limits, is_wrong: Callable[[ContextItem], bool]) -> Tally:
    """The items of a context of which something is true."""
    return _tally(structure, limits, filter(is_wrong, structure.items))


def dangles(structure: Structure, item: ContextItem) -> bool:
    """Whether the message or the summary of an item is gone."""
    if item.summary_id is not None:
        known: Mapping[str, int | None] = structure.foreign_summaries
        return item.summary_id not in structure.nodes and known.get(item.summary_id) is None
    if item.message_id is None:
        return False
    there = item.message_id in structure.messages.position
    return not there and structure.foreign_messages.get(item.message_id) is None


def _dangling_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = _where(structure, limits, lambda item: item.summary_id is None and dangles(structure, item))
    words = "name a message that is gone; the engine skips it."
    yield from rows.told("A1", _BROKEN, structure, "context item", words, FixId.DROP_DANGLING_ITEMS)


def _dangling_summaries(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = _where(structure, limits, lambda item: item.summary_id is not None and dangles(structure, item))
    known = some(one for one in structure.remains if any(item.summary_id == one for item in structure.items))
    left = f"; links and edges still tell what {known} was made from" if known else ""
    words = f"name a summary that is gone: what it covered is out of the model's sight{left}."
    yield from rows.told("A2", _BROKEN, structure, "context item", words, FixId.DROP_DANGLING_ITEMS)


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
        words = (
            f"stand in the context more than once ({counted(rows.count, 'item')} too many): the model "
            "reads the same thing again."
        )
        sentence = told(len(seen), what, structure.id, words)
        yield rows.finding(check, _BROKEN, structure.id, sentence, FixId.DROP_DUPLICATE_ITEMS)


def _repeated_summaries(structure: Structure, limits: Limits) -> Iterator[Finding]:
    return _repeated(structure, limits, "A3", "summary")


def _repeated_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    return _repeated(structure, limits, "A4", "message")


def owner_elsewhere(structure: Structure, item: ContextItem) -> int | None:
    """The other conversation that an item's row belongs to; None when it is ours, or gone."""
    if item.message_id is not None:
        return structure.foreign_messages.get(item.message_id)
    return structure.foreign_summaries.get(item.summary_id or "")


def is_at_home(structure: Structure, item: ContextItem) -> bool:
    """Whether an item's row is in the context of the conversation that it belongs to, or covered there."""
    return (item.message_id if item.summary_id is None else item.summary_id) in structure.at_home


def _foreign_items(structure: Structure, limits: Limits) -> Iterator[Finding]:
    foreign = [item for item in structure.items if owner_elsewhere(structure, item) is not None]
    for at_home, fix, why in (
        (True, FixId.DROP_FOREIGN_ITEMS, "whose own context reaches what they name too."),
        (
            False,
            None,
            "whose own context does not reach what they name: taken out here, it would be in sight nowhere.",
        ),
    ):
        items = [item for item in foreign if is_at_home(structure, item) is at_home]
        owners = dict.fromkeys(owner_elsewhere(structure, item) or 0 for item in items)
        where = " and of ".join(f"conversation {owner}" for owner in sorted(owners))
        words = f"name rows of {where}, {why}"
        yield from _tally(structure, limits, items).told("A5", _BROKEN, structure, "context item", words, fix)


def _covered_messages(structure: Structure, limits: Limits) -> Iterator[Finding]:
    def is_covered(item: ContextItem) -> bool:
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        return place is not None and structure.linked[place] == 2

    rows = _where(structure, limits, is_covered)
    words = "stand beside a summary in the context that covers the same: the model reads it twice."
    yield from rows.told("A6", _BROKEN, structure, "message", words, FixId.DROP_COVERED_ITEMS)


def _beside_their_consumer(structure: Structure, limits: Limits) -> Iterator[Finding]:
    ordinals, circling = _ordinals(structure), cyclic_nodes(structure, structure.nodes)
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
                FixId.DROP_COVERED_ITEMS if circling.isdisjoint(covered) else None,
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
    sentence = told(missing, "ordinal", structure.id, f"are missing in its context; {why}.")
    yield rows.finding("A8", confidence, structure.id, sentence, fix)


def _deleted_messages(structure: Structure) -> int:
    """Numbers that are missing between messages: rows that a host deleted."""
    seqs = structure.messages.seqs
    return max(0, seqs[-1] - seqs[0] + 1 - len(seqs)) if seqs else 0


def _abnormal_ordinals(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = _where(structure, limits, lambda item: not 0 <= item.ordinal < ABNORMAL_ORDINAL)
    fix = FixId.CLOSE_GAPS if rows and true_order(structure) else None
    words = "have ordinals that only a renumbering uses: one was cut short."
    yield from rows.told("A9", _BROKEN, structure, "context item", words, fix)


def _disorder(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = _tally(structure, limits, behind_newer(structure, structure.items))
    words = "stand behind something newer, as after a transplant or a merge"
    yield from _reordered(rows, "A10", structure, "context item", words)


def _behind_newer_summary(structure: Structure, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    newest_first = -1
    for item in structure.items:
        if item.summary_id is not None and item.summary_id in structure.spans:
            newest_first = max(newest_first, structure.spans[item.summary_id][0])
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        if place is not None and place < newest_first:
            rows.add("context_items", structure.id, item.ordinal)
    words = "stand behind a summary that covers only later messages"
    yield from _reordered(rows, "A12", structure, "raw message", words)


def _reordered(rows: Tally, check: str, structure: Structure, noun: str, words: str) -> Iterator[Finding]:
    """A finding about disorder, with the fix when what the items cover tells one order."""
    if not rows:
        return
    if told_order(structure, structure.items) is not None:
        yield from rows.told(check, _SUSPICIOUS, structure, noun, f"{words}.", FixId.REORDER)
    else:
        words += "; what the items cover tells no single order: some overlap, or cover nothing that is there."
        yield from rows.told(check, _SUSPICIOUS, structure, noun, words)


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
            "its budget, and there is nothing left to compact.",
        )


def _wrong_type(structure: Structure, limits: Limits) -> Iterator[Finding]:
    def is_wrong(item: ContextItem) -> bool:
        wanted = {"message": (True, False), "summary": (False, True)}.get(item.item_type)
        return wanted != (item.message_id is not None, item.summary_id is not None)

    rows = _where(structure, limits, is_wrong)
    yield from rows.told(
        "A15", _BROKEN, structure, "context item", "refer to something else than the type says."
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
    "A11": holes,
    "A12": _behind_newer_summary,
    "A13": _empty_context,
    "A14": _over_budget,
    "A15": _wrong_type,
}
