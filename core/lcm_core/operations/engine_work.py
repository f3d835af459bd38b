"""What the 1.x engine's own rows mean at a moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, IntEnum
from functools import cached_property
from typing import Final, TypeVar

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.times import parse_utc, sort_key
from lcm_core.base.values import Record, T, field, replace
from lcm_core.change.preview import changed_since
from lcm_core.operations.debt import BelowThreshold, debts_below
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import (
    AnchorCount,
    BatchRow,
    CursorRow,
    DebtRow,
    EngineRows,
    EpochRow,
    GapRow,
    NodeRow,
    PlacedItem,
    ReplayCount,
    TurnCount,
    engine_rows,
    urgent_rows,
)

# -- what the rows mean ----------------------------------------------------------------------------------
# Prepared, stuck, lost, due. The rules are in docs/spec/prepared.md, "Batches and nodes", "Live ranges",
# "Debt" and "What needs attention".
#
# Only `read_work` reads a file. Moments are aware, UTC; ordinals of an active batch are those of the context
# now, ranges include both ends.

Key = TypeVar("Key", bound=Hashable)

#: The failure after which a batch is given up.
MOST_RETRIES: Final = 3
#: A run that began longer ago died with its process: nothing resets the flag.
OLD_RUN: Final = timedelta(hours=1)
#: Why a batch is given up when what it was made from changed: nothing failed.
_CHANGED: Final = ("pending batch ", "source projection fingerprint changed")
#: Failures after which compaction is not tried again by itself.
_NO_RETRY: Final = ("provider auth failure", "summary provider circuit breaker is open")
_DONE: Final = frozenset({"ready", "promoted"})
#: Anchors that prove where a message comes from.
PROOF: Final = frozenset({"verified", "repaired"})


class NodeState(Enum):
    """How far a node is."""

    READY = "ready"
    PROMOTED = "promoted"
    CLAIMABLE = "claimable"  #: the next to be claimed
    WAITS_FOR_SOURCES = "waits for its sources"
    CLAIMED = "claimed"
    EXPIRED = "lease expired"  #: the worker died
    NO_LEASE = "claimed without a lease that can be read"
    WAITS_TO_RETRY = "waits to be tried again"
    GIVEN_UP = "failed for the last time"
    ENDED = "ended with its batch"
    UNKNOWN = "unknown"


def node_state(node: NodeRow, *, active: bool, now: datetime) -> NodeState:
    """How far a node is; *active*: whether its batch is."""
    if node.status in _DONE:
        return NodeState(node.status)
    if not active or node.status == "stale":
        return NodeState.ENDED
    free = NodeState.WAITS_FOR_SOURCES if node.waits_for else NodeState.CLAIMABLE
    if node.status == "planned":
        return free
    if node.status == "running":
        until = parse_utc(node.lease_expires_at)
        if until is None:
            return NodeState.NO_LEASE
        return NodeState.EXPIRED if until <= now else NodeState.CLAIMED
    if node.status == "failed":
        if node.retries >= MOST_RETRIES:
            return NodeState.GIVEN_UP
        after = parse_utc(node.next_attempt_after)
        return NodeState.WAITS_TO_RETRY if after is not None and after > now else free
    return NodeState.UNKNOWN


def is_claimable(node: NodeRow, *, active: bool, now: datetime) -> bool:
    """Whether a worker that looks now may claim it."""
    state = node_state(node, active=active, now=now)
    return state is NodeState.CLAIMABLE or (state is NodeState.EXPIRED and not node.waits_for)


class Step(Record, frozen=True):
    """A run of items that publication would replace by a node, or a summary that would be kept."""

    start: int
    end: int
    node: NodeRow | None  #: None: the summary of the context stays
    summary_id: str | None = None


def frontier(
    start: int | None, end: int | None, nodes: Iterable[NodeRow], items: Iterable[PlacedItem]
) -> tuple[Step, ...]:
    """The nodes and kept summaries that follow each other from *start* on, as far as they reach, up to *end*.

    The widest nodes are the first choice where several reach as far. It ends with a node, unless a kept
    summary stands at *end*; empty when no node can follow.
    """
    if start is None or end is None or start > end:
        return ()
    steps = [
        Step(one.start, one.end, one)
        for one in nodes
        if one.start is not None and one.end is not None and start <= one.start <= one.end <= end
    ]
    steps += (
        Step(one.ordinal, one.ordinal, None, one.summary_id) for one in items if one.summary_id is not None
    )
    # From the end: how far what follows an ordinal reaches, and by which step first.
    first: dict[int, tuple[int, Step]] = {}
    for step in sorted(steps, key=lambda one: (-one.start, -one.end, one.node is None, -_depth(one))):
        following = first.get(step.end + 1)
        reach = step.end if following is None else following[0]
        if step.node is None and following is None and step.end != end:
            continue  # a summary that stays publishes nothing
        if step.start not in first or reach > first[step.start][0]:
            first[step.start] = (reach, step)
    found: list[Step] = []
    at = start
    while at in first:
        found.append(first[at][1])
        at = found[-1].end + 1
    return tuple(found) if any(one.node is not None for one in found) else ()


def _depth(step: Step) -> int:
    return 0 if step.node is None or step.node.depth is None else step.node.depth


class Outdated(Enum):
    """Why a batch can no longer be published."""

    NO_RANGE = "its range is no longer in the context"
    OTHER_SOURCES = "the context no longer holds what its summaries are made from"
    CHANGED = "what it is made from was changed since"


class BatchState(Record, frozen=True, dict=True):
    """A batch with its nodes."""

    row: BatchRow
    nodes: tuple[NodeRow, ...]  #: in the order in which they are claimed
    items: tuple[PlacedItem, ...]  #: of the context, in its range; none of a batch that has ended
    now: datetime
    in_prefixes: bool = False  #: it is published as far as it is ready; else as a whole
    changed_by: str | None = None  #: the operation of ours that changed what it is made from

    def state_of(self, node: NodeRow) -> NodeState:
        """How far one of its nodes is."""
        return node_state(node, active=self.row.active, now=self.now)

    def in_state(self, *states: NodeState) -> tuple[NodeRow, ...]:
        """Its nodes in one of some states."""
        return tuple(one for one in self.nodes if self.state_of(one) in states)

    @cached_property
    def published(self) -> tuple[NodeRow, ...]:
        """Nodes that are part of the conversation already: history, their ordinals name nothing now."""
        return self.in_state(NodeState.PROMOTED)

    @cached_property
    def open(self) -> tuple[NodeRow, ...]:
        """The others: they stand at their live ranges."""
        return tuple(one for one in self.nodes if self.state_of(one) is not NodeState.PROMOTED)

    @cached_property
    def prepared(self) -> tuple[NodeRow, ...]:
        """Nodes whose text waits."""
        return self.in_state(NodeState.READY)

    @property
    def ready_tokens(self) -> int:
        """Tokens of the texts that wait."""
        return sum(one.tokens or 0 for one in self.prepared)

    @property
    def oldest_ready(self) -> datetime | None:
        """Since when the first of them waits."""
        ready = (parse_utc(one.ready_at) for one in self.prepared)
        return min((one for one in ready if one is not None), default=None)

    @cached_property
    def publishable(self) -> tuple[Step, ...]:
        """What publication would do now; empty when it could do nothing."""
        steps = self._frontier(self.prepared)
        return steps if self.in_prefixes or self._covers(steps) else ()

    @cached_property
    def planned(self) -> tuple[Step, ...]:
        """What publication would do once all is prepared; empty when the batch does not cover its range."""
        steps = self._frontier(self.open)
        return steps if self._covers(steps) else ()

    @property
    def is_complete(self) -> bool:
        """Whether all of it could be published now."""
        return bool(self.publishable) and self._covers(self.publishable)

    def _frontier(self, nodes: Iterable[NodeRow]) -> tuple[Step, ...]:
        if not self.row.active or self.outdated is not None:
            return ()
        tail = self.row.tail_start
        before = (one for one in nodes if tail is None or one.end is None or one.end < tail)
        return frontier(self.row.start, self.row.end, before, self.items)

    def _covers(self, steps: Sequence[Step]) -> bool:
        return bool(steps) and steps[-1].end == self.row.end

    @cached_property
    def outdated(self) -> Outdated | None:
        """Why the engine will give the batch up when it looks at it; None when the context still fits."""
        if not self.range_exists:
            return Outdated.NO_RANGE
        refs = {one.ordinal: one.summary_id or one.message_id for one in self.items}
        for node in self.open:
            if node.sources is None or node.start is None or node.end is None:
                continue
            if node.end - node.start >= len(refs) or node.sources != tuple(
                refs.get(at) for at in range(node.start, node.end + 1)
            ):
                return Outdated.OTHER_SOURCES
        return None if self.changed_by is None else Outdated.CHANGED

    @property
    def range_exists(self) -> bool:
        """Whether the context has an item at each ordinal of the range."""
        start, end = self.row.start, self.row.end
        return start is not None and end is not None and len(self.items) == end - start + 1 > 0

    def replaced(self, step: Step) -> tuple[int, int]:
        """How many messages and how many summaries of the context a step replaces."""
        within = [one for one in self.items if step.start <= one.ordinal <= step.end]
        summaries = sum(one.summary_id is not None for one in within)
        return (0, 0) if step.node is None else (len(within) - summaries, summaries)

    @property
    def lost_by_failure(self) -> bool:
        """Whether it was given up because something failed, not because its sources changed."""
        given_up = self.row.status in ("stale", "failed")
        return given_up and not (self.row.failure or "").startswith(_CHANGED)


class DebtState(Enum):
    """What is to be said of compaction debt (docs/spec/prepared.md, "Debt")."""

    NONE = "none"
    DUE = "due"
    BELOW = "noted, below the threshold now"
    WAITS = "waits"
    FAILED = "failed"
    RUNNING = "running"
    DIED = "running, but its process has ended"
    CLOSED = "closed"
    INACTIVE = "inactive"


def debt_state(row: DebtRow | None, *, active: bool, now: datetime, below: bool = False) -> DebtState:
    """What a row says; *active*: whether its conversation is; *below*: its context is below the threshold."""
    if row is None:
        return DebtState.NONE
    if row.running:
        started = parse_utc(row.started_at)
        return DebtState.DIED if started is None or started < now - OLD_RUN else DebtState.RUNNING
    if not row.pending:
        return DebtState.CLOSED if row.resolution else DebtState.NONE
    if not active:
        return DebtState.INACTIVE
    after = parse_utc(row.next_attempt_after)
    if after is not None and after > now:
        return DebtState.WAITS
    if any(words in (row.failure or "") for words in _NO_RETRY):
        return DebtState.FAILED
    return DebtState.BELOW if below else DebtState.DUE


class Need(IntEnum):
    """Why a conversation needs a look, the most urgent first."""

    EXPIRED_LEASE = 1
    OLD_RUN = 2
    FAILED_DEBT = 3
    LOST_BY_FAILURE = 4
    DUE_WITHOUT_BATCH = 5
    NOTHING = 6


class ConversationWork(Record, frozen=True, dict=True):
    """What the engine's rows say of one conversation at a moment."""

    conversation: Conversation
    batches: tuple[BatchState, ...]  #: the oldest first
    debt_row: DebtRow | None
    anchors: tuple[AnchorCount, ...]
    without_anchor: int
    epoch: EpochRow | None
    turns: tuple[TurnCount, ...]
    now: datetime
    cursor: CursorRow | None = None
    gaps: tuple[GapRow, ...] = ()
    replay: ReplayCount | None = None
    below: BelowThreshold | None = None  #: where its pending debt calls for no pass

    @property
    def conversation_id(self) -> ConversationId:
        """Whose work it is."""
        return self.conversation.conversation_id

    @cached_property
    def batch(self) -> BatchState | None:
        """The batch that the engine works on: the newest active one."""
        return next((one for one in reversed(self.batches) if one.row.active), None)

    @property
    def lost(self) -> BatchState | None:
        """The newest batch that was given up."""
        return next((one for one in reversed(self.batches) if one.row.status in ("stale", "failed")), None)

    @cached_property
    def debt(self) -> DebtState:
        """Its debt."""
        active, below = self.conversation.active is not False, self.below is not None
        return debt_state(self.debt_row, active=active, now=self.now, below=below)

    @cached_property
    def need(self) -> Need:
        """Why it needs a look."""
        active = [one for one in self.batches if one.row.active]
        if any(one.in_state(NodeState.EXPIRED) for one in active):
            return Need.EXPIRED_LEASE
        if self.debt is DebtState.DIED:
            return Need.OLD_RUN
        if self.debt is DebtState.FAILED:
            return Need.FAILED_DEBT
        newest = self.batches[-1] if self.batches else None
        if any(one.in_state(NodeState.GIVEN_UP) for one in active) or (newest and newest.lost_by_failure):
            return Need.LOST_BY_FAILURE
        if self.debt is DebtState.DUE and not active:
            return Need.DUE_WITHOUT_BATCH
        return Need.NOTHING

    def anchored(self, *states: str) -> int:
        """Messages whose anchor is in one of some states."""
        return sum(one.count for one in self.anchors if one.state in states)

    @property
    def last_turn(self) -> str | None:
        """When the last turn was committed, as stored."""
        return max((one.last for one in self.turns if one.last is not None), key=sort_key, default=None)


class Spread(Record, frozen=True):
    """How long something took, in seconds, by nearest rank."""

    count: int = field(name="n")
    p50: float
    p90: float


class Took(Record, frozen=True):
    """How long compactions took, as far as rows say so; None: none does.

    docs/spec/prepared.md, "How long it took".
    """

    runs: Spread | None  #: of each conversation the last run, from its start to its end
    texts: Spread | None  #: from the plan of a prepared summary to its text, waiting included
    batches: Spread | None  #: from the plan of a batch to its publication, waiting included


def took(conversations: Iterable[ConversationWork]) -> Took:
    """How long the compactions of some conversations took."""
    several = list(conversations)
    batches = [batch for one in several for batch in one.batches]
    return Took(
        _spread((one.debt_row.started_at, one.debt_row.finished_at) for one in several if one.debt_row),
        _spread((node.created_at, node.ready_at) for batch in batches for node in batch.nodes),
        _spread((batch.row.created_at, batch.row.published_at) for batch in batches),
    )


def _spread(stamps: Iterable[tuple[str | None, str | None]]) -> Spread | None:
    """Of those that have both ends, the start first: a run that goes on has the end of the one before."""
    moments = ((parse_utc(start), parse_utc(end)) for start, end in stamps)
    seconds = sorted(
        (end - start).total_seconds() for start, end in moments if start and end and start <= end
    )
    if not seconds:
        return None
    p50, p90 = (seconds[-(-len(seconds) * share // 100) - 1] for share in (50, 90))
    return Spread(len(seconds), p50, p90)


class EngineWork(Record, frozen=True):
    """The state of the engine in one file at a moment."""

    now: datetime
    rows: EngineRows
    conversations: tuple[ConversationWork, ...]  #: what needs a look first
    unowned: int  #: rows of prepared work and debt whose conversation or batch is not stored

    @property
    def prepares(self) -> bool:
        """Whether the engine of this file prepares anything."""
        return self.rows.batches is not None


async def read_work(
    reader: Reader,
    engine: EngineSettings,
    now: datetime,
    conversation_id: ConversationId | None = None,
    *,
    urgent: bool = False,
) -> EngineWork:
    """The work of a conversation or of all (None) at *now*.

    *urgent*: only what says whether a conversation needs a look; no message's text is read for it.
    """
    rows = await (urgent_rows if urgent else engine_rows)(reader, conversation_id)
    if not urgent:
        rows = replace(rows, changed_by=await changed_since(reader))
    return engine_work(rows, now, await debts_below(reader, engine, rows.conversations))


def engine_work(
    rows: EngineRows, now: datetime, below: Mapping[ConversationId, BelowThreshold] | None = None
) -> EngineWork:
    """What the rows mean at *now*; *below*: the debts that call for no pass."""
    below = below or {}
    batches = _by_owner(rows.batches or (), lambda one: one.conversation_id)
    in_order = sorted(rows.nodes, key=_claim_order)
    nodes = _by_owner(in_order, lambda one: (one.conversation_id, one.batch_id))
    items = _by_owner(rows.items, lambda one: one.conversation_id)
    debts = _by_owner(rows.debts or (), lambda one: one.conversation_id)
    anchors = _by_owner(rows.anchors or (), lambda one: one.conversation_id)
    epochs = _by_owner(rows.epochs or (), lambda one: one.conversation_id)
    cursors = _by_owner(rows.cursors or (), lambda one: one.conversation_id)
    gaps = _by_owner(rows.gaps or (), lambda one: one.conversation_id)
    replay = _by_owner(rows.replay_keys or (), lambda one: one.conversation_id)
    without = dict(rows.without_anchor)
    found = []
    for one in rows.conversations:
        key = one.conversation_id
        found.append(
            ConversationWork(
                one,
                tuple(
                    _batch(row, nodes.get((key, row.batch_id), ()), items.get(key, ()), rows, now)
                    for row in sorted(
                        batches.get(key, ()), key=lambda one: (sort_key(one.created_at), one.batch_id)
                    )
                ),
                next(iter(debts.get(key, ())), None),
                tuple(anchors.get(key, ())),
                without.get(key, 0),
                next(iter(epochs.get(key, ())), None),
                tuple(turn for turn in rows.turns or () if _is_of(turn, one)),
                now,
                next(iter(cursors.get(key, ())), None),
                tuple(gaps.get(key, ())),
                next(iter(replay.get(key, ())), None),
                below.get(key),
            )
        )
    known = {one.conversation_id for one in rows.conversations}
    owners = [one.conversation_id for one in rows.batches or ()]
    owners += [one.conversation_id for one in rows.debts or ()]
    placed = {(row.conversation_id, row.batch_id) for row in rows.batches or ()}
    lost = sum((one.conversation_id, one.batch_id) not in placed for one in rows.nodes)
    lost += sum(one not in known for one in owners)
    found.sort(key=lambda one: (one.need, one.conversation_id))
    return EngineWork(now, rows, tuple(found), lost)


def _batch(
    row: BatchRow,
    nodes: Sequence[NodeRow],
    items: Sequence[PlacedItem],
    rows: EngineRows,
    now: datetime,
) -> BatchState:
    within: tuple[PlacedItem, ...] = ()
    if row.active and row.start is not None and row.end is not None:
        within = tuple(one for one in items if row.start <= one.ordinal <= row.end)
    changed_by = rows.changed_by.get(row.batch_id)
    return BatchState(row, tuple(nodes), within, now, rows.has_live_ranges, changed_by)


def _by_owner(rows: Iterable[T], owner: Callable[[T], Key]) -> Mapping[Key, Sequence[T]]:
    found: dict[Key, list[T]] = {}
    for row in rows:
        found.setdefault(owner(row), []).append(row)
    return found


def _claim_order(node: NodeRow) -> tuple[int, int, int, str]:
    return node.conversation_id, node.planned_start or 0, node.depth or 0, node.node_id


def _is_of(turn: TurnCount, conversation: Conversation) -> bool:
    """By session first: a key goes on with other sessions."""
    if turn.session_id == conversation.session_id:
        return True
    key = conversation.session_key
    return key is not None and turn.session_key == key and conversation.active is not False


def claimable(work: EngineWork) -> list[NodeRow]:
    """The nodes that may be claimed, in the order in which they are."""
    return _nodes_where(work, lambda one, batch: is_claimable(one, active=batch.row.active, now=work.now))


def running(work: EngineWork, *, expired: bool) -> list[NodeRow]:
    """The claimed nodes whose lease has expired, or has not."""
    wanted = NodeState.EXPIRED if expired else NodeState.CLAIMED
    return _nodes_where(work, lambda one, batch: batch.state_of(one) is wanted)


def _nodes_where(work: EngineWork, wanted: Callable[[NodeRow, BatchState], bool]) -> list[NodeRow]:
    found = [
        node
        for one in work.conversations
        for batch in one.batches
        for node in batch.nodes
        if wanted(node, batch)
    ]
    return sorted(found, key=_claim_order)
