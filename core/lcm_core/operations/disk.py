"""What a database takes on the disk, inside its file and beside it, and what can be given back.

docs/spec/decisions.md, "Disk".
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from lcm_core.base.errors import DatabaseBusyError
from lcm_core.base.records import ConversationId
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, field
from lcm_core.change.backup import default_target, estimate_backup, known_backups
from lcm_core.change.connection import REWRITE_ROOM, Holder, open_writer, process_names, processes_with_open
from lcm_core.change.copying import Stop
from lcm_core.change.journal import APART_BYTES, pack
from lcm_core.change.plan import Keeping, Plan, deletions
from lcm_core.operations.export import default_folder, row_bytes
from lcm_core.store.database import Reader
from lcm_core.store.messages import list_files
from lcm_core.store.opening import file_state, real_path, sidecar
from lcm_core.store.statistics import ConversationSize, FileSize, conversation_sizes, file_size

# -- inside the file -------------------------------------------------------------------------------------


#: Bands of age, each up to so many days since the newest message; then all that is older.
_BANDS: Final = (("under 7 days", 7), ("7 to 30 days", 30), ("30 to 90 days", 90), ("90 days to 1 year", 365))
_OLDER: Final = "over 1 year"
_UNKNOWN: Final = "unknown"


class AgeBand(Record, frozen=True):
    """The conversations of one age."""

    title: str
    conversations: int
    messages: int
    bytes: int | None  #: of their texts; None: they were not measured


def ages_of(found: Sequence[ConversationSize], now: datetime) -> Iterable[AgeBand]:
    """The bands that have conversations, the newest first."""
    titles = [*(title for title, _ in _BANDS), _OLDER, _UNKNOWN]
    members: dict[str, list[ConversationSize]] = {title: [] for title in titles}
    for one in found:
        members[_band(one, now)].append(one)
    for title, those in members.items():
        if those:
            texts = None if those[0].bytes is None else sum(one.bytes or 0 for one in those)
            yield AgeBand(title, len(those), sum(one.messages for one in those), texts)


def _band(one: ConversationSize, now: datetime) -> str:
    at = parse_utc(one.at)
    if at is None:
        return _UNKNOWN
    return next((title for title, days in _BANDS if now - at < timedelta(days=days)), _OLDER)


# -- beside it -------------------------------------------------------------------------------------------

#: The name of the part that `vacuum` empties.
LOG: Final = "write-ahead log"
BACKUPS: Final = "backups"
EXPORTS: Final = "exports of all databases"
#: Files of the folder of large files that are looked at.
_MOST_FILES: Final = 200_000
#: A younger file may belong to a row that the host is about to write.
_SETTLED_SECONDS: Final = 86_400
#: How the engine calls a large file: its id, and the ending of what it was.
_LARGE_FILE: Final = re.compile(r"(file_[0-9a-f]{16})(?:\.[A-Za-z0-9]{1,16})?")


class DiskPart(Record, frozen=True):
    """Files of one kind that belong to a database."""

    name: str
    files: int
    bytes: int
    folder: Path | None = None  #: None: that of the database
    paths: tuple[Path, ...] = ()


class DiskFile(Record, frozen=True):
    """A file beside the database that may be removed."""

    path: Path
    bytes: int


class DiskUse(Record, frozen=True):
    """All that belongs to a database on this disk."""

    file: FileSize
    stored: int  #: bytes of the file and its write-ahead log; new pages are only in the log at first
    parts: tuple[DiskPart, ...]  #: beside the file: WAL, large files, backups, exports
    strays: tuple[DiskFile, ...]

    @property
    def vacuum_bytes(self) -> int:
        """What `vacuum` gives back: free pages, and the write-ahead log."""
        return max(self.stored - (self.file.bytes - self.file.free), 0)

    @property
    def copies(self) -> list[DiskPart]:
        """Backups and exports, which no undo needs."""
        return [part for part in self.parts if part.files and part.name in (BACKUPS, EXPORTS)]

    @property
    def stray_bytes(self) -> int:
        """What the large files take that no row names."""
        return sum(one.bytes for one in self.strays)

    @property
    def bytes(self) -> int:
        """Everything."""
        return self.stored + sum(part.bytes for part in self.parts if part.name != LOG)


async def disk_use(reader: Reader, path: Path, large_files: Path | None) -> DiskUse:
    """Measure the tables of the file and the files beside it. *large_files* is their folder, if known."""
    known = {str(one.file_id).lower() for one in await list_files(reader)}
    parts, strays = await asyncio.to_thread(_beside, path, large_files, known)
    return DiskUse(await file_size(reader), _stored(path), parts, strays)


def _beside(
    path: Path, large_files: Path | None, known: set[str]
) -> tuple[tuple[DiskPart, ...], tuple[DiskFile, ...]]:
    stored = [] if large_files is None else _large_files(large_files)
    strays = _strays(stored, known)
    parts = (
        _part(LOG, [sidecar(real_path(path), "-wal")]),
        _part("large files", stored, large_files),
        _part(BACKUPS, [one.path for one in known_backups(path)]),
        _part(EXPORTS, default_folder().glob("*.jsonl"), default_folder()),
    )
    return parts, tuple(strays)


def _part(name: str, paths: Iterable[Path], folder: Path | None = None) -> DiskPart:
    files = tuple(path for path in paths if path.is_file())
    return DiskPart(name, len(files), sum(map(_size, files)), folder, files)


def _large_files(folder: Path) -> list[Path]:
    """The files ``<conversation>/<id>.<ending>`` of the folder; no link is followed."""
    found: list[Path] = []
    for owner in _entries(folder):
        if owner.name.isdecimal() and owner.is_dir(follow_symlinks=False):
            found += [Path(one.path) for one in _entries(owner) if one.is_file(follow_symlinks=False)]
        if len(found) >= _MOST_FILES:
            break
    return sorted(found)


def _entries(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _strays(stored: Iterable[Path], known: set[str]) -> list[DiskFile]:
    """Those that no row names; none where rows name no file at all: the folder is of another database."""
    settled = time.time() - _SETTLED_SECONDS
    names = [(path, name[1]) for path in stored if (name := _LARGE_FILE.fullmatch(path.name))]
    if not any(name in known for _, name in names):
        return []
    found = [(path, path.stat()) for path, name in names if name not in known and path.exists()]
    return [DiskFile(path, stat.st_size) for path, stat in found if stat.st_mtime < settled]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _stored(path: Path) -> int:
    """The bytes of a database file and its write-ahead log."""
    state = file_state(path)
    return 0 if state is None else state.size + state.wal_size


class Freed(Record, frozen=True):
    """What a deletion of conversations frees, and what it writes; in bytes, and about."""

    file: int = field(name="fileBytes")  #: of the database file now
    free: int = field(name="fileBytesFree")  #: of its pages that are free already
    after: int = field(name="fileBytesAfter")  #: of it once its free pages are given back
    export: int = field(name="exportBytes")  #: of the files that bring the conversations back
    undo: int = field(name="undoBytes")  #: that the history keeps, in the file or beside it
    files: int = field(name="largeFiles")  #: of theirs, which stay
    stored: int = field(name="largeFileBytes")  #: of those, as they were recorded

    @property
    def freed(self) -> int:
        """Bytes that the database file gives back."""
        return self.file - self.after


#: Plans whose edits are packed to learn how far the others can be.
_PACKED: Final = 8
#: Bytes of search data about, below which FTS5 only notes that it is deleted: it merges later, when it grows.
_UNMERGED: Final = 32 * 1024


async def freed_by(reader: Reader, conversations: Collection[ConversationId], plans: Sequence[Plan]) -> Freed:
    """Measure what goes with some conversations; *plans* delete them, or the first of their rows.

    A large deletion gives the search data of its texts back as well; of a small one it stays in the file.
    """
    wanted = set(conversations)
    sizes = await conversation_sizes(reader)
    texts = sum(one.messages + one.summaries for one in sizes if one.id in wanted)
    planned = sum(edit.table in ("messages", "summaries") for plan in plans for edit in deletions(plan.edits))
    whole = max(texts / planned, 1.0) if planned else 1.0
    sizes_of = await asyncio.to_thread(lambda: [row_bytes(plan.edits) for plan in plans])
    exported, stored, searched = (int(whole * sum(those)) for those in zip(*sizes_of, strict=True))
    gone = stored + max(0, searched * 3 // 2 - _UNMERGED)
    kept = [plan for plan in plans if plan.keeping is not Keeping.NOWHERE]
    packed = await asyncio.to_thread(lambda: [len(pack(plan.edits)) for plan in kept[:_PACKED]])
    share = whole * len(kept) / max(len(packed), 1)
    inside = sum(size for size in packed if size <= APART_BYTES) * share
    files = [one for owner in conversations for one in await list_files(reader, owner)]
    page, pages = await reader.value("PRAGMA page_size"), await reader.value("PRAGMA page_count")
    free = await reader.value("PRAGMA freelist_count")
    return Freed(
        page * pages,
        page * free,
        max(int(page * (pages - free) - gone + inside), 0),
        exported if kept else 0,
        int(sum(packed) * share),
        len(files),
        sum(one.byte_size or 0 for one in files),
    )


# -- giving back -----------------------------------------------------------------------------------------
# The free pages, by rewriting the file without them (``VACUUM``); and the large files that no row names.

#: The pages are written twice: into the copy, and from there back into the file.
_COPIES: Final = 2


class VacuumEstimate(Record, frozen=True):
    """What a ``VACUUM`` would take."""

    bytes: int  #: of the file and its write-ahead log now
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
        _stored(path),
        int(size * REWRITE_ROOM),
        copied.free,
        copied.seconds * _COPIES,
        processes_with_open(path),
    )


def vacuum(path: Path, *, wait: float = 5.0, stopped: Stop | None = None) -> tuple[int, int]:
    """Rewrite the file, and empty its write-ahead log; return the bytes of both before and after.

    Blocks; no one else can write meanwhile.

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
    before = _stored(path)
    with open_writer(path, wait, stopped) as writer:
        writer.rewrite_file(path)
        if writer.value("PRAGMA journal_mode") == "wal":
            writer.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, _stored(path)


class Removed(Record, frozen=True):
    """Files that were removed."""

    files: int
    bytes: int
    kept: tuple[str, ...]  #: why some are still there, a sentence each


async def strays_in(reader: Reader, large_files: Path) -> list[DiskFile]:
    """The files of that folder that no row names."""
    known = {str(one.file_id).lower() for one in await list_files(reader)}
    return await asyncio.to_thread(lambda: _strays(_large_files(large_files), known))


async def remove_strays(reader: Reader, large_files: Path, shown: Sequence[DiskFile]) -> Removed:
    """Remove the files that were *shown*, as far as no row names them still; this cannot be undone."""
    paths = {one.path for one in shown}
    strays = await strays_in(reader, large_files)
    return await asyncio.to_thread(remove_files, [one for one in strays if one.path in paths])


def remove_files(given: Sequence[DiskFile]) -> Removed:
    """Remove files; this cannot be undone."""
    files, freed, kept = 0, 0, []
    for one in given:
        try:
            one.path.unlink()
        except OSError as error:
            kept.append(f"{one.path} could not be removed ({error.strerror}).")
        else:
            files, freed = files + 1, freed + one.bytes
    return Removed(files, freed, tuple(kept))
