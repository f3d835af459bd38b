"""What a conversation holds already, as an import needs to know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.base.javascript import read_json
from lcm_core.base.records import ConversationId, MessageId, SummaryId
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row
from lcm_core.store.rows import StoredRow, ids_taken, rows_by
from lcm_core.store.state import BOOTSTRAP, PREPARED_NODE_MESSAGES, keeps_checkpoints


class TailMessage(Record, frozen=True):
    """One of the newest messages of a conversation, to be recognised in a transcript."""

    role: str
    content: str
    created_at: str
    entry_id: str | None  #: recorded since 0.13.0


class Holding(Record, frozen=True):
    """A conversation into which messages are imported."""

    row: StoredRow  #: of ``conversations``
    last_seq: int  #: 0 without messages
    messages: int
    checkpoint: StoredRow | None  #: of ``conversation_bootstrap_state``, where the engine reads that

    @property
    def conversation_id(self) -> ConversationId:
        """The conversation's id."""
        return ConversationId(int(str(self.row["conversation_id"])))


class RowText(Record, frozen=True):
    """A row of ``messages`` as it is compared with an entry of a transcript."""

    message_id: int
    seq: int
    role: str
    content: str
    created_at: str
    entry_id: str | None  #: recorded since 0.13.0
    sender: str | None  #: recorded since 0.15


async def find_holding(reader: Reader, session_id: str, session_key: str | None) -> Holding | None:
    """The conversation of a session: the active one of its key, else the newest of its id."""
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
    return None if found is None else await _holding_of(reader, ConversationId(found))


async def _holding_of(reader: Reader, conversation_id: ConversationId) -> Holding:
    """What an import needs to know of a conversation that is there."""
    [row] = await rows_by(reader, "conversations", "conversation_id", [conversation_id])
    seqs = await reader.row(
        "SELECT max(seq) AS last, count(*) AS count FROM messages WHERE conversation_id = ?", conversation_id
    )
    state: list[StoredRow] = []
    if keeps_checkpoints(reader.schema):
        state = await rows_by(reader, BOOTSTRAP, "conversation_id", [conversation_id])
    last, count = (seqs["last"], seqs["count"]) if seqs is not None else (None, 0)
    return Holding(row, last or 0, count, state[0] if state else None)


async def end_of_context(
    reader: Reader, conversation_id: ConversationId
) -> list[tuple[int, MessageId | SummaryId | None]]:
    """The last item of a context with its ordinal, after those that refer to the same row: mostly none."""
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


async def next_conversation_id(reader: Reader) -> ConversationId:
    """The id that the next new conversation gets."""
    return ConversationId(await _next_id(reader, "conversations", "conversation_id"))


async def next_message_id(reader: Reader) -> int:
    """The id that the next new message gets, whoever's it is."""
    return await _next_id(reader, "messages", "message_id")


async def _next_id(reader: Reader, table: str, column: str) -> int:
    highest = await reader.value(f"SELECT max({column}) FROM {table}")
    used = await reader.value("SELECT seq FROM sqlite_sequence WHERE name = ?", table)
    return max(highest or 0, used or 0) + 1


async def key_is_taken(reader: Reader, session_key: str) -> bool:
    """Whether an active conversation has this key: no other one may then.

    Source: docs/spec/format.md, "conversations".
    """
    if not reader.schema.has("conversations", "session_key"):
        return False
    active = "AND active = 1" if reader.schema.has("conversations", "active") else ""
    row = await reader.row(f"SELECT 1 FROM conversations WHERE session_key = ? {active} LIMIT 1", session_key)
    return row is not None


async def known_entry_ids(reader: Reader, conversation_id: ConversationId) -> frozenset[str]:
    """The transcript entries that are stored; from the index alone."""
    rows = await reader.rows(
        """SELECT transcript_entry_id FROM messages
        WHERE conversation_id = ? AND transcript_entry_id IS NOT NULL""",
        conversation_id,
    )
    return frozenset(row[0] for row in rows)


async def holds_reasoning(reader: Reader, message_id: int) -> bool:
    """Whether a message has a part of reasoning, or says beside its content what it thought."""
    rows = await reader.rows("SELECT part_type, metadata FROM message_parts WHERE message_id = ?", message_id)
    return any(row[0] == "reasoning" or _is_reasoned_metadata(row[1]) for row in rows)


def _is_reasoned_metadata(text: object) -> bool:
    """Whether the metadata of a part holds what a message thought beside its content."""
    if not isinstance(text, str) or "topLevelReasoningContent" not in text:
        return False
    try:
        noted = read_json(text)
    except ValueError:
        return False
    said = noted.get("topLevelReasoningContent") if isinstance(noted, dict) else None
    return isinstance(said, str) and bool(said)


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


async def without_row(reader: Reader, file_ids: list[str]) -> frozenset[str]:
    """Those of some files that no row of ``large_files`` names."""
    return frozenset(file_ids) - await ids_taken(reader, "large_files", "file_id", file_ids)


_ROW_TEXT: Final = ("transcript_entry_id", "openclaw_sender_metadata")


async def _row_texts(reader: Reader, clause: str, *parameters: object) -> list[RowText]:
    return [_row_text(row) for row in await reader.rows(f"{_select_texts(reader)} {clause}", *parameters)]


def _select_texts(reader: Reader) -> str:
    more = reader.schema.select("messages", _ROW_TEXT, "m")
    return f"SELECT m.message_id, m.seq, m.role, m.content, m.created_at, {more} FROM messages AS m"


def _row_text(row: Row) -> RowText:
    return RowText(
        row["message_id"],
        row["seq"],
        str(row["role"] or ""),
        str(row["content"] or ""),
        str(row["created_at"] or ""),
        row["transcript_entry_id"],
        row["openclaw_sender_metadata"],
    )


async def newest_row(reader: Reader, conversation_id: ConversationId) -> RowText | None:
    """The newest message of a conversation."""
    found = await _row_texts(
        reader, "WHERE m.conversation_id = ? ORDER BY m.seq DESC LIMIT 1", conversation_id
    )
    return found[0] if found else None


async def newest_rows(reader: Reader, conversation_id: ConversationId, count: int) -> list[RowText]:
    """The newest *count* messages of a conversation, oldest first."""
    clause = "WHERE m.conversation_id = ? ORDER BY m.seq DESC LIMIT ?"
    return (await _row_texts(reader, clause, conversation_id, count))[::-1]


async def recent_without_entry(reader: Reader, conversation_id: ConversationId, count: int) -> list[RowText]:
    """Those of the newest *count* messages that no entry of a transcript is known for."""
    rows = await newest_rows(reader, conversation_id, count)
    return [row for row in rows if row.entry_id is None]


async def rows_of_hash(
    reader: Reader, conversation_id: ConversationId, hashes: Sequence[str]
) -> list[RowText]:
    """The messages that have one of some identity hashes, by seq."""
    rows = await reader.rows_in(
        f"{_select_texts(reader)} WHERE m.conversation_id = ? AND m.identity_hash IN (?*)",
        list(dict.fromkeys(hashes)),
        conversation_id,
    )
    return sorted(map(_row_text, rows), key=lambda row: row.seq)


async def text_counts(reader: Reader, conversation_id: ConversationId) -> dict[tuple[str, str], int]:
    """How many messages have a role and text."""
    rows = await reader.rows(
        """SELECT role, content, count(*) FROM messages WHERE conversation_id = ?
        GROUP BY role, content""",
        conversation_id,
    )
    return {(str(row[0] or ""), str(row[1] or "")): row[2] for row in rows}


class StoredParts(Record, frozen=True):
    """A message with the metadata of its parts."""

    role: str
    identity: str | None
    metadata: tuple[str | None, ...]  #: by ordinal


class TimedText(Record, frozen=True):
    """What somebody said at a time."""

    role: str
    content: str
    created_at: str


async def messages_with_parts(
    reader: Reader, conversation_id: ConversationId, hashes: Sequence[str]
) -> list[StoredParts]:
    """The messages that have one of some identity hashes, with their parts."""
    return await _with_parts(reader, "m.identity_hash IN (?*)", conversation_id, hashes)


async def answers_to(
    reader: Reader, conversation_id: ConversationId, calls: Sequence[str]
) -> list[StoredParts]:
    """The messages of tools that answer one of some calls, with their parts."""
    clause = """m.role = 'tool' AND m.message_id IN (
        SELECT c.message_id FROM message_parts AS c WHERE c.message_id = m.message_id
        AND c.tool_call_id IN (?*))"""
    return await _with_parts(reader, clause, conversation_id, calls)


async def _with_parts(
    reader: Reader, clause: str, conversation_id: ConversationId, keys: Sequence[str]
) -> list[StoredParts]:
    identity = reader.schema.select("messages", ("identity_hash",), "m")
    rows = await reader.rows_in(
        f"""SELECT m.message_id, m.role, {identity}, p.metadata FROM messages AS m
        JOIN message_parts AS p ON p.message_id = m.message_id
        WHERE m.conversation_id = ? AND {clause} ORDER BY m.seq, p.ordinal""",
        list(dict.fromkeys(keys)),
        conversation_id,
    )
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return [
        StoredParts(held[0]["role"], held[0]["identity_hash"], tuple(one["metadata"] for one in held))
        for held in found.values()
    ]


async def earlier_texts(
    reader: Reader, conversation_id: ConversationId, hashes: Sequence[str]
) -> dict[tuple[str, str], str]:
    """The first time at which each text with one of some identity hashes was said."""
    rows = await reader.rows_in(
        """SELECT role, content, min(created_at) FROM messages
        WHERE conversation_id = ? AND identity_hash IN (?*) GROUP BY role, content""",
        list(dict.fromkeys(hashes)),
        conversation_id,
    )
    return {(row[0], row[1]): str(row[2] or "") for row in rows}


async def rows_in_second(
    reader: Reader, conversation_id: ConversationId, seconds: Sequence[str]
) -> list[TimedText]:
    """The messages of a conversation that have one of some times."""
    rows = await reader.rows_in(
        "SELECT role, content, created_at FROM messages WHERE conversation_id = ? AND created_at IN (?*)",
        seconds,
        conversation_id,
    )
    return [TimedText(row[0], str(row[1] or ""), row[2]) for row in rows]


async def stored_paths(reader: Reader, file_ids: Sequence[str]) -> list[str]:
    """Where some files are, in the order of their ids; those without a row are left out."""
    rows = await reader.rows_in(
        "SELECT file_id, storage_uri FROM large_files WHERE file_id IN (?*)", file_ids
    )
    paths = {row[0]: str(row[1] or "") for row in rows}
    return [paths[file_id] for file_id in file_ids if file_id in paths]


async def finished_heartbeats(reader: Reader, conversation_id: ConversationId, after: int) -> list[RowText]:
    """Answers behind the seq *after* that may be an acknowledgement of the host's timer."""
    clause = """WHERE m.conversation_id = ? AND m.seq > ? AND m.role = 'assistant'
        AND length(m.content) < 64 AND m.content LIKE '%heartbeat_ok%' ORDER BY m.seq"""
    return await _row_texts(reader, clause, conversation_id, after)


async def turn_before(reader: Reader, conversation_id: ConversationId, seq: int) -> list[RowText]:
    """The messages from the last user's one before *seq* up to it; none when no user said anything."""
    clause = """WHERE m.conversation_id = ? AND m.seq <= ? AND m.seq >= (
        SELECT max(u.seq) FROM messages AS u
        WHERE u.conversation_id = ? AND u.seq <= ? AND u.role = 'user') ORDER BY m.seq"""
    return await _row_texts(reader, clause, *(conversation_id, seq) * 2)


async def summarised_among(reader: Reader, message_ids: Sequence[int]) -> frozenset[int]:
    """Those of some messages that a summary was made from, or is being prepared from: they cannot go."""
    made = await ids_taken(reader, "summary_messages", "message_id", message_ids)
    return made | await ids_taken(reader, PREPARED_NODE_MESSAGES, "message_id", message_ids)
