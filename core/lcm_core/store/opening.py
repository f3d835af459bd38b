"""How a database file is opened: every connection of this program is made here.

Reading leaves no trace beside the file (docs/spec/decisions.md, "No trace"). SQLite creates ``-wal`` and
``-shm`` when it opens a WAL file read-only, and the user who opened it owns them. So the way to open a file
depends on its folder: `choose_way` looks and changes nothing, `Way.connect` opens it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import re
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, TypeVar

from lcm_core.base.errors import (
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    DatabaseQueryError,
    SearchUnavailableError,
    nothing_at,
)
from lcm_core.base.files import DEAD_LINK
from lcm_core.base.values import Record
from lcm_core.store.schema import parameter

# -- connections -----------------------------------------------------------------------------------------
# The one kind of connection that this program makes, and rows that a load fetches in one piece. No text of
# the file makes a read fail in any way but with `sqlite3.Error`.

#: A value as SQLite stores it; invalid UTF-8 as surrogate escapes.
SqlValue = None | int | float | str | bytes
Row = sqlite3.Row

#: TEXT may hold invalid UTF-8: what cannot be decoded survives as surrogate escapes. No function of Python's
#: own, for it is called for each text that is read.
DECODE: Final = methodcaller("decode", "utf-8", "surrogateescape")


#: Keys of one query: SQLite takes 999 parameters at most in its oldest builds.
CHUNK: Final = 500


class Rows(ABC):
    """Queries within one transaction, every value as it is stored.

    A function over it is a load for both: a reader runs it in a thread (`Reader.run`), the connection that
    commits calls it. So what a preview finds and what a commit checks is the same code.
    """

    #: Keys of one query, at most: more are read by several.
    chunk = CHUNK

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[SqlValue] = ()) -> sqlite3.Cursor:
        """Run one statement."""

    def rows(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[Row]:
        """All rows of a query, addressed by column name."""
        return self.execute(sql, parameters).fetchall()

    def tuples(self, sql: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query as plain tuples: without names they take half the time."""
        cursor = self.execute(sql, parameters)
        cursor.row_factory = None
        return cursor.fetchall()

    def rows_in(self, sql: str, keys: Iterable[SqlValue]) -> list[Row]:
        """The rows of a query whose text holds ``IN (?*)`` once, for all keys in as few scans as can be."""
        wanted = list(keys)
        found: list[Row] = []
        for start in range(0, len(wanted), self.chunk):
            some = wanted[start : start + self.chunk]
            found += self.rows(sql.replace("?*", ", ".join("?" * len(some))), some)
        return found


def as_text(value: object) -> str:
    """A stored value as a text, as LIKE takes it."""
    return DECODE(value) if isinstance(value, bytes) else str(value)


def contains_pattern(needle: str) -> str:
    """The pattern of ``LIKE ... ESCAPE '\\'`` that is true of a text that contains *needle*."""
    return "%" + needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def may_hold(column: str) -> str:
    """A condition that a text holds what a ``contains_pattern`` says: one that is not ASCII may in another
    spelling, and LIKE and ``length`` look no further than a NUL.
    """
    return f"({column} LIKE ? ESCAPE '\\' OR length({column}) < length(CAST({column} AS BLOB)))"


def quoted(name: str) -> str:
    """The name of a table or column in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def listed_values(columns: Iterable[str]) -> str:
    """The select list of some columns; `*` would give those that SQLite works out, which nobody writes."""
    return ", ".join(map(quoted, sorted(columns)))


class Connection(sqlite3.Connection):
    """Text that is no UTF-8 is read with surrogate escapes, in values and in SQLite's own complaints."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.text_factory = DECODE

    # Narrower than sqlite3's on purpose: no mapping, for what is bound is looked at by place.
    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """As `sqlite3.Connection.execute`; text that is no UTF-8 is bound as the bytes that it was read from.

        Raises:
            sqlite3.Error: also where SQLite's message quotes bytes of the file, which Python cannot decode.
        """
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:
            return super().execute(*as_bytes(sql, parameters))
        except UnicodeDecodeError as error:
            raise _said(error) from error

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        """As `sqlite3.Connection.executemany`; raises as `execute`."""
        try:
            return super().executemany(*given)
        except UnicodeDecodeError as error:
            raise _said(error) from error


class ReadConnection(Connection):
    """One that only reads: whatever is asked for can be bound, and is found or not."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, cached_statements=64, **options)
        self.row_factory = sqlite3.Row

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """The same; a number beyond 64 bits is asked for as a real, a lone surrogate as its bytes."""
        try:
            return super().execute(sql, parameters)
        except OverflowError:
            return super().execute(sql, tuple(map(parameter, parameters)))
        except UnicodeEncodeError:  # typed or pasted, for nothing that is read has such a surrogate
            return super().execute(*as_bytes(sql, parameters, "surrogatepass"))


def error_name(error: sqlite3.Error) -> str:
    """SQLite's name of an error, such as ``SQLITE_BUSY``; empty when Python alone raised it."""
    return getattr(error, "sqlite_errorname", "") or ""


def as_bytes(
    sql: str, parameters: Sequence[SqlValue], otherwise: str = ""
) -> tuple[str, tuple[SqlValue, ...]]:
    """The statement with text that is not valid UTF-8 bound as the bytes that are in the file.

    Raises:
        UnicodeEncodeError: a text holds a surrogate that no byte was read as, and *otherwise* is empty.
    """
    places = itertools.count(1)

    def cast(mark: re.Match[str]) -> str:
        place = int(mark[1]) if mark[1] else next(places)
        return f"CAST({mark[0]} AS TEXT)" if isinstance(parameters[place - 1], str) else mark[0]

    bound = tuple([_raw(value, otherwise) if isinstance(value, str) else value for value in parameters])
    return _MARK.sub(cast, sql), bound


_MARK: Final = re.compile(r"\?([0-9]*)")  #: of a value; a statement has only numbered ones or none


def _raw(text: str, otherwise: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        if not otherwise:
            raise
        return text.encode("utf-8", otherwise)


def _said(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """SQLite's complaint, as far as it is known: its code is lost with the message."""
    text = error.object.decode("utf-8", "backslashreplace")
    malformed = text.startswith("malformed")
    said = sqlite3.DatabaseError(text)
    said.sqlite_errorcode = sqlite3.SQLITE_CORRUPT if malformed else sqlite3.SQLITE_ERROR
    said.sqlite_errorname = "SQLITE_CORRUPT" if malformed else "SQLITE_ERROR"
    return said


# -- the way in ------------------------------------------------------------------------------------------
# What is in the folder decides how the file is opened.

C = TypeVar("C", bound=Connection)

MAGIC = b"SQLite format 3\x00"
CHUNK_BYTES = 8 * 1024 * 1024
#: How often a copy is begun again because the host restarted its WAL meanwhile.
COPY_ATTEMPTS = 5
#: Two writes within the clock tick of a file system can leave the same time.
TICK_NS = 20_000_000
#: How long until a locked file is looked at again.
_LOOK_SECONDS = 0.01

#: SQLite locks bytes below this one of a file or its ``-shm``, and these never.
_NEVER_LOCKED = range(0x4000_1000, 0x4010_0000)

#: What SQLite says of a module that it was not built with; it has one code for all such.
_LACKING_HERE = ("no such module", "no such tokenizer")

#: What is not a file, by its type.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
#: What SQLite says where locks or shared memory fail, beside "busy".
_LOCK_ERRORS = tuple(f"SQLITE_IOERR_{name}" for name in ("SHMMAP", "SHMLOCK", "LOCK", "RDLOCK", "UNLOCK"))

_RESTORE = "Copy it again (with its -wal), or restore a backup."


class Access(StrEnum):
    """How the file is read."""

    IMMUTABLE = "immutable"  #: a WAL file with no WAL: nothing is locked or created, changes are polled
    READ_ONLY = "read-only"  #: SQLite's own locking; the WAL of a live host is read through its ``-shm``
    COPY = "private copy"  #: a WAL that cannot be read in place, copied with its database


@dataclass(frozen=True, slots=True)
class FileState:
    """What ``stat`` says of a database and its WAL; two equal states mean that nothing was written."""

    inode: int
    size: int  #: bytes
    modified_ns: int
    wal_inode: int  #: 0 when there is no WAL
    wal_size: int  #: bytes
    wal_modified_ns: int
    looked_at_ns: int = field(compare=False, default=0)  #: when this was so

    def unchanged_until(self, now: FileState) -> bool:
        """Whether what was read without a lock from this look to that of *now* is whole.

        A WAL that appeared meanwhile is no harm: such a reader does not see it.
        """
        if abs(self.looked_at_ns - self.modified_ns) < TICK_NS:
            return False
        return (self.inode, self.size, self.modified_ns) == (now.inode, now.size, now.modified_ns)

    def holds_what_was(self, before: FileState) -> bool:
        """Whether only readers, checkpoints and writes that were rolled back explain what has changed since.

        A commit is in the WAL first; the last process to close the file writes that into it. A commit between
        the look *before* and such a close is not seen.
        """
        if self.inode != before.inode or before.may_hide_a_write:
            return False
        if before.wal_size:
            now = (self.wal_inode, self.wal_size, self.wal_modified_ns)
            return not self.wal_size or now == (before.wal_inode, before.wal_size, before.wal_modified_ns)
        return not self.wal_size and (self.size, self.modified_ns) == (before.size, before.modified_ns)

    @property
    def may_hide_a_write(self) -> bool:
        """Whether a write right after the look could have left an equal state."""
        # The first write into an empty WAL makes it larger.
        written = (self.modified_ns, self.wal_modified_ns if self.wal_size else 0)
        return any(abs(self.looked_at_ns - each) < TICK_NS for each in written)  # not: a date in the future


def real_path(path: Path) -> Path:
    """The file behind symbolic links: SQLite keeps WAL and journal beside that one."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL in it: opening it says so
        return path


_SIDECARS: Final = ("-wal", "-shm", "-journal")


def sidecar(path: Path, suffix: str) -> Path:
    """The file that SQLite keeps beside *path*: ``-wal``, ``-shm`` or ``-journal``."""
    return Path(f"{path}{suffix}")


def database_files(path: Path) -> tuple[Path, ...]:
    """The database and what SQLite keeps beside it, whether or not it is there."""
    return (path, *(sidecar(path, suffix) for suffix in _SIDECARS))


def file_state(path: Path) -> FileState | None:
    """The present state of the file, None when it is gone."""
    path, now = real_path(path), time.time_ns()
    try:
        main = path.stat()
    except (OSError, ValueError):
        return None
    wal = _wal_stat(path)
    if wal is None:
        return FileState(main.st_ino, main.st_size, main.st_mtime_ns, 0, 0, 0, now)
    return FileState(
        main.st_ino, main.st_size, main.st_mtime_ns, wal.st_ino, wal.st_size, wal.st_mtime_ns, now
    )


def choose_access(path: Path) -> Access:
    """Decide how to open *path*, after making sure that it is a whole SQLite file.

    Where WAL and ``-shm`` are beside it, this process may hold SQLite's locks on it (`undisturbed`):
    then it is not opened by hand, and SQLite itself says what is wrong with it. An empty WAL counts: whoever
    has the file open may begin to write it at any moment.

    Raises:
        DatabaseMissingError: there is no such file.
        DatabaseError: a folder, another kind of file, an encrypted or truncated one, or no permission; or
            something is where SQLite keeps its WAL, ``-shm`` or journal.
    """
    path = real_path(path)
    if may_be_held(path):
        check_sidecars(path)
        return Access.READ_ONLY
    with undisturbed(path):
        if may_be_held(path):
            return Access.READ_ONLY
        header, size = _read_header(path)
    check_sidecars(path)
    # The version for reading is what SQLite goes by; the one for writing says the same in a sound file.
    writes_wal, wal = 2 in header[18:20], _wal_stat(path)
    if wal is None or not wal.st_size:
        _check_length(path, header, size)
        return Access.IMMUTABLE if writes_wal else Access.READ_ONLY
    # SQLite reads a WAL whatever the header says, after a journal, and would make a ``-shm`` for it.
    return Access.COPY if writes_wal or not sidecar(path, "-journal").exists() else Access.READ_ONLY


class WayInChanged(sqlite3.OperationalError):
    """What is beside the file calls for another way in."""


class Way(Record, frozen=True):
    """A way in to read a file."""

    access: Access
    location: Path  #: the file itself, symbolic links resolved, or its private copy
    beside_wal: bool = False  #: WAL and ``-shm`` are beside it, or there is no connection
    unlockable: bool = False  #: a private copy, because the file system of the original has no locks

    def connect(self, wait: float, wanted: Callable[[], bool] = lambda: True) -> ReadConnection:
        """A connection that cannot write; a lock is waited for *wait* seconds. Blocks.

        It may be used in any thread, by one at a time.

        Raises:
            WayInChanged: WAL and ``-shm`` are gone, or it is not *wanted* any more.
            sqlite3.Error: SQLite refused.
        """
        immutable = self.access is Access.IMMUTABLE
        connection = connect_reading(
            self.location, 0 if self.beside_wal else wait, immutable=immutable, any_thread=True
        )
        try:
            if self.beside_wal:
                if not _hold_wal(connection, self.location, wait, wanted):
                    raise WayInChanged("the file calls for another way in")
            elif self.access is Access.READ_ONLY:
                _check_lockable(connection, self.location, wait)
        except BaseException:
            connection.close()
            raise
        return connection

    def instead(self, error: sqlite3.Error, state: FileState | None) -> Way | None:
        """Another way to a file that cannot be read in place, as *error* says; None when it is not that.

        Its WAL may be unreadable for this user, or its file system without locks. The way of a private copy
        has the original as its location. Blocks.
        """
        if self.access is not Access.READ_ONLY or state is None:
            return None
        unreadable = error_name(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))
        unlockable = lacks_locks(error, self.location)
        if state.wal_size and (unreadable or unlockable):
            return Way(Access.COPY, self.location, unlockable=unlockable)
        if (state.wal_inode and unreadable) or (
            unlockable and not sidecar(self.location, "-journal").exists()
        ):
            return Way(Access.IMMUTABLE, self.location)
        return None


def choose_way(path: Path) -> Way:
    """Decide how to open *path* for reading; raises as `choose_access`."""
    location = real_path(path)
    before = may_be_held(location)
    access = choose_access(path)
    return Way(access, location, access is Access.READ_ONLY and (before or may_be_held(location)))


def connect_reading(
    path: Path, wait: float, *, immutable: bool = False, any_thread: bool = False
) -> ReadConnection:
    """A connection that cannot write, to a file that SQLite may be let near; raises `sqlite3.Error`."""
    mode = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection = _connect(f"{path.as_uri()}?{mode}", wait, ReadConnection, any_thread)
    connection.execute("PRAGMA query_only = 1")
    return connection


def connect_writing(path: Path, wait: float, *, any_thread: bool = False) -> Connection:
    """A connection that may write to a file that is there: none is made. Raises `sqlite3.Error`."""
    return _connect(f"{path.as_uri()}?mode=rw", wait, Connection, any_thread)


def connect_memory() -> Connection:
    """A connection to an empty database of its own in memory."""
    return _connect("file::memory:", 0, Connection, False)


def _connect(address: str, wait: float, kind: type[C], any_thread: bool) -> C:
    return sqlite3.connect(
        address,
        uri=True,
        factory=kind,
        timeout=wait,
        isolation_level=None,
        check_same_thread=not any_thread,
    )


def _hold_wal(connection: Connection, path: Path, wait: float, wanted: Callable[[], bool]) -> bool:
    """Read: from here on nobody removes WAL and ``-shm``. False when they are gone, or it is not *wanted*.

    Without them SQLite would make them, and the host, perhaps another user, could not write them. So it
    is not SQLite that waits (its timeout is 0 here) for a host that exits, which removes them; blocks.

    Raises:
        sqlite3.Error: the file cannot be read, or not within *wait* seconds.
    """
    deadline = time.monotonic() + wait
    while may_be_held(path) and wanted():
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # also while the WAL is recovered
            if not busy or time.monotonic() >= deadline or not locks_work(path):
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
            return True
    return False


def _check_lockable(connection: sqlite3.Connection, path: Path, wait: float) -> None:
    """Wait for no lock on a file system that has none; raises `sqlite3.Error`."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError as error:
        if not error_name(error).startswith("SQLITE_BUSY") or lacks_locks(error, path):
            raise
    connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")


def check_sidecars(path: Path) -> None:
    """Refuse a database beside which something else than a file is where SQLite keeps one.

    SQLite would wait for the other end of a pipe for ever, and what a link led to may hold commits.

    Raises:
        DatabaseError: a folder, a pipe, a socket, a device, or a link to something that is not there.
    """
    for suffix in _SIDECARS:
        beside = sidecar(path, suffix)
        try:
            mode = beside.stat().st_mode
            kind = "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "a device")
        except (OSError, ValueError) as error:
            kind = DEAD_LINK if isinstance(error, FileNotFoundError) and os.path.islink(beside) else ""
        if kind:
            raise DatabaseError(
                f"{beside} is {kind}, where SQLite keeps a file of its own. Move it to another folder, then "
                f"open {path.name} again; nothing was changed."
            )


def lacks_locks(error: sqlite3.Error, path: Path) -> bool:
    """Whether SQLite refused *path* because its file system has no locks or no shared memory; blocks."""
    name = error_name(error)
    if name.startswith(_LOCK_ERRORS):
        return True
    return name.startswith(("SQLITE_BUSY", "SQLITE_PROTOCOL")) and not locks_work(path)


_kept_open: dict[tuple[int, int], int] = {}


def keep_open(path: Path) -> int:
    """A descriptor of *path* that is never closed, one for each file: closing one would drop this process's
    locks on it (`undisturbed`).

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no path.
    """
    found = path.stat()
    key = (found.st_dev, found.st_ino)
    if key not in _kept_open:
        _kept_open[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    return _kept_open[key]


def locks_work(path: Path) -> bool:
    """Whether the file system can lock *path* and its ``-shm``; also True where that cannot be found out.

    SQLite says "busy" of a file system that refuses every lock. So one is taken that nobody else can hold,
    on a byte that SQLite never locks.
    """
    return all(_can_lock(each) for each in (path, sidecar(path, "-shm")))


def _can_lock(path: Path) -> bool:
    try:
        probe = keep_open(path)
    except (OSError, ValueError):
        return True
    try:
        byte = random.choice(_NEVER_LOCKED)
        fcntl.lockf(probe, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, byte)
        fcntl.lockf(probe, fcntl.LOCK_UN, 1, byte)
    except OSError:
        return False
    return True


def private_copy(path: Path, stopped: Callable[[], bool]) -> Path:
    """Copy a database and its WAL into a new private folder and return the copy's path.

    While *path* is written, a WAL that goes on during the copy holds every page that changed in it; one that
    begins anew does not, so the copy is made again. Stops early, with half a copy, when *stopped* says so.

    Raises:
        DatabaseError: there is no room for the copy, or the files cannot be read.
    """
    path = real_path(path)
    folder = Path(tempfile.mkdtemp(prefix="lcm-tui-"))
    try:
        for _ in range(COPY_ATTEMPTS):
            state = file_state(path)
            needed = 0 if state is None else state.size + state.wal_size
            if shutil.disk_usage(folder).free < needed * 1.1:
                raise DatabaseError(
                    f"{path} has a WAL that can only be read from a copy of {needed:,} bytes, and "
                    f"{folder.parent} has no room for it. Set TMPDIR to a folder that has."
                )
            if _copied(path, folder / path.name, stopped):
                return folder / path.name
        raise DatabaseBusyError(
            f"{path} and its WAL change faster than they can be copied for reading. Try again later."
        )
    except OSError as error:
        remove_copy(folder / path.name)
        raise DatabaseError(
            f"{path} and its WAL cannot be copied for reading: {error.strerror}. "
            "Check the permissions of both."
        ) from error
    except DatabaseError:
        remove_copy(folder / path.name)
        raise


def remove_copy(copy: Path) -> None:
    """Remove what `private_copy` made."""
    shutil.rmtree(copy.parent, ignore_errors=True)


def _copied(path: Path, copy: Path, stopped: Callable[[], bool]) -> bool:
    """Copy database, then WAL; whether they belong together."""
    begun, state = _wal_header(path), file_state(path)
    _copy_file(path, copy, stopped)
    with suppress(FileNotFoundError):
        _copy_file(sidecar(path, "-wal"), sidecar(copy, "-wal"), stopped)
    if stopped():
        return True
    # Without a WAL a host may have come and gone meanwhile.
    return _wal_header(path) == begun and (begun != b"" or file_state(path) == state)


def _copy_file(source: Path, target: Path, stopped: Callable[[], bool]) -> None:
    target.unlink(missing_ok=True)
    with undisturbed(source), source.open("rb") as original, target.open("wb") as copy:
        while not stopped() and (chunk := original.read(CHUNK_BYTES)):
            copy.write(chunk)


def _wal_header(path: Path) -> bytes:
    """The start of the WAL, which is another one whenever SQLite restarts it; empty without a WAL."""
    try:
        with sidecar(path, "-wal").open("rb") as file:
            return file.read(32)
    except FileNotFoundError:
        return b""


def _wal_stat(path: Path) -> os.stat_result | None:
    try:
        return sidecar(path, "-wal").stat()
    except OSError:
        return None


def may_be_held(path: Path) -> bool:
    """Whether WAL and ``-shm`` are beside the file, so that SQLite reads it without making them.

    Not so an empty one: SQLite would remove the WAL beside it, perhaps all that is left of it.
    """
    with suppress(OSError, ValueError):
        found = path.stat()
        return (
            stat.S_ISREG(found.st_mode)
            and found.st_size > 0
            and _wal_stat(path) is not None
            and os.access(sidecar(path, "-shm"), os.R_OK)
            and os.access(path, os.R_OK)
        )
    return False


def _read_header(path: Path) -> tuple[bytes, int]:
    """The first 100 bytes and the size, once it is clear that they are those of a SQLite database."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise DatabaseError(
                f"{path} is a folder. Give the database file in it, for example --db {path / 'lcm.db'}."
            )
        if not stat.S_ISREG(found.st_mode):
            raise DatabaseError(
                f"{path} is not a regular file. Give the path of the engine's lcm.db with --db."
            )
        if not found.st_size:
            raise DatabaseError(_emptiness(path))
        with path.open("rb") as file:
            header, size = file.read(100), os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise DatabaseMissingError(
            nothing_at(
                "database",
                path,
                "Open one with `lcm-tui PATH`, --db or LCM_DATABASE_PATH, or try `lcm-tui demo`.",
            ),
            details={"path": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DatabaseError(
            f"{path} cannot be read: {reason}. Check the path and its permissions."
        ) from error
    if not header:
        raise DatabaseError(_emptiness(path))
    if not header.startswith(MAGIC):
        raise not_a_database(path, header)
    if len(header) < 100:
        raise DatabaseError(f"{path} is truncated: it ends after {size} bytes. {_RESTORE}")
    return header, size


def _emptiness(path: Path) -> str:
    wal = _wal_stat(path)
    if wal is None or not wal.st_size:
        return f"{path} is empty: no engine has written to it yet. Check the path."
    return (
        f"{path} is empty, but it has a WAL: the file was truncated. Restore a backup, and copy "
        f"{path.name}-wal before SQLite opens the file: SQLite would delete it."
    )


def not_a_database(path: Path, header: bytes) -> DatabaseError:
    """What a file is that does not begin as SQLite's do: damaged where the rest of its header tells that."""
    blank = len(set(header)) == 1
    # The three fractions never change; a random header has them once in 17 million.
    if not (blank or header.startswith(MAGIC) or header[21:24] == bytes((64, 32, 32))):
        return DatabaseError(
            f"{path} is not a SQLite database, or it is encrypted. Check the path, or decrypt a copy first."
        )
    wal = _wal_stat(path)
    keep = f" Keep {path.name}-wal: it may contain that page." if wal is not None and wal.st_size else ""
    what = "holds only zeros" if not any(header) else "is overwritten"
    return DatabaseError(
        f"{path} is damaged: its first page {what}. Restore a backup, or work on a copy: "
        f"`sqlite3 COPY .recover` can save what is left.{keep}",
        code="DATABASE_CORRUPT",
    )


def _check_length(path: Path, header: bytes, size: int) -> None:
    """Refuse a file that ends before its last page (only sure when the header's page count is current)."""
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    counted = header[24:28] == header[92:96]
    pages = int.from_bytes(header[28:32], "big")
    if counted and pages and size < pages * page_size and not sidecar(path, "-journal").exists():
        raise DatabaseError(
            f"{path} is truncated: {size:,} of {pages * page_size:,} bytes are there. {_RESTORE}"
        )


def explain(error: sqlite3.Error, path: Path) -> DatabaseError:
    """SQLite's complaint about *path* as a sentence for people."""
    name, text = error_name(error), str(error)
    if name.startswith(_LOCK_ERRORS):
        return no_locks(path)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseBusyError(
            f"{path} is locked by another process. Wait until it has finished, or stop it, and try again."
        )
    if name.startswith("SQLITE_NOTADB"):
        return DatabaseError(
            f"{path} is not a SQLite database, or it is encrypted. Check the path, or decrypt a copy first."
        )
    if name.startswith("SQLITE_CORRUPT"):
        return DatabaseError(
            f"{path} is damaged ({text}). Work on a copy: `sqlite3 COPY .recover` can save what is left.",
            code="DATABASE_CORRUPT",
        )
    if name == "SQLITE_READONLY_ROLLBACK":
        return DatabaseError(
            f"{path} contains an unfinished change, which a reader must not roll back. "
            "Start the host once, or open a copy of it and its -journal with sqlite3."
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return DatabaseError(f"{path} cannot be opened: {text}. Check its permissions and its folder's.")
    if text.startswith(("no such table", "no such column")):
        return DatabaseError(
            f"{path} lacks a part of LCM's schema ({text}): it is damaged, or was never finished. Restore a "
            "backup (`lcm-tui restore`), or let the host start once and migrate it.",
            code="DATABASE_INCOMPLETE",
        )
    kind = SearchUnavailableError if any(one in text for one in _LACKING_HERE) else DatabaseQueryError
    return kind(f"{path} cannot be read: {text}.")


def no_locks(path: Path) -> DatabaseError:
    """What cannot be done with a file whose file system has no locks or no shared memory."""
    return DatabaseError(
        f"The file system of {path} has no working file locks or no shared memory, and SQLite needs both: it "
        "may be a network or shared folder. Copy the file with its -wal to a local disk, and work there.",
        code="FILE_LOCKS_MISSING",
    )


# -- one at a time within this process -----------------------------------------------------------------

_guards_lock = threading.Lock()
_guards: dict[tuple[int, int], threading.Lock] = {}


@contextmanager
def undisturbed(path: Path, wait: float | None = None) -> Iterator[None]:
    """Lock the file within this process, waiting *wait* seconds (None: for as long as it takes).

    POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it.
    SQLite knows its own descriptors; one that Python opened to read the header, or to copy the file, would
    drop the locks of a commit, and another process could write into the middle of it. So a commit holds
    the file from opening its connection to closing it, a reader while it has the file open by hand.

    Raises:
        DatabaseBusyError: it was held for the whole time.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):  # nothing to hold; opening it says why
        yield
        return
    with _guards_lock:
        guard = _guards.setdefault((found.st_dev, found.st_ino), threading.Lock())
    if not guard.acquire(timeout=-1 if wait is None else wait):
        raise DatabaseBusyError(
            f"{path} is being changed by another part of this program. Try again when it has finished."
        )
    try:
        yield
    finally:
        guard.release()
