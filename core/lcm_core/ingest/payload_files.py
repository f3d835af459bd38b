"""Writes payloads to the large-files folder before their rows are committed, and takes them back.

Nothing but our own new files is ever written or removed: private, never through a link, never over one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from lcm_core.errors import DatabaseError
from lcm_core.ingest.jsonl import open_regular
from lcm_core.ingest.payloads import Payload

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class PayloadError(DatabaseError):
    """The large-files folder cannot be written."""

    default_code = "LARGE_FILES_UNWRITABLE"


def payload_path(folder: Path, conversation_id: int, payload: Payload) -> Path:
    """Where a payload lies: ``<folder>/<conversation>/<file id><ending>``, absolute."""
    return Path(os.path.abspath(folder)) / str(conversation_id) / payload.stored_name


def write_payloads(folder: Path, conversation_id: int, payloads: Iterable[Payload]) -> tuple[Path, ...]:
    """Write payloads, each 0600, and say where; when one cannot be written none stays.

    Raises:
        PayloadError: the folder or a file cannot be written, or a link leads out of the folder.
    """
    written: list[Path] = []
    try:
        for payload in payloads:
            path = payload_path(folder, conversation_id, payload)
            _prepare(path.parent)
            descriptor = os.open(path, _NEW, 0o600)
            written.append(path)
            with open(descriptor, "wb") as file:
                file.write(payload.data)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        remove_payloads(written)
        reason = error.strerror or str(error)
        raise PayloadError(
            f"A large payload could not be written to {folder} ({reason}). Nothing was imported; check the "
            "folder and the disk, or name another folder with LCM_LARGE_FILES_DIR."
        ) from error
    except BaseException:
        remove_payloads(written)
        raise
    return tuple(written)


def same_bytes(path: Path, data: bytes) -> bool:
    """Whether a file of this folder is there and holds the very same; blocks."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size == len(data) and file.read(len(data) + 1) == data
    except OSError:
        return False


def remove_payloads(paths: Iterable[Path]) -> None:
    """Take files back that `write_payloads` wrote; a folder that they left empty goes too."""
    folders = set()
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        folders.add(path.parent)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _prepare(folder: Path) -> None:
    """Make a conversation's folder; a link in its place would lead elsewhere."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or not folder.is_dir():
        raise PayloadError(f"{folder} is no folder of its own; nothing was imported. Move it away.")
