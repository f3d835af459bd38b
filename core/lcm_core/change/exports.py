"""Files that hold the edits of operations too large for the journal (docs/hostile-files.md, "Exports").

The journal lies in the database, which anybody may have written: what it names is opened only as a file of
ours. Of a recorded path the name alone is used, and only if we give such names; it is looked for in our own
folder, opened once without following a link or waiting for a writer, and has to be a private file of this
user, of bounded size, that holds what was recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from lcm_core.change.codec import PACKED_BYTES
from lcm_core.change.errors import DiskFullError
from lcm_core.errors import RefusedError
from lcm_core.private_files import PROGRAM, make_private, sync_folder

#: Packed edits of more bytes are kept outside the database.
LIMIT_BYTES = 8 * 1024 * 1024
#: The same for a plan that is there to save space.
APART_BYTES = 16 * 1024

_NAME: Final = re.compile(r"op_[0-9a-f]{16}\.edits")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Export:
    """A file with packed edits."""

    path: Path  #: as it was recorded
    sha256: str


def export_folder() -> Path:
    """Where exports of this user are kept."""
    return Path(platformdirs.user_data_dir(PROGRAM, appauthor=False)) / "operations"


def write_export(operation_id: str, packed: bytes) -> Export:
    """Write packed edits to a file of their own that only this user can read, and make it last.

    Raises:
        DiskFullError: the folder cannot be written.
        RefusedError: they are more than could be read again.
    """
    if len(packed) > PACKED_BYTES:
        raise RefusedError(
            f"Undoing this needs {len(packed):,} bytes, more than {PACKED_BYTES:,}. Change less "
            "at a time; nothing was changed."
        )
    path = export_folder() / f"{operation_id}.edits"
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        remove_export(path)
        raise DiskFullError(
            "This change is too large for the journal, and what undoing it needs cannot be written to "
            f"{path} ({error.strerror}). Nothing was changed; make room there and try again.",
            code="EXPORT_FAILED",
        ) from error
    return Export(path, hashlib.sha256(packed).hexdigest())


def read_export(export: Export) -> bytes:
    """The packed edits.

    Raises:
        RefusedError: the file is gone, unreadable, not private, too large, or not what was written.
    """
    folder, name = export_folder(), export.path.name
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"The data for undoing this is recorded to be in {str(export.path)!r}, which is not a file "
            "written by lcm-tui. It is not opened, and nothing was changed."
        )
    try:
        packed = _read_private(folder, name)
    except OSError as error:
        raise RefusedError(
            f"What undoing this needs was kept in {folder / name}, which cannot be read ({error.strerror}). "
            "Put the file back; nothing was changed."
        ) from error
    if hashlib.sha256(packed).hexdigest() != export.sha256:
        raise RefusedError(
            f"What undoing this needs was kept in {folder / name}, which is not as it was written. "
            "Restore the file from a backup; nothing was changed."
        )
    return packed


def remove_export(path: Path) -> None:
    """Remove an export that nothing needs any more; of the recorded path only the name counts."""
    if not _NAME.fullmatch(path.name):
        return
    with contextlib.suppress(OSError), _opened(export_folder()) as folder:
        os.unlink(path.name, dir_fd=folder)


def _read_private(folder: Path, name: str) -> bytes:
    """A whole file of *folder*, which nobody can exchange between the look at it and the reading.

    Raises:
        RefusedError: it is no private file of this user, or too large.
        OSError: it cannot be opened, a symbolic link for example.
    """
    with _opened(folder) as parent:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=parent
        )
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if problem := _no_export(found):
            raise RefusedError(
                f"What undoing this needs was kept in {folder / name}, which {problem}. Put the file back "
                "as it was written, for this user only (chmod 600); nothing was changed."
            )
        pieces, left = [], found.st_size
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _no_export(found: os.stat_result) -> str:
    """Why a file cannot be an export of ours; empty when it can."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return "others could have written or read"
    if found.st_size > PACKED_BYTES:
        return f"has {found.st_size:,} bytes, more than the {PACKED_BYTES:,} that are ever written"
    return ""


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
