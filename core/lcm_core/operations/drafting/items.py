"""What is in a batch: summaries that are to get another text, and their progress."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from lcm_core.dag.graph import SummaryGraph
from lcm_core.operations.drafting.draft import Draft
from lcm_core.operations.rows import no_such_summary
from lcm_core.records import ConversationId, Summary, SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.summarize.request import Usage
from lcm_core.times import sort_key


class ItemState(StrEnum):
    """How far an item has come; the value is the word to show."""

    WAITING = "waiting"  #: for a call that is free, or for its sources
    DRAFTING = "drafting"
    REVIEW = "review"  #: there are drafts, and somebody has to decide
    COMMITTED = "committed"
    SKIPPED = "skipped"  #: somebody decided to leave it as it is
    FAILED = "failed"  #: no draft, and why


#: States that an item does not leave by itself.
SETTLED: Final = frozenset({ItemState.COMMITTED, ItemState.SKIPPED})


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A summary in a batch. A value: the batch holds the newest one of each."""

    summary_id: SummaryId
    conversation_id: ConversationId
    depth: int
    tokens: int  #: of the text that was there when the batch was made
    reason: str = ""  #: why it is in the batch: ``truncated``, ``contaminated`` ...
    after: tuple[SummaryId, ...] = ()  #: its sources in the batch: they come first
    state: ItemState = ItemState.WAITING
    why: str = ""  #: one sentence: why it failed, was skipped, is not accepted, or waits
    drafts: tuple[Draft, ...] = ()  #: in the order in which they were made; none is ever thrown away
    chosen: int | None = None  #: number of the draft that is proposed, or was committed
    theirs: str | None = None  #: what is there now, where it changed since the draft (three-way)
    operation: str | None = None  #: of the history, once it is committed

    @property
    def draft(self) -> Draft | None:
        """The draft that is proposed, or was committed; None: none is accepted, one has to be chosen."""
        return None if self.chosen is None else self.numbered(self.chosen)

    def numbered(self, number: int) -> Draft | None:
        """One of its drafts."""
        return next((one for one in self.drafts if one.number == number), None)

    @property
    def usage(self) -> Usage:
        """What its drafts cost."""
        return sum((one.usage for one in self.drafts), Usage(cost_usd=0.0))


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch has come."""

    total: int
    counts: Mapping[ItemState, int]
    drafted: int  #: in this run
    seconds: float  #: of this run
    in_flight: int
    usage: Usage  #: of all drafts of the batch, those of earlier runs too

    @property
    def done(self) -> int:
        """Items that need no call any more."""
        return self.total - self.counts.get(ItemState.WAITING, 0) - self.in_flight

    @property
    def per_minute(self) -> float | None:
        """Items drafted in a minute; None until one was."""
        return self.drafted * 60 / self.seconds if self.drafted and self.seconds > 0 else None

    @property
    def remaining(self) -> float | None:
        """Seconds until all are drafted, by the rate so far; None: not known."""
        rate = self.per_minute
        return (self.total - self.done) * 60 / rate if rate else None


def ready(items: Mapping[SummaryId, BatchItem], *, ahead: bool) -> list[BatchItem]:
    """The waiting items whose sources in the batch are settled; *ahead*: a draft of them will do."""
    enough = SETTLED | ({ItemState.REVIEW, ItemState.FAILED} if ahead else frozenset())
    return [
        item
        for item in items.values()
        if item.state is ItemState.WAITING
        and all(one not in items or items[one].state in enough for one in item.after)
    ]


def by_id(items: Iterable[BatchItem]) -> dict[SummaryId, BatchItem]:
    """Items by id, in their order, each summary once."""
    found: dict[SummaryId, BatchItem] = {}
    for item in items:
        found.setdefault(item.summary_id, item)
    return found


def interrupted(item: BatchItem) -> BatchItem:
    """An item whose drafting was broken off, or failed: it waits, or is decided when it was paid for."""
    if item.state not in (ItemState.DRAFTING, ItemState.FAILED):
        return item
    drafted = next((one.number for one in reversed(item.drafts) if one.may_be_taken), None)
    if drafted is not None:
        return replace(item, state=ItemState.REVIEW, chosen=drafted, why="")
    return replace(item, state=ItemState.WAITING, why="")


# -- which summaries, sources before their consumers ----------------------------------------------------


async def select_items(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    summary_ids: Sequence[SummaryId] = (),
    depth: int | None = None,
    subtree: bool = False,
    reason: str = "",
) -> list[BatchItem]:
    """The summaries that are to be rewritten: some, those of a depth, or all; *subtree*: with all below them.

    Raises:
        NotFoundError: the conversation has no such summary.
    """
    graph = await summary_store.load_graph(reader, conversation_id)
    for one in summary_ids:
        if one not in graph.nodes:
            raise no_such_summary(conversation_id, one)
    wanted: Collection[SummaryId] = summary_ids or [
        one for one, node in graph.nodes.items() if depth is None or node.depth == depth
    ]
    if subtree:
        wanted = [one for one in graph.bottom_up(*wanted) if one in graph.nodes]
    rows = {one.summary_id: one for one in await summary_store.summaries_in(reader, set(wanted))}
    ids = sources_first(graph, [one for one in wanted if one in rows], rows)
    return make_items(graph, ids, rows, dict.fromkeys(ids, reason))


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


def make_items(
    graph: SummaryGraph,
    ids: Sequence[SummaryId],
    rows: Mapping[SummaryId, Summary],
    reasons: Mapping[SummaryId, str],
) -> list[BatchItem]:
    """Items for some summaries, each behind those of its sources that are among them."""
    place = {one: at for at, one in enumerate(ids)}
    return [
        BatchItem(
            one,
            rows[one].conversation_id,
            rows[one].depth,
            rows[one].tokens,
            reasons[one],
            # On a cycle only those before it: the others would wait for each other.
            tuple(
                source for source in graph.sources.get(one, ()) if place.get(source, len(ids)) < place[one]
            ),
        )
        for one in ids
    ]
