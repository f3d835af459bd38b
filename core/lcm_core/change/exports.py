"""Files that hold the edits of operations too large for the journal (design.md section 4)."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lcm_core.change.errors import DiskFullError, RefusedError

#: Packed edits of more bytes are kept outside the database.
LIMIT_BYTES = 8 * 1024 * 1024
#: The same for a plan that is there to save space.
APART_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Export:
    """A file with packed edits."""

    path: Path
    sha256: str


def export_folder() -> Path:
    """Where exports of this user are kept unless a caller says otherwise."""
    return Path(platformdirs.user_data_dir("lcm-tui", appauthor=False)) / "operations"


def write_export(folder: Path, operation_id: str, packed: bytes) -> Export:
    """Write packed edits to a file of their own that only this user can read, and make it last.

    Raises:
        DiskFullError: the folder cannot be written.
    """
    path = folder / f"{operation_id}.edits"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(folder)
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
        RefusedError: the file is gone, unreadable, or not what was written.
    """
    try:
        packed = export.path.read_bytes()
    except OSError as error:
        raise RefusedError(
            f"What undoing this needs was kept in {export.path}, which cannot be read ({error.strerror}). "
            "Put the file back; nothing was changed."
        ) from error
    if hashlib.sha256(packed).hexdigest() != export.sha256:
        raise RefusedError(
            f"What undoing this needs was kept in {export.path}, which is not as it was written. "
            "Restore the file from a backup; nothing was changed."
        )
    return packed


def remove_export(path: Path) -> None:
    """Remove an export that nothing needs any more."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
