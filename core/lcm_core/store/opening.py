"""How a database file can be opened without leaving a trace beside it (design.md section 5).

SQLite leaves ``-wal`` and ``-shm`` beside a WAL file that is opened read-only, owned by whoever opened it.
So the way in depends on what lies in the folder: `choose_access` looks, and changes nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lcm_core.errors import DatabaseBusyError, DatabaseError, DatabaseMissingError

MAGIC = b"SQLite format 3\x00"


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
    wal_inode: int
    wal_size: int  #: bytes; 0 when there is no WAL
    wal_modified_ns: int


def sidecar(path: Path, suffix: str) -> Path:
    """The file that SQLite keeps beside *path*: ``-wal``, ``-shm`` or ``-journal``."""
    return path.with_name(path.name + suffix)


def file_state(path: Path) -> FileState | None:
    """The present state of the file, None when it is gone."""
    try:
        main = path.stat()
    except OSError:
        return None
    try:
        wal = sidecar(path, "-wal").stat()
    except OSError:
        return FileState(main.st_ino, main.st_size, main.st_mtime_ns, 0, 0, 0)
    return FileState(main.st_ino, main.st_size, main.st_mtime_ns, wal.st_ino, wal.st_size, wal.st_mtime_ns)


def choose_access(path: Path) -> Access:
    """Decide how to open *path*, after making sure that it is a whole SQLite file.

    Raises:
        DatabaseMissingError: there is no such file.
        DatabaseError: a folder, another kind of file, an encrypted or truncated one, or no permission.
    """
    header = _read_header(path)
    wal = sidecar(path, "-wal")
    wal_size = wal.stat().st_size if wal.exists() else 0
    if not wal_size:
        _check_length(path, header)
    writes_wal = header[18] == 2
    if not writes_wal:
        return Access.READ_ONLY
    if not wal_size:
        return Access.IMMUTABLE
    shm = sidecar(path, "-shm")
    readable = shm.exists() and os.access(shm, os.R_OK)
    return Access.READ_ONLY if readable else Access.COPY


def private_copy(path: Path) -> Path:
    """Copy a database and its WAL into a new private folder and return the copy's path.

    Raises:
        DatabaseError: there is no room for the copy, or the files cannot be read.
    """
    wal = sidecar(path, "-wal")
    needed = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    folder = Path(tempfile.mkdtemp(prefix="lcm-tui-"))
    try:
        if shutil.disk_usage(folder).free < needed * 1.1:
            raise DatabaseError(
                f"{path} has a WAL that can only be read from a copy of {needed:,} bytes, and {folder.parent} "
                "has no room for it. Set TMPDIR to a folder that has."
            )
        copy = folder / path.name
        shutil.copyfile(path, copy)
        if wal.exists():
            shutil.copyfile(wal, sidecar(copy, "-wal"))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DatabaseError(f"{path} and its WAL cannot be copied for reading: {error.strerror}.") from error
    except DatabaseError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return copy


def _read_header(path: Path) -> bytes:
    """The first 100 bytes, once it is clear that they are those of a SQLite database."""
    try:
        if path.is_dir():
            raise DatabaseError(
                f"{path} is a folder. Give the database file in it, for example --db {path / 'lcm.db'}."
            )
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError as error:
        raise DatabaseMissingError(
            f"There is no database at {path}. Give its path with --db or LCM_DATABASE_PATH; nothing was created.",
            details={"path": str(path)},
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DatabaseError(f"{path} cannot be read: {reason}. Check its permissions.") from error
    if not header:
        raise DatabaseError(f"{path} is empty: no engine has written to it yet. Check the path.")
    if not header.startswith(MAGIC) or len(header) < 100:
        raise DatabaseError(
            f"{path} is not a SQLite database, or it is encrypted. Check the path, or decrypt a copy first."
        )
    return header


def _check_length(path: Path, header: bytes) -> None:
    """Refuse a file that ends before its last page (only sure when the header's page count is current)."""
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    counted = header[24:28] == header[92:96]
    pages = int.from_bytes(header[28:32], "big")
    size = path.stat().st_size
    if counted and pages and size < pages * page_size and not sidecar(path, "-journal").exists():
        raise DatabaseError(
            f"{path} is truncated: {size:,} of {pages * page_size:,} bytes are there. "
            "Copy it again (with its -wal), or restore a backup."
        )


def explain(error_name: str, text: str, path: Path) -> DatabaseError:
    """SQLite's complaint about *path* as a sentence for people; *error_name* as in `sqlite_errorname`."""
    if error_name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseBusyError(
            f"{path} is locked by another process. Wait until it has finished, or stop it, and try again."
        )
    if error_name.startswith("SQLITE_NOTADB"):
        return DatabaseError(
            f"{path} is not a SQLite database, or it is encrypted. Check the path, or decrypt a copy first."
        )
    if error_name.startswith("SQLITE_CORRUPT"):
        return DatabaseError(
            f"{path} is damaged ({text}). Work on a copy: `sqlite3 COPY .recover` can save what is left.",
            code="DATABASE_CORRUPT",
        )
    if error_name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return DatabaseError(f"{path} cannot be opened: {text}. Check its permissions and its folder's.")
    return DatabaseError(f"{path} cannot be read: {text}.", code="DATABASE_QUERY_FAILED")
