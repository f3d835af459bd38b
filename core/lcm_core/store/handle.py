"""One opening of a database file: a way in, its schema, and read-only connections to it.

Every read has a connection to itself while it runs. A handle that was retired (the file calls for another
way in) serves the reads that still run and then closes; nothing is left behind by a read that is cancelled.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from lcm_core.errors import DatabaseBusyError, DatabaseError
from lcm_core.store.opening import (
    TICK_NS,
    Access,
    FileState,
    Way,
    choose_way,
    file_state,
    private_copy,
    remove_copy,
)
from lcm_core.store.schema import LISTING, Schema, check_essential, listed_schema
from lcm_core.store.wal import diagnose

T = TypeVar("T")

#: How long an interrupted connection is given before it is interrupted again.
AGAIN_SECONDS = 0.01
#: A private copy is made again at most every so many times as long as copying takes.
COPY_PAUSE = 20
#: How often a file is opened at least that is written in the moment in which it is opened without a lock; and
#: again for as long as a lock would be waited for.
OPENINGS = 10


class _WrittenMeanwhileError(Exception):
    """What was read without a lock may be torn."""


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One connection: as it is awaited, and as it is for what runs in one piece in a thread of its own."""

    connection: aiosqlite.Connection
    direct: sqlite3.Connection

    async def in_thread(self, work: Callable[[], T], end: Callable[[], None]) -> T:
        """Run *work* in a thread; cancelling the caller calls *end*, interrupts, and awaits its end."""
        running = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            end()
            await _to_the_end(self._interrupt_until(running))
            raise

    async def _interrupt_until(self, running: asyncio.Future[T]) -> None:
        """A statement that has been asked for but not begun would not notice one interrupt."""
        while not running.done():
            self.direct.interrupt()
            await asyncio.wait((running,), timeout=AGAIN_SECONDS)
        if not running.cancelled():
            running.exception()


#: What is done with a connection that has begun a transaction, in a thread, before anything is read.
Arrange = Callable[["Link", Schema], Awaitable[None]]


class Handle:
    """Connections to one state of the file system; made by `open_handle`."""

    def __init__(self, path: Path, way: Way, busy_seconds: float, arrange: Arrange | None = None) -> None:
        self.path = path
        self._arrange = arrange
        self._way = way
        self.access = way.access
        self.state: FileState | None = None  #: the file as the connections see it
        self.schema = Schema({})
        self.schema_number = 0  #: what SQLite counts up at every change of the schema
        self.keep_until = 0.0  #: a copy is not made again before this (`time.monotonic`)
        self._busy_seconds = busy_seconds
        self._idle: list[Link] = []
        self._busy: set[Link] = set()
        self._users = 0
        self._used_at = 0.0  #: when the last read ended, monotonic
        self._retired = False
        self._closed = asyncio.Event()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Link]:
        """A connection in a read transaction; cancelling the caller interrupts what runs in it."""
        self._users += 1
        link: Link | None = None
        cancelled = False
        try:
            while not self._idle:
                await _to_the_end(self._connect())
            link = self._idle.pop()
            self._busy.add(link)
            await link.connection.execute("BEGIN")
            if self._arrange is not None and self.schema.tables:
                await self._arrange(link, self.schema)
            yield link
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            await _to_the_end(self._give_back(link, interrupt=cancelled))

    @property
    def closed(self) -> bool:
        """Whether the last connection is closed."""
        return self._closed.is_set()

    async def rest(self, after: float) -> None:
        """Close what has not been read with for *after* seconds: a host that exits then removes its WAL.

        SQLite removes ``-wal`` and ``-shm`` with the last connection; one of ours would keep them there.
        """
        if not self._way.beside_wal or self._users or time.monotonic() - self._used_at < after:
            return
        resting, self._idle = self._idle, []
        self._users += 1
        try:
            await _to_the_end(_close_all(resting))
        finally:
            await self._leave()

    async def retire(self) -> None:
        """Close as soon as no read runs any more."""
        self._retired = True
        if not self._users:
            await self._close()

    async def end(self) -> None:
        """Interrupt the reads that run, and close."""
        await self.retire()
        while not self._closed.is_set():
            for link in tuple(self._busy):
                link.direct.interrupt()
            await asyncio.sleep(AGAIN_SECONDS)

    async def read_schema(self) -> None:
        """Read what tables and columns there are.

        Raises:
            DatabaseError: the database of another program.
            sqlite3.Error: the file cannot be read.
        """
        async with self.transaction() as link:
            listed = await link.connection.execute_fetchall(LISTING)
            self.schema_number = await _pragma(link, "schema_version")
        self.schema = listed_schema(listed)
        check_essential(self.schema, str(self.path))

    async def read_is_whole(self) -> bool:
        """Whether what was read so far is whole: an immutable connection takes no lock."""
        if self.access is not Access.IMMUTABLE or self.state is None:
            return True
        now = await asyncio.to_thread(file_state, self.path)
        return now is None or self.state.unchanged_until(now)  # one that is gone is not written any more

    async def sees_all(self, state: FileState) -> bool:
        """Whether these connections, and the schema as it was read, fit the file in its new *state*.

        A file that we hold locks on is not looked into: closing it would drop them (POSIX).

        Raises:
            DatabaseError: the file cannot be opened any more.
        """
        if self.access is Access.IMMUTABLE or self.state is None or state.inode != self.state.inode:
            return False
        if self.access is Access.COPY:
            way = await asyncio.to_thread(choose_way, self.path)
            again = self._way.unlockable or way.access is Access.COPY
            return again and time.monotonic() < self.keep_until
        try:
            async with self.transaction() as link:
                number = await _pragma(link, "schema_version")
                mode = await _pragma(link, "journal_mode")
        except sqlite3.Error:
            return False
        return bool(number == self.schema_number and (mode == "wal") == self._way.beside_wal)

    async def _connect(self) -> None:
        opened: list[sqlite3.Connection] = []

        def opening() -> sqlite3.Connection:
            opened.append(self._way.connect(self._busy_seconds, lambda: not self._retired))
            if self._arrange is not None:  # what it lays over the file must not reach a disk
                opened[0].execute("PRAGMA temp_store = MEMORY")
            return opened[0]

        connection = await aiosqlite.Connection(opening, iter_chunk_size=64)
        self._idle.append(Link(connection, opened[0]))
        if self._closed.is_set():
            await self._close()

    async def _give_back(self, link: Link | None, *, interrupt: bool) -> None:
        try:
            if link is not None:
                settled = await _settle(link.connection, interrupt=interrupt)
                self._busy.discard(link)
                if settled:
                    self._idle.append(link)
                else:
                    await link.connection.close()
        finally:
            self._used_at = time.monotonic()
            await self._leave()

    async def _leave(self) -> None:
        self._users -= 1
        if self._retired and not self._users:
            await self._close()

    async def _close(self) -> None:
        while self._idle:
            await self._idle.pop().connection.close()
        if self.access is Access.COPY:
            await asyncio.to_thread(remove_copy, self._way.location)
        self._closed.set()


async def open_handle(path: Path, busy_seconds: float, arrange: Arrange | None = None) -> Handle:
    """Open *path* in the way that leaves no trace beside it, and read its schema.

    Raises:
        DatabaseBusyError: it is locked, or is written too fast to be opened without a lock.
        DatabaseError: it is missing, damaged, encrypted, or of another program.
    """
    begun, openings = time.monotonic(), 0
    problem: DatabaseError | None = None
    while openings < OPENINGS or time.monotonic() - begun < busy_seconds:
        openings += 1
        state = await asyncio.to_thread(file_state, path)
        try:
            return await _open_now(path, state, busy_seconds, arrange)
        except _WrittenMeanwhileError:
            problem = None
        except DatabaseBusyError:
            raise
        except DatabaseError as error:
            # Perhaps only half of what a host writes or removes at this moment was there.
            problem = error
            now = await asyncio.to_thread(file_state, path)
            if state is None or (state == now and not state.may_hide_a_write):
                raise
        await asyncio.sleep(TICK_NS / 1e9)
    raise problem or DatabaseBusyError(
        f"{path} was written each of {openings} times that it was opened. Try again in a moment."
    )


async def _open_now(
    path: Path, state: FileState | None, busy_seconds: float, arrange: Arrange | None
) -> Handle:
    way = await asyncio.to_thread(choose_way, path)
    try:
        if way.access is not Access.COPY:
            try:
                return await _opened(Handle(path, way, busy_seconds, arrange), state)
            except sqlite3.Error as error:
                instead = await asyncio.to_thread(way.instead, error, state)
                if instead is None:
                    raise
                way = instead
            if way.access is Access.IMMUTABLE:
                return await _opened(Handle(path, way, busy_seconds, arrange), state)
        begun = time.monotonic()
        handle = Handle(path, replace(way, location=await _copy_of(path)), busy_seconds, arrange)
        handle.keep_until = time.monotonic() + COPY_PAUSE * (time.monotonic() - begun)
        return await _opened(handle, state)
    except (sqlite3.Error, DatabaseError) as error:
        raise await asyncio.to_thread(diagnose, error, path) from error


async def _opened(handle: Handle, state: FileState | None) -> Handle:
    handle.state = state
    try:
        await handle.read_schema()
        if not await handle.read_is_whole():
            raise _WrittenMeanwhileError
    except BaseException:
        await handle.end()
        raise
    return handle


async def _copy_of(path: Path) -> Path:
    """A private copy; one that is not wanted any more is stopped and removed."""
    work = _Copying(path)
    copying = asyncio.ensure_future(asyncio.to_thread(work.run))
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        work.give_up()
        await asyncio.wait((copying,))
        raise


class _Copying:
    """The making of a private copy in a thread; perhaps nobody awaits its end, as when the loop ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._made: Path | None = None

    def run(self) -> Path:
        """Make it; one that was given up meanwhile is removed."""
        made = private_copy(self._path, self._stop.is_set)
        with self._lock:
            self._made = made
            if self._stop.is_set():
                remove_copy(made)
        return made

    def give_up(self) -> None:
        """Stop, and remove what was made."""
        with self._lock:
            self._stop.set()
            if self._made is not None:
                remove_copy(self._made)


async def _close_all(links: Iterable[Link]) -> None:
    for link in links:
        await link.connection.close()


async def _settle(connection: aiosqlite.Connection, *, interrupt: bool) -> bool:
    """End its transaction; False when the connection is of no use any more.

    A statement that has been asked for but not begun would not notice one interrupt.
    """
    ending = asyncio.ensure_future(connection.rollback())
    while interrupt and not ending.done():
        await connection.interrupt()
        await asyncio.wait((ending,), timeout=AGAIN_SECONDS)
    try:
        await ending
    except sqlite3.Error:
        return False
    return True


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await *work* to its end, also when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


async def _pragma(link: Link, name: str) -> Any:
    [row] = await link.connection.execute_fetchall(f"PRAGMA {name}")
    return row[0]
