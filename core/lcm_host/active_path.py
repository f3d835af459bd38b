"""A page of a session, wherever it is stored, along its active path (docs/host.md, "The active path")."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.base.errors import DatabaseError, NotFoundError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import (
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
    read_header,
    scan_lines,
    spliced,
    string,
)
from lcm_core.base.values import Record
from lcm_core.store.host_database import HostRows, read_host

from lcm_host.rows import (
    EventRow,
    HotState,
    Node,
    active_events,
    active_seqs,
    entry_counts,
    events_at,
    hot_state,
    is_put_away,
    nodes,
    off_path,
)
from lcm_host.sessions import (
    ArchivePlace,
    ColdPlace,
    FilePlace,
    HostSession,
    HotPlace,
    SessionEntry,
    Source,
    entry_of_line,
    entry_of_row,
    from_stream,
    value_of,
)
from lcm_host.transcript_files import LEAF, MISSING, TranscriptScan

# -- the active path -------------------------------------------------------------------------------------
# Of a session in the host's table. The host's own list of it is used where it is complete. Else the path is
# walked from the last entry to the first, by what the rows say of their parents: then only the places of
# its entries are held.


@dataclass(frozen=True, slots=True)
class ActivePath:
    """What the host sees of a session, as it was when this was read."""

    session_id: str
    state: HotState
    walked: array[int] | None  #: places of the entries, in order; None: the host's list is complete
    scan: TranscriptScan | None = field(default=None, compare=False)  #: by which it was walked
    problems: tuple[LineProblem, ...] = field(default=(), compare=False)  #: of the walk

    def __len__(self) -> int:
        """Entries on the path."""
        return self.state.active if self.walked is None else len(self.walked)

    def is_still(self, now: HotState) -> bool:
        """Whether positions mean what they meant: history was not rewritten, and only grew."""
        same = now.generation == self.state.generation and now.indexed == self.state.indexed
        return same and now.active >= self.state.active and (now.last_seq or 0) >= (self.state.last_seq or 0)


def active_path(rows: HostRows, session_id: str) -> ActivePath:
    """The path of a session; an empty one where nothing was ever said in it.

    Raises:
        NotFoundError: its entries are not in the table any more.
    """
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        _check_there(rows, session_id)
    if state.indexed or state.last_seq is None:
        return ActivePath(session_id, state, None)
    scan, problems = _tree(rows, session_id)
    shown, found = scan.path()
    places = array("q", (scan.columns.line[number] for number in shown))
    return ActivePath(session_id, state, places, scan, (*problems, *scan.problems.kept, *found))


def path_events(rows: HostRows, path: ActivePath, start: int, stop: int) -> Iterator[EventRow]:
    """The entries at positions *start* to *stop* of a path, in order, read one after the other."""
    if path.walked is None:
        return active_events(rows, path.session_id, start, stop)
    return events_at(rows, path.session_id, path.walked[start:stop])


def _check_there(rows: HostRows, session_id: str) -> None:
    there = rows.first("SELECT 1 FROM session_windows WHERE session_id = ?", (session_id,)) is not None
    if not there or is_put_away(rows, session_id):
        raise NotFoundError(
            f"Session {session_id} is not in {rows.path} any more: the host archived or deleted it. List "
            "the sessions again.",
            code="SESSION_NOT_FOUND",
            details={"session": session_id},
        )


def _tree(rows: HostRows, session_id: str) -> tuple[TranscriptScan, list[LineProblem]]:
    listed, unlisted = nodes(rows, session_id)
    scan, problems = TranscriptScan(), []
    # Rows tell neither what a marker targets nor whether a parent is none or was never recorded.
    asked = {*unlisted, *(node.seq for node in listed if node.type == LEAF or node.parent_id is None)}
    values: dict[int, JsonObject] = {}
    for row in events_at(rows, session_id, sorted(asked)):
        try:
            values[row.seq] = _frame_of(value_of(row)[0])
        except BadLineError as error:
            if row.seq in unlisted:
                problems.append(LineProblem(row.seq, str(error)))
    by_seq = {node.seq: node for node in listed}
    for seq in sorted({*by_seq, *values}):
        value = values.get(seq) or _of_node(by_seq[seq])
        if value.get("type") == "session":
            scan.header = scan.header or read_header(value)
        elif string(value.get("type")) is not None:
            scan.place(seq, value)
    return scan, problems


def _frame_of(value: JsonObject) -> JsonObject:
    """What places an entry in the tree, without what was said: there may be many of them."""
    if value.get("type") == "session":
        return value
    return {name: value[name] for name in ("type", "id", "parentId", "targetId") if name in value}


def _of_node(node: Node) -> JsonObject:
    return {"type": node.type or "unknown", "id": node.entry_id, "parentId": node.parent_id}


# -- pages -----------------------------------------------------------------------------------------------
# Rows of the host's table are read a page at a time. What is packed, or a file, is read twice in pieces:
# once for its tree, once for the texts of the page. Only a page is held and, where the path has to be
# walked, the places of all entries.

#: Problems that are kept with their text; all are counted.
PROBLEM_LIMIT: Final = 1000


class SessionPage(Record, frozen=True):
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


class SessionExtent(Record, frozen=True):
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
                found[session] = from_stream(session, _extent, cancelled)
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


def _extent(source: Source, cancelled: Cancelled) -> SessionExtent:
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


class _Wanted(Record, frozen=True):
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
        numbers = _off_path(path.walked, start, stop, path.scan)
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
                extent = from_stream(session, _extent, never_cancelled)
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
    lines_off = {numbers[number] for number in _off_path(path, start, stop, scan)}
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


def _off_path(path: Sequence[int], start: int, stop: int, scan: TranscriptScan) -> Iterator[int]:
    """The entries that are not on a path and lie between those of a page: their numbers, in file order."""
    lower = path[start] if 0 < start < len(path) else -1
    upper = path[stop] if stop < len(path) else 2**63
    on_path = set(path)
    for number, line in enumerate(scan.columns.line):
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
