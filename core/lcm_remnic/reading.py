"""What a round trip through Remnic would lose, and Remnic's sessions as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.text import safe_line
from lcm_core.base.values import Record, replace
from lcm_core.store.opening import Row, Rows, SqlValue, quoted
from lcm_core.store.schema import Columns, Schema, number, text

from lcm_remnic import records as schema
from lcm_remnic.records import Origin, SessionId, Unheld, Why
from lcm_remnic.source import Outline
from lcm_remnic.target import load_parts, origin_in, read_remnic

# -- what it cannot hold ---------------------------------------------------------------------------------
# What of a source is not imported into Remnic, or does not come back out of it (docs/spec/remnic.md, "What it
# cannot hold"). The rows of whole tables are counted; each row of a damaged file is noted with the reason.

#: Tables of a conversation that an import reads.
_BROUGHT: Final = frozenset({"conversations", "messages", "summaries", "context_items"})
#: Tables whose numbers are told even when they are 0.
_ALWAYS: Final = frozenset({"large_files", "focus_briefs"})
#: Tables that hang on a row of one with a conversation: the column of both, and the other table.
_BELOW: Final = (
    ("focus_brief_sources", "brief_id", "focus_briefs"),
    ("pending_summary_node_messages", "node_id", "pending_summary_nodes"),
    ("pending_summary_node_children", "node_id", "pending_summary_nodes"),
)
#: What the columns of a turn and of a node promise.
_PROMISED: Final = (
    ("messages", "message_id", ("role", "content", "created_at"), ("token_count",)),
    ("summaries", "summary_id", ("content",), ("token_count",)),
)


def load_left_behind(rows: Rows, schema: Schema, conversations: Sequence[int]) -> dict[str, int]:
    """How many rows of some conversations Remnic has no table for, by table."""
    found: dict[str, int] = {}
    for table in sorted(schema.tables):
        if table in _BROUGHT or table.startswith("lcm_tui_") or not schema.has(table, "conversation_id"):
            continue
        sql = f"SELECT count(*) AS n FROM {quoted(table)} WHERE conversation_id IN (?*)"
        found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    for table, key, above in _BELOW:
        if schema.has(table, key) and schema.has(above, "conversation_id"):
            sql = f"""SELECT count(*) AS n FROM {above} AS above JOIN {table} AS below USING ({key})
                WHERE above.conversation_id IN (?*)"""
            found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    return {table: count for table, count in found.items() if count or table in _ALWAYS}


def unheld_in(outline: Outline, lost: Collection[str]) -> Iterator[Unheld]:
    """Links and context items of a session whose other end does not come along; pure.

    *lost*: ids of summaries that are no nodes.
    """
    held: dict[int | str, int] = {one.message_id: one.conversation_id for one in outline.messages}
    held |= {one.summary_id: one.conversation_id for one in outline.summaries if one.summary_id not in lost}
    for table, links in (("summary_messages", outline.links), ("summary_parents", outline.edges)):
        for link in links:
            owner = held.get(link.summary_id)
            if owner is None or held.get(link.target) != owner:
                yield _link(table, link.summary_id, link.target, Why.NO_END)
    for row in outline.context:
        ref = row["message_id"] if row["summary_id"] is None else row["summary_id"]
        if not isinstance(ref, int | str) or held.get(ref) != row["conversation_id"]:
            yield _item(row["conversation_id"], row["ordinal"], ref)


def load_strays(
    rows: Rows,
    schema: Schema,
    conversations: Sequence[int],
    sessions: Collection[str],
    *,
    whole: bool,
    unreadable: Sequence[int],
) -> list[Unheld]:
    """Rows that belong to no message, summary or conversation, and values of wrong types.

    *whole*: of the whole file, else of some *sessions*, which are those of *conversations*. *unreadable* are
    messages that cannot be turns.
    """
    found: list[Unheld] = []
    if whole:
        found += _without_conversation(rows, schema)
    found += _parts(rows, schema, sessions, unreadable, whole=whole)
    found += _odd_links(rows, schema, conversations, whole=whole)
    for row in rows.rows_in(
        """SELECT rowid AS id FROM summaries
        WHERE conversation_id IN (?*) AND typeof(summary_id) <> 'text'""",
        conversations,
    ):
        found.append(Unheld("summaries", Why.NO_ID, f"row {row['id']}"))
    for table, key, texts, numbers in _PROMISED:
        odd = [f"typeof({name}) <> 'text'" for name in texts if schema.has(table, name)]
        odd += [f"typeof({name}) <> 'integer'" for name in numbers if schema.has(table, name)]
        for row in rows.rows_in(
            f"SELECT {key} AS id FROM {table} WHERE conversation_id IN (?*) AND ({' OR '.join(odd)})",
            conversations,
        ):
            found.append(Unheld(table, Why.WRONG_TYPE, _said(row["id"])))
    return found


def _without_conversation(rows: Rows, schema: Schema) -> Iterator[Unheld]:
    missing = "NOT EXISTS (SELECT 1 FROM conversations AS c WHERE c.conversation_id IS t.conversation_id)"
    for table, key in (("messages", "message_id"), ("summaries", "summary_id")):
        for (ref,) in rows.tuples(f"SELECT t.{key} FROM {table} AS t WHERE {missing}"):
            yield Unheld(table, Why.NO_CONVERSATION, _said(ref))
    if schema.has("context_items", "conversation_id"):
        for owner, ordinal, ref in rows.tuples(
            f"""SELECT t.conversation_id, t.ordinal, coalesce(t.summary_id, t.message_id)
            FROM context_items AS t WHERE {missing}"""
        ):
            yield _item(owner, ordinal, ref)


def _parts(
    rows: Rows, schema: Schema, sessions: Collection[str], unreadable: Sequence[int], *, whole: bool
) -> Iterator[Unheld]:
    if not schema.has("message_parts"):
        return
    for row in rows.rows("""SELECT p.part_id, p.message_id, p.session_id FROM message_parts AS p
        WHERE NOT EXISTS (SELECT 1 FROM messages AS m JOIN conversations USING (conversation_id)
            WHERE m.message_id = p.message_id)"""):
        if whole or (text(row["session_id"]) or "").strip() in sessions:
            yield _part(row["part_id"], row["message_id"])
    sql = "SELECT part_id, message_id FROM message_parts WHERE message_id IN (?*)"
    for row in rows.rows_in(sql, unreadable):
        yield _part(row["part_id"], row["message_id"])


def _odd_links(rows: Rows, schema: Schema, conversations: Sequence[int], *, whole: bool) -> Iterator[Unheld]:
    """Links of summaries that are not there, and to what is no id."""
    for table, key in (("summary_messages", "message_id"), ("summary_parents", "parent_summary_id")):
        if not schema.has(table):
            continue
        if whole:
            for one, ref in rows.tuples(
                f"""SELECT t.summary_id, t.{key} FROM {table} AS t WHERE NOT EXISTS (
                SELECT 1 FROM summaries AS s JOIN conversations USING (conversation_id)
                WHERE s.summary_id = t.summary_id)"""
            ):
                yield _link(table, one, ref, Why.NO_SUMMARY)
        for row in rows.rows_in(
            f"""SELECT t.summary_id AS one, t.{key} AS ref FROM summaries AS s
            JOIN {table} AS t ON t.summary_id = s.summary_id
            WHERE s.conversation_id IN (?*) AND typeof(t.{key}) NOT IN ('integer', 'text')""",
            conversations,
        ):
            yield _link(table, row["one"], row["ref"], Why.NO_END)


# -- names -----------------------------------------------------------------------------------------------


def _link(table: str, one: SqlValue, ref: SqlValue, why: Why) -> Unheld:
    return Unheld(table, why, f"{_said(one)} to {_said(ref)}")


def _item(owner: SqlValue, ordinal: SqlValue, ref: SqlValue) -> Unheld:
    place = f"ordinal {_said(ordinal)} of conversation {_said(owner)}"
    return Unheld("context_items", Why.NO_TARGET, f"{_said(ref)} at {place}")


def _part(part: SqlValue, message: SqlValue) -> Unheld:
    return Unheld("message_parts", Why.NO_MESSAGE, f"{_said(part)} of message {_said(message)}")


def _said(value: SqlValue) -> str:
    return "NULL" if value is None else safe_line(text(value) or "''")


# -- sessions as records ---------------------------------------------------------------------------------
# Remnic's sessions, turns and nodes, for lists and one session.

_RECORDS = "lcm-tui:conversation:"


class SessionEntry(Record, frozen=True):
    """A session as a line of a list."""

    session: SessionId
    turns: int
    imported: int  #: turns that an importer brought
    parts: int
    nodes: int
    max_depth: int | None
    tokens: int
    first_at: str | None
    last_at: str | None
    records: int = 0  #: conversations of which an import of ours kept the rest


class Contents(Record, frozen=True):
    """What a database of Remnic's holds."""

    version: str | None
    sessions: tuple[SessionEntry, ...]


class StoredPart(Record, frozen=True):
    """A row of Remnic's parts."""

    ordinal: int | None
    kind: str


class StoredTurn(Record, frozen=True):
    """A row of Remnic's messages with its parts."""

    turn_index: int
    role: str
    content: str
    tokens: int
    created_at: str
    origin: Origin | None
    parts: tuple[StoredPart, ...]


class StoredNode(Record, frozen=True):
    """A row of Remnic's summary nodes."""

    id: str
    depth: int
    parent_id: str | None
    text: str
    tokens: int
    start: int
    end: int
    created_at: str


class StoredSession(Record, frozen=True):
    """Everything that Remnic holds of a session."""

    session: SessionId
    turns: tuple[StoredTurn, ...]  #: in order
    nodes: tuple[StoredNode, ...]
    records: int  #: conversations of which an import of ours kept the rest


def read_contents(path: Path) -> Contents:
    """The sessions of a database, in the order in which they began; blocks.

    Raises:
        LcmError: the file cannot be read, or is not Remnic's.
    """
    return read_remnic(path, _load_contents)


def _load_contents(rows: Rows) -> Contents:
    version = None
    if schema.has_table(rows, schema.META):
        found = rows.tuples("SELECT value FROM lcm_meta WHERE key = 'schema_version'")
        version = text(found[0][0]) if found else None
    counted: dict[str, SessionEntry] = {}
    parts = _part_counts(rows)
    nodes = {
        text(row["session_id"]) or "": row
        for row in rows.rows(
            "SELECT session_id, count(*) AS n, max(depth) AS depth FROM lcm_summary_nodes GROUP BY session_id"
        )
    }
    for row in rows.rows(
        """SELECT session_id, count(*) AS n, CAST(total(token_count) AS INTEGER) AS tokens,
        min(created_at) AS first_at, max(created_at) AS last_at,
        sum(metadata LIKE '%"source_seq"%') AS imported
        FROM lcm_messages GROUP BY session_id"""
    ):
        name = text(row["session_id"]) or ""
        below = nodes.pop(name, None)
        counted[name] = SessionEntry(
            SessionId(name),
            row["n"],
            row["imported"] or 0,
            parts.get(name, 0),
            below["n"] if below else 0,
            number(below["depth"]) if below else None,
            number(row["tokens"]) or 0,
            text(row["first_at"]),
            text(row["last_at"]),
        )
    for name, row in nodes.items():
        depth = number(row["depth"])
        counted[name] = SessionEntry(SessionId(name), 0, 0, 0, row["n"], depth, 0, None, None)
    records = Counter(_recorded_sessions(rows))
    for name in records:
        counted.setdefault(name, SessionEntry(SessionId(name), 0, 0, 0, 0, None, 0, None, None))
    entries = (replace(one, records=records[one.session]) for one in counted.values())
    return Contents(version, tuple(sorted(entries, key=lambda one: (one.first_at or "", one.session))))


def _part_counts(rows: Rows) -> dict[str, int]:
    if not schema.has_table(rows, schema.PARTS):
        return {}
    found = rows.rows(
        """SELECT m.session_id, count(*) AS n FROM lcm_message_parts AS p
        JOIN lcm_messages AS m ON m.id = p.message_id GROUP BY m.session_id"""
    )
    return {text(row["session_id"]) or "": row["n"] for row in found}


def _recorded_sessions(rows: Rows) -> list[str]:
    """The session of each conversation of which something was kept."""
    if not schema.has_table(rows, schema.META):
        return []
    found = rows.tuples(
        "SELECT key FROM lcm_meta WHERE substr(key, 1, ?) = ? ORDER BY key", (len(_RECORDS), _RECORDS)
    )
    keys = [row[0] for row in found if isinstance(row[0], str)]
    return [key.removeprefix(_RECORDS).partition(":")[2] for key in keys]


def session_named(path: Path, name: str) -> SessionId:
    """The session of an id or of the beginning of one.

    Raises:
        NotFoundError: there is no such session, or several begin so.
    """
    every = [one.session for one in read_contents(path).sessions]
    matching = [one for one in every if one == name] or [one for one in every if one.startswith(name)]
    if len(matching) != 1:
        what = f"{len(matching)} sessions begin with {name}" if matching else f"No session matched {name}"
        raise NotFoundError(
            f"{what} in {path}. `lcm-tui remnic list` shows them.",
            code="SESSION_NOT_FOUND",
            details={"sessionId": name},
        )
    return matching[0]


def read_session(path: Path, session: SessionId) -> StoredSession:
    """Everything of a session; blocks.

    Raises:
        LcmError: the file cannot be read, or is not Remnic's.
    """
    return read_remnic(path, _load_session, session)


def _load_session(rows: Rows, session: SessionId) -> StoredSession:
    found = rows.rows(
        """SELECT id, turn_index, role, content, token_count, created_at, metadata FROM lcm_messages
        WHERE session_id = ? ORDER BY turn_index, id""",
        (session,),
    )
    parts = load_parts(rows, [row["id"] for row in found]) if schema.has_table(rows, schema.PARTS) else {}
    turns = tuple(_turn(row, parts.get(row["id"], [])) for row in found)
    sql = f"""SELECT {", ".join(_NODES.names)} FROM lcm_summary_nodes
        WHERE session_id = ? ORDER BY depth, msg_start, id"""
    nodes = tuple(map(_NODES.record, rows.rows(sql, (session,))))
    records = _recorded_sessions(rows).count(session)
    return StoredSession(session, turns, nodes, records)


def _turn(row: Row, parts: list[Row]) -> StoredTurn:
    held = tuple(map(_PARTS.record, parts))
    return _TURNS.record(row, origin=origin_in(row["metadata"]), parts=held)


_TURNS: Final = Columns("lcm_messages", StoredTurn, text, tokens="token_count", origin=None, parts=None)
_PARTS: Final = Columns(schema.PARTS, StoredPart, text)
_NODES: Final = Columns(
    "lcm_summary_nodes",
    StoredNode,
    text,
    text="summary_text",
    tokens="token_count",
    start="msg_start",
    end="msg_end",
)
