"""Columns of parts that are made again from their metadata."""

from __future__ import annotations

from collections.abc import Mapping

from lcm_core.change.plan import Edit, SqlValue
from lcm_core.checks.messages import tool_part
from lcm_core.operations.fix.rows import updates
from lcm_core.operations.fix.wishes import Chosen
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.mending import parts_without_call


async def filled_tool_columns(reader: Reader, owner: ConversationId, chosen: Chosen) -> list[Edit]:
    """The tool call ids that only metadata holds, into their column; a column that holds something stays."""
    wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
    for part in await parts_without_call(reader, owner):
        tool = tool_part(part.role, part.part_type, None, part.metadata)
        if tool is not None and part.part_id in chosen:
            wanted[part.part_id] = {"tool_call_id": tool.call_id}
    return await updates(reader, "message_parts", "part_id", wanted)
