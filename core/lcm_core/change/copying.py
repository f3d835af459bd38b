"""Copying a database page by page while others use it: what backup and restore share.

SQLite's online backup begins again whenever another process writes, unless the source connection holds one
read transaction from the first page to the last; then the copy is the state at which that began. In a WAL
file this keeps nobody from writing (the WAL grows meanwhile); in a file with a rollback journal, which no
engine uses (docs/spec/format.md, "The file itself"), writers wait for the end of the copy.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from lcm_core.base.errors import CancelledError, DatabaseBusyError, DatabaseQueryError
from lcm_core.base.values import Record
from lcm_core.store.opening import (
    Access,
    FileState,
    Way,
    WayInChanged,
    choose_way,
    error_name,
    file_state,
    private_copy,
    real_path,
    remove_copy,
    sidecar,
)
from lcm_core.store.wal import diagnose

#: Copied between two looks at whether to go on.
STEP_BYTES = 1024 * 1024
#: How long another process may keep us from reading a page, seconds.
BUSY_SECONDS = 10.0
#: How often the file is looked at until no write can hide in the clock tick of its time, and the pause.
_LOOKS, _LOOK_SECONDS = 50, 0.02
#: How often a file is opened that others write, bring or take away in that moment.
OPENINGS = 10
#: Instructions of SQLite between two looks at whether a check is still wanted.
_INSTRUCTIONS = 100_000
#: Findings of ``quick_check`` that are read at most.
_FINDINGS = 20
#: What ``quick_check`` says of contents and of search tables, which can be built anew: no page is bad.
_NOT_STRUCTURAL = re.compile(
    r"(?i).*(malformed inverted index|unable to validate the inverted index)|CHECK constraint failed in "
    r"|(NULL|TEXT|NUMERIC|non-\w+) value (missing )?(in|from) "
)
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class DisturbedError(Exception):
    """What was being copied changed under the copy, which is of no use; only seen inside this package."""


class CopyStep(StrEnum):
    """What is being done; the value is the phrase to show."""

    CHECK = "checking the backup"
    KEEP = "keeping a copy of what is there"
    COPY = "copying"
    RESTORE = "restoring"
    SETTLE = "writing it into the file"
    VERIFY = "checking the copy"


class CopyProgress(Record, frozen=True):
    """How far a step has come; reported at its beginning, every few pages, and at its end."""

    step: CopyStep
    done: int  #: bytes
    total: int  #: bytes; 0: not known, as for a check


Report = Callable[[CopyProgress], None]
Stop = Callable[[], bool]


def unheard(_: CopyProgress) -> None:
    """Reports to nobody."""


def never() -> bool:
    """Goes on to the end."""
    return False


class Facts(Record, frozen=True):
    """What the header of a database says and a copy must say too."""

    page_size: int
    pages: int
    encoding: int  #: 1 UTF-8, 2 and 3 UTF-16
    user_version: int
    application_id: int
    free_pages: int

    @property
    def bytes(self) -> int:
        """The size of the file that holds these pages."""
        return self.page_size * self.pages


class CopySource(Record, frozen=True):
    """A state of a database that stays as it is while it is copied."""

    path: Path
    connection: sqlite3.Connection  #: in a read transaction
    access: Access
    facts: Facts
    state: FileState | None  #: the file when the transaction began; None: nobody else can reach it

    def check_undisturbed(self) -> None:
        """Make sure that what was read so far belongs together.

        Without a lock (an immutable file) a checkpoint shows in the file itself. With a lock only a process
        that did not see it can disturb us: then the WAL that we read is another file or gone.

        Raises:
            DisturbedError: it does not.
        """
        if self.state is None:
            return
        before, now = self.state, file_state(self.path)
        if now is not None and self.access is Access.READ_ONLY and before.wal_inode:
            same = (now.inode, now.wal_inode) == (before.inode, before.wal_inode)
        else:
            same = now is not None and before.unchanged_until(now)
        if not same:
            raise DisturbedError


@contextmanager
def open_source(path: Path, stopped: Stop = never) -> Iterator[CopySource]:
    """Open *path* in the way that leaves no trace beside it, and hold one state of it.

    A WAL file without a WAL is read as immutable, one whose WAL cannot be read in place from a private copy.

    Raises:
        DatabaseError: it is missing, damaged, locked, encrypted, or there is no room for the private copy.
        CancelledError: *stopped* said so.
    """
    with ExitStack() as stack:
        yield _opened(stack, real_path(path), stopped)


def _opened(stack: ExitStack, path: Path, stopped: Stop) -> CopySource:
    for _ in range(OPENINGS):
        check_wanted(stopped)
        with suppress(DisturbedError):
            try:
                return stack.enter_context(_source(path, choose_way(path), stopped))
            except _UnreadableWalError as error:
                way = error.instead
            return stack.enter_context(_source(path, way, stopped))
        time.sleep(_LOOK_SECONDS)
    raise DatabaseBusyError(f"{path} was written each of {OPENINGS} times that it was opened. Try again.")


class _UnreadableWalError(Exception):
    """The WAL is there and cannot be read in place."""

    def __init__(self, instead: Way) -> None:
        self.instead = instead


@contextmanager
def _source(path: Path, way: Way, stopped: Stop) -> Iterator[CopySource]:
    if way.access is not Access.COPY:
        with _connected(way) as source:
            yield source
        return
    copy = private_copy(path, stopped)
    try:
        check_wanted(stopped)
        with _connected(Way(Access.COPY, copy)) as found:
            yield CopySource(path, found.connection, Access.COPY, found.facts, None)
    finally:
        remove_copy(copy)


@contextmanager
def _connected(way: Way) -> Iterator[CopySource]:
    """A file with a read transaction begun."""
    path, immutable = way.location, way.access is Access.IMMUTABLE
    state = _settled_state(path) if immutable else None
    try:
        connection, facts = _begun(way)
    except WayInChanged as error:
        raise DisturbedError from error
    except sqlite3.Error as error:
        found = file_state(path)
        if immutable and state and found and not state.unchanged_until(found):
            raise DisturbedError from error
        if (instead := way.instead(error, found)) is not None:
            raise _UnreadableWalError(instead) from error
        raise diagnose(error, path) from error
    with closing(connection):
        if way.access is Access.READ_ONLY:
            state = _settled_state(path)
        yield CopySource(path, connection, way.access, facts, state)


def _begun(way: Way) -> tuple[sqlite3.Connection, Facts]:
    connection = way.connect(BUSY_SECONDS)
    try:
        connection.execute("BEGIN")
        return connection, facts_of(connection)
    except BaseException:
        connection.close()
        raise


def _settled_state(path: Path) -> FileState | None:
    """The state of the file once no later write can leave an equal one."""
    state = file_state(path)
    for _ in range(_LOOKS):
        if state is None or state.wal_size or not state.may_hide_a_write:
            break
        time.sleep(_LOOK_SECONDS)
        state = file_state(path)
    return state


def facts_of(connection: sqlite3.Connection) -> Facts:
    """What a connection says of its database; begins the read when a transaction is open.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    encodings = {"UTF-8": 1, "UTF-16le": 2, "UTF-16be": 3}
    return Facts(
        int(_pragma(connection, "page_size")),
        int(_pragma(connection, "page_count")),
        encodings[str(_pragma(connection, "encoding"))],
        int(_pragma(connection, "user_version")),
        int(_pragma(connection, "application_id")),
        int(_pragma(connection, "freelist_count")),
    )


def facts_in(header: bytes) -> Facts:
    """What the first 100 bytes of a file say."""

    def number(at: int) -> int:
        return int.from_bytes(header[at : at + 4], "big")

    size = int.from_bytes(header[16:18], "big")
    signed = (
        int.from_bytes(header[60:64], "big", signed=True),
        int.from_bytes(header[68:72], "big", signed=True),
    )
    return Facts(65536 if size == 1 else size, number(28), number(56), *signed, number(36))


def copy_pages(
    source: CopySource,
    target: sqlite3.Connection,
    step: CopyStep,
    report: Report = unheard,
    stopped: Stop = never,
) -> None:
    """Copy every page; all of them become visible in *target* in one transaction, or none does.

    Once that transaction is committed, *stopped* is not asked any more.

    Raises:
        CancelledError: *stopped* said so.
        DisturbedError: what was read so far does not belong together.
        DatabaseBusyError: another process kept a lock for too long.
        sqlite3.Error: pages cannot be read or written.
    """
    waiting_since: float | None = None

    def after_each(status: int, remaining: int, total: int) -> None:
        nonlocal waiting_since
        if status != sqlite3.SQLITE_DONE:
            check_wanted(stopped)
        if status not in _BUSY_CODES:
            waiting_since = None
        elif waiting_since is None:
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since > BUSY_SECONDS:
            raise DatabaseBusyError(
                "Another process has locked the database in the middle of the copy. Nothing was changed; "
                "wait until it has finished, or stop it, and try again."
            )
        source.check_undisturbed()
        report(CopyProgress(step, (total - remaining) * page_size, total * page_size))

    page_size = source.facts.page_size
    report(CopyProgress(step, 0, source.facts.bytes))
    source.connection.backup(target, pages=max(1, STEP_BYTES // page_size), progress=after_each, sleep=0.05)


def quick_check(connection: sqlite3.Connection, stopped: Stop = never) -> tuple[str, ...]:
    """What is wrong with the pages of a database, a line each; nothing when it is whole.

    What ``quick_check`` says of contents and of search tables is left out: that is for the doctor to say.

    Raises:
        CancelledError: *stopped* said so.
        DatabaseError: the check could not run.
    """
    connection.set_progress_handler(lambda: int(stopped()), _INSTRUCTIONS)
    try:
        rows = connection.execute(f"PRAGMA quick_check({_FINDINGS})").fetchall()
    except sqlite3.Error as error:
        check_wanted(stopped)
        if error_name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return (str(error),)
        raise DatabaseQueryError(f"The check of the database could not run: {error}. Try again.") from error
    finally:
        connection.set_progress_handler(None, 0)
    lines = [line for row in rows for line in str(row[0]).splitlines()]
    return tuple(line for line in lines if line != "ok" and not _NOT_STRUCTURAL.match(line))


def check_wanted(stopped: Stop) -> None:
    """Leave when nobody wants the result any more.

    Raises:
        CancelledError: *stopped* said so.
    """
    if stopped():
        raise CancelledError("Cancelled; nothing was changed.")


def has_sidecars(path: Path) -> tuple[Path, ...]:
    """What lies beside *path* that SQLite would take for a part of a database there.

    Nothing, in a folder that this user may not look into: whoever opens *path* then says so.
    """
    found = (sidecar(path, suffix) for suffix in ("-wal", "-journal"))
    return tuple(file for file in found if os.path.exists(file) and file.stat().st_size)


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    [[value]] = connection.execute(f"PRAGMA {name}").fetchall()
    found: int | str = value
    return found
