"""Which conversations hold the sessions of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lcm_core.records import ConversationId
from lcm_core.store.database import Reader


async def session_owners(reader: Reader, session_ids: Iterable[str]) -> Mapping[str, ConversationId]:
    """The conversation of each session that has one: the active one of its id, else the newest."""
    order = "active, " if reader.schema.has("conversations", "active") else ""
    rows = await reader.rows_in(
        f"SELECT session_id, conversation_id FROM conversations WHERE session_id IN (?*) "
        f"ORDER BY {order}conversation_id",
        session_ids,
    )
    return {row["session_id"]: ConversationId(row["conversation_id"]) for row in rows}


async def key_owners(reader: Reader, session_keys: Iterable[str]) -> Mapping[str, ConversationId]:
    """The conversation of each session key that has one: the active one, else the newest."""
    if not reader.schema.has("conversations", "session_key"):
        return {}
    order = "active, " if reader.schema.has("conversations", "active") else ""
    rows = await reader.rows_in(
        f"SELECT session_key, conversation_id FROM conversations WHERE session_key IN (?*) "
        f"ORDER BY {order}conversation_id",
        session_keys,
    )
    return {row["session_key"]: ConversationId(row["conversation_id"]) for row in rows}
