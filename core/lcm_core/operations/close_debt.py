"""Closing compaction debt that no engine will ever work off (docs/engine/prepared.md, "Closing debt")."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lcm_core.change.plan import Cell, Plan
from lcm_core.errors import RefusedError
from lcm_core.operations.rows import update
from lcm_core.records import ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.rows import rows_by
from lcm_core.store.state import MAINTENANCE, REVISION
from lcm_core.times import iso_z, sql_utc

#: What the engine notes when an operator closes debt; it writes no other reason.
RESOLUTION: Final = "operator-ignored"
#: What is in the name of the backup that is made before.
LABEL: Final = "before-close-debt"


async def plan_close_debt(
    reader: Reader, conversation_id: ConversationId, *, now: datetime | None = None
) -> Plan:
    """Mark the debt of a conversation that is not active as closed; nothing is compacted.

    The plan holds the revision that was read, so whatever the engine notes meanwhile makes it stale.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: it is active, it owes nothing, or this version of the engine records no closing.
    """
    conversation = await get_conversation(reader, conversation_id)
    if not reader.schema.has(MAINTENANCE, "resolution_reason"):
        raise RefusedError(
            "The engine that wrote this database cannot record that a debt is closed (columns "
            "resolution_reason "
            "and maintenance_revision are missing). Nothing was changed."
        )
    if conversation.active is not False:
        raise RefusedError(
            f"Conversation {conversation_id} is active: its host pays the debt, or `lcm-tui compact` does. "
            "Only the debt of an ended conversation can be closed. Nothing was changed."
        )
    rows = [
        row
        for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id])
        if row.get("pending")
    ]
    if not rows:
        raise RefusedError(f"Conversation {conversation_id} has no compaction debt. Nothing was changed.")
    moment = now or datetime.now(UTC)
    [row] = rows
    revision = row.get(REVISION)
    closed: dict[str, Cell] = {
        "pending": 0,
        "running": 0,
        "resolution_reason": RESOLUTION,
        "resolved_at": iso_z(moment),
        REVISION: revision + 1 if isinstance(revision, int) else 1,
        "updated_at": sql_utc(moment),
    }
    return Plan(
        kind="close-debt",
        title=f"Close the compaction debt of conversation {conversation_id}",
        conversation_id=conversation_id,
        edits=(update(MAINTENANCE, row, closed),),
        warnings=("Nothing is compacted: only the debt record is closed, and new debt opens it again",),
    )
