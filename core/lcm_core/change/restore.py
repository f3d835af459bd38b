"""Restoring: the pages of a backup go into the database file by SQLite's own means, in one transaction.

The file keeps its inode, owner and mode, and no WAL or SHM is touched by hand. Until the transaction is
committed the file is as it was, whatever happens to this process; afterwards it is as the backup. In a WAL
file the pages lie in the WAL until then, else their former contents lie in the journal; whoever opens the
file next finishes or takes back what a crash left.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lcm_core.change.backup import check_room, default_target, make_backup, write_copy
from lcm_core.change.beside import check_beside
from lcm_core.change.connection import explained
from lcm_core.change.copying import (
    CopyProgress,
    CopySource,
    CopyStep,
    DisturbedError,
    Report,
    Stop,
    check_wanted,
    copy_pages,
    facts_of,
    has_sidecars,
    never,
    open_source,
    quick_check,
    unheard,
)
from lcm_core.change.processes import Holder, process_names, processes_with_open
from lcm_core.errors import (
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    LcmError,
    RefusedError,
    nothing_at,
)
from lcm_core.records import Timestamp
from lcm_core.store.connecting import error_name
from lcm_core.store.database import Database
from lcm_core.store.opening import Access, connect_writing, real_path, undisturbed
from lcm_core.store.statistics import database_statistics

#: How long the file is waited for, seconds, and how often it is tried meanwhile.
WAIT_SECONDS = 5.0
_TRY_SECONDS = 0.1
_KEPT = "before-restore"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database holds, to tell one from another."""

    path: Path
    bytes: int
    version: str  #: of the engine that wrote it, for people
    conversations: int
    messages: int
    summaries: int
    newest: Timestamp | None  #: the newest message, as stored


@dataclass(frozen=True, slots=True)
class RestorePreview:
    """What a restore would do."""

    backup: Contents
    database: Contents | None  #: None: it is missing, or cannot be read
    unreadable: str  #: why it cannot be read; empty when it can, or is missing
    missing: bool  #: there is no database; the backup takes its place
    room: int  #: bytes that the copy of what is there and the restore itself need beside the database
    holders: tuple[Holder, ...]  #: who must be stopped before


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore that was made."""

    path: Path
    bytes: int
    pages: int
    kept: Path | None  #: the copy of what was there; None when there was nothing
    seconds: float


def preview_restore(
    backup: Path, database: Path, progress: Report = unheard, cancelled: Stop = never, *, check: bool = True
) -> RestorePreview:
    """Say what `restore` would do, without a lock and without writing; with *check* read the whole backup.

    Raises:
        RefusedError: the backup is damaged, or is the database.
        DatabaseError: the backup cannot be read, or is that of another program.
        CancelledError: *cancelled* said so.
    """
    _check_given(backup)
    _check_different(backup, database)
    offered = _contents(backup)
    if check:
        with open_source(backup, cancelled) as source:
            _check_backup(source, progress, cancelled)
    path = real_path(database)
    if not path.exists():
        return RestorePreview(offered, None, "", True, offered.bytes, ())
    present, unreadable = None, ""
    try:
        present = _contents(database)
    except LcmError as error:
        unreadable = error.message
    size = path.stat().st_size
    room = size + max(size, offered.bytes)
    return RestorePreview(offered, present, unreadable, False, room, processes_with_open(path))


def restore(
    backup: Path,
    database: Path,
    progress: Report = unheard,
    cancelled: Stop = never,
    *,
    wait: float = WAIT_SECONDS,
) -> Restored:
    """Make *database* hold what *backup* holds; blocks, so call it in a thread, with the database closed.

    The backup is read whole and checked before anything else. Then the database is taken for oneself within
    *wait* seconds, and a copy of what it holds is laid beside it, which stays whatever happens. A database
    that is missing is made of the backup.

    Raises:
        RefusedError: the backup is damaged, or is the database; or the database's WAL holds what SQLite
            ignores, or it is in use by another name.
        DatabaseBusyError: another process has the database open; the error names it if this machine can tell.
        DiskFullError: there is no room.
        ReadOnlyError: the database or its folder cannot be written.
        DatabaseError: one of the two cannot be read or written; the database is as it was.
        CancelledError: *cancelled* said so; the database is as it was.
    """
    begun, path = time.monotonic(), real_path(database)
    _check_given(backup)
    _check_different(backup, database)
    asyncio.run(_open_once(backup))
    check_beside(path)
    if not path.exists():
        return _place(backup, path, progress, cancelled, begun)
    _wait_for_others(path, wait, cancelled)
    kept: Path | None = None
    empty = not path.stat().st_size and not has_sidecars(path)
    try:
        with open_source(backup, cancelled) as source:
            _check_backup(source, progress, cancelled)
            with _alone(path, wait, cancelled) as connection:
                if not empty:
                    kept = _keep(connection, path, source.facts.bytes, progress, cancelled)
                source.check_undisturbed()
                _fill(source, connection, progress, cancelled)
            source.check_undisturbed()
    except DisturbedError as error:
        again = f" or restore {kept}, which is what was there," if kept else ""
        raise DatabaseBusyError(
            f"{backup} was changed while it was read, so {path} may contain a part of it: restore "
            f"again{again} "
            "when the writes have ended."
        ) from error
    except LcmError as error:
        _say_what_stays(error, kept)
        raise
    return Restored(path, source.facts.bytes, source.facts.pages, kept, time.monotonic() - begun)


def _check_different(backup: Path, database: Path) -> None:
    with contextlib.suppress(OSError):
        if backup.samefile(database):
            raise RefusedError(f"{backup} is the database itself. Name the backup to restore.")


def _check_given(backup: Path) -> None:
    """What is wrong with the path of a backup has nothing to do with that of the database."""
    if not backup.exists():
        raise DatabaseMissingError(
            nothing_at(
                "backup", backup, "Give the path of a file that `lcm-tui backup` made; nothing was changed."
            ),
            details={"path": str(backup)},
        )
    if backup.is_dir():
        raise DatabaseError(
            f"{backup} is a folder. Give the path of the backup in it; nothing was changed.",
            details={"path": str(backup)},
        )


async def _open_once(path: Path) -> None:
    """Make sure that *path* is an LCM database.

    Raises:
        DatabaseError: it is missing, damaged, locked, encrypted, or of another program.
    """
    async with await Database.open(path):
        pass


def _contents(path: Path) -> Contents:
    """What *path* holds.

    Raises:
        DatabaseError: it is missing, damaged, locked, encrypted, or of another program.
    """

    async def read() -> Contents:
        async with await Database.open(path) as database:
            found = await database.read(database_statistics)
            state, version = database.state, database.schema.version
        return Contents(
            path,
            0 if state is None else state.size,
            version,
            found.conversations,
            found.messages.count,
            found.summaries.count,
            found.messages.latest,
        )

    return asyncio.run(read())


def _check_backup(source: CopySource, progress: Report, cancelled: Stop) -> None:
    progress(CopyProgress(CopyStep.CHECK, 0, 0))
    problems = quick_check(source.connection, cancelled)
    if problems:
        raise RefusedError(
            f"{source.path} is damaged ({problems[0]}) and is not restored. Nothing was changed; use another "
            "backup, or `sqlite3 BACKUP .recover` to save what is left in this one.",
            code="BACKUP_DAMAGED",
        )


def _place(backup: Path, path: Path, progress: Report, cancelled: Stop, begun: float) -> Restored:
    """Make a database that is missing."""
    left = has_sidecars(path)
    if left:
        raise RefusedError(
            f"There is no {path}, but {left[0]} still exists and SQLite would read it as part of the "
            "restored database. Move it away (keep it: it may contain the last changes), then restore again."
        )
    with open_source(backup, cancelled) as source:
        _check_backup(source, progress, cancelled)
    made = make_backup(backup, path, progress, cancelled)
    return Restored(path, made.bytes, made.pages, None, time.monotonic() - begun)


def _wait_for_others(path: Path, wait: float, cancelled: Stop) -> None:
    """Refuse early, before the backup is read, when somebody is known to have the file open."""
    deadline = time.monotonic() + wait
    while found := processes_with_open(path):
        check_wanted(cancelled)
        if time.monotonic() > deadline:
            raise _in_use(path, found, wait)
        time.sleep(_TRY_SECONDS)


@contextmanager
def _alone(path: Path, wait: float, cancelled: Stop) -> Iterator[sqlite3.Connection]:
    """A connection to *path* that nobody else can be connected beside; it holds the lock, no transaction."""
    begun = time.monotonic()
    with undisturbed(path, wait):
        connection = _taken(path, wait, cancelled)
        try:
            with closing(connection):
                yield connection
        except sqlite3.Error as error:
            raise explained(error, path, time.monotonic() - begun) from error


def _taken(path: Path, wait: float, cancelled: Stop) -> sqlite3.Connection:
    """Try until the file is ours.

    Every try has a connection of its own: one that failed keeps what it has got so far, and nobody could end.
    """
    deadline = time.monotonic() + wait
    while True:
        check_wanted(cancelled)
        connection = _try_to_take(path)
        found = processes_with_open(path)
        if connection is not None and not found:
            return connection
        if connection is not None:  # in a file without WAL somebody who only waits has no lock
            connection.close()
        if time.monotonic() > deadline:
            raise _in_use(path, found, wait)
        time.sleep(_TRY_SECONDS)


def _try_to_take(path: Path) -> sqlite3.Connection | None:
    """A connection that holds the exclusive lock, None when somebody else is connected."""
    try:
        connection = connect_writing(path, 0, any_thread=True)
    except sqlite3.Error as error:
        raise explained(error, path, 0) from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        # Before the first read of a WAL file: then no index in shared memory is made, and any connection that
        # has ever read is in the way, also an idle one.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        name = error_name(error)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return None
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise DatabaseError(
                f"{path} is too damaged to write to ({error}). Move it with its -wal and -journal files to "
                "another folder, keep them, and restore again: the backup then replaces it.",
                code="DATABASE_CORRUPT",
            ) from error
        raise explained(error, path, 0) from error
    return connection


def _in_use(path: Path, found: tuple[Holder, ...], wait: float) -> DatabaseBusyError:
    if found:
        who = f"{path} is open in {process_names(found)}. Stop {'it' if len(found) == 1 else 'them'}"
    else:
        who = (
            f"{path} is in use by a process that this machine does not name (of another user or container, "
            "or lcm-tui itself). Stop the host and whatever else has it open"
        )
    return DatabaseBusyError(
        f"{who} and restore again; {wait:.0f} s were waited and nothing was changed.",
        details={"pids": ", ".join(str(holder.pid) for holder in found), "waitedSeconds": wait},
    )


def _keep(connection: sqlite3.Connection, path: Path, coming: int, progress: Report, cancelled: Stop) -> Path:
    """Lay a copy of what is there beside it, damaged or not, once there is room for the restore as well."""
    connection.execute("BEGIN")
    try:
        facts = facts_of(connection)
        target = default_target(path, label=_KEPT)
        check_room(target, facts.bytes + max(facts.bytes, coming))
        source = CopySource(path, connection, Access.READ_ONLY, facts, None)
        write_copy(source, target, CopyStep.KEEP, progress, cancelled)
        return target
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _fill(source: CopySource, connection: sqlite3.Connection, progress: Report, cancelled: Stop) -> None:
    """Copy the backup into the file, in one transaction."""
    page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    if mode == "wal" and page_size != source.facts.page_size:  # a WAL cannot take pages of another size
        mode = str(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])
    if mode != "wal":
        # The lock stays until the end of the next transaction; in exclusive mode the journal would stay too.
        connection.execute("PRAGMA locking_mode = NORMAL")
    copy_pages(source, connection, CopyStep.RESTORE, progress, cancelled)
    if mode == "wal":
        progress(CopyProgress(CopyStep.SETTLE, 0, 0))
        with contextlib.suppress(sqlite3.Error):  # it is committed, and lies in the WAL until that has room
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _say_what_stays(error: LcmError, kept: Path | None) -> None:
    """Add to the error of a restore that was not made where the copy of the database lies."""
    if kept is None:
        return
    error.message += f" A copy of the current database is in {kept}."
    error.args = (error.message,)
    error.details["kept"] = str(kept)
