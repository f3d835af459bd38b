"""Which processes have a database open: what Linux tells in ``/proc``, and nothing on other systems."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lcm_core.store.opening import real_path, sidecar

_PROC = Path("/proc")
#: Of many processes this many are process_names in a sentence.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has the database open."""

    pid: int
    name: str  #: of the program, which chose it itself: foreign text; empty when it cannot be read

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name or 'a program'} (process {self.pid})"


def processes_with_open(path: Path, proc: Path = _PROC) -> tuple[Holder, ...]:
    """The processes besides this one that have *path* or its WAL open, by number.

    Descriptors of other users' processes can be read by root alone; locks, which everybody may see, are
    looked at too. What runs outside this machine or container is not seen.
    """
    files: set[tuple[int, int]] = set()
    for file in (real_path(path), sidecar(real_path(path), "-wal"), sidecar(real_path(path), "-shm")):
        with contextlib.suppress(OSError):
            found = file.stat()
            files.add((found.st_dev, found.st_ino))
    pids = {*_by_descriptor(proc, files), *_by_lock(proc, files)} - {os.getpid()}
    return tuple(Holder(pid, _name(proc, pid)) for pid in sorted(pids))


def open_under_other_names(path: Path, proc: Path = _PROC) -> tuple[Holder, ...]:
    """The processes besides this one that have the file at *path* open by another of its names."""
    location = real_path(path)
    with contextlib.suppress(OSError):
        found = location.stat()
        files = {(found.st_dev, found.st_ino)}
        names = {str(location)}
        return tuple(
            Holder(int(process), _name(proc, int(process)))
            for process in _entries(proc)
            if process.isdigit()
            and int(process) != os.getpid()
            and any(
                _is_one(link, files) and os.readlink(link) not in names
                for link in ((proc / process / "fd" / number) for number in _entries(proc / process / "fd"))
            )
        )
    return ()


def process_names(found: Iterable[Holder]) -> str:
    """Some holders as part of a sentence."""
    texts = [holder.text for holder in found]
    more = len(texts) - _NAMED
    if more > 0:
        texts = [*texts[:_NAMED], f"{more} more"]
    return " and ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _by_descriptor(proc: Path, files: set[tuple[int, int]]) -> Iterator[int]:
    for process in _entries(proc):
        if process.isdigit() and any(
            _is_one(proc / process / "fd" / number, files) for number in _entries(proc / process / "fd")
        ):
            yield int(process)


def _is_one(link: Path, files: set[tuple[int, int]]) -> bool:
    try:
        if not os.readlink(link).startswith("/"):  # sockets and pipes
            return False
        found = link.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in files


def _by_lock(proc: Path, files: set[tuple[int, int]]) -> Iterator[int]:
    """Lines such as ``1: POSIX  ADVISORY  READ 24708 fe:00:2146401 1073741826 1073742335``."""
    try:
        lines = (proc / "locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = [field for field in line.split() if field != "->"]
        with contextlib.suppress(IndexError, ValueError):
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            if (device, int(inode)) in files and int(fields[4]) > 0:
                yield int(fields[4])


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _name(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""
