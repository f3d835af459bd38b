"""Files on their way, under a name of their own until they are whole; those of killed runs are removed.

The writer holds a lock (``flock``) on its file for as long as it lives, so a file that can be locked belongs
to nobody any more. The lock is taken before the file has the name by which it would be found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r".+\.lcm-tui-[0-9a-f]{8}\.partial")
#: Names of 0.1, which held no lock: ``<backup>.<hex>.partial`` and ``.conversation-<id>-<hex>.partial``.
_OLD_NAME: Final = re.compile(r"(?:.+\.[0-9a-f]{8}|\.conversation-[0-9]+-[0-9a-f]{8})\.partial")
#: Seconds for which such a file must not have been written.
_OLD_SECONDS: Final = 3_600
#: Files of a folder that are looked at.
_MOST: Final = 10_000


class PartialFile:
    """An empty private file that nobody else is named like, locked until `close`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, folder: Path, name: str) -> PartialFile:
        """Make one, after those that killed runs left in *folder* are removed.

        Raises:
            OSError: it cannot be made.
        """
        remove_dead(folder)
        mark = secrets.token_hex(4)
        unnamed = folder / f".{name}.{mark}"
        path = folder / f"{name}.lcm-tui-{mark}.partial"
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: then nobody removes it either
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        except BaseException:
            os.close(descriptor)
            unnamed.unlink(missing_ok=True)
            raise
        return cls(path, descriptor)

    def close(self) -> None:
        """Remove it, unless it was given another name, and let go of it."""
        if self._descriptor < 0:
            return
        try:
            self.path.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_dead(folder: Path) -> list[Path]:
    """Remove the partial files of ours in *folder* whose writer is gone; never an error."""
    removed = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_MOST), entries, strict=False):
            with contextlib.suppress(OSError):
                if entry.name.endswith(".partial") and _is_dead(Path(entry.path)):
                    os.unlink(entry.path)
                    removed.append(Path(entry.path))
    return removed


def _is_dead(path: Path) -> bool:
    """Whether a file is one of ours that nobody writes any more.

    Raises:
        OSError: it cannot be looked at, or somebody holds it.
    """
    old = not _NAME.fullmatch(path.name)
    if old and not _OLD_NAME.fullmatch(path.name):
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if not ours or (old and time.time() - found.st_mtime < _OLD_SECONDS):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(descriptor)
