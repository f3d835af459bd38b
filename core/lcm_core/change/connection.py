"""The one connection that writes: opened for a commit, closed after it.

Nothing cascades unseen (``foreign_keys`` is off, and what refers is checked by us), nothing is created
(``mode=rw``), and text that is not valid UTF-8 is written back as the bytes that were read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lcm_core.change.beside import check_beside
from lcm_core.change.copying import Stop, check_wanted
from lcm_core.change.errors import BusyError, DiskFullError, ReadOnlyError
from lcm_core.change.guard import Guard
from lcm_core.errors import DatabaseError, DatabaseMissingError, nothing_at
from lcm_core.store.connecting import Row, SqlValue, error_name, rows_in
from lcm_core.store.opening import (
    connect_writing,
    lacks_locks,
    no_locks,
    real_path,
    undisturbed,
)
from lcm_core.store.wal import diagnose

#: Parameters of one statement at most; SQLite allows 32,766 since 3.32.
CHUNK = 30_000
#: Bytes of the first piece of the file that processes share beside a write-ahead log.
SHARED_MEMORY = 32_768
#: From so many bytes on a write-ahead log is moved into its file: SQLite's own default, 1,000 pages.
LONG_LOG_BYTES = 1_000 * 4_096
#: How long SQLite waits for a lock at a time, where somebody may want to stop: it hears nothing meanwhile.
_STEP_SECONDS = 0.1
#: Steps of SQLite's machine after which a long statement looks whether to stop: less than a millisecond.
_STEPS_A_LOOK = 1_000


class Writer:
    """A read-write connection in one thread, for the length of a commit."""

    def __init__(self, connection: sqlite3.Connection, wait: float, stopped: Stop | None = None) -> None:
        self._connection = connection
        self._wait = wait
        self._stopped = stopped
        self._guard: Guard | None = None
        self._waits_whole = stopped is None  #: a lock is waited for in one go, and nothing stops that
        self._chunk = min(CHUNK, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; SQLite itself ends it when the disk is full, for example."""
        return self._connection.in_transaction

    @property
    def data_version(self) -> int:
        """A number that changes when somebody else commits anything; within a transaction, as it sees it."""
        return int(self.value("PRAGMA data_version"))

    @property
    def row_changes(self) -> int:
        """Rows inserted, updated or deleted so far, by triggers too."""
        return self._connection.total_changes

    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        """Run one statement.

        Raises:
            CancelledError: it waited for a lock, outside `begin` and `commit`, and was to stop.
        """
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return self._connection.execute(sql, parameters)
            except sqlite3.DatabaseError as error:
                self._check_allowed(error)
                if self._waits_whole or not _waits(error) or time.monotonic() >= deadline:
                    raise
                self._check_wanted()

    def execute_many(self, sql: str, parameters: Iterable[Sequence[SqlValue]]) -> int:
        """Run one statement for many rows, whose text has to be valid UTF-8; how many rows it changed."""
        try:
            return self._connection.executemany(sql, parameters).rowcount
        except sqlite3.DatabaseError as error:
            self._check_allowed(error)
            raise

    def rows(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[Row]:
        """All rows of a query."""
        return self.execute(sql, parameters).fetchall()

    def tuples(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """The same without names."""
        cursor = self.execute(sql, parameters)
        cursor.row_factory = None
        return cursor.fetchall()

    def value(self, sql: str, parameters: Sequence[SqlValue] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.execute(sql, parameters).fetchone()
        return None if found is None else found[0]

    def rows_in(self, sql: str, keys: Iterable[SqlValue]) -> list[Row]:
        """The rows of a query whose text holds ``IN (?*)`` once, for all keys in as few scans as can be."""
        return rows_in(self, sql, keys, self._chunk)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the file; no lock is taken that a writer would wait for."""
        self.execute("BEGIN")
        yield
        self.execute("ROLLBACK")

    def rewrite_file(self) -> None:
        """``VACUUM``, which takes long; the file is as before when it was to stop while it was being copied.

        SQLite hears nothing while it puts the copy back, which is the greater part of the time.

        Raises:
            CancelledError: it was to stop.
        """
        stopped = self._stopped
        if stopped is None:
            self.execute("VACUUM")
            return
        self._connection.set_progress_handler(lambda: stopped(), _STEPS_A_LOOK)
        try:
            self.execute("VACUUM")
        except sqlite3.OperationalError as error:
            if error_name(error) == "SQLITE_INTERRUPT":
                check_wanted(stopped)
            raise
        finally:
            self._connection.set_progress_handler(None, 0)

    def begin(self) -> None:
        """Take the write lock, waiting for it as long as `open_writer` says; nothing stops what follows.

        Raises:
            CancelledError: it was to stop by then.
        """
        self.execute("BEGIN IMMEDIATE")
        self._check_wanted()
        self._wait_whole(True)

    def write_only(self, allowed: Iterable[str] | Guard) -> None:
        """Let nothing but some tables be written until the transaction ends, and no trigger run.

        A guard that was made before the lock was taken will do if nobody committed since.

        Raises:
            RefusedError: one of the tables has a trigger, or is not as the engine or lcm-tui makes it. From
                here on every statement that would write something else raises it, too.
        """
        self._guard = allowed if isinstance(allowed, Guard) else Guard(self, allowed)
        self._connection.set_authorizer(self._guard.judge)

    def _check_allowed(self, error: sqlite3.Error) -> None:
        if self._guard is not None and self._guard.denied is not None:
            raise self._guard.denied from error

    def _write_anything(self) -> None:
        if self._guard is not None:
            self._guard = None
            self._connection.set_authorizer(None)

    def hold_pages(self, size: int) -> None:
        """Keep up to *size* bytes of pages in memory: what does not fit is written more than once."""
        self.execute(f"PRAGMA cache_size = -{size // 1024}")

    def checkpoint_later(self) -> None:
        """Leave it to `checkpoint` to move what is committed from a write-ahead log into the file."""
        self.execute("PRAGMA wal_autocheckpoint = 0")

    def checkpoint(self, path: Path) -> None:
        """Move a long write-ahead log into the file as far as that holds nobody up, as SQLite would."""
        with contextlib.suppress(OSError, sqlite3.Error):  # whoever writes next does it
            if os.stat(f"{os.path.realpath(path)}-wal").st_size >= LONG_LOG_BYTES:
                self.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def take_back(self) -> None:
        """Take rows as they were, whatever the file's CHECK constraints say: it held them before."""
        self.execute("PRAGMA ignore_check_constraints = ON")

    def overwrite_deleted(self) -> None:
        """Have what this connection deletes overwritten with zeros in the file."""
        self.execute("PRAGMA secure_delete = ON")

    def commit(self) -> None:
        """Make everything last."""
        self.execute("COMMIT")
        self._write_anything()
        self._wait_whole(False)

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self._write_anything()
        if self.in_transaction:
            self.execute("ROLLBACK")
        self._wait_whole(False)

    def _check_wanted(self) -> None:
        if self._stopped is not None:
            check_wanted(self._stopped)

    def _wait_whole(self, whole: bool) -> None:
        """Have SQLite wait for locks in one go; or a little at a time, where somebody may want to stop."""
        if self._stopped is not None:
            self._waits_whole = whole
            seconds = self._wait if whole else min(self._wait, _STEP_SECONDS)
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


@contextlib.contextmanager
def open_writer(path: Path, wait: float, stopped: Stop | None = None) -> Iterator[Writer]:
    """Open *path* for writing; errors of SQLite become ours, an open transaction is rolled back.

    Meanwhile nobody else in this process closes a descriptor of the file (`undisturbed`).

    *stopped* says whether to stop: looked at while a lock is waited for, but not from `Writer.begin`, once
    that has it, to the end of the transaction.

    Raises:
        DatabaseMissingError: there is no such file.
        DatabaseBusyError: this process changes it already.
        BusyError: another process kept the lock for *wait* seconds.
        RefusedError: its WAL holds what SQLite ignores, or the file is in use by another name.
        ReadOnlyError: the file or its folder cannot be written.
        DiskFullError: there is no room.
        DatabaseError: any other complaint of SQLite.
    """
    with undisturbed(path, wait):
        _check_there(path)
        check_beside(path)
        begun = time.monotonic()
        try:
            connection = connect_writing(
                real_path(path), wait if stopped is None else min(wait, _STEP_SECONDS)
            )
            with contextlib.closing(connection):
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA foreign_keys = OFF")
                connection.execute("PRAGMA trusted_schema = OFF")
                writer = Writer(connection, wait, stopped)
                try:
                    _load_schema(writer)
                    yield writer
                finally:
                    _roll_back(writer)
        except sqlite3.Error as error:
            raise explained(error, path, time.monotonic() - begun) from error


def _load_schema(writer: Writer) -> None:
    """Have SQLite read the schema.

    Where it trusts none, SQLite up to 3.40 calls a file malformed that has an index over one of its own JSON
    functions: they are harmless, and not marked so. Functions of other programs it does not have at all.
    """
    try:
        writer.value("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.DatabaseError as error:
        if "unsafe use of" not in str(error):
            raise
        writer.execute("PRAGMA trusted_schema = ON")


def _check_there(path: Path) -> None:
    try:
        os.stat(path)
    except FileNotFoundError as error:
        raise DatabaseMissingError(
            nothing_at("database", path, "It was there before; nothing was created."),
            details={"path": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadOnlyError(
            f"{path} cannot be reached ({reason}). Check the path and its permissions."
        ) from error
    if not os.access(path, os.W_OK):
        # SQLite would open it for reading, and leave a -wal that the host, as another user, cannot write.
        raise _read_only(path, "no permission")


def check_writable(path: Path) -> None:
    """Whether *path* can be written, as far as looking tells: asked before what costs something; blocks.

    Raises:
        DatabaseMissingError: there is no such file.
        ReadOnlyError: the file or its folder cannot be written.
        RefusedError: its WAL holds what SQLite ignores, or the file is in use by another name.
    """
    _check_there(path)
    check_beside(path)
    if not (os.access(path.parent, os.W_OK | os.X_OK) or os.path.exists(f"{path}-wal")):
        raise _read_only(path, "no permission for its folder")


def _read_only(path: Path, why: str) -> ReadOnlyError:
    return ReadOnlyError(
        f"{path} cannot be written ({why}): it or its folder is read-only for this user. Nothing was "
        "changed; run lcm-tui as the user who owns it, or change the permissions."
    )


def explained(error: sqlite3.Error, path: Path, waited: float) -> DatabaseError:
    """SQLite's complaint during a change, as a sentence for people."""
    name, text = error_name(error), str(error)
    if lacks_locks(error, real_path(path)):
        return no_locks(path)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return BusyError(path, waited)
    if name.startswith("SQLITE_FULL") or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return DiskFullError(
            f"The disk of {path} is full ({text}). Nothing was changed; free space and try again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return _read_only(path, text)
    if name.startswith("SQLITE_IOERR"):
        return DatabaseError(
            f"{path} could not be written ({text}). Nothing was changed; check the disk, then try again.",
            code="DATABASE_WRITE_FAILED",
        )
    return diagnose(error, path)


def _is_full(path: Path) -> bool:
    """Whether the disk has no room left: SQLite calls it an I/O error when its shared memory cannot grow."""
    try:
        return shutil.disk_usage(path.parent).free < SHARED_MEMORY
    except OSError:
        return False


def _waits(error: sqlite3.Error) -> bool:
    """Whether a statement failed for a lock alone, so that it can be tried again."""
    return error_name(error) in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY")


def _roll_back(writer: Writer) -> None:
    with contextlib.suppress(sqlite3.Error):
        writer.rollback()


Fault = Callable[[str], None]


def quiet(_: str) -> None:
    """A fault hook that does nothing."""
