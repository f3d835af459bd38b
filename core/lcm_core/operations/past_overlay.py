"""A database read as it was at a point: earlier rows laid over the present ones, for one connection.

docs/spec/past.md, "How it is read".

A name without a database in front of it means a temporary view before it means a table of the file. So where
rows were otherwise, a view of the table's name shows the rows of the file without those that were otherwise,
and those that they were: every query of `lcm_core.store` then reads the past, and none knows of it.

The rows are kept in memory by this connection alone. Nothing is written to the file, which cannot be written
by this connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from lcm_core.base.records import ConversationId
from lcm_core.change.journal import Operation
from lcm_core.change.plan import KEYS, Cells, value_of
from lcm_core.operations.past import OF_SUMMARIES, Earlier, Found, Read, RowKey, read_past
from lcm_core.operations.past_point import Point
from lcm_core.store.database import Database
from lcm_core.store.opening import Rows, SqlValue, quoted
from lcm_core.store.schema import JOURNAL, Schema

#: Tables whose rows are copied for one conversation where some were otherwise: SQLite puts no index below a
#: view of two parts within a join, and would read every message of the file.
MESSAGES: Final = "messages"
COPIED: Final = (MESSAGES, "message_parts")
OVERLAID_CONTEXT: Final = "context_items"
_PREFIX: Final = "lcm_tui_past_"
#: Columns by which rows are looked for, besides their keys.
_LOOKED_FOR: Final = ("conversation_id", "summary_id", "parent_summary_id", "message_id")


def lay_over(
    connection: sqlite3.Connection, schema: Schema, earlier: Earlier, taken: Sequence[Operation]
) -> None:
    """Show *earlier* in place of what is there now, and a history without the operations *taken* back.

    Called within a transaction, which has to be ended by a commit if it is to last.
    """
    with _temporary(connection):
        _lay(connection, schema, earlier)
        if taken and schema.has(JOURNAL):
            _lay_history(connection, taken)


@contextmanager
def _temporary(connection: sqlite3.Connection) -> Iterator[None]:
    """What is temporary may be written; the file itself was opened so that it cannot be."""
    connection.execute("PRAGMA query_only = 0")
    try:
        yield
    finally:
        connection.execute("PRAGMA query_only = 1")


def lift(connection: sqlite3.Connection) -> None:
    """Take away what was laid over a file, within a transaction."""
    with _temporary(connection):
        _remove(connection)


def _lay_history(connection: sqlite3.Connection, taken: Sequence[Operation]) -> None:
    """The operations until then; what was undone later was in effect."""
    gone = f"{_PREFIX}gone_{JOURNAL}"
    connection.execute(f"CREATE TEMP TABLE {gone} (id TEXT PRIMARY KEY)")
    connection.executemany(f"INSERT INTO temp.{gone} VALUES (?)", [(one.id,) for one in taken])
    later = f"(SELECT id FROM temp.{gone})"
    columns = ", ".join(
        f"CASE WHEN undone_by IN {later} THEN NULL ELSE undone_by END AS undone_by"
        if column == "undone_by"
        else quoted(column)
        for column in _columns(connection, JOURNAL)
    )
    connection.execute(
        f"CREATE TEMP VIEW {JOURNAL} AS SELECT rowid AS rowid, {columns} FROM main.{JOURNAL} "
        f"WHERE id NOT IN {later}"
    )


def _remove(connection: sqlite3.Connection) -> None:
    made = connection.execute("SELECT type, name FROM temp.sqlite_master WHERE type IN ('view', 'table')")
    for kind, name in sorted(map(tuple, made.fetchall()), reverse=True):  # views before tables
        connection.execute(f"DROP {kind} temp.{quoted(name)}")


def _lay(connection: sqlite3.Connection, schema: Schema, earlier: Earlier) -> None:
    by_table: dict[str, dict[RowKey, Cells | None]] = {}
    for key, row in earlier.rows.items():
        if schema.has(key[0]):
            by_table.setdefault(key[0], {})[key] = row
    for table in sorted(OF_SUMMARIES):
        if earlier.later and schema.has(table, "summary_id"):
            by_table.setdefault(table, {})
    if earlier.arrived and schema.has(MESSAGES):
        by_table.setdefault(MESSAGES, {})
    if earlier.items is not None and schema.has(OVERLAID_CONTEXT):
        _lay_context(connection, _columns(connection, OVERLAID_CONTEXT), earlier)
    for table, rows in by_table.items():
        _lay_table(connection, table, rows, earlier)


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple([row[1] for row in connection.execute(f"PRAGMA main.table_info({quoted(table)})")])


# -- the context -----------------------------------------------------------------------------------------


def _lay_context(connection: sqlite3.Connection, columns: Sequence[str], earlier: Earlier) -> None:
    """The items of then for those of the conversation; the contexts of others stay."""
    assert earlier.items is not None
    kept = _table(connection, OVERLAID_CONTEXT, columns)
    names, place = ", ".join(map(quoted, columns)), columns.index("ordinal")
    owner = earlier.conversation_id
    now = {
        row[0]: row[1:]
        for row in connection.execute(
            f"SELECT rowid, {names} FROM main.context_items WHERE conversation_id = ?", (owner,)
        )
    }
    rows = []
    for item in earlier.items:
        if isinstance(item.row, int):
            row = list(now[item.row])
        else:
            row = [value_of(item.row.get(name)) for name in columns]
        row[place] = item.ordinal
        rows.append(tuple(row))
    marks = ", ".join("?" * len(columns))
    _insert(connection, kept, f"({names}) VALUES ({marks})", rows)
    connection.execute(
        f"CREATE INDEX temp.{_PREFIX}ordinals ON {_PREFIX}{OVERLAID_CONTEXT} (conversation_id, ordinal)"
    )
    connection.execute(
        f"CREATE TEMP VIEW {OVERLAID_CONTEXT} AS SELECT rowid AS rowid, {names} FROM main.{OVERLAID_CONTEXT} "
        f"WHERE conversation_id <> {owner} UNION ALL SELECT rowid, {names} FROM {kept}"
    )


# -- rows ------------------------------------------------------------------------------------------------


def _lay_table(
    connection: sqlite3.Connection,
    table: str,
    rows: Mapping[RowKey, Cells | None],
    earlier: Earlier,
) -> None:
    """Hide the rows that were otherwise, and add those that they were."""
    columns = _columns(connection, table)
    copied = table in COPIED and any(row is not None for row in rows.values())
    names, name = ", ".join(map(quoted, columns)), quoted(table)
    gone = f"temp.{_PREFIX}gone_{table}"
    connection.execute(f"CREATE TEMP TABLE {_PREFIX}gone_{table} (place INTEGER PRIMARY KEY)")
    places = {key: found for key in rows if (found := _place(connection, name, key)) is not None}
    hidden = {(place,) for place in places.values()}
    for summary_id in earlier.later if table in OF_SUMMARIES else ():
        made = connection.execute(f"SELECT rowid FROM main.{name} WHERE summary_id = ?", (summary_id,))
        hidden |= {(row[0],) for row in made}
    connection.executemany(f"INSERT OR IGNORE INTO {gone} VALUES (?)", hidden)
    if table == MESSAGES:
        connection.executemany(
            f"INSERT OR IGNORE INTO {gone} SELECT rowid FROM main.{name} WHERE message_id = ?",
            [(message_id,) for message_id in earlier.arrived],
        )
    remaining = (
        f"SELECT rowid AS rowid, {names} FROM main.{name} WHERE rowid NOT IN (SELECT place FROM {gone})"
    )
    if table in COPIED and not copied:  # a view of one part, below which SQLite uses every index
        connection.execute(f"CREATE TEMP VIEW {name} AS {remaining}")
        return
    if copied:
        kept = _copy(connection, table, columns, gone, earlier.conversation_id)
    else:
        kept = _table(connection, table, columns)
    _put(connection, table, kept, columns, rows, places)
    if not copied:
        # No index by conversation: with it SQLite takes the view for a few rows, and reads it once for each
        # row of whatever it is joined with.
        shown = f"SELECT rowid AS rowid, {names} FROM {kept}"
        connection.execute(f"CREATE TEMP VIEW {name} AS {remaining} UNION ALL {shown}")


def _put(
    connection: sqlite3.Connection,
    table: str,
    kept: str,
    columns: Sequence[str],
    rows: Mapping[RowKey, Cells | None],
    places: Mapping[RowKey, int],
) -> None:
    """Add the rows that were there; one that is there now, too, keeps its place among the others."""
    names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * (len(columns) + 1))
    whole = KEYS.get(table, ())
    number = whole[0] if len(whole) == 1 else ""
    free = 0
    added: list[tuple[SqlValue, ...]] = []
    for key, row in rows.items():
        if row is None:
            continue
        place = places.get(key)
        counted = value_of(row.get(number)) if number else None
        if place is None and table in ("conversations", "messages") and isinstance(counted, int):
            place = counted
        if place is None:
            [last] = connection.execute(f"SELECT max(rowid) FROM main.{quoted(table)}").fetchone()
            free = max(free, last or 0) + 1
            place = free
        added.append((place, *[value_of(row.get(name)) for name in columns]))
    _insert(connection, kept, f"(rowid, {names}) VALUES ({marks})", added)


def _insert(
    connection: sqlite3.Connection, kept: str, columns_and_values: str, rows: Sequence[tuple[SqlValue, ...]]
) -> None:
    """Add rows; where a text is no UTF-8, one by one, for only so it is bound as the bytes that it was."""
    statement = f"INSERT INTO {kept} {columns_and_values}"
    [before] = connection.execute(f"SELECT count(*) FROM {kept}").fetchone()
    try:
        connection.executemany(statement, rows)
    except UnicodeEncodeError:
        [after] = connection.execute(f"SELECT count(*) FROM {kept}").fetchone()
        for row in rows[after - before :]:
            connection.execute(statement, row)


def _place(connection: sqlite3.Connection, name: str, key: RowKey) -> int | None:
    """The rowid of the row that a key names now."""
    where = " AND ".join(f"{quoted(column)} IS ?" for column in key[1].columns)
    values = tuple([value_of(cell) for cell in key[1].cells])
    found = connection.execute(f"SELECT rowid FROM main.{name} WHERE {where} LIMIT 1", values).fetchone()
    return None if found is None else int(found[0])


def _table(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> str:
    """An empty table of our own with the columns of a table of the file, and their types."""
    names = ", ".join(map(quoted, columns))
    kept = f"{_PREFIX}{table}"
    connection.execute(f"CREATE TEMP TABLE {kept} AS SELECT {names} FROM main.{quoted(table)} LIMIT 0")
    return f"temp.{kept}"


def _copy(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], gone: str, conversation_id: int
) -> str:
    """A table under the name itself, with the rows of the conversation as far as they were as they are."""
    names, name = ", ".join(map(quoted, columns)), quoted(table)
    of_conversation = "SELECT message_id FROM main.messages WHERE conversation_id = ?"
    in_context = "SELECT message_id FROM context_items WHERE conversation_id = ?"
    wanted = f"message_id IN ({of_conversation} UNION {in_context})"
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT {names} FROM main.{name} LIMIT 0")
    connection.execute(
        f"INSERT INTO temp.{name} (rowid, {names}) SELECT rowid, {names} FROM main.{name} "
        f"WHERE {wanted} AND rowid NOT IN (SELECT place FROM {gone})",
        (conversation_id, conversation_id),
    )
    for column in _indexed(table, columns):
        connection.execute(f"CREATE INDEX temp.{_PREFIX}{table}_{column} ON {name} ({quoted(column)})")
    return f"temp.{name}"


def _indexed(table: str, columns: Sequence[str]) -> list[str]:
    """The columns by which rows are looked for."""
    return [name for name in dict.fromkeys((*KEYS.get(table, ()), *_LOOKED_FOR)) if name in columns]


# -- database -------------------------------------------------------------------------------------------
# A database that is read as it was at a point: the same queries, over the rows of then.

#: How often the rows of then are computed at most while another process writes to the file.
TRIES = 3


class Past:
    """One conversation at a point, which may be moved; what its connections show of the database."""

    def __init__(self, conversation_id: ConversationId, point: Point) -> None:
        self.conversation_id = conversation_id
        self.found: Found | None = None  #: what was worked out last
        self._point = (point, 0)
        self._read: Read = {}
        self._lock = Lock()  #: over `_laid`
        self._laid: dict[sqlite3.Connection, tuple[int, int]] = {}

    @property
    def point(self) -> Point:
        """The moment that is shown."""
        return self._point[0]

    def go(self, point: Point) -> None:
        """Show another moment from the next read on."""
        self._point = (point, self._point[1] + 1)

    async def open(self, path: Path, *, busy_seconds: float = 5.0) -> Database:
        """Open *path* so that whatever is read of it is as it was.

        Raises:
            DatabaseError: as `Database.open`.
        """
        return await Database.open(path, busy_seconds=busy_seconds, arrange=self.arrange)

    def arrange(self, connection: sqlite3.Connection, rows: Rows, schema: Schema) -> None:
        """Lay the rows of then over a connection that has begun a transaction, unless they are there already.

        Raises:
            LcmError: there is no such point.
            sqlite3.Error: the file cannot be read.
        """
        for _ in range(TRIES):
            point, number = self._point
            [version] = connection.execute("PRAGMA data_version").fetchone()
            if self._laid.get(connection) == (number, version):
                return
            lift(connection)
            found = read_past(rows, schema.tables, self.conversation_id, point, self._read)
            lay_over(connection, schema, found.earlier, found.cut.taken)
            self.found = found
            # Temporary tables last only when committed, and then another process may write.
            connection.execute("COMMIT")
            connection.execute("BEGIN")
            with self._lock:
                self._laid[connection] = (number, version)
