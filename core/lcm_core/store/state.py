"""What the engine notes beside a conversation: telemetry, maintenance debt, progress in the transcript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lcm_core.records import ConversationId, Timestamp
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.moments import moment_key, stored_form

#: A row of a state table by column, without the conversation's id; columns of other versions are absent.
StateRow = Mapping[str, SqlValue]

TELEMETRY = "conversation_compaction_telemetry"
MAINTENANCE = "conversation_compaction_maintenance"
BOOTSTRAP = "conversation_bootstrap_state"

#: Columns of the three tables, as the engine lists them (docs/format.md, "Tables").
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    TELEMETRY: (
        "last_observed_cache_read",
        "last_observed_cache_write",
        "last_observed_prompt_token_count",
        "last_observed_cache_hit_at",
        "last_observed_cache_break_at",
        "cache_state",
        "consecutive_cold_observations",
        "retention",
        "last_leaf_compaction_at",
        "turns_since_leaf_compaction",
        "tokens_accumulated_since_leaf_compaction",
        "last_activity_band",
        "last_api_call_at",
        "last_cache_touch_at",
        "provider",
        "model",
        "updated_at",
    ),
    MAINTENANCE: (
        "pending",
        "requested_at",
        "reason",
        "running",
        "last_started_at",
        "last_finished_at",
        "last_failure_summary",
        "token_budget",
        "current_token_count",
        "projected_token_count",
        "raw_tokens_outside_tail",
        "context_threshold",
        "context_threshold_source",
        "context_fresh_tail_count",
        "context_leaf_chunk_tokens",
        "retry_attempts",
        "next_attempt_after",
        "resolution_reason",
        "resolved_at",
        "maintenance_revision",
        "updated_at",
    ),
    BOOTSTRAP: (
        "session_file_path",
        "last_seen_size",
        "last_seen_mtime_ms",
        "last_processed_offset",
        "last_processed_entry_hash",
        "session_header_id",
        "last_processed_entry_id",
        "fork_bounded",
        "fork_source_message_count",
        "updated_at",
        "soft_reset_pruned_at",  # which the engine's own command leaves out
    ),
}


@dataclass(frozen=True, slots=True)
class FileTotals:
    """The large files of a conversation."""

    count: int
    bytes: int  #: of those whose size is recorded
    latest: Timestamp | None


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The engine's own notes on one conversation; None where there is no row."""

    telemetry: StateRow | None
    maintenance: StateRow | None
    bootstrap: StateRow | None
    files: FileTotals


async def state_of(reader: Reader, conversation_id: ConversationId) -> ConversationState:
    """Everything that the engine notes beside a conversation."""
    return ConversationState(
        await _row(reader, TELEMETRY, conversation_id),
        await _row(reader, MAINTENANCE, conversation_id),
        await _row(reader, BOOTSTRAP, conversation_id),
        await _files(reader, conversation_id),
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
    latest = stored_form(row["latest"])
    return FileTotals(row["count"], row["bytes"], None if latest is None else Timestamp(latest))
