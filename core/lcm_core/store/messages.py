"""Messages: pages by seq in both directions, their parts and large files, and which summary covers them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import (
    ConversationId,
    LargeFile,
    Message,
    MessageId,
    MessagePart,
    SummaryId,
    Timestamp,
)
from lcm_core.base.text import fold, sought_as
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.opening import Row, Rows, as_text, contains_pattern, may_hold
from lcm_core.store.rows import of_conversation, records, records_in
from lcm_core.store.schema import Columns, Schema, place

MESSAGES: Final = Columns("messages", Message, tokens="token_count", sender="openclaw_sender_metadata")
PARTS: Final = Columns("message_parts", MessagePart, text="text_content")
#: Characters of a text that a list reads; a whole message is read when it is opened.
HEAD = 2_000
#: Likewise of a part's metadata, which holds the host's block and may be cut: what was read of it still shows
#: ids and names.
METADATA_HEAD = 16_000
#: From so many rows on records are made in a thread, so that no key press waits for them.
MANY = 200
#: Where the text of a part is; what is only in the host's block is searched there.
SEARCHED = ("text_content", "tool_name", "tool_input", "tool_output", "tool_error", "file_name")
#: Texts of parts that a list reads up to `HEAD`.
_LONG: Final = (
    *("text_content", "tool_input", "tool_output", "tool_error", "file_name", "file_mime", "file_url"),
)
#: Messages whose texts are folded at a time.
_MOST_FOLDED = 64


class MessageEntry(Record, frozen=True):
    """A message as a line of a list, with what is shown beside it.

    In a list, texts of the message and its parts are cut after `HEAD` characters.
    """

    message: Message
    parts: tuple[MessagePart, ...]
    covered_by: tuple[SummaryId, ...]  #: leaves made from it
    in_context: bool
    complete: bool  #: whether the texts are whole; `get_message` reads what was cut


class ContextMessage(Record, frozen=True):
    """A raw message in a context: what the rule of the fresh tail needs to know of it."""

    message_id: MessageId
    ordinal: int
    role: str
    tokens: int

    @property
    def is_message(self) -> bool:
        """Always true; the rule takes mixed items as well."""
        return True


class MessagePage(Record, frozen=True):
    """A run of messages in order of seq, and whether there are more before and after it."""

    entries: tuple[MessageEntry, ...]
    has_older: bool
    has_newer: bool


def _whole_message_of(row: Row) -> Message:
    """A row of `MESSAGES` as a record: by place, where many are read."""
    message_id, conversation_id, seq, role, content, tokens, created_at, *others = row
    return Message(
        *(message_id, conversation_id, seq or 0, role or "", content or "", tokens or 0),
        *(created_at or Timestamp(""), *others),
    )


def _part_of(row: Row) -> MessagePart:
    """A row of `PARTS` as a record: by place, where many are read."""
    message_id, ordinal, part_type, *others = row
    return MessagePart(message_id, ordinal or 0, part_type or "", *others)


async def newest_page(reader: Reader, conversation_id: ConversationId, limit: int) -> MessagePage:
    """The last *limit* messages by seq."""
    return await _page(reader, conversation_id, limit, None, newest=True)


async def oldest_page(reader: Reader, conversation_id: ConversationId, limit: int) -> MessagePage:
    """The first *limit* messages by seq."""
    return await _page(reader, conversation_id, limit, None, newest=False)


async def page_before(reader: Reader, conversation_id: ConversationId, seq: int, limit: int) -> MessagePage:
    """The *limit* messages that come before *seq*."""
    return await _page(reader, conversation_id, limit, seq, newest=True)


async def page_from(reader: Reader, conversation_id: ConversationId, seq: int, limit: int) -> MessagePage:
    """The *limit* messages from *seq* on (*seq* itself first, when there is one)."""
    return await _page(reader, conversation_id, limit, seq, newest=False)


async def page_around(reader: Reader, conversation_id: ConversationId, seq: int, limit: int) -> MessagePage:
    """About *limit* messages with *seq* in the middle."""
    older = await page_before(reader, conversation_id, seq, limit // 2)
    newer = await page_from(reader, conversation_id, seq, limit - limit // 2)
    return MessagePage(older.entries + newer.entries, older.has_older, newer.has_newer)


async def get_message(reader: Reader, message_id: int) -> MessageEntry:
    """One message, whole, with its parts.

    Raises:
        NotFoundError: no message has this id.
    """
    found = await records(reader, MESSAGES, "WHERE t.message_id = ?", message_id)
    if not found:
        raise NotFoundError(f"No message matched id {message_id}.", code="MESSAGE_NOT_FOUND")
    [entry] = await message_entries(reader, found[:1], head=None)
    return entry


async def message_entries(
    reader: Reader, messages: Sequence[Message], *, head: int | None = HEAD
) -> list[MessageEntry]:
    """Put their parts, coverage and place in the context beside some messages."""
    ids = [message.message_id for message in messages]
    parts: dict[MessageId, list[MessagePart]] = {}
    for part in await message_parts(reader, ids, head=head):
        parts.setdefault(part.message_id, []).append(part)
    covered: dict[MessageId, list[SummaryId]] = {}
    if reader.schema.has("summary_messages"):
        for row in await reader.rows_in(
            "SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (?*)", ids
        ):
            covered.setdefault(row["message_id"], []).append(row["summary_id"])
    shown = await _in_context(reader, messages)
    return [
        MessageEntry(
            message,
            tuple(parts.get(message.message_id, ())),
            tuple(covered.get(message.message_id, ())),
            message.message_id in shown,
            complete=head is None or not _was_cut(message, parts.get(message.message_id, ()), head),
        )
        for message in messages
    ]


def _was_cut(message: Message, parts: Iterable[MessagePart], head: int) -> bool:
    """Whether a text reaches the length that a list reads; a few that end just there are taken for cut."""
    return len(message.content) >= head or any(
        len(part.metadata or "") >= METADATA_HEAD
        or any(
            len(text or "") >= head
            for text in (part.text, part.tool_input, part.tool_output, part.tool_error, part.file_url)
        )
        for part in parts
    )


async def message_parts(
    reader: Reader, message_ids: Sequence[MessageId], *, head: int | None = None
) -> list[MessagePart]:
    """The parts of some messages, by message and ordinal; texts cut after *head* characters."""
    if not reader.schema.has("message_parts"):
        return []
    lengths = {} if head is None else {**dict.fromkeys(_LONG, head), "metadata": METADATA_HEAD}
    heads = {name: f"substr(p.{name}, 1, {length})" for name, length in lengths.items()}
    columns = PARTS.select(reader.schema, "p", part_id="ifnull(p.part_id, '')", **heads)
    rows = await reader.rows_in(
        f"SELECT {columns} FROM message_parts AS p WHERE p.message_id IN (?*)", message_ids
    )
    if len(rows) < MANY:
        return _sorted_parts(rows)
    return await reader.run(lambda _: _sorted_parts(rows))


def _sorted_parts(rows: Iterable[Row]) -> list[MessagePart]:
    return sorted(map(_part_of, rows), key=attrgetter("message_id", "ordinal"))


async def seq_of_message(reader: Reader, conversation_id: ConversationId, message_id: int) -> int | None:
    """The seq of a message of this conversation, None when it has no such message."""
    found: int | None = await reader.value(
        "SELECT seq FROM messages WHERE message_id = ? AND conversation_id = ?", message_id, conversation_id
    )
    return found


async def newest_seqs(
    reader: Reader, conversation_id: ConversationId, after: int | None, limit: int
) -> list[int]:
    """The newest *limit* seqs behind *after*, in order; the newest alone when nothing is known."""
    rows = await reader.rows(
        "SELECT seq FROM messages WHERE conversation_id = ? AND seq > ? ORDER BY seq DESC LIMIT ?",
        conversation_id,
        -1 if after is None else after,
        1 if after is None else limit,
    )
    return [row["seq"] for row in reversed(rows)]


async def seq_at_time(reader: Reader, conversation_id: ConversationId, when: str) -> int | None:
    """The seq of the first message at or after *when* (either stored format), by bisection over seq.

    Times grow with seq wherever the engine wrote them; where they do not, the answer is near, not exact.
    """
    wanted = parse_utc(when)
    if wanted is None:
        return None
    bounds = await reader.row(
        "SELECT min(seq) AS first, max(seq) AS last FROM messages WHERE conversation_id = ?", conversation_id
    )
    if bounds is None or bounds["first"] is None:
        return None
    low, high = place(bounds["first"]), place(bounds["last"])
    while low < high:
        middle = (low + high) // 2
        row = await reader.row(
            """SELECT seq, created_at FROM messages
            WHERE conversation_id = ? AND seq >= ? ORDER BY seq LIMIT 1""",
            conversation_id,
            middle,
        )
        at = None if row is None else parse_utc(row["created_at"])
        if row is None or at is None or at >= wanted or row["seq"] < middle:
            high = middle
        else:
            low = row["seq"] + 1
    return int(low)


async def find_text(
    reader: Reader, conversation_id: ConversationId, needle: str, *, start: int, forward: bool
) -> int | None:
    """The seq of the nearest message after (or before) *start* whose text or parts hold *needle*.

    Any spelling of it is found (docs/spec/searching.md, "Spellings").
    """
    return await reader.run(
        _nearest_with, reader.schema, conversation_id, sought_as(needle), start=start, forward=forward
    )


def _nearest_with(
    db: Rows, schema: Schema, conversation_id: ConversationId, sought: str, *, start: int, forward: bool
) -> int | None:
    compare, order = (">", "ASC") if forward else ("<", "DESC")
    parts = _texts_of_parts(schema)
    conditions = [may_hold("m.content"), *([_of_a_part(parts)] if parts else [])]
    where = " OR ".join(conditions).replace("?", "(SELECT pattern FROM wanted)")
    count, at = 1, start
    while True:
        rows = db.tuples(
            f"""WITH wanted(pattern) AS (SELECT ?)
            SELECT m.seq, m.message_id, m.content FROM messages AS m
            WHERE m.conversation_id = ? AND m.seq {compare} ? AND ({where})
            ORDER BY m.seq {order} LIMIT {count}""",
            (contains_pattern(sought), conversation_id, at),
        )
        said = _said_by_parts(db, parts, [message_id for _, message_id, _ in rows])
        for seq, message_id, content in rows:
            if any(sought in fold(as_text(text)) for text in (content, *said.get(message_id, ()))):
                found: int = seq
                return found
        if len(rows) < count:
            return None
        count, at = min(2 * count, _MOST_FOLDED), rows[-1][0]


def _texts_of_parts(schema: Schema) -> list[str]:
    """What a search looks at of a part, in SQL: its columns, and its block where they do not record it."""
    if not schema.has("message_parts"):
        return []
    found = [f"p.{name}" for name in SEARCHED if schema.has("message_parts", name)]
    if schema.has("message_parts", "metadata"):
        unrecorded = [f"{name} IS NULL" for name in found if name in ("p.text_content", "p.tool_input")]
        block = "substr(p.metadata, nullif(instr(p.metadata, '\"raw\":'), 0))"
        found.append(f"CASE WHEN {' AND '.join(unrecorded)} THEN {block} END" if unrecorded else block)
    return found


def _of_a_part(texts: Sequence[str]) -> str:
    holds = " OR ".join(map(may_hold, texts))
    return f"EXISTS (SELECT 1 FROM message_parts AS p WHERE p.message_id = m.message_id AND ({holds}))"


def _said_by_parts(
    db: Rows, texts: Sequence[str], messages: Sequence[MessageId]
) -> dict[MessageId, list[object]]:
    if not texts:
        return {}
    said: dict[MessageId, list[object]] = {}
    named = ", ".join(f"{text} AS said{number}" for number, text in enumerate(texts))
    sql = f"SELECT p.message_id, {named} FROM message_parts AS p WHERE p.message_id IN (?*)"
    for message_id, *values in map(tuple, db.rows_in(sql, messages)):
        said.setdefault(message_id, []).extend(value for value in values if value is not None)
    return said


async def _page(
    reader: Reader, conversation_id: ConversationId, limit: int, bound: int | None, *, newest: bool
) -> MessagePage:
    """The *newest* messages before *bound*, or the oldest from it on; one more row shows if more follow."""
    rows = await reader.rows(
        f"""SELECT {MESSAGES.select(reader.schema, "m", content=f"substr(m.content, 1, {HEAD})")}
        FROM messages AS m WHERE m.conversation_id = ?
        {"" if bound is None else f"AND m.seq {'<' if newest else '>='} ?"}
        ORDER BY m.seq {"DESC" if newest else "ASC"} LIMIT ?""",
        conversation_id,
        *(() if bound is None else (bound,)),
        limit + 1,
    )
    more = len(rows) > limit
    messages = [MESSAGES.record(row) for row in rows[:limit]]
    if newest:
        messages.reverse()
    entries = tuple(await message_entries(reader, messages))
    behind = bound is not None and bool(
        await reader.value(
            f"""SELECT EXISTS (SELECT 1 FROM messages
            WHERE conversation_id = ? AND seq {">=" if newest else "<"} ?)""",
            conversation_id,
            bound,
        )
    )
    return MessagePage(entries, more, behind) if newest else MessagePage(entries, behind, more)


async def _in_context(reader: Reader, messages: Sequence[Message]) -> frozenset[MessageId]:
    """Which of these messages are in the context of their conversation.

    ``context_items.message_id`` has no index, so the conversation's own items are walked: ids only.
    """
    if not messages or not reader.schema.has("context_items"):
        return frozenset()
    ids = [message.message_id for message in messages]
    rows = await reader.rows(
        "SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id BETWEEN ? AND ?",
        messages[0].conversation_id,
        min(ids),
        max(ids),
    )
    return frozenset(row["message_id"] for row in rows)


async def context_messages(
    reader: Reader, conversation_ids: Iterable[ConversationId]
) -> dict[ConversationId, list[ContextMessage]]:
    """The raw messages of some contexts whose rows are there, by ordinal."""
    found: dict[ConversationId, list[ContextMessage]] = {key: [] for key in conversation_ids}
    if not reader.schema.has("context_items"):
        return found
    message = "FROM messages AS m WHERE m.message_id = c.message_id"
    # Looked up, not joined: so SQLite does it in what is laid over the tables, too (docs/spec/past.md).
    for owner, message_id, ordinal, role, tokens in await reader.rows_in(
        f"""SELECT c.conversation_id, c.message_id, c.ordinal,
        (SELECT CAST(m.role AS TEXT) {message}) AS role,
        (SELECT ifnull(CAST(m.token_count AS INTEGER), 0) {message}) AS tokens FROM context_items AS c
        WHERE c.conversation_id IN (?*) AND c.summary_id IS NULL ORDER BY c.conversation_id, c.ordinal""",
        list(found),
    ):
        if tokens is not None:
            found[owner].append(ContextMessage(message_id, ordinal, role or "", tokens))
    return found


async def message_ids(
    reader: Reader, conversation_id: ConversationId, first: MessageId | None = None, limit: int = -1
) -> list[MessageId]:
    """The messages of a conversation in their order, whatever their seq is; at most *limit*, or all.

    *first*: from this message on, and none if it is not of this conversation; None: from the beginning.
    """
    place = "(SELECT seq, message_id FROM messages WHERE conversation_id = ? AND message_id = ?)"
    rows = await reader.rows(
        f"""SELECT message_id FROM messages WHERE conversation_id = ?
        {"" if first is None else f"AND (seq, message_id) >= {place}"} ORDER BY seq, message_id LIMIT ?""",
        *((conversation_id,) if first is None else (conversation_id, conversation_id, first)),
        limit,
    )
    return [MessageId(row["message_id"]) for row in rows]


async def message_before_end(reader: Reader, conversation_id: ConversationId, count: int) -> MessageId | None:
    """The message from which on a conversation has *count* of them; None when it has fewer."""
    found: MessageId | None = await reader.value(
        """SELECT message_id FROM messages WHERE conversation_id = ?
        ORDER BY seq DESC, message_id DESC LIMIT 1 OFFSET ?""",
        conversation_id,
        count - 1,
    )
    return found


async def whole_messages(
    reader: Reader, message_ids: Sequence[MessageId]
) -> list[tuple[Message, tuple[MessagePart, ...]]]:
    """Some messages with their parts, texts whole, in the order asked; those that are gone are left out."""
    columns = MESSAGES.select(reader.schema, "m")
    rows = await reader.rows_in(
        f"SELECT {columns} FROM messages AS m WHERE m.message_id IN (?*)", message_ids
    )
    parts = await message_parts(reader, [row["message_id"] for row in rows])
    if len(rows) < MANY:
        return _put_together(message_ids, rows, parts)
    return await reader.run(lambda _: _put_together(message_ids, rows, parts))


def _put_together(
    message_ids: Sequence[MessageId], rows: Sequence[Row], parts: Sequence[MessagePart]
) -> list[tuple[Message, tuple[MessagePart, ...]]]:
    found = {one.message_id: one for one in map(_whole_message_of, rows)}
    by_message: dict[MessageId, list[MessagePart]] = {}
    for part in parts:
        by_message.setdefault(part.message_id, []).append(part)
    return [(found[one], tuple(by_message.get(one, ()))) for one in message_ids if one in found]


async def contents_of(reader: Reader, message_ids: Sequence[MessageId]) -> dict[MessageId, str]:
    """What some messages say, whole."""
    rows = await reader.rows_in(
        "SELECT message_id, CAST(content AS TEXT) AS content FROM messages WHERE message_id IN (?*)",
        message_ids,
    )
    return {MessageId(row["message_id"]): row["content"] or "" for row in rows}


#: A message's id and role, and of one of its parts the type, tool call id and metadata.
RowOfTool = tuple[int, str, str | None, str | None, str | None]


async def tool_rows(reader: Reader, message_ids: Sequence[MessageId]) -> list[RowOfTool]:
    """Some messages with what their parts say of tools, part by part; one without parts is there once."""
    if not reader.schema.has("message_parts", "tool_call_id"):
        return []
    rows = await reader.rows_in(
        """SELECT m.message_id, CAST(m.role AS TEXT), CAST(p.part_type AS TEXT), CAST(p.tool_call_id AS TEXT),
        CASE WHEN p.tool_call_id IS NULL THEN CAST(p.metadata AS TEXT) END
        FROM messages AS m LEFT JOIN message_parts AS p ON p.message_id = m.message_id
        WHERE m.message_id IN (?*) ORDER BY m.message_id, p.ordinal""",
        message_ids,
    )
    return [(key, role or "", *part) for key, role, *part in rows]


class UncalledPart(Record, frozen=True):
    """A part that may be of a tool and has no tool call id in its column."""

    part_id: str
    role: str  #: of its message
    part_type: str
    metadata: str | None


async def parts_without_call(reader: Reader, conversation_id: ConversationId) -> list[UncalledPart]:
    """The parts of tools in a conversation whose column for the tool call id is empty."""
    if not reader.schema.has("message_parts", "tool_call_id"):
        return []
    rows = await reader.rows(
        """SELECT p.part_id, CAST(m.role AS TEXT) AS role, CAST(p.part_type AS TEXT) AS part_type,
        CAST(p.metadata AS TEXT) AS metadata
        FROM messages AS m CROSS JOIN message_parts AS p ON p.message_id = m.message_id
        WHERE m.conversation_id = ? AND p.tool_call_id IS NULL AND p.part_id IS NOT NULL
        AND (p.part_type IN ('tool', 'agent') OR m.role = 'tool')""",
        conversation_id,
    )
    return [
        UncalledPart(row["part_id"], row["role"] or "", row["part_type"] or "", row["metadata"])
        for row in rows
    ]


# -- large files -----------------------------------------------------------------------------------------
# Payloads that the engine took out of messages, and what refers to them. No file is opened.

FILES: Final = Columns("large_files", LargeFile)


class FileReferences(Record, frozen=True):
    """What refers to a file, as far as it is cheap to know."""

    messages: tuple[MessageId, ...]  #: in the order of the conversation
    summaries: tuple[SummaryId, ...]  #: in the order in which they were made


async def list_files(
    reader: Reader, conversation_id: ConversationId | None = None, *, newest: int | None = None
) -> list[LargeFile]:
    """The files of one conversation, or of all, in the order in which they were stored.

    *newest*: only so many of them, those that were stored last.
    """
    condition, keys = of_conversation("t.conversation_id", conversation_id)
    clause = f"WHERE {condition} ORDER BY t.rowid DESC LIMIT ?"
    return (await records(reader, FILES, clause, *keys, -1 if newest is None else newest))[::-1]


async def get_file(reader: Reader, file_id: str) -> LargeFile:
    """One file by its id, letter case aside, as references write it (docs/spec/format.md, "Identifiers").

    Raises:
        NotFoundError: no file has this id.
    """
    found = await records(reader, FILES, "WHERE t.file_id IN (?, ?)", file_id, file_id.lower())
    if not found:
        raise NotFoundError(
            f"No file matched id {file_id}; list those that are there with: lcm-tui files.",
            code="FILE_NOT_FOUND",
            details={"fileId": file_id},
        )
    return found[0]


async def references_to(reader: Reader, file: LargeFile) -> FileReferences:
    """What refers to a file in its conversation.

    Looks at the file ids that summaries carry and at the messages below them or in the context: a message
    that is in neither place is not found, for that would take reading every message.
    """
    naming = await _summaries_naming(reader, file)
    large = "OR m.large_content = ?" if reader.schema.has("messages", "large_content") else ""
    holds = f"SELECT m.message_id, m.seq FROM messages AS m WHERE (instr(m.content, ?) > 0 {large})"
    wanted = (file.file_id, *((file.file_id,) if large else ()), file.conversation_id)
    rows: list[Row] = []
    if reader.schema.has("summary_messages"):
        rows += await reader.rows_in(
            f"""{holds} AND m.conversation_id = ? AND m.message_id IN (
            SELECT message_id FROM summary_messages WHERE summary_id IN (?*))""",
            naming,
            *wanted,
        )
    if reader.schema.has("context_items"):
        rows += await reader.rows(
            f"""{holds} AND m.conversation_id = ? AND m.message_id IN (
            SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL)""",
            *wanted,
            file.conversation_id,
        )
    found = {row["message_id"]: row["seq"] for row in rows}
    return FileReferences(tuple(MessageId(one) for one in sorted(found, key=found.__getitem__)), naming)


async def _summaries_naming(reader: Reader, file: LargeFile) -> tuple[SummaryId, ...]:
    if not reader.schema.has("summaries", "file_ids"):
        return ()
    rows = await reader.rows(
        """SELECT summary_id FROM summaries
        WHERE conversation_id = ? AND instr(file_ids, ?) > 0 ORDER BY rowid""",
        file.conversation_id,
        f'"{file.file_id}"',
    )
    return tuple(SummaryId(row["summary_id"]) for row in rows)


async def files_by_id(reader: Reader, file_ids: Sequence[str]) -> dict[str, LargeFile]:
    """Some files by their id; those without a row are left out."""
    return {one.file_id: one for one in await records_in(reader, FILES, "file_id", file_ids)}


def new_file_id() -> str:
    """``file_`` and 16 random hexadecimal digits."""
    return f"file_{secrets.token_hex(8)}"
