"""An open database: short read transactions on a few connections, and a watch for what others write.

Nothing here can write: every connection is read-only or immutable and has ``query_only`` set. The file is
opened again when it calls for another way in (a WAL appeared, the file was replaced), so callers hold a
`Database` and never a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from lcm_core.errors import DatabaseBusyError, DatabaseError
from lcm_core.store.connecting import CHUNK, Row, Rows, SqlValue, rows_in
from lcm_core.store.handle import Handle, Link, open_handle
from lcm_core.store.opening import Access, FileState, WayInChanged, file_state
from lcm_core.store.schema import Schema
from lcm_core.store.typed import typed
from lcm_core.store.wal import diagnose

P = ParamSpec("P")
T = TypeVar("T")

#: How often the file is looked at.
POLL_SECONDS = 0.2
#: How often something is read at least that is written at the same time, and again for as long as a lock
#: would be waited for, because a batch of ours commits many times in a moment.
READINGS = 3
#: Connections to a file with a WAL are closed when nothing was read for so long.
REST_SECONDS = 0.5


class Reader:
    """One read transaction: every statement sees the same state of the file."""

    def __init__(self, link: Link, schema: Schema) -> None:
        self._link = link
        self._connection = link.connection
        self.schema = schema
        self.statements = 0

    async def rows(self, sql: str, *parameters: object) -> list[Row]:
        """All rows of a query, addressed by column name, their values as the columns promise (`typed`)."""
        return typed(await self.stored(sql, *parameters))

    async def stored(self, sql: str, *parameters: object) -> list[Row]:
        """The same with every value as it is stored, for what changes rows or puts them back."""
        self.statements += 1
        return list(await self._connection.execute_fetchall(sql, parameters))

    async def tuples(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """All rows of a query as plain tuples: without names they take half the time."""
        self.statements += 1
        # Not closed here: when the caller is cancelled that would wait for the statement to end.
        cursor = await self._connection.execute(sql, parameters)
        cursor.row_factory = None
        return cast(list[tuple[Any, ...]], await cursor.fetchall())

    async def run(self, load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *load* as a whole in a thread, over this transaction; values are as they are stored.

        It can be the same function that a commit calls. Cancelling the caller interrupts its statement, and
        awaits its end.
        """
        rows = _Rows(self._link.direct)
        try:
            return await self._link.in_thread(partial(load, rows, *args, **kwargs), rows.end)
        finally:
            self.statements += rows.statements

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

        *parameters* come before the keys.
        """
        return typed(await self.stored_in(sql, keys, *parameters))

    async def stored_in(self, sql: str, keys: Iterable[object], *parameters: object) -> list[Row]:
        """The same with every value as it is stored."""
        wanted = list(keys)
        found: list[Row] = []
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            marks = ", ".join("?" * len(chunk))
            found += await self.stored(sql.replace("?*", marks), *parameters, *chunk)
        return found


class _Rows:
    """What a load asks that runs in a thread (`lcm_core.store.connecting.Rows`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ended = False
        self.statements = 0

    def rows(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def tuples(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        cursor = self._execute(sql, parameters)
        cursor.row_factory = None
        return cursor.fetchall()

    def rows_in(self, sql: str, keys: Iterable[SqlValue]) -> list[Row]:
        return rows_in(self, sql, keys)

    def end(self) -> None:
        """Ask nothing any more: the next statement is refused as one is that was interrupted."""
        self._ended = True

    def _execute(self, sql: str, parameters: Sequence[object]) -> sqlite3.Cursor:
        if self._ended:
            raise sqlite3.OperationalError("interrupted")
        self.statements += 1
        return self._connection.execute(sql, parameters)


async def _arranged(arrange: Arrangement, link: Link, schema: Schema) -> None:
    rows = _Rows(link.direct)
    await link.in_thread(partial(arrange, link.direct, rows, schema), rows.end)


@dataclass(frozen=True, slots=True)
class Change:
    """Something wrote to the file, or it came or went."""

    at: datetime  #: when it was noticed, UTC
    state: FileState | None  #: None: the file is gone


#: What is done with a connection that has begun a transaction, in a thread, before anything is read of it.
Arrangement = Callable[[sqlite3.Connection, Rows, Schema], None]


class Database:
    """A database file that is read, and only read."""

    def __init__(self, path: Path, *, busy_seconds: float = 5.0, arrange: Arrangement | None = None) -> None:
        self._arrange = None if arrange is None else partial(_arranged, arrange)
        self.path = path
        self.statements = 0  #: how many statements have run, for tests that count them
        self._busy_seconds = busy_seconds
        self._handle: Handle | None = None
        self._handles: set[Handle] = set()  #: also those that serve their last reads
        self._seen: FileState | None = None
        self._reopening = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: Path, *, busy_seconds: float = 5.0, arrange: Arrangement | None = None
    ) -> Database:
        """Open *path* without leaving a trace beside it; *arrange* may give each reading another look.

        Raises:
            DatabaseError: it is missing, damaged, locked, encrypted, or of another program.
        """
        database = cls(path, busy_seconds=busy_seconds, arrange=arrange)
        database._handle = await open_handle(path, busy_seconds, database._arrange)
        database._seen = database._handle.state
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
        """The file as it was when it was last looked at; None when it was gone."""
        return self._seen

    @property
    def inode(self) -> int | None:
        """Of the file that is read at present, which may have been replaced since `state` was looked at."""
        state = self._current().state
        return None if state is None else state.inode

    async def read(
        self, load: Callable[Concatenate[Reader, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *load* in one read transaction; cancelling the caller interrupts the statement.

        *load* may run again: what is read while the file is replaced or written under an immutable connection
        may be torn.

        Raises:
            DatabaseBusyError: it was so each time, for as long as a lock is waited for.
            DatabaseError: SQLite refused a statement, said in a sentence for people.
        """
        refused = False
        begun, readings = time.monotonic(), 0
        while readings < READINGS or time.monotonic() - begun < self._busy_seconds:
            readings += 1
            handle = await self._with_all_commits()
            try:
                found = await self._read_with(handle, load, *args, **kwargs)
                if await handle.read_is_whole():
                    return found
            except WayInChanged:
                pass
            except sqlite3.Error as error:
                # Once more, for the file may have been replaced; without a lock, for it may have been torn.
                now = await asyncio.to_thread(file_state, self.path)
                again = handle.access is Access.IMMUTABLE or not refused
                if not again or (handle is self._current() and now == handle.state):
                    self._current()
                    raise await asyncio.to_thread(diagnose, error, self.path) from error
                refused = True
            await self._open_instead_of(handle)
        raise DatabaseBusyError(
            f"{self.path} was written each of {readings} times that it was read. Try again in a moment."
        )

    async def watch(self) -> AsyncIterator[Change]:
        """Yield whenever another process wrote to the file, replaced it, or took it away, until `close`."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            state = await asyncio.to_thread(file_state, self.path)
            if self._handle is None:
                return
            changed = state != self._seen or (state is not None and self._hides_a_write())
            self._seen = state
            if state is not None:
                # A host that is just creating or replacing the file: the next look tries again.
                with contextlib.suppress(DatabaseError):
                    changed |= await self._catch_up(state, changed)
            if changed:
                yield Change(datetime.now(UTC), state)
            if self._handle is not None:
                await self._handle.rest(REST_SECONDS)

    async def refresh(self) -> None:
        """Look at the file now, not at the next poll: what was committed so far is read from here on.

        Raises:
            DatabaseError: the file cannot be opened any more.
        """
        state = await asyncio.to_thread(file_state, self.path)
        if state is not None:
            await self._catch_up(state, True)

    async def close(self) -> None:
        """Interrupt what runs, close every connection, and remove a private copy."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await asyncio.gather(*(each.end() for each in (handle, *self._handles)))
        async with self._reopening:
            pass  # whoever was opening the file again, or gave that up, has closed it by now

    def _current(self) -> Handle:
        if self._handle is None:
            raise DatabaseError(f"{self.path} has been closed.")
        return self._handle

    async def _with_all_commits(self) -> Handle:
        """The present handle, opened again if it is an immutable one and somebody wrote to the file.

        It would miss the commit until the next poll, and for ever where nothing polls.
        """
        handle = self._current()
        if handle.access is Access.IMMUTABLE:
            now = await asyncio.to_thread(file_state, self.path)
            if now is not None and now != handle.state:
                await self._open_instead_of(handle)
        return self._current()

    def _hides_a_write(self) -> bool:
        return self._seen is not None and self._seen.may_hide_a_write

    async def _read_with(
        self,
        handle: Handle,
        load: Callable[Concatenate[Reader, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with handle.transaction() as link:
            reader = Reader(link, handle.schema)
            try:
                return await load(reader, *args, **kwargs)
            finally:
                self.statements += reader.statements

    async def _catch_up(self, state: FileState, changed: bool) -> bool:
        """Open the file again if its present handle does not see what is there now; whether it was."""
        handle = self._current()
        if state == handle.state and not changed:
            return False
        if await handle.sees_all(state):
            if handle.access is not Access.COPY:
                handle.state = state
            return False
        await self._open_instead_of(handle)
        return True

    async def _open_instead_of(self, handle: Handle) -> None:
        async with self._reopening:
            if handle is not self._current():
                return
            fresh = await open_handle(self.path, self._busy_seconds, self._arrange)
            if self._handle is None:
                await fresh.end()
                self._current()
            self._handle = fresh
            self._handles = {each for each in (*self._handles, handle) if not each.closed}
            await handle.retire()
