"""What beside a database keeps it from being changed: a WAL that SQLite ignores, and other names of the file.

Both are looked at before SQLite is let near the file for writing: the connection that closes it last deletes
the WAL (docs/decisions.md, "A WAL that SQLite ignores").
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import platformdirs

from lcm_core.change.processes import open_under_other_names, process_names, processes_with_open
from lcm_core.errors import DatabaseError, RefusedError
from lcm_core.private_files import PROGRAM, PartialFile, make_private, sync_folder
from lcm_core.store.opening import check_sidecars, file_state, real_path, sidecar
from lcm_core.store.wal import WalState, examine_wal

OPTION: Final = "--allow-unread-wal"
#: Entries of a folder that are looked at for other names of a file.
_MOST_NAMES: Final = 10_000
_CHUNK: Final = 8 * 1024 * 1024
#: WALs that were examined, by file and header: a WAL that SQLite goes on with stays sound.
_sound: set[tuple[int, int, bytes]] = set()
#: Those of which a copy was kept: by database, the inode of the WAL and the bytes that SQLite ignored.
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
    inode, lost_bytes = _agreed.get(path, (0, 0))
    return None if inode == state.wal_inode and found.lost_bytes <= lost_bytes else found


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
    except OSError as error:
        raise RefusedError(
            f"{wal} cannot be copied to {wals_folder()} ({error.strerror}). Nothing was changed; "
            "free space there, or copy it yourself and move it away."
        ) from error
    if state is None or state != file_state(location):
        raise RefusedError(f"{wal} was written while it was copied. Nothing was changed; try again.")
    _agreed[location] = state.wal_inode, found.lost_bytes
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
