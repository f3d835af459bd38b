"""The checks of contexts (A1 to A15; docs/spec/doctor.md, "Family A: the context")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

from lcm_core.base.findings import FixId, RowRef
from lcm_core.base.records import ContextItems, SummaryId, repeated
from lcm_core.base.text import counted, phrase, some
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    OTHER_TOOL,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Hit,
    Limits,
    Rule,
    Subject,
    conversation_row,
    hit,
    summary_row,
)
from lcm_core.checks.proofs import (
    behind_newer,
    copies_outside,
    known_order,
    lost_blocks,
    lost_from_gap,
    lost_messages,
    resets,
    run_of,
    true_order,
    unlinked_runs,
    within,
)
from lcm_core.checks.structure import Structure

Ref = TypeVar("Ref", int, str)


def _at(structure: Structure, limits: Limits, places: Iterable[int]) -> FaultRows:
    """The items at some places of a context."""
    ordinals = structure.items.ordinals
    return FaultRows(limits, "context_items", ((structure.id, ordinals[place]) for place in sorted(places)))


def dangling(structure: Structure) -> list[int]:
    """The places of the items whose message or summary is gone."""
    ours, others = structure.messages.position, structure.foreign_messages
    nodes, elsewhere = structure.nodes, structure.foreign_summaries
    return [
        at
        for at, (message, summary) in enumerate(structure.items.named())
        if (
            summary not in nodes and elsewhere.get(summary) is None
            if summary is not None
            else message is not None and message not in ours and others.get(message) is None
        )
    ]


def _dangling_messages(structure: Structure, limits: Limits) -> Iterator[Hit]:
    summaries = structure.items.summary_ids
    rows = _at(structure, limits, (at for at in dangling(structure) if summaries[at] is None))
    words = "refer to a missing message, which the engine skips."
    return rows.hits(BROKEN, "context item", structure.id, words, FixId.DROP_DANGLING_ITEMS)


def _dangling_summaries(structure: Structure, limits: Limits) -> Iterator[Hit]:
    summaries = structure.items.summary_ids
    rows = _at(structure, limits, (at for at in dangling(structure) if summaries[at] is not None))
    known = some(one for one in structure.remains if one in summaries)
    left = f"; links and edges still tell what {known} was made from" if known else ""
    words = f"refer to a missing summary: the model no longer sees what it covered{left}."
    return rows.hits(BROKEN, "context item", structure.id, words, FixId.DROP_DANGLING_ITEMS)


def _repeated(
    what: str, column_of: Callable[[ContextItems], Sequence[int | str | None]]
) -> Callable[[Structure, Limits], Iterator[Hit]]:
    def find(structure: Structure, limits: Limits) -> Iterator[Hit]:
        several = repeated(column_of(structure.items))
        rows = _at(structure, limits, (place for places in several.values() for place in places[1:]))
        if rows:
            words = (
                f"are in the context more than once ({counted(rows.count, 'item')} too many): the model "
                "reads the same text again."
            )
            sentence = phrase(len(several), what, structure.id, words)
            yield rows.hit(BROKEN, sentence, FixId.DROP_DUPLICATE_ITEMS)

    return find


def owners_elsewhere(structure: Structure) -> dict[int, int]:
    """The other conversations whose rows items name, by the items' places."""
    messages, summaries = structure.foreign_messages, structure.foreign_summaries
    owners = (
        messages.get(message) if message is not None else summaries.get(summary or "")
        for message, summary in structure.items.named()
    )
    return {at: owner for at, owner in enumerate(owners) if owner is not None}


def is_at_home(structure: Structure, at: int) -> bool:
    """Whether an item's row is in the context of the conversation that it belongs to, or covered there."""
    return structure.items.refs[at] in structure.at_home


def _foreign_refs(structure: Structure) -> Iterator[Subject]:
    return (structure.items.refs[at] for at in owners_elsewhere(structure))


def _foreign_items(structure: Structure, limits: Limits) -> Iterator[Hit]:
    foreign = owners_elsewhere(structure)
    for at_home, fix, why in (
        (True, FixId.DROP_FOREIGN_ITEMS, "whose own context reaches what they name too."),
        (
            False,
            None,
            "whose own context does not reach what they name: if removed here, it would be in no context.",
        ),
    ):
        places = [at for at in foreign if is_at_home(structure, at) is at_home]
        owners = {foreign[at] for at in places}
        where = " and of ".join(f"conversation {owner}" for owner in sorted(owners))
        words = f"name rows of {where}, {why}"
        yield from _at(structure, limits, places).hits(BROKEN, "context item", structure.id, words, fix)


def _covered_places(structure: Structure) -> Iterator[int]:
    """The places of the messages in the context that a summary covers which the context reaches."""
    places = structure.message_places(structure.items)
    return (at for at, place in enumerate(places) if place is not None and structure.linked[place] == 2)


def _covered_messages(structure: Structure, limits: Limits) -> Iterator[Hit]:
    rows = _at(structure, limits, _covered_places(structure))
    words = "are in the context together with a summary that covers them: the model reads them twice."
    return rows.hits(BROKEN, "message", structure.id, words, FixId.DROP_COVERED_ITEMS)


def _covered_summaries(structure: Structure) -> Iterator[tuple[SummaryId, list[SummaryId]]]:
    """The summaries in the context, each with what is there of all that lies below it."""
    held = set(structure.items.summary_ids)
    for summary_id in structure.summaries_in_context:
        covered = [one for one in structure.graph.below([summary_id]) if one != summary_id and one in held]
        if covered:
            yield summary_id, covered


def _beside_their_consumer(structure: Structure, limits: Limits) -> Iterator[Hit]:
    circling = structure.graph.cyclic
    ordinals: dict[SummaryId, list[int]] = {}
    for ordinal, summary in zip(structure.items.ordinals, structure.items.summary_ids, strict=True):
        if summary is not None:
            ordinals.setdefault(summary, []).append(ordinal)
    for summary_id, covered in _covered_summaries(structure):
        covered.sort(key=lambda one: ordinals[one][0])
        places = [ordinal for one in (summary_id, *covered) for ordinal in ordinals[one]]
        yield hit(
            BROKEN,
            f"Summary {summary_id} is in the context together with {counted(len(covered), 'summary')} "
            "that it already covers: the model reads the same messages twice.",
            summary_row(summary_id),
            *(RowRef("context_items", (structure.id, ordinal)) for ordinal in places),
            fix=FixId.DROP_COVERED_ITEMS if circling.isdisjoint(covered) else None,
        )


def _gaps(structure: Structure, limits: Limits) -> Iterator[Hit]:
    gaps = [gap for gap in structure.items.gaps if gap.first]  # what lacks before the first item is none
    missing = sum(gap.last - gap.first + 1 for gap in gaps)
    rows = _at(structure, limits, (gap.place for gap in gaps))
    if not rows:
        return
    lost, fix = lost_from_gap(structure, limits), FixId.CLOSE_GAPS
    if lost is not None:
        # Closing the gap would wipe away where it was.
        (what, fix), confidence = lost, BROKEN
        why = f"the missing items are still in the database ({what})"
    elif structure.soft_reset is not None or resets(structure, limits):
        confidence, why = BY_DESIGN, "/new removed items and does not close gaps"
    elif missing <= _deleted_messages(structure):
        confidence, why = BY_DESIGN, "messages were deleted, as pruning of heartbeats does"
    else:
        confidence, why = SUSPICIOUS, "no record explains it"
    sentence = phrase(missing, "ordinal", structure.id, f"are missing in its context; {why}.")
    yield rows.hit(confidence, sentence, fix)


def _deleted_messages(structure: Structure) -> int:
    """Numbers that are missing between messages: rows that a host deleted."""
    seqs = structure.messages.seqs
    return max(0, seqs[-1] - seqs[0] + 1 - len(seqs)) if seqs else 0


def _abnormal_ordinals(structure: Structure, limits: Limits) -> Iterator[Hit]:
    rows = _at(structure, limits, structure.items.abnormal)
    fix = FixId.CLOSE_GAPS if rows and true_order(structure) else None
    words = "have ordinals that only a renumbering uses: one was cut short."
    return rows.hits(BROKEN, "context item", structure.id, words, fix)


def _disorder(structure: Structure, limits: Limits) -> Iterator[Hit]:
    rows = _at(structure, limits, behind_newer(structure, structure.items))
    words = "come after newer items, as after a transplant or a merge"
    return _out_of_order(structure, rows, "context item", words)


def _behind_newer_summary(structure: Structure, limits: Limits) -> Iterator[Hit]:
    behind: list[int] = []
    newest_first = -1
    places = structure.message_places(structure.items)
    for at, (summary, place) in enumerate(zip(structure.items.summary_ids, places, strict=True)):
        if summary is not None and summary in structure.spans:
            newest_first = max(newest_first, structure.spans[summary][0])
        if place is not None and place < newest_first:
            behind.append(at)
    rows = _at(structure, limits, behind)
    words = "come after a summary that covers only later messages"
    return _out_of_order(structure, rows, "raw message", words)


def _out_of_order(structure: Structure, rows: FaultRows, noun: str, words: str) -> Iterator[Hit]:
    """A hit about disorder, with the fix when what the items cover tells one order."""
    if not rows:
        return
    if known_order(structure, structure.items) is not None:
        yield from rows.hits(SUSPICIOUS, noun, structure.id, f"{words}.", FixId.REORDER)
    else:
        words += "; what the items cover gives no unique order: some overlap, or cover nothing that exists."
        yield from rows.hits(SUSPICIOUS, noun, structure.id, words)


def _unreached(structure: Structure) -> Iterator[int | str]:
    """The messages that nothing has; of another conversation's, those that its own context has not either."""
    yield from (
        message_id
        for place, message_id in enumerate(structure.messages.ids)
        if not (structure.raw[place] or structure.linked[place] or structure.messages.events[place])
    )
    yield from foreign_unreached(structure, structure.foreign_messages)


def foreign_unreached(structure: Structure, owners: Mapping[Ref, int | None]) -> Iterator[Ref]:
    """Those of other conversations' rows that neither this context nor that of their own reaches."""
    held = structure.at_home.union(structure.items.refs)
    return (ref for ref, owner in owners.items() if owner is not None and ref not in held)


def _holes(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    by_reset = resets(structure, limits)
    lost = frozenset(lost_blocks(structure, limits))
    left = {one for sources in structure.remains.values() for one in sources}
    proven = {place for ends in lost_messages(structure).values() for place in run_of(structure, ends)}
    for block in unlinked_runs(structure):
        run = run_of(structure, block.ends)
        ids = [messages.ids[place] for place in run]
        where = structure.span_text(block.first, block.last)
        confidence, fix = SUSPICIOUS, None
        why = f"are neither in the context nor under a summary ({where}): the model does not see them."
        if within(block, by_reset):
            confidence, why = BY_DESIGN, f"are out of the context ({where}): /new left them out."
        elif proven.issuperset(run):
            confidence, fix = BROKEN, FixId.RELINK
        elif left.issuperset(ids):
            confidence, fix = BROKEN, FixId.DROP_DANGLING_ITEMS
            why = f"were summarised by a missing summary that the context still refers to ({where}, A2)."
        elif block in lost:
            confidence, fix = BROKEN, FixId.RESTORE_MESSAGES
        elif structure.archived and not structure.items:
            confidence = BY_DESIGN
            why = f"are out of the context ({where}): the conversation is archived and has none."
        yield from FaultRows(limits, "messages", ids).hits(confidence, "message", structure.id, why, fix)
    why = "are out of the context and copies of others that the context reaches."
    rows = FaultRows(limits, "messages", (messages.ids[place] for place in copies_outside(structure)))
    yield from rows.hits(BY_DESIGN, "message", structure.id, why)


def _empty_context(structure: Structure, limits: Limits) -> Iterator[Hit]:
    if structure.items or not len(structure.messages) or structure.archived:
        return
    reset = structure.soft_reset is not None or any(resets(structure, limits))
    yield hit(
        BY_DESIGN if reset else SUSPICIOUS,
        f"Conversation {structure.id} has {counted(len(structure.messages), 'message')} and no context: "
        + ("/new emptied it." if reset else "its import was interrupted, or the context was deleted."),
        conversation_row(structure.id),
    )


def _over_budget(structure: Structure, limits: Limits) -> Iterator[Hit]:
    budget = structure.token_budget
    if not budget or structure.debt_pending:
        return
    raw = sum(structure.raw)
    tokens = sum(count for count, held in zip(structure.messages.tokens, structure.raw, strict=True) if held)
    tokens += sum(structure.nodes[one].tokens for one in structure.summaries_in_context)
    if tokens > budget and raw <= limits.fresh_tail:
        yield hit(
            SUSPICIOUS,
            f"The context of conversation {structure.id} holds {tokens:,} tokens, {tokens - budget:,} over "
            "its budget, and there is nothing left to compact.",
            RowRef("conversation_compaction_maintenance", (structure.id,)),
        )


def _wrong_type(structure: Structure, limits: Limits) -> Iterator[Hit]:
    rows = _at(structure, limits, structure.items.mismatched)
    return rows.hits(BROKEN, "context item", structure.id, "refer to a row of another type.")


# fmt: off
CHECKS: Final[tuple[Rule[Structure], ...]] = (
    Rule("A1", ERROR, "dangling message", "Does the context name a message that does not exist?",
         why="Each item of a context names a stored message. The engine skips missing ones without a "
         "warning.", needs=("context_items",),
         broken="the context of conversation {conversation} refers to message {ref}, which is missing",
         find=_dangling_messages),
    Rule("A2", ERROR, "dangling summary", "Does the context name a summary that does not exist?",
         why="Each item of a context names a stored summary. The engine skips missing ones without a "
         "warning.", needs=("context_items", "summaries"),
         broken="the context of conversation {conversation} refers to summary {ref}, which is missing",
         find=_dangling_summaries),
    Rule("A3", ERROR, "summary twice in context", "Is a summary in the context more than once?",
         why="A summary belongs in a context once. If it is there twice, the model reads the same text "
         "twice and you pay for it twice.", needs=("context_items",),
         broken="summary {ref} occurs more than once in the context of conversation {conversation}",
         find=_repeated("summary", lambda items: items.summary_ids),
         subjects=lambda structure: repeated(structure.items.summary_ids)),
    Rule("A4", ERROR, "message twice in context", "Is a message in the context more than once?",
         why="A message belongs in a context once. If it is there twice, the model reads it twice.",
         needs=("context_items",),
         broken="message {ref} occurs more than once in the context of conversation {conversation}",
         find=_repeated("message", lambda items: items.message_ids),
         subjects=lambda structure: repeated(structure.items.message_ids)),
    Rule("A5", ERROR, "row of another conversation", "Does the context name a row of another conversation?",
         why="A context contains rows of its own conversation only. Others come from a merge or a copy gone "
         "wrong.", needs=("context_items", "summaries"),
         unfixed="The row is in no other context, so no fix removes it. Merge the two conversations when "
         "they are one session (`lcm-tui merge`); else transplant the other one, which makes copies for "
         "this one.",
         broken="{kind} {ref} in the context of conversation {conversation} belongs to another conversation",
         find=_foreign_items, subjects=_foreign_refs),
    Rule("A6", ERROR, "message raw and summarised",
         "Is a raw message in the same context as a summary that covers it?",
         why="A compaction replaces messages with their summary in one step. If both are there, it was "
         "interrupted.", needs=("context_items", "summaries", "summary_messages"),
         broken="message {ref} and a summary of it are both in the context of conversation {conversation}",
         find=_covered_messages,
         subjects=lambda structure: (structure.items.refs[at] for at in _covered_places(structure))),
    Rule("A7", ERROR, "summary and its consumer",
         "Is a summary in the context together with one that was made from it?",
         why="A condensation replaces sources with their summary in one step. If both are there, it was "
         "interrupted.", needs=("context_items", "summaries", "summary_parents"),
         unfixed="The summaries form a cycle (B6): which one to remove is unknown.",
         broken="summary {ref} and one made from it are both in the context of conversation {conversation}",
         find=_beside_their_consumer,
         subjects=lambda structure: chain.from_iterable(one for _, one in _covered_summaries(structure))),
    Rule("A8", WARNING, "gap in ordinals",
         "Are ordinals missing between the first and the last context item?",
         why="Ordinals count up without gaps, except where a host pruned its tail; the engine skips a gap.",
         needs=("context_items",), find=_gaps),
    Rule("A9", ERROR, "abnormal ordinals", "Are there ordinals below 0, or from 10,000,000 on?",
         why="Ordinals outside 0 to 10,000,000 are left by an interrupted renumbering.",
         needs=("context_items",),
         unfixed="The order of the items is unknown: restore a backup, or leave it as it is.",
         broken="{kind} {ref} gets an ordinal out of range in conversation {conversation}",
         find=_abnormal_ordinals,
         subjects=lambda structure: (structure.items.refs[at] for at in structure.items.abnormal)),
    Rule("A10", WARNING, "context out of order", "Does an older item come after a newer one in the context?",
         why="Items are in the order in which they were said. A copy ordered by depth, or a merge, breaks "
         "that order.", needs=("context_items",),
         unfixed="What the items cover gives no unique order. Fix overlaps, missing rows and duplicates "
         "first (A1 to A7); then there may be one.", find=_disorder),
    Rule("A11", ERROR, "message hole", "Is there a message that is in neither the context nor any summary?",
         why="Each message is in the context or below a summary, except what /new left out on purpose (all "
         "before the oldest raw message) and compaction events. The model does not see a message that is in "
         "neither.", needs=("context_items", "summaries", "summary_messages"),
         unfixed="Whether it was left out on purpose, and its place, are unknown. Search and recall find it.",
         broken="message {ref} of conversation {conversation} is in no context and no summary", find=_holes,
         subjects=_unreached),
    Rule("A12", WARNING, "old message behind a newer summary",
         "Does a raw message come after a summary that covers only later messages?",
         why="A summary covers what is older than the raw messages after it. A raw message that is older "
         "than that was stored late, mostly by an import in part.",
         needs=("context_items", "summaries", "summary_messages"),
         unfixed="What the items cover gives no unique order: a summary before it may cover messages on "
         "both sides of it. Fix overlaps, missing rows and duplicates first (A1 to A7).",
         find=_behind_newer_summary),
    Rule("A13", INFO, "empty context", "Does an active conversation with messages have no context at all?",
         why="An active conversation with messages has a context; an interrupted import leaves none.",
         needs=("context_items",),
         unfixed="Which messages belong there is unknown. The host fills the context with new messages.",
         find=_empty_context),
    Rule("A14", WARNING, "context stays over budget",
         "Is the context over its token budget with nothing left to compact and no debt recorded?",
         why="When a context is over its budget, compaction has something to do or is noted as due. With "
         "neither, it stays over budget.",
         needs=("context_items", "conversation_compaction_maintenance.token_budget"),
         unfixed="Nothing is wrong with the rows: give the model a larger budget, or rewrite the longest "
         "summaries (W).", find=_over_budget),
    Rule("A15", INFO, "item of the wrong type", "Does a context item refer to a row of another type?",
         why="An item has a type, message or summary, and refers to a row of that type. Only other tools "
         "can write it otherwise.", needs=("context_items",),
         unfixed=f"{OTHER_TOOL} Fix the context with that tool, or restore a backup.", find=_wrong_type),
)
# fmt: on
