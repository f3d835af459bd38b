"""Sessions that have several conversations, and which rows belong to one. Ids and counts, no texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lcm_core.records import Conversation, ConversationId, MessageId, Timestamp
from lcm_core.store.conversations import COLUMNS, conversation_of, count_rows
from lcm_core.store.database import Reader
from lcm_core.store.occupied import ONCE, seq_bounds


@dataclass(frozen=True, slots=True)
class Member:
    """One conversation of a session, with what it holds."""

    conversation: Conversation
    messages: int
    summaries: int
    context_items: int
    first_at: Timestamp | None  #: of its messages by seq
    last_at: Timestamp | None

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.messages or self.summaries or self.context_items)


def records_archiving(reader: Reader) -> bool:
    """Whether this version knows archived conversations of a session at all (0.6 on)."""
    return reader.schema.has("conversations", "session_key") and reader.schema.has("conversations", "active")


async def families(reader: Reader) -> Mapping[str, Sequence[Member]]:
    """The sessions with more than one conversation by their key, each one's conversations by id."""
    if not records_archiving(reader):
        return {}
    rows = await reader.rows(
        f"""SELECT {reader.schema.select("conversations", COLUMNS, "c")} FROM conversations AS c
        WHERE c.session_key IN (SELECT session_key FROM conversations WHERE session_key IS NOT NULL
                                GROUP BY session_key HAVING count(*) > 1)
        ORDER BY c.conversation_id"""
    )
    found: dict[str, list[Member]] = {}
    for row in rows:
        member = await _member(reader, conversation_of(row))
        found.setdefault(member.conversation.session_key or "", []).append(member)
    return found


async def _member(reader: Reader, conversation: Conversation) -> Member:
    [counts] = await count_rows(reader, [conversation.conversation_id])
    bounds = await seq_bounds(reader, conversation.conversation_id)
    return Member(
        conversation,
        counts.messages,
        sum(one.count for one in counts.summaries),
        counts.context_items,
        bounds.first_at if bounds else None,
        bounds.last_at if bounds else None,
    )


async def numbered(reader: Reader, conversation_id: ConversationId) -> list[tuple[MessageId, int]]:
    """The messages of a conversation with their seq, in its order."""
    rows = await reader.rows(
        "SELECT message_id, seq FROM messages WHERE conversation_id = ? ORDER BY seq", conversation_id
    )
    return [(MessageId(row[0]), int(row[1])) for row in rows]


async def held_once(
    reader: Reader, conversation_id: ConversationId, column: str
) -> list[tuple[MessageId, str]]:
    """The values of one of the columns `ONCE` in a conversation, with whose they are."""
    if column not in ONCE or not reader.schema.has("messages", column):
        return []
    rows = await reader.rows(
        f"SELECT message_id, {column} FROM messages WHERE conversation_id = ? AND {column} IS NOT NULL",
        conversation_id,
    )
    return [(MessageId(row[0]), str(row[1])) for row in rows]
