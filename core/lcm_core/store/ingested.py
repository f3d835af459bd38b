"""What a conversation holds already, as an import needs to know it."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.records import ConversationId, MessageId, SummaryId
from lcm_core.store.database import Reader, Row
from lcm_core.store.rows import StoredRow, rows_by


@dataclass(frozen=True, slots=True)
class TailMessage:
    """One of the newest messages of a conversation, to be recognised in a transcript."""

    role: str
    content: str
    created_at: str
    entry_id: str | None  #: recorded since 0.13.0


@dataclass(frozen=True, slots=True)
class Holding:
    """A conversation into which messages are imported."""

    row: StoredRow  #: of ``conversations``
    last_seq: int  #: 0 without messages
    messages: int
    checkpoint: StoredRow | None  #: of ``conversation_bootstrap_state``


async def find_holding(reader: Reader, session_id: str, session_key: str | None) -> Holding | None:
    """The conversation of a session: the active one of its key, else the newest of its id (engine.md 6.4)."""
    found = None
    schema = reader.schema
    if session_key is not None and schema.has("conversations", "session_key"):
        active = "AND active = 1" if schema.has("conversations", "active") else ""
        found = await reader.value(
            f"""SELECT conversation_id FROM conversations WHERE session_key = ? {active}
            ORDER BY conversation_id DESC LIMIT 1""",
            session_key,
        )
    if found is None:
        active = "active DESC," if schema.has("conversations", "active") else ""
        # A conversation of another key is another lane, whatever the host calls its session.
        free = (
            "AND (session_key IS NULL OR ? IS NULL OR session_key = ?)"
            if schema.has("conversations", "session_key")
            else "AND (? IS NULL OR ? IS NOT NULL)"
        )
        found = await reader.value(
            f"""SELECT conversation_id FROM conversations WHERE session_id = ? {free}
            ORDER BY {active} conversation_id DESC LIMIT 1""",
            session_id,
            session_key,
            session_key,
        )
    return None if found is None else await holding_of(reader, ConversationId(found))


async def holding_of(reader: Reader, conversation_id: ConversationId) -> Holding:
    """What an import needs to know of a conversation that is there."""
    [row] = await rows_by(reader, "conversations", "conversation_id", [conversation_id])
    seqs = await reader.row(
        "SELECT max(seq) AS last, count(*) AS count FROM messages WHERE conversation_id = ?", conversation_id
    )
    state = await rows_by(reader, "conversation_bootstrap_state", "conversation_id", [conversation_id])
    last, count = (seqs["last"], seqs["count"]) if seqs is not None else (None, 0)
    return Holding(row, last or 0, count, state[0] if state else None)


async def end_of_context(
    reader: Reader, conversation_id: ConversationId
) -> list[tuple[int, MessageId | SummaryId | None]]:
    """The last item of a context with its ordinal, behind those that stand for the same: mostly none."""
    rows = await reader.rows(
        """SELECT CAST(ordinal AS INTEGER), ifnull(summary_id, message_id) FROM context_items
        WHERE conversation_id = ? AND ifnull(summary_id, message_id) IS (
            SELECT ifnull(summary_id, message_id) FROM context_items WHERE conversation_id = ?
            ORDER BY ordinal DESC LIMIT 1)
        ORDER BY ordinal""",
        conversation_id,
        conversation_id,
    )
    return [(row[0], row[1]) for row in rows]


async def next_conversation_id(reader: Reader) -> int:
    """The id that the next new conversation gets."""
    return await _next_id(reader, "conversations", "conversation_id")


async def next_message_id(reader: Reader) -> int:
    """The id that the next new message gets, whoever's it is."""
    return await _next_id(reader, "messages", "message_id")


async def _next_id(reader: Reader, table: str, column: str) -> int:
    highest = await reader.value(f"SELECT max({column}) FROM {table}")
    used = await reader.value("SELECT seq FROM sqlite_sequence WHERE name = ?", table)
    return max(highest or 0, used or 0) + 1


async def key_is_taken(reader: Reader, session_key: str) -> bool:
    """Whether an active conversation has this key: no other one may then (engine.md 1.4)."""
    if not reader.schema.has("conversations", "session_key"):
        return False
    active = "AND active = 1" if reader.schema.has("conversations", "active") else ""
    row = await reader.row(f"SELECT 1 FROM conversations WHERE session_key = ? {active} LIMIT 1", session_key)
    return row is not None


async def known_entry_ids(reader: Reader, conversation_id: ConversationId) -> frozenset[str]:
    """The transcript entries that are stored; from the index alone. Empty before 0.13.0."""
    if not reader.schema.has("messages", "transcript_entry_id"):
        return frozenset()
    rows = await reader.rows(
        """SELECT transcript_entry_id FROM messages
        WHERE conversation_id = ? AND transcript_entry_id IS NOT NULL""",
        conversation_id,
    )
    return frozenset(row[0] for row in rows)


async def known_among(
    reader: Reader, conversation_id: ConversationId, entry_ids: list[str]
) -> frozenset[str]:
    """Which of some transcript entries are stored. Empty before 0.13.0."""
    if not entry_ids or not reader.schema.has("messages", "transcript_entry_id"):
        return frozenset()
    rows = await reader.rows_in(
        """SELECT transcript_entry_id FROM messages
        WHERE conversation_id = ? AND transcript_entry_id IN (?*)""",
        entry_ids,
        conversation_id,
    )
    return frozenset(row[0] for row in rows)


async def known_events(
    reader: Reader, conversation_id: ConversationId, keys: list[str]
) -> dict[str, tuple[str, str]]:
    """Role and content of the messages that have some event keys; nothing before 0.15.2."""
    if not keys or not reader.schema.has("messages", "stable_event_key"):
        return {}
    rows = await reader.rows_in(
        """SELECT stable_event_key AS key, role, content FROM messages
        WHERE conversation_id = ? AND stable_event_key IN (?*)""",
        keys,
        conversation_id,
    )
    return {row["key"]: (row["role"], row["content"]) for row in rows}


async def tail_messages(reader: Reader, conversation_id: ConversationId, count: int) -> list[TailMessage]:
    """The newest *count* messages by seq, oldest first; the engine's own event messages are left out."""
    entry = reader.schema.select("messages", ("transcript_entry_id",), "m")
    rows = await reader.rows(
        f"""SELECT m.role, m.content, m.created_at, {entry} FROM messages AS m
        WHERE m.conversation_id = ? AND NOT (m.role = 'system' AND m.content LIKE 'LCM compaction %')
        ORDER BY m.seq DESC LIMIT ?""",
        conversation_id,
        count,
    )
    return [_tail(row) for row in reversed(rows)]


def _tail(row: Row) -> TailMessage:
    return TailMessage(
        row["role"] or "", row["content"] or "", row["created_at"] or "", row["transcript_entry_id"]
    )


async def same_second(
    reader: Reader, conversation_id: ConversationId, hashes: list[str]
) -> frozenset[tuple[str, str]]:
    """Identity hash and time of the messages that have some hashes; nothing before 0.9.0."""
    if not hashes or not reader.schema.has("messages", "identity_hash"):
        return frozenset()
    rows = await reader.rows_in(
        "SELECT identity_hash, created_at FROM messages WHERE conversation_id = ? AND identity_hash IN (?*)",
        hashes,
        conversation_id,
    )
    return frozenset((row[0], row[1]) for row in rows)


async def without_row(reader: Reader, file_ids: list[str]) -> frozenset[str]:
    """Those of some files that no row of ``large_files`` names."""
    rows = await reader.rows_in("SELECT file_id FROM large_files WHERE file_id IN (?*)", file_ids)
    return frozenset(file_ids) - {row[0] for row in rows}
