"""Which summaries are bad, what was made from them, and in which order they are to be repaired.

A repair is a batch of `lcm_core.operations.drafting`; this says what is in it. What is certainly broken is
what `lcm_core.store.summaries` says, for lists, counts and checks (C1 to C4, C7, C9, C15) too; what is only
suspected (C5, C7, C12, C15) is repaired when it is named. A consumer that was made from a bad source (C10)
has no mark; it is listed and chosen apart.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from lcm_core.base.records import ConversationId, Summary, SummaryId
from lcm_core.base.times import sort_key
from lcm_core.base.values import Record, replace
from lcm_core.checks import summaries as texts
from lcm_core.checks.structure import conversation_ids
from lcm_core.engine.graph import SummaryGraph
from lcm_core.engine.markers import BadKind, broken_kind, is_capped
from lcm_core.operations.drafting import BatchItem, make_items, select_items, sources_first
from lcm_core.operations.rows import no_such_summary
from lcm_core.operations.stale import stale_in
from lcm_core.store import summaries as summary_store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.summaries import BATCH, bodies_of

#: The reason of an item that is chosen because its sources were bad.
CONTAMINATED: Final = "contaminated"
#: The reason of one whose source was rewritten since.
STALE: Final = "stale"
#: The reason of one that is stale as soon as its sources, stale themselves, are rewritten.
ABOVE_STALE: Final = "above-stale"

#: Certainly no summaries; the others are repaired when they are named.
SURE: Final = frozenset(BadKind) - {BadKind.CAPPED, BadKind.REASONING, BadKind.REFUSAL, BadKind.WORDLESS}


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
    kind_of = await summary_store.broken_among(reader, wanted)
    if not SURE.issuperset(kinds):
        rest = [one for one in wanted if one not in kind_of]
        for start in range(0, len(rest), BATCH):
            for body in await bodies_of(reader, rest[start : start + BATCH]):
                if (kind := suspected(body.content)) is not None:
                    kind_of[body.summary_id] = kind
    kind_of = {one: kind for one, kind in kind_of.items() if kind in kinds}
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


async def find_repairable(reader: Reader, conversation_id: ConversationId) -> list[BatchItem]:
    """What is broken in a conversation or made from that, then what is stale and neither."""
    found = list((await find_repair(reader, conversation_id)).all_items)
    known = {item.summary_id for item in found}
    stale = [one.summary_id for one in await stale_in(reader, conversation_id) if one.summary_id not in known]
    items = await select_items(reader, conversation_id, summary_ids=stale) if stale else []
    return found + [replace(item, reason=STALE) for item in items]


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


def kind_of_text(content: str, model: str | None) -> BadKind | None:
    """What is wrong with a text, or may be, as far as the text itself shows."""
    return broken_kind(content, model) or suspected(content)


def suspected(content: str) -> BadKind | None:
    """What may be wrong with a text; a repair takes it when it is named."""
    tests = (
        (BadKind.WORDLESS, lambda text: not texts.says_something(text)),
        (BadKind.CAPPED, is_capped),
        (BadKind.REFUSAL, texts.is_refusal),
        (BadKind.REASONING, texts.has_reasoning),
    )
    return next((kind for kind, holds in tests if holds(content)), None)
