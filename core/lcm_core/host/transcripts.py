"""A page of one session, wherever it lies (docs/host.md, "The active path").

Rows of the host's table are read a page at a time. What is packed, or a file, is read twice in pieces: once
for its tree, once for the texts of the page. Nothing holds more than a page and, where the path has to be
walked, the places of all entries.
"""

from __future__ import annotations

import hashlib
import io
import json
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

from lcm_core.errors import DatabaseError, NotFoundError
from lcm_core.host.entries import SessionEntry, entry_of_line, entry_of_row, value_of
from lcm_core.host.listing import ArchivePlace, ColdPlace, FilePlace, HostSession, HotPlace
from lcm_core.host.packing import Pieces, unpacked
from lcm_core.ingest.jsonl import (
    HEAD_BYTES,
    BadLineError,
    Cancelled,
    LineProblem,
    RawLine,
    TranscriptError,
    TranscriptMissingError,
    check_cancelled,
    decode_object,
    never_cancelled,
    open_regular,
    open_transcript,
    read_header,
    scan_lines,
    string,
)
from lcm_core.ingest.transcript import LEAF, TranscriptScan
from lcm_core.javascript import Json, JsonObject
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.host_sessions import (
    ENTRY_LIMIT,
    ColdRow,
    EventRow,
    Node,
    active_events,
    active_seqs,
    entry_counts,
    events_at,
    hot_state,
    nodes,
    off_path,
)

#: Bytes that an archive may hold, whatever the host says of it.
ARCHIVE_LIMIT: Final = 8 * 1024**3
#: Problems that are kept with their text; all are counted.
PROBLEM_LIMIT: Final = 1000
_CHUNK: Final = 1024 * 1024
#: A line of a cold archive holds an entry as a text within JSON: twice its bytes at most, and more.
_COLD_LINE: Final = 2 * ENTRY_LIMIT + 64 * 1024


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
    place = session.place
    match place:
        case HotPlace():
            return read_host(place.database, _hot_page, session.session_id, wanted, cancelled)
        case ColdPlace() if place.row.in_database:
            return read_host(place.database, _cold_row_page, session, wanted, cancelled)
        case ColdPlace():
            source = _ColdLines(session.session_id, place.row, _cold_file(place))
            return _streamed(source, wanted, cancelled)
        case ArchivePlace():
            return read_host(place.database, _archive_page, place, wanted, cancelled)
        case FilePlace():
            return _streamed(_TextLines(_file_of(place.path)), wanted, cancelled)


@dataclass(frozen=True, slots=True)
class SessionExtent:
    """How much a session holds."""

    entries: int  #: on and off the path, the header not counted
    newest_at: datetime | None  #: of its last entry that says a time, UTC


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
    return _extent(_TextLines(_file_of(place.path)), cancelled)


def _archive_extent(rows: HostRows, place: ArchivePlace, cancelled: Cancelled) -> SessionExtent:
    return _extent(_archive_lines(rows, place), cancelled)


def _extent(source: _TextLines, cancelled: Cancelled) -> SessionExtent:
    count, newest = 0, None
    for line in source.lines(cancelled):
        entry = entry_of_line(line)
        if entry.type not in (None, "session"):
            count += 1
            newest = entry.created_at or newest
    return SessionExtent(count, newest)


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
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        return _empty(rows, session_id)
    if not state.indexed:
        return _walked_page(rows, session_id, wanted, cancelled)
    start, stop = wanted.bounds(state.active)
    entries = []
    for row in active_events(rows, session_id, start, stop):
        check_cancelled(cancelled)
        entries.append(entry_of_row(row))
    lower = entries[0].number if entries and start else 0
    upper = next(iter(active_seqs(rows, session_id, stop, stop + 1)), None)
    gone = off_path(rows, session_id, lower, upper)
    return _page(entries, start, state.active, gone, [])


def newest_values(
    rows: HostRows, session_id: str, step: int = 64
) -> Iterator[tuple[SessionEntry, JsonObject]]:
    """The entries of a session's path with what they hold, the newest first; a row that is bad holds nothing.

    Raises:
        NotFoundError: the session has no rows any more.
    """
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        _empty(rows, session_id)
    path: Sequence[int] = ()
    if not state.indexed:
        scan, _ = _tree(rows, session_id)
        path = [scan.columns.line[number] for number in scan.path()[0]]
    stop = state.active if state.indexed else len(path)
    while stop > 0:
        start = max(0, stop - step)
        found = (
            active_events(rows, session_id, start, stop)
            if state.indexed
            else events_at(rows, session_id, path[start:stop])
        )
        for row in reversed(list(found)):
            try:
                value: JsonObject = value_of(row)[0]
            except BadLineError:
                value = {}
            yield entry_of_row(row), value
        stop = start


# -- a session written out -----------------------------------------------------------------------------

#: What ends a line for a reader of the whole file, and stands in JSON only where an escape may.
_LINE_ENDS: Final = (
    (b"\n", b" "),
    (b"\r", b" "),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
#: Entries that are read in one transaction.
_STEP: Final = 500


def write_transcript(
    session: HostSession, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> int:
    """Write what the host sees of a session as a transcript, a header first; how many entries were bad.

    It is read in pieces, whatever it holds. Bad entries are left out. Raises as `read_page`.
    """
    header = {"type": "session", "version": 3, "id": session.session_id}
    target.write(json.dumps(header).encode() + b"\n")
    place = session.place
    match place:
        case HotPlace():
            return _write_rows(session, place, target, cancelled)
        case ColdPlace() if place.row.in_database:
            return read_host(place.database, _write_cold_row, session, target, cancelled)
        case ColdPlace():
            source = _ColdLines(session.session_id, place.row, _cold_file(place))
            return _write_lines(source, target, cancelled)
        case ArchivePlace():
            return read_host(place.database, _write_archive, place, target, cancelled)
        case FilePlace():
            return _write_lines(_TextLines(_file_of(place.path)), target, cancelled)


def _write_rows(session: HostSession, place: HotPlace, target: BinaryIO, cancelled: Cancelled) -> int:
    at, bad = 0, 0
    previous: str | None = None
    while True:
        found = read_host(place.database, _path_rows, session.session_id, at, at + _STEP)
        for row in found:
            check_cancelled(cancelled)
            try:
                value = value_of(row)[0]
            except BadLineError:
                bad += 1
                continue
            previous = _write_entry(target, value, previous)
        if len(found) < _STEP:
            return bad
        at += _STEP


def _path_rows(rows: HostRows, session_id: str, start: int, stop: int) -> list[EventRow]:
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        _empty(rows, session_id)
    if state.indexed:
        return list(active_events(rows, session_id, start, stop))
    scan, _ = _tree(rows, session_id)
    path = [scan.columns.line[number] for number in scan.path()[0]]
    return list(events_at(rows, session_id, path[start:stop]))


def _write_cold_row(rows: HostRows, session: HostSession, target: BinaryIO, cancelled: Cancelled) -> int:
    return _write_lines(_cold_row_lines(rows, session), target, cancelled)


def _write_archive(rows: HostRows, place: ArchivePlace, target: BinaryIO, cancelled: Cancelled) -> int:
    return _write_lines(_archive_lines(rows, place), target, cancelled)


def _write_lines(source: _Source, target: BinaryIO, cancelled: Cancelled) -> int:
    """Entries come in the order of the path, which is that of the file unless somebody made it up."""
    scan = TranscriptScan()
    for line in source.lines(cancelled):
        scan.take(line)
    path = source.path()
    if path is None or not set(path).issubset(scan.columns.line):
        path = [scan.columns.line[number] for number in scan.path()[0]]
    wanted = set(path)
    previous: str | None = None
    bad = 0
    for line in source.lines(cancelled):
        if line.number in wanted:
            try:
                value = decode_object(line.data)
            except BadLineError:
                bad += 1
                continue
            previous = _write_entry(target, value, previous)
    return bad


def _write_entry(target: BinaryIO, value: JsonObject, previous: str | None) -> str | None:
    """Write an entry behind the one before it on the path; its id."""
    entry = {**value, "parentId": previous}
    try:
        data = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a pair, or bytes that are no text
        data = json.dumps(entry, separators=(",", ":")).encode()
    for end, instead in _LINE_ENDS:
        data = data.replace(end, instead)
    target.write(data + b"\n")
    return string(value.get("id")) or previous


def _empty(rows: HostRows, session_id: str) -> SessionPage:
    table = "session_windows"
    if rows.first(f"SELECT 1 FROM {table} WHERE session_id = ?", (session_id,)) is not None:
        return _page([], 0, 0, [], [])
    raise NotFoundError(
        f"Session {session_id} is not in {rows.path} any more: the host put it away or deleted it. List "
        "again.",
        code="SESSION_NOT_FOUND",
        details={"session": session_id},
    )


def _walked_page(rows: HostRows, session_id: str, wanted: _Wanted, cancelled: Cancelled) -> SessionPage:
    """The page of a session whose path the host has not listed: from its last entry to the first."""
    scan, problems = _tree(rows, session_id)
    shown, found = scan.path()
    path = [scan.columns.line[number] for number in shown]
    start, stop = wanted.bounds(len(path))
    entries = []
    for row in events_at(rows, session_id, path[start:stop]):
        check_cancelled(cancelled)
        entries.append(entry_of_row(row))
    gone = _Gone(path, start, stop, scan)
    ids = {number: entry_id for entry_id, number in scan.numbers.items()}
    off = [ids[number] for number in gone.numbers() if number in ids]
    return _page(entries, start, len(path), off, [*problems, *scan.problems.kept, *found])


def _tree(rows: HostRows, session_id: str) -> tuple[TranscriptScan, list[LineProblem]]:
    listed, unlisted = nodes(rows, session_id)
    scan, problems = TranscriptScan(), []
    # Rows tell neither what a marker targets nor whether a parent is none or was never recorded.
    asked = {*unlisted, *(node.seq for node in listed if node.type == LEAF or node.parent_id is None)}
    values: dict[int, JsonObject] = {}
    for row in events_at(rows, session_id, sorted(asked)):
        try:
            values[row.seq] = value_of(row)[0]
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


def _of_node(node: Node) -> JsonObject:
    return {"type": node.type or "unknown", "id": node.entry_id, "parentId": node.parent_id}


# -- what is read as a stream ----------------------------------------------------------------------------

_Opened: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]


class _TextLines:
    """A transcript, line by line."""

    def __init__(self, opened: _Opened) -> None:
        self._opened = opened

    def lines(self, cancelled: Cancelled) -> Iterator[RawLine]:
        """All lines, from the beginning."""
        with self._opened() as file:
            yield from scan_lines(file, limit=ENTRY_LIMIT, cancelled=cancelled)

    def path(self) -> Sequence[int] | None:
        """The host's own active path, as numbers of lines; None where it has to be walked."""
        return None

    @property
    def problems(self) -> list[LineProblem]:
        """What is wrong beside the lines themselves."""
        return []


@dataclass(slots=True)
class _ColdLines:
    """The entries of a cold archive (docs/host.md, "Cold archives"), and what it says of their path."""

    session_id: str
    row: ColdRow
    opened: _Opened
    problems: list[LineProblem] = field(default_factory=list)
    active: array[int] = field(default_factory=lambda: array("q"))
    index: JsonObject = field(default_factory=dict)

    def lines(self, cancelled: Cancelled) -> Iterator[RawLine]:
        """The entries, numbered by their place in the session.

        Raises:
            TranscriptError: it is the archive of another session, or of another state of this one.
        """
        self.problems, self.active = [], array("q")
        events = 0
        with self.opened() as file:
            for outer in scan_lines(file, limit=_COLD_LINE, cancelled=cancelled):
                try:
                    value = {} if outer.too_long else decode_object(outer.data)
                except BadLineError as error:
                    self.problems.append(LineProblem(outer.number, f"a line of the archive is {error}"))
                    continue
                if outer.number == 1:
                    self._check_header(value)
                held = value.get("row")
                row: JsonObject = held if isinstance(held, dict) else {}
                if value.get("kind") == "event" or outer.too_long:
                    events += 1
                    yield _cold_event(row, events - 1, outer)
                else:
                    self._note(value.get("kind"), row)
        if self.row.events is not None and events != self.row.events:
            said = f"{events:,} entries are in the archive, and {self.row.events:,} by the host's row"
            self.problems.append(LineProblem(events, said))

    def _check_header(self, value: JsonObject) -> None:
        same = value.get("kind") == "header" and value.get("sessionId") == self.session_id
        if not same or (self.row.generation is not None and value.get("generation") != self.row.generation):
            raise TranscriptError(
                f"The cold archive {self.row.name} is not that of session {self.session_id} as the host's "
                "database has it: restore the file that belongs to this database.",
                code="ARCHIVE_OF_ANOTHER_SESSION",
            )

    def _note(self, kind: object, row: JsonObject) -> None:
        if kind == "active":
            self.active.append(_place(row.get("event_seq")))
        elif kind == "index":
            self.index = row

    def path(self) -> Sequence[int] | None:
        """The host's own active path; None where its list was not complete."""
        index = self.index
        complete = index.get("needs_rebuild") == 0 and index.get("indexed_seq") == self.row.last_seq
        if not complete or index.get("active_event_count") != len(self.active) or -1 in self.active:
            return None
        return self.active


def _place(value: Json) -> int:
    """A place in the session; -1 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else -1


def _cold_event(row: JsonObject, number: int, outer: RawLine) -> RawLine:
    place = _place(row.get("seq"))
    text = row.get("event_json")
    if outer.too_long or not isinstance(text, str):
        return RawLine(number if place < 0 else place, 0, outer.size, b"", outer.too_long, ended=True)
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, escaped in the archive
        data = text.encode("utf-8", "surrogatepass")
    too_long = len(data) > ENTRY_LIMIT
    kept = data[:HEAD_BYTES] if too_long else data
    return RawLine(number if place < 0 else place, 0, len(data), kept, too_long, ended=True)


_Source: TypeAlias = _TextLines | _ColdLines


def _streamed(source: _Source, wanted: _Wanted, cancelled: Cancelled) -> SessionPage:
    scan = TranscriptScan()
    for line in source.lines(cancelled):
        scan.take(line)
    problems = list(source.problems)
    numbers, listed = scan.columns.line, source.path()
    if listed is None or not set(listed).issubset(numbers):
        shown, found = scan.path()
        path: Sequence[int] = [numbers[number] for number in shown]
        problems += found
    else:
        path = listed
    start, stop = wanted.bounds(len(path))
    gone = _Gone(path, start, stop, scan)
    lines_off = {numbers[number] for number in gone.numbers()}
    positions = {line: at for at, line in enumerate(path[start:stop])}
    entries: dict[int, SessionEntry] = {}
    off: list[str] = []
    for line in source.lines(cancelled):
        if line.number in positions:
            entries[positions[line.number]] = entry_of_line(line)
        elif line.number in lines_off:
            off += [entry_id] if (entry_id := entry_of_line(line).entry_id) is not None else []
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


# -- archives and files ----------------------------------------------------------------------------------


def _cold_row_page(
    rows: HostRows, session: HostSession, wanted: _Wanted, cancelled: Cancelled
) -> SessionPage:
    return _streamed(_cold_row_lines(rows, session), wanted, cancelled)


def _cold_row_lines(rows: HostRows, session: HostSession) -> _ColdLines:
    assert isinstance(session.place, ColdPlace)
    row = session.place.row
    name = f"The cold archive of session {session.session_id} in {rows.path}"

    def packed() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_cold_archives", "archive_blob", row.row)

    return _ColdLines(session.session_id, row, _opened(name, packed, _cold_limit(row), row.sha256))


def _archive_page(rows: HostRows, place: ArchivePlace, wanted: _Wanted, cancelled: Cancelled) -> SessionPage:
    return _streamed(_archive_lines(rows, place), wanted, cancelled)


def _archive_lines(rows: HostRows, place: ArchivePlace) -> _TextLines:
    row = place.row
    name = f"The archive of session {row.session_id} in {rows.path}"

    def stored() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_archives", "archive_blob", row.row)

    return _TextLines(_opened(name, stored, ARCHIVE_LIMIT, row.sha256, packed=row.encoding != "identity"))


def _cold_limit(row: ColdRow) -> int:
    """Bytes that a cold archive may hold: each entry several times over, as texts within JSON."""
    if row.raw_bytes is None or row.events is None:
        return ARCHIVE_LIMIT
    return min(ARCHIVE_LIMIT, max(0, 16 * row.raw_bytes + 8192 * row.events) + _CHUNK)


def _cold_file(place: ColdPlace) -> _Opened:
    name = place.row.name or ""
    path = place.folder / name
    if not name or name in (".", "..") or {"/", "\\", "\0"}.intersection(name):
        raise TranscriptError(
            f"The host's database {place.database} names no file of {place.folder} as the cold archive of "
            "this session: it is damaged.",
            code="ARCHIVE_OUTSIDE",
        )
    _check_inside(path, place.folder)
    if not path.exists():
        raise TranscriptMissingError(
            f"The cold archive {path} is not there: restore it from a backup of the host.",
            code="ARCHIVE_MISSING",
            details={"path": str(path)},
        )
    return _opened(str(path), lambda: _pieces_of(path), _cold_limit(place.row), place.row.sha256)


def _check_inside(path: Path, folder: Path) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TranscriptError(
            f"{path} leads out of its folder through a link and was not opened.", code="ARCHIVE_OUTSIDE"
        )


def _file_of(path: Path) -> _Opened:
    if path.suffix != ".zst":
        return lambda: open_transcript(path)
    return _opened(str(path), lambda: _pieces_of(path), ARCHIVE_LIMIT, None)


def _pieces_of(path: Path) -> Generator[bytes, None, None]:
    try:
        with open_regular(path) as file:
            while piece := file.read(_CHUNK):
                yield piece
    except OSError as error:
        raise TranscriptError(
            f"{path} cannot be read ({error.strerror or error}): check the file and its permissions."
        ) from error


def _opened(
    name: str,
    stored: Callable[[], Generator[bytes, None, None]],
    limit: int,
    sha256: str | None,
    *,
    packed: bool = True,
) -> _Opened:
    """What opens an archive; it is read to its end only when its checksum is the recorded one."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with closing(stored()) as raw, closing(_checked(name, raw, sha256)) as pieces:
            text = unpacked(name, pieces, limit) if packed else pieces
            yield cast(BinaryIO, io.BufferedReader(Pieces(text), _CHUNK))

    return opened


def _checked(name: str, pieces: Iterator[bytes], sha256: str | None) -> Generator[bytes, None, None]:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if sha256 is not None and digest.hexdigest() != sha256:
        raise TranscriptError(
            f"{name} is not the one that the host wrote (its checksum differs): restore it from a backup of "
            "the host.",
            code="ARCHIVE_DAMAGED",
        )
