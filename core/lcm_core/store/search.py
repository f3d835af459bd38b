"""What a search asks of messages and summaries: by their text, by the search tables, and by LIKE.

The order of rows is the engine's (docs/engine/recall.md, "Order"): a stored time as text where it says so,
and what SQLite makes of rows with the same one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from lcm_core.records import ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.store.connecting import CHUNK, Row, Rows, SqlValue, error_name
from lcm_core.store.schema import Schema
from lcm_core.store.searched import DocumentKind
from lcm_core.store.typed import typed
from lcm_core.times import iso_z

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


@dataclass(frozen=True, slots=True)
class Range:
    """Which rows are searched."""

    conversations: tuple[ConversationId, ...] | None  #: None: all
    since: str | None = None  #: from this moment on, ISO in UTC
    before: str | None = None  #: before this moment


@dataclass(frozen=True, slots=True)
class FoundRow:
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
            f"SELECT {table.key} FROM {kind} AS t {_where(conditions)} ORDER BY {table.time} DESC LIMIT ?",
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
            f"""SELECT {table.columns} FROM {kind} AS t {_where([*likes, *conditions])}
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
        try:
            rows = self._db.rows(
                f"""SELECT {table.columns}, snippet({name}, {column}, '', '', '...', 32) AS snippet
                FROM {name} JOIN {kind} AS t ON {join}
                {_where([f"{name} MATCH ?", *conditions, *filters])}
                ORDER BY {_order(order, table.time)} LIMIT ?""",
                (expression, *arguments, *values, *([iso_z(now)] if order is Order.HYBRID else []), limit),
            )
        except sqlite3.Error as error:
            _raise_unless_of_a_table(error)
            return None
        return [table.found(row) for row in typed(rows)]


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
    Source: docs/recall.md, "Progress".
    """
    phrases = " ".join('"{}"'.format(text.replace('"', " ")) for text in texts)
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


def _where(conditions: Iterable[str]) -> str:
    text = " AND ".join(conditions)
    return f"WHERE {text}" if text else ""


def _order(order: Order, time: str) -> str:
    if order is Order.RECENCY:
        return f"{time} DESC"
    if order is Order.RELEVANCE:
        return f"rank ASC, {time} DESC"
    age = f"(julianday(?) - julianday({time})) * 24"
    return f"rank / (1 + {age} * 0.001) ASC, {time} DESC"
