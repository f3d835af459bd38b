"""Counts, token sums, sizes and times of a conversation or of the whole file; and how they grew.

Every sum reads a column that is stored after the text of its row, so these cost a scan: they are for the
command line and for what is filled in after a first page, never for a key press. Ends of a time range are
compared as times (the engine's own command compares text), and a message that several summaries cover counts
once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from lcm_core.base.errors import DatabaseError
from lcm_core.base.records import Conversation, ConversationId, Timestamp
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, field, replace
from lcm_core.store.conversations import (
    DepthCount,
    depth_counts,
    list_conversations,
    moment_key,
    stored_form,
)
from lcm_core.store.database import Reader
from lcm_core.store.rows import IN_SEQ_ORDER, of_conversation, row_count, row_counts, sum_of
from lcm_core.store.schema import place
from lcm_core.store.state import MAINTENANCE
from lcm_core.store.summaries import broken_in


class Extent(Record, frozen=True):
    """How much there is of something, and of which time."""

    count: int
    tokens: int  #: sum of the stored estimates
    #: as stored; None when no row has a usable time
    earliest: Timestamp | None = field(name="earliestAt")
    latest: Timestamp | None = field(name="latestAt")


class ItemTotal(Record, frozen=True):
    """The context items of one type."""

    item_type: str
    count: int
    tokens: int


class Statistics(Record, frozen=True):
    """Everything that is counted of one conversation, or of the whole file."""

    messages: Extent
    summaries: Extent
    covered_tokens: int  #: of the messages that leaves were made from, each once
    depths: tuple[DepthCount, ...]  #: leaves first
    context: tuple[ItemTotal, ...]

    @property
    def max_depth(self) -> int | None:
        """The greatest depth of a summary; None: there is none."""
        return max((one.depth for one in self.depths), default=None)

    @property
    def context_items(self) -> int:
        """Of every type."""
        return sum(one.count for one in self.context)

    @property
    def context_tokens(self) -> int:
        """Stored estimates of all items; a dangling one counts nothing."""
        return sum(one.tokens for one in self.context)


class Maintenance(Record, frozen=True):
    """Conversations whose compaction is due, runs, or has failed; None: this version does not record it."""

    pending: int | None = None
    running: int | None = None
    failed: int | None = None


class DatabaseStatistics(Statistics, frozen=True):
    """Everything that is counted of the whole file."""

    conversations: int
    active: int | None  #: None: this version does not record it
    maintenance: Maintenance


async def statistics_of(reader: Reader, conversation_id: ConversationId | None) -> Statistics:
    """The statistics of a conversation, or of the whole file (None)."""
    return Statistics(
        await _extent(reader, "messages", ("created_at", "created_at"), conversation_id),
        await _extent(reader, "summaries", _coverage(reader), conversation_id),
        await _covered(reader, conversation_id),
        tuple(await depth_counts(reader, conversation_id, tokens=True)),
        tuple(await item_totals(reader, conversation_id)),
    )


async def database_statistics(reader: Reader) -> DatabaseStatistics:
    """The statistics of the whole file."""
    active = None
    if reader.schema.has("conversations", "active"):
        active = await reader.value("SELECT count(*) FROM conversations WHERE active = 1")
    found = await statistics_of(reader, None)
    return DatabaseStatistics(
        **{name: getattr(found, name) for name in found.__struct_fields__},
        conversations=await row_count(reader, "conversations"),
        active=active,
        maintenance=await _maintenance(reader),
    )


async def item_totals(reader: Reader, conversation_id: ConversationId | None) -> list[ItemTotal]:
    """Count and tokens of a context's summaries and messages; of all contexts (None)."""
    if not reader.schema.has("context_items"):
        return []
    made = "summaries" if reader.schema.has("summaries") else "(SELECT NULL AS summary_id, 0 AS token_count)"
    condition, keys = of_conversation("c.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT c.item_type AS item_type, count(*) AS items,
        {sum_of("coalesce(m.token_count, s.token_count)")} AS tokens
        FROM context_items AS c
        LEFT JOIN messages AS m ON m.message_id = c.message_id
        LEFT JOIN {made} AS s ON s.summary_id = c.summary_id
        WHERE {condition} GROUP BY c.item_type ORDER BY c.item_type DESC""",
        *keys,
    )
    return [ItemTotal(row["item_type"], row["items"], row["tokens"]) for row in rows]


def _coverage(reader: Reader) -> tuple[str, str]:
    """SQL: the first and last time that a summary covers, else when it was made."""
    has = reader.schema.has
    first = "coalesce(earliest_at, created_at)" if has("summaries", "earliest_at") else "created_at"
    last = "coalesce(latest_at, created_at)" if has("summaries", "latest_at") else "created_at"
    return first, last


async def _extent(
    reader: Reader, table: str, times: tuple[str, str], conversation_id: ConversationId | None
) -> Extent:
    if not reader.schema.has(table):
        return Extent(0, 0, None, None)
    if not reader.schema.has(table, "created_at"):
        times = ("NULL", "NULL")
    tokens = "token_count" if reader.schema.has(table, "token_count") else "0"
    condition, keys = of_conversation("conversation_id", conversation_id)
    order = IN_SEQ_ORDER if table == "messages" and keys else ""
    row = await reader.row(
        f"""SELECT count(*) AS count, {sum_of("tokens")} AS tokens,
        min({moment_key("first")}) AS earliest, max({moment_key("last")}) AS latest
        FROM (SELECT {tokens} AS tokens, {times[0]} AS first, {times[1]} AS last
              FROM {table} WHERE {condition} {order})""",
        *keys,
    )
    assert row is not None  # an aggregate has a row
    return Extent(row["count"], row["tokens"], stored_form(row["earliest"]), stored_form(row["latest"]))


async def _covered(reader: Reader, conversation_id: ConversationId | None) -> int:
    """Tokens of the messages that leaves were made from, each message once."""
    if not (reader.schema.has("summary_messages") and reader.schema.has("summaries")):
        return 0
    condition, keys = of_conversation("s.conversation_id", conversation_id)
    found: int = await reader.value(
        f"""SELECT {sum_of("m.token_count")} FROM messages AS m
        WHERE m.message_id IN (SELECT link.message_id FROM summaries AS s
            JOIN summary_messages AS link ON link.summary_id = s.summary_id WHERE {condition})""",
        *keys,
    )
    return found


async def _maintenance(reader: Reader) -> Maintenance:
    if not reader.schema.has(MAINTENANCE):
        return Maintenance()
    columns = reader.schema.select(MAINTENANCE, ("pending", "running", "last_failure_summary"), "t")
    [found] = await reader.rows(
        f"""SELECT count(nullif(pending, 0)), count(nullif(running, 0)), count(last_failure_summary)
        FROM (SELECT {columns} FROM {MAINTENANCE} AS t)"""
    )
    return Maintenance(*found)


# -- of one conversation, brought up to date ------------------------------------------------------------


class History(Record, frozen=True):
    """The messages of a conversation, or those behind one of them, without their times."""

    messages: int
    last_id: int  #: the largest message id; 0 without messages
    tokens: int  #: sum of the stored estimates


async def history_of(reader: Reader, conversation_id: ConversationId, after: int | None = None) -> History:
    """Add up everything that was ever said, or what has a larger id than *after*: a scan of those rows."""
    return (await _history_of(reader, conversation_id, after, "0"))[0]


async def _history_of(
    reader: Reader, conversation_id: ConversationId, after: int | None, size: str
) -> tuple[History, int]:
    """The same, and the sum of another expression of a row *t*."""
    tokens = "t.token_count" if reader.schema.has("messages", "token_count") else "0"
    # By the index of conversations what is behind an id would be looked for in all of them.
    where = "conversation_id = ?" if after is None else "+conversation_id = ? AND message_id > ?"
    row = await reader.row(
        f"""SELECT count(*) AS messages, coalesce(max(message_id), 0) AS last, {sum_of("tokens")} AS tokens,
        coalesce(sum(size), 0) AS size FROM (SELECT message_id, {tokens} AS tokens, {size} AS size
        FROM messages AS t WHERE {where} {IN_SEQ_ORDER})""",
        *((conversation_id,) if after is None else (conversation_id, after)),
    )
    assert row is not None  # an aggregate has a row
    return History(row["messages"], row["last"], row["tokens"]), row["size"]


class ConversationSums(Record, frozen=True):
    """Token sums and sizes of one conversation, and what is needed to bring them up to date."""

    conversation_id: ConversationId
    history: History
    message_bytes: int  #: of the texts of messages and their parts
    context_tokens: int  #: stored estimates of all items; a dangling one counts nothing
    broken: int  #: summaries that certainly are none (`broken_in`)
    other_bytes: int  #: of all other texts

    @property
    def message_tokens(self) -> int:
        """Of everything that was ever said."""
        return self.history.tokens

    @property
    def bytes(self) -> int:
        """Of all texts."""
        return self.message_bytes + self.other_bytes


async def sums_of(reader: Reader, conversation_id: ConversationId) -> ConversationSums:
    """Read every message and summary of the conversation: a scan."""
    return await _with_others(reader, conversation_id, *await _messages_of(reader, conversation_id))


async def sums_since(reader: Reader, known: ConversationSums, *, others: bool = True) -> ConversationSums:
    """The sums after a host appended messages: only those are read, the context, and *others* than messages.

    Messages that were changed in place are not noticed; where count or largest id do not fit, all are read.
    """
    key, before = known.conversation_id, known.history
    row = await reader.row(
        "SELECT count(*), max(message_id) FROM messages WHERE conversation_id = ?", key
    )  # from an index
    assert row is not None  # an aggregate has a row
    new, size = History(0, 0, 0), 0
    if (row[0], row[1] or 0) != (before.messages, before.last_id):
        new, size = await _messages_of(reader, key, before.last_id)
    if before.messages + new.messages != row[0] or max(before.last_id, new.last_id) != (row[1] or 0):
        return await sums_of(reader, key)
    whole = History(row[0], row[1] or 0, before.tokens + new.tokens)
    if others:
        return await _with_others(reader, key, whole, known.message_bytes + size)
    tokens = await context_tokens(reader, key)
    return replace(known, history=whole, message_bytes=known.message_bytes + size, context_tokens=tokens)


async def context_tokens(reader: Reader, conversation_id: ConversationId) -> int:
    """Stored estimates of all items of a context; a dangling one counts nothing."""
    return sum(one.tokens for one in await item_totals(reader, conversation_id))


async def _messages_of(
    reader: Reader, conversation_id: ConversationId, after: int | None = None
) -> tuple[History, int]:
    """The messages, or those behind one, and the bytes of their texts with those of their parts."""
    own = _size_of(reader, "messages")
    history, size = await _history_of(reader, conversation_id, after, own or "0")
    parts = _size_of(reader, "message_parts")
    if parts:
        behind = "" if after is None else "AND message_id > ?"
        size += await reader.value(
            f"""SELECT coalesce(sum({parts}), 0) FROM message_parts AS t WHERE t.message_id IN
            (SELECT message_id FROM messages WHERE {"+" if behind else ""}conversation_id = ? {behind})""",
            *((conversation_id,) if after is None else (conversation_id, after)),
        )
    return history, size


async def _with_others(
    reader: Reader, conversation_id: ConversationId, history: History, message_bytes: int
) -> ConversationSums:
    """What is known of the messages, and beside it what is read anew each time."""
    others = await text_bytes(reader, [conversation_id], _OTHER_TEXTS)
    return ConversationSums(
        conversation_id,
        history,
        message_bytes,
        await context_tokens(reader, conversation_id),
        len(await broken_in(reader, conversation_id)),
        others.get(conversation_id, 0),
    )


# -- bytes ---------------------------------------------------------------------------------------------


class TableSize(Record, frozen=True):
    """A table with its indexes; a search table with its shadows."""

    name: str
    bytes: int
    indexes: int = field(name="indexBytes")  #: bytes of them that are indexes


class FileSize(Record, frozen=True):
    """The whole file."""

    bytes: int
    #: bytes in pages that hold nothing: written again before the file grows
    free: int = field(name="freeBytes")
    tables: tuple[TableSize, ...] | None  #: the largest first; None: this SQLite does not know


class ConversationSize(Record, frozen=True):
    """The size of one conversation: its rows, and the bytes of their texts."""

    conversation: Conversation
    last_activity: Timestamp | None  #: of the message with the highest seq
    messages: int
    summaries: int
    context_items: int
    bytes: int | None = None  #: texts of messages, parts, summaries; None: not measured

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.messages or self.summaries or self.context_items)

    @property
    def at(self) -> Timestamp:
        """What its age is counted from: its newest message, else when it was made."""
        return self.last_activity or self.conversation.created_at


async def file_size(reader: Reader, *, tables: bool = True) -> FileSize:
    """Pages, and which *tables* hold them: that reads every page once."""
    page = await reader.value("PRAGMA page_size")
    pages = await reader.value("PRAGMA page_count")
    free = await reader.value("PRAGMA freelist_count")
    return FileSize(page * pages, page * free, await _tables(reader) if tables else None)


async def _tables(reader: Reader) -> tuple[TableSize, ...] | None:
    try:
        rows = await reader.rows(
            """SELECT m.tbl_name, m.type, d.pgsize FROM dbstat('main', 1) AS d
            JOIN sqlite_master AS m ON m.name = d.name"""
        )
    except DatabaseError:  # built without the dbstat table
        return None
    search = [name for name in reader.schema.tables if name.endswith(("_fts", "_fts_cjk"))]
    whole: dict[str, int] = {}
    indexes: dict[str, int] = {}
    for table, kind, size in rows:
        shadow_of = [name for name in search if table.startswith(f"{name}_")]
        name = max(shadow_of, key=len) if shadow_of and table not in search else table
        whole[name] = whole.get(name, 0) + size
        indexes[name] = indexes.get(name, 0) + (size if kind == "index" else 0)
    found = (TableSize(name, size, indexes[name]) for name, size in whole.items())
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))


async def conversation_sizes(reader: Reader) -> list[ConversationSize]:
    """Every conversation with the number of its rows, by id; indexes only."""
    counts = [await row_counts(reader, table) for table in ("messages", "summaries", "context_items")]
    found = (
        ConversationSize(
            entry.conversation,
            entry.last_activity,
            *(count.get(entry.conversation.conversation_id, 0) for count in counts),
        )
        for entry in await list_conversations(reader)
    )
    return sorted(found, key=lambda one: one.id)


async def measured(
    reader: Reader, sizes: Iterable[ConversationSize], *, whole: bool
) -> list[ConversationSize]:
    """The same with the bytes of their texts; *whole*: those are most of the file, which is scanned once."""
    wanted = list(sizes)
    found = await text_bytes(reader, None if whole else [one.id for one in wanted])
    return [replace(one, bytes=found.get(one.id, 0)) for one in wanted]


#: Columns with texts of any length.
_TEXTS: Final = {
    "messages": ("content", "large_content", "openclaw_sender_metadata"),
    "message_parts": (
        *("text_content", "tool_input", "tool_output", "tool_error", "metadata", "file_url"),
        *("patch_files", "subtask_prompt"),
    ),
    "summaries": ("content",),
    "large_files": ("exploration_summary",),
    "focus_briefs": ("content", "raw_result_json"),
}
#: Those of rows that are not appended with the messages.
_OTHER_TEXTS: Final = ("summaries", "large_files", "focus_briefs")


async def text_bytes(
    reader: Reader, ids: Sequence[ConversationId] | None, tables: Iterable[str] = tuple(_TEXTS)
) -> dict[int, int]:
    """The bytes of the texts of some conversations, by id; of all of them (None) the file is scanned once."""
    found: dict[int, int] = {}
    for table in tables:
        size = _size_of(reader, table)
        for owner, bytes_ in await _bytes(reader, table, size, ids) if size else ():
            found[owner] = found.get(owner, 0) + bytes_
    return found


def _size_of(reader: Reader, table: str) -> str:
    """SQL: the bytes of the texts of a row *t*; empty: this version has none."""
    columns = [column for column in _TEXTS[table] if reader.schema.has(table, column)]
    return " + ".join(f"coalesce(length(CAST(t.{column} AS BLOB)), 0)" for column in columns)


async def _bytes(
    reader: Reader, table: str, size: str, ids: Sequence[ConversationId] | None
) -> list[tuple[int, int]]:
    source, owner = f"{table} AS t", "t.conversation_id"
    if table == "message_parts":
        source = "message_parts AS t JOIN messages AS m ON m.message_id = t.message_id"
        owner = "m.conversation_id"
    if ids is None:
        rows = await reader.rows(f"SELECT {owner}, sum({size}) FROM {source} GROUP BY 1")
    else:
        rows = await reader.rows_in(
            f"SELECT {owner}, sum({size}) FROM {source} WHERE {owner} IN (?*) GROUP BY 1", ids
        )
    return [(row[0], row[1] or 0) for row in rows]


# -- growth ----------------------------------------------------------------------------------------------
# How a conversation or a database grew: the times of some of its messages, without their texts.

#: Messages whose times are read first, at most: each costs one look-up by (conversation, seq).
SAMPLES = 240
#: Look-ups beyond these, at most, that find out when in a long pause the messages came.
CLOSER = 240


#: A time without messages is long from this part of the whole, and this many times the usual one, on.
_LONG_SHARE: Final = 10
_LONG_TIMES: Final = 20


class Growth(Record, frozen=True):
    """Messages of a conversation over its time, from some that stand at equal distances of seq."""

    marks: tuple[tuple[datetime, int], ...]  #: a time (UTC) and the seq that was reached then; both grow

    @property
    def first(self) -> datetime:
        """When it began."""
        return self.marks[0][0]

    @property
    def last(self) -> datetime:
        """When it grew last."""
        return self.marks[-1][0]

    def cells(self, number: int) -> list[tuple[int, int]]:
        """The time in so many pieces: about how many messages came in each, and its first seq.

        Pieces are of nearly equal length. A time without messages that is a tenth of the whole, and many
        times as long as the usual one between two, is one piece with -1 messages.
        """
        waits = [(after[0] - before[0]).total_seconds() for before, after in pairwise(self.marks)]
        least = max(sum(waits) / _LONG_SHARE, _LONG_TIMES * sorted(waits)[len(waits) // 2])
        ends = [at for at, wait in enumerate(waits, 1) if wait > least]
        if 4 * len(ends) >= number:
            ends = []
        runs = [Growth(self.marks[a:b]) for a, b in pairwise([0, *ends, len(self.marks)])]
        room = number - len(ends) - len(runs)
        together = sum((run.last - run.first).total_seconds() for run in runs) or 1
        found: list[tuple[int, int]] = []
        passed = given = 0.0
        before = self.marks[0][1] - 1
        for run in runs:
            found += [(-1, before + 1)] if found else []
            passed += (run.last - run.first).total_seconds()
            more = round(room * passed / together - given)
            given += more
            found += run._pieces(1 + more, before)
            before = run.marks[-1][1]
        return found

    def _pieces(self, number: int, before: int) -> list[tuple[int, int]]:
        """The time in so many equal pieces, the first behind the seq *before*.

        Between two marks as many messages come in any time as in any other, unless they are further apart
        than a piece is long: then all came at the end, so that a piece has a bar only if a message is in it.
        A message at the very end belongs to the last piece.
        """
        span = (self.last - self.first).total_seconds()
        found: list[tuple[int, int]] = []
        at = 1
        for piece in range(1, number + 1):
            until = span * piece / number
            while at < len(self.marks) and self._seconds(at) < until:
                at += 1
            reached = self.marks[-1][1] if piece == number else self._reached(at, until, span / number)
            reached = max(reached, before)
            found.append((reached - before, before + 1))
            before = reached
        return found

    def _seconds(self, at: int) -> float:
        return (self.marks[at][0] - self.first).total_seconds()

    def _reached(self, at: int, until: float, piece: float) -> int:
        """The seq that was reached after so many seconds, between the mark before *at* and that one."""
        if at >= len(self.marks):
            return self.marks[-1][1]
        begun, ended = self._seconds(at - 1), self._seconds(at)
        low, high = self.marks[at - 1][1], self.marks[at][1]
        if ended <= begun or until <= begun or (ended - begun > piece and until < ended):
            return low
        return low + int((high - low) * (until - begun) / (ended - begun))


async def growth_of(reader: Reader, conversation_id: ConversationId) -> Growth | None:
    """The times of at most `SAMPLES` messages, from the first to the last; None: fewer than two are known.

    Where two of them are long apart, at most `CLOSER` more tell when the messages between them came.
    Times that cannot be read, and those before an earlier message's, are left out.
    """
    if not reader.schema.has("messages", "created_at"):
        return None
    own = "FROM messages WHERE conversation_id = ?"
    bounds = await _bounds(reader, f"min(seq) {own}", f"max(seq) {own}", conversation_id)
    if bounds is None:
        return None
    marks = _growing(await _times(reader, conversation_id, _samples(*bounds)))
    if len(marks) < 2 or marks[-1][0] <= marks[0][0]:
        return None
    left = CLOSER
    while left and (asked := _in_pauses(marks)[:left]):
        left -= len(asked)
        found = await _times(reader, conversation_id, asked)
        if len(found) < len(asked):
            left = 0  # a time cannot be read: nothing is learned by asking for it again
        known = _growing(sorted((*marks, *found), key=lambda mark: mark[1]))
        left = left if len(known) > len(marks) else 0
        marks = known
    return Growth(tuple(marks))


async def _bounds(reader: Reader, least: str, largest: str, *keys: ConversationId) -> tuple[int, int] | None:
    """Both ends of a column; asked for together, SQLite would look at every row."""
    row = await reader.row(f"SELECT (SELECT {least}), (SELECT {largest})", *keys, *keys)
    return None if row is None or row[0] is None else (place(row[0]), place(row[1]))


def _samples(first: int, last: int) -> list[int]:
    """At most `SAMPLES` numbers at equal distances, both ends with them."""
    steps = min(SAMPLES - 1, max(last - first, 1))
    return sorted({first + (last - first) * step // steps for step in range(steps + 1)})


async def _times(
    reader: Reader, conversation_id: ConversationId, seqs: list[int]
) -> list[tuple[datetime, int]]:
    """When each of some seqs was reached, as far as that can be read."""
    rows = await reader.rows(
        """SELECT value AS seq, (SELECT created_at FROM messages WHERE conversation_id = ? AND seq >= value
        ORDER BY seq LIMIT 1) AS at FROM json_each(?)""",
        conversation_id,
        json.dumps(seqs),
    )
    return [(at, row["seq"]) for row in rows if (at := parse_utc(row["at"])) is not None]


def _growing(marks: list[tuple[datetime, int]]) -> list[tuple[datetime, int]]:
    """Without the marks whose time is before that of an earlier one."""
    found: list[tuple[datetime, int]] = []
    for mark in marks:
        if not found or mark[0] >= found[-1][0]:
            found.append(mark)
    return found


def _in_pauses(marks: list[tuple[datetime, int]]) -> list[int]:
    """The seqs in the middle between marks that are long apart, the longest pause first."""
    shortest = (marks[-1][0] - marks[0][0]) / SAMPLES
    pauses = [
        (after - before, (low + high) // 2)
        for (before, low), (after, high) in pairwise(marks)
        if after - before > shortest and high - low > 1
    ]
    return [middle for _, middle in sorted(pauses, reverse=True)]


async def growth_of_all(reader: Reader) -> Growth | None:
    """The same of all messages of a database, from some at equal distances of their ids.

    Ids need not be in the order of time: an import adds old messages. So each of the messages that are read
    counts for as many as any other, at its time.
    """
    if not reader.schema.has("messages", "created_at"):
        return None
    bounds = await _bounds(reader, "min(message_id) FROM messages", "max(message_id) FROM messages")
    if bounds is None:
        return None
    first, last = bounds
    rows = await reader.rows(
        """SELECT (SELECT created_at FROM messages WHERE message_id >= value
        ORDER BY message_id LIMIT 1) AS at FROM json_each(?)""",
        json.dumps(_samples(first, last)),
    )
    times = sorted(at for row in rows if (at := parse_utc(row["at"])) is not None)
    if len(times) < 2 or times[0] == times[-1]:
        return None
    return Growth(tuple((at, (last - first) * number // (len(times) - 1)) for number, at in enumerate(times)))
