"""One session of a lossless-claw database, the rows that Remnic is to have for it, and how its own differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Concatenate, Final

from lcm_core.base.errors import FileMissingError
from lcm_core.base.times import sort_key
from lcm_core.base.values import P, Record, T
from lcm_core.change.plan import Cell, Cells, Symbol, SymbolKind
from lcm_core.engine.markers import classify
from lcm_core.store.database import Database, Reader
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import Row, Rows, SqlValue, connect_memory, quoted
from lcm_core.store.schema import Schema, number, text

from lcm_remnic import records as schema
from lcm_remnic.records import (
    LIMIT,
    OURS,
    Json,
    Kind,
    Origin,
    SessionId,
    Step,
    Stored,
    What,
    is_place,
    parsed_object,
    payload_of,
    stored_json,
    written,
)

# -- the source ------------------------------------------------------------------------------------------
# An outline first, then messages and summaries in batches.
#
# Loads over `Rows`, every value as it is stored: each is one short read transaction.


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
            opening = Database.open(self.path, busy_seconds=self._busy_seconds)
            self._database = self._runner.run(opening.__aenter__())
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


class SourceConversation(Record, frozen=True):
    """A conversation as it is stored."""

    conversation_id: int
    session: SessionId
    row: Stored


class MessageKey(Record, frozen=True):
    """A message without its text."""

    message_id: int
    conversation_id: int
    seq: int
    created_at: str


class SourceSummary(Record, frozen=True):
    """A summary without its text."""

    summary_id: str
    conversation_id: int
    depth: int
    row: Stored  #: every column but the text


class Link(Record, frozen=True):
    """A row of ``summary_messages`` or ``summary_parents``: what a summary was made from."""

    summary_id: str
    target: int | str  #: a message, or a source summary
    ordinal: int


class Outline(Record, frozen=True):
    """Everything of some conversations but the texts."""

    messages: tuple[MessageKey, ...]
    summaries: tuple[SourceSummary, ...]
    links: tuple[Link, ...]
    edges: tuple[Link, ...]
    context: tuple[Stored, ...]  #: rows of ``context_items`` in order
    unreadable: tuple[int, ...]  #: messages whose seq is no number, or is that of another, too


class SourceMessage(Record, frozen=True):
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


# -- order and nodes -------------------------------------------------------------------------------------
# Order of turns, ranges and upward links of nodes. Pure (docs/spec/remnic.md, "Order" and "Nodes").


class Placed(Record, frozen=True):
    """Where a summary belongs among the turns of its session."""

    summary: SourceSummary
    start: int  #: the first turn below it
    end: int  #: the last one
    parent: str | None  #: the summary that used it
    collapsed: int  #: further ones that did


def in_order(messages: Iterable[MessageKey]) -> list[MessageKey]:
    """The messages of a session as its turns: by time, then conversation, then seq.

    Within a conversation the seq decides: a message counts as at least as late as those before it.
    """
    latest: dict[int, datetime] = {}
    keyed: list[tuple[datetime, int, int, MessageKey]] = []
    for one in sorted(messages, key=lambda one: (one.conversation_id, one.seq)):
        moment = sort_key(one.created_at)
        before = latest.get(one.conversation_id)
        moment = moment if before is None or moment > before else before
        latest[one.conversation_id] = moment
        keyed.append((moment, one.conversation_id, one.seq, one))
    keyed.sort(key=lambda item: item[:3])
    return [item[3] for item in keyed]


def place_summaries(outline: Outline, turns: Mapping[int, int]) -> tuple[list[Placed], list[str]]:
    """The summaries below which is a turn, the deepest first, and the ids of the others.

    *turns*: the turn of each message by its id. Whatever the links say, no parent leads back.
    """
    ranges = _ranges(outline, turns)
    known = {one.summary_id: one for one in outline.summaries if one.summary_id in ranges}
    users: dict[str, list[tuple[int, int, str]]] = {}
    for edge in outline.edges:
        user, source = known.get(edge.summary_id), known.get(str(edge.target))
        if user is not None and source is not None and user.depth > source.depth:
            users.setdefault(source.summary_id, []).append((user.depth, edge.ordinal, user.summary_id))
    placed = []
    for summary in sorted(known.values(), key=lambda one: (-one.depth, one.summary_id)):
        above = sorted(users.get(summary.summary_id, ()))
        start, end = ranges[summary.summary_id]
        parent = above[0][2] if above else None
        placed.append(Placed(summary, start, end, parent, max(0, len(above) - 1)))
    return placed, sorted(one.summary_id for one in outline.summaries if one.summary_id not in ranges)


def _ranges(outline: Outline, turns: Mapping[int, int]) -> dict[str, tuple[int, int]]:
    """First and last turn below each summary, through every summary that it was made from."""
    ids = {one.summary_id for one in outline.summaries}
    found: dict[str, tuple[int, int]] = {}
    for link in outline.links:
        turn = turns.get(link.target) if isinstance(link.target, int) else None
        if turn is not None and link.summary_id in ids:
            found[link.summary_id] = _joined(found.get(link.summary_id), (turn, turn))
    users = _users(outline.edges, ids)
    waiting = list(found)
    while waiting:  # a range only ever grows, so this ends in a circle too
        source = waiting.pop()
        for user in users.get(source, ()):
            joined = _joined(found.get(user), found[source])
            if joined != found.get(user):
                found[user] = joined
                waiting.append(user)
    return found


def _users(edges: Sequence[Link], ids: set[str]) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for edge in edges:
        if edge.summary_id in ids and edge.target in ids:
            users.setdefault(str(edge.target), []).append(edge.summary_id)
    return users


def _joined(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


# -- wanted rows -----------------------------------------------------------------------------------------
# The rows that Remnic is to have for what the source holds. Pure (docs/spec/remnic.md, "Turns" and "Nodes").

SOURCE: Final = "lossless-claw"
#: Level of a text that no model wrote: the deterministic cut.
CUT: Final = 2
_RECORD_VERSION: Final = 1
#: Columns of a message that a turn has.
_TURN: Final = frozenset({"conversation_id", "seq", "role", "content", "token_count", "created_at"})
#: Columns of a summary that every record of it has in another place.
_NODE: Final = frozenset({"summary_id", "conversation_id"})


def origin_of(key: MessageKey) -> Origin:
    """Which message it is, for Remnic."""
    return Origin(str(key.conversation_id), key.seq)


def turn_of(message: SourceMessage, conversation: SourceConversation) -> Cells:
    """A turn but for its session and place."""
    row = message.row
    return Cells.of(
        {
            "role": text(row["role"]) or "",
            "content": text(row["content"]) or "",
            "token_count": number(row.get("token_count")) or 0,
            "created_at": text(row.get("created_at")) or "",
            "metadata": written(metadata_of(row, conversation)),
        }
    )


def metadata_of(row: Stored, conversation: SourceConversation) -> dict[str, Json]:
    """What a turn says about its message: what Remnic's importer writes, and what it has no place for."""
    return {
        "conversation_id": conversation.conversation_id,
        "identity_hash": _text(row.get("identity_hash")),
        "source": SOURCE,
        "source_seq": number(row["seq"]) or 0,
        "title": _text(conversation.row.get("title")),
        OURS: _columns(row, _TURN),
    }


def parts_of(message: SourceMessage) -> dict[int, Cells]:
    """The parts of a turn by ordinal, but for the turn's id."""
    role = text(message.row["role"]) or ""
    created = text(message.row.get("created_at")) or ""
    found: dict[int, Cells] = {}
    for place, part in enumerate(message.parts):
        ordinal = number(part.get("ordinal"))
        kind, payload, tool, path = payload_of(part, role)
        found.setdefault(
            place if ordinal is None else ordinal,
            Cells.of(
                {
                    "kind": kind,
                    "payload": written(payload),
                    "tool_name": tool,
                    "file_path": path,
                    "created_at": created,
                }
            ),
        )
    return found


def node_of(placed: Placed, session: str, content: SqlValue) -> Cells:
    """A node but for its id."""
    row, said = placed.summary.row, text(content) or ""
    made = row.get("latest_at") or row.get("earliest_at") or row.get("created_at")
    return Cells.of(
        {
            "session_id": session,
            "depth": placed.summary.depth,
            "parent_id": placed.parent,
            "summary_text": said,
            "token_count": number(row.get("token_count")) or 0,
            "msg_start": placed.start,
            "msg_end": placed.end,
            "escalation": CUT if classify(said, text(row.get("model"))) else 0,
            "created_at": text(made) or "",
        }
    )


def record_key(session: str, conversation_id: int | str) -> str:
    """The key under which Remnic's table of settings has what it has no column for."""
    return f"lcm-tui:conversation:{conversation_id}:{session}"


def gone_summaries(stored: SqlValue, known: Collection[str]) -> list[str]:
    """The summaries of a stored record that are not among those of the source any more."""
    held = parsed_object(stored)
    summaries, gone = held.get("summaries"), held.get("gone")
    earlier = {*(summaries if isinstance(summaries, dict) else ()), *(gone if isinstance(gone, list) else ())}
    return sorted(one for one in earlier if isinstance(one, str) and one not in known)


def record_of(conversation: SourceConversation, outline: Outline, gone: Sequence[str] = ()) -> str:
    """A conversation's columns, its summaries' columns and links, and its context, as JSON."""
    owner = conversation.conversation_id
    mine = [one for one in outline.summaries if one.conversation_id == owner]
    links, edges = _by_summary(outline.links), _by_summary(outline.edges)
    summaries: dict[str, Json] = {
        one.summary_id: _summary(one, links.get(one.summary_id, []), edges.get(one.summary_id, []))
        for one in mine
    }
    context: list[Json] = [
        _columns(row, frozenset({"conversation_id"}))
        for row in outline.context
        if row["conversation_id"] == owner
    ]
    record: dict[str, Json] = {
        "version": _RECORD_VERSION,
        "conversation": _columns(conversation.row, frozenset()),
        "summaries": summaries,
        "context": context,
        **({"gone": list(gone)} if gone else {}),
    }
    return written(record)


def _summary(summary: SourceSummary, links: list[Link], edges: list[Link]) -> Json:
    return {
        "row": _columns(summary.row, _NODE),
        "messages": [[stored_json(link.target), link.ordinal] for link in links],
        "sources": [[stored_json(link.target), link.ordinal] for link in edges],
    }


def _by_summary(links: Iterable[Link]) -> dict[str, list[Link]]:
    found: dict[str, list[Link]] = {}
    for link in links:
        found.setdefault(link.summary_id, []).append(link)
    return found


def _columns(row: Stored, but: frozenset[str]) -> dict[str, Json]:
    return {
        name: stored_json(value)
        for name, value in sorted(row.items())
        if name not in but and value is not None
    }


def _text(value: SqlValue) -> str | None:
    found = text(value)
    return None if found is None else found.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- what Remnic has --------------------------------------------------------------------------------------
# Under whatever transaction the caller has: `Rows`.


class TurnKey(Record, frozen=True):
    """A turn without its text."""

    id: int
    turn_index: SqlValue
    created_at: SqlValue
    origin: Origin | None  #: None: Remnic recorded it itself


class Session(Record, frozen=True):
    """The places of a session's turns, and the ids of its nodes."""

    turns: tuple[TurnKey, ...]
    nodes: frozenset[str]
    has_marker: bool  #: an event that stands for the end of an import is there
    last_id: int  #: no turn of any session has a larger id


def read_remnic(
    path: Path,
    load: Callable[Concatenate[Rows, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run *load* over one state of a database of Remnic's; blocks, and may run twice.

    Raises:
        FileMissingError: there is no such file.
        DatabaseError: it is not Remnic's, or cannot be read.
    """
    if not path.is_file():
        raise FileMissingError(
            "Remnic database",
            path,
            "Give Remnic's lcm.sqlite, or its memory folder, with --remnic.",
            code="REMNIC_NOT_FOUND",
        )

    def checked(rows: HostRows) -> T:
        schema.check_readable(rows, path)
        return load(rows, *args, **kwargs)

    return read_host(path, checked)


def read_empty(load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run *load* over an empty database of Remnic's, which is in memory alone."""
    with closing(connect_memory()) as connection:
        connection.row_factory = Row
        for statement in schema.statements():
            connection.execute(statement)
        return load(HostRows(connection, Path(":memory:")), *args, **kwargs)


def load_session(rows: Rows, session: SessionId) -> Session:
    """The outline of a session."""
    turns = tuple(
        TurnKey(row["id"], row["turn_index"], row["created_at"], origin_in(row["metadata"]))
        for row in rows.rows(
            "SELECT id, turn_index, created_at, metadata FROM lcm_messages WHERE session_id = ? ORDER BY id",
            (session,),
        )
    )
    nodes = rows.tuples("SELECT id FROM lcm_summary_nodes WHERE session_id = ?", (session,))
    marked = schema.has_table(rows, schema.EVENTS) and rows.tuples(
        "SELECT 1 FROM lcm_compaction_events WHERE session_id = ? AND tokens_before = tokens_after LIMIT 1",
        (session,),
    )
    [(last,)] = rows.tuples("SELECT max(id) FROM lcm_messages")
    return Session(turns, frozenset(text(row[0]) or "" for row in nodes), bool(marked), last or 0)


def load_newcomers(rows: Rows, session: SessionId, last_id: int) -> list[Origin | None]:
    """The origins of the turns that came behind an id: None of one that Remnic recorded itself."""
    sql = "SELECT metadata FROM lcm_messages WHERE id > ? AND session_id = ?"
    return [origin_in(row[0]) for row in rows.tuples(sql, (last_id, session))]


def next_turn(rows: Rows, session: SessionId) -> int:
    """The place behind the last turn of a session; places that no host gives do not count."""
    sql = (
        "SELECT turn_index FROM lcm_messages WHERE session_id = ? AND typeof(turn_index) = 'integer' "
        "AND turn_index < ? ORDER BY turn_index DESC LIMIT 1"
    )
    found = rows.tuples(sql, (session, LIMIT))
    return int(found[0][0]) + 1 if found else 0


def load_record(rows: Rows, key: str) -> tuple[SqlValue, ...]:
    """What is stored under a key of Remnic's table of settings, as it is stored; empty without such a row."""
    if not schema.has_table(rows, schema.META):
        return ()
    found = rows.tuples("SELECT value FROM lcm_meta WHERE key = ?", (key,))
    return found[0] if found else ()


def load_owners(rows: Rows, ids: Sequence[str]) -> dict[str, str]:
    """The sessions of some nodes that are there, by id."""
    sql = "SELECT id, session_id FROM lcm_summary_nodes WHERE id IN (?*)"
    return {row["id"]: text(row["session_id"]) or "" for row in rows.rows_in(sql, ids)}


def origin_in(metadata: SqlValue) -> Origin | None:
    """Which message of the source a turn is, by its metadata; None: none that an importer brought."""
    if not isinstance(metadata, str) or "source_seq" not in metadata:
        return None
    held = parsed_object(metadata)
    seq, conversation = held.get("source_seq"), held.get("conversation_id")
    if not is_place(seq) or held.get("source", SOURCE) != SOURCE:
        return None
    if isinstance(conversation, bool) or not isinstance(conversation, int | str):
        return None
    return Origin(str(conversation), seq)


def load_turns(rows: Rows, ids: Sequence[int]) -> dict[int, Row]:
    """Some turns, whole, by id."""
    columns = ", ".join(("id", "session_id", "turn_index", *schema.TURN_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_messages WHERE id IN (?*)"
    return {row["id"]: row for row in rows.rows_in(sql, ids)}


def load_parts(rows: Rows, turn_ids: Iterable[int]) -> dict[int, list[Row]]:
    """The parts of some turns, whole, by the turn's id."""
    columns = ", ".join(("id", "message_id", "ordinal", *schema.PART_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_message_parts WHERE message_id IN (?*) ORDER BY ordinal, id"
    found: dict[int, list[Row]] = {}
    for row in rows.rows_in(sql, turn_ids):
        found.setdefault(row["message_id"], []).append(row)
    return found


def load_nodes(rows: Rows, ids: Iterable[str]) -> dict[str, Row]:
    """Some nodes, whole, by id, with the number by which search knows each."""
    columns = ", ".join(("rowid AS place", "id", *schema.NODE_COLUMNS))
    sql = f"SELECT {columns} FROM lcm_summary_nodes WHERE id IN (?*)"
    return {row["id"]: row for row in rows.rows_in(sql, ids)}


def unsearchable(rows: Rows, table: str, places: Mapping[int, object]) -> frozenset[int]:
    """Which of some rows search does not find, by their numbers; none where there is no search table."""
    search = schema.SEARCH[table][0]
    sizes = f"{search}_docsize"  # FTS5 asks the table itself for a row; this alone says what is indexed
    if not places or not schema.has_table(rows, search) or not schema.has_table(rows, sizes):
        return frozenset()
    sql = f"SELECT id FROM {quoted(sizes)} WHERE id IN (?*)"
    indexed = {row["id"] for row in rows.rows_in(sql, tuple(places))}
    return frozenset(places.keys() - indexed)


# -- differences -----------------------------------------------------------------------------------------
# What of a session's rows differs from what they should be, and the step that corrects each.
#
# The same code reads a snapshot for a preview and the locked file for a write
# (docs/spec/remnic.md, "Import").


class WantedTurn(Record, frozen=True):
    """A turn as it should be."""

    message_id: int
    origin: Origin
    turn_id: int | None  #: the row that it has; None: none yet
    turn_index: int | None  #: None: where it is
    row: Cells
    parts: Mapping[int, Cells]  #: by ordinal


def differing_turns(rows: Rows, session: SessionId, wanted: Sequence[WantedTurn]) -> Iterator[Step]:
    """What is wrong with some turns, their parts and their search rows."""
    ids = [one.turn_id for one in wanted if one.turn_id is not None]
    present, parts = load_turns(rows, ids), load_parts(rows, ids)
    unfound = unsearchable(rows, schema.TURNS, present)
    for one in wanted:
        row = None if one.turn_id is None else present.get(one.turn_id)
        if row is None or row["session_id"] != session:
            yield from _new_turn(session, one)
            continue
        changed = _changed(row, _with_place(_keeping(row, one.row), one.turn_index))
        key = int(row["id"])
        if changed is not None:
            before, after = changed
            kind = Kind.MOVED if after.columns == ("turn_index",) else Kind.CHANGED
            yield Step(kind, What.TURN, session, one.origin.text, schema.TURNS, key, before, after)
        if key in unfound and (changed is None or "content" not in changed[1]):
            yield _unfound(What.TURN, session, one.origin.text, schema.TURNS, key, row["content"])
        yield from _parts(session, one, key, parts.get(key, ()))


def _new_turn(session: SessionId, one: WantedTurn) -> Iterator[Step]:
    row = Cells.of({**one.row.as_dict(), "session_id": session, "turn_index": one.turn_index})
    yield Step(
        Kind.MISSING, What.TURN, session, one.origin.text, schema.TURNS, None, after=row, origin=one.origin
    )
    for ordinal in one.parts:
        yield _new_part(session, one, Symbol(one.origin.text, SymbolKind.ID), ordinal)


def _new_part(session: SessionId, one: WantedTurn, owner: Cell, ordinal: int) -> Step:
    row = Cells.of({**one.parts[ordinal].as_dict(), "message_id": owner, "ordinal": ordinal})
    return Step(Kind.MISSING, What.PART, session, _part_name(one, ordinal), schema.PARTS, None, after=row)


def _part_name(one: WantedTurn, ordinal: int) -> str:
    return f"{one.origin.text}, part {ordinal}"


def _parts(session: SessionId, one: WantedTurn, turn_id: int, present: Sequence[Row]) -> Iterator[Step]:
    by_ordinal: dict[object, Row] = {}
    for each in present:
        by_ordinal.setdefault(each["ordinal"], each)
    for ordinal, wanted in one.parts.items():
        row = by_ordinal.get(ordinal)
        if row is None:
            yield _new_part(session, one, turn_id, ordinal)
        elif (changed := _changed(row, wanted)) is not None:
            name = _part_name(one, ordinal)
            yield Step(Kind.CHANGED, What.PART, session, name, schema.PARTS, int(row["id"]), *changed)
    for place, each in by_ordinal.items():
        if place not in one.parts:
            name = f"{one.origin.text}, part {place}"
            yield Step(Kind.EXTRA, What.PART, session, name, schema.PARTS, each["id"])


def differing_nodes(
    rows: Rows, session: SessionId, wanted: Mapping[str, Cells], known: frozenset[str]
) -> Iterator[Step]:
    """What is wrong with some nodes and their search rows; *known* are all summaries of the source.

    A node that Remnic put below one of its own stays there.
    """
    present = load_nodes(rows, wanted)
    unfound = unsearchable(rows, schema.NODES, {row["place"]: row for row in present.values()})
    for name, cells in wanted.items():
        row = present.get(name)
        if row is None:
            made = Cells.of({**cells.as_dict(), "id": name})
            yield Step(Kind.MISSING, What.NODE, session, name, schema.NODES, None, after=made)
            continue
        if row["session_id"] != session:
            continue  # it came since its id was looked for
        above = row["parent_id"]
        if cells["parent_id"] is None and isinstance(above, str) and above not in known:
            cells = cells.but(parent_id=above)
        changed = _changed(row, cells)
        if changed is not None:
            places = {"msg_start", "msg_end", "parent_id"}
            kind = Kind.MOVED if places.issuperset(changed[1].columns) else Kind.CHANGED
            yield Step(kind, What.NODE, session, name, schema.NODES, name, *changed)
        if row["place"] in unfound and (changed is None or "summary_text" not in changed[1]):
            yield _unfound(What.NODE, session, name, schema.NODES, row["place"], row["summary_text"])


def _unfound(of: What, session: SessionId, name: str, table: str, place: int, said: SqlValue) -> Step:
    column = schema.SEARCH[table][1]
    named = f"{of} {name}"
    return Step(Kind.MISSING, What.SEARCH, session, named, table, place, after=Cells.of({column: said}))


def _with_place(cells: Cells, turn_index: int | None) -> Cells:
    return cells if turn_index is None else cells.but(turn_index=turn_index)


def _keeping(row: Row, wanted: Cells) -> Cells:
    """The turn with what else its metadata says; where nothing of ours differs, with the metadata it has."""
    stored = row["metadata"]
    held = parsed_object(stored)
    ours = parsed_object(wanted["metadata"])
    joined = {**held, **ours}
    # The other importer wrote the number of the conversation as it found it, and its words for the rest.
    if held and joined == held:
        return wanted.but(metadata=stored)
    return wanted.but(metadata=written(joined)) if held and OURS in ours else wanted


def _changed(row: Row, wanted: Cells) -> tuple[Cells, Cells] | None:
    """The columns that differ, as they are and as they should be; None where none does."""
    names = [name for name in wanted.columns if not _same(row[name], wanted[name])]
    if not names:
        return None
    before: dict[str, Cell] = {name: row[name] for name in names}
    return Cells.of(before), Cells.of({name: wanted[name] for name in names})


def _same(stored: SqlValue, wanted: Cell) -> bool:
    return type(stored) is type(wanted) and stored == wanted
