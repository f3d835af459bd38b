"""Rewriting a database file without its free pages (``VACUUM``), which returns them to the disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from lcm_core.base.errors import DatabaseBusyError, RefusedError
from lcm_core.base.values import Record
from lcm_core.change.backup import default_target, estimate_backup
from lcm_core.change.connection import (
    Holder,
    Writer,
    open_writer,
    process_names,
    processes_with_open,
)
from lcm_core.change.copying import Stop

#: Room that it needs, as a multiple of the file's size: the copy, and what goes through the WAL.
_ROOM: Final = 2.2
#: The pages are written twice: into the copy, and from there back into the file.
_COPIES: Final = 2


class VacuumEstimate(Record, frozen=True):
    """What a ``VACUUM`` would take."""

    bytes: int  #: of the file now
    needed: int  #: bytes of room
    room: int  #: bytes that are free on that disk
    seconds: float  #: as long as the rest goes as its first megabytes do
    holders: tuple[Holder, ...]  #: other processes that have the file open

    @property
    def problem(self) -> str:
        """Why it cannot be done now, and what to do; empty where nothing is in the way."""
        if self.holders:
            them = "it" if len(self.holders) == 1 else "them"
            return f"The database is open in {process_names(self.holders)}. Stop {them} first"
        if self.room < self.needed:
            return f"It needs {self.needed:,} bytes, and {self.room:,} are free on this disk"
        return ""


def estimate_vacuum(path: Path) -> VacuumEstimate:
    """Say what `vacuum` would take, by copying the first megabytes; blocks.

    Raises:
        DatabaseError: the database cannot be read, or nothing can be written beside it.
    """
    size = path.stat().st_size
    copied = estimate_backup(path, default_target(path, label="vacuum"))
    return VacuumEstimate(
        size, int(size * _ROOM), copied.free, copied.seconds * _COPIES, processes_with_open(path)
    )


def vacuum(path: Path, *, wait: float = 5.0, stopped: Stop | None = None) -> tuple[int, int]:
    """Rewrite the file; return its size in bytes before and after. Blocks; no one else can write meanwhile.

    *stopped* says whether to give it up; the file is as before then.

    Raises:
        CancelledError: it was stopped.
        DatabaseBusyError: another process has the file open, so a host would wait.
        RefusedError: there is no room for it.
        BusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a commit does.
    """
    if holders := processes_with_open(path):
        them = "it" if len(holders) == 1 else "them"
        raise DatabaseBusyError(
            f"The database is open in {process_names(holders)}. Stop {them} first; nothing was changed.",
            details={"pids": ", ".join(str(holder.pid) for holder in holders)},
        )
    before = path.stat().st_size
    with open_writer(path, wait, stopped) as writer:
        rewrite_file(writer, path)
        if writer.value("PRAGMA journal_mode") == "wal":
            writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, path.stat().st_size


def rewrite_file(writer: Writer, path: Path) -> None:
    """The same on an open connection.

    Raises:
        RefusedError: there is no room for it.
        CancelledError: the writer was to stop.
    """
    size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    if free < size * _ROOM:
        raise RefusedError(f"that needs {int(size * _ROOM):,} bytes, and {free:,} are free")
    writer.rewrite_file()
