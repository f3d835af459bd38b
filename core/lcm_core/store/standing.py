"""A whole context with what compaction needs to know of each item, and what a chunk of it is made from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias, cast

from lcm_core.records import ConversationId, Message, MessageId, MessagePart
from lcm_core.store import messages as message_store
from lcm_core.store.connecting import Row
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow
from lcm_core.store.typed import NO_MESSAGE

#: An item of a context: ordinal, message id, summary id; then, of what it stands for, the conversation (None
#: where that row is gone), the stored estimate, whether a user said it (1 or 0), the depth of a summary, all
#: 0 where there is none, and of a user's row the sender as the host recorded it. Tuples as SQLite gives them:
#: of 46,000 every object that is not made is felt.
StandingRow: TypeAlias = tuple[int, int | None, str | None, int | None, int, int, int, str | None]


async def standing_rows(reader: Reader, conversation_id: ConversationId) -> list[StandingRow]:
    """Every item of a context by ordinal, in one statement."""
    if not reader.schema.has("context_items"):
        return []
    depth = "CAST(s.depth AS INTEGER)" if reader.schema.has("summaries", "depth") else "0"
    has_sender = reader.schema.has("messages", "openclaw_sender_metadata")
    sender = "CASE m.role WHEN 'user' THEN CAST(m.openclaw_sender_metadata AS TEXT) END"
    rows = await reader.tuples(
        f"""SELECT CASE typeof(c.ordinal) WHEN 'integer' THEN c.ordinal ELSE -1 END,
        CASE typeof(c.message_id) WHEN 'integer' THEN c.message_id WHEN 'null' THEN NULL
            ELSE {NO_MESSAGE} END,
        CAST(c.summary_id AS TEXT),
        coalesce(s.conversation_id, m.conversation_id),
        CAST(coalesce(s.token_count, m.token_count, 0) AS INTEGER), ifnull(m.role = 'user', 0),
        ifnull({depth}, 0), {sender if has_sender else "NULL"}
        FROM context_items AS c
        LEFT JOIN messages AS m ON m.message_id = c.message_id
        LEFT JOIN summaries AS s ON s.summary_id = c.summary_id
        WHERE c.conversation_id = ? ORDER BY c.ordinal""",
        conversation_id,
    )
    return cast(list[StandingRow], rows)


async def contents_of(reader: Reader, message_ids: Sequence[MessageId]) -> dict[MessageId, str]:
    """What some messages say, whole."""
    rows = await reader.rows_in(
        "SELECT message_id, CAST(content AS TEXT) AS content FROM messages WHERE message_id IN (?*)",
        message_ids,
    )
    return {MessageId(row["message_id"]): row["content"] or "" for row in rows}


async def standing_refs(
    reader: Reader, conversation_id: ConversationId
) -> list[tuple[int, int | str | None]]:
    """Ordinal of every item and what it stands for, without a look at messages or summaries."""
    if not reader.schema.has("context_items"):
        return []
    rows = await reader.rows(
        "SELECT ordinal, message_id, summary_id FROM context_items WHERE conversation_id = ? "
        "ORDER BY ordinal",
        conversation_id,
    )
    return [(ordinal, summary_id or message_id) for ordinal, message_id, summary_id in rows]


async def context_rows(
    reader: Reader, conversation_id: ConversationId, first: int, last: int
) -> list[StoredRow]:
    """The whole rows of a context from one ordinal to another, both included."""
    rows = await reader.stored(
        "SELECT * FROM context_items WHERE conversation_id = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal",
        conversation_id,
        first,
        last,
    )
    return [dict(row) for row in rows]


async def whole_messages(
    reader: Reader, message_ids: Sequence[MessageId]
) -> list[tuple[Message, tuple[MessagePart, ...]]]:
    """Some messages with their parts, texts whole, in the order asked; those that are gone are left out."""
    columns = reader.schema.select("messages", (*message_store.COLUMNS, "content"), "m")
    rows = await reader.rows_in(
        f"SELECT {columns} FROM messages AS m WHERE m.message_id IN (?*)", message_ids
    )
    parts = await message_store.parts_of(reader, [row["message_id"] for row in rows])
    if len(rows) < message_store.MANY:
        return _put_together(message_ids, rows, parts)
    return await asyncio.to_thread(_put_together, message_ids, rows, parts)


def _put_together(
    message_ids: Sequence[MessageId], rows: Sequence[Row], parts: Sequence[MessagePart]
) -> list[tuple[Message, tuple[MessagePart, ...]]]:
    found = {one.message_id: one for one in map(message_store.whole_message_of, rows)}
    parts_of: dict[MessageId, list[MessagePart]] = {}
    for part in parts:
        parts_of.setdefault(part.message_id, []).append(part)
    return [(found[one], tuple(parts_of.get(one, ()))) for one in message_ids if one in found]
