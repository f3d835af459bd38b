"""Where backups lie: their names, which are there, whether to offer one, and what a target must be like."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lcm_core.change.copying import has_sidecars
from lcm_core.change.errors import DiskFullError, ReadOnlyError
from lcm_core.errors import DatabaseError, RefusedError
from lcm_core.store.opening import real_path, sidecar

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
        ReadOnlyError: its folder is missing or cannot be written.
    """
    source = real_path(path)
    if real_path(target) in {source, *(sidecar(source, end) for end in ("-wal", "-shm", "-journal"))}:
        raise RefusedError(f"{target} is the database itself or a part of it. Give another path with --to.")
    if not target.parent.is_dir():
        raise ReadOnlyError(
            f"There is no folder {target.parent} for the backup. Make it, or give another path."
        )
    left = has_sidecars(target)
    if left:
        raise RefusedError(
            f"{left[0]} lies where SQLite would take it for a part of the copy. Give another path, or move "
            "it away if no database belongs to it."
        )
    if not os.path.lexists(target):
        return
    if not replace:
        raise RefusedError(
            f"{target} exists and is not written over. Give another path, or --force to replace it."
        )
    if not target.is_file() or target.is_symlink() or (path.exists() and target.samefile(path)):
        raise RefusedError(f"{target} is no file of its own that could be replaced. Give another path.")


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
        ReadOnlyError: there is no such folder.
    """
    try:
        return shutil.disk_usage(target.parent).free
    except OSError as error:
        raise unwritable(target, error) from error


def unwritable(target: Path, error: OSError | ValueError) -> DatabaseError:
    """Why nothing can be written beside *target*, as a sentence."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFullError(
            f"There is no room for {target} ({reason}). What was written of it is removed; make room, or "
            "give a path on another disk."
        )
    return ReadOnlyError(
        f"{target} cannot be written: {reason}. Give a path in a folder that you may write to, with --to."
    )
