"""An open database: short read transactions on a few connections, and a watch for what others write.

Nothing here can write: every connection is read-only or immutable and has ``query_only`` set. Connections
are opened again when the file calls for another way in (a WAL appeared, the file was replaced), so callers
hold a `Database` and never a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import aiosqlite

from lcm_core.errors import DatabaseError
from lcm_core.store.opening import (
    Access,
    FileState,
    choose_access,
    explain,
    file_state,
    private_copy,
)
from lcm_core.store.schema import Schema, check_essential

P = ParamSpec("P")
T = TypeVar("T")

Row = sqlite3.Row

#: SQLite holds at most 999 parameters in one statement in its oldest supported builds.
CHUNK = 500
#: Statements of one connection that are kept compiled.
POLL_SECONDS = 0.2


class Reader:
    """One read transaction: every statement sees the same state of the file."""

    def __init__(self, connection: aiosqlite.Connection, schema: Schema) -> None:
        self._connection = connection
        self.schema = schema
        self.statements = 0

    async def rows(self, sql: str, *parameters: object) -> list[Row]:
        """All rows of a query, addressed by column name."""
        self.statements += 1
        return list(await self._connection.execute_fetchall(sql, parameters))

    async def row(self, sql: str, *parameters: object) -> Row | None:
        """The first row of a query, or None."""
        found = await self.rows(sql, *parameters)
        return found[0] if found else None

    async def value(self, sql: str, *parameters: object) -> Any:
        """The first column of the first row, or None."""
        found = await self.row(sql, *parameters)
        return None if found is None else found[0]

    async def rows_in(self, sql: str, keys: Iterable[object], *parameters: object) -> list[Row]:
        """The rows of a query whose text holds ``IN (?*)``, asked in chunks of the *keys*.

        *parameters* stand before the keys.
        """
        wanted = list(keys)
        found: list[Row] = []
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            marks = ", ".join("?" * len(chunk))
            found += await self.rows(sql.replace("?*", marks), *parameters, *chunk)
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """Something wrote to the file, or it came or went."""

    at: datetime  #: when it was noticed, UTC
    state: FileState | None  #: None: the file is gone


@dataclass(slots=True)
class _Handle:
    """One opening of the file: a way in, its schema, and its idle connections."""

    access: Access
    location: Path  #: the file itself, or its private copy
    state: FileState | None
    schema: Schema
    idle: list[aiosqlite.Connection] = field(default_factory=list)
    in_use: int = 0
    retired: bool = False


class Database:
    """A database file that is read, and only read."""

    def __init__(self, path: Path, *, busy_seconds: float = 5.0) -> None:
        self.path = path
        self.statements = 0  #: how many statements have run, for tests that count them
        self._busy_seconds = busy_seconds
        self._handle: _Handle | None = None
        self._reopening = asyncio.Lock()
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, busy_seconds: float = 5.0) -> Database:
        """Open *path* without leaving a trace beside it.

        Raises:
            DatabaseError: it is missing, damaged, locked, encrypted, or of another program.
        """
        database = cls(path, busy_seconds=busy_seconds)
        database._handle = await database._open_handle()
        return database

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def access(self) -> Access:
        """How the file is read at present."""
        return self._current().access

    @property
    def schema(self) -> Schema:
        """What the file's schema can do."""
        return self._current().schema

    @property
    def state(self) -> FileState | None:
        """The file as it was when it was last looked at."""
        return self._current().state

    async def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *load* in one read transaction; cancelling the caller interrupts the statement.

        Raises:
            DatabaseError: SQLite refused a statement, said in a sentence for people.
        """
        try:
            return await self._read_once(load, *args, **kwargs)
        except sqlite3.Error as error:
            if not await self._moved_on():
                raise self._explain(error) from error
        # An immutable file was written under us: what was read may be torn, so read it again.
        await self.reopen()
        try:
            return await self._read_once(load, *args, **kwargs)
        except sqlite3.Error as error:
            raise self._explain(error) from error

    async def watch(self) -> AsyncIterator[Change]:
        """Yield whenever another process wrote to the file, replaced it, or took it away."""
        while not self._closed:
            await asyncio.sleep(POLL_SECONDS)
            state = await asyncio.to_thread(file_state, self.path)
            handle = self._current()
            if state == handle.state:
                continue
            if state is not None and await self._calls_for_reopening(handle, state):
                # A host that is just creating or replacing the file: try again at the next poll.
                with contextlib.suppress(DatabaseError):
                    await self.reopen()
            handle = self._current()
            handle.state = state
            yield Change(datetime.now(UTC), state)

    async def reopen(self) -> None:
        """Look at the file afresh: another way in, another schema, another copy."""
        async with self._reopening:
            fresh = await self._open_handle()
            old, self._handle = self._current(), fresh
            old.retired = True
            if not old.in_use:
                await _retire(old)

    async def close(self) -> None:
        """Close every connection and remove a private copy."""
        self._closed = True
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.retired = True
            if not handle.in_use:
                await _retire(handle)

    def _current(self) -> _Handle:
        if self._handle is None:
            raise DatabaseError(f"{self.path} has been closed.")
        return self._handle

    async def _read_once(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        handle = self._current()
        handle.in_use += 1
        connection: aiosqlite.Connection | None = None
        try:
            connection = handle.idle.pop() if handle.idle else await self._connect(handle)
            reader = Reader(connection, handle.schema)
            await connection.execute("BEGIN")
            try:
                return await load(reader, *args, **kwargs)
            except asyncio.CancelledError:
                await asyncio.shield(connection.interrupt())
                raise
            finally:
                self.statements += reader.statements
                await asyncio.shield(_end(connection))
        finally:
            handle.in_use -= 1
            if connection is not None:
                handle.idle.append(connection)
            if handle.retired and not handle.in_use:
                await asyncio.shield(_retire(handle))

    async def _open_handle(self) -> _Handle:
        """Choose the way in and read the schema; the first connection stays for later reads."""
        state = await asyncio.to_thread(file_state, self.path)
        access = await asyncio.to_thread(choose_access, self.path)
        if access is Access.READ_ONLY and state is not None and state.wal_size:
            try:
                return await self._try_handle(access, self.path, state)
            except sqlite3.Error as error:
                if not _unreadable_wal(error):
                    raise self._explain(error) from error
                access = Access.COPY
        location = await asyncio.to_thread(private_copy, self.path) if access is Access.COPY else self.path
        try:
            return await self._try_handle(access, location, state)
        except (sqlite3.Error, DatabaseError) as error:
            if access is Access.COPY:
                shutil.rmtree(location.parent, ignore_errors=True)
            if isinstance(error, DatabaseError):
                raise
            raise self._explain(error) from error

    async def _try_handle(self, access: Access, location: Path, state: FileState | None) -> _Handle:
        handle = _Handle(access, location, state, Schema({}))
        connection = await self._connect(handle)
        try:
            handle.schema = await _read_schema(connection)
            check_essential(handle.schema, str(self.path))
        except BaseException:
            await connection.close()
            raise
        handle.idle.append(connection)
        return handle

    async def _connect(self, handle: _Handle) -> aiosqlite.Connection:
        query = "immutable=1" if handle.access is Access.IMMUTABLE else "mode=ro"
        connection = await aiosqlite.connect(
            f"{handle.location.resolve().as_uri()}?{query}",
            uri=True,
            isolation_level=None,
            timeout=self._busy_seconds,
            cached_statements=64,
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.text_factory = _decode
            await connection.execute("PRAGMA query_only = 1")
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _moved_on(self) -> bool:
        state = await asyncio.to_thread(file_state, self.path)
        return state is not None and state != self._current().state

    async def _calls_for_reopening(self, handle: _Handle, state: FileState) -> bool:
        """Whether connections made earlier would not see what is in the file now."""
        if handle.access is not Access.READ_ONLY or handle.state is None:
            return True
        if state.inode != handle.state.inode:
            return True
        try:
            wanted = await asyncio.to_thread(choose_access, self.path)
        except DatabaseError:
            return False
        return wanted is not handle.access

    def _explain(self, error: sqlite3.Error) -> DatabaseError:
        return explain(getattr(error, "sqlite_errorname", "") or "", str(error), self.path)


def _decode(raw: bytes) -> str:
    """TEXT may hold invalid UTF-8: what cannot be decoded survives as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")


def _unreadable_wal(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))


async def _end(connection: aiosqlite.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            await connection.execute("ROLLBACK")


async def _retire(handle: _Handle) -> None:
    while handle.idle:
        await handle.idle.pop().close()
    if handle.access is Access.COPY:
        await asyncio.to_thread(shutil.rmtree, handle.location.parent, ignore_errors=True)


async def _read_schema(connection: aiosqlite.Connection) -> Schema:
    """Every table and its columns; virtual tables are listed by name alone (their module may be missing)."""
    tables: dict[str, frozenset[str]] = {}
    listed = await connection.execute_fetchall("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    for name, sql in listed:
        if sql is not None and str(sql).upper().startswith("CREATE VIRTUAL"):
            tables[name] = frozenset()
            continue
        columns = await connection.execute_fetchall("SELECT name FROM pragma_table_info(?)", (name,))
        tables[name] = frozenset(str(column[0]) for column in columns)
    return Schema(tables)
