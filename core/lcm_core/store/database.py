"""An open database: short read transactions on a few connections, and what others write to it.

Nothing here can write: every connection is read-only or immutable and has ``query_only`` set. The file is
opened again when it calls for another way in (a WAL appeared, the file was replaced), so callers hold a
`Database` and never a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeVar, cast

import aiosqlite

from lcm_core.base.errors import DatabaseBusyError, DatabaseError
from lcm_core.base.values import P, Record, T, replace
from lcm_core.store.opening import (
    CHUNK,
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
from lcm_core.store.schema import LISTING, Schema, check_essential, listed_schema, typed
from lcm_core.store.wal import diagnose

if TYPE_CHECKING:
    from lcm_core.store.following import Looks

# -- one opening of the file -----------------------------------------------------------------------------
# A way in, its schema, and read-only connections to it.
#
# Every read has a connection to itself while it runs. A handle that was retired (the file calls for another
# way in) serves the reads that still run and then closes; a cancelled read leaves nothing behind.


#: How long an interrupted connection is given before it is interrupted again.
AGAIN_SECONDS = 0.01
#: A private copy is made again at most every so many times as long as copying takes.
COPY_PAUSE = 20
#: How often a file is opened at least that is written in the moment in which it is opened without a lock; and
#: again for as long as a lock would be waited for.
OPENINGS = 10


class _WrittenMeanwhileError(Exception):
    """What was read without a lock may be torn."""


class Link(Record, frozen=True, eq=False):
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
        if self.access is Access.COPY:  # removed, at the latest, when the program ends
            self._remove = weakref.finalize(self, remove_copy, way.location)

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

    @property
    def rests(self) -> bool:
        """Whether nothing is open that `rest` would close."""
        return not (self._way.beside_wal and (self._users or self._idle))

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
        # Not by the thread of the connection: nobody could await its end where the file does not open.
        opened = await asyncio.to_thread(self._way.connect, self._busy_seconds, lambda: not self._retired)
        if self._arrange is not None:  # what it lays over the file must not reach a disk
            opened.execute("PRAGMA temp_store = MEMORY")
        connection = aiosqlite.Connection(lambda: opened, iter_chunk_size=64)
        connection._thread.daemon = True  # a program ends that never closes; nothing is written in it
        self._idle.append(Link(await connection, opened))
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
            await asyncio.to_thread(self._remove)
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


# -- the database ----------------------------------------------------------------------------------------


class _Closes(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closes)


class Opening(Generic[C]):
    """Opens when it is awaited, or at the beginning of an ``async with``, whose end closes again."""

    def __init__(self, opening: Coroutine[Any, Any, C]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, None, C]:
        return self._opening.__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()


def opens(make: Callable[P, Coroutine[Any, Any, C]]) -> Callable[P, Opening[C]]:
    """Have what a function opens awaited, or entered."""

    @wraps(make)
    def called(*args: P.args, **kwargs: P.kwargs) -> Opening[C]:
        return Opening(make(*args, **kwargs))

    return called


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

    async def at_once(
        self,
        load: Callable[Concatenate[Reader, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a *load* that awaits nothing but its reader: as a whole in a thread, not by statements."""

        def loaded(rows: Rows) -> T:
            return _without_waiting(load(_ReaderInThread(self._link, self.schema, rows), *args, **kwargs))

        return await self.run(loaded)

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


class _Rows(Rows):
    """What a load asks that runs in a thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ended = False
        self.statements = 0

    def end(self) -> None:
        """Ask nothing any more: the next statement is refused as one is that was interrupted."""
        self._ended = True

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        if self._ended:
            raise sqlite3.OperationalError("interrupted")
        self.statements += 1
        return self._connection.execute(sql, parameters)


class _ReaderInThread(Reader):
    """A reader for a thread: it runs each statement at once instead of awaiting it."""

    def __init__(self, link: Link, schema: Schema, rows: Rows) -> None:
        super().__init__(link, schema)
        self._asked = rows

    async def stored(self, sql: str, *parameters: object) -> list[Row]:
        return self._asked.rows(sql, cast(Sequence[SqlValue], parameters))

    async def tuples(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._asked.tuples(sql, cast(Sequence[SqlValue], parameters))

    async def run(self, load: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return load(self._asked, *args, **kwargs)


def _without_waiting(load: Coroutine[Any, Any, T]) -> T:
    try:
        load.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    load.close()
    raise RuntimeError("it waits for something else than its reader")


async def _arranged(arrange: Arrangement, link: Link, schema: Schema) -> None:
    rows = _Rows(link.direct)
    await link.in_thread(partial(arrange, link.direct, rows, schema), rows.end)


class Change(Record, frozen=True):
    """Something wrote to the file, or it came or went."""

    at: datetime  #: when it was noticed, UTC
    state: FileState | None  #: None: the file is gone
    content: bool  #: rows may be others; else it was only read, checkpointed, or written and rolled back


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
        self._stirred = asyncio.Event()  #: set when the file should be looked at again soon
        self.looks: Looks | None = None  #: of the one who began to follow it last
        self._reopening = asyncio.Lock()

    @classmethod
    @opens
    async def open(
        cls, path: Path, *, busy_seconds: float = 5.0, arrange: Arrangement | None = None
    ) -> Database:
        """Open an existing file, without leaving a trace beside it: ``async with Database.open(path)``.

        What is awaited instead is to be closed. *busy_seconds*: how long to wait for the lock of another
        process. *arrange* may give each reading another look.

        Raises:
            DatabaseMissingError: the file does not exist.
            DatabaseError: it is damaged, locked, encrypted, or of another program.
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
        from lcm_core.store.following import Looks  # no command follows its file

        looks = self.looks = Looks(self.path, self._stirred)
        with contextlib.closing(looks):
            while True:
                rests = self._handle is None or self._handle.rests
                state = await looks.next(calm=rests and self._seen is not None)
                if self._handle is None:
                    return
                changed = state != self._seen or (state is not None and self._hides_a_write())
                before, self._seen = self._seen, state
                if changed:
                    looks.changed()
                if state is not None:
                    # A host that is just creating or replacing the file: the next look tries again.
                    with contextlib.suppress(DatabaseError):
                        changed |= await self._catch_up(state, changed)
                if changed:
                    same = state is not None and before is not None and state.holds_what_was(before)
                    yield Change(datetime.now(UTC), state, not same)
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

    async def rest(self) -> None:
        """Let go of the file until it is read again: a host that ends meanwhile takes its WAL away."""
        await self._current().rest(0.0)

    async def close(self) -> None:
        """Interrupt what runs, close every connection, and remove a private copy."""
        handle, self._handle = self._handle, None
        self._stirred.set()
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
            self._stirred.set()  # what is open now is closed again soon
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
        while not await handle.sees_all(state):
            if await self._open_instead_of(handle):
                return True
            handle = self._current()  # somebody else opened it, perhaps before what is looked for here
        if handle.access is not Access.COPY:
            handle.state = state
        return False

    async def _open_instead_of(self, handle: Handle) -> bool:
        """Open the file again in place of *handle*; False if another task has done so already."""
        async with self._reopening:
            if handle is not self._current():
                return False
            fresh = await open_handle(self.path, self._busy_seconds, self._arrange)
            if self._handle is None:
                await fresh.end()
                self._current()
            self._handle = fresh
            self._handles = {each for each in (*self._handles, handle) if not each.closed}
            await handle.retire()
            return True
