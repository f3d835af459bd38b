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
import struct
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from operator import methodcaller
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

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

    @property
    def may_hide_a_write(self) -> bool:
        """Whether a write right after the look could have left an equal state."""
        written = (self.modified_ns, self.wal_modified_ns)
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


# -- a WAL that SQLite ignores ---------------------------------------------------------------------------
# SQLite reads a WAL up to the first frame whose salts or checksum do not fit, and says nothing of the rest;
# the next connection that closes the file deletes it. `examine_wal` finds such a rest without writing
# anything (docs/spec/decisions.md, "A WAL that SQLite ignores").

_HEADER_BYTES: Final = 32
_FRAME_HEADER: Final = 24
_MAGIC: Final = 0x377F0682  #: the last bit: checksums over big-endian words
#: Frames that are looked at together.
_TOGETHER: Final = 256
#: Bytes of a WAL that are examined unless a caller says otherwise: some four seconds.
MOST_BYTES: Final = 1 << 30
_ATTEMPTS: Final = 4
#: Rounds back that a frame left from one may be: garbage has a salt among them once in 4,096 times.
_MOST_ROUNDS: Final = 1 << 20
#: How long a file is checked without its WAL, at most. s
_ALONE_SECONDS: Final = 3.0


class WalState(Record, frozen=True):
    """What a WAL contains; all counts are of what was examined."""

    path: Path
    size: int  #: bytes
    examined: int  #: bytes
    committed: int  #: frames that SQLite reads
    uncommitted: int = 0  #: frames of this round that no commit follows, as an interrupted writer leaves them
    lost: int = 0  #: frames, also a cut one, that SQLite ignores although no round before explains them
    lost_bytes: int = 0
    zeros: int = 0  #: frames' worth of zeros
    problem: str = ""  #: why SQLite stops reading; empty when it reads all that counts
    is_in_use: bool = False  #: it was written all the while: what looked wrong may be what was half written

    @property
    def is_sound(self) -> bool:
        """Whether SQLite reads everything that was ever committed to it, as far as it was examined."""
        return not self.problem


def examine_wal(
    path: Path, *, most: int = MOST_BYTES, stopped: Callable[[], bool] = lambda: False
) -> WalState | None:
    """What of the WAL beside database *path* SQLite ignores; None: there is no WAL, or an empty one. Blocks.

    At most *most* bytes are read of it each time, and nothing after *stopped* says so, which is called before
    each read. What looks wrong counts when two examinations in a row say it of a file that was not written
    meanwhile; one that never rests is in use, and called sound.

    Raises:
        OSError: it cannot be read.
    """
    path = real_path(path)
    wal = sidecar(path, "-wal")
    before: tuple[FileState, bytes, WalState] | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(TICK_NS / 1e9)
        state = file_state(path)
        if state is None or not state.wal_size:
            return None
        try:
            with wal.open("rb") as file:
                found = _Examination(wal, file, _page_size(path), most, stopped).run()
                header = os.pread(file.fileno(), _HEADER_BYTES, 0)
        except FileNotFoundError:
            return None
        if found.is_sound:
            return found
        now = (state, header, found)
        if now == before and state == file_state(path) and not state.may_hide_a_write:
            return found
        before = now
    return WalState(wal, found.size, found.examined, found.committed, is_in_use=True)


def _page_size(path: Path) -> int:
    """As the database itself says; 4,096 when its header is gone."""
    with suppress(OSError, ValueError):
        header = os.pread(keep_open(path), 18, 0)
        size = int.from_bytes(header[16:18], "big")
        if header.startswith(MAGIC) and size:
            return 65536 if size == 1 else size
    return 4096


class _Header(Record, frozen=True):
    page_size: int  #: bytes
    swapped: bool  #: checksums are over big-endian words
    salts: bytes
    checksum: tuple[int, int]
    problem: str


class _Frame(Record, frozen=True):
    page: int
    commits: bool
    salts: bytes
    follows: bool  #: its checksum continues that of the frame before
    is_zero: bool


class _Rounds:
    """The frames with other salts than the header's: whether rounds before explain them.

    The header's own count of rounds says nothing of that: each connection counts those that it began itself
    (docs/spec/decisions.md, "A WAL that SQLite ignores").
    """

    def __init__(self, header: _Header) -> None:
        self._header = header
        self._salts = header.salts  #: of the frame before
        self._counts: dict[bytes, int] = {}
        self._proven: set[int] = set()
        self._damaged = 0
        self.has_begun = False  #: whether the header's round has a frame

    def pass_by(self, frame: _Frame) -> None:
        """Any frame, in their order."""
        is_like_before, self._salts = frame.salts == self._salts, frame.salts
        if frame.salts == self._header.salts or frame.is_zero:
            return
        if frame.follows and not is_like_before:  # a checksum covers no salts: only these were changed
            self._damaged += 1
            return
        if frame.follows:  # SQLite wrote both
            self._proven.add(_number(frame.salts) // _MOST_ROUNDS)
        self._counts[frame.salts] = self._counts.get(frame.salts, 0) + 1

    @property
    def lost(self) -> int:
        """How many frames no round before explains."""
        return self._damaged + sum(count for salts, count in self._counts.items() if not self.explain(salts))

    def explain(self, salts: bytes) -> bool:
        """Whether a frame is left from a round before, whose pages the file has."""
        if self._header.problem:
            return False
        behind = (_number(self._header.salts) - _number(salts)) % 2**32
        if 1 <= behind <= _MOST_ROUNDS and salts[4:] != self._header.salts[4:]:
            return True
        near = _number(salts) // _MOST_ROUNDS
        return self.has_begun and not self._proven.isdisjoint(range(near - 1, near + 2))


def _number(salts: bytes) -> int:
    """The first of the two, to which each round adds one; the second is another one each time."""
    return int.from_bytes(salts[:4], "big")


class _Examination:
    """One pass over a WAL."""

    def __init__(
        self, path: Path, file: BinaryIO, page_size: int, most: int, stopped: Callable[[], bool]
    ) -> None:
        self._path = path
        self._file = file
        self._most = most
        self._stopped = stopped
        self._size = os.fstat(file.fileno()).st_size
        self._header = _header_of_wal(file.read(_HEADER_BYTES), page_size)
        self._frame_bytes = _FRAME_HEADER + self._header.page_size

    def run(self) -> WalState:
        header = self._header
        whole, rest = divmod(max(0, self._size - _HEADER_BYTES), self._frame_bytes)
        number = committed = uncommitted = lost = zeros = 0
        unbroken = this_round = not header.problem
        rounds = _Rounds(header)
        for number, frame in enumerate(self._frames(whole), 1):
            is_ours = frame.salts == header.salts and not header.problem
            unbroken = unbroken and is_ours and frame.follows and frame.page > 0
            rounds.pass_by(frame)
            if unbroken:
                uncommitted += 1
                rounds.has_begun = True
                if frame.commits:
                    committed, uncommitted = number, 0
                continue
            this_round = is_ours
            if frame.is_zero:
                zeros += 1
            elif is_ours and not frame.commits:
                uncommitted += 1
            elif frame.salts == header.salts:
                lost += 1
        lost += rounds.lost
        examined = min(self._size, _HEADER_BYTES + number * self._frame_bytes)
        cut = number == whole and rest > 0 and self._is_cut(rest, this_round, rounds)
        if cut:
            lost, examined = lost + 1, self._size
        if lost:  # frames before the lost commit are lost with it
            lost, uncommitted = lost + uncommitted, 0
        lost_bytes = min(lost * self._frame_bytes, self._size - _HEADER_BYTES)
        problem = self._problem(committed, lost, zeros, cut=cut and unbroken)
        return WalState(
            self._path, self._size, examined, committed, uncommitted, lost, lost_bytes, zeros, problem
        )

    def _problem(self, committed: int, lost: int, zeros: int, *, cut: bool) -> str:
        if not (lost or zeros):
            return ""
        if self._header.problem:
            return self._header.problem
        if not lost:
            return f"zeros follow its frame {committed:,}"
        if cut:
            return "it ends within a frame"
        return f"its checksums or salts do not continue after frame {committed:,}"

    def _is_cut(self, rest: int, after_this_round: bool, rounds: _Rounds) -> bool:
        """Whether what is left at the end is the start of a frame that belongs to this round."""
        begun = os.pread(self._file.fileno(), min(rest, _FRAME_HEADER), self._size - rest)
        if not any(begun) and not any(os.pread(self._file.fileno(), rest, self._size - rest)):
            return False
        salts = begun[8:16]
        if self._header.problem or len(salts) < 8:
            return bool(self._header.problem) or after_this_round
        return salts == self._header.salts or not rounds.explain(salts)

    def _frames(self, whole: int) -> Iterator[_Frame]:
        checksum = self._header.checksum
        for start in range(0, whole, _TOGETHER):
            if self._stopped() or start * self._frame_bytes >= self._most:
                return
            count = min(_TOGETHER, whole - start)
            content = self._file.read(count * self._frame_bytes)
            count = len(content) // self._frame_bytes
            if not count:  # it was truncated meanwhile
                return
            heads = [
                struct.unpack_from(">II8sII", content, number * self._frame_bytes) for number in range(count)
            ]
            stored = [(head[3], head[4]) for head in heads]
            sums = _checksums(content, self._frame_bytes, [checksum, *stored[:-1]], self._header.swapped)
            for number, (page, size, salts, *_) in enumerate(heads):
                begin = number * self._frame_bytes
                is_zero = not (page or size or any(salts)) and not any(
                    content[begin : begin + self._frame_bytes]
                )
                yield _Frame(page, size > 0, salts, sums[number] == stored[number], is_zero)
            checksum = stored[-1]


def _header_of_wal(content: bytes, page_size: int) -> _Header:
    """The header of a WAL; what of it cannot be used is taken from the database."""
    if len(content) < _HEADER_BYTES:
        return _Header(page_size, False, bytes(8), (0, 0), "its header is cut off")
    magic, _, size, _, salts, *checksum = struct.unpack(">IIII8sII", content)
    swapped = bool(magic & 1)
    is_sized = 512 <= size <= 65536 and not size & (size - 1)
    [counted] = _checksums(content + bytes(0), 24, [(0, 0)], swapped, columns=range(3))
    first, second = checksum
    problem = ""
    if not any(content):
        problem = "its header holds only zeros"
    elif magic & ~1 != _MAGIC or not is_sized:
        problem = "its header is not that of a WAL"
    elif counted != (first, second):
        problem = "the checksum of its header is wrong"
    if problem:
        return _Header(size if is_sized else page_size, swapped, salts, (0, 0), problem)
    return _Header(size, swapped, salts, (first, second), "")


def _checksums(
    content: bytes,
    each: int,
    begin: list[tuple[int, int]],
    swapped: bool,
    columns: range | None = None,
) -> list[tuple[int, int]]:
    """SQLite's checksum of several pieces of *each* bytes, all at once; *begin*: what each continues.

    It adds up pairs of 32-bit words, each to the sum of the other. Whole numbers with 64 bits for each piece
    do that for all of them together, 30 times as fast as one after the other.
    """
    count = len(begin)
    if swapped:
        words = array("I", content[: count * each])
        words.byteswap()
        content = words.tobytes()
    pairs = array("Q", content[: count * each])
    low = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    first = int.from_bytes(array("Q", [one for one, _ in begin]).tobytes(), "little")
    second = int.from_bytes(array("Q", [two for _, two in begin]).tobytes(), "little")
    step = each // 8
    # A frame's checksum is over the first eight bytes of its header, and its page.
    for column in columns or (0, *range(3, step)):
        pair = int.from_bytes(pairs[column::step].tobytes(), "little")
        first = (first + (pair & low) + second) & low
        second = (second + (pair >> 32 & low) + first) & low
    firsts, seconds = (array("Q", one.to_bytes(count * 8, "little")) for one in (first, second))
    return list(zip(firsts, seconds, strict=True))


# -- what is wrong with a file that SQLite refused ---------------------------------------------------------

#: What may come of a WAL that belongs to another file.
_FOREIGN_CODES: Final = ("DATABASE_CORRUPT", "DATABASE_NOT_LCM", "DATABASE_IS_REMNIC")
_IS_LCM: Final = "SELECT 1 FROM sqlite_master WHERE name = 'conversations' AND type = 'table'"
_alone: dict[tuple[int, int], ReadConnection] = {}


def diagnose(error: sqlite3.Error | DatabaseError, path: Path) -> DatabaseError:
    """`explain`, after a look at the file system, and at the file without its WAL; blocks."""
    location = real_path(path)
    if isinstance(error, sqlite3.Error) and lacks_locks(error, location):
        return no_locks(path)
    found = error if isinstance(error, DatabaseError) else explain(error, path)
    if isinstance(error, sqlite3.Error) and error_name(error).startswith("SQLITE_NOTADB"):
        with suppress(OSError, ValueError):
            found = not_a_database(path, os.pread(keep_open(location), 100, 0))
    if isinstance(found, DatabaseBusyError | DatabaseMissingError) or found.code not in _FOREIGN_CODES:
        return found
    if not is_sound_alone(location):
        return found
    return DatabaseError(
        f"{path} cannot be read with its -wal, but it is sound without its -wal: {location.name}-wal is "
        "probably another file's. If no host uses the file, move it and the -shm to another folder and keep "
        "them.",
        code="WAL_OF_ANOTHER_FILE",
    )


def is_sound_alone(path: Path) -> bool:
    """Whether *path* is an LCM database in which SQLite finds no fault without its WAL; False if it has none.

    SQLite looks for 3 s at most.
    The connection is never closed, as `keep_open` says.
    """
    state = file_state(path)
    if state is None or not state.wal_size:
        return False
    try:
        found = path.stat()
        key = (found.st_dev, found.st_ino)
        if key not in _alone:
            _alone[key] = connect_reading(path, 0, immutable=True, any_thread=True)
        connection = _alone[key]
    except (OSError, sqlite3.Error):
        return False
    timer = threading.Timer(_ALONE_SECONDS, connection.interrupt)
    timer.start()
    try:
        with closing(connection.execute("PRAGMA quick_check(1)")) as cursor:
            is_sound = cursor.fetchone()[0] == "ok"
        return is_sound and connection.execute(_IS_LCM).fetchone() is not None
    except sqlite3.Error as error:
        return error_name(error) == "SQLITE_INTERRUPT"
    finally:
        timer.cancel()
