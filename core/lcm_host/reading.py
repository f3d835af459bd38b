"""A session read along the path that its host sees, wherever it is stored (docs/spec/host.md).

Entries form a tree by ``parentId``: the path that ends at the last entry is shown, abandoned branches are
counted. Nothing is read twice, and of what is read no more is held than where the entries are. All functions
are synchronous: run them in a thread and stop them with *cancelled*.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, TypeAlias

from lcm_core.base.errors import DatabaseError, NotFoundError
from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import (
    CIRCLE,
    HEAD_BYTES,
    INCOMPLETE,
    PROBLEM_LIMIT,
    BadLineError,
    Cancelled,
    FileStamp,
    LineProblem,
    LineProblems,
    RawLine,
    TranscriptChangedError,
    TranscriptError,
    TranscriptHeader,
    check_cancelled,
    decode_object,
    fingerprint,
    missing_parent,
    never_cancelled,
    peek_object,
    read_header,
    repeated_id,
    spliced,
    stamp_of,
    string,
)
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import FileState, file_state

from lcm_host.archives import Source, file_lines, unpacked_lines, with_lines
from lcm_host.entries import SessionEntry, entry_of_line, entry_of_row, too_long, value_of
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
    marker_count,
    nodes,
    off_path,
)
from lcm_host.sessions import ArchivePlace, ColdPlace, FilePlace, HostSession, HotPlace

# -- the tree --------------------------------------------------------------------------------------------
# Where entries are: one streamed pass, small to keep, cheap to bring up to date.

ROOT, MISSING = -1, -2
#: The type of an entry that is on no path: what it targets is where the path goes on.
LEAF = "leaf"


class TranscriptScan(Struct):
    """The state of a pass after the last line that ends with a newline; a later pass goes on from a copy.

    One value per entry in the arrays, in file order: about 36 bytes for an entry of any size.
    """

    is_text: bool = True  #: an entry is the bytes of its line, which may hold several of them
    line: array[int] = field(default_factory=lambda: array("Q"))
    offset: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    check: array[int] = field(default_factory=lambda: array("I"))  #: see `fingerprint`
    origin: array[int] = field(
        default_factory=lambda: array("q")
    )  #: number of the entry before it in the tree
    numbers: dict[str, int] = field(default_factory=dict)  #: entry number by id
    waiting: dict[str, list[int]] = field(default_factory=dict)  #: entries by a parent that was not seen yet
    markers: set[int] = field(default_factory=set)  #: entries that only say where the path goes on
    header: TranscriptHeader | None = None
    bad_lines: int = 0  #: lines of which something is lost
    problems: LineProblems = field(default_factory=LineProblems)
    end_offset: int = 0
    end_line: int = 1
    open_line: bool = False  #: the last line was taken although no newline ends it
    incomplete: int | None = None  #: the last line, when it has no newline and cannot be read (yet)

    def copied(self) -> TranscriptScan:
        """The same state, free to go on; what was incomplete is read again."""
        return TranscriptScan(
            self.is_text,
            *(self.line[:], self.offset[:], self.size[:], self.check[:], self.origin[:]),
            dict(self.numbers),
            {origin: numbers[:] for origin, numbers in self.waiting.items()},
            set(self.markers),
            self.header,
            self.bad_lines,
            self.problems.copied(),
            self.end_offset,
            self.end_line,
        )

    def take(self, line: RawLine) -> None:
        """Note one line."""
        if line.ended:
            self.end_offset, self.end_line = line.offset + line.size + 1, line.number + 1
        try:
            self._take_record(line)
        except BadLineError as error:
            if not self.is_text or (found := spliced(line)) is None:
                if line.ended:
                    self.bad_lines += 1
                    self.problems.add(line.number, str(error))
                else:
                    self.incomplete = line.number
                return
            self.bad_lines += found.is_lost and line.ended
            self.problems.add(line.number, found.problem)
            for record in found.records:
                try:
                    self._take_record(record)
                except BadLineError as wrong:
                    self.problems.add(line.number, str(wrong))
        self.open_line = not line.ended

    def _take_record(self, line: RawLine) -> None:
        """Note a record. Raises BadLineError."""
        value = peek_object(line.data) if line.too_long else decode_object(line.data)
        kind = string(value.get("type"))
        if kind is None:
            size = f"too long ({line.size:,} bytes), " if line.too_long else ""
            raise BadLineError(f"{size}an entry without a type")
        if kind == "session":
            self._take_header(line, value)
            return
        if line.too_long:
            self.problems.add(line.number, too_long(line.size))
        self.offset.append(line.offset)
        self.size.append(line.size)
        self.check.append(fingerprint(line.data))
        self.place(line.number, value)

    def _take_header(self, line: RawLine, value: JsonObject) -> None:
        if self.header is None:
            self.header = read_header(value)
        else:
            self.problems.add(line.number, "another session header; the first one counts")

    def place(self, line: int, value: JsonObject) -> None:
        """Note where an entry is in the tree; *value* is the entry, or its id, type and parent."""
        number = len(self.line)
        self.line.append(line)
        if value.get("type") == LEAF:
            self.markers.add(number)
            value = {**value, "parentId": value.get("targetId", value.get("parentId"))}
        self.origin.append(self._origin(value, number))
        entry_id = string(value.get("id"))
        if entry_id is not None:
            if entry_id in self.numbers:
                self.problems.add(line, repeated_id(entry_id, self.line[self.numbers[entry_id]]))
            self.numbers[entry_id] = number
            for waiting in self.waiting.pop(entry_id, ()):
                self.origin[waiting] = number

    def _origin(self, value: JsonObject, number: int) -> int:
        """The entry before it: its parent, or the previous line where the host recorded no parents yet."""
        if "parentId" not in value:
            return number - 1
        origin = string(value["parentId"])
        if origin is None or (self.header is not None and origin == self.header.session_id):
            return ROOT
        if origin not in self.numbers:
            self.waiting.setdefault(origin, []).append(number)
            return MISSING
        return self.numbers[origin]

    def path(self) -> tuple[array[int], list[LineProblem]]:
        """The entries from a root to the last one, and what is wrong as long as no more lines come."""
        found: list[LineProblem] = []
        passed, steps = bytearray(len(self.line)), array("Q")
        at = len(self.line) - 1
        while at >= 0 and not passed[at]:
            passed[at] = 1
            if at not in self.markers:
                steps.append(at)
            following = self.origin[at]
            # A marker whose target is not there hides nothing: the path goes on as if it were not there.
            at = at - 1 if following == MISSING and at in self.markers else following
        steps.reverse()
        if at >= 0 and steps:
            found.append(LineProblem(self.line[steps[0]], f"{CIRCLE}; the path begins here"))
        for origin, numbers in self.waiting.items():
            for number in numbers:
                begins = "; what the host sees begins here" if number in steps[:1] else ""
                found.append(LineProblem(self.line[number], f"{missing_parent(origin)}{begins}"))
        if self.incomplete is not None:
            found.append(LineProblem(self.incomplete, INCOMPLETE))
        return steps, found

    def off_path(self, shown: Sequence[int], start: int, stop: int) -> Iterator[int]:
        """The entries that are not on a path and lie between those at two positions of it, in file order."""
        lower = shown[start] if 0 < start < len(shown) else 0
        upper = shown[stop] if stop < len(shown) else len(self.line)
        on_path = set(shown)
        return (number for number in range(lower, upper) if number not in on_path)


# -- files and archives ----------------------------------------------------------------------------------


class FileSession(Record, frozen=True, eq=False):
    """A session whose entries are lines; a position counts along the path that its host sees, from 0."""

    source: Source
    scan: TranscriptScan  #: not to be changed
    shown: Sequence[int]  #: numbers of the entries on the path, in order
    problem_count: int = 0
    problems: tuple[LineProblem, ...] = ()  #: by line, at most `PROBLEM_LIMIT`
    stamp: FileStamp | None = None  #: of a file that is read where it lies, when it was
    is_end: bool = False  #: only its last entries were read; `refreshed` reads the others

    def __len__(self) -> int:
        """Entries on the path."""
        return len(self.shown)

    @property
    def place_word(self) -> str:
        """What the number of an entry counts; nothing where that is not known yet."""
        return "" if self.is_end else self.source.place_word

    @property
    def size(self) -> int:
        """Bytes."""
        return self.scan.end_offset if self.stamp is None else self.stamp.size

    @property
    def entry_count(self) -> int:
        """Entries on and off the path, markers among them."""
        return len(self.scan.line)

    @property
    def abandoned(self) -> int:
        """Entries that the host does not see: on other branches, or before a link that is broken."""
        return len(self.scan.line) - len(self.scan.markers) - len(self.shown)

    @property
    def bad(self) -> int:
        """Lines of which something cannot be read; each is among the problems."""
        return self.scan.bad_lines

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is wrong with the archive that it lies in."""
        return tuple(one.reason for one in self.source.problems)

    def entries(
        self, start: int = 0, stop: int | None = None, *, cancelled: Cancelled = never_cancelled
    ) -> Iterator[SessionEntry]:
        """The entries at positions *start* to *stop*, those that exist, read one after the other.

        Raises:
            TranscriptChangedError: a line is not the one that was read at first.
            TranscriptError: the file cannot be opened or read any more.
            CancelledError: the caller stopped it.
        """
        stop = len(self.shown) if stop is None else max(0, stop)
        return self._read(self.shown[max(0, start) : stop], cancelled)

    def newest_first(self, skipped: int = 0) -> Iterator[SessionEntry]:
        """All but the last *skipped* entries, from the last one on."""
        return self._read(self.shown[: len(self.shown) - skipped][::-1], never_cancelled)

    def off_path(self, start: int, stop: int) -> tuple[str, ...]:
        """The ids of the entries between two positions that are not on the path, in the order of the file."""
        entries = self._read(self.scan.off_path(self.shown, start, stop), never_cancelled)
        return tuple(entry.entry_id for entry in entries if entry.entry_id is not None)

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> FileSession:
        """The session as it is now; the same value when nothing changed.

        When lines were appended only those are read; a file that was replaced or rewritten is read anew.
        """
        with self.source.opened() as file:
            stamp = None if self.source.path is None else stamp_of(file)
            if stamp == self.stamp and not self.is_end:
                return self
            goes_on = stamp is not None and not self.is_end and self._was_appended(stamp, file)
            return _scanned(self.source, file, self.scan.copied() if goes_on else None, cancelled)

    def close(self) -> None:
        """Remove what was unpacked for it."""
        if self.source.folder is not None:
            self.source.folder.cleanup()

    def _was_appended(self, stamp: FileStamp, file: BinaryIO) -> bool:
        """Whether the lines are still in their places, and none was without its end."""
        old, scan = self.stamp, self.scan
        same_file = old is not None and (stamp.device, stamp.inode) == (old.device, old.inode)
        if old is None or not same_file or stamp.size <= old.size or scan.open_line:
            return False
        if not scan.line:
            return True
        file.seek(scan.offset[-1])
        return fingerprint(file.read(min(scan.size[-1], HEAD_BYTES))) == scan.check[-1]

    def _read(self, numbers: Iterable[int], cancelled: Cancelled) -> Iterator[SessionEntry]:
        scan = self.scan
        with self.source.opened() as file:
            for number in numbers:
                check_cancelled(cancelled)
                line = self.source.line_at(file, scan.line[number], scan.offset[number], scan.size[number])
                entry = entry_of_line(line)
                is_same = fingerprint(line.data) == scan.check[number]
                if not is_same or (entry.unread is not None and not line.too_long):
                    raise TranscriptChangedError(
                        f"{self.source.path} was rewritten since it was opened (line {line.number} differs): "
                        "reload it."
                    )
                yield entry


def _scanned(
    source: Source, file: BinaryIO, scan: TranscriptScan | None, cancelled: Cancelled
) -> FileSession:
    """The whole session; *scan* has its lines up to some byte."""
    stamp = None if source.path is None else stamp_of(file)
    scan = scan or TranscriptScan(source.is_text)
    for line in source.lines(file, offset=scan.end_offset, number=scan.end_line, cancelled=cancelled):
        scan.take(line)
    shown, wrong = _path_of(source, scan)
    problems = sorted((*source.problems, *scan.problems.kept, *wrong), key=lambda problem: problem.line)
    count = len(source.problems) + scan.problems.count + len(wrong)
    return FileSession(source, scan, shown, count, tuple(problems[:PROBLEM_LIMIT]), stamp)


def _path_of(source: Source, scan: TranscriptScan) -> tuple[Sequence[int], list[LineProblem]]:
    """The path of what was read, and what is wrong with it: the host's own list where that is complete."""
    listed = source.host_path()
    if listed is None or not set(listed).issubset(scan.line):
        return scan.path()
    numbers = {line: number for number, line in enumerate(scan.line)}
    return [numbers[line] for line in listed], []


# A path is walked back from its last entry, so its end can be read from the end of a file.


def _end(source: Source, span: int, until: int) -> FileSession | None:
    """The last entries before the byte *until*, from *span* bytes before it on.

    None where a marker among them leads further back.
    """
    begin = max(0, until - span)
    with source.opened() as file:
        scan = _scan_end(source, file, begin, until)
    if begin and any(scan.origin[at] == MISSING for at in scan.markers):
        return None
    return FileSession(source, scan, scan.path()[0], is_end=begin > 0)


def _scan_end(source: Source, file: BinaryIO, begin: int, until: int) -> TranscriptScan:
    """The lines from a byte on, the one that it lies in left out, to where the file ended at first."""
    file.seek(begin)
    if begin:
        begin += len(file.readline())
    scan = TranscriptScan(source.is_text)
    for line in source.lines(file, offset=begin, until=until):
        scan.take(line)
    return scan


def _length(source: Source) -> int:
    """Bytes with entries; the beginning is looked at, whether it is the right archive."""
    with source.opened() as file:
        next(source.lines(file), None)
        return source.end(file)


#: Bytes at the end of a file that are read first, and how many times more each time that they do not do.
_END_BYTES: Final = 64 * 1024
_MORE: Final = 8


def newest_in_file(path: Path) -> Iterator[SessionEntry]:
    """The entries of a transcript's path, the newest first; no more is read than is asked for.

    Raises:
        TranscriptError: it cannot be read.
    """
    source = file_lines(path)
    given, span, size = 0, _END_BYTES, _length(source)
    while True:
        end = _end(source, span, size)
        if end is not None:
            yield from end.newest_first(given)
            given = len(end)
        if span >= size:
            return
        span *= _MORE


# -- the host's table ------------------------------------------------------------------------------------
# The host's own list of the active path is used where it is complete. Else the path is walked from the last
# entry to the first, by what the rows say of their parents: then only the places of its entries are held.

#: Entries that are read together where only the newest are looked for.
_FEW: Final = 16
#: Entries, and bytes of them, that are read in one transaction.
_STEP: Final = 500
_STEP_BYTES: Final = 8 * 1024 * 1024


class ActivePath(Record, frozen=True, eq=False):
    """What the host sees of a session in its table, as it was when this was read."""

    session_id: str
    state: HotState
    scan: TranscriptScan | None = None  #: by which it was walked; None: the host's list is complete
    shown: Sequence[int] = ()  #: numbers of the scan, in order
    problems: tuple[LineProblem, ...] = ()  #: of the walk

    def __len__(self) -> int:
        """Entries on the path."""
        return self.state.active if self.scan is None else len(self.shown)

    def is_still(self, now: HotState) -> bool:
        """Whether positions mean what they meant: history was not rewritten, and only grew."""
        same = now.generation == self.state.generation and now.indexed == self.state.indexed
        return same and now.active >= self.state.active and (now.last_seq or 0) >= (self.state.last_seq or 0)

    def events(self, rows: HostRows, start: int, stop: int) -> Iterator[EventRow]:
        """The rows at positions *start* to *stop*, in order, read one after the other."""
        if self.scan is None:
            return active_events(rows, self.session_id, start, stop)
        return events_at(rows, self.session_id, [self.scan.line[at] for at in self.shown[start:stop]])


def active_path(rows: HostRows, session_id: str) -> ActivePath:
    """The path of a session; an empty one where nothing was ever said in it.

    Raises:
        NotFoundError: its entries are not in the table any more.
    """
    state = hot_state(rows, session_id)
    if state.last_seq is None:
        _check_there(rows, session_id)
    if state.indexed or state.last_seq is None:
        return ActivePath(session_id, state)
    scan, problems = _tree(rows, session_id)
    shown, wrong = scan.path()
    return ActivePath(session_id, state, scan, shown, (*problems, *scan.problems.kept, *wrong))


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


def newest_in_table(rows: HostRows, session_id: str) -> Iterator[SessionEntry]:
    """The entries of a session's path, the newest first.

    Raises:
        NotFoundError: the session has no rows any more.
    """
    path = active_path(rows, session_id)
    stop = len(path)
    while stop > 0:
        start = max(0, stop - _FEW)
        for row in reversed(list(path.events(rows, start, stop))):
            yield entry_of_row(row)
        stop = start


class TableSession(Struct, eq=False):
    """A session whose entries are rows of the host's table; positions as in `FileSession`."""

    database: Path
    path: ActivePath
    abandoned: int  #: entries that the host does not see
    file: FileState | None  #: of the database when it was last looked at

    place_word: ClassVar[str] = "entry"
    is_end: ClassVar[bool] = False
    size: ClassVar[int | None] = None  #: nobody counted the bytes
    bad: ClassVar[int] = 0  #: rows that cannot be read are entries with a problem
    remarks: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        """Entries on the path."""
        return len(self.path)

    @property
    def problems(self) -> tuple[LineProblem, ...]:
        """What is wrong with the tree."""
        return self.path.problems

    @property
    def problem_count(self) -> int:
        """How many of them there are."""
        return len(self.path.problems)

    def entries(
        self, start: int = 0, stop: int | None = None, *, cancelled: Cancelled = never_cancelled
    ) -> Iterator[SessionEntry]:
        """The same as of a `FileSession`; some are held at a time.

        Raises:
            TranscriptChangedError: the host rewrote the session.
            DatabaseError: the database cannot be read.
            CancelledError: the caller stopped it.
        """
        at = max(0, start)
        stop = len(self.path) if stop is None else min(stop, len(self.path))
        while at < stop:
            rows, at = read_host(self.database, _some_rows, self.path, at, stop)
            for row in rows:
                check_cancelled(cancelled)
                yield entry_of_row(row)

    def off_path(self, start: int, stop: int) -> tuple[str, ...]:
        """The ids of the entries between two positions that are not on the path, in the order of the file."""
        return tuple(read_host(self.database, _off_path, self.path, start, stop))

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> TableSession:
        """The session as it is now; the same value when nothing changed."""
        check_cancelled(cancelled)
        now = file_state(self.database)
        if self.file is not None and now == self.file and not self.file.may_hide_a_write:
            return self
        state = read_host(self.database, hot_state, self.path.session_id)
        if state == self.path.state and state.last_seq is not None:
            self.file = now
            return self
        return _table(self.database, self.path.session_id)

    def close(self) -> None:
        """Nothing is held for it."""


def _table(database: Path, session_id: str) -> TableSession:
    file = file_state(database)
    path, abandoned = read_host(database, _opened, session_id)
    return TableSession(database, path, abandoned, file)


def _opened(rows: HostRows, session_id: str) -> tuple[ActivePath, int]:
    path = active_path(rows, session_id)
    held = entry_counts(rows, [session_id])[session_id] - marker_count(rows, session_id, LEAF)
    return path, max(0, held - len(path))


def _some_rows(rows: HostRows, path: ActivePath, start: int, stop: int) -> tuple[list[EventRow], int]:
    """The next entries of a path, as many as may be held, and the position behind them."""
    _check_same(rows, path)
    found: list[EventRow] = []
    held = 0
    stop = min(start + _STEP, stop)
    for row in path.events(rows, start, stop):
        found.append(row)
        held += len(row.json or b"") + (row.size or 0)
        if held >= _STEP_BYTES:
            return found, start + len(found)
    return found, stop


def _check_same(rows: HostRows, path: ActivePath) -> None:
    if not path.is_still(hot_state(rows, path.session_id)):
        raise _rewritten(path.session_id, "since it was opened: reload it")


def _rewritten(session_id: str, when: str) -> TranscriptChangedError:
    return TranscriptChangedError(f"Session {session_id} was rewritten by its host {when}.")


def _off_path(rows: HostRows, path: ActivePath, start: int, stop: int) -> list[str]:
    _check_same(rows, path)
    if path.scan is not None:
        ids = {number: entry_id for entry_id, number in path.scan.numbers.items()}
        return [ids[number] for number in path.scan.off_path(path.shown, start, stop) if number in ids]
    lower = next(iter(active_seqs(rows, path.session_id, start, start + 1)), 0) if start else 0
    upper = next(iter(active_seqs(rows, path.session_id, stop, stop + 1)), None)
    return off_path(rows, path.session_id, lower, upper)


# -- opening a session -----------------------------------------------------------------------------------

OpenSession: TypeAlias = FileSession | TableSession

#: Smaller files are read whole at once. Bytes
_LARGE: Final = 4 * 1024 * 1024
#: What is read of the end of a larger one.
_LAST: Final = 1024 * 1024


def open_session(
    session: HostSession, *, newest: int | None = None, cancelled: Cancelled = never_cancelled
) -> OpenSession:
    """Open a session, wherever it lies; blocks, for a packed one as long as unpacking takes. Close it.

    *newest*: of a large one only so many of its last entries, unless they cannot be told without the others.

    Raises:
        NotFoundError: it is not there any more; list again.
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
        CancelledError: the caller stopped it.
    """
    if isinstance(session.place, HotPlace):
        return _table(session.place.database, session.session_id)
    source = with_lines(session, unpacked_lines, cancelled)
    try:
        if newest is not None and (size := _length(source)) >= _LARGE:
            end = _end(source, _LAST, size)
            if end is not None and end.is_end and end.shown:
                return replace(end, shown=end.shown[-newest:])
        with source.opened() as file:
            return _scanned(source, file, None, cancelled)
    except BaseException:
        if source.folder is not None:
            source.folder.cleanup()
        raise


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
) -> SessionPage:
    """The last *limit* entries (None: all) before position *before* of the path (None: its end).

    Blocks, and raises as `open_session`.
    """
    with closing(open_session(session)) as opened:
        total = len(opened)
        stop = total if before is None else max(0, min(before, total))
        start = 0 if limit is None else max(0, stop - limit)
        entries = tuple(opened.entries(start, stop))
        off = opened.off_path(start, stop)
        named = {problem.line for problem in opened.problems}
        own = [
            LineProblem(entry.number, entry.problem)
            for entry in entries
            if entry.problem is not None and entry.number not in named
        ]
        problems = sorted((*opened.problems, *own), key=lambda problem: problem.line)
        count = opened.problem_count + len(own)
        return SessionPage(entries, start, total, off, count, tuple(problems[:PROBLEM_LIMIT]))


# -- how much there is -----------------------------------------------------------------------------------


class SessionExtent(Record, frozen=True):
    """How much a session holds."""

    entries: int  #: on and off the path, the header not counted
    newest_at: datetime | None  #: of its last entry that says a time, UTC
    bad_lines: int = 0  #: lines of a file of which something cannot be read


#: Bytes of an archive or a file that are read only to count what is in it.
COUNTED_BYTES: Final = 1024 * 1024


def extents(sessions: Sequence[HostSession]) -> dict[HostSession, SessionExtent]:
    """How much some sessions hold: those whose database can be read, and whose archive or file is small."""
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
                found[session] = with_lines(session, _extent)
    for database, several in hot.items():
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


def _extent(source: Source) -> SessionExtent:
    count, newest, bad = 0, None, 0
    with source.opened() as file:
        for line in source.lines(file):
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


def bad_lines(sessions: Iterable[HostSession], most: int | None = None) -> dict[HostSession, int]:
    """The sessions in plain files with lines that cannot be read, and how many; blocks.

    *most*: bytes of a file that is read; larger ones are left out.
    """
    found: dict[HostSession, int] = {}
    for session in sessions:
        path = session.live_file
        with suppress(TranscriptError, OSError):
            if path is not None and (most is None or path.stat().st_size <= most):
                extent = with_lines(session, _extent)
                found |= {session: extent.bad_lines} if extent.bad_lines else {}
    return found


# -- writing it out --------------------------------------------------------------------------------------

#: What ends a line for a reader of the whole file, and stands in JSON only where an escape may.
_LINE_ENDS: Final = (
    (b"\n", b" "),
    (b"\r", b" "),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
#: How often a session is begun anew whose history its host rewrites meanwhile.
_ATTEMPTS: Final = 3


def write_transcript(session: HostSession, target: BinaryIO) -> int:
    """Write what the host sees of a session as a transcript, a header first; how many entries were bad.

    They are left out (docs/spec/host.md, "What an import takes"). *target* may be written more than once,
    from where it stands. Raises as `open_session`.
    """
    begin = target.tell()
    for _ in range(_ATTEMPTS):
        target.seek(begin)
        target.truncate()
        target.write(json.dumps({"type": "session", "version": 3, "id": session.session_id}).encode() + b"\n")
        with suppress(TranscriptChangedError), closing(open_session(session)) as opened:
            return _write_entries(opened.entries(), target)
    raise _rewritten(session.session_id, "while it was read: try again")


def _write_entries(entries: Iterable[SessionEntry], target: BinaryIO) -> int:
    """Write each entry behind the one before it on the path; how many cannot be."""
    bad = 0
    previous: str | None = None
    for entry in entries:
        if entry.unread is not None:
            bad += 1
            continue
        value = {**entry.value, "parentId": previous}
        try:
            data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half a pair, or bytes that are no text
            data = json.dumps(value, separators=(",", ":")).encode()
        for end, instead in _LINE_ENDS:
            data = data.replace(end, instead)
        target.write(data + b"\n")
        previous = entry.entry_id or previous
    return bad
