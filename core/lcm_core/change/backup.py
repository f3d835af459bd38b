"""Backups: a copy of one state of a database that a host may be writing to, whole or not there at all.

The copy grows under a name of its own beside the target (mode 0600), is compared with what was read, reaches
the disk, and only then takes the target's name. Nothing is ever written over unless that is asked for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

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
    has_sidecars,
    never,
    open_source,
    quick_check,
    unheard,
)
from lcm_core.change.errors import DiskFullError, ReadOnlyError
from lcm_core.errors import DatabaseBusyError, DatabaseError, FileMissingError, RefusedError
from lcm_core.private_files import PartialFile, sync_folder
from lcm_core.store.connecting import error_name
from lcm_core.store.opening import (
    MAGIC,
    Access,
    choose_access,
    connect_reading,
    connect_writing,
    explain,
    file_state,
    real_path,
    sidecar,
    undisturbed,
)
from lcm_core.store.schema import ESSENTIAL

#: How much is copied to learn how fast it goes.
SAMPLE_BYTES = 16 * 1024 * 1024
#: After so many bytes the disk is made to catch up, or the end of the copy would stall everybody's writes.
FLUSH_BYTES = 64 * 1024 * 1024
#: How often a copy is begun again because the file was replaced or written without a lock meanwhile.
ATTEMPTS = 5

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class BackupEstimate:
    """What a backup would take."""

    bytes: int  #: of the copy
    free: int  #: bytes, where it would lie
    seconds: float  #: as long as the rest goes as its first megabytes did

    @property
    def fits(self) -> bool:
        """Whether there is room, with a tenth to spare."""
        return self.free >= self.bytes * ROOM


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was made."""

    path: Path
    bytes: int
    pages: int
    seconds: float
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
            facts, spent = source.facts, time.monotonic() - begun
            return Backup(target, facts.bytes, facts.pages, spent, check, problems, source.access)
    raise _restless(path)


def check_backup(path: Path, cancelled: Stop = never) -> tuple[str, ...]:
    """Read a whole backup (or database) and say what is wrong with its pages; blocks, so call it in a thread.

    Raises:
        DatabaseError: it cannot be opened.
        CancelledError: *cancelled* said so.
    """
    with open_source(path, cancelled) as source:
        return quick_check(source.connection, cancelled)


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


# -- where backups lie, and what a target must be like --------------------------------------------------


#: Up to this size (bytes) the app offers a backup before the first commit of a day, unless the user sets it.
OFFER_BYTES = 512 * 1024 * 1024
#: Room that must be there, as a multiple of what is copied.
ROOM = 1.1

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class KnownBackup:
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
