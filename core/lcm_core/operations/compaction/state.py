"""What the engine notes beside a conversation, brought in step with a compaction.

Source: docs/engine/compaction.md, "What is noted beside a conversation".

Rows that are there are updated; none is made: an engine that has not noted anything has nothing to correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lcm_core.change.plan import Cell, Cells, Plan, RowChange
from lcm_core.engine_rules import CompactionRules
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.state import MAINTENANCE, TELEMETRY
from lcm_core.times import iso_z, sql_utc


async def plan_state(
    reader: Reader,
    conversation_id: ConversationId,
    rules: CompactionRules,
    tokens: int,
    *,
    now: datetime,
    leaves: bool,
    batch: str | None = None,
) -> Plan:
    """What is to be noted after passes that left *tokens* in the context; empty when nothing is.

    Telemetry counts from here when *leaves* were made. A debt that is pending, and that nobody works on, is
    paid when the context is at or below its threshold; else its counts are corrected.
    """
    edits: list[RowChange] = []
    if leaves:
        edits += [
            _update(TELEMETRY, row, _telemetry(now))
            for row in await rows_by(reader, TELEMETRY, "conversation_id", [conversation_id])
        ]
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if row.get("pending") and not row.get("running"):
            edits.append(_update(MAINTENANCE, row, _debt(row, rules, tokens, now)))
    return Plan(
        kind="compact",
        title="Note the compaction beside the conversation",
        conversation_id=conversation_id,
        edits=tuple(edit for edit in edits if edit.row.columns),
        batch=batch,
    )


def _telemetry(now: datetime) -> Mapping[str, Cell]:
    return {
        "last_leaf_compaction_at": iso_z(now),
        "turns_since_leaf_compaction": 0,
        "tokens_accumulated_since_leaf_compaction": 0,
        "updated_at": sql_utc(now),
    }


def _debt(row: StoredRow, rules: CompactionRules, tokens: int, now: datetime) -> Mapping[str, Cell]:
    revision = row.get("maintenance_revision")
    changed: dict[str, Cell] = {
        "current_token_count": tokens,
        "projected_token_count": tokens,
        "maintenance_revision": revision + 1 if isinstance(revision, int) else revision,
        "updated_at": sql_utc(now),
    }
    if tokens <= _threshold(row, rules):
        changed |= {
            "pending": 0,
            "last_finished_at": iso_z(now),
            "last_failure_summary": None,
            "retry_attempts": 0,
            "next_attempt_after": None,
        }
    return changed


def _threshold(row: StoredRow, rules: CompactionRules) -> int:
    """Tokens above which the debt was made, by what it recorded."""
    budget, share = row.get("token_budget"), row.get("context_threshold")
    if not isinstance(budget, int):
        return -1
    return int(budget * (share if isinstance(share, float | int) else rules.context_threshold))


def _update(table: str, row: StoredRow, wanted: Mapping[str, Cell]) -> RowChange:
    """The columns that this file has and that differ."""
    after = {name: value for name, value in wanted.items() if name in row and row[name] != value}
    return RowChange(
        table,
        Cells.of({"conversation_id": row["conversation_id"]}),
        Cells.of({name: row[name] for name in after}),
        Cells.of(after),
    )
