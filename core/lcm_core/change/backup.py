"""Backups of a database that a host may be writing to, and restoring one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lcm_core.base.errors import (
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    FileMissingError,
    LcmError,
    RefusedError,
    nothing_at,
)
from lcm_core.base.files import PartialFile, sync_folder
from lcm_core.base.records import Timestamp
from lcm_core.base.values import Record, field
from lcm_core.change.connection import Holder, check_beside, explained, process_names, processes_with_open
from lcm_core.change.copying import (
    CopyProgress,
    CopySource,
    CopyStep,
    DisturbedError,
    Report,
    Stop,
    check_wanted,
    copy_pages,
    facts_in,
    facts_of,
    has_sidecars,
    never,
    open_source,
    quick_check,
    unheard,
)
from lcm_core.change.plan import DiskFullError, ReadOnlyError
from lcm_core.store.database import Database
from lcm_core.store.opening import (
    MAGIC,
    Access,
    choose_access,
    connect_reading,
    connect_writing,
    error_name,
    explain,
    file_state,
    real_path,
    sidecar,
    undisturbed,
)
from lcm_core.store.schema import ESSENTIAL
from lcm_core.store.statistics import database_statistics

# -- backing up ------------------------------------------------------------------------------------------
# A backup is a copy of one state, whole or not there at all.
#
# The copy grows under a name of its own beside the target (mode 0600), is compared with what was read,
# reaches the disk, and only then takes the target's name. Nothing is ever overwritten unless that is
# requested.

#: How much is copied to learn how fast it goes.
SAMPLE_BYTES = 16 * 1024 * 1024
#: After so many bytes the disk is made to catch up, or the end of the copy would stall everybody's writes.
FLUSH_BYTES = 64 * 1024 * 1024
#: How often a copy is begun again because the file was replaced or written without a lock meanwhile.
ATTEMPTS = 5

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL})


class BackupEstimate(Record, frozen=True):
    """What a backup would take."""

    bytes: int  #: of the copy
    free: int  #: bytes, where it would lie
    seconds: float  #: as long as the rest goes as its first megabytes did

    @property
    def fits(self) -> bool:
        """Whether there is room, with a tenth to spare."""
        return self.free >= self.bytes * ROOM


class Backup(Record, frozen=True):
    """A copy that was made."""

    path: Path
    bytes: int
    pages: int
    seconds: float  #: to the millisecond
    checked: bool  #: whether ``quick_check`` ran on it
    problems: tuple[str, ...]  #: what it found; the copy is the same as the database, so they are in both
    access: Access  #: how the database was read


def estimate_backup(path: Path, target: Path) -> BackupEstimate:
    """Say what a backup of *path* to *target* would take, by copying its first megabytes and removing them.

    Raises:
        DatabaseError: the database cannot be read or is another program's, or nothing can be written beside
            *target*.
    """
    target = Path(os.path.abspath(target))
    for _ in range(ATTEMPTS):
        state = file_state(path)
        if state is not None and choose_access(path) is Access.COPY:
            return _estimate_by_hand(path, target, state.size + state.wal_size)
        with contextlib.suppress(DisturbedError), open_source(path) as source:
            free, begun = free_beside(target), time.monotonic()
            _check_ours(source)
            with _partial(target) as partial:
                _write(source, partial, CopyStep.COPY, unheard, never, most=SAMPLE_BYTES)
                spent, written = time.monotonic() - begun, max(partial.stat().st_size, 1)
            return BackupEstimate(source.facts.bytes, free, spent * max(source.facts.bytes / written, 1.0))
    raise _restless(path)


def _check_ours(source: CopySource) -> None:
    """Refuse to copy another program's database: whoever keeps it believes that the agent's memory is safe.

    A damaged one is copied: one table that we know is enough.

    Raises:
        DatabaseError: it has none.
    """
    for table, columns in ESSENTIAL.items():
        found = source.connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        if columns <= {row[0] for row in found}:
            return
    raise DatabaseError(
        f"{source.path} is a SQLite database but not an LCM one, so a copy of it restores no conversation. "
        "Nothing was copied; give the path of the engine's lcm.db with --db.",
        code="DATABASE_NOT_LCM",
    )


def _estimate_by_hand(path: Path, target: Path, size: int) -> BackupEstimate:
    """The estimate for what is first copied as it lies, with its WAL, and then page by page."""
    free, begun = free_beside(target), time.monotonic()
    with _partial(target) as partial, partial.open("wb") as sample:
        with undisturbed(path), path.open("rb") as file:
            written = sample.write(file.read(SAMPLE_BYTES))
        sample.flush()
        os.fsync(sample.fileno())
    return BackupEstimate(size, free, 2 * (time.monotonic() - begun) * max(size / max(written, 1), 1.0))


def make_backup(
    path: Path,
    target: Path,
    progress: Report = unheard,
    cancelled: Stop = never,
    *,
    check: bool = False,
    replace: bool = False,
) -> Backup:
    """Copy one state of the database *path* to *target*; blocks, so call it in a thread.

    With *check* the copy goes through ``quick_check``, which reads it whole. With *replace* a file that has
    the target's name gives way. Whatever goes wrong, no half a copy stays and the database is as it was.

    Raises:
        RefusedError: the target exists, belongs to a database, or is the database.
        DiskFullError: there is no room.
        ReadOnlyError: the target's folder is missing or cannot be written.
        DatabaseError: the database cannot be read or is another program's, or the copy cannot be written.
        CancelledError: *cancelled* said so.
    """
    begun, target = time.monotonic(), Path(os.path.abspath(target))
    check_target(path, target, replace=replace)
    for _ in range(ATTEMPTS):
        check_wanted(cancelled)
        with contextlib.suppress(DisturbedError), open_source(path, cancelled) as source:
            _check_ours(source)
            check_room(target, source.facts.bytes)
            problems = write_copy(
                source, target, CopyStep.COPY, progress, cancelled, check=check, replace=replace
            )
            facts, spent = source.facts, round(time.monotonic() - begun, 3)
            return Backup(target, facts.bytes, facts.pages, spent, check, problems, source.access)
    raise _restless(path)


def write_copy(
    source: CopySource,
    target: Path,
    step: CopyStep,
    progress: Report = unheard,
    cancelled: Stop = never,
    *,
    check: bool = False,
    replace: bool = False,
) -> tuple[str, ...]:
    """Copy an open database to *target*, make sure of the copy, and return what ``quick_check`` found."""
    with _partial(target) as partial:
        _write(source, partial, step, progress, cancelled)
        source.check_undisturbed()
        _compare(source, partial)
        problems: tuple[str, ...] = ()
        if check:
            progress(CopyProgress(CopyStep.VERIFY, 0, 0))
            problems = _checked(partial, cancelled)
        check_wanted(cancelled)
        _publish(partial, target, replace=replace)
    return problems


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """An empty private file beside *target*, which is gone at the end unless it was renamed."""
    try:
        partial = PartialFile.create(target.parent, target.name)
    except (OSError, ValueError) as error:
        raise unwritable(target, error) from error
    try:
        yield partial.path
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        partial.close()


def _write(
    source: CopySource,
    partial: Path,
    step: CopyStep,
    progress: Report,
    cancelled: Stop,
    most: int | None = None,
) -> None:
    """Write the pages to *partial* and see them to the disk; of a sample the first *most* bytes."""
    flushed = 0
    descriptor = os.open(partial, os.O_RDWR | os.O_CLOEXEC)

    def flush(now: CopyProgress) -> None:
        nonlocal flushed
        if now.done - flushed >= FLUSH_BYTES:
            os.fsync(descriptor)
            flushed = now.done
        progress(now)
        if most is not None and now.done >= most:
            raise _EnoughError

    try:
        # Nobody else knows the file and half of it is worth nothing, so it needs no journal.
        with closing(connect_writing(partial, 5.0)) as target:
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            with contextlib.suppress(_EnoughError):
                copy_pages(source, target, step, flush, cancelled)
        os.fsync(descriptor)
    except sqlite3.Error as error:
        source.check_undisturbed()
        raise _not_written(error, source.path, partial) from error
    finally:
        os.close(descriptor)


class _EnoughError(Exception):
    """A sample is large enough."""


def _compare(source: CopySource, partial: Path) -> None:
    """Make sure that the copy has the pages and the header of what was read.

    Raises:
        DatabaseError: it has not.
    """
    with partial.open("rb") as file:
        header = file.read(100)
    size = partial.stat().st_size
    whole = header.startswith(MAGIC) and size == source.facts.bytes and facts_in(header) == source.facts
    if not whole:
        raise DatabaseError(
            f"The copy of {source.path} is not what was read ({size:,} of {source.facts.bytes:,} bytes). "
            f"It is removed; check the disk of {partial.parent} and try again.",
            code="BACKUP_DIFFERS",
        )


def _checked(partial: Path, cancelled: Stop) -> tuple[str, ...]:
    with closing(connect_reading(partial, 0, immutable=True)) as connection:
        return quick_check(connection, cancelled)


def _publish(partial: Path, target: Path, *, replace: bool) -> None:
    """Give the copy its name, for good."""
    if replace:
        os.replace(partial, target)
    else:
        _name_once(partial, target)
    with contextlib.suppress(
        OSError
    ):  # a folder that cannot be listed, or a file system without such a thing
        sync_folder(target.parent)


def _name_once(partial: Path, target: Path) -> None:
    """Rename without ever writing over: a link fails where the name is taken, a rename does not."""
    try:
        os.link(partial, target)
    except FileExistsError as error:
        raise RefusedError(
            f"{target} was created by another process meanwhile and is not overwritten. Give another path."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LINKS or os.path.lexists(target):
            raise
        os.rename(partial, target)


def _not_written(error: sqlite3.Error, path: Path, partial: Path) -> DatabaseError:
    """SQLite's complaint during a copy: it does not say of which of the two files."""
    name = error_name(error)
    removed = f"What was written of the copy in {partial.parent} is removed"
    if name.startswith("SQLITE_FULL"):
        return DiskFullError(
            f"The disk became full while {path} was copied. {removed}; make room, or give another path."
        )
    if name.startswith("SQLITE_IOERR"):
        return DatabaseError(
            f"{path} could not be copied: {error}. {removed}; check both disks (and limits on the size of "
            "files), then try again.",
            code="BACKUP_FAILED",
        )
    return explain(error, path)


def _restless(path: Path) -> DatabaseBusyError:
    return DatabaseBusyError(
        f"{path} was replaced or written again and again while it was copied. No copy was kept; wait until "
        "the writes end and try again."
    )


# -- where backups are, and what a target must be like ---------------------------------------------------


#: Up to this size (bytes) the app offers a backup before the first commit of a day, unless the user sets it.
OFFER_BYTES = 512 * 1024 * 1024
#: Room that must be there, as a multiple of what is copied.
ROOM = 1.1

_STAMP = "%Y%m%dT%H%M%SZ"


class KnownBackup(Record, frozen=True):
    """A backup that lies beside its database."""

    path: Path
    at: datetime  #: UTC, from its name
    bytes: int


def default_target(path: Path, now: datetime | None = None, label: str = "") -> Path:
    """A name for a backup of *path* that is not taken: beside the file itself, ``<name>.<UTC stamp>.backup``.

    Beside it, because there an operator looks for it; a folder that cannot be written is said when it is.
    *label* goes in front of the suffix.
    """
    path = real_path(path)
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime(_STAMP)
    end = f".{label}.backup" if label else ".backup"
    target, number = Path(f"{path}.{stamp}{end}"), 1
    while os.path.lexists(target):
        number += 1
        target = Path(f"{path}.{stamp}-{number}{end}")
    return target


def known_backups(path: Path) -> tuple[KnownBackup, ...]:
    """The backups of *path* that have the name `default_target` gave them, oldest first."""
    path = real_path(path)
    pattern = re.compile(re.escape(path.name) + r"\.([0-9]{8}T[0-9]{6}Z)(?:-([0-9]+))?(?:\.[a-z-]+)?\.backup")
    found: list[tuple[int, KnownBackup]] = []
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            with contextlib.suppress(OSError, ValueError):
                if match and entry.is_file(follow_symlinks=False):
                    at = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                    found.append(
                        (int(match[2] or 1), KnownBackup(Path(entry.path), at, entry.stat().st_size))
                    )
    found.sort(key=lambda numbered: (numbered[1].at, numbered[0], numbered[1].path.name))
    return tuple(backup for _, backup in found)


def offers_backup(
    size: int, limit: int, last_operation: datetime | None, backups: Iterable[KnownBackup], now: datetime
) -> bool:
    """Whether to offer a backup before a commit: the first of a day, to a file of less than *limit* bytes.

    The day is that of *now*, in its zone. No offer when a backup was made on it; a *limit* of 0 offers none.
    """
    today, zone = now.date(), now.tzinfo
    moments = [backup.at for backup in backups] + ([] if last_operation is None else [last_operation])
    return size < limit and all(moment.astimezone(zone).date() != today for moment in moments)


def check_target(path: Path, target: Path, *, replace: bool) -> None:
    """Refuse a target at which a backup would do harm, before anything is copied.

    Raises:
        RefusedError: it exists, belongs to a database, or is the database.
        FileMissingError: its folder is missing.
    """
    source = real_path(path)
    if real_path(target) in {source, *(sidecar(source, end) for end in ("-wal", "-shm", "-journal"))}:
        raise RefusedError(f"{target} is the database itself or a part of it. Give another path with --to.")
    if not target.parent.is_dir():
        raise _no_folder(target)
    left = has_sidecars(target)
    if left:
        raise RefusedError(
            f"{left[0]} is where SQLite would read it as part of the copy. Give another path, or move "
            "it away if no database belongs to it."
        )
    if not os.path.lexists(target):
        return
    if not replace:
        raise RefusedError(
            f"{target} exists and is not written over. Give another path, or --force to replace it."
        )
    if not target.is_file() or target.is_symlink() or (path.exists() and target.samefile(path)):
        raise RefusedError(f"{target} is not a regular file that can be replaced. Give another path.")


def check_room(target: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk.

    Raises:
        DiskFullError: there is not a tenth more than *needed* bytes where *target* lies.
    """
    free = free_beside(target)
    if free < needed * ROOM:
        raise DiskFullError(
            f"The copy needs {needed:,} bytes and a tenth to spare, and {target.parent} has {free:,}. "
            "Nothing was written; make room, or give a path on another disk.",
            details={"needed": needed, "free": free},
        )


def free_beside(target: Path) -> int:
    """Bytes that are free where *target* lies.

    Raises:
        FileMissingError: there is no such folder.
        ReadOnlyError: nothing can be known about it.
    """
    try:
        return shutil.disk_usage(target.parent).free
    except FileNotFoundError as error:
        raise _no_folder(target) from error
    except OSError as error:
        raise unwritable(target, error) from error


def _no_folder(target: Path) -> FileMissingError:
    return FileMissingError(
        "folder", target.parent, "Create it, or give the backup another path.", code="FOLDER_NOT_FOUND"
    )


def unwritable(target: Path, error: OSError | ValueError) -> DatabaseError:
    """Why nothing can be written beside *target*, as a sentence."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFullError(
            f"There is no room for {target} ({reason}). The partial copy was removed; free space, or give a "
            "path on another disk."
        )
    return ReadOnlyError(
        f"{target} cannot be written: {reason}. Give a path in a folder that you may write to, with --to."
    )


# -- restoring -------------------------------------------------------------------------------------------
# The pages of a backup are copied into the database file by SQLite's own means, in one transaction.
#
# The file keeps its inode, owner and mode, and no WAL or SHM is touched by hand. Until the transaction is
# committed the file is as it was, whatever happens to this process; afterwards it is as the backup. In a
# WAL file the pages are in the WAL until then, else their former contents are in the journal; whoever opens
# the file next finishes or rolls back what a crash left.

#: How long the file is waited for, seconds, and how often it is tried meanwhile.
WAIT_SECONDS = 5.0
_TRY_SECONDS = 0.1
_KEPT = "before-restore"


class Contents(Record, frozen=True):
    """What a database holds, to tell one from another."""

    path: Path
    bytes: int
    version: str  #: of the engine that wrote it, for people
    conversations: int
    messages: int
    summaries: int
    #: the newest message, as stored
    newest: Timestamp | None = field(name="latestMessageAt")


class RestorePreview(Record, frozen=True):
    """What a restore would do."""

    backup: Contents
    database: Contents | None  #: None: it is missing, or cannot be read
    missing: bool  #: there is no database; the backup takes its place
    unreadable: str | None  #: why it cannot be read; None when it can, or is missing
    #: bytes that the copy of what is there and the restore itself need beside the database
    room: int = field(name="roomBytes")
    holders: tuple[Holder, ...]  #: who must be stopped before


class Restored(Record, frozen=True):
    """A restore that was made."""

    path: Path
    bytes: int
    pages: int
    kept: Path | None  #: the copy of what was there; None when there was nothing
    seconds: float  #: to the millisecond


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
        return RestorePreview(offered, None, True, None, offered.bytes, ())
    present, unreadable = None, None
    try:
        present = _contents(database)
    except LcmError as error:
        unreadable = error.message
    size = path.stat().st_size
    room = size + max(size, offered.bytes)
    return RestorePreview(offered, present, False, unreadable, room, processes_with_open(path))


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
    return Restored(path, source.facts.bytes, source.facts.pages, kept, round(time.monotonic() - begun, 3))


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
    return Restored(path, made.bytes, made.pages, None, round(time.monotonic() - begun, 3))


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
