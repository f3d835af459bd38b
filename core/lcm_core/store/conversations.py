"""Conversations: the list, what is cheap to know about each, and how their stored times compare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, Timestamp
from lcm_core.base.text import BLANKS, as_typed
from lcm_core.base.times import sort_key
from lcm_core.base.values import Record, field
from lcm_core.store.database import Reader
from lcm_core.store.rows import of_conversation, records, row_counts, sum_of
from lcm_core.store.schema import Columns

CONVERSATIONS: Final = Columns("conversations", Conversation)


class ConversationEntry(Record, frozen=True):
    """A conversation as a line of the list."""

    conversation: Conversation
    last_activity: Timestamp | None  #: time of the message with the highest seq; None without messages


class DepthCount(Record, frozen=True):
    """How many summaries there are of one kind and depth."""

    kind: str
    depth: int
    count: int
    tokens: int = 0  #: sum of the stored estimates, where that was asked for


class ConversationCounts(Record, frozen=True):
    """What indexes alone show of a conversation."""

    conversation_id: ConversationId
    messages: int
    context_items: int
    summaries: tuple[DepthCount, ...]  #: by depth, leaves first

    @property
    def summary_count(self) -> int:
        """Of every depth."""
        return sum(found.count for found in self.summaries)


async def list_conversations(
    reader: Reader, ids: Collection[ConversationId] | None = None
) -> list[ConversationEntry]:
    """Every conversation, archived ones too, newest activity first; *ids*: of these only.

    One look-up per conversation finds its newest message by seq; nothing is scanned.
    """
    created = reader.schema.select("messages", ("created_at",), "m")
    listing = f"""
        SELECT {CONVERSATIONS.select(reader.schema, "c")},
               (SELECT {created} FROM messages AS m WHERE m.conversation_id = c.conversation_id
                ORDER BY m.seq DESC LIMIT 1) AS last_activity
        FROM conversations AS c"""
    if ids is None:
        rows = await reader.rows(listing)
    else:
        rows = await reader.rows_in(f"{listing} WHERE c.conversation_id IN (?*)", ids)
    entries = [ConversationEntry(CONVERSATIONS.record(row), row["last_activity"]) for row in rows]
    return sorted(entries, key=_activity, reverse=True)


def narrowed(
    entries: Iterable[ConversationEntry], number: int | None, session_key: str | None, agent: str | None
) -> tuple[str, tuple[ConversationEntry, ...]]:
    """The entries that are of a conversation, a session and an agent, and these in words; None: of any."""
    listed = tuple(entries)
    key = session_key and as_typed(session_key, {one.conversation.session_key for one in listed})
    given = (("conversation", number), ("session", key), ("agent", agent))
    return ", ".join(f"{what} {value}" for what, value in given if value is not None), tuple(
        one
        for one in listed
        if number in (None, one.conversation.conversation_id)
        and key in (None, one.conversation.session_key)
        and agent in (None, one.conversation.agent)
    )


def _activity(entry: ConversationEntry) -> tuple[datetime, int]:
    return (
        sort_key(entry.last_activity or entry.conversation.updated_at),
        entry.conversation.conversation_id,
    )


async def get_conversation(reader: Reader, conversation_id: int) -> Conversation:
    """One conversation by its id.

    Raises:
        NotFoundError: no conversation has this id.
    """
    found = await records(reader, CONVERSATIONS, "WHERE t.conversation_id = ?", conversation_id)
    if not found:
        raise NotFoundError(
            f"No conversation matched id {conversation_id}.",
            code="CONVERSATION_NOT_FOUND",
            details={"kind": "conversationId", "value": conversation_id},
        )
    return found[0]


async def find_by_session_key(reader: Reader, session_key: str) -> Conversation:
    """The conversation that a session key means: the active one first, then the newest.

    Blanks around the key do not count, unless a conversation has it with them.
    Source: docs/spec/command.md, "Selecting and filtering".

    Raises:
        NotFoundError: no conversation has this key, or this version records no keys.
    """
    found: list[Conversation] = []
    bare = session_key.strip(BLANKS)
    if reader.schema.has("conversations", "session_key"):
        active = "t.active DESC," if reader.schema.has("conversations", "active") else ""
        order = f"t.session_key = ?1 DESC, {active} julianday(t.created_at) DESC, t.conversation_id DESC"
        clause = f"WHERE t.session_key IN (?1, ?2) ORDER BY {order} LIMIT 1"
        found = await records(reader, CONVERSATIONS, clause, session_key, bare)
    if not found:
        raise NotFoundError(
            f"No conversation matched session key {bare}.",
            code="CONVERSATION_NOT_FOUND",
            details={"kind": "sessionKey", "value": bare},
        )
    return found[0]


async def titles_with(reader: Reader, words: str) -> list[tuple[ConversationId, str]]:
    """The conversations in whose titles *words*, in small letters, stand in any case; the newest first."""
    if not reader.schema.has("conversations", "title"):
        return []
    columns = reader.schema.select("conversations", ("conversation_id", "title"), "c")
    rows = await reader.rows(
        f"SELECT {columns} FROM conversations AS c WHERE c.title <> '' ORDER BY c.conversation_id DESC"
    )
    titles = [(ConversationId(row["conversation_id"]), str(row["title"])) for row in rows]
    return [one for one in titles if words in one[1].casefold()]


async def count_rows(reader: Reader, conversation_ids: Iterable[ConversationId]) -> list[ConversationCounts]:
    """Messages, context items and summaries by depth of some conversations, in the order asked."""
    ids = list(conversation_ids)
    messages, items = [await row_counts(reader, table, ids) for table in ("messages", "context_items")]
    return [
        ConversationCounts(
            key, messages.get(key, 0), items.get(key, 0), tuple(await depth_counts(reader, key))
        )
        for key in ids
    ]


async def depth_counts(
    reader: Reader, conversation_id: ConversationId | None, *, tokens: bool = False
) -> list[DepthCount]:
    """The summaries of a conversation, or of all, by depth and kind, leaves first.

    Counts come from an index; *tokens* cost a scan.
    """
    if not reader.schema.has("summaries"):
        return []
    condition, keys = of_conversation("s.conversation_id", conversation_id)
    columns = reader.schema.select("summaries", ("kind", "depth", *(["token_count"] if tokens else [])), "s")
    rows = await reader.rows(
        f"""SELECT CAST(kind AS TEXT) AS kind, CAST(depth AS INTEGER) AS depth, count(*) AS count,
        {sum_of("token_count") if tokens else "0"} AS tokens
        FROM (SELECT {columns} FROM summaries AS s WHERE {condition})
        GROUP BY 2, 1 ORDER BY 2, 1 DESC""",
        *keys,
    )
    return [DepthCount(row["kind"] or "", row["depth"] or 0, row["count"], row["tokens"]) for row in rows]


#: Messages at the beginning of a conversation among which the first words of its user are looked for.
BEGINNING = 40
#: Characters of them that are kept.
FIRST_WORDS = 200


async def first_words(
    reader: Reader, conversation_ids: Iterable[ConversationId]
) -> dict[ConversationId, str]:
    """How the first message of the user begins, in one line; empty where none of the first messages is one.

    A person remembers a conversation by it that has neither a title nor a telling key.
    """
    found = {}
    for conversation_id in conversation_ids:
        rows = await reader.rows(
            f"""SELECT role, substr(content, 1, 2000) AS content FROM messages
            WHERE conversation_id = ? ORDER BY seq LIMIT {BEGINNING}""",
            conversation_id,
        )
        said = (" ".join((row["content"] or "").split()) for row in rows if row["role"] == "user")
        found[conversation_id] = next(filter(None, said), "")[:FIRST_WORDS]
    return found


async def first_texts(
    reader: Reader, conversation_ids: Iterable[ConversationId], length: int
) -> dict[ConversationId, str]:
    """The first *length* characters of the first message by seq; those without a message are left out."""
    found = {}
    for conversation_id in conversation_ids:
        row = await reader.row(
            """SELECT substr(CAST(content AS TEXT), 1, ?) AS content FROM messages
            WHERE conversation_id = ? ORDER BY seq, message_id LIMIT 1""",
            length,
            conversation_id,
        )
        if row is not None:
            found[conversation_id] = row["content"] or ""
    return found


# -- sessions with several conversations ---------------------------------------------------------------


class SeqBounds(Record, frozen=True):
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


class SessionMember(Record, frozen=True):
    """One conversation of a session, with what it holds."""

    conversation: Conversation
    messages: int = field(name="messageCount")
    summaries: int = field(name="summaryCount")
    context_items: int
    first_at: Timestamp | None = field(name="earliestMessageAt")  #: of its messages by seq
    last_at: Timestamp | None = field(name="latestMessageAt")

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


async def shared_sessions(reader: Reader) -> Mapping[str, Sequence[SessionMember]]:
    """The sessions with more than one conversation by their key, each one's conversations by id."""
    if not records_archiving(reader):
        return {}
    several = await records(
        reader,
        CONVERSATIONS,
        """WHERE t.session_key IN (SELECT session_key FROM conversations WHERE session_key IS NOT NULL
        GROUP BY session_key HAVING count(*) > 1) ORDER BY t.conversation_id""",
    )
    found: dict[str, list[SessionMember]] = {}
    counts = await count_rows(reader, [one.conversation_id for one in several])
    for record, count in zip(several, counts, strict=True):
        bounds = await seq_bounds(reader, record.conversation_id)
        member = SessionMember(
            record,
            count.messages,
            count.summary_count,
            count.context_items,
            bounds.first_at if bounds else None,
            bounds.last_at if bounds else None,
        )
        found.setdefault(record.session_key or "", []).append(member)
    return found


async def same_session(reader: Reader, conversation: Conversation) -> list[Conversation]:
    """All conversations of a conversation's session key, by id; itself alone without one."""
    if not conversation.session_key or not records_archiving(reader):
        return [conversation]
    clause = "WHERE t.session_key = ? ORDER BY t.conversation_id"
    return await records(reader, CONVERSATIONS, clause, conversation.session_key)


# -- stored times ----------------------------------------------------------------------------------------
# SQL fragments that compare stored times as times: the two formats of the engine sort wrongly as text.

#: What cannot be a stored time is not handed to SQLite, which would read ``now`` as the present.
_LOOKS_LIKE_A_TIME = "GLOB '[0-9][0-9][0-9][0-9]-*'"


def moment(expression: str) -> str:
    """SQL: the time that *expression* holds in days (``julianday``), 0 when it holds none.

    *expression* is repeated, so it is a column or an alias, never a parameter.
    """
    return f"CASE WHEN {expression} {_LOOKS_LIKE_A_TIME} THEN ifnull(julianday({expression}), 0) ELSE 0 END"


def moment_key(expression: str) -> str:
    """SQL: the time that *expression* holds as sortable text with the stored form behind a ``|``, else NULL.

    ``min`` and ``max`` of it find both ends in one scan, whatever formats are mixed; `stored_form` undoes it.
    """
    return (
        f"CASE WHEN {expression} {_LOOKS_LIKE_A_TIME} "
        f"THEN strftime('%Y-%m-%d %H:%M:%f', {expression}) || '|' || CAST({expression} AS TEXT) END"
    )


def stored_form(key: str | None) -> Timestamp | None:
    """The stored time behind a `moment_key`."""
    return None if key is None else Timestamp(key.partition("|")[2])
