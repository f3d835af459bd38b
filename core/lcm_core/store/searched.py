"""What our own search reads: messages with their parts, summaries, focus briefs and files, newest first.

Rows are read in windows of ids, so that a search can stop between two of them (docs/recall.md, "Scanning").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.records import ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.store.connecting import CHUNK, Row, Rows, SqlValue, contains_pattern, may_hold
from lcm_core.store.schema import Schema
from lcm_core.store.typed import typed

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


@dataclass(frozen=True, slots=True)
class Filter:
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

    @property
    def only_places(self) -> bool:
        """Whether it asks for nothing but conversations and kinds."""
        rest = (self.roles, self.tools, self.summary_kinds, self.depths, self.since, self.before)
        return not any(rest) and self.in_context is None

    @property
    def wanted(self) -> tuple[DocumentKind, ...]:
        """The kinds that the other conditions leave."""
        kinds = self.kinds
        if self.roles or self.tools:
            kinds = tuple(kind for kind in kinds if kind is DocumentKind.MESSAGE)
        if self.summary_kinds or self.depths:
            kinds = tuple(kind for kind in kinds if kind is DocumentKind.SUMMARY)
        if self.in_context is not None:
            kinds = tuple(kind for kind in kinds if kind in {DocumentKind.MESSAGE, DocumentKind.SUMMARY})
        return kinds


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that is searched, with all its texts."""

    kind: DocumentKind
    id: str  #: as text, also where it is a number
    conversation_id: ConversationId
    label: str  #: role, kind, status or type
    at: Timestamp
    texts: tuple[tuple[str, str], ...]  #: where, and what


@dataclass(frozen=True, slots=True)
class SearchedRows:
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
        return self._documents(kind, " AND ".join(conditions), arguments)

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
        return self._documents(kind, " AND ".join(conditions), [*arguments, *keys])

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

    def _documents(self, kind: DocumentKind, where: str, arguments: Sequence[SqlValue]) -> list[Document]:
        table, key = _TABLES[kind]
        names = {
            DocumentKind.MESSAGE: ("role", "content"),
            DocumentKind.SUMMARY: ("kind", "content"),
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
        in_context = _in_context(db, asked)
        for root in list(fringe):
            hit = sorted(fringe[root] & in_context)
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


def _in_context(db: Rows, summary_ids: Iterable[SummaryId]) -> set[SummaryId]:
    rows = db.rows_in("SELECT summary_id FROM context_items WHERE summary_id IN (?*)", summary_ids)
    return {SummaryId(row[0]) for row in rows}


def seqs_of(db: Rows, schema: Schema, message_ids: Sequence[MessageId]) -> dict[MessageId, int]:
    """The place of each of some messages in its conversation."""
    if not schema.has("messages", "seq"):
        return {}
    rows = db.rows_in("SELECT message_id, seq FROM messages WHERE message_id IN (?*)", message_ids)
    return {MessageId(row[0]): row[1] for row in rows if isinstance(row[1], int)}


def messages_in_context(db: Rows, schema: Schema, message_ids: Sequence[MessageId]) -> set[MessageId]:
    """Which of some messages stand in a context themselves."""
    if not schema.has("context_items"):
        return set()
    rows = db.rows_in("SELECT message_id FROM context_items WHERE message_id IN (?*)", message_ids)
    return {MessageId(row[0]) for row in rows}
