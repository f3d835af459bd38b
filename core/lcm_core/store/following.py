"""When a file that is followed is looked at: several times a second, or when Linux announces a write.

Linux announces what is written through itself, so only file systems that no other computer writes are relied
on. No descriptor of the file is opened for it: closing that would drop SQLite's locks (POSIX).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Final

from lcm_core.store.opening import TICK_NS, FileState, file_state, real_path, sidecar

#: How often the file is looked at, and how often when its writes are announced.
POLL_SECONDS = 0.2
ANNOUNCED_SECONDS = 2.0
#: Without a change for so long, an announcement is waited for.
CALM_SECONDS = 10.0

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "bcachefs", "zfs", "tmpfs"})
#: From ``linux/inotify.h``.
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OF_FILE: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
_OF_FOLDER: Final = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _DELETE_SELF | _MOVE_SELF
_READ_BYTES: Final = 65536


class Looks:
    """The looks at a file that is followed, one after the other."""

    def __init__(self, path: Path, stirred: asyncio.Event) -> None:
        """*stirred* is set when the file is to be looked at soon, whatever is announced."""
        self.count = 0
        self._path = path
        self._stirred = stirred
        self._changed_at = time.monotonic()
        self._notices: Notices | None = None
        self._announced = True  #: until a write was not
        self._by_itself = False  #: the last look was announced by nobody, although it might have been
        self._busy = False  #: what was announced was no change, as of other files in its folder

    async def next(self, *, calm: bool) -> FileState | None:
        """The file as it is after a pause; *calm*: announcements may be waited for."""
        waits = calm and self._announced and time.monotonic() - self._changed_at > CALM_SECONDS
        if waits and self._notices is None:
            self._announced = self._begin()
        if not waits or self._notices is None:
            self._by_itself = False
            await asyncio.sleep(POLL_SECONDS)
            state = await asyncio.to_thread(file_state, self._path)
        else:
            if self._busy:
                await asyncio.sleep(POLL_SECONDS)
            self._busy = await self._notices.wait(self._stirred, ANNOUNCED_SECONDS)
            self._by_itself = not self._busy
            state = file_state(self._path)
        self.count += 1
        return state

    def changed(self) -> None:
        """The last look saw a change."""
        self._changed_at = time.monotonic()
        self._announced = self._announced and not self._by_itself
        self.close()

    def close(self) -> None:
        """Wait for no announcement until the next calm."""
        if self._notices is not None:
            self._notices.close()
        self._notices, self._busy = None, False

    def _begin(self) -> bool:
        try:
            self._notices = Notices(self._path)
        except OSError:
            return False
        self._stirred.set()  # it is looked at once more: it may have been written until now
        return True


class Notices:
    """What is announced of a database, its WAL and its folder, from when it is made until it is closed."""

    def __init__(self, path: Path) -> None:
        """Of the file *path*.

        Raises:
            OSError: nothing is announced of it.
        """
        import ctypes

        path = real_path(path)
        if file_system(path) not in _LOCAL:
            raise OSError(f"another computer may write {path}")
        try:
            libc = ctypes.CDLL(None)
            begin, add = libc.inotify_init1, libc.inotify_add_watch
        except AttributeError:
            raise OSError("this system announces nothing") from None
        self._file: int = begin(os.O_NONBLOCK | os.O_CLOEXEC)
        watched = {path.parent: _OF_FOLDER, path: _OF_FILE, sidecar(path, "-wal"): _OF_FILE}
        folder, file, _ = (
            add(self._file, os.fsencode(each), ctypes.c_uint32(kinds)) for each, kinds in watched.items()
        )
        if min(folder, file) < 0:  # there need be no WAL
            if self._file >= 0:
                self.close()
            raise OSError(f"too many files are watched to watch {path}")

    async def wait(self, stirred: asyncio.Event, seconds: float) -> bool:
        """Wait for an announcement or until *stirred* is set; False: neither came for so many *seconds*."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._file, stirred.set)
        try:
            async with asyncio.timeout(seconds):
                await stirred.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._file)
            stirred.clear()
        await asyncio.sleep(TICK_NS / 1e9)  # a commit writes several times
        try:
            while os.read(self._file, _READ_BYTES):
                pass
        except BlockingIOError:
            pass
        return True

    def close(self) -> None:
        """Be told nothing any more."""
        os.close(self._file)


def file_system(path: Path) -> str:
    """The type of the file system that a file is on, as Linux calls it; empty where that is not known."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    found = (0, "")
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount.split(" ")[4])
        if len(point) >= found[0] and path.is_relative_to(point):
            found = (len(point), source.split(" ")[0])
    return found[1]
