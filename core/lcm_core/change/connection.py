"""The one connection that writes, and what is checked before it opens: processes, a WAL, names, the catalog.

It is opened for a commit and closed after it. Nothing cascades unseen (``foreign_keys`` is off, and we check
what refers to a row), nothing is created (``mode=rw``), and text that is not valid UTF-8 is written back as
the bytes that were read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import platformdirs

from lcm_core.base.errors import DatabaseError, DatabaseMissingError, RefusedError, nothing_at
from lcm_core.base.files import PROGRAM, PartialFile, make_private, sync_folder
from lcm_core.base.values import Record
from lcm_core.change.copying import Stop, check_wanted
from lcm_core.change.guard import Guard
from lcm_core.change.plan import BusyError, DiskFullError, ReadOnlyError
from lcm_core.store.opening import (
    Rows,
    SqlValue,
    check_sidecars,
    connect_writing,
    error_name,
    file_state,
    lacks_locks,
    no_locks,
    real_path,
    sidecar,
    undisturbed,
)
from lcm_core.store.schema import LISTING, Schema, listed_schema
from lcm_core.store.wal import WalState, diagnose, examine_wal

# -- processes with the file open ------------------------------------------------------------------------
# What Linux says in ``/proc``, and nothing on other systems.

_PROC = Path("/proc")
#: Of many processes this many are named in a sentence.
_NAMED = 3


class Holder(Record, frozen=True):
    """A process that has the database open."""

    pid: int
    name: str  #: of the program, which chose it itself: foreign text; empty when it cannot be read

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name or 'a program'} (process {self.pid})"


def processes_with_open(path: Path) -> tuple[Holder, ...]:
    """The processes besides this one that have *path* or its WAL open, by number.

    Descriptors of other users' processes can be read by root alone; locks, which everybody may see, are
    looked at too. What runs outside this machine or container is not seen.
    """
    files: set[tuple[int, int]] = set()
    for file in (real_path(path), sidecar(real_path(path), "-wal"), sidecar(real_path(path), "-shm")):
        with contextlib.suppress(OSError):
            found = file.stat()
            files.add((found.st_dev, found.st_ino))
    pids = {*_by_descriptor(files), *_by_lock(files)} - {os.getpid()}
    return tuple(Holder(pid, _name(pid)) for pid in sorted(pids))


def open_under_other_names(path: Path) -> tuple[Holder, ...]:
    """The processes besides this one that have the file at *path* open by another of its names."""
    location = real_path(path)
    with contextlib.suppress(OSError):
        found = location.stat()
        files = {(found.st_dev, found.st_ino)}
        names = {str(location)}
        return tuple(
            Holder(int(process), _name(int(process)))
            for process in _entries(_PROC)
            if process.isdigit()
            and int(process) != os.getpid()
            and any(
                _is_one(link, files) and os.readlink(link) not in names
                for link in (_PROC / process / "fd" / number for number in _entries(_PROC / process / "fd"))
            )
        )
    return ()


def process_names(found: Iterable[Holder]) -> str:
    """Some holders as part of a sentence."""
    texts = [holder.text for holder in found]
    more = len(texts) - _NAMED
    if more > 0:
        texts = [*texts[:_NAMED], f"{more} more"]
    return " and ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _by_descriptor(files: set[tuple[int, int]]) -> Iterator[int]:
    for process in _entries(_PROC):
        if process.isdigit() and any(
            _is_one(_PROC / process / "fd" / number, files) for number in _entries(_PROC / process / "fd")
        ):
            yield int(process)


def _is_one(link: Path, files: set[tuple[int, int]]) -> bool:
    try:
        if not os.readlink(link).startswith("/"):  # sockets and pipes
            return False
        found = link.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in files


def _by_lock(files: set[tuple[int, int]]) -> Iterator[int]:
    """Lines such as ``1: POSIX  ADVISORY  READ 24708 fe:00:2146401 1073741826 1073742335``."""
    try:
        lines = (_PROC / "locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = [field for field in line.split() if field != "->"]
        with contextlib.suppress(IndexError, ValueError):
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            if (device, int(inode)) in files and int(fields[4]) > 0:
                yield int(fields[4])


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


# -- what is beside the file -----------------------------------------------------------------------------
# A WAL that SQLite ignores, and other names of the file, keep it from being changed.
#
# Both are checked before SQLite opens the file for writing: the connection that closes it last deletes the
# WAL (docs/spec/decisions.md, "A WAL that SQLite ignores").

OPTION: Final = "--allow-unread-wal"
#: Entries of a folder that are looked at for other names of a file.
_MOST_NAMES: Final = 10_000
_CHUNK: Final = 8 * 1024 * 1024
#: WALs that were examined, by file and header: a WAL that SQLite goes on with stays sound.
_sound: set[tuple[int, int, bytes]] = set()
#: Those of which a copy was kept: by database, the WAL, open, and the bytes that SQLite ignored. While it is
#: open, no later WAL has its inode; nobody locks a WAL, so that closing it drops no lock.
_agreed: dict[Path, tuple[int, int]] = {}


def check_beside(path: Path) -> None:
    """Refuse to change a file whose WAL holds what SQLite ignores, or that is in use by another name; blocks.

    Raises:
        RefusedError: it is so, and the operator has not agreed to lose the WAL (`keep_wal`).
        DatabaseError: the WAL cannot be read, or a WAL or journal is no file.
    """
    location = real_path(path)
    check_sidecars(location)
    _check_names(path, location)
    found = unread_wal(location)
    if found is not None and found.lost:
        raise RefusedError(
            f"{found.path} contains {found.lost_bytes:,} bytes that SQLite ignores, because {found.problem}. "
            "A change would delete it with the commits in it, so nothing was changed. Copy the file with its "
            f"-wal again, or give {OPTION}: a private copy of the WAL is kept first.",
            code="WAL_UNREAD",
            details={"path": str(found.path), "bytes": found.lost_bytes},
        )


# -- a WAL that SQLite ignores -----------------------------------------------------------------------------


def unread_wal(path: Path) -> WalState | None:
    """The WAL beside *path* when SQLite ignores a part of it, and no copy of it was kept; blocks.

    Raises:
        DatabaseError: it cannot be read.
    """
    path = real_path(path)
    state = file_state(path)
    agreed_bytes = _agreed_bytes(path, 0 if state is None else state.wal_inode)
    if state is None or not state.wal_size:
        return None
    wal = sidecar(path, "-wal")
    try:
        key = _key(wal)
        if key in _sound:
            return None
        found = examine_wal(path)
    except OSError as error:
        raise DatabaseError(
            f"{wal} cannot be read ({error.strerror}). Nothing was changed; check its permissions."
        ) from error
    if found is None or found.is_sound:
        if found is not None and not found.is_in_use:
            _sound.add(key)
        return None
    return None if found.lost_bytes <= agreed_bytes else found


def _agreed_bytes(path: Path, inode: int) -> int:
    """How many bytes of a WAL may be lost, -1: none was copied; forgotten once what was copied is gone."""
    if path not in _agreed:
        return -1
    copied, lost_bytes = _agreed[path]
    if os.fstat(copied).st_ino == inode:
        return lost_bytes
    os.close(copied)
    del _agreed[path]
    return -1


def keep_wal(path: Path) -> Path | None:
    """Copy the WAL beside *path* to a private file, and let this process change the file; the copy's path.

    None: there is nothing in it that SQLite ignores. The same WAL is copied once.

    Raises:
        RefusedError: it cannot be copied.
    """
    location = real_path(path)
    found = unread_wal(location)
    if found is None:
        return None
    state, wal = file_state(location), sidecar(location, "-wal")
    try:
        folder = make_private(wals_folder())
        kept = _copied(wal, folder)
        copied = os.open(wal, os.O_RDONLY)
    except OSError as error:
        raise RefusedError(
            f"{wal} cannot be copied to {wals_folder()} ({error.strerror}). Nothing was changed; "
            "free space there, or copy it yourself and move it away."
        ) from error
    if state is None or state != file_state(location):
        os.close(copied)
        raise RefusedError(f"{wal} was written while it was copied. Nothing was changed; try again.")
    _agreed[location] = copied, found.lost_bytes
    return kept


def wals_folder() -> Path:
    """Where copies of WALs are kept."""
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "wals"


def _key(wal: Path) -> tuple[int, int, bytes]:
    with wal.open("rb") as file:
        found = os.fstat(file.fileno())
        return found.st_dev, found.st_ino, file.read(32)


def _copied(wal: Path, folder: Path) -> Path:
    """A copy whose name has the time and the start of its hash."""
    partial = PartialFile.create(folder, wal.name)
    try:
        digest = hashlib.sha256()
        with wal.open("rb") as source, partial.path.open("wb") as target:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        mark = digest.hexdigest()[:16]
        for there in folder.glob(f"*.{mark}"):
            return there
        kept = folder / f"{wal.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{mark}"
        partial.path.rename(kept)
        sync_folder(folder)
        return kept
    finally:
        partial.close()


# -- other names of the file -------------------------------------------------------------------------------


def _check_names(path: Path, location: Path) -> None:
    """Refuse a hard link of a file that is, or may be, in use by another name: SQLite's WAL has the name's.

    Raises:
        RefusedError: it is so.
    """
    with suppress(OSError, ValueError):
        found = location.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:
            return
        others = _other_names(location, found)
        used = next((one for one in others if _has_sidecar(one)), None)
        elsewhere = open_under_other_names(location)
        why = f"{used}-wal or -journal is there" if used else ""
        if elsewhere:
            why = f"{process_names(elsewhere)} has it open by another name"
        elif not used and not _has_sidecar(location):
            if processes_with_open(location):
                why = f"{process_names(processes_with_open(location))} has it open, perhaps by another name"
            elif len(others) + 1 < found.st_nlink:
                why = "not all of them are in its folder, and a WAL may be beside another"
        if why:
            raise RefusedError(
                f"{path} is one of {found.st_nlink} names (hard links) of the same file, and {why}: SQLite "
                "would not see what is in that WAL, and would damage the file. Nothing was changed; give "
                "the name that the host uses, or make a copy and change that.",
                code="FILE_HAS_OTHER_NAMES",
            )


def _other_names(path: Path, found: os.stat_result) -> list[Path]:
    """Those in the same folder."""
    others = []
    with os.scandir(path.parent) as entries:
        for _, entry in zip(range(_MOST_NAMES), entries, strict=False):
            if entry.name != path.name and entry.inode() == found.st_ino:
                others.append(Path(entry.path))
    return others


def _has_sidecar(path: Path) -> bool:
    return any(sidecar(path, suffix).exists() for suffix in ("-wal", "-journal"))


#: Parameters of one statement at most; SQLite allows 32,766 since 3.32.
CHUNK = 30_000
#: Bytes of the first piece of the file that processes share beside a write-ahead log.
SHARED_MEMORY = 32_768
#: From so many bytes on a write-ahead log is moved into its file: SQLite's own default, 1,000 pages.
LONG_LOG_BYTES = 1_000 * 4_096
#: Room to rewrite a file, as a multiple of its size: the copy, and what goes through the WAL.
REWRITE_ROOM: Final = 2.2
#: How long SQLite waits for a lock at a time, where somebody may want to stop: it hears nothing meanwhile.
_STEP_SECONDS = 0.1
#: Steps of SQLite's machine after which a long statement looks whether to stop: less than a millisecond.
_STEPS_A_LOOK = 1_000


class Writer(Rows):
    """A read-write connection in one thread, for the length of a commit."""

    def __init__(self, connection: sqlite3.Connection, wait: float, stopped: Stop | None = None) -> None:
        self._connection = connection
        self._wait = wait
        self._stopped = stopped
        self._guard: Guard | None = None
        self._waits_whole = stopped is None  #: a lock is waited for in one go, and nothing stops that
        self.chunk = min(CHUNK, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER))

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

    def value(self, sql: str, parameters: Sequence[SqlValue] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.execute(sql, parameters).fetchone()
        return None if found is None else found[0]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the file; no lock is taken that a writer would wait for."""
        self.execute("BEGIN")
        yield
        self.execute("ROLLBACK")

    def rewrite_file(self, path: Path) -> None:
        """``VACUUM``, which takes long; the file is as before when it was to stop while it was being copied.

        SQLite hears nothing while it puts the copy back, which is the greater part of the time.

        Raises:
            RefusedError: there is no room for it.
            CancelledError: it was to stop.
        """
        size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
        if free < size * REWRITE_ROOM:
            raise RefusedError(f"that needs {int(size * REWRITE_ROOM):,} bytes, and {free:,} are free")
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


@contextlib.contextmanager
def creating(path: Path) -> Iterator[Writer]:
    """Make a database, private to its user, in WAL mode; blocks. What goes wrong leaves no file.

    Raises:
        RefusedError: something lies there already.
        ReadOnlyError: its folder is missing or cannot be written.
        DatabaseError: SQLite refused.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError as error:
        raise RefusedError(f"{path} already exists and is not replaced.") from error
    except OSError as error:
        raise ReadOnlyError(
            f"{path} cannot be created ({error.strerror or error}): check that its folder is there and that "
            "you may write to it."
        ) from error
    try:
        with open_writer(path, 5.0) as writer:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.begin()
            yield writer
            writer.commit()
    except BaseException as error:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{path}{ending}")
        if isinstance(error, sqlite3.Error):
            raise explained(error, path, 0.0) from error
        raise


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


# -- the catalog -----------------------------------------------------------------------------------------
# What the file's schema holds, as a commit needs it: tables, their columns, and what refers to what.

#: References that the engine keeps without declaring them (docs/spec/format.md, "Tables").
UNDECLARED = (("focus_brief_sources", "summary_id", "summaries", "summary_id"),)


class Reference(Record, frozen=True):
    """A column whose values name rows of another table."""

    table: str
    column: str
    target: str
    target_column: str


class Catalog(Record, frozen=True):
    """The schema of one file."""

    schema: Schema
    references: tuple[Reference, ...]

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Columns by table; search tables and their shadows have none."""
        return self.schema.tables

    def to(self, table: str) -> tuple[Reference, ...]:
        """What refers to a table."""
        return tuple(one for one in self.references if one.target == table)

    def of(self, table: str) -> tuple[Reference, ...]:
        """What a table refers to."""
        return tuple(one for one in self.references if one.table == table)


_REFERRING = """SELECT t.name, f."from", f."table", f."to" FROM sqlite_master AS t
    CROSS JOIN pragma_foreign_key_list(t.name) AS f
    WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"""


def read_catalog(writer: Writer) -> Catalog:
    """Read the schema."""
    schema = listed_schema(writer.tuples(LISTING))
    declared = (
        Reference(table, column, target, target_column or column)
        for table, column, target, target_column in writer.tuples(_REFERRING)
    )
    held = (
        one
        for one in (*declared, *(Reference(*one) for one in UNDECLARED))
        if schema.has(one.table, one.column) and schema.has(one.target, one.target_column)
    )
    return Catalog(schema, tuple(held))
