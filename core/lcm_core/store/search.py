"""What the searches read: our own search, the engine's, and what recall shows of the rows that they find."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from lcm_core.base.records import (
    Conversation,
    ConversationId,
    Edge,
    LargeFile,
    Message,
    MessageId,
    Summary,
    SummaryId,
    SummaryText,
    Timestamp,
)
from lcm_core.base.times import iso_z
from lcm_core.base.values import Record
from lcm_core.store.conversations import CONVERSATIONS
from lcm_core.store.messages import FILES, MESSAGES
from lcm_core.store.opening import CHUNK, Row, Rows, SqlValue, contains_pattern, error_name, may_hold
from lcm_core.store.rows import where_all
from lcm_core.store.schema import Columns, R, Schema, typed
from lcm_core.store.summaries import SUMMARIES, broken_rows

# -- our own search --------------------------------------------------------------------------------------
# Messages with their parts, summaries, focus briefs and files, newest first. Rows are read in windows of
# ids, so that a search can stop between two of them (docs/spec/searching.md, "Scanning").

#: Rows of a window.
WINDOW: Final = 2_000
#: Rows of a window of what has longer texts.
_LONG_WINDOW: Final = 500
_PARTS: Final = (
    ("tool_name", "tool name"),
    ("tool_input", "tool input"),
    ("tool_output", "tool output"),
    ("tool_error", "tool error"),
    ("file_name", "file name"),
    ("text_content", "part"),
)


class DocumentKind(StrEnum):
    """What is searched; the values are the words of options and answers."""

    MESSAGE = "message"
    SUMMARY = "summary"
    BRIEF = "brief"
    FILE = "file"


#: Where each kind is kept, with the column of its id.
_TABLES: Final = {
    DocumentKind.MESSAGE: ("messages", "message_id"),
    DocumentKind.SUMMARY: ("summaries", "summary_id"),
    DocumentKind.BRIEF: ("focus_briefs", "brief_id"),
    DocumentKind.FILE: ("large_files", "file_id"),
}


class Filter(Record, frozen=True):
    """Which documents are wanted; empty and None: whichever."""

    conversations: tuple[ConversationId, ...] | None = None
    kinds: tuple[DocumentKind, ...] = tuple(DocumentKind)
    roles: tuple[str, ...] = ()  #: of messages; then only messages are wanted
    tools: tuple[str, ...] = ()  #: names of tools that a message calls; likewise
    summary_kinds: tuple[str, ...] = ()  #: leaf, condensed; then only summaries are wanted
    depths: tuple[int, ...] = ()  #: likewise
    since: str | None = None  #: ISO in UTC, inclusive
    before: str | None = None  #: exclusive
    in_context: bool | None = None  #: itself an item of a context, or not; then messages and summaries alone
    broken: bool = False  #: whose text certainly is none; then only summaries are wanted

    @property
    def only_places(self) -> bool:
        """Whether it asks for nothing but conversations and kinds."""
        rest = (self.roles, self.tools, self.summary_kinds, self.depths, self.since, self.before)
        return not any(rest) and self.in_context is None and not self.broken

    @property
    def wanted(self) -> tuple[DocumentKind, ...]:
        """The kinds that the other conditions leave."""
        kinds = self.kinds
        if self.roles or self.tools:
            kinds = tuple(kind for kind in kinds if kind is DocumentKind.MESSAGE)
        if self.summary_kinds or self.depths or self.broken:
            kinds = tuple(kind for kind in kinds if kind is DocumentKind.SUMMARY)
        if self.in_context is not None:
            kinds = tuple(kind for kind in kinds if kind in {DocumentKind.MESSAGE, DocumentKind.SUMMARY})
        return kinds


class Document(Record, frozen=True):
    """One thing that is searched, with all its texts."""

    kind: DocumentKind
    id: str  #: as text, also where it is a number
    conversation_id: ConversationId
    label: str  #: role, kind, status or type
    at: Timestamp
    texts: tuple[tuple[str, str], ...]  #: where, and what


class SearchedRows(Record, frozen=True):
    """The documents of one file, within one transaction."""

    db: Rows
    schema: Schema

    def windows(self, kind: DocumentKind, after: int | None = None) -> Iterator[tuple[int, int]]:
        """Ranges of row ids (both inclusive) that cover a table, those above *after*; the newest first."""
        table, _ = _TABLES[kind]
        if not self.schema.has(table):
            return
        high = self._one(f"SELECT max(rowid) FROM {table}", ())
        while high is not None and (after is None or high > after):
            size = WINDOW if kind is DocumentKind.MESSAGE else _LONG_WINDOW
            low = high - size + 1 if after is None else max(high - size, after) + 1
            yield low, high
            high = self._one(f"SELECT max(rowid) FROM {table} WHERE rowid < ?", (low,))

    def within(
        self, kind: DocumentKind, window: tuple[int, int], wanted: Filter, needles: Sequence[str] = ()
    ) -> list[Document]:
        """The documents of a window; of those whose texts lack one of the *needles* some are left out."""
        conditions, arguments = self._conditions(kind, wanted)
        conditions.append("t.rowid BETWEEN ? AND ?")
        arguments += window
        for needle in needles:
            sql, count = self._holds(kind)
            conditions.append(sql)
            arguments += [contains_pattern(needle)] * count
        return self._documents(kind, " AND ".join(conditions), arguments, broken=wanted.broken)

    def counted(self, kind: DocumentKind, wanted: Filter, from_row: int | None) -> int:
        """How many documents are in scope, all of them or those from a row id on."""
        table, _ = _TABLES[kind]
        if not self.schema.has(table):
            return 0
        conditions, arguments = self._conditions(kind, wanted)
        if from_row is not None:
            conditions.append("t.rowid >= ?")
            arguments.append(from_row)
        where = " AND ".join(conditions) or "1"
        if wanted.broken:
            return len(self._documents(kind, where, arguments, broken=True))
        return self._one(f"SELECT count(*) FROM {table} AS t WHERE {where}", arguments) or 0

    def last_row(self, kind: DocumentKind) -> int:
        """The highest row id of a kind; 0 without rows."""
        table, _ = _TABLES[kind]
        return (self._one(f"SELECT max(rowid) FROM {table}", ()) or 0) if self.schema.has(table) else 0

    def next_row(self, kind: DocumentKind, after: int) -> int | None:
        """The lowest row id above *after*; None when there is none."""
        table, _ = _TABLES[kind]
        if not self.schema.has(table):
            return None
        return self._one(f"SELECT min(rowid) FROM {table} WHERE rowid > ?", (after,))

    def messages_of(self, conversations: Sequence[ConversationId]) -> set[int]:
        """The ids of all messages of some conversations."""
        if not self.schema.has("messages"):
            return set()
        found: set[int] = set()
        for start in range(0, len(conversations), CHUNK):
            some = conversations[start : start + CHUNK]
            marks = ", ".join("?" * len(some))
            query = f"SELECT message_id FROM messages WHERE conversation_id IN ({marks})"
            found.update(row[0] for row in self.db.tuples(query, some))
        return found

    def some(self, kind: DocumentKind, ids: Iterable[str], wanted: Filter | None = None) -> list[Document]:
        """Documents by their ids, in no order; of all of them those that are wanted."""
        table, key = _TABLES[kind]
        keys: list[SqlValue] = [int(one) for one in ids] if kind is DocumentKind.MESSAGE else list(ids)
        if not keys or not self.schema.has(table):
            return []
        conditions, arguments = ([], []) if wanted is None else self._conditions(kind, wanted)
        conditions.append(f"t.{key} IN ({', '.join('?' * len(keys))})")
        broken = wanted is not None and wanted.broken
        return self._documents(kind, " AND ".join(conditions), [*arguments, *keys], broken=broken)

    def asked_before(self, message_id: int) -> str | None:
        """The text of the user's message before a message of the same conversation; None: there is none."""
        found = self.db.tuples(
            "SELECT b.content FROM messages t JOIN messages b "
            "ON b.conversation_id = t.conversation_id AND b.seq < t.seq AND b.role = 'user' "
            "WHERE t.message_id = ? ORDER BY b.seq DESC LIMIT 1",
            (message_id,),
        )
        return found[0][0] if found and isinstance(found[0][0], str) else None

    def _one(self, sql: str, arguments: Sequence[SqlValue]) -> int | None:
        value = self.db.tuples(sql, arguments)[0][0]
        return value if isinstance(value, int) else None

    def _time(self, kind: DocumentKind) -> str:
        if kind is DocumentKind.SUMMARY and self.schema.has("summaries", "latest_at"):
            return "COALESCE(t.latest_at, t.created_at)"
        return "t.created_at"

    def _conditions(self, kind: DocumentKind, wanted: Filter) -> tuple[list[str], list[SqlValue]]:
        conditions: list[str] = []
        arguments: list[SqlValue] = []
        listed: list[tuple[str, Sequence[SqlValue]]] = []
        if wanted.conversations is not None:
            listed.append(("t.conversation_id", wanted.conversations))
        if kind is DocumentKind.MESSAGE and wanted.roles:
            listed.append(("t.role", wanted.roles))
        if kind is DocumentKind.SUMMARY:
            listed += [("t.kind", wanted.summary_kinds)] if wanted.summary_kinds else []
            listed += [("t.depth", wanted.depths)] if wanted.depths else []
        for column, values in listed:
            conditions.append(f"{column} IN ({', '.join('?' * len(values))})")
            arguments += values
        if kind is DocumentKind.MESSAGE and wanted.tools:
            marks = ", ".join("?" * len(wanted.tools))
            named = f"p.tool_name IN ({marks})" if self.schema.has("message_parts", "tool_name") else "0"
            conditions.append(self._of_parts(named))
            arguments += wanted.tools if "?" in named else ()
        if wanted.in_context is not None:
            _, key = _TABLES[kind]
            items = f"SELECT {key} FROM context_items WHERE {key} IS NOT NULL"
            inside = f"t.{key} IN ({items})" if self.schema.has("context_items", key) else "0"
            conditions.append(inside if wanted.in_context else f"NOT {inside}")
        for sign, moment in ((">=", wanted.since), ("<", wanted.before)):
            if moment is not None:
                conditions.append(f"julianday({self._time(kind)}) {sign} julianday(?)")
                arguments.append(moment)
        return conditions, arguments

    def _of_parts(self, condition: str) -> str:
        if not self.schema.has("message_parts"):
            return "0"
        return (
            f"EXISTS (SELECT 1 FROM message_parts AS p WHERE p.message_id = t.message_id AND ({condition}))"
        )

    def _holds(self, kind: DocumentKind) -> tuple[str, int]:
        """A condition that one of the texts holds a needle, and how many times it is asked for."""
        columns = {
            DocumentKind.MESSAGE: ("content",),
            DocumentKind.SUMMARY: ("content",),
            DocumentKind.BRIEF: ("content", "prompt"),
            DocumentKind.FILE: ("file_name", "exploration_summary", "file_id"),
        }[kind]
        table, _ = _TABLES[kind]
        here = [may_hold(f"t.{name}") for name in columns if self.schema.has(table, name)]
        if kind is DocumentKind.FILE:
            return "1", 0  # the file itself is not in the database
        parts = [name for name, _ in _PARTS if self.schema.has("message_parts", name)]
        if kind is DocumentKind.MESSAGE and parts:
            inside = " OR ".join(may_hold(f"p.{name}") for name in parts)
            return f"({' OR '.join(here)} OR {self._of_parts(inside)})", len(here) + len(parts)
        return f"({' OR '.join(here) or '0'})", len(here)

    def _documents(
        self, kind: DocumentKind, where: str, arguments: Sequence[SqlValue], *, broken: bool = False
    ) -> list[Document]:
        table, key = _TABLES[kind]
        names = {
            DocumentKind.MESSAGE: ("role", "content"),
            DocumentKind.SUMMARY: ("kind", "content", "model"),
            DocumentKind.BRIEF: ("status", "content", "prompt"),
            DocumentKind.FILE: ("mime_type", "file_name", "exploration_summary", "storage_uri"),
        }[kind]
        stamp = f"CAST(substr({self._time(kind)}, 1, 100) AS TEXT) AS created_at"
        rows = typed(
            self.db.rows(
                f"""SELECT {self.schema.select(table, (key, "conversation_id", *names), "t")}, {stamp}
                FROM {table} AS t WHERE {where} ORDER BY t.rowid DESC""",
                arguments,
            )
        )
        if broken:
            found = broken_rows(self.db, self.schema, [row[key] for row in rows])
            rows = [row for row in rows if row[key] in found]
        parts = self._parts([row[key] for row in rows]) if kind is DocumentKind.MESSAGE else {}
        return [
            Document(
                kind,
                str(row[key]),
                ConversationId(row["conversation_id"]),
                str(row[names[0]] or ""),
                Timestamp(row["created_at"] or ""),
                _texts(kind, row, parts),
            )
            for row in rows
        ]

    def _parts(self, message_ids: Sequence[MessageId]) -> dict[MessageId, list[tuple[str, str]]]:
        """The texts of parts by message, in order."""
        if not message_ids or not self.schema.has("message_parts"):
            return {}
        columns = self.schema.select("message_parts", ("message_id", *(name for name, _ in _PARTS)), "p")
        rows = self.db.rows_in(
            f"SELECT {columns} FROM message_parts AS p WHERE p.message_id IN (?*) ORDER BY p.ordinal",
            message_ids,
        )
        found: dict[MessageId, list[tuple[str, str]]] = {}
        for row in typed(rows):
            texts = ((place, row[name]) for name, place in _PARTS)
            some = [(place, str(text)) for place, text in texts if text]
            found.setdefault(row["message_id"], []).extend(some)
        return found


def _texts(
    kind: DocumentKind, row: Row, parts: dict[MessageId, list[tuple[str, str]]]
) -> tuple[tuple[str, str], ...]:
    if kind is DocumentKind.FILE:
        named = (("file name", "file_name"), ("exploration summary", "exploration_summary"))
        return tuple((place, str(row[name])) for place, name in named if row[name])
    content = str(row["content"] or "")
    texts = [("content", content)] if content else []
    if kind is DocumentKind.BRIEF and row["prompt"]:
        texts.append(("prompt", str(row["prompt"])))
    if kind is DocumentKind.MESSAGE:
        # What an engine takes out of parts stands in the content already.
        texts += [one for one in parts.get(row["message_id"], ()) if one[1] not in content]
    return tuple(texts)


def covering(
    db: Rows, schema: Schema, message_ids: Sequence[MessageId]
) -> dict[MessageId, tuple[SummaryId, ...]]:
    """The way from the context down to each of some messages: the summary in the context is first.

    A message that no summary in a context covers is left out.
    """
    if not all(schema.has(table) for table in ("summary_messages", "context_items")):
        return {}
    leaves: dict[MessageId, list[SummaryId]] = {}
    for row in db.rows_in(
        "SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (?*)", message_ids
    ):
        leaves.setdefault(row[0], []).append(SummaryId(row[1]))
    ways = ways_from_context(db, schema, {one for some in leaves.values() for one in some})
    found: dict[MessageId, tuple[SummaryId, ...]] = {}
    for message_id, some in leaves.items():
        way = next((ways[leaf] for leaf in some if leaf in ways), None)
        if way is not None:
            found[message_id] = way
    return found


def ways_from_context(
    db: Rows, schema: Schema, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, tuple[SummaryId, ...]]:
    """The shortest way down from a summary in a context to each of some summaries, both included."""
    start = set(summary_ids)
    came_from: dict[SummaryId, dict[SummaryId, SummaryId | None]] = {one: {one: None} for one in start}
    reached: dict[SummaryId, SummaryId] = {}
    fringe = {one: {one} for one in start}
    while fringe:
        asked = set().union(*fringe.values())
        inside = in_context(db, schema, DocumentKind.SUMMARY, asked)
        for root in list(fringe):
            hit = sorted(one for one in fringe[root] if one in inside)
            if hit:
                reached[root] = hit[0]
                del fringe[root]
        if not schema.has("summary_parents"):
            break
        over: dict[SummaryId, list[SummaryId]] = {}
        for row in db.rows_in(
            "SELECT parent_summary_id, summary_id FROM summary_parents WHERE parent_summary_id IN (?*)", asked
        ):
            over.setdefault(row[0], []).append(SummaryId(row[1]))
        for root, level in list(fringe.items()):
            following: set[SummaryId] = set()
            for one in level:
                for consumer in over.get(one, ()):
                    if consumer not in came_from[root]:
                        came_from[root][consumer] = one
                        following.add(consumer)
            if following:
                fringe[root] = following
            else:
                del fringe[root]
    return {root: tuple(_way(came_from[root], top)) for root, top in reached.items()}


def _way(came_from: dict[SummaryId, SummaryId | None], top: SummaryId) -> Iterator[SummaryId]:
    at: SummaryId | None = top
    while at is not None:
        yield at
        at = came_from[at]


def seqs_of(db: Rows, schema: Schema, message_ids: Sequence[MessageId]) -> dict[MessageId, int]:
    """The place of each of some messages in its conversation."""
    if not schema.has("messages", "seq"):
        return {}
    rows = db.rows_in("SELECT message_id, seq FROM messages WHERE message_id IN (?*)", message_ids)
    return {MessageId(row[0]): row[1] for row in rows if isinstance(row[1], int)}


def in_context(db: Rows, schema: Schema, kind: DocumentKind, ids: Iterable[SqlValue]) -> set[SqlValue]:
    """Which of some messages or summaries are items of a context themselves."""
    _, key = _TABLES[kind]
    if not schema.has("context_items", key):
        return set()
    return {row[0] for row in db.rows_in(f"SELECT {key} FROM context_items WHERE {key} IN (?*)", ids)}


# -- the engine's search ---------------------------------------------------------------------------------
# Messages and summaries by their text, by the search tables, and by LIKE.
#
# The order of rows is the engine's (docs/spec/recall.md, "Order"): a stored time as text where it says
# so, and what SQLite makes of rows with the same one.

#: Errors that are no matter of a search table.
_NOT_OF_A_TABLE: Final = (
    *("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_BUSY", "SQLITE_INTERRUPT", "SQLITE_NOTADB"),
)
#: How references to stored files begin.
_REFERENCES: Final = ("[LCM File:", "[LCM Tool Output:", "[LCM Raw Payload:", "[User image:", "[Tool image:")


class Order(StrEnum):
    """By what hits of the search tables are ordered; the values are the engine's words."""

    RECENCY = "recency"
    RELEVANCE = "relevance"
    HYBRID = "hybrid"


class Kind(StrEnum):
    """What is searched."""

    MESSAGES = "messages"
    SUMMARIES = "summaries"


class Range(Record, frozen=True):
    """Which rows are searched."""

    conversations: tuple[ConversationId, ...] | None  #: None: all
    since: str | None = None  #: from this moment on, ISO in UTC
    before: str | None = None  #: before this moment


class FoundRow(Record, frozen=True):
    """A message or a summary that a search looked at or found."""

    conversation_id: ConversationId
    message_id: MessageId | None
    summary_id: SummaryId | None
    label: str  #: the role of a message, the kind of a summary
    at: Timestamp  #: of a summary the latest time that it covers, else when it was made
    content: str
    snippet: str | None  #: as the search table cut it


class SearchRows:
    """The searches of one file, within one transaction."""

    def __init__(self, db: Rows, schema: Schema) -> None:
        self._db = db
        self.schema = schema

    def newest(self, kind: Kind, where: Range, limit: int) -> Iterator[FoundRow]:
        """Rows with their texts, newest first, at most *limit*; texts are read as they are asked for."""
        if not self.schema.has(kind):
            return
        table = _Table(kind, self.schema)
        conditions, arguments = table.conditions(where)
        ids = self._db.tuples(
            f"SELECT {table.key} FROM {kind} AS t {where_all(conditions)} ORDER BY {table.time} DESC LIMIT ?",
            (*arguments, limit),
        )
        for start in range(0, len(ids), CHUNK):
            some = [row[0] for row in ids[start : start + CHUNK]]
            sql = f"SELECT {table.columns} FROM {kind} AS t WHERE {table.key} IN (?*)"
            found = {row[0]: row for row in self._db.rows_in(sql, some)}
            yield from (table.found(row) for row in typed([found[one] for one in some if one in found]))

    def like(
        self, kind: Kind, where: Range, likes: Sequence[str], values: Sequence[str], limit: int
    ) -> list[FoundRow]:
        """Rows whose ``content`` fulfils conditions of LIKE, newest first, at most *limit*."""
        if not self.schema.has(kind):
            return []
        table = _Table(kind, self.schema)
        conditions, arguments = table.conditions(where)
        rows = self._db.rows(
            f"""SELECT {table.columns} FROM {kind} AS t {where_all([*likes, *conditions])}
            ORDER BY {table.time} DESC LIMIT ?""",
            (*values, *arguments, limit),
        )
        return [table.found(row) for row in typed(rows)]

    def match(
        self,
        name: str,
        expression: str,
        where: Range,
        order: Order,
        limit: int,
        *,
        likes: Sequence[str] = (),
        values: Sequence[str] = (),
        now: datetime,
    ) -> list[FoundRow] | None:
        """What the search table *name* finds; None when it is not there or cannot be asked.

        *now* is the clock that the age of a hit is counted by.
        """
        kind = Kind.MESSAGES if name == "messages_fts" else Kind.SUMMARIES
        if not self.schema.has(name) or not self.schema.has(kind):
            return None
        table = _Table(kind, self.schema)
        conditions, arguments = table.conditions(where)
        join = f"t.message_id = {name}.rowid"
        if kind is Kind.SUMMARIES:
            join = f"t.summary_id = {name}.summary_id"
        filters = [one.replace("LOWER(content)", "LOWER(t.content)") for one in likes]
        column = 0 if kind is Kind.MESSAGES else 1
        matched = f"FROM {name} JOIN {kind} AS t ON {join} WHERE {name} MATCH ?"
        try:
            # While all that match are put in order, SQLite would carry their texts, and cut snippets of all.
            ids = self._db.tuples(
                f"""SELECT {name}.rowid {matched}{"".join(f" AND {one}" for one in (*conditions, *filters))}
                ORDER BY {_order(order, table.time)} LIMIT ?""",
                (expression, *arguments, *values, *([iso_z(now)] if order is Order.HYBRID else []), limit),
            )
            rows = self._db.rows(
                f"""SELECT {name}.rowid AS found, {table.columns},
                snippet({name}, {column}, '', '', '...', 32) AS snippet
                {matched} AND +{name}.rowid IN (SELECT value FROM json_each(?))""",
                (expression, json.dumps([found for (found,) in ids])),
            )
        except sqlite3.Error as error:
            _raise_unless_of_a_table(error)
            return None
        by_id = {row["found"]: row for row in typed(rows)}
        return [table.found(by_id[found]) for (found,) in ids if found in by_id]


def _raise_unless_of_a_table(error: sqlite3.Error) -> None:
    """Raise again what is no matter of a broken search table."""
    if error_name(error).startswith(_NOT_OF_A_TABLE) or str(error) == "interrupted":
        raise error


_RUN: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]{3,}")


def matched_first(
    db: Rows, schema: Schema, kind: DocumentKind, texts: Sequence[str], limit: int, *, best: bool = False
) -> list[str]:
    """Ids of the newest documents in which the file's own search tables find all *texts*, at most *limit*.

    *best*: of those that the tables rank highest. A quick beginning and no answer: the tables hold no parts,
    and may be stale. None are found where there is no table, or it cannot be asked.
    Source: docs/spec/searching.md, "Progress".
    """
    phrases = _phrases(texts)
    asked: list[tuple[str, str, str]] = []
    if kind is DocumentKind.MESSAGE:
        asked.append(("messages_fts", "rowid", phrases))
    elif kind is DocumentKind.SUMMARY:
        asked.append(("summaries_fts", "summary_id", phrases))
        runs = [run for text in texts for run in _RUN.findall(text)]
        if runs:
            asked.append(("summaries_fts_cjk", "summary_id", " ".join(f'"{run}"' for run in runs)))
    found: dict[str, None] = {}
    for name, key, expression in asked:
        if not schema.has(name):
            continue
        order = "rank" if best else "rowid DESC"
        sql = f"SELECT {key} FROM {name} WHERE {name} MATCH ? ORDER BY {order} LIMIT ?"
        try:
            rows = db.tuples(sql, (expression, limit))
        except sqlite3.Error as error:
            _raise_unless_of_a_table(error)
            continue
        found.update((str(row[0]), None) for row in rows)
    return list(found)


#: The engine's full text of a kind, its column of ids, and where that is listed.
_FULL_TEXT: Final = {
    DocumentKind.MESSAGE: ("messages_fts", "rowid", ("id", "messages_fts_docsize")),
    DocumentKind.SUMMARY: ("summaries_fts", "summary_id", ("summary_id", "summaries_fts")),
}
#: Texts that the engine's tokenizer splits as we do: ASCII, with a letter or digit in them.
_PLAIN: Final = re.compile(r"[\x20-\x7e]*[0-9A-Za-z][\x20-\x7e]*")


def full_text_ids(db: Rows, schema: Schema, kind: DocumentKind, texts: Sequence[str]) -> list[str] | None:
    """Ids of all messages or summaries in whose content the engine's full text finds *texts*, newest first.

    None: it does not hold each of them, cannot be asked, or splits one of the texts otherwise than we do. It
    finds whole words, and others of the same stem; parts of messages are not in it.
    """
    asked = _FULL_TEXT.get(kind)
    if asked is None or not schema.has(asked[0]) or not all(map(_PLAIN.fullmatch, texts)):
        return None
    (name, key, held), (table, column) = asked, _TABLES[kind]
    try:
        sums = (
            f"SELECT count(*), total({one}) FROM {of}" for one, of in ((held[0], held[1]), (column, table))
        )
        if kind is DocumentKind.SUMMARY or len({db.tuples(sql)[0] for sql in sums}) > 1:
            lacking = f"{column} NOT IN (SELECT {held[0]} FROM {held[1]}) AND trim(content) <> ''"
            if db.tuples(f"SELECT 1 FROM {table} WHERE {lacking} LIMIT 1"):
                return None
        sql = f"SELECT {key} FROM {name} WHERE {name} MATCH ? ORDER BY rowid DESC"
        return [str(found) for (found,) in db.tuples(sql, (_phrases(texts),))]
    except sqlite3.Error as error:
        _raise_unless_of_a_table(error)
        return None


def _phrases(texts: Iterable[str]) -> str:
    """An expression that is true where each text stands as a phrase."""
    return " ".join('"{}"'.format(text.replace('"', " ")) for text in texts)


def has_search_table(db: Rows, schema: Schema) -> bool:
    """Whether the file's own search table of messages can be asked, and was filled."""
    if not schema.has("messages_fts"):
        return False
    try:
        db.tuples("SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? LIMIT 1", ('"a"',))
        filled = db.tuples("SELECT 1 FROM messages_fts_docsize LIMIT 1", ())
        return bool(filled) or not db.tuples("SELECT 1 FROM messages LIMIT 1", ())
    except sqlite3.Error as error:
        _raise_unless_of_a_table(error)
        return False


def is_stale(text: str, searched: str) -> bool:
    """Whether a search row holds something else than its message.

    Of a message that refers to a file only the head and the exploration summary are searched (0.10 on).
    """
    if text.lstrip().startswith(_REFERENCES) or any(f"\n{one}" in text for one in _REFERENCES):
        return not all(line.strip() in text for line in searched.splitlines())
    return True


class _Table:
    """How the rows of a kind are named, dated and shown."""

    def __init__(self, kind: Kind, schema: Schema) -> None:
        self.kind = kind
        self.key = "t.message_id" if kind is Kind.MESSAGES else "t.summary_id"
        self.time = "t.created_at"
        label = "role" if kind is Kind.MESSAGES else "kind"
        if kind is Kind.SUMMARIES and schema.has("summaries", "latest_at"):
            self.time = "COALESCE(t.latest_at, t.created_at)"
        names = (self.key.removeprefix("t."), "conversation_id", label, "content")
        stamp = f"CAST(substr({self.time}, 1, 100) AS TEXT) AS created_at"
        self.columns = f"{schema.select(kind, names, 't')}, {stamp}"
        self._label = label

    def conditions(self, where: Range) -> tuple[list[str], list[SqlValue]]:
        conditions: list[str] = []
        arguments: list[SqlValue] = []
        if where.conversations is not None:
            marks = ", ".join("?" * len(where.conversations))
            one = len(where.conversations) == 1
            conditions.append("t.conversation_id = ?" if one else f"t.conversation_id IN ({marks})")
            arguments += where.conversations
        for sign, moment in ((">=", where.since), ("<", where.before)):
            if moment is not None:
                conditions.append(f"julianday({self.time}) {sign} julianday(?)")
                arguments.append(moment)
        return conditions, arguments

    def found(self, row: Row) -> FoundRow:
        of_message = self.kind is Kind.MESSAGES
        return FoundRow(
            conversation_id=ConversationId(row["conversation_id"]),
            message_id=MessageId(row["message_id"]) if of_message else None,
            summary_id=None if of_message else SummaryId(row["summary_id"]),
            label=row[self._label] or "",
            at=Timestamp(row["created_at"] or ""),
            content=row["content"] or "",
            snippet=row["snippet"] if "snippet" in set(row.keys()) else None,
        )


def _order(order: Order, time: str) -> str:
    if order is Order.RECENCY:
        return f"{time} DESC"
    if order is Order.RELEVANCE:
        return f"rank ASC, {time} DESC"
    age = f"(julianday(?) - julianday({time})) * 24"
    return f"rank / (1 + {age} * 0.001) ASC, {time} DESC"


# -- rows that recall shows ------------------------------------------------------------------------------
# Conversations, summaries, files and messages, row by row, within one transaction.


class Links(Record, frozen=True):
    """What a summary stands between."""

    sources: tuple[SummaryId, ...]
    consumers: tuple[SummaryId, ...]
    messages: tuple[MessageId, ...]


class RecalledRows:
    """The rows of one file that the tools of recall ask for, one question at a time."""

    def __init__(self, db: Rows, schema: Schema) -> None:
        self.db = db
        self.schema = schema

    # -- conversations -------------------------------------------------------------------------------------

    def conversation(self, conversation_id: int) -> Conversation | None:
        """One by its id."""
        found = self._conversations("c.conversation_id = ?", (conversation_id,))
        return found[0] if found else None

    def active_of_key(self, session_key: str) -> Conversation | None:
        """The active one of a session key; of several the newest."""
        if not self.schema.has("conversations", "session_key"):
            return None
        active = " AND c.active = 1" if self.schema.has("conversations", "active") else ""
        found = self._conversations(f"c.session_key = ?{active}", (session_key,))
        return found[0] if found else None

    def of_session(self, session_id: str) -> Conversation | None:
        """The one of a session id: an active one before the others, then the newest."""
        found = self._conversations("c.session_id = ?", (session_id,))
        return found[0] if found else None

    def family(self, of: Conversation) -> list[Conversation]:
        """All conversations of the same session key, or where there is none of the same session id."""
        if of.session_key:
            return self.family_of_key(of.session_key)
        return self._conversations("c.session_id = ?", (of.session_id,))

    def family_of_key(self, session_key: str) -> list[Conversation]:
        """All conversations of a session key; none in a file that has no keys."""
        if not self.schema.has("conversations", "session_key"):
            return []
        return self._conversations("c.session_key = ?", (session_key,))

    def _conversations(self, where: str, arguments: Sequence[SqlValue]) -> list[Conversation]:
        columns = CONVERSATIONS.select(self.schema, "c")
        active = "c.active DESC, " if self.schema.has("conversations", "active") else ""
        rows = self.db.rows(
            f"""SELECT {columns} FROM conversations AS c WHERE {where}
            ORDER BY {active}c.created_at DESC, c.conversation_id DESC""",
            arguments,
        )
        return [CONVERSATIONS.record(row) for row in typed(rows)]

    def deepest(self, conversations: Sequence[ConversationId] | None) -> int:
        """The greatest depth of a summary of some conversations (None: of all); 0 without any."""
        if not self.schema.has("summaries", "depth"):
            return 0
        asked = "SELECT max(depth) AS depth FROM summaries"
        if conversations is None:
            rows = self.db.rows(asked)
        else:
            rows = self.db.rows_in(f"{asked} WHERE conversation_id IN (?*)", conversations)
        return max((row["depth"] or 0 for row in typed(rows)), default=0)

    # -- summaries -----------------------------------------------------------------------------------------

    def summary(self, summary_id: SummaryId) -> SummaryText | None:
        """One with its text."""
        return next(iter(self.summaries([summary_id])), None)

    def summaries(self, summary_ids: Iterable[SummaryId]) -> list[SummaryText]:
        """Some with their texts, in the order asked; those that are not there are left out."""
        if not self.schema.has("summaries"):
            return []
        wanted = list(dict.fromkeys(summary_ids))
        content = self.schema.select("summaries", ["content"], "s")
        columns = f"{SUMMARIES.select(self.schema, 's')}, {content}"
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM summaries AS s WHERE s.summary_id IN (?*)", wanted)
        )
        found = {row["summary_id"]: SummaryText(SUMMARIES.record(row), row["content"] or "") for row in rows}
        return [found[one] for one in wanted if one in found]

    def without_texts(self, summary_ids: Iterable[SummaryId]) -> list[Summary]:
        """The same, without their texts."""
        return self._in_order(SUMMARIES, "summary_id", list(dict.fromkeys(summary_ids)))

    def _in_order(self, columns: Columns[R], key: str, keys: Sequence[SqlValue]) -> list[R]:
        """The rows of a table with one of some *keys* as records, in their order."""
        if not self.schema.has(columns.table):
            return []
        sql = f"SELECT {columns.select(self.schema, 't')} FROM {columns.table} AS t WHERE t.{key} IN (?*)"
        found = {row[key]: columns.record(row) for row in typed(self.db.rows_in(sql, keys))}
        return [found[one] for one in keys if one in found]

    def links(self, summary_id: SummaryId) -> Links:
        """The summaries and messages right beside one."""
        sources = [edge.source for edge in self.edges("summary_id", summary_id)]
        consumers = [edge.consumer for edge in self.edges("parent_summary_id", summary_id)]
        return Links(tuple(sources), tuple(consumers), tuple(self.message_ids(summary_id)))

    def edges(self, side: str, summary_id: SummaryId) -> list[Edge]:
        """The edges that a summary is at one *side* of, by their ordinal."""
        if not self.schema.has("summary_parents"):
            return []
        rows = self.db.rows(
            f"""SELECT summary_id, parent_summary_id, ordinal FROM summary_parents
            WHERE {side} = ? ORDER BY ordinal, parent_summary_id""",
            (summary_id,),
        )
        return [
            Edge(SummaryId(row["summary_id"]), SummaryId(row["parent_summary_id"]), row["ordinal"])
            for row in typed(rows)
        ]

    def message_ids(self, summary_id: SummaryId) -> list[MessageId]:
        """The messages that a leaf was made from, in order, also those whose row is gone."""
        if not self.schema.has("summary_messages"):
            return []
        rows = self.db.rows(
            "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", (summary_id,)
        )
        return [MessageId(row["message_id"]) for row in typed(rows)]

    def leaves_of(self, message_ids: Iterable[MessageId]) -> dict[MessageId, list[SummaryId]]:
        """The leaves that were made from some messages."""
        if not self.schema.has("summary_messages"):
            return {}
        rows = self.db.rows_in(
            "SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (?*)", message_ids
        )
        found: dict[MessageId, list[SummaryId]] = {}
        for row in typed(rows):
            found.setdefault(MessageId(row["message_id"]), []).append(SummaryId(row["summary_id"]))
        return found

    # -- messages and files --------------------------------------------------------------------------------

    def messages(self, message_ids: Sequence[MessageId]) -> list[Message]:
        """Some with their whole texts, in the order asked; those that are not there are left out."""
        return self._in_order(MESSAGES, "message_id", message_ids)

    def message_tokens(
        self, message_ids: Iterable[MessageId], within: Collection[ConversationId] | None = None
    ) -> dict[MessageId, int]:
        """The stored tokens of some messages, 0 where none are recorded; missing messages are left out.

        *within*: only messages of these conversations; None: of all.
        """
        columns = self.schema.select("messages", ("message_id", "conversation_id", "token_count"), "m")
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM messages AS m WHERE m.message_id IN (?*)", message_ids)
        )
        return {
            MessageId(row["message_id"]): row["token_count"] or 0
            for row in rows
            if within is None or row["conversation_id"] in within
        }

    def file(self, file_id: str) -> LargeFile | None:
        """One large file by its id."""
        found = self._files("f.file_id = ?", (file_id,))
        return found[0] if found else None

    def files(self, conversations: Sequence[ConversationId] | None) -> list[LargeFile]:
        """The large files of some conversations (None: of all), newest first."""
        if conversations is None:
            return self._files("1", ())
        marks = ", ".join("?" * len(conversations))
        return self._files(f"f.conversation_id IN ({marks})", conversations)

    def _files(self, where: str, arguments: Sequence[SqlValue]) -> list[LargeFile]:
        if not self.schema.has("large_files"):
            return []
        columns = FILES.select(self.schema, "f")
        rows = self.db.rows(
            f"SELECT {columns} FROM large_files AS f WHERE {where} ORDER BY f.created_at DESC", arguments
        )
        return [FILES.record(row) for row in typed(rows)]

    def text_of_file(self, file_id: str) -> str | None:
        """The text of the message that stands for a file, for when the file itself is lost."""
        if not self.schema.has("messages", "large_content"):
            return None
        rows = typed(
            self.db.rows(
                f"""SELECT {self.schema.select("messages", ("content",), "m")} FROM messages AS m
                WHERE m.large_content = ? ORDER BY m.message_id LIMIT 1""",
                (file_id,),
            )
        )
        return rows[0]["content"] if rows else None
