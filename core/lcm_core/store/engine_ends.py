"""Where the engine's copy of a session ends (docs/host.md, "Is it ingesting?")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lcm_core.records import ConversationId, MessageId
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import cursor_rows
from lcm_core.times import parse_utc

#: Newest messages by whose entries the end is looked for in the host's transcript.
_ANCHORS: Final = 64


@dataclass(frozen=True, slots=True)
class EngineEnd:
    """The end of a conversation, as the engine has stored it."""

    conversation_id: ConversationId
    message_id: MessageId | None  #: the newest; None without messages
    at: datetime | None  #: when that was said, UTC, to the second
    entries: frozenset[str]  #: entries of the host that the newest messages and the last turn were made from
    committed_at: datetime | None  #: when the last turn was committed; None where turns are not recorded
    frontier: str | None = None  #: the entry up to which a cursor follows the transcript; None: none does
    frontier_seq: int | None = None  #: its place among the messages that the host sees, from 1


async def engine_ends(
    reader: Reader, conversation_ids: Iterable[ConversationId]
) -> dict[ConversationId, EngineEnd]:
    """The ends of conversations."""
    return {one: await _end_of(reader, one) for one in dict.fromkeys(conversation_ids)}


async def began_at(reader: Reader) -> datetime | None:
    """When the engine made the first conversation of this file, UTC."""
    created = reader.schema.select("conversations", ("created_at",), "c")
    first = await reader.value(f"SELECT {created} FROM conversations AS c ORDER BY conversation_id LIMIT 1")
    return parse_utc(first)


async def _end_of(reader: Reader, conversation_id: ConversationId) -> EngineEnd:
    created = reader.schema.select("messages", ("created_at",), "m")
    newest = await reader.row(
        f"SELECT m.message_id, {created} FROM messages AS m WHERE m.conversation_id = ? "
        "ORDER BY m.seq DESC LIMIT 1",
        conversation_id,
    )
    entries: list[str] = []
    if reader.schema.has("messages", "transcript_entry_id"):
        entries += [
            row[0]
            for row in await reader.rows(
                "SELECT transcript_entry_id FROM messages WHERE conversation_id = ? "
                f"AND transcript_entry_id IS NOT NULL ORDER BY seq DESC LIMIT {_ANCHORS}",
                conversation_id,
            )
        ]
    cursor = next(iter(await cursor_rows(reader, conversation_id) or ()), None)
    turn = await _last_turn(reader, conversation_id)
    if turn is not None and turn[0] is not None:
        entries.append(turn[0])
    return EngineEnd(
        conversation_id,
        None if newest is None else MessageId(newest["message_id"]),
        None if newest is None else parse_utc(newest["created_at"]),
        frozenset(entries),
        None if turn is None else turn[1],
        None if cursor is None else cursor.frontier_entry_id,
        None if cursor is None else cursor.frontier_seq,
    )


async def _last_turn(
    reader: Reader, conversation_id: ConversationId
) -> tuple[str | None, datetime | None] | None:
    """The last entry of the newest turn that was committed, and when."""
    table = "turn_advancements"
    needed = ("session_id", "session_key", "terminal_entry_id", "committed_at")
    if not all(reader.schema.has(table, name) for name in needed):
        return None
    # By session first: a key goes on with other sessions.
    row = await reader.row(
        f"SELECT t.terminal_entry_id, t.committed_at FROM {table} AS t JOIN conversations AS c "
        "ON t.session_id = c.session_id OR t.session_key = c.session_key "
        "WHERE c.conversation_id = ? ORDER BY julianday(t.committed_at) DESC, t.rowid DESC LIMIT 1",
        conversation_id,
    )
    return None if row is None else (row["terminal_entry_id"], parse_utc(row["committed_at"]))
