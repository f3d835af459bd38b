"""A session opened to be looked through, run by run, or written out as a transcript."""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.base.javascript import JsonObject
from lcm_core.base.jsonl import (
    BadLineError,
    Cancelled,
    LineProblem,
    RawLine,
    TranscriptChangedError,
    check_cancelled,
    decode_object,
    never_cancelled,
    open_transcript,
    read_moment,
    string,
)
from lcm_core.base.values import Record, replace
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.opening import FileState, file_state

from lcm_host.active_path import ActivePath, active_path, path_events, path_of
from lcm_host.rows import EventRow, entry_counts, hot_state, marker_count
from lcm_host.sessions import (
    ColdPlace,
    FilePlace,
    HostSession,
    HotPlace,
    Source,
    from_stream,
    navigation_of,
    value_of,
)
from lcm_host.transcript_files import (
    LEAF,
    MISSING,
    TranscriptEntry,
    TranscriptIndex,
    TranscriptScan,
    index_transcript,
    read_entries,
    read_entry,
    refresh_index,
    unread_entry,
)

# -- writing it out --------------------------------------------------------------------------------------
# A session of the host as a transcript, a few entries at a time (docs/host.md, "What an import takes"). At
# most `_BYTES` of entries are held, or one entry where that is larger, whatever the session holds.

#: What ends a line for a reader of the whole file, and stands in JSON only where an escape may.
_LINE_ENDS: Final = (
    (b"\n", b" "),
    (b"\r", b" "),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
#: Entries, and bytes of them, that are read in one transaction.
_STEP: Final = 500
_BYTES: Final = 8 * 1024 * 1024
#: How often a session is begun anew whose history its host rewrites meanwhile.
_ATTEMPTS: Final = 3


def write_transcript(
    session: HostSession, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> int:
    """Write what the host sees of a session as a transcript, a header first; how many entries were bad.

    It is read in pieces, whatever it holds. Bad entries are left out. *target* may be written more than
    once, from where it stands. Raises as `lcm_host.active_path.read_page`.
    """
    begin = target.tell()
    place = session.place
    if not isinstance(place, HotPlace):
        return from_stream(session, _write_lines, session.session_id, target, begin, cancelled)
    for _ in range(_ATTEMPTS):
        _begin(target, begin, session.session_id)
        try:
            return _write_rows(session.session_id, place, target, cancelled)
        except TranscriptChangedError:
            continue
    raise _rewritten(session.session_id)


def write_lines(
    session: HostSession, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> tuple[LineProblem, ...]:
    """Write every entry of a session that lies in an archive or a file, on its path or not, as it is.

    Returns what is wrong with the archive besides. Raises as `write_transcript`.
    """
    return from_stream(session, _copy_lines, target, target.tell(), cancelled)


def _begin(target: BinaryIO, begin: int, session_id: str) -> None:
    target.seek(begin)
    target.truncate()
    header = {"type": "session", "version": 3, "id": session_id}
    target.write(json.dumps(header).encode() + b"\n")


def _write_rows(session_id: str, place: HotPlace, target: BinaryIO, cancelled: Cancelled) -> int:
    path = read_host(place.database, active_path, session_id)
    at, bad = 0, 0
    previous: str | None = None
    while at < len(path):
        found = read_host(place.database, _some_rows, path, at)
        if not found:
            raise _rewritten(session_id)
        for row in found:
            check_cancelled(cancelled)
            try:
                value = value_of(row)[0]
            except BadLineError:
                bad += 1
                continue
            previous = _write_entry(target, value, previous)
        at += len(found)
    return bad


def _some_rows(rows: HostRows, path: ActivePath, at: int) -> list[EventRow]:
    """The next entries of a path, as many as may be held."""
    if not path.is_still(hot_state(rows, path.session_id)):
        raise _rewritten(path.session_id)
    found: list[EventRow] = []
    held = 0
    for row in path_events(rows, path, at, min(at + _STEP, len(path))):
        found.append(row)
        held += len(row.json or b"") + (row.size or 0)
        if held >= _BYTES:
            break
    return found


def _rewritten(session_id: str) -> TranscriptChangedError:
    return TranscriptChangedError(
        f"Session {session_id} was rewritten by its host while it was read: try again."
    )


def _write_lines(source: Source, session_id: str, target: BinaryIO, begin: int, cancelled: Cancelled) -> int:
    """Entries come in the order of the path, which is that of the file unless somebody made it up."""
    _begin(target, begin, session_id)
    scan = TranscriptScan()
    for line in source.lines(cancelled):
        scan.take(line)
    wanted = {scan.place_of(number) for number in path_of(source, scan)[0]}
    lines = {line for line, _ in wanted}
    previous: str | None = None
    bad = 0
    for line in source.lines(cancelled):
        for part in scan.parts(line) if line.number in lines else ():
            if (part.number, part.offset) not in wanted:
                continue
            try:
                value = decode_object(part.data)
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


def _copy_lines(
    source: Source, target: BinaryIO, begin: int, cancelled: Cancelled
) -> tuple[LineProblem, ...]:
    target.seek(begin)
    target.truncate()
    for line in source.lines(cancelled):
        target.write(line.data.replace(b"\n", b" ") + b"\n")
    return tuple(source.problems)


# -- looking through it ----------------------------------------------------------------------------------
# How much there is of a session, and any run of its entries.
#
# Rows of the host's table are read a run at a time. A file is indexed where it is. What is packed is
# unpacked once, into a private file that is removed again, and indexed there: its beginning can only be
# reached through all of it (docs/host.md, "Looking through a session").


class OpenSession(Record, frozen=True, eq=False):
    """What is shown of a session; a position counts along the path that its host sees, from 0.

    Equal values have equal entries.
    """

    place_word: str  #: what the number of an entry counts: ``line`` of a file, ``entry`` of a table
    size: int | None  #: bytes; None where nobody counted them
    abandoned: int  #: entries that the host does not see
    bad: int  #: lines that are no entry; those of a table are entries with a problem
    remarks: tuple[str, ...]  #: what is wrong with the place that it lies in
    count: int  #: entries on the path

    def __len__(self) -> int:
        """Entries on the path."""
        return self.count

    def entries(
        self,
        start: int,
        stop: int,
        *,
        text_limit: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> list[TranscriptEntry]:
        """The entries at positions *start* to *stop*, those that exist; texts of *text_limit* code points."""
        raise NotImplementedError

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> OpenSession:
        """The session as it is now; an equal value when nothing changed."""
        del cancelled
        return self

    def close(self) -> None:
        """Remove what was unpacked for it."""


def open_session(session: HostSession, *, cancelled: Cancelled = never_cancelled) -> OpenSession:
    """Open a session, wherever it lies; blocks, for a packed one as long as unpacking takes.

    Raises:
        NotFoundError: it is not there any more; list again.
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
        CancelledError: the caller stopped it.
    """
    place = session.place
    if isinstance(place, HotPlace):
        return _table(place.database, session.session_id)
    if isinstance(place, FilePlace) and place.path.suffix != ".zst":
        return _File.of(index_transcript(place.path, cancelled=cancelled))
    return _unpacked(session, cancelled)


# -- files -------------------------------------------------------------------------------------------------


class _File(OpenSession, frozen=True, eq=False):
    """A transcript that is read where it lies."""

    index: TranscriptIndex
    scratch: tempfile.TemporaryDirectory[str] | None  #: the folder of what was unpacked

    @classmethod
    def of(
        cls,
        index: TranscriptIndex,
        scratch: tempfile.TemporaryDirectory[str] | None = None,
        remarks: tuple[str, ...] = (),
    ) -> _File:
        """The transcript of an index."""
        abandoned = index.abandoned - len(index.scan.markers)
        return cls("line", index.stamp.size, abandoned, index.bad_lines, remarks, len(index), index, scratch)

    def entries(
        self,
        start: int,
        stop: int,
        *,
        text_limit: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> list[TranscriptEntry]:
        return read_entries(self.index, start, stop, text_limit=text_limit, cancelled=cancelled)

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> OpenSession:
        if self.scratch is not None:
            return self
        index = refresh_index(self.index, cancelled=cancelled)
        return self if index is self.index else _File.of(index)

    def close(self) -> None:
        if self.scratch is not None:
            self.scratch.cleanup()


def _unpacked(session: HostSession, cancelled: Cancelled) -> _File:
    scratch = tempfile.TemporaryDirectory(prefix="lcm-tui-")
    try:
        path = Path(scratch.name) / "session.jsonl"
        with path.open("xb") as target:
            problems = write_lines(session, target, cancelled=cancelled)
        remarks = tuple(one.reason for one in problems)
        return _File.of(index_transcript(path, cancelled=cancelled), scratch, remarks)
    except BaseException:
        scratch.cleanup()
        raise


# -- the host's table --------------------------------------------------------------------------------------


class _Table(OpenSession, frozen=True, eq=False):
    """A session whose entries are read from the host's table, a run at a time."""

    database: Path
    path: ActivePath
    file: FileState | None  #: of the database when this was read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Table) and (self.database, self.path, self.abandoned) == (
            other.database,
            other.path,
            other.abandoned,
        )

    def entries(
        self,
        start: int,
        stop: int,
        *,
        text_limit: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> list[TranscriptEntry]:
        bounds = max(0, start), min(stop, len(self))
        return read_host(self.database, _entries, self.path, *bounds, text_limit, cancelled)

    def refreshed(self, *, cancelled: Cancelled = never_cancelled) -> OpenSession:
        check_cancelled(cancelled)
        now = file_state(self.database)
        if self.file is not None and now == self.file and not self.file.may_hide_a_write:
            return self
        state = read_host(self.database, hot_state, self.path.session_id)
        if state == self.path.state and state.last_seq is not None:
            return replace(self, file=now)
        return _table(self.database, self.path.session_id)


def _table(database: Path, session_id: str) -> _Table:
    file = file_state(database)
    path, abandoned = read_host(database, _opened, session_id)
    path = replace(path, scan=None)
    return _Table("entry", None, abandoned, 0, (), len(path), database, path, file)


def _opened(rows: HostRows, session_id: str) -> tuple[ActivePath, int]:
    path = active_path(rows, session_id)
    held = entry_counts(rows, [session_id])[session_id] - marker_count(rows, session_id, LEAF)
    return path, max(0, held - len(path))


def _entries(
    rows: HostRows, path: ActivePath, start: int, stop: int, text_limit: int | None, cancelled: Cancelled
) -> list[TranscriptEntry]:
    if not path.is_still(hot_state(rows, path.session_id)):
        raise TranscriptChangedError(
            f"Session {path.session_id} was rewritten by its host since it was opened: reload it."
        )
    return list(_each(rows, path, start, stop, text_limit, cancelled))


def _each(
    rows: HostRows, path: ActivePath, start: int, stop: int, text_limit: int | None, cancelled: Cancelled
) -> Iterator[TranscriptEntry]:
    """One after the other, so that no more than one is held whole."""
    for row in path_events(rows, path, start, stop):
        check_cancelled(cancelled)
        entry = _entry(row, text_limit)
        yield entry if entry.moment is not None else replace(entry, moment=read_moment(row.created_ms))


def _entry(row: EventRow, text_limit: int | None) -> TranscriptEntry:
    held = len(row.json) if row.json is not None else row.size or 0
    line = RawLine(row.seq, 0, held, b"", False, ended=True)
    try:
        value, problem = value_of(row)
    except BadLineError as error:
        return unread_entry(line, navigation_of(row), reason=str(error))
    if problem is not None:
        return unread_entry(line, value, reason=problem)
    return read_entry(line, value, text_limit=text_limit)


# -- the newest entries first ----------------------------------------------------------------------------
# The newest entries of a large session before all of it is read (docs/host.md, "Looking through a
# session").
#
# A path is walked back from its last entry, so its end can be read from the end of a file. What is packed
# is unpacked for it, but only its last lines are parsed.

#: Smaller files are read whole at once. Bytes
_LARGE: Final = 4 * 1024 * 1024
#: What is read of the end of a file, and how many lines and bytes of what is packed are kept.
_END: Final = 1024 * 1024
_LINES: Final = 400
_KEPT: Final = 8 * 1024 * 1024


class Glimpse(OpenSession, frozen=True, eq=False):
    """The end of a session as one that is open; a position counts from its first entry."""

    held: tuple[TranscriptEntry, ...]

    def entries(
        self,
        start: int,
        stop: int,
        *,
        text_limit: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> list[TranscriptEntry]:
        """Some of them, as they were read."""
        del text_limit, cancelled
        return list(self.held[max(0, start) : max(0, stop)])


def glimpse(
    session: HostSession, count: int, text_limit: int, *, cancelled: Cancelled = never_cancelled
) -> Glimpse | None:
    """The last *count* entries of a session that takes its time to be opened; None: it takes none, or they
    cannot be told without the others. Blocks.

    Raises:
        TranscriptError: it cannot be read.
        DatabaseError: the same of the host's database.
        CancelledError: the caller stopped it.
    """
    place = session.place
    if isinstance(place, HotPlace):
        return None
    if isinstance(place, FilePlace) and place.path.suffix != ".zst":
        lines = _end_of_file(place)
    elif isinstance(place, ColdPlace) and (place.row.raw_bytes or 0) < _LARGE:
        return None
    else:
        lines = from_stream(session, _last_lines, cancelled)
    entries = list(_path_in(lines, text_limit))[-count:] if lines else []
    return Glimpse("", None, 0, 0, (), len(entries), tuple(entries)) if entries else None


def _end_of_file(place: FilePlace) -> list[bytes]:
    """The whole lines at the end of a large file; none of a small one."""
    with open_transcript(place.path) as file:
        size = file.seek(0, 2)
        if size < _LARGE:
            return []
        begin = max(0, size - _END)
        file.seek(begin)
        lines = file.read(_END).split(b"\n")
        return lines[1:] if begin else lines


def _last_lines(source: Source, cancelled: Cancelled) -> list[bytes]:
    kept: deque[bytes] = deque()
    size = held = 0
    for line in source.raw(cancelled):
        size += len(line)
        held += len(line)
        kept.append(line)
        while len(kept) > _LINES or (held > _KEPT and len(kept) > 1):
            held -= len(kept.popleft())
    return [source.entry_of(line) for line in kept] if size >= _LARGE else []


def _path_in(lines: Sequence[bytes], text_limit: int) -> Iterator[TranscriptEntry]:
    """The entries of some last lines that are on the path; none where a marker leads out of them."""
    scan = TranscriptScan()
    for number, data in enumerate(lines, 1):
        if data.strip():
            scan.take(RawLine(number, 0, len(data), data, False, ended=True))
    origins = scan.columns.origin
    if any(origins[at] == MISSING for at in scan.markers):
        return
    shown, _ = scan.path()
    for at in shown:
        line_number, offset = scan.place_of(at)
        data = lines[line_number - 1][offset : offset + scan.columns.size[at]]
        line = RawLine(0, 0, len(data), b"", False, ended=True)
        yield read_entry(line, decode_object(data), text_limit=text_limit)
