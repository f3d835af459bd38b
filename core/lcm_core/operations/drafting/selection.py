"""Which summaries a batch is about, sources before their consumers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from lcm_core.dag.graph import SummaryGraph
from lcm_core.errors import NotFoundError
from lcm_core.operations.drafting.items import Item
from lcm_core.records import ConversationId, Summary, SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.times import sort_key


async def select_items(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    summary_ids: Sequence[SummaryId] = (),
    depth: int | None = None,
    subtree: bool = False,
    reason: str = "",
) -> list[Item]:
    """The summaries that are to be rewritten: some, those of a depth, or all; *subtree*: with all below them.

    Raises:
        NotFoundError: the conversation has no such summary.
    """
    graph = await summary_store.load_graph(reader, conversation_id)
    for one in summary_ids:
        if one not in graph.nodes:
            raise NotFoundError(
                f"Conversation {conversation_id} has no summary {one}.",
                code="SUMMARY_NOT_FOUND",
                details={"summaryId": one},
            )
    wanted: Collection[SummaryId] = summary_ids or [
        one for one, node in graph.nodes.items() if depth is None or node.depth == depth
    ]
    if subtree:
        wanted = [one for one in graph.bottom_up(*wanted) if one in graph.nodes]
    rows = {one.summary_id: one for one in await summary_store.summaries_in(reader, set(wanted))}
    ids = sources_first(graph, [one for one in wanted if one in rows], rows)
    return items_of(graph, ids, rows, dict.fromkeys(ids, reason))


def sources_first(
    graph: SummaryGraph, wanted: Iterable[SummaryId], rows: Mapping[SummaryId, Summary]
) -> list[SummaryId]:
    """Leaves in order of context, other leaves, the rest by depth, by time (docs/decisions.md, "Drafts")."""
    place = {one: at for at, one in reversed(list(enumerate(graph.in_context)))}

    def key(one: SummaryId) -> tuple[int, int, datetime, str]:
        row = rows[one]
        leaf = row.kind == "leaf"
        return (
            0 if leaf else max(row.depth, 1),
            place.get(one, len(place)) if leaf else 0,
            sort_key(row.created_at),
            one,
        )

    return sorted(dict.fromkeys(wanted), key=key)


def items_of(
    graph: SummaryGraph,
    ids: Sequence[SummaryId],
    rows: Mapping[SummaryId, Summary],
    reasons: Mapping[SummaryId, str],
) -> list[Item]:
    """Items for some summaries, each behind those of its sources that are among them."""
    place = {one: at for at, one in enumerate(ids)}
    return [
        Item(
            one,
            rows[one].conversation_id,
            rows[one].depth,
            rows[one].tokens,
            reasons[one],
            # On a cycle only those that stand before it: the others would wait for each other.
            tuple(
                source for source in graph.sources.get(one, ()) if place.get(source, len(ids)) < place[one]
            ),
        )
        for one in ids
    ]
