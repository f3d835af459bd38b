"""What a lossless-claw database holds of one session: its outline, then messages and summaries in batches.

Loads over `Rows`, every value as it is stored: each is one short read transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, TypeVar

from lcm_core.remnic.records import SessionId, is_place
from lcm_core.store.connecting import Row, Rows, SqlValue, quoted
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.store.typed import number, text

P = ParamSpec("P")
T = TypeVar("T")

#: A row as it is stored, by column.
Stored = Mapping[str, SqlValue]
#: Columns of a summary that a node has; the others are kept in the record.
_TEXT: Final = "content"


class Source:
    """An open lossless-claw database, asked by functions; each question is one read transaction and blocks.

    Not for a thread in which an event loop runs.
    """

    def __init__(self, path: Path, busy_seconds: float = 5.0) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._runner = asyncio.Runner()

    def __enter__(self) -> Source:
        try:
            self._database = self._runner.run(Database.open(self.path, busy_seconds=self._busy_seconds))
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._database.__aexit__(kind, error, trace))

    def read(self, load: Callable[Concatenate[Rows, Schema, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *load* over one state of the file; raises as `Database.read`."""

        async def one(reader: Reader) -> T:
            return await reader.run(load, reader.schema, *args, **kwargs)

        found: list[T] = []

        async def kept() -> None:
            found.append(await self._database.read(one))

        self._runner.run(kept())  # not as its result: what ends a loop writes that out
        return found[0]


@dataclass(frozen=True, slots=True)
class SourceConversation:
    """A conversation as it is stored."""

    conversation_id: int
    session: SessionId
    row: Stored


@dataclass(frozen=True, slots=True)
class MessageKey:
    """A message without its text."""

    message_id: int
    conversation_id: int
    seq: int
    created_at: str


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A summary without its text."""

    summary_id: str
    conversation_id: int
    depth: int
    row: Stored  #: every column but the text


@dataclass(frozen=True, slots=True)
class Link:
    """A row of ``summary_messages`` or ``summary_parents``: what a summary was made from."""

    summary_id: str
    target: int | str  #: a message, or a source summary
    ordinal: int


@dataclass(frozen=True, slots=True)
class Outline:
    """Everything of some conversations but the texts."""

    messages: tuple[MessageKey, ...]
    summaries: tuple[SourceSummary, ...]
    links: tuple[Link, ...]
    edges: tuple[Link, ...]
    context: tuple[Stored, ...]  #: rows of ``context_items`` in order
    unreadable: tuple[int, ...]  #: messages whose seq is no number, or is that of another, too


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message with its parts, as they are stored."""

    row: Stored
    parts: tuple[Stored, ...]


def load_conversations(rows: Rows, schema: Schema) -> tuple[SourceConversation, ...]:
    """All conversations, in the order of their ids."""
    found = rows.rows(f"SELECT {_all(schema, 'conversations')} FROM conversations ORDER BY conversation_id")
    return tuple(
        SourceConversation(row["conversation_id"], session_of(row), _stored(row))
        for row in found
        if isinstance(row["conversation_id"], int)
    )


def session_of(row: Stored | Row) -> SessionId:
    """How Remnic calls the session of a conversation."""
    return SessionId((text(row["session_id"]) or "").strip() or str(row["conversation_id"]))


def count_messages(rows: Rows, _: Schema, conversations: Sequence[int]) -> int:
    """How many messages some conversations have."""
    sql = "SELECT count(*) AS n FROM messages WHERE conversation_id IN (?*)"
    return sum(row["n"] for row in rows.rows_in(sql, conversations))


def load_outline(rows: Rows, schema: Schema, conversations: Sequence[int]) -> Outline:
    """Ids, places and links of some conversations."""
    messages, unreadable = _messages(rows, schema, conversations)
    summaries = tuple(
        SourceSummary(row["summary_id"], row["conversation_id"], number(row["depth"]) or 0, _stored(row))
        for row in _of(rows, schema, "summaries", conversations, but=_TEXT)
        if isinstance(row["summary_id"], str)
    )
    ids = [one.summary_id for one in summaries]
    context = sorted(
        (_stored(row) for row in _of(rows, schema, "context_items", conversations)),
        key=lambda row: (number(row["conversation_id"]) or 0, number(row["ordinal"]) or 0),
    )
    return Outline(
        messages,
        summaries,
        _links(rows, schema, "summary_messages", "message_id", ids),
        _links(rows, schema, "summary_parents", "parent_summary_id", ids),
        tuple(context),
        unreadable,
    )


def load_messages(rows: Rows, schema: Schema, message_ids: Sequence[int]) -> dict[int, SourceMessage]:
    """Some messages with their parts, by id."""
    found = rows.rows_in(
        f"SELECT {_all(schema, 'messages')} FROM messages WHERE message_id IN (?*)", message_ids
    )
    parts: dict[int, list[Stored]] = {}
    if schema.has("message_parts"):
        columns = _all(schema, "message_parts")
        for row in rows.rows_in(
            f"SELECT {columns} FROM message_parts WHERE message_id IN (?*) ORDER BY ordinal, part_id",
            message_ids,
        ):
            parts.setdefault(row["message_id"], []).append(_stored(row))
    return {
        row["message_id"]: SourceMessage(_stored(row), tuple(parts.get(row["message_id"], ())))
        for row in found
    }


def load_texts(rows: Rows, _: Schema, summary_ids: Sequence[str]) -> dict[str, SqlValue]:
    """What some summaries say."""
    sql = "SELECT summary_id, content FROM summaries WHERE summary_id IN (?*)"
    return {row["summary_id"]: row["content"] for row in rows.rows_in(sql, summary_ids)}


def _messages(
    rows: Rows, schema: Schema, conversations: Sequence[int]
) -> tuple[tuple[MessageKey, ...], tuple[int, ...]]:
    found: dict[tuple[int, int], MessageKey] = {}
    unreadable: list[int] = []
    created = "created_at" if schema.has("messages", "created_at") else "NULL"
    for row in rows.rows_in(
        f"SELECT message_id, conversation_id, seq, {created} AS created_at FROM messages "
        "WHERE conversation_id IN (?*) ORDER BY message_id",
        conversations,
    ):
        key = row["conversation_id"], row["seq"]
        if not is_place(row["seq"]) or key in found:
            unreadable.append(row["message_id"])
            continue
        found[key] = MessageKey(row["message_id"], *key, text(row["created_at"]) or "")
    return tuple(found.values()), tuple(unreadable)


def _links(rows: Rows, schema: Schema, table: str, column: str, summaries: Sequence[str]) -> tuple[Link, ...]:
    if not schema.has(table):
        return ()
    found = rows.rows_in(
        f"SELECT summary_id, {column} AS target, ordinal FROM {table} WHERE summary_id IN (?*)", summaries
    )
    links = [
        Link(row["summary_id"], row["target"], number(row["ordinal"]) or 0)
        for row in found
        if isinstance(row["target"], int | str)
    ]
    return tuple(sorted(links, key=lambda link: (link.summary_id, link.ordinal, str(link.target))))


def _of(rows: Rows, schema: Schema, table: str, conversations: Sequence[int], but: str = "") -> list[Row]:
    if not schema.has(table, "conversation_id"):
        return []
    columns = _all(schema, table, but)
    return rows.rows_in(f"SELECT {columns} FROM {table} WHERE conversation_id IN (?*)", conversations)


def _all(schema: Schema, table: str, but: str = "") -> str:
    return ", ".join(quoted(name) for name in sorted(schema.tables[table] - {but}))


def _stored(row: Row) -> Stored:
    return dict(zip(row.keys(), row, strict=True))
