"""What stands about sessions in a host's database: windows, entries and archives
(docs/spec/host.md, "Sessions in SQLite").

Every function is a load of `lcm_core.store.host_database.read_host`. Tables may have been made by hand: a row
whose key is of a wrong type is left out and counted, every other value is read as what its column promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from lcm_core.base.values import Record, field
from lcm_core.store.host_database import HostRows
from lcm_core.store.opening import Row, SqlValue
from lcm_core.store.schema import Columns, number, text

#: Bytes of an entry that are read; of a longer one only the beginning is shown.
ENTRY_LIMIT: Final = 16 * 1024 * 1024
#: The newest schema of the host that was tried.
TRIED_SCHEMA: Final = 23
#: No id or key is longer, unless somebody means harm.
_NAME_LIMIT: Final = 4096
_EVENTS: Final = "transcript_events"
_IDENTITIES: Final = "transcript_event_identities"
_ACTIVE: Final = "session_transcript_active_events"
_INDEX: Final = "session_transcript_index_state"
_COLD: Final = "session_transcript_cold_archives"
_ARCHIVES: Final = "session_transcript_archives"


class ColdRow(Record, frozen=True):
    """Where a cold session went. Source: ``session_transcript_cold_archives``."""

    row: int  #: of the table, by which its bytes are read
    generation: str | None
    name: str | None  #: of the file in the folder of cold archives
    sha256: str | None  #: of the file as it is packed
    events: int | None  #: the header among them
    raw_bytes: int | None  #: of the transcript's text
    last_seq: int | None
    in_database: bool  #: its bytes are in the row, not in a file


class WindowRow(Record, frozen=True):
    """One generation of a key. Source: ``session_windows`` and the node of its key."""

    session_id: str
    session_key: str | None
    previous_session_id: str | None
    current_session_id: str | None  #: of its key
    entry_json: str | None  #: of its key, where only that can name the session before
    created_ms: int | None
    newest_ms: int | None  #: of its last entry; of a cold one, when its transcript was last written
    cold: ColdRow | None


class ArchiveRow(Record, frozen=True):
    """A session that was deleted or reset. Source: ``session_transcript_archives``."""

    row: int  #: of the table, by which its bytes are read
    session_id: str
    session_key: str | None
    reason: str | None  #: ``deleted`` or ``reset``
    encoding: str | None  #: ``zstd`` or ``identity``
    size: int  #: bytes, packed
    sha256: str | None
    created_ms: int | None


class AgentSessions(Record, frozen=True):
    """What one agent's database lists."""

    windows: tuple[WindowRow, ...]
    archives: tuple[ArchiveRow, ...]
    left_out: int  #: rows without a usable session id
    schema_number: int
    agent: str | None = None  #: whose database it says that it is


class EventRow(Record, frozen=True):
    """A stored entry: its text, or the bytes of it. Exactly one of both is there in a sound row."""

    seq: int  #: 0 is the session's header
    json: str | bytes | None  #: at most `ENTRY_LIMIT` characters and one more
    packed: bytes | None
    packed_size: int | None  #: bytes of ``packed``, also where it is too large to be read
    size: int | None  #: bytes of the entry, as the host recorded them for a packed one
    navigation: str | None  #: what can be said of a packed entry without unpacking it
    created_ms: int | None


class HotState(Record, frozen=True):
    """What a session's rows say of its path."""

    last_seq: int | None  #: None: it has no entry at all
    generation: str | None  #: another one whenever history was rewritten
    indexed: bool  #: the host's own list of the active path is complete
    active: int  #: entries of that list


class OutboxRow(Record, frozen=True):
    """A turn that the engine has not committed. Source: ``context_engine_turn_outbox``."""

    key: str = field(name="advancementKey")
    attempts: int
    last_error: str | None
    created_ms: int | None


class Node(Record, frozen=True):
    """An entry's place in the tree, without its text."""

    seq: int
    entry_id: str
    type: str | None
    parent_id: str | None


def _name(value: object) -> str | None:
    """An id or a key; None for what is none."""
    return value if isinstance(value, str) and value and len(value) <= _NAME_LIMIT else None


_WINDOWS: Final = Columns(
    "session_windows", WindowRow, _name, created_ms="created_at", entry_json=None, newest_ms=None, cold=None
)
_COLDS: Final = Columns(
    _COLD,
    ColdRow,
    _name,
    row=None,
    name="archive_name",
    sha256="archive_sha256",
    events="event_count",
    in_database=None,
)
_ENDED: Final = Columns(
    _ARCHIVES, ArchiveRow, _name, row=None, size=None, sha256="archive_sha256", created_ms="created_at"
)
_WAITING: Final = Columns(
    "context_engine_turn_outbox",
    OutboxRow,
    text,
    key="advancement_key",
    attempts="attempt_count",
    created_ms="created_at",
)


def agent_sessions(rows: HostRows) -> AgentSessions:
    """The sessions of an agent: every window of every key, and what was deleted or reset.

    Raises:
        DatabaseError: the schema is one that is not known.
    """
    rows.need("session_windows", "session_id")
    rows.need(_EVENTS, "session_id", "seq")
    cold = _cold_rows(rows)
    windows: list[WindowRow] = []
    left_out = 0
    for row in rows.each(_windows_sql(rows)):
        session_id = _name(row["session_id"])
        if session_id is None:
            left_out += 1
            continue
        gone_cold = cold.get(session_id)
        written = number(row["written"]) if gone_cold else number(row["newest"])
        entry = row["entry_json"] if isinstance(row["entry_json"], str) else None
        windows.append(_WINDOWS.record(row, entry_json=entry, newest_ms=written, cold=gone_cold))
    archives, unnamed = _archives(rows)
    return AgentSessions(tuple(windows), archives, left_out + unnamed, rows.schema_number, _agent(rows))


def _agent(rows: HostRows) -> str | None:
    if not all(rows.has("schema_meta", name) for name in ("meta_key", "agent_id")):
        return None
    row = rows.first("SELECT agent_id FROM schema_meta WHERE meta_key = 'primary'", ())
    return None if row is None else _name(row[0])


def _windows_sql(rows: HostRows) -> str:
    order = "WHERE session_id = w.session_id ORDER BY seq DESC LIMIT 1"
    times = [
        f"(SELECT created_at FROM {table} {order})"
        for table in (_IDENTITIES, _EVENTS)  # the first is small: an entry's time lies behind its text
        if all(rows.has(table, column) for column in ("session_id", "seq", "created_at"))
    ]
    newest = f"coalesce({', '.join(times)}, NULL)" if times else "NULL"
    names = [
        f"w.{name}" for name in ("transcript_updated_at", "updated_at") if rows.has("session_windows", name)
    ]
    written = f"coalesce({', '.join(names)}, NULL)" if names else "NULL"
    nodes = all(rows.has("session_nodes", name) for name in ("session_key", "current_session_id"))
    keyed = nodes and rows.has("session_windows", "session_key")
    named = keyed and rows.has("session_nodes", "entry_json")
    entry = (
        "CASE WHEN w.previous_session_id IS NULL AND instr(n.entry_json, '\"previousSessionId\"') "
        "THEN n.entry_json END"
        if named and rows.has("session_windows", "previous_session_id")
        else "NULL"
    )
    joined = "LEFT JOIN session_nodes AS n ON n.session_key = w.session_key" if keyed else ""
    columns = ("session_id", "session_key", "previous_session_id", "created_at")
    return (
        f"SELECT {rows.select('session_windows', 'w', columns)}, {newest} AS newest, {written} AS written, "
        f"{'n.current_session_id' if keyed else 'NULL'} AS current_session_id, {entry} AS entry_json "
        f"FROM session_windows AS w {joined}"
    )


def _cold_rows(rows: HostRows) -> dict[str, ColdRow]:
    if not rows.has(_COLD, "session_id"):
        return {}
    found: dict[str, ColdRow] = {}
    columns = rows.select(_COLD, "c", ("session_id", "storage", *_COLDS.names))
    for row in rows.each(f"SELECT c.rowid AS row, {columns} FROM {_COLD} AS c"):
        session_id = _name(row["session_id"])
        if session_id is not None:
            kept = row["storage"] == "sqlite"
            found[session_id] = _COLDS.record(row, row=row["row"], in_database=kept)
    return found


def is_put_away(rows: HostRows, session_id: str) -> bool:
    """Whether a session lies in a cold archive."""
    if not rows.has(_COLD, "session_id"):
        return False
    return rows.first(f"SELECT 1 FROM {_COLD} WHERE session_id = ?", (session_id,)) is not None


def _archives(rows: HostRows) -> tuple[tuple[ArchiveRow, ...], int]:
    if not rows.has(_ARCHIVES, "session_id"):
        return (), 0
    size = "length(a.archive_blob)" if rows.has(_ARCHIVES, "archive_blob") else "0"
    found: list[ArchiveRow] = []
    left_out = 0
    columns = rows.select(_ARCHIVES, "a", _ENDED.names)
    for row in rows.each(f"SELECT a.rowid AS row, {columns}, {size} AS size FROM {_ARCHIVES} AS a"):
        if _name(row["session_id"]) is None:
            left_out += 1
        else:
            found.append(_ENDED.record(row, row=row["row"], size=number(row["size"]) or 0))
    return tuple(found), left_out


def entry_counts(rows: HostRows, session_ids: Sequence[str]) -> dict[str, int]:
    """How many entries sessions have in the table, their headers not counted."""
    rows.need(_EVENTS, "session_id", "seq")
    sql = f"SELECT count(*) FROM {_EVENTS} WHERE session_id = ? AND seq > 0"
    return {one: rows.tuples(sql, (one,))[0][0] for one in session_ids}


def session_status(rows: HostRows, session_key: str | None) -> str | None:
    """What the host last said of a key: ``running``, ``done``, ``failed`` and others."""
    if session_key is None or not rows.has("session_nodes", "status"):
        return None
    row = rows.first("SELECT status FROM session_nodes WHERE session_key = ?", (session_key,))
    return None if row is None else _name(row[0])


def outbox_of(rows: HostRows, session_id: str) -> tuple[OutboxRow, ...]:
    """The turns of a session that wait for the engine, oldest first."""
    table = _WAITING.table
    if not rows.has(table, "session_id"):
        return ()
    columns = rows.select(table, "o", _WAITING.names)
    found = rows.each(
        f"SELECT {columns} FROM {table} AS o WHERE o.session_id = ? ORDER BY o.rowid", (session_id,)
    )
    return tuple(map(_WAITING.record, found))


def marker_count(rows: HostRows, session_id: str, kind: str) -> int:
    """How many entries of a type a session has."""
    if not all(rows.has(_IDENTITIES, name) for name in ("session_id", "event_type")):
        return 0
    sql = f"SELECT count(*) FROM {_IDENTITIES} WHERE session_id = ? AND event_type = ?"
    return int(rows.tuples(sql, (session_id, kind))[0][0])


# -- one session in the table ----------------------------------------------------------------------------


def hot_state(rows: HostRows, session_id: str) -> HotState:
    """What is there of a session, and whether the host's list of its active path can be used."""
    rows.need(_EVENTS, "session_id", "seq")
    [(last,)] = rows.tuples(f"SELECT max(seq) FROM {_EVENTS} WHERE session_id = ?", (session_id,))
    generation = None
    if rows.has("transcript_rewrite_watermarks", "generation"):
        sql = "SELECT generation FROM transcript_rewrite_watermarks WHERE session_id = ?"
        row = rows.first(sql, (session_id,))
        generation = None if row is None else text(row[0])
    last_seq = last if isinstance(last, int) else None
    active = _active_count(rows, session_id, last_seq)
    return HotState(last_seq, generation, active is not None, active or 0)


def _active_count(rows: HostRows, session_id: str, last_seq: int | None) -> int | None:
    """Entries of the host's list; None when it is not complete."""
    needed = ("indexed_seq", "needs_rebuild", "active_event_count")
    if not all(rows.has(_INDEX, name) for name in ("session_id", *needed)):
        return None
    if not all(rows.has(_ACTIVE, name) for name in ("session_id", "active_position", "event_seq")):
        return None
    columns = rows.select(_INDEX, "i", (*needed, "leaf_event_id"))
    state = rows.first(f"SELECT {columns} FROM {_INDEX} AS i WHERE i.session_id = ?", (session_id,))
    if state is None or last_seq is None or state["needs_rebuild"] != 0 or state["indexed_seq"] != last_seq:
        return None
    last = rows.first(
        f"SELECT active_position, event_seq FROM {_ACTIVE} WHERE session_id = ? "
        "ORDER BY active_position DESC LIMIT 1",
        (session_id,),
    )
    count = 0 if last is None else last["active_position"]
    if not isinstance(count, int):
        return None
    count += last is not None
    if count != state["active_event_count"]:
        return None
    return count if last is None or _ends_at_leaf(rows, session_id, last, state["leaf_event_id"]) else None


def _ends_at_leaf(rows: HostRows, session_id: str, last: Row, leaf: SqlValue) -> bool:
    if leaf is None or not rows.has(_IDENTITIES, "event_id"):
        return True
    found = rows.first(
        f"SELECT seq FROM {_IDENTITIES} WHERE session_id = ? AND event_id = ?", (session_id, leaf)
    )
    return found is not None and found[0] == last["event_seq"]


_EVENT_COLUMNS: Final = ("seq", "event_utf8_bytes", "navigation_json", "created_at")


def _event_list(rows: HostRows) -> str:
    whole = f"substr(e.event_json, 1, {ENTRY_LIMIT + 1})" if rows.has(_EVENTS, "event_json") else "NULL"
    packed, size = "NULL", "NULL"
    if rows.has(_EVENTS, "event_zstd"):
        size = "length(e.event_zstd)"
        packed = f"CASE WHEN {size} <= {ENTRY_LIMIT} THEN e.event_zstd END"
    return (
        f"{rows.select(_EVENTS, 'e', _EVENT_COLUMNS)}, {whole} AS event_json, {packed} AS event_zstd, "
        f"{size} AS packed_size"
    )


def active_events(rows: HostRows, session_id: str, start: int, stop: int) -> Iterator[EventRow]:
    """The entries at positions *start* to *stop* of the host's own active path, in order."""
    found = rows.each(
        f"SELECT {_event_list(rows)} FROM {_ACTIVE} AS a "
        f"LEFT JOIN {_EVENTS} AS e ON e.session_id = a.session_id AND e.seq = a.event_seq "
        "WHERE a.session_id = ? AND a.active_position >= ? AND a.active_position < ? "
        "ORDER BY a.active_position",
        (session_id, start, stop),
    )
    return map(_event, found)


def active_seqs(rows: HostRows, session_id: str, start: int, stop: int) -> list[int]:
    """The places in the file of the same entries."""
    found = rows.tuples(
        f"SELECT event_seq FROM {_ACTIVE} WHERE session_id = ? AND active_position >= ? "
        "AND active_position < ? ORDER BY active_position",
        (session_id, start, stop),
    )
    return [row[0] for row in found]


def events_at(rows: HostRows, session_id: str, seqs: Sequence[int]) -> Iterator[EventRow]:
    """The entries at some places, in the order given; one that is not there is left out."""
    sql = f"SELECT {_event_list(rows)} FROM {_EVENTS} AS e WHERE e.session_id = ? AND e.seq = ?"
    for seq in seqs:
        row = rows.first(sql, (session_id, seq))
        if row is not None:
            yield _event(row)


def _event(row: Row) -> EventRow:
    seq = row["seq"]
    packed = row["event_zstd"]
    stored = row["event_json"]
    return EventRow(
        seq if isinstance(seq, int) else -1,
        stored if isinstance(stored, str | bytes) else None,
        packed if isinstance(packed, bytes) else None,
        number(row["packed_size"]),
        number(row["event_utf8_bytes"]),
        text(row["navigation_json"]),
        number(row["created_at"]),
    )


def nodes(rows: HostRows, session_id: str) -> tuple[list[Node], list[int]]:
    """The tree of a session, in the order of the file, and the places whose entries have no id in it.

    The header has its place among those without an entry.
    """
    listed: list[tuple[Any, ...]] = []
    if all(rows.has(_IDENTITIES, name) for name in ("session_id", "event_id", "seq", "parent_id")):
        kind = "event_type" if rows.has(_IDENTITIES, "event_type") else "NULL"
        listed = rows.tuples(
            f"SELECT seq, event_id, {kind}, parent_id FROM {_IDENTITIES} WHERE session_id = ? ORDER BY seq",
            (session_id,),
        )
    found = [
        Node(
            seq,
            entry_id,
            kind if isinstance(kind, str) else None,
            parent if isinstance(parent, str) else None,
        )
        for seq, entry_id, kind, parent in listed
        if _is_place(seq) and isinstance(entry_id, str)
    ]
    known = {node.seq for node in found}
    stored = rows.tuples(f"SELECT seq FROM {_EVENTS} WHERE session_id = ? ORDER BY seq", (session_id,))
    there = {row[0] for row in stored if _is_place(row[0])}
    return [node for node in found if node.seq in there], sorted(there - known)


def _is_place(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 2**62


def off_path(rows: HostRows, session_id: str, lower: int, upper: int | None) -> list[str]:
    """The ids of entries in a range of places that are not on the host's list, in the order of the file."""
    if not rows.has(_IDENTITIES, "event_id"):
        return []
    kind = "AND i.event_type IS NOT 'session'" if rows.has(_IDENTITIES, "event_type") else "AND i.seq > 0"
    found = rows.tuples(
        f"SELECT i.event_id FROM {_IDENTITIES} AS i WHERE i.session_id = ? AND i.seq >= ? "
        f"AND (? IS NULL OR i.seq < ?) {kind} AND NOT EXISTS (SELECT 1 FROM {_ACTIVE} AS a "
        "WHERE a.session_id = i.session_id AND a.event_seq = i.seq) ORDER BY i.seq",
        (session_id, lower, upper, upper),
    )
    return [text(row[0]) or "" for row in found]
