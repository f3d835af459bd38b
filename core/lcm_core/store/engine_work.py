"""The rows in which the 1.x engine keeps its own state, and where its copy of a session ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from lcm_core.base.records import Conversation, ConversationId, MessageId
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, field, replace
from lcm_core.store.conversations import CONVERSATIONS, moment_key, stored_form
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row
from lcm_core.store.rows import of_conversation, records
from lcm_core.store.schema import Columns, R, number
from lcm_core.store.state import (
    CURSORS,
    ENDED_BATCHES,
    GAPS,
    MAINTENANCE,
    PREPARED_BATCHES,
    PREPARED_NODE_CHILDREN,
    PREPARED_NODE_MESSAGES,
    PREPARED_NODES,
    REPLAY_KEYS,
)

# -- the engine's rows -----------------------------------------------------------------------------------
# Prepared work, debt, anchors, epochs and turns.
#
# Columns are those of docs/spec/prepared.md, "Columns". Values may be anything that SQLite keeps: what is
# no number is 0, times stay as they are stored. What the rows mean is in `lcm_core.operations.engine_work`.

ANCHORS: Final = "message_transcript_anchor_trust"
EPOCHS: Final = "conversation_transcript_epochs"
TURNS: Final = "turn_advancements"
#: Sources of a node that are compared with the context: children that name each other would never end.
MOST_SOURCES: Final = 10_000


class BatchRow(
    Record,
    frozen=True,
    rename={"conversation_id": "c", "failure": "failure_summary", "start": "a", "end": "z"},
):
    """A compaction that the engine plans; the ordinals of an active one are those of the context now."""

    conversation_id: ConversationId
    batch_id: str
    status: str
    start: int | None
    end: int | None  #: the last ordinal of the range
    failure: str | None
    created_at: str | None
    published_at: str | None
    tail_start: int | None = None  #: the ordinal from which on nothing is compacted

    @property
    def active(self) -> bool:
        """Whether the engine may still work on it."""
        return self.status not in ENDED_BATCHES


class NodeRow(
    Record,
    frozen=True,
    rename={
        "tokens": "token_count",
        "failure": "failure_summary",
        "retries": "retry_count",
        "start": "a",
        "end": "z",
        "planned_start": "planned_a",
        "planned_end": "planned_z",
    },
):
    """A summary of a batch; its text is not read with it."""

    conversation_id: ConversationId
    node_id: str
    batch_id: str
    kind: str
    depth: int | None
    status: str
    start: int | None  #: ordinals of the context now (docs/spec/prepared.md, "Live ranges"), both included
    end: int | None
    tokens: int | None
    has_text: bool
    lease_owner: str | None
    lease_expires_at: str | None
    failure: str | None
    retries: int
    next_attempt_after: str | None
    ready_at: str | None
    summary_id: str | None  #: what it became
    waits_for: int  #: nodes that it is made from and that are neither ready nor promoted
    planned_start: int | None = None  #: ordinals when it was planned: its key, and no place in the context
    planned_end: int | None = None
    created_at: str | None = None
    #: message and summary ids that it replaces, in order; None: they were not read
    sources: tuple[int | str, ...] | None = None


class PlacedItem(Record, frozen=True):
    """An item of a context in the range of a batch."""

    conversation_id: ConversationId
    ordinal: int
    summary_id: str | None  #: None: a message
    message_id: int | None = None


#: Columns of debt that have another name here.
_OF_DEBT: Final = {
    "failure": "last_failure_summary",
    "retries": "retry_attempts",
    "resolution": "resolution_reason",
    "revision": "maintenance_revision",
    "started_at": "last_started_at",
    "finished_at": "last_finished_at",
}


class DebtRow(Record, frozen=True, rename={"conversation_id": "c", **_OF_DEBT}):
    """What is noted of compaction that is due."""

    conversation_id: ConversationId
    pending: int
    running: int
    reason: str | None
    failure: str | None
    retries: int | None
    next_attempt_after: str | None
    resolution: str | None
    resolved_at: str | None
    revision: int | None
    requested_at: str | None
    started_at: str | None
    finished_at: str | None


class AnchorCount(Record, frozen=True, rename={"conversation_id": "c", "state": "trust_state", "count": "n"}):
    """How many messages have anchors of one kind."""

    conversation_id: ConversationId
    state: str
    source: str | None
    reason: str | None
    count: int


class EpochRow(
    Record,
    frozen=True,
    rename={"conversation_id": "c", "mode": "migration_mode", "metadata": "metadata_json"},
):
    """A boundary in a transcript: what is older is taken as it is."""

    conversation_id: ConversationId
    mode: str
    frontier_entry_id: str | None
    frontier_seq: int | None
    metadata: str | None


class CursorRow(Record, frozen=True, rename={"conversation_id": "c"}):
    """How far the engine has followed a transcript (docs/spec/cursors.md, "Cursor and frontier")."""

    conversation_id: ConversationId
    origin: str
    frontier_entry_id: str | None  #: the last visible entry that it has passed, stored or not
    frontier_seq: int | None  #: its place among the messages that the host sees, from 1
    updated_at: str | None


class GapRow(
    Record,
    frozen=True,
    rename={"conversation_id": "c", "first_seq": "a", "last_seq": "z", "entries": "entry_count"},
):
    """Entries of a transcript that were never stored (docs/spec/cursors.md, "Gaps")."""

    conversation_id: ConversationId
    gap_id: int
    first_entry_id: str
    last_entry_id: str
    first_seq: int | None  #: places among the messages that the host sees, from 1
    last_seq: int | None
    entries: int
    prev_message_id: int | None  #: the stored messages around it; None: deleted since
    next_message_id: int | None
    source: str
    detected_at: str | None


class ReplayCount(Record, frozen=True, rename={"conversation_id": "c"}):
    """How many entries of users the engine has seen, and how many of them have a key."""

    conversation_id: ConversationId
    entries: int
    keys: int


class TurnCount(Record, frozen=True):
    """The turns that were committed of one session."""

    session_id: str | None
    session_key: str | None
    turns: int
    messages: int
    first: str | None
    last: str | None


class PreparedText(Record, frozen=True):
    """The text of a node: nothing that a model was sent."""

    node: NodeRow
    text: str


class EngineRows(Record, frozen=True):
    """The state of one conversation or of all; None where this file has no such table."""

    conversations: Sequence[Conversation]
    batches: Sequence[BatchRow] | None  #: of a conversation the oldest first
    nodes: Sequence[NodeRow]  #: in the order in which they are claimed
    items: Sequence[PlacedItem]  #: of the ranges of active batches
    debts: Sequence[DebtRow] | None
    anchors: Sequence[AnchorCount] | None
    without_anchor: Sequence[tuple[ConversationId, int]]  #: messages that were never judged
    epochs: Sequence[EpochRow] | None
    turns: Sequence[TurnCount] | None
    #: operations of ours that changed what a batch is made from since it was planned, by its id
    changed_by: Mapping[str, str] = field(default_factory=dict)
    has_live_ranges: bool = False  #: the engine publishes a batch in prefixes, and moves its ranges
    cursors: Sequence[CursorRow] | None = None
    gaps: Sequence[GapRow] | None = None  #: in the order of the transcript
    replay_keys: Sequence[ReplayCount] | None = None


async def engine_rows(reader: Reader, conversation_id: ConversationId | None) -> EngineRows:
    """Read what the engine notes of a conversation, or of all (None)."""
    only, keys = of_conversation("t.conversation_id", conversation_id)
    clause = f"WHERE {only} ORDER BY t.conversation_id"
    conversations = await records(reader, CONVERSATIONS, clause, *keys)
    batches = await _of(reader, _BATCHES, conversation_id)
    nodes = await _nodes(reader, conversation_id)
    active = {(batch.conversation_id, batch.batch_id) for batch in batches or () if batch.active}
    return EngineRows(
        conversations,
        batches,
        await _with_sources(reader, nodes, active),
        await _items(reader, batches or ()),
        await _of(reader, _DEBTS, conversation_id),
        await _anchors(reader, conversation_id),
        await _without_anchor(reader, conversation_id),
        await _of(reader, _EPOCHS, conversation_id),
        await _turns(reader, conversations, conversation_id),
        has_live_ranges=reader.schema.has(PREPARED_NODES, "active_ordinal_start"),
        cursors=await cursor_rows(reader, conversation_id),
        gaps=await gap_rows(reader, conversation_id),
        replay_keys=await _replay_keys(reader, conversation_id),
    )


async def urgent_rows(reader: Reader, conversation_id: ConversationId | None) -> EngineRows:
    """Read only what says whether a conversation, or any (None), needs a look: prepared work and debt."""
    only, keys = of_conversation("t.conversation_id", conversation_id)
    conversations = await records(reader, CONVERSATIONS, f"WHERE {only} ORDER BY t.conversation_id", *keys)
    batches = await _of(reader, _BATCHES, conversation_id)
    items = await _items(reader, batches or ())
    nodes, debts = await _nodes(reader, conversation_id), await _of(reader, _DEBTS, conversation_id)
    return EngineRows(conversations, batches, nodes, items, debts, None, (), None, None)


async def _of(
    reader: Reader, columns: Columns[R], conversation_id: ConversationId | None, **instead: str
) -> list[R] | None:
    """What a table holds of a conversation or of all, by conversation; None where it has no such table."""
    if not reader.schema.has(columns.table, "conversation_id"):
        return None
    only, keys = of_conversation("t.conversation_id", conversation_id)
    rows = await reader.rows(
        f"SELECT t.conversation_id AS owner, {columns.select(reader.schema, 't', **instead)} "
        f"FROM {columns.table} AS t WHERE {only} ORDER BY t.conversation_id",
        *keys,
    )
    return [columns.record(row, conversation_id=_owner(row)) for row in rows]


def _owner(row: Row) -> ConversationId:
    """Whose row it is; 0, which is nobody's, where it names none."""
    return ConversationId(row["owner"] if isinstance(row["owner"], int) else 0)


_BATCHES: Final = Columns(
    PREPARED_BATCHES,
    BatchRow,
    conversation_id=None,
    start="compactable_start_ordinal",
    end="compactable_end_ordinal",
    failure="failure_summary",
    tail_start="planned_fresh_tail_start_ordinal",
)
_NODES: Final = Columns(
    PREPARED_NODES,
    NodeRow,
    **dict.fromkeys(("conversation_id", "start", "end", "has_text", "waits_for", "sources")),
    tokens="token_count",
    failure="failure_summary",
    retries="retry_count",
    summary_id="canonical_summary_id",
    planned_start="ordinal_start",
    planned_end="ordinal_end",
)
_DEBTS: Final = Columns(MAINTENANCE, DebtRow, conversation_id=None, **_OF_DEBT)
_EPOCHS: Final = Columns(
    EPOCHS, EpochRow, conversation_id=None, mode="migration_mode", metadata="metadata_json"
)
_CURSORS: Final = Columns(CURSORS, CursorRow, conversation_id=None)
_GAPS: Final = Columns(
    GAPS,
    GapRow,
    conversation_id=None,
    first_seq="first_visible_seq",
    last_seq="last_visible_seq",
    entries="entry_count",
)


async def _nodes(reader: Reader, conversation_id: ConversationId | None) -> list[NodeRow]:
    if not reader.schema.has(PREPARED_NODES, "conversation_id"):
        return []
    live = reader.schema.select(PREPARED_NODES, ("active_ordinal_start", "active_ordinal_end"), "n")
    has_text = (
        "n.content IS NOT NULL AND n.content <> ''" if reader.schema.has(PREPARED_NODES, "content") else "0"
    )
    only, keys = of_conversation("n.conversation_id", conversation_id)
    rows = await reader.rows(
        f"SELECT n.conversation_id AS owner, {_NODES.select(reader.schema, 'n')}, {live}, "
        f"{has_text} AS has_text FROM {PREPARED_NODES} AS n WHERE {only}",
        *keys,
    )
    waiting = await _unready_children(reader)
    return [
        _NODES.record(
            row,
            conversation_id=_owner(row),
            start=_first_number(row["active_ordinal_start"], row["ordinal_start"]),
            end=_first_number(row["active_ordinal_end"], row["ordinal_end"]),
            has_text=bool(row["has_text"]),
            waits_for=waiting.get(row["node_id"] or "", 0),
        )
        for row in rows
    ]


def _first_number(*stored: object) -> int | None:
    return next((found for one in stored if (found := number(one)) is not None), None)


async def _with_sources(
    reader: Reader, nodes: Sequence[NodeRow], active: Container[tuple[ConversationId, str]]
) -> list[NodeRow]:
    """The same nodes; those of *active* batches with what they replace in the context."""
    wanted = [one for one in nodes if (one.conversation_id, one.batch_id) in active]
    ids = [one.node_id for one in wanted]
    if (
        not ids
        or not reader.schema.has(PREPARED_NODE_MESSAGES)
        or not reader.schema.has(PREPARED_NODE_CHILDREN)
    ):
        return list(nodes)
    below: dict[str, list[int | str]] = defaultdict(list)
    for row in await reader.rows_in(
        f"SELECT CAST(node_id AS TEXT) AS node, message_id FROM {PREPARED_NODE_MESSAGES} "
        "WHERE node_id IN (?*) ORDER BY node_id, ordinal",
        ids,
    ):
        below[row["node"] or ""].append(number(row["message_id"]) or 0)
    children: dict[str, list[tuple[str | None, str | None]]] = defaultdict(list)
    for row in await reader.rows_in(
        "SELECT CAST(node_id AS TEXT) AS node, child_node_id, child_summary_id "
        f"FROM {PREPARED_NODE_CHILDREN} WHERE node_id IN (?*) ORDER BY node_id, ordinal",
        ids,
    ):
        children[row["node"] or ""].append((row["child_node_id"], row["child_summary_id"]))
    by_id = {one.node_id: one for one in wanted}
    # What is deeper is made of what is shallower: sources of a child are there before they are needed.
    for one in sorted(wanted, key=lambda one: one.depth or 0):
        for child, summary in children.get(one.node_id, ()):
            promoted = by_id[child].summary_id if child in by_id else None
            if summary or promoted:
                below[one.node_id].append(summary or promoted or "")
            elif child is not None and len(below[one.node_id]) <= MOST_SOURCES:
                below[one.node_id] += below.get(child, ())
    compared = {name: tuple(found) for name, found in below.items() if len(found) <= MOST_SOURCES}
    return [
        replace(one, sources=compared.get(one.node_id, None if one.node_id in below else ()))
        if one.node_id in by_id
        else one
        for one in nodes
    ]


async def _unready_children(reader: Reader) -> dict[str, int]:
    """By node, how many of the nodes that it is made from have no text yet."""
    if not reader.schema.has(PREPARED_NODE_CHILDREN, "child_node_id"):
        return {}
    rows = await reader.rows(
        f"""SELECT CAST(e.node_id AS TEXT) AS node, count(*) AS n FROM {PREPARED_NODE_CHILDREN} AS e
        JOIN {PREPARED_NODES} AS n ON n.node_id = e.child_node_id
        WHERE n.status NOT IN ('ready', 'promoted') GROUP BY e.node_id"""
    )
    return {row["node"] or "": row["n"] for row in rows}


async def _items(reader: Reader, batches: Sequence[BatchRow]) -> list[PlacedItem]:
    found: dict[tuple[ConversationId, int], PlacedItem] = {}
    for batch in batches:
        if not batch.active or batch.start is None or batch.end is None:
            continue
        rows = await reader.rows(
            "SELECT ordinal, item_type, summary_id, message_id FROM context_items "
            "WHERE conversation_id = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
            *(batch.conversation_id, batch.start, batch.end),
        )
        for row in rows:
            summary = row["summary_id"] if row["item_type"] == "summary" else None
            key = (batch.conversation_id, row["ordinal"])
            found[key] = PlacedItem(*key, summary, None if summary else number(row["message_id"]))
    return list(found.values())


async def _anchors(reader: Reader, conversation_id: ConversationId | None) -> list[AnchorCount] | None:
    if not reader.schema.has(ANCHORS, "conversation_id"):
        return None
    only, keys = of_conversation("t.conversation_id", conversation_id)
    named = reader.schema.select(ANCHORS, ("trust_state", "source", "reason"), "t")
    rows = await reader.rows(
        f"SELECT t.conversation_id AS owner, {named}, count(*) AS n FROM {ANCHORS} AS t WHERE {only} "
        "GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        *keys,
    )
    return [
        AnchorCount(_owner(row), row["trust_state"] or "", row["source"], row["reason"], row["n"])
        for row in rows
    ]


async def _without_anchor(
    reader: Reader, conversation_id: ConversationId | None
) -> list[tuple[ConversationId, int]]:
    if not reader.schema.has(ANCHORS, "message_id"):
        return []
    only, keys = of_conversation("m.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT m.conversation_id AS owner, count(*) AS n FROM messages AS m
        WHERE {only} AND NOT EXISTS (SELECT 1 FROM {ANCHORS} AS t WHERE t.message_id = m.message_id)
        GROUP BY m.conversation_id ORDER BY m.conversation_id""",
        *keys,
    )
    return [(_owner(row), row["n"]) for row in rows]


async def cursor_rows(reader: Reader, conversation_id: ConversationId | None) -> list[CursorRow] | None:
    """How far the engine has followed transcripts; None where it does not follow them by cursors."""
    return await _of(reader, _CURSORS, conversation_id, frontier_entry_id="nullif(t.frontier_entry_id, '')")


async def gap_rows(reader: Reader, conversation_id: ConversationId | None) -> list[GapRow] | None:
    """What of transcripts was never stored, in their order; None where that is not noted."""
    found = await _of(reader, _GAPS, conversation_id)
    return found and sorted(found, key=lambda one: (one.conversation_id, one.first_seq or 0, one.gap_id))


class GapTotals(Record, frozen=True):
    """What of all transcripts was never stored, as far as the engine has noted it."""

    conversations: int
    gaps: int
    entries: int
    largest: int  #: entries


async def gap_totals(reader: Reader) -> GapTotals | None:
    """All gaps together; None where none are noted, or none can be."""
    gaps = await gap_rows(reader, None)
    if not gaps:
        return None
    owners = {one.conversation_id for one in gaps}
    entries = [one.entries for one in gaps]
    return GapTotals(len(owners), len(gaps), sum(entries), max(entries))


async def _replay_keys(reader: Reader, conversation_id: ConversationId | None) -> list[ReplayCount] | None:
    if not reader.schema.has(REPLAY_KEYS, "idempotency_key"):
        return None
    only, keys = of_conversation("t.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT t.conversation_id AS owner, count(*) AS n,
        CAST(total(t.idempotency_key <> '') AS INTEGER) AS keyed
        FROM {REPLAY_KEYS} AS t WHERE {only} GROUP BY 1 ORDER BY 1""",
        *keys,
    )
    return [ReplayCount(_owner(row), row["n"], row["keyed"]) for row in rows]


async def _turns(
    reader: Reader, conversations: Sequence[Conversation], conversation_id: ConversationId | None
) -> list[TurnCount] | None:
    if not reader.schema.has(TURNS, "session_id"):
        return None
    condition = "1"
    keys: tuple[str | None, ...] = ()
    if conversation_id is not None:
        if not conversations:
            return []
        condition = "(t.session_id = ? OR t.session_key = ?)"
        keys = (conversations[0].session_id, conversations[0].session_key)
    stored = reader.schema.select(TURNS, ("session_id", "session_key"), "t")
    sent = "t.message_count" if reader.schema.has(TURNS, "message_count") else "0"
    at = moment_key("t.committed_at") if reader.schema.has(TURNS, "committed_at") else "NULL"
    rows = await reader.rows(
        f"""SELECT {stored}, count(*) AS n, CAST(total({sent}) AS INTEGER) AS messages,
        min({at}) AS first, max({at}) AS last
        FROM {TURNS} AS t WHERE {condition} GROUP BY 1, 2 ORDER BY 2, 1""",
        *keys,
    )
    return [
        TurnCount(
            row["session_id"],
            row["session_key"],
            row["n"],
            row["messages"],
            stored_form(row["first"]),
            stored_form(row["last"]),
        )
        for row in rows
    ]


async def prepared_texts(reader: Reader, nodes: Sequence[NodeRow]) -> list[PreparedText]:
    """The texts of nodes that have one. None of them is part of a conversation (docs/spec/prepared.md)."""
    with_text = {one.node_id: one for one in nodes if one.has_text and one.node_id}
    rows = await reader.rows_in(
        f"SELECT CAST(node_id AS TEXT) AS id, content FROM {PREPARED_NODES} WHERE node_id IN (?*)", with_text
    )
    texts = {row["id"]: row["content"] or "" for row in rows}
    return [PreparedText(node, texts[name]) for name, node in with_text.items() if name in texts]


# -- ends of sessions ------------------------------------------------------------------------------------
# Where the engine's copy of a session ends (docs/spec/host.md, "Is it ingesting?").

#: Newest messages by whose entries the end is looked for in the host's transcript.
_ANCHORS: Final = 64


class EngineEnd(Record, frozen=True):
    """The end of a conversation, as the engine has stored it."""

    conversation_id: ConversationId
    message_id: MessageId | None  #: the newest; None without messages
    at: datetime | None  #: when that was said, UTC, to the second
    entries: frozenset[str]  #: entries of the host that the newest messages and the last turn were made from
    committed_at: datetime | None  #: when the last turn was committed; None where turns are not recorded
    frontier: str | None = None  #: the entry up to which a cursor follows the transcript; None: none does
    frontier_seq: int | None = None  #: its place among the messages that the host sees, from 1


async def engine_ends(
    reader: Reader, conversation_ids: Iterable[ConversationId]
) -> dict[ConversationId, EngineEnd]:
    """The ends of conversations."""
    return {one: await _end_of(reader, one) for one in dict.fromkeys(conversation_ids)}


async def began_at(reader: Reader) -> datetime | None:
    """When the engine made the first conversation of this file, UTC."""
    created = reader.schema.select("conversations", ("created_at",), "c")
    first = await reader.value(f"SELECT {created} FROM conversations AS c ORDER BY conversation_id LIMIT 1")
    return parse_utc(first)


async def _end_of(reader: Reader, conversation_id: ConversationId) -> EngineEnd:
    created = reader.schema.select("messages", ("created_at",), "m")
    newest = await reader.row(
        f"SELECT m.message_id, {created} FROM messages AS m WHERE m.conversation_id = ? "
        "ORDER BY m.seq DESC LIMIT 1",
        conversation_id,
    )
    entries: list[str] = []
    if reader.schema.has("messages", "transcript_entry_id"):
        entries += [
            row[0]
            for row in await reader.rows(
                "SELECT transcript_entry_id FROM messages WHERE conversation_id = ? "
                f"AND transcript_entry_id IS NOT NULL ORDER BY seq DESC LIMIT {_ANCHORS}",
                conversation_id,
            )
        ]
    cursor = next(iter(await cursor_rows(reader, conversation_id) or ()), None)
    turn = await _last_turn(reader, conversation_id)
    if turn is not None and turn[0] is not None:
        entries.append(turn[0])
    return EngineEnd(
        conversation_id,
        None if newest is None else MessageId(newest["message_id"]),
        None if newest is None else parse_utc(newest["created_at"]),
        frozenset(entries),
        None if turn is None else turn[1],
        None if cursor is None else cursor.frontier_entry_id,
        None if cursor is None else cursor.frontier_seq,
    )


async def _last_turn(
    reader: Reader, conversation_id: ConversationId
) -> tuple[str | None, datetime | None] | None:
    """The last entry of the newest turn that was committed, and when."""
    table = "turn_advancements"
    needed = ("session_id", "session_key", "terminal_entry_id", "committed_at")
    if not all(reader.schema.has(table, name) for name in needed):
        return None
    # By session first: a key goes on with other sessions.
    row = await reader.row(
        f"SELECT t.terminal_entry_id, t.committed_at FROM {table} AS t JOIN conversations AS c "
        "ON t.session_id = c.session_id OR t.session_key = c.session_key "
        "WHERE c.conversation_id = ? ORDER BY julianday(t.committed_at) DESC, t.rowid DESC LIMIT 1",
        conversation_id,
    )
    return None if row is None else (row["terminal_entry_id"], parse_utc(row["committed_at"]))
