"""Which summaries are bad, what was made from them, and in which order they are to be repaired.

A repair is a batch of `lcm_core.operations.drafting`; this says what is in it. What counts as bad is what the
checks say (C1 to C4, C7, C9 and C15 where they are sure; C5, C7, C12 and C15 where they only suspect), by the
same functions. A consumer that was made from a bad source (C10) has no mark; it is listed and chosen apart.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final

from lcm_core.base.records import ConversationId, Summary, SummaryId
from lcm_core.base.times import sort_key
from lcm_core.base.values import Record
from lcm_core.checks import summaries as texts
from lcm_core.checks.structure import conversation_ids
from lcm_core.checks.summaries import BATCH, bodies_of, source_texts
from lcm_core.engine.graph import SummaryGraph
from lcm_core.engine.markers import BrokenKind, classify, is_capped
from lcm_core.operations.drafting import BatchItem, make_items, sources_first
from lcm_core.operations.rows import no_such_summary
from lcm_core.store import summaries as summary_store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

#: The reason of an item that is chosen because its sources were bad.
CONTAMINATED: Final = "contaminated"


class BadKind(StrEnum):
    """What is wrong with the text of a summary; the check that says so is `check`."""

    OLD = "old"
    FALLBACK = "fallback"
    TRUNCATED = "truncated"
    EMERGENCY = "emergency"
    EMPTY = "empty"
    ERROR = "error"  #: the JSON of a provider's error
    COPY = "copy"  #: the beginning of its source, without a mark
    CAPPED = "capped"  #: cut at the hard cap
    REASONING = "reasoning"
    REFUSAL = "refusal"
    WORDLESS = "wordless"

    @property
    def check(self) -> str:
        """The id of the check (docs/decisions.md, "Checks")."""
        return _CHECKS[self]


_CHECKS: Final = {
    BadKind.OLD: "C3",
    BadKind.FALLBACK: "C3",
    BadKind.TRUNCATED: "C1",
    BadKind.EMERGENCY: "C4",
    BadKind.EMPTY: "C7",
    BadKind.ERROR: "C15",
    BadKind.COPY: "C9",
    BadKind.CAPPED: "C5",
    BadKind.REASONING: "C12",
    BadKind.REFUSAL: "C15",
    BadKind.WORDLESS: "C7",
}
_MARKED: Final = {
    BrokenKind.OLD: BadKind.OLD,
    BrokenKind.FALLBACK: BadKind.FALLBACK,
    BrokenKind.TRUNCATED: BadKind.TRUNCATED,
    BrokenKind.EMERGENCY: BadKind.EMERGENCY,
    BrokenKind.EMPTY: BadKind.EMPTY,
}
#: Certainly no summaries; the others are repaired when they are named.
SURE: Final = frozenset({*_MARKED.values(), BadKind.ERROR, BadKind.COPY})


class BadSummary(Record, frozen=True):
    """A summary that is to be repaired."""

    summary: Summary
    kind: BadKind


class ContaminatedSummary(Record, frozen=True):
    """A summary that was made from bad ones and has no mark of it."""

    summary: Summary
    sources: tuple[SummaryId, ...]  #: those of its own sources that are bad, or contaminated themselves
    direct: bool  #: one of its own sources is bad (C10); else only something further down is


class RepairList(Record, frozen=True):
    """What there is to repair in one conversation."""

    conversation_id: ConversationId
    bad: tuple[BadSummary, ...]  #: leaves of the context first, other leaves, then by depth
    contaminated: tuple[ContaminatedSummary, ...]  #: in the same order; chosen separately
    items: tuple[BatchItem, ...]  #: of the bad ones, for a batch
    all_items: tuple[BatchItem, ...]  #: of both


async def conversations_of(reader: Reader, conversation_id: ConversationId | None) -> list[ConversationId]:
    """One conversation, or all.

    Raises:
        NotFoundError: there is no conversation of that id.
    """
    if conversation_id is None:
        return await conversation_ids(reader)
    return [(await get_conversation(reader, conversation_id)).conversation_id]


async def find_repair(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    kinds: Collection[BadKind] = SURE,
    summary_ids: Collection[SummaryId] = (),
    since: datetime | None = None,
) -> RepairList:
    """What there is to repair in a conversation; reads all its summaries.

    *summary_ids* and *since* (when it was made) narrow the bad ones down; contaminated are the consumers of
    those.

    Raises:
        NotFoundError: one of *summary_ids* is not in the conversation.
    """
    graph = await summary_store.load_graph(reader, conversation_id)
    for one in summary_ids:
        if one not in graph.nodes:
            raise no_such_summary(conversation_id, one)
    rows = {one.summary_id: one for one in await summary_store.summaries_in(reader, set(graph.nodes))}
    # An id that is stored as bytes is in the graph, and no row is found under it.
    wanted = [one for one in graph.nodes if one in rows and (not summary_ids or one in summary_ids)]
    if since is not None:
        wanted = [one for one in wanted if sort_key(rows[one].created_at) >= since]
    kind_of = {one: kind for one, kind in (await _kinds(reader, rows, wanted)).items() if kind in kinds}
    spoiled = graph.above(kind_of) & rows.keys()
    bad_ids = sources_first(graph, kind_of, rows)
    spoiled_ids = sources_first(graph, spoiled, rows)
    reasons = {**{one: str(kind) for one, kind in kind_of.items()}, **dict.fromkeys(spoiled, CONTAMINATED)}
    everyone = sources_first(graph, [*bad_ids, *spoiled_ids], rows)
    return RepairList(
        conversation_id,
        tuple(BadSummary(rows[one], kind_of[one]) for one in bad_ids),
        tuple(_contaminated(graph, one, kind_of, spoiled, rows[one]) for one in spoiled_ids),
        tuple(make_items(graph, bad_ids, rows, reasons)),
        tuple(make_items(graph, everyone, rows, reasons)),
    )


async def bad_in(reader: Reader, conversation_id: ConversationId) -> dict[SummaryId, BadKind]:
    """The summaries of a conversation that a repair lists, and what is wrong with each; reads every text."""
    found = await find_repair(reader, conversation_id)
    return {one.summary.summary_id: one.kind for one in found.bad}


def _contaminated(
    graph: SummaryGraph,
    one: SummaryId,
    bad: Collection[SummaryId],
    spoiled: Collection[SummaryId],
    summary: Summary,
) -> ContaminatedSummary:
    sources = graph.sources.get(one, ())
    return ContaminatedSummary(
        summary,
        tuple(source for source in sources if source in bad or source in spoiled),
        any(source in bad for source in sources),
    )


async def _kinds(
    reader: Reader, rows: dict[SummaryId, Summary], wanted: list[SummaryId]
) -> dict[SummaryId, BadKind]:
    """What is wrong with some summaries; those that are sound are left out."""
    found: dict[SummaryId, BadKind] = {}
    for start in range(0, len(wanted), BATCH):
        for body in await bodies_of(reader, wanted[start : start + BATCH]):
            kind = kind_of_text(body.content, rows[body.summary_id].model)
            if kind is None and texts.may_be_copy(body.content, body.opening):
                copied = texts.copy_of_source(body.content, await source_texts(reader, body.summary_id))
                kind = BadKind.COPY if copied is texts.Copy.CUT else None
            if kind is not None:
                found[body.summary_id] = kind
    return found


def kind_of_text(content: str, model: str | None) -> BadKind | None:
    """What is wrong with a text, as far as the text itself shows."""
    marked = classify(content, model)
    if marked is not None:
        return _MARKED[marked]
    tests = (
        (BadKind.ERROR, texts.is_error),
        (BadKind.WORDLESS, lambda text: not texts.says_something(text)),
        (BadKind.CAPPED, is_capped),
        (BadKind.REFUSAL, texts.is_refusal),
        (BadKind.REASONING, texts.has_reasoning),
    )
    return next((kind for kind, holds in tests if holds(content)), None)
