"""Remnic's sessions, turns and nodes as records, for lists and one session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lcm_core.errors import NotFoundError
from lcm_core.remnic import schema
from lcm_core.remnic.records import Origin, SessionId
from lcm_core.remnic.target import load_parts, origin_in, read_remnic
from lcm_core.store.connecting import Row, Rows, SqlValue
from lcm_core.store.typed import number, text

_RECORDS = "lcm-tui:conversation:"


@dataclass(frozen=True, slots=True)
class SessionEntry:
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


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database of Remnic's holds."""

    version: str | None
    sessions: tuple[SessionEntry, ...]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A row of Remnic's parts."""

    id: int
    ordinal: SqlValue
    kind: str
    payload: str
    tool_name: SqlValue
    file_path: SqlValue


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A row of Remnic's messages with its parts."""

    id: int
    turn_index: int
    role: str
    content: str
    tokens: int
    created_at: str
    metadata: str | None
    origin: Origin | None
    parts: tuple[StoredPart, ...]


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A row of Remnic's summary nodes."""

    id: str
    depth: int
    parent_id: str | None
    text: str
    tokens: int
    start: int
    end: int
    created_at: str


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Everything that Remnic holds of a session."""

    session: SessionId
    turns: tuple[StoredTurn, ...]  #: in order
    nodes: tuple[StoredNode, ...]
    records: Mapping[str, str]  #: what was kept of conversations, by key


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
    records: dict[str, int] = {}
    for key in _record_keys(rows):
        name = key.removeprefix(_RECORDS).partition(":")[2]
        records[name] = records.get(name, 0) + 1
        counted.setdefault(name, SessionEntry(SessionId(name), 0, 0, 0, 0, None, 0, None, None))
    entries = (
        SessionEntry(
            one.session,
            one.turns,
            one.imported,
            one.parts,
            one.nodes,
            one.max_depth,
            one.tokens,
            one.first_at,
            one.last_at,
            records.get(one.session, 0),
        )
        for one in counted.values()
    )
    return Contents(version, tuple(sorted(entries, key=lambda one: (one.first_at or "", one.session))))


def _part_counts(rows: Rows) -> dict[str, int]:
    if not schema.has_table(rows, schema.PARTS):
        return {}
    found = rows.rows(
        """SELECT m.session_id, count(*) AS n FROM lcm_message_parts AS p
        JOIN lcm_messages AS m ON m.id = p.message_id GROUP BY m.session_id"""
    )
    return {text(row["session_id"]) or "": row["n"] for row in found}


def _record_keys(rows: Rows) -> list[str]:
    if not schema.has_table(rows, schema.META):
        return []
    found = rows.tuples(
        "SELECT key FROM lcm_meta WHERE substr(key, 1, ?) = ? ORDER BY key", (len(_RECORDS), _RECORDS)
    )
    return [row[0] for row in found if isinstance(row[0], str)]


def session_names(path: Path, wanted: Iterable[str] = ()) -> tuple[SessionId, ...]:
    """The sessions that are meant by ids or beginnings of ids; all without any.

    Raises:
        NotFoundError: there is no such session, or several begin so.
    """
    every = [one.session for one in read_contents(path).sessions]
    found: dict[SessionId, None] = {}
    for name in wanted:
        matching = [one for one in every if one == name] or [one for one in every if one.startswith(name)]
        if len(matching) != 1:
            what = f"{len(matching)} sessions begin with {name}" if matching else f"No session matched {name}"
            raise NotFoundError(
                f"{what} in {path}. `lcm-tui remnic list` shows them.",
                code="SESSION_NOT_FOUND",
                details={"sessionId": name},
            )
        found[matching[0]] = None
    return tuple(found) or tuple(every)


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
    nodes = tuple(
        StoredNode(
            text(row["id"]) or "",
            number(row["depth"]) or 0,
            text(row["parent_id"]),
            text(row["summary_text"]) or "",
            number(row["token_count"]) or 0,
            number(row["msg_start"]) or 0,
            number(row["msg_end"]) or 0,
            text(row["created_at"]) or "",
        )
        for row in rows.rows(
            """SELECT id, depth, parent_id, summary_text, token_count, msg_start, msg_end, created_at
            FROM lcm_summary_nodes WHERE session_id = ? ORDER BY depth, msg_start, id""",
            (session,),
        )
    )
    keys = [key for key in _record_keys(rows) if key.removeprefix(_RECORDS).partition(":")[2] == session]
    records = {
        row["key"]: text(row["value"]) or ""
        for row in rows.rows_in("SELECT key, value FROM lcm_meta WHERE key IN (?*)", keys)
    }
    return StoredSession(session, turns, nodes, records)


def _turn(row: Row, parts: list[Row]) -> StoredTurn:
    return StoredTurn(
        row["id"],
        number(row["turn_index"]) or 0,
        text(row["role"]) or "",
        text(row["content"]) or "",
        number(row["token_count"]) or 0,
        text(row["created_at"]) or "",
        text(row["metadata"]),
        origin_in(row["metadata"]),
        tuple(
            StoredPart(
                each["id"],
                each["ordinal"],
                text(each["kind"]) or "",
                text(each["payload"]) or "",
                text(each["tool_name"]),
                text(each["file_path"]),
            )
            for each in parts
        ),
    )
