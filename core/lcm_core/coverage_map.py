"""Reads what the coverage map of a conversation is made of."""

from __future__ import annotations

import asyncio

from lcm_core.context_items import ItemId
from lcm_core.context_view import fresh_tail_of
from lcm_core.dag.coverage import Coverage, Standing, cover
from lcm_core.engine_rules import TailRules
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store import context as context_store
from lcm_core.store import summaries as summary_store
from lcm_core.store.coverage import Linked, linked_runs
from lcm_core.store.database import Reader

#: Raw messages at the end of a context that are weighed at a time until the fresh tail is known.
WEIGHED = 200


async def read_coverage(reader: Reader, conversation_id: ConversationId, rules: TailRules) -> Coverage:
    """The map of a conversation; which summaries are broken or stale is not known yet (`Coverage.marked`).

    A fixed number of statements and no text; of messages only those near the fresh tail are read.
    """
    columns = await summary_store.load_columns(reader, conversation_id)
    # What needs no link is worked out while SQLite goes through them.
    standing, linked = await asyncio.gather(
        asyncio.to_thread(Standing, columns), linked_runs(reader, conversation_id)
    )
    items = await context_store.context_items(reader, conversation_id)
    raw = [item for item in items.refs if isinstance(item, int)]
    weights: dict[ItemId, context_store.Weight | None] = {}
    tail = None
    while tail is None and len(weights) < len(raw):
        wanted = max(WEIGHED, rules.fresh_tail_count) + len(weights)
        weights |= await context_store.weights_of(reader, raw[-wanted:][: wanted - len(weights)])
        tail = fresh_tail_of(items, weights, rules)
    first = None
    if tail is not None and tail.first_ordinal is not None:
        first = items.refs[items.ordinals.index(tail.first_ordinal)]
    return await asyncio.to_thread(_covered, standing, linked, items.refs, first)


def _covered(
    standing: Standing, linked: Linked, refs: tuple[ItemId, ...] | list[ItemId], first: ItemId
) -> Coverage:
    items = [
        linked.place_of(ref) if isinstance(ref, int) else None if ref is None else SummaryId(ref)
        for ref in refs
    ]
    tail = linked.place_of(first) if isinstance(first, int) else None
    return cover(standing, linked.links, linked.seqs, items, tail).prepare()


async def read_broken(reader: Reader, conversation_id: ConversationId) -> set[SummaryId]:
    """The broken summaries; reads every text: for the background."""
    return {one.summary_id for one in await summary_store.broken_in(reader, conversation_id)}
