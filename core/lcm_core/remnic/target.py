"""What Remnic holds of one session, read under whatever transaction asks: `Rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from lcm_core.errors import FileMissingError
from lcm_core.remnic import schema
from lcm_core.remnic.payloads import parsed_object
from lcm_core.remnic.records import LIMIT, Origin, SessionId, is_place
from lcm_core.remnic.wanted import SOURCE
from lcm_core.store.connecting import Row, Rows, SqlValue, quoted
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import connect_memory
from lcm_core.store.typed import text

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnKey:
    """A turn without its text."""

    id: int
    turn_index: SqlValue
    created_at: SqlValue
    origin: Origin | None  #: None: Remnic recorded it itself


@dataclass(frozen=True, slots=True)
class Session:
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
            "Give Remnic's lcm.sqlite with --remnic, or its memory folder with --memory-dir.",
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
