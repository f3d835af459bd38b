"""The host's own database, read in one transaction.

A living host writes to it, so it is opened as a conversation database is (docs/spec/decisions.md, "No
trace"), for one load, with SELECT alone: its checks use functions that this program's SQLite may not have.
Columns are asked for by name, and NULL stands for those that a schema does not have.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Concatenate, Final

from lcm_core.base.errors import DatabaseBusyError, DatabaseError
from lcm_core.base.values import P, T
from lcm_core.store.opening import (
    TICK_NS,
    Access,
    FileState,
    Row,
    Rows,
    SqlValue,
    Way,
    WayInChanged,
    choose_way,
    file_state,
    private_copy,
    remove_copy,
)
from lcm_core.store.wal import diagnose

#: A host that writes is waited for so long. s
_WAIT: Final = 2.0
#: How often something is read that was written meanwhile.
_READINGS: Final = 10
#: The oldest SQLite that can open a file with STRICT tables.
_NEEDED: Final = (3, 37)
_BLOB_CHUNK: Final = 1024 * 1024


class HostRows(Rows):
    """One read transaction of a host's database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._columns: dict[str, frozenset[str]] = {}
        self.path = path

    def has(self, table: str, column: str | None = None) -> bool:
        """Whether this file has the table (and, when named, the column)."""
        if table not in self._columns:
            found = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = frozenset(row[0] for row in found)
        columns = self._columns[table]
        return bool(columns) if column is None else column in columns

    def need(self, table: str, *columns: str) -> None:
        """Refuse a file without a table and columns that nothing can be read without.

        Raises:
            DatabaseError: it is another program's, or its schema is one that is not known.
        """
        if not self.has(table):
            raise self._unknown(f"table {table}")
        lacking = next((one for one in columns if not self.has(table, one)), None)
        if lacking is not None:
            raise self._unknown(f"column {table}.{lacking}")

    def _unknown(self, part: str) -> DatabaseError:
        number = self.schema_number
        return DatabaseError(
            f"{self.path} has no {part} (its schema is {number}): its sessions cannot be read by this "
            "version of lcm-tui. Check that it is OpenClaw's, and look for a newer lcm-tui.",
            code="HOST_SCHEMA_UNKNOWN",
            details={"path": str(self.path), "schema": number},
        )

    @property
    def schema_number(self) -> int:
        """The host's own number of the schema."""
        [(number,)] = self._connection.execute("PRAGMA user_version").fetchall()
        return int(number)

    def select(self, table: str, alias: str, columns: Iterable[str]) -> str:
        """A select list of *columns*, NULL in place of those that this file does not have."""
        return ", ".join(
            f"{alias}.{name} AS {name}" if self.has(table, name) else f"NULL AS {name}" for name in columns
        )

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._connection.execute(sql, parameters)

    def each(self, sql: str, parameters: Sequence[SqlValue] = ()) -> Iterator[Row]:
        """The rows of a query, one after the other, every value as it is stored."""
        yield from self._connection.execute(sql, parameters)

    def first(self, sql: str, parameters: Sequence[SqlValue] = ()) -> Row | None:
        """The first row of a query, or None."""
        found: Row | None = self._connection.execute(sql, parameters).fetchone()
        return found

    def blob(self, table: str, column: str, row: int) -> Generator[bytes, None, None]:
        """A value of bytes in pieces, so that it is never held as a whole."""
        with self._connection.blobopen(table, column, row, readonly=True) as blob:
            while piece := blob.read(_BLOB_CHUNK):
                yield piece


def read_host(
    path: Path, load: Callable[Concatenate[HostRows, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run *load* over one state of a host's database; blocks. It may run again, so it has no other effect.

    Raises:
        DatabaseMissingError: there is no such file.
        DatabaseBusyError: it was written each time that it was read.
        DatabaseError: it cannot be read, or not by this machine's SQLite.
    """
    if sqlite3.sqlite_version_info < _NEEDED:
        raise DatabaseError(
            f"{path} contains OpenClaw's sessions, but SQLite {sqlite3.sqlite_version} of this Python cannot "
            "open it: run lcm-tui with a Python whose SQLite is 3.37 or later.",
            code="SQLITE_TOO_OLD",
            details={"path": str(path), "sqlite": sqlite3.sqlite_version},
        )
    begun = time.monotonic()
    refused: DatabaseError | None = None
    for _ in range(_READINGS):
        state = file_state(path)
        way = choose_way(path)
        try:
            found = _read_by(way, path, load, *args, **kwargs)
            if way.access is not Access.IMMUTABLE or _is_unchanged(path, state):
                return found
        except WayInChanged:
            pass
        except sqlite3.Error as error:
            instead = way.instead(error, state)
            if instead is not None:
                with suppress(sqlite3.Error):
                    return _read_by(instead, path, load, *args, **kwargs)
            refused = diagnose(error, path)
            if state is None or _is_unchanged(path, state) or isinstance(refused, DatabaseBusyError):
                raise refused from error
        if time.monotonic() - begun > _WAIT:
            break
        time.sleep(TICK_NS / 1e9)
    raise refused or DatabaseBusyError(
        f"{path} was written each time that it was read. Try again in a moment."
    )


def _is_unchanged(path: Path, state: FileState | None) -> bool:
    now = file_state(path)
    return state is None or now is None or state.unchanged_until(now)


def _read_by(
    way: Way, path: Path, load: Callable[Concatenate[HostRows, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    copy: Path | None = None
    try:
        if way.access is Access.COPY:
            copy = private_copy(way.location, lambda: False)
            way = Way(Access.COPY, copy)
        with closing(way.connect(_WAIT)) as connection:
            connection.execute("BEGIN")
            return load(HostRows(connection, path), *args, **kwargs)
    finally:
        if copy is not None:
            remove_copy(copy)
