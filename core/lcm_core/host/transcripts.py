"""A page of one session, wherever it lies (docs/host.md, "The active path").

Rows of the host's table are read a page at a time. What is packed, or a file, is read twice in pieces: once
for its tree, once for the texts of the page. Nothing holds more than a page and, where the path has to be
walked, the places of all entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.errors import DatabaseError
from lcm_core.host.active import active_path, path_events
from lcm_core.host.archives import Source, TextLines, archive_lines, file_of, from_stream
from lcm_core.host.entries import SessionEntry, entry_of_line, entry_of_row, value_of
from lcm_core.host.listing import ArchivePlace, ColdPlace, FilePlace, HostSession, HotPlace
from lcm_core.ingest.jsonl import (
    LINE_LIMIT,
    BadLineError,
    Cancelled,
    LineProblem,
    RawLine,
    TranscriptError,
    check_cancelled,
    decode_object,
    never_cancelled,
    open_transcript,
    scan_lines,
    spliced,
)
from lcm_core.ingest.transcript import MISSING, TranscriptScan
from lcm_core.javascript import JsonObject
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.host_sessions import active_seqs, entry_counts, off_path

#: Problems that are kept with their text; all are counted.
PROBLEM_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some entries of a session's active path, in order."""

    entries: tuple[SessionEntry, ...]
    start: int  #: position of the first on the path, from 0
    total: int  #: entries of the whole path
    off_path: tuple[str, ...]  #: ids of those between them that the host does not see any more
    problem_count: int
    problems: tuple[LineProblem, ...]  #: by place, at most `PROBLEM_LIMIT`


def read_page(
    session: HostSession,
    *,
    limit: int | None = None,
    before: int | None = None,
    cancelled: Cancelled = never_cancelled,
) -> SessionPage:
    """The last *limit* entries (None: all) before position *before* of the path (None: its end); blocks.

    Raises:
        NotFoundError: the session is not there any more; list again.
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
        CancelledError: the caller stopped it.
    """
    wanted = _Wanted(limit, before)
    if isinstance(session.place, HotPlace):
        return read_host(session.place.database, _hot_page, session.session_id, wanted, cancelled)
    return from_stream(session, _streamed, wanted, cancelled)


@dataclass(frozen=True, slots=True)
class SessionExtent:
    """How much a session holds."""

    entries: int  #: on and off the path, the header not counted
    newest_at: datetime | None  #: of its last entry that says a time, UTC
    bad_lines: int = 0  #: lines of a file of which something cannot be read


#: Bytes of an archive or a file that are read only to count what is in it.
COUNTED_BYTES: Final = 1024 * 1024


def extents(
    sessions: Sequence[HostSession], *, cancelled: Cancelled = never_cancelled
) -> dict[HostSession, SessionExtent]:
    """How much some sessions hold: those whose database can be read, and whose archive or file is small.

    Raises:
        CancelledError: the caller stopped it.
    """
    found: dict[HostSession, SessionExtent] = {}
    hot: dict[Path, list[HostSession]] = {}
    for session in sessions:
        place = session.place
        if isinstance(place, HotPlace):
            hot.setdefault(place.database, []).append(session)
        elif isinstance(place, ColdPlace):
            if place.row.events is not None:
                found[session] = SessionExtent(max(0, place.row.events - 1), session.newest_at)
        elif _is_small(place):
            with suppress(TranscriptError, DatabaseError):
                found[session] = _counted(place, cancelled)
    for database, several in hot.items():
        check_cancelled(cancelled)
        with suppress(DatabaseError):
            counts = read_host(database, entry_counts, [one.session_id for one in several])
            found |= {one: SessionExtent(counts[one.session_id], one.newest_at) for one in several}
    return found


def _is_small(place: ArchivePlace | FilePlace) -> bool:
    if isinstance(place, ArchivePlace):
        return place.row.size <= COUNTED_BYTES
    with suppress(OSError):
        return place.path.stat().st_size <= COUNTED_BYTES
    return False


def _counted(place: ArchivePlace | FilePlace, cancelled: Cancelled) -> SessionExtent:
    if isinstance(place, ArchivePlace):
        return read_host(place.database, _archive_extent, place, cancelled)
    return _extent(TextLines(file_of(place.path)), cancelled)


def _archive_extent(rows: HostRows, place: ArchivePlace, cancelled: Cancelled) -> SessionExtent:
    return _extent(archive_lines(rows, place), cancelled)


def _extent(source: TextLines, cancelled: Cancelled) -> SessionExtent:
    count, newest, bad = 0, None, 0
    for line in source.lines(cancelled):
        entries = [entry_of_line(line)]
        if entries[0].type is None and line.ended:
            found = spliced(line)
            bad += found is None or found.is_lost
            entries = [] if found is None else [entry_of_line(record) for record in found.records]
        for entry in entries:
            if entry.type not in (None, "session"):
                count += 1
                newest = entry.created_at or newest
    return SessionExtent(count, newest, bad)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which part of a path is asked for."""

    limit: int | None
    before: int | None

    def bounds(self, total: int) -> tuple[int, int]:
        """The first position and the one behind the last."""
        stop = total if self.before is None else max(0, min(self.before, total))
        return (0 if self.limit is None else max(0, stop - self.limit)), stop


# -- rows of the host's table ----------------------------------------------------------------------------


def _hot_page(rows: HostRows, session_id: str, wanted: _Wanted, cancelled: Cancelled) -> SessionPage:
    path = active_path(rows, session_id)
    start, stop = wanted.bounds(len(path))
    entries = []
    for row in path_events(rows, path, start, stop):
        check_cancelled(cancelled)
        entries.append(entry_of_row(row))
    if path.walked is not None and path.scan is not None:
        ids = {number: entry_id for entry_id, number in path.scan.numbers.items()}
        numbers = _Gone(path.walked, start, stop, path.scan).numbers()
        gone = [ids[number] for number in numbers if number in ids]
        return _page(entries, start, len(path), gone, path.problems)
    lower = entries[0].number if entries and start else 0
    upper = next(iter(active_seqs(rows, session_id, stop, stop + 1)), None)
    return _page(entries, start, len(path), off_path(rows, session_id, lower, upper), [])


def newest_values(
    rows: HostRows, session_id: str, step: int = 16
) -> Iterator[tuple[SessionEntry, JsonObject]]:
    """The entries of a session's path with what they hold, the newest first; a row that is bad holds nothing.

    Raises:
        NotFoundError: the session has no rows any more.
    """
    path = active_path(rows, session_id)
    stop = len(path)
    while stop > 0:
        start = max(0, stop - step)
        for row in reversed(list(path_events(rows, path, start, stop))):
            try:
                value: JsonObject = value_of(row)[0]
            except BadLineError:
                value = {}
            yield entry_of_row(row), value
        stop = start


#: Bytes at the end of a file that are read first, and how many times more each time that they do not do.
_END_BYTES: Final = 64 * 1024
_MORE: Final = 8


def newest_in_file(path: Path) -> Iterator[tuple[SessionEntry, JsonObject]]:
    """The same of a transcript in a file, of which no more is read than is asked for.

    Raises:
        TranscriptError: it cannot be read.
    """
    given, span = 0, _END_BYTES
    with open_transcript(path) as file:
        size = file.seek(0, 2)
        while True:
            scan = _end_of(file, max(0, size - span), size)
            shown, _ = scan.path()
            origins = scan.columns.origin
            if span >= size or not any(origins[at] == MISSING for at in scan.markers):
                for number in reversed(shown[: len(shown) - given]):
                    yield _entry_at(file, scan, number)
                given = len(shown)
            if span >= size:
                return
            span *= _MORE


def _end_of(file: BinaryIO, begin: int, size: int) -> TranscriptScan:
    """The lines from a byte on, the one that it lies in left out, to where the file ended at first."""
    file.seek(begin)
    if begin:
        begin += len(file.readline())
    scan = TranscriptScan()
    for line in scan_lines(file, offset=begin):
        if line.offset + line.size > size:
            break
        scan.take(line)
    return scan


def _entry_at(file: BinaryIO, scan: TranscriptScan, number: int) -> tuple[SessionEntry, JsonObject]:
    columns = scan.columns
    file.seek(columns.offset[number])
    size = columns.size[number]
    data = file.read(min(size, LINE_LIMIT))
    line = RawLine(columns.line[number], columns.offset[number], size, data, size > LINE_LIMIT, ended=True)
    try:
        value: JsonObject = {} if line.too_long else decode_object(data)
    except BadLineError:
        value = {}
    return entry_of_line(line), value


def bad_lines(sessions: Iterable[HostSession], most: int | None = None) -> dict[HostSession, int]:
    """The sessions in plain files with lines that cannot be read, and how many; blocks.

    *most*: bytes of a file that is read; larger ones are left out.
    """
    found: dict[HostSession, int] = {}
    for session in sessions:
        path = session.live_file
        with suppress(TranscriptError, OSError):
            if path is not None and (most is None or path.stat().st_size <= most):
                extent = _extent(TextLines(file_of(path)), never_cancelled)
                found |= {session: extent.bad_lines} if extent.bad_lines else {}
    return found


# -- what is read as a stream ----------------------------------------------------------------------------


def path_of(source: Source, scan: TranscriptScan) -> tuple[Sequence[int], list[LineProblem]]:
    """The numbers of the entries on the path of what was scanned, in order, and what is wrong with it.

    It is the host's own list where that is complete.
    """
    listed, lines = source.path(), scan.columns.line
    if listed is None or not set(listed).issubset(lines):
        return scan.path()
    numbers = {line: number for number, line in enumerate(lines)}
    return [numbers[line] for line in listed], []


def _streamed(source: Source, wanted: _Wanted, cancelled: Cancelled) -> SessionPage:
    scan = TranscriptScan()
    for line in source.lines(cancelled):
        scan.take(line)
    problems = list(source.problems)
    numbers = scan.columns.line
    shown, found = path_of(source, scan)
    problems += found
    path = [numbers[number] for number in shown]
    start, stop = wanted.bounds(len(path))
    gone = _Gone(path, start, stop, scan)
    lines_off = {numbers[number] for number in gone.numbers()}
    positions = {scan.place_of(number): at for at, number in enumerate(shown[start:stop])}
    lines_on = {line for line, _ in positions}
    entries: dict[int, SessionEntry] = {}
    off: list[str] = []
    for line in source.lines(cancelled):
        if line.number not in lines_on and line.number not in lines_off:
            continue
        for part in scan.parts(line):
            entry = entry_of_line(part)
            at = positions.get((part.number, part.offset))
            if at is not None:
                entries[at] = entry
            elif line.number in lines_off and entry.entry_id is not None:
                off.append(entry.entry_id)
    in_order = [entries[at] for at in sorted(entries)]
    return _page(in_order, start, len(path), off, [*problems, *scan.problems.kept], scan.problems.count)


@dataclass(frozen=True, slots=True)
class _Gone:
    """The entries that are not on the path, and lie between those of a page."""

    path: Sequence[int]
    start: int
    stop: int
    scan: TranscriptScan

    def numbers(self) -> Iterator[int]:
        """Their numbers in the order of the file."""
        lower = self.path[self.start] if 0 < self.start < len(self.path) else -1
        upper = self.path[self.stop] if self.stop < len(self.path) else 2**63
        on_path = set(self.path)
        for number, line in enumerate(self.scan.columns.line):
            if lower <= line < upper and line not in on_path:
                yield number


def _page(
    entries: Sequence[SessionEntry],
    start: int,
    total: int,
    off: Sequence[str],
    problems: Sequence[LineProblem],
    counted: int = 0,
) -> SessionPage:
    known = {problem.line for problem in problems}
    own = [
        LineProblem(entry.number, entry.problem)
        for entry in entries
        if entry.problem is not None and entry.number not in known
    ]
    found = sorted((*problems, *own), key=lambda problem: problem.line)
    count = max(len(found), counted)
    return SessionPage(tuple(entries), start, total, tuple(off), count, tuple(found[:PROBLEM_LIMIT]))
