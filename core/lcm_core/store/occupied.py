"""What a conversation holds already, for rows that are copied or moved into it. Mostly index look-ups."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lcm_core.records import ConversationId, Timestamp
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow

#: Columns of ``messages`` that hold a value once in a conversation (docs/format.md, "Indexes").
ONCE = ("transcript_entry_id", "stable_event_key")


@dataclass(frozen=True, slots=True)
class SeqBounds:
    """The first and the last message of a conversation by seq."""

    first: int
    last: int
    first_at: Timestamp
    last_at: Timestamp


async def seq_bounds(reader: Reader, conversation_id: ConversationId) -> SeqBounds | None:
    """Where the messages of a conversation begin and end; None when it has none."""
    ends = []
    for order in ("ASC", "DESC"):
        row = await reader.row(
            f"""SELECT m.seq, {reader.schema.select("messages", ("created_at",), "m")} FROM messages AS m
            WHERE m.conversation_id = ? ORDER BY m.seq {order} LIMIT 1""",
            conversation_id,
        )
        if row is None:
            return None
        ends.append((int(row["seq"]), Timestamp(row["created_at"] or "")))
    (first, first_at), (last, last_at) = ends
    return SeqBounds(first, last, first_at, last_at)


async def taken(
    reader: Reader, conversation_id: ConversationId, column: str, values: Iterable[str]
) -> frozenset[str]:
    """Which of some values of one of the columns `ONCE` a conversation's messages hold."""
    if column not in ONCE:
        raise ValueError(f"{column} may stand more than once in a conversation")
    if not reader.schema.has("messages", column):
        return frozenset()
    rows = await reader.rows_in(
        f"SELECT {column} FROM messages WHERE conversation_id = ? AND {column} IN (?*)",
        values,
        conversation_id,
    )
    return frozenset(row[0] for row in rows)


async def messages_of_times(
    reader: Reader, conversation_id: ConversationId, times: Collection[str]
) -> list[StoredRow]:
    """Id, role, text and time of the messages of a conversation that bear one of some stored times."""
    if not reader.schema.has("messages", "created_at"):
        return []
    rows = await reader.rows(
        "SELECT message_id, created_at FROM messages WHERE conversation_id = ? ORDER BY seq", conversation_id
    )
    wanted = [row["message_id"] for row in rows if row["created_at"] in times]
    found = await reader.rows_in(
        "SELECT message_id, role, content, created_at FROM messages WHERE message_id IN (?*)", wanted
    )
    return [dict(row) for row in found]


async def active_briefs(reader: Reader, conversation_id: ConversationId) -> tuple[str, ...]:
    """The focus briefs that stand over a context, newest first; the engine uses the first.

    Source: docs/engine/assembly.md, "What is sent".
    """
    if not reader.schema.has("focus_briefs"):
        return ()
    rows = await reader.rows(
        """SELECT brief_id FROM focus_briefs
        WHERE conversation_id = ? AND status = 'active' AND trim(content) <> ''
        ORDER BY julianday(created_at) DESC, rowid DESC""",
        conversation_id,
    )
    return tuple(row["brief_id"] for row in rows)
