"""What the engine notes beside a conversation: telemetry, maintenance debt, its place in the transcript, and
what the 1.x engine has prepared of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from lcm_core.base.records import ConversationId, Timestamp
from lcm_core.base.text import counted
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, field
from lcm_core.engine.rules import engine_rules
from lcm_core.engine.wrapper import CacheTelemetry
from lcm_core.store.conversations import moment_key, stored_form
from lcm_core.store.database import Reader
from lcm_core.store.opening import Rows, SqlValue
from lcm_core.store.rows import StoredRow, of_conversation, records, rows_by
from lcm_core.store.schema import Columns, Schema, number, text

#: A row of a state table by column, without the conversation's id; columns of other versions are absent.
StateRow = Mapping[str, SqlValue]

TELEMETRY = "conversation_compaction_telemetry"
MAINTENANCE = "conversation_compaction_maintenance"
BOOTSTRAP = "conversation_bootstrap_state"
#: What the engine notes of the host's transcript since it reads it by a cursor: how far, what it saw of each
#: user's entry, and what it never stored (docs/spec/cursors.md).
CURSORS: Final = "conversation_transcript_cursors"
REPLAY_KEYS: Final = "transcript_user_replay_keys"
GAPS: Final = "conversation_transcript_gaps"
#: The column of MAINTENANCE that grows by one with every write but the first.
REVISION: Final = "maintenance_revision"

#: Columns that the engine's command leaves out.
NOT_PRINTED: Final = frozenset(
    (
        *("soft_reset_pruned_at", "context_fresh_tail_count", "context_leaf_chunk_tokens"),
        *("resolution_reason", "resolved_at", REVISION),
    )
)
#: Columns of these tables in the order in which the engine's command prints them; those that it leaves
#: out stand last (docs/spec/command.md, "Commands").
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    TELEMETRY: (
        *("last_observed_cache_read", "last_observed_cache_write", "last_observed_prompt_token_count"),
        *("last_observed_cache_hit_at", "last_observed_cache_break_at", "cache_state"),
        *("consecutive_cold_observations", "retention", "last_leaf_compaction_at"),
        *("turns_since_leaf_compaction", "tokens_accumulated_since_leaf_compaction", "last_activity_band"),
        *("last_api_call_at", "last_cache_touch_at", "provider", "model", "updated_at"),
    ),
    MAINTENANCE: (
        *("pending", "requested_at", "reason", "running", "last_started_at", "last_finished_at"),
        *("last_failure_summary", "token_budget", "current_token_count", "projected_token_count"),
        *("raw_tokens_outside_tail", "context_threshold", "context_threshold_source", "retry_attempts"),
        *("next_attempt_after", "updated_at", "context_fresh_tail_count", "context_leaf_chunk_tokens"),
        *("resolution_reason", "resolved_at", REVISION),
    ),
    BOOTSTRAP: (
        *("session_file_path", "last_seen_size", "last_seen_mtime_ms", "last_processed_offset"),
        *("last_processed_entry_hash", "session_header_id", "last_processed_entry_id", "fork_bounded"),
        *("fork_source_message_count", "updated_at", "soft_reset_pruned_at"),
    ),
    CURSORS: (
        *("mode", "cursor", "frontier_entry_id", "frontier_seq", "origin", "created_at", "updated_at"),
    ),
}


class FileTotals(Record, frozen=True):
    """The large files of a conversation."""

    count: int
    bytes: int  #: of those whose size is recorded
    latest: Timestamp | None = field(name="latestAt")


class EngineState(Record, frozen=True):
    """The engine's own notes on one conversation; None where there is no row."""

    telemetry: StateRow | None
    maintenance: StateRow | None
    bootstrap: StateRow | None
    files: FileTotals
    cursor: StateRow | None = None


def keeps_checkpoints(schema: Schema) -> bool:
    """Whether the engine of a file notes in `BOOTSTRAP` how far it has read a transcript.

    The 1.x line does not; rows in an upgraded file are dead (docs/spec/versions.md, "Features").
    """
    return schema.has(BOOTSTRAP) and engine_rules(schema).is_migrated


async def fork_source(reader: Reader, conversation_id: ConversationId) -> int | None:
    """How many messages the transcript of a bounded fork had when it was first read; None: it is none."""
    if not reader.schema.has(BOOTSTRAP, "fork_bounded"):
        return None
    count = reader.schema.select(BOOTSTRAP, ("fork_source_message_count",), "b")
    row = await reader.row(
        f"SELECT b.fork_bounded, {count} FROM {BOOTSTRAP} AS b WHERE b.conversation_id = ?", conversation_id
    )
    if row is None or row["fork_bounded"] != 1:
        return None
    found = row["fork_source_message_count"]
    return found if isinstance(found, int) and found > 0 else 0


async def engine_state(reader: Reader, conversation_id: ConversationId) -> EngineState:
    """Everything that the engine notes beside a conversation."""
    return EngineState(
        await _row(reader, TELEMETRY, conversation_id),
        await _row(reader, MAINTENANCE, conversation_id),
        await _row(reader, BOOTSTRAP, conversation_id),
        await _files(reader, conversation_id),
        await _row(reader, CURSORS, conversation_id),
    )


async def _row(reader: Reader, table: str, conversation_id: ConversationId) -> StateRow | None:
    columns = [name for name in _COLUMNS[table] if reader.schema.has(table, name)]
    if not columns:
        return None
    row = await reader.row(
        f"SELECT {', '.join(columns)} FROM {table} WHERE conversation_id = ?", conversation_id
    )
    return None if row is None else dict(zip(columns, row, strict=True))


async def _files(reader: Reader, conversation_id: ConversationId) -> FileTotals:
    if not reader.schema.has("large_files"):
        return FileTotals(0, 0, None)
    row = await reader.row(
        f"""SELECT count(*) AS count, CAST(total(byte_size) AS INTEGER) AS bytes,
        max({moment_key("created_at")}) AS latest FROM large_files WHERE conversation_id = ?""",
        conversation_id,
    )
    if row is None:
        return FileTotals(0, 0, None)
    return FileTotals(row["count"], row["bytes"], stored_form(row["latest"]))


async def pending_debt(reader: Reader, conversation_id: ConversationId) -> int | None:
    """The tokens that the engine foresaw when it noted that compaction is due; 0 where it foresaw none.

    None when no such debt is pending (or can be noted: before 0.9.0).
    """
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if row.get("pending"):
            foreseen = row.get("projected_token_count")
            return foreseen if isinstance(foreseen, int) else 0
    return None


_TELEMETRY: Final = Columns(
    TELEMETRY,
    CacheTelemetry,
    state="cache_state",
    cache_read="last_observed_cache_read",
    cache_write="last_observed_cache_write",
    hit_at="last_observed_cache_hit_at",
    break_at="last_observed_cache_break_at",
    touch_at="last_cache_touch_at",
    call_at="last_api_call_at",
)


async def cache_telemetry(reader: Reader, conversation_id: ConversationId) -> CacheTelemetry | None:
    """What the engine noted of the provider's prompt cache; None where nothing is noted (before 0.7.0)."""
    found = await records(reader, _TELEMETRY, "WHERE t.conversation_id = ?", conversation_id)
    return found[0] if found else None


async def transcripts(reader: Reader, conversation_id: ConversationId | None = None) -> list[tuple[int, str]]:
    """Conversations, or one, and the session file that the engine recorded for each; none in old versions."""
    if not reader.schema.has(BOOTSTRAP, "session_file_path"):
        return []
    condition, keys = of_conversation("conversation_id", conversation_id)
    rows = await reader.rows(
        f"SELECT conversation_id, session_file_path FROM {BOOTSTRAP} WHERE {condition}", *keys
    )
    return [(row[0], str(row[1])) for row in rows if row[1]]


# -- prepared work -------------------------------------------------------------------------------------

#: A batch is planned, its nodes (hidden summaries) are made one by one, then it is published or dropped.
#: Until then no message or summary that its rows refer to may be deleted (docs/spec/prepared.md).
PREPARED_BATCHES: Final = "pending_compaction_batches"
PREPARED_NODES: Final = "pending_summary_nodes"
PREPARED_NODE_MESSAGES: Final = "pending_summary_node_messages"
PREPARED_NODE_CHILDREN: Final = "pending_summary_node_children"
#: All tables of prepared work.
PREPARED_TABLES: Final = frozenset(
    {PREPARED_BATCHES, PREPARED_NODES, PREPARED_NODE_MESSAGES, PREPARED_NODE_CHILDREN}
)
#: What a batch is called once nobody works on it any more; a word that we do not know counts as active.
ENDED_BATCHES: Final = frozenset({"published", "stale", "failed"})


class PreparedBatch(Record, frozen=True):
    """One batch with all rows that belong to it."""

    batch_id: str
    conversation_id: int
    status: str
    rows: tuple[tuple[str, StoredRow], ...]  #: by table, each row before every row that it refers to
    archived: bool  #: its conversation has ended: the engine claims none of its nodes and publishes nothing

    @property
    def active(self) -> bool:
        """Whether the engine has not ended it."""
        return self.status not in ENDED_BATCHES

    @property
    def lease_end(self) -> datetime | None:
        """The end of its last lease: until then a worker may write the text of a node, then it is dead."""
        leases = (parse_utc(text(row.get("lease_expires_at"))) for _, row in self.rows)
        return max((one for one in leases if one is not None), default=None)


class ActiveBatch(Record, frozen=True):
    """What the engine prepares now, and what is ready of it; ordinals of the context, both included."""

    batch_id: str
    conversation_id: int
    planned_at: str | None  #: when it was planned, or moved with the context for the last time
    start: int
    end: int
    ready: int  #: summaries whose text waits
    open: int  #: summaries that are not part of the conversation yet
    tokens: int  #: of the texts that wait

    @property
    def worth(self) -> str:
        """What is lost with it, in words."""
        if not self.ready:
            return "nothing of it is written yet, and the engine plans it again"
        return (
            f"{self.ready:,} of {counted(self.open, 'summary', 'summaries')} "
            f"({counted(self.tokens, 'token')}) are ready; the engine prepares them again, and you pay for "
            "them again"
        )


def active_batches(
    db: Rows, schema: Schema, conversation_id: ConversationId | None = None
) -> list[ActiveBatch]:
    """What the engine prepares in a conversation, or in all (None), by conversation, oldest first."""
    if not (schema.has(PREPARED_BATCHES, "status") and schema.has(PREPARED_NODES, "status")):
        return []
    ended = ", ".join(f"'{status}'" for status in sorted(ENDED_BATCHES))
    only, keys = of_conversation("b.conversation_id", conversation_id)
    when = "b.updated_at" if schema.has(PREPARED_BATCHES, "updated_at") else "NULL"
    rows = db.tuples(
        f"""SELECT b.batch_id, b.conversation_id, {when},
        b.compactable_start_ordinal, b.compactable_end_ordinal,
        sum(n.status = 'ready'), sum(n.status <> 'promoted'),
        total(CASE n.status WHEN 'ready' THEN n.token_count END)
        FROM {PREPARED_BATCHES} AS b LEFT JOIN {PREPARED_NODES} AS n ON n.batch_id = b.batch_id
        WHERE b.status NOT IN ({ended}) AND {only} GROUP BY b.batch_id
        ORDER BY b.conversation_id, b.created_at, b.batch_id""",
        keys,
    )
    return [
        ActiveBatch(str(name), owner, text(when), start, end, *(number(one) or 0 for one in counts))
        for name, owner, when, start, end, *counts in rows
        if all(isinstance(one, int) for one in (owner, start, end))
    ]


async def batches_of(reader: Reader, conversation_id: int) -> list[PreparedBatch]:
    """The batches of a conversation, oldest first; none before 1.x."""
    rows = await rows_by(reader, PREPARED_BATCHES, "conversation_id", [conversation_id])
    return [await _whole(reader, row) for row in rows]


async def batches_naming(reader: Reader, summaries: Iterable[str]) -> list[PreparedBatch]:
    """The batches with a node that is made from one of some summaries, or that became one of them."""
    wanted = list(summaries)
    children = await rows_by(reader, PREPARED_NODE_CHILDREN, "child_summary_id", wanted)
    nodes = [
        *await rows_by(reader, PREPARED_NODES, "node_id", [row["node_id"] for row in children]),
        *await rows_by(reader, PREPARED_NODES, "canonical_summary_id", wanted),
    ]
    ids = dict.fromkeys(row["batch_id"] for row in nodes)
    return [await _whole(reader, row) for row in await rows_by(reader, PREPARED_BATCHES, "batch_id", ids)]


async def _whole(reader: Reader, batch: StoredRow) -> PreparedBatch:
    nodes = await rows_by(reader, PREPARED_NODES, "batch_id", [batch["batch_id"]])
    found: list[tuple[str, StoredRow]] = []
    for table in (PREPARED_NODE_MESSAGES, PREPARED_NODE_CHILDREN):
        lines = await rows_by(reader, table, "node_id", [row["node_id"] for row in nodes])
        found += ((table, row) for row in lines)
    found += ((PREPARED_NODES, row) for row in nodes)
    found.append((PREPARED_BATCHES, batch))
    owner = batch["conversation_id"]
    ended = [row.get("active") for row in await rows_by(reader, "conversations", "conversation_id", [owner])]
    return PreparedBatch(
        str(batch["batch_id"]),
        owner if isinstance(owner, int) else -1,
        str(batch["status"]),
        tuple(found),
        ended == [0],
    )
