"""Transcript files of a host: how they are found, read a page at a time, and matched with what is stored."""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import (
    CIRCLE,
    EPOCH,
    HEAD_BYTES,
    INCOMPLETE,
    LINE_LIMIT,
    PROBLEM_LIMIT,
    BadLineError,
    Cancelled,
    FileStamp,
    LineProblem,
    LineProblems,
    RawLine,
    Spliced,
    TranscriptChangedError,
    TranscriptHeader,
    check_cancelled,
    compact_json,
    decode_object,
    fingerprint,
    missing_parent,
    never_cancelled,
    open_regular,
    open_transcript,
    peek_object,
    read_header,
    read_moment,
    repeated_id,
    scan_lines,
    spliced,
    stamp_of,
    string,
)
from lcm_core.base.paths import host_databases, is_host_store
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.engine.content import ContentPart, content_parts, engine_role, host_parts, json_part, shorten
from lcm_core.engine.identity import identity_of

# -- pages of a transcript -------------------------------------------------------------------------------
# As the host sees it (docs/host.md, "Lines of a transcript").
#
# `index_transcript` reads the file once and notes where its entries are; `read_entries` reads a page from
# there, so that a file of any size is shown without being held. Entries form a tree by ``parentId``: the
# path that ends at the last entry is shown, abandoned branches are counted. All functions are synchronous:
# run them in a thread and stop them with *cancelled*.


def read_entries(
    index: TranscriptIndex,
    start: int,
    stop: int,
    *,
    text_limit: int | None = None,
    cancelled: Cancelled = never_cancelled,
) -> list[TranscriptEntry]:
    """The entries at positions *start* to *stop* of the path, those that exist.

    *text_limit* (code points) bounds the text of one part: `ContentPart.cut` says how much is missing.

    Raises:
        TranscriptChangedError: a line is not the one that was indexed.
        TranscriptError: the file cannot be opened or read any more.
        CancelledError: the caller stopped it.
    """
    with open_transcript(index.path) as file:
        return [
            _entry(index, _read_line(index, file, number, cancelled), text_limit)
            for number in index.shown[max(0, start) : max(0, stop)]
        ]


def _read_line(index: TranscriptIndex, file: BinaryIO, number: int, cancelled: Cancelled) -> RawLine:
    """The line of an entry by its number; only its start when it is too long.

    Raises:
        TranscriptChangedError: the line is not the one that was indexed.
        CancelledError: the caller stopped it.
    """
    check_cancelled(cancelled)
    columns = index.scan.columns
    size, place = columns.size[number], columns.offset[number]
    too_long = size > index.line_limit
    file.seek(place)
    data = file.read(min(size, HEAD_BYTES) if too_long else size)
    if fingerprint(data) != columns.check[number]:
        raise _changed(index, columns.line[number])
    return RawLine(columns.line[number], place, size, data, too_long, ended=True)


def _entry(index: TranscriptIndex, line: RawLine, text_limit: int | None) -> TranscriptEntry:
    if line.too_long:
        return unread_entry(line, peek_object(line.data))
    try:
        value = decode_object(line.data)
    except BadLineError as error:
        raise _changed(index, line.number) from error
    return read_entry(line, value, text_limit=text_limit)


def _changed(index: TranscriptIndex, line: int) -> TranscriptChangedError:
    return TranscriptChangedError(
        f"{index.path} was rewritten since it was opened (line {line} differs): reload it."
    )


# -- where entries are: one streamed pass, small to keep, cheap to bring up to date ------------------------


class TranscriptIndex(Record, frozen=True):
    """A transcript's entries by place: a position counts along the path that the host sees, from 0."""

    path: Path
    line_limit: int  #: bytes; of longer lines only the start was read
    problem_count: int
    problems: tuple[LineProblem, ...]  #: by line, at most `PROBLEM_LIMIT`
    stamp: FileStamp  #: of the file when it was read
    scan: TranscriptScan  #: what the pass noted; not to be changed
    shown: array[int]  #: numbers of the entries on the path, in order; not to be changed

    def __len__(self) -> int:
        """Entries on the path."""
        return len(self.shown)

    @property
    def header(self) -> TranscriptHeader | None:
        """The session header; None when the file has none."""
        return self.scan.header

    @property
    def entry_count(self) -> int:
        """Entries in the file, those off the path included."""
        return len(self.scan.columns.line)

    @property
    def abandoned(self) -> int:
        """Entries that the host does not see: on other branches, or before a link that is broken."""
        return self.entry_count - len(self.shown)

    @property
    def bad_lines(self) -> int:
        """Lines of which something cannot be read; each is among the problems."""
        return self.scan.bad_lines


def index_transcript(
    path: Path, *, line_limit: int = LINE_LIMIT, cancelled: Cancelled = never_cancelled
) -> TranscriptIndex:
    """Read a transcript once and note where its entries are.

    A line of more than *line_limit* bytes keeps its place but is not read beyond its start. Bad lines are
    counted and reported, never raised.

    Raises:
        TranscriptError: the file cannot be opened or read; the sentence says why and what to do.
        CancelledError: the caller stopped it.
    """
    with open_transcript(path) as file:
        return _indexed(path, file, TranscriptScan(), line_limit, cancelled)


def refresh_index(index: TranscriptIndex, *, cancelled: Cancelled = never_cancelled) -> TranscriptIndex:
    """The index of the file as it is now; raises as `index_transcript`.

    The same value when nothing changed. When lines were appended only those are read; a file that was
    replaced or rewritten is read anew.
    """
    with open_transcript(index.path) as file:
        stamp = stamp_of(file)
        if stamp == index.stamp:
            return index
        scan = index.scan.copied() if _was_appended(index, stamp, file) else TranscriptScan()
        return _indexed(index.path, file, scan, index.line_limit, cancelled)


def _indexed(
    path: Path, file: BinaryIO, scan: TranscriptScan, limit: int, cancelled: Cancelled
) -> TranscriptIndex:
    stamp = stamp_of(file)
    for line in scan_lines(
        file, limit=limit, offset=scan.end_offset, number=scan.end_line, cancelled=cancelled
    ):
        scan.take(line)
    shown, found = scan.path()
    problems = sorted((*scan.problems.kept, *found), key=lambda problem: problem.line)
    return TranscriptIndex(
        path=path,
        line_limit=limit,
        problem_count=scan.problems.count + len(found),
        problems=tuple(problems[:PROBLEM_LIMIT]),
        stamp=stamp,
        scan=scan,
        shown=shown,
    )


def _was_appended(index: TranscriptIndex, stamp: FileStamp, file: BinaryIO) -> bool:
    """Whether the indexed lines are still in their places, and none was without its end."""
    old, scan = index.stamp, index.scan
    same_file = (stamp.device, stamp.inode) == (old.device, old.inode)
    if not same_file or stamp.size <= old.size or scan.open_line:
        return False
    columns = scan.columns
    if not columns.line:
        return True
    file.seek(columns.offset[-1])
    return fingerprint(file.read(min(columns.size[-1], HEAD_BYTES))) == columns.check[-1]


ROOT, MISSING = -1, -2
#: The type of an entry that is on no path: what it targets is where the path goes on.
LEAF = "leaf"


class EntryColumns(Struct):
    """One value per entry, in file order: about 36 bytes for an entry of any size."""

    line: array[int] = field(default_factory=lambda: array("Q"))
    offset: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    check: array[int] = field(default_factory=lambda: array("I"))  #: see `fingerprint`
    origin: array[int] = field(
        default_factory=lambda: array("q")
    )  #: number of the entry before it in the tree

    def copied(self) -> EntryColumns:
        """The same values, free to grow."""
        return EntryColumns(
            self.line[:],
            self.offset[:],
            self.size[:],
            self.check[:],
            self.origin[:],
        )


class TranscriptScan(Struct):
    """The state of a pass after the last line that ends with a newline; a later pass goes on from a copy."""

    columns: EntryColumns = field(default_factory=EntryColumns)
    numbers: dict[str, int] = field(default_factory=dict)  #: entry number by id
    waiting: dict[str, list[int]] = field(default_factory=dict)  #: entries by a parent that was not seen yet
    markers: set[int] = field(default_factory=set)  #: entries that only say where the path goes on
    header: TranscriptHeader | None = None
    bad_lines: int = 0  #: lines of which something is lost
    spliced: set[int] = field(
        default_factory=set
    )  #: lines that hold several records, or one and something else
    problems: LineProblems = field(default_factory=LineProblems)
    end_offset: int = 0
    end_line: int = 1
    open_line: bool = False  #: the last line was taken although no newline ends it
    incomplete: int | None = None  #: the last line, when it has no newline and cannot be read (yet)

    def copied(self) -> TranscriptScan:
        """The same state, free to go on; what was incomplete is read again."""
        return TranscriptScan(
            self.columns.copied(),
            dict(self.numbers),
            {origin: numbers[:] for origin, numbers in self.waiting.items()},
            set(self.markers),
            self.header,
            self.bad_lines,
            set(self.spliced),
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
            if (found := spliced(line)) is not None:
                self._take_spliced(line, found)
            elif line.ended:
                self.bad_lines += 1
                self.problems.add(line.number, str(error))
            else:
                self.incomplete = line.number
            return
        self.open_line = not line.ended

    def _take_spliced(self, line: RawLine, found: Spliced) -> None:
        """Note the whole records of a line, and what is wrong with it."""
        self.spliced.add(line.number)
        self.open_line = not line.ended
        self.bad_lines += found.is_lost and line.ended
        self.problems.add(line.number, found.problem)
        for record in found.records:
            try:
                self._take_record(record)
            except BadLineError as error:
                self.problems.add(line.number, str(error))

    def parts(self, line: RawLine) -> Sequence[RawLine]:
        """The records of a line that was taken before."""
        found = spliced(line) if line.number in self.spliced else None
        return (line,) if found is None else found.records

    def place_of(self, number: int) -> tuple[int, int]:
        """By what an entry is known again in the file: its line, and its byte."""
        return self.columns.line[number], self.columns.offset[number]

    def _take_record(self, line: RawLine) -> None:
        """Note a record. Raises BadLineError."""
        value = peek_object(line.data) if line.too_long else decode_object(line.data)
        kind = string(value.get("type"))
        if kind is None:
            size = f"too long ({line.size:,} bytes), " if line.too_long else ""
            raise BadLineError(f"{size}an entry without a type")
        if kind == "session":
            self._take_header(line, value)
        else:
            self._take_entry(line, value)

    def _take_header(self, line: RawLine, value: JsonObject) -> None:
        if self.header is None:
            self.header = read_header(value)
        else:
            self.problems.add(line.number, "another session header; the first one counts")

    def _take_entry(self, line: RawLine, value: JsonObject) -> None:
        if line.too_long:
            self.problems.add(line.number, f"too long ({line.size:,} bytes) to be read with the others")
        self.columns.offset.append(line.offset)
        self.columns.size.append(line.size)
        self.columns.check.append(fingerprint(line.data))
        self.place(line.number, value)

    def place(self, line: int, value: JsonObject) -> None:
        """Note where an entry is in the tree; *value* is the entry, or its id, type and parent."""
        columns, number = self.columns, len(self.columns.line)
        columns.line.append(line)
        if value.get("type") == LEAF:
            self.markers.add(number)
            value = {**value, "parentId": value.get("targetId", value.get("parentId"))}
        columns.origin.append(self._origin(value, number))
        entry_id = string(value.get("id"))
        if entry_id is not None:
            if entry_id in self.numbers:
                first = columns.line[self.numbers[entry_id]]
                self.problems.add(line, repeated_id(entry_id, first))
            self.numbers[entry_id] = number
            for waiting in self.waiting.pop(entry_id, ()):
                columns.origin[waiting] = number

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
        columns = self.columns
        found: list[LineProblem] = []
        passed, steps = bytearray(len(columns.line)), array("Q")
        at = len(columns.line) - 1
        while at >= 0 and not passed[at]:
            passed[at] = 1
            if at not in self.markers:
                steps.append(at)
            following = columns.origin[at]
            # A marker whose target is not there hides nothing: the path goes on as if it were not there.
            at = at - 1 if following == MISSING and at in self.markers else following
        steps.reverse()
        if at >= 0 and steps:
            line = columns.line[steps[0]]
            found.append(LineProblem(line, f"{CIRCLE}; the path begins here"))
        for origin, numbers in self.waiting.items():
            for number in numbers:
                begins = "; what the host sees begins here" if number in steps[:1] else ""
                found.append(LineProblem(columns.line[number], f"{missing_parent(origin)}{begins}"))
        if self.incomplete is not None:
            found.append(LineProblem(self.incomplete, INCOMPLETE))
        return steps, found


# -- one line as a record ----------------------------------------------------------------------------------


_FRAME = ("type", "id", "parentId", "timestamp")


class TranscriptMessage(Record, frozen=True):
    """What somebody said. Source: ``message`` of an entry."""

    role: str  #: system, user, assistant or tool: as the engine would store it
    original_role: str  #: as the host wrote it; empty when it did not
    parts: tuple[ContentPart, ...]
    provider: str | None
    model: str | None
    stop_reason: str | None
    error: str | None  #: why the model's answer failed


class TranscriptEntry(Record, frozen=True):
    """One entry of the tree. Text is as the host wrote it: make it safe before showing it."""

    line: int  #: from 1
    size: int  #: bytes of the line
    entry_id: str | None
    parent_id: str | None
    type: str  #: message, compaction, model_change ... as in the file
    timestamp: str | None  #: as in the file (epoch milliseconds as digits)
    moment: datetime | None  #: the same in UTC; None when it is no time
    message: TranscriptMessage | None  #: of entries of type message
    title: str  #: one line that says what an entry is that is no message
    parts: tuple[ContentPart, ...]  #: what it holds: the message's parts, a summary, a custom payload
    problem: str | None  #: why it is not shown whole


def read_entry(line: RawLine, value: JsonObject, *, text_limit: int | None = None) -> TranscriptEntry:
    """The entry that a parsed line holds, each part's text at most *text_limit* code points long."""
    inner = object_or_empty(value.get("message"))
    is_message = value.get("type") == "message"
    title, parts = ("", host_parts(inner)) if is_message else _described(value)
    if text_limit is not None:
        parts = tuple(shorten(part, text_limit) for part in parts)
    return _entry_of(line, value, _message(inner, parts) if is_message else None, title, parts, None)


def unread_entry(line: RawLine, head: JsonObject, *, reason: str | None = None) -> TranscriptEntry:
    """The entry of a line of which only the start was read; *reason* when it is not its length."""
    inner = object_or_empty(head.get("message"))
    message = _message(inner, ()) if head.get("type") == "message" else None
    title = "" if message else str(head.get("type") or "entry")
    return _entry_of(line, head, message, title, (), reason or f"too long ({line.size:,} bytes)")


def _entry_of(
    line: RawLine,
    value: JsonObject,
    message: TranscriptMessage | None,
    title: str,
    parts: tuple[ContentPart, ...],
    problem: str | None,
) -> TranscriptEntry:
    stamp = value.get("timestamp")
    if read_moment(stamp) is None and isinstance(held := value.get("message"), dict):
        stamp = held.get("timestamp") or stamp
    return TranscriptEntry(
        line=line.number,
        size=line.size,
        entry_id=string(value.get("id")),
        parent_id=string(value.get("parentId")),
        type=str(value.get("type") or ""),
        timestamp=str(stamp) if isinstance(stamp, str | int | float) else None,
        moment=read_moment(stamp),
        message=message,
        title=" ".join(title.split()),
        parts=parts,
        problem=problem,
    )


def _message(value: JsonObject, parts: tuple[ContentPart, ...]) -> TranscriptMessage:
    role = string(value.get("role")) or ""
    return TranscriptMessage(
        role=engine_role(role),
        original_role=role,
        parts=parts,
        provider=string(value.get("provider")),
        model=string(value.get("model")),
        stop_reason=string(value.get("stopReason")),
        error=string(value.get("errorMessage")),
    )


_Described = tuple[str, tuple[ContentPart, ...]]


def _described(value: JsonObject) -> _Described:
    """A line about an entry that is no message, and what it holds."""
    kind = str(value.get("type") or "")
    describe = _DESCRIBE.get(kind)
    return describe(value) if describe else (kind, _rest(value))


def _compaction(value: JsonObject) -> _Described:
    before = value.get("tokensBefore")
    tokens = (
        f" ({before:,} tokens before)" if isinstance(before, int) and not isinstance(before, bool) else ""
    )
    return f"compaction{tokens}", content_parts(value.get("summary"))


def _branch_summary(value: JsonObject) -> _Described:
    origin = string(value.get("fromId"))
    return f"branch summary{_from(origin)}", content_parts(value.get("summary"))


def _model_change(value: JsonObject) -> _Described:
    names = [name for name in (string(value.get("provider")), string(value.get("modelId"))) if name]
    return f"model: {'/'.join(names) or 'not recorded'}", ()


def _thinking_level(value: JsonObject) -> _Described:
    return f"thinking level: {_word(value.get('thinkingLevel'))}", ()


def _reset(value: JsonObject) -> _Described:
    reason = string(value.get("reason"))
    return f"reset: {reason}" if reason else "reset", _rest(value)


def _custom(value: JsonObject) -> _Described:
    data = value.get("data")
    parts = () if data is None else (json_part("custom", data),)
    return f"custom: {_word(value.get('customType'))}", parts


def _custom_message(value: JsonObject) -> _Described:
    return f"custom message: {_word(value.get('customType'))}", content_parts(value.get("content"))


_DESCRIBE: dict[str, Callable[[JsonObject], _Described]] = {
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "model_change": _model_change,
    "thinking_level_change": _thinking_level,
    "reset": _reset,
    "custom": _custom,
    "custom_message": _custom_message,
}


def _from(origin: str | None) -> str:
    return f" from {origin}" if origin else ""


def _word(value: Json) -> str:
    return string(value) or ("not recorded" if value is None else compact_json(value))


def _rest(value: JsonObject) -> tuple[ContentPart, ...]:
    """What an entry holds beside its frame, as JSON."""
    rest: JsonObject = {key: each for key, each in value.items() if key not in _FRAME}
    return (json_part("", rest),) if rest else ()


# -- finding session files -------------------------------------------------------------------------------
# On disk, without reading more than the first line of each.
#
# Layout: docs/host.md, "Session files" and "Several files of one session". Nothing is opened that leaves
# the folder through a symbolic link, nothing is opened twice while its size and time stay the same, and
# what cannot be read is reported beside the rest.

#: A registry that is larger than this (bytes) is reported instead of read.
_REGISTRY_LIMIT = 64 * 1024 * 1024
_REGISTRY_NAME = "sessions.json"
#: What is said of a folder that is not there: on many machines that is no fault.
NO_FOLDER = "There is no such folder."
_FILE_NAME = re.compile(
    r"(?P<stem>.+?)\.jsonl(?:\.(?P<state>reset|deleted)\.(?P<stamp>.+?))?(?P<packed>\.zst|\.gz)?", re.DOTALL
)
_TOPIC = re.compile(r"(?P<id>.+)-topic-(?P<topic>\d+)", re.DOTALL)
#: The stem of a copy that the host keeps of a session as it was.
_CHECKPOINT = re.compile(r".+\.checkpoint\.[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.DOTALL)


class SessionState(StrEnum):
    """What the host did with the file, as its name says."""

    LIVE = "live"
    RESET = "reset"
    DELETED = "deleted"


class DiskSession(Record, frozen=True):
    """A transcript on disk. Source: its name, its first line and ``sessions.json``."""

    agent: str | None  #: from the folder's place, else from the session key
    session_id: str  #: the header's id, else the stem of the file name
    session_key: str | None  #: from ``sessions.json``; only the current file of a session has one
    topic: str | None  #: the thread of ``<sessionId>-topic-<threadId>.jsonl``
    path: Path
    size: int  #: bytes
    modified: datetime  #: UTC
    state: SessionState
    packed: bool  #: compressed: listed, but its first line was not read
    header: TranscriptHeader | None  #: None when the first line is none

    @property
    def stem(self) -> str:
        """The file name without its endings."""
        return _stem(self.path.name)

    @property
    def names(self) -> frozenset[str]:
        """What a database may call it: its id, its file's stem, and either without the topic."""
        names = {self.session_id, self.stem}
        if self.topic is not None:
            names |= {name.removesuffix(f"-topic-{self.topic}") for name in names}
        return frozenset(names)


class SessionProblem(Record, frozen=True):
    """A file or folder that was passed over, or of which something is to be said."""

    path: Path
    reason: str  #: one sentence, for a person
    is_remark: bool = False  #: it was read nevertheless

    @property
    def sentence(self) -> str:
        """The reason with the path, which it may name itself."""
        return self.reason if str(self.path) in self.reason else f"{self.path}: {self.reason}"


class _Stamp(NamedTuple):
    """What shows that a file is still the same."""

    size: int
    modified_ns: int


class _Registry(Record, frozen=True):
    """``sessions.json``: the key of a file name, and the key of a session id."""

    by_file: Mapping[str, str] = field(default_factory=dict)
    by_id: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)  #: id: (key, file name)


class SessionIndex(Record, frozen=True):
    """What an earlier listing read; give it to the next one and only changed files are opened."""

    headers: Mapping[str, tuple[_Stamp, TranscriptHeader | None]] = field(default_factory=dict)
    registries: Mapping[str, tuple[_Stamp, _Registry]] = field(default_factory=dict)


class SessionListing(Record, frozen=True):
    """What was found: sessions newest first (then by path), what was passed over, and the cache."""

    sessions: tuple[DiskSession, ...]
    problems: tuple[SessionProblem, ...]
    index: SessionIndex
    databases: tuple[Path, ...] = ()  #: OpenClaw's own, whose sessions are not listed
    checkpoints: int = 0  #: copies of sessions as they were, which are left out


def find_sessions(
    folder: Path, index: SessionIndex | None = None, *, cancelled: Cancelled = never_cancelled
) -> SessionListing:
    """The transcripts in a sessions folder, in an agent's folder or in a folder of agents.

    Unreadable files and folders are reported in the result.

    Raises:
        CancelledError: the caller stopped it.
    """
    return _Finder(folder, index or SessionIndex(), cancelled).find()


def _stem(name: str) -> str:
    found = _FILE_NAME.fullmatch(name)
    return found["stem"] if found else name


def _topic(stem: str, header_id: str | None) -> str | None:
    """The thread in a file name; without a header that confirms it only digits count."""
    if header_id is not None and stem.startswith(f"{header_id}-topic-"):
        return stem.removeprefix(f"{header_id}-topic-") or None
    found = _TOPIC.fullmatch(stem)
    return found["topic"] if found else None


class _Finder:
    """One listing: walks at most two levels and collects sessions, problems and the next cache."""

    def __init__(self, folder: Path, index: SessionIndex, cancelled: Cancelled) -> None:
        self.folder = folder
        self.root = Path(os.path.realpath(folder))
        self.index = index
        self.cancelled = cancelled
        self.sessions: list[tuple[int, DiskSession]] = []
        self.problems: list[SessionProblem] = []
        self.headers: dict[str, tuple[_Stamp, TranscriptHeader | None]] = {}
        self.registries: dict[str, tuple[_Stamp, _Registry]] = {}
        self.checkpoints = 0

    def find(self) -> SessionListing:
        entries = {} if is_host_store(self.folder) else self._entries(self.folder)
        self._list(self.folder, entries, _agent_of(self.root))
        for name, status in sorted(entries.items()):
            if not stat.S_ISDIR(status.st_mode):
                continue
            inner = self.folder / name
            nested = inner / "sessions"
            if os.path.lexists(nested):
                if self._inside(nested):
                    self._list(nested, self._entries(nested), name)
            elif name == "sessions":  # the folder given is one agent's
                self._list(inner, self._entries(inner), _agent_of(self.root / name))
        self.sessions.sort(key=lambda each: (-each[0], os.fspath(each[1].path)))
        self.problems.sort(key=lambda each: (os.fspath(each.path), each.reason))
        return SessionListing(
            sessions=tuple(session for _, session in self.sessions),
            problems=tuple(self.problems),
            index=SessionIndex(self.headers, self.registries),
            databases=host_databases(self.folder),
            checkpoints=self.checkpoints,
        )

    def _problem(self, path: Path, reason: str, *, is_remark: bool = False) -> None:
        self.problems.append(SessionProblem(path, reason, is_remark))

    def _inside(self, path: Path) -> bool:
        """Whether the path stays in the folder when its links are followed; reported when it does not."""
        try:
            inside = Path(os.path.realpath(path, strict=True)).is_relative_to(self.root)
        except OSError as error:
            self._problem(path, f"This link leads nowhere ({_why(error)}).")
            return False
        if not inside:
            self._problem(path, "This link leads out of the folder and was not followed.")
        return inside

    def _entries(self, folder: Path) -> dict[str, os.stat_result]:
        """What a folder contains, by name; links resolved, and only where they stay inside."""
        found: dict[str, os.stat_result] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    check_cancelled(self.cancelled)
                    relevant = entry.name == _REGISTRY_NAME or _FILE_NAME.fullmatch(entry.name)
                    if not (relevant or entry.is_dir()):
                        continue
                    if entry.is_symlink() and not self._inside(folder / entry.name):
                        continue
                    with suppress(FileNotFoundError):  # removed since the folder was read
                        found[entry.name] = entry.stat()
        except FileNotFoundError:
            self._problem(folder, NO_FOLDER)
        except OSError as error:
            self._problem(folder, f"This folder cannot be read ({_why(error)}).")
        return found

    def _list(self, folder: Path, entries: Mapping[str, os.stat_result], agent: str | None) -> None:
        registry = self._registry(folder, entries)
        live: dict[str, list[tuple[int, DiskSession]]] = {}
        for name, status in entries.items():
            check_cancelled(self.cancelled)
            matched = _FILE_NAME.fullmatch(name)
            if matched is None or stat.S_ISDIR(status.st_mode):
                continue
            path = folder / name
            if _CHECKPOINT.fullmatch(matched["stem"]) and name not in registry.by_file:
                self.checkpoints += 1
                continue
            if not stat.S_ISREG(status.st_mode):
                self._problem(path, "This is not a regular file and was not opened.")
                continue
            packed = matched["packed"] is not None
            header = None if packed else self._header(path, status)
            session_id = header.session_id if header and header.session_id else None
            session_id, stem = session_id or matched["stem"], matched["stem"]
            key = registry.by_file.get(name)
            session = DiskSession(
                agent=agent or _agent_in(key),
                session_id=session_id,
                session_key=key,
                topic=_topic(stem, header.session_id if header else None),
                path=path,
                size=status.st_size,
                modified=_moment(status.st_mtime_ns),
                state=SessionState(matched["state"] or "live"),
                packed=packed,
                header=header,
            )
            if session.state is SessionState.LIVE:
                live.setdefault(session_id, []).append((status.st_mtime_ns, session))
            else:
                self._add(session, status.st_mtime_ns, _key_of_id(registry, session, entries))
        for several in live.values():
            self._add_one_of(several, registry, entries)

    def _add(self, session: DiskSession, modified_ns: int, key: str | None) -> None:
        key = session.session_key or key
        agent = session.agent or _agent_in(key)
        self.sessions.append((modified_ns, replace(session, session_key=key, agent=agent)))

    def _add_one_of(
        self,
        several: Sequence[tuple[int, DiskSession]],
        registry: _Registry,
        entries: Mapping[str, os.stat_result],
    ) -> None:
        """Take the files that count of the live ones with one session id, and say which do not."""
        ordered = sorted(several, key=lambda each: (_rank(each[1]), -each[0], each[1].path.name))
        named = [each for each in ordered if each[1].session_key is not None]
        kept = named or [each for each in ordered if _is_own_name(each[1])] or ordered[:1]
        kept = list({each[1].stem: each for each in reversed(kept)}.values())[::-1]
        first = kept[0][1]
        for modified_ns, session in kept:
            key = _key_of_id(registry, session, entries) if session is first else None
            self._add(session, modified_ns, key)
        counts = (
            f"the index names {first.path.name}" if named else f"{first.path.name} is the one that counts"
        )
        for _, session in ordered:
            if all(session is not one for _, one in kept):
                self._problem(
                    session.path,
                    f"This is another file of session {session.session_id}: {counts}.",
                    is_remark=True,
                )

    def _header(self, path: Path, status: os.stat_result) -> TranscriptHeader | None:
        stamp, key = _Stamp(status.st_size, status.st_mtime_ns), os.fspath(path)
        cached = self.index.headers.get(key)
        if cached is None or cached[0] != stamp:
            try:
                cached = (stamp, first_header(path))
            except OSError as error:
                self._problem(path, f"This file cannot be read ({_why(error)}).")
                return None
        self.headers[key] = cached
        return cached[1]

    def _registry(self, folder: Path, entries: Mapping[str, os.stat_result]) -> _Registry:
        status, path = entries.get(_REGISTRY_NAME), folder / _REGISTRY_NAME
        if status is None:
            return _Registry()
        stamp, key = _Stamp(status.st_size, status.st_mtime_ns), os.fspath(path)
        cached = self.index.registries.get(key)
        if cached is None or cached[0] != stamp:
            try:
                cached = (stamp, _read_registry(path))
            except (OSError, BadLineError) as error:
                self._problem(path, f"The keys of these sessions cannot be read ({_why(error)}).")
                return _Registry()
        self.registries[key] = cached
        return cached[1]


def first_header(path: Path) -> TranscriptHeader | None:
    """The header, when the first line with something in it is one; reads `HEAD_BYTES` at most.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        read = 0
        while read < HEAD_BYTES and (line := file.readline(HEAD_BYTES - read)):
            read += len(line)
            if line.strip():
                found = spliced(RawLine(1, 0, len(line), line, False, ended=True))
                try:
                    return read_header(decode_object(line if found is None else found.records[0].data))
                except BadLineError:
                    return None
    return None


def _read_registry(path: Path) -> _Registry:
    with open_regular(path) as file:
        data = file.read(_REGISTRY_LIMIT + 1)
    if len(data) > _REGISTRY_LIMIT:
        raise BadLineError(f"more than {_REGISTRY_LIMIT:,} bytes")
    by_file: dict[str, str] = {}
    by_id: dict[str, tuple[str, str | None]] = {}
    for key, entry in decode_object(data).items():
        if not isinstance(entry, dict) or not key.strip():
            continue
        name = _base_name(entry)
        if name is not None:
            by_file.setdefault(name, key)
        session_id = string(entry.get("sessionId"))
        if session_id is not None:
            by_id.setdefault(session_id, (key, name))
    return _Registry(by_file, by_id)


def _base_name(entry: JsonObject) -> str | None:
    """The file's name; its folder is that of the machine that wrote it."""
    stored = string(entry.get("sessionFile"))
    return re.split(r"[/\\]", stored)[-1] or None if stored else None


def _key_of_id(
    registry: _Registry, session: DiskSession, present: Mapping[str, os.stat_result]
) -> str | None:
    """The key of a file by its session id, when the entry's own file is not there."""
    key, file_name = registry.by_id.get(session.session_id, (None, None))
    return None if file_name in present else key


def _is_own_name(session: DiskSession) -> bool:
    """Whether the host itself names files so: by the session's id, with the thread of a topic or without."""
    return session.stem == session.session_id or session.topic is not None


def _rank(session: DiskSession) -> tuple[bool, bool]:
    """Of the files of one session: the one with the id's name before topics, plain before packed ones."""
    return session.stem != session.session_id, session.packed


def _agent_of(folder: Path) -> str | None:
    """The agent's id when the folder is ``agents/<agent>/sessions``."""
    return folder.parent.name if folder.name == "sessions" and folder.parent.parent.name == "agents" else None


def _agent_in(key: str | None) -> str | None:
    parts = (key or "").split(":")
    return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None


def _moment(nanoseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:  # a clock that was wrong: keep the order's direction
        return datetime.max.replace(tzinfo=UTC) if nanoseconds > 0 else datetime.min.replace(tzinfo=UTC)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


# -- what is new in a transcript -------------------------------------------------------------------------
# From where on a transcript is new to a database that holds some of it. Pure (docs/engine/ingest.md, "Later
# reads").
#
# Entry ids prove it where they are recorded. Elsewhere the newest stored messages are looked for in the
# transcript by role and text, with as many of their predecessors as agree.

#: Stored messages that are compared at most.
MOST_COMPARED: Final = 64
#: Messages in a row that must agree, when there are so many.
_RUN: Final = 3
_FILE_ID: Final = re.compile(r"file_[0-9a-f]{16}")


class AnchorProof(StrEnum):
    """By what the place was found."""

    EMPTY = "nothing is stored yet"
    ENTRY_ID = "entry ids"
    CONTENT = "role and text"
    NONE = "none"


class Anchor(Record, frozen=True):
    """Where the new part of a transcript begins."""

    start: int  #: index of the first new message
    proof: AnchorProof
    left_out: int = 0  #: messages before it that are not stored: they would come behind newer ones


def comparable(role: str, content: str) -> str:
    """What is compared: the ids of files are minted anew whenever a message is stored."""
    return identity_of(role, _FILE_ID.sub("file_", content))


def anchor_by_entry(ids: Sequence[str | None], known: Collection[str]) -> Anchor | None:
    """Behind the last message whose entry is stored; None when none is."""
    last = next((at for at in range(len(ids) - 1, -1, -1) if ids[at] in known), None)
    if last is None:
        return None
    left_out = sum(1 for entry_id in ids[:last] if entry_id not in known)
    return Anchor(last + 1, AnchorProof.ENTRY_ID, left_out)


def anchor_by_content(transcript: Sequence[str], stored: Sequence[str]) -> Anchor | None:
    """Behind the place at which the newest *stored* messages are in the transcript.

    Both are sequences of `comparable`, oldest first. None when no place has as many agreeing predecessors as
    are asked for, or several have equally many.
    """
    if not stored:
        return None
    runs = {
        at: _run(transcript, stored, at) for at, identity in enumerate(transcript) if identity == stored[-1]
    }
    longest = max(runs.values(), default=0)
    best = [at for at, run in runs.items() if run == longest]
    if longest < min(_RUN, len(stored)) or len(best) != 1:
        return None
    return Anchor(best[0] + 1, AnchorProof.CONTENT)


def anchor_by_counts(
    transcript: Sequence[tuple[str, str]], stored: Mapping[tuple[str, str], int]
) -> int | None:
    """Behind the newest message of which the transcript has as many up to there as are stored.

    *transcript* holds role and text of every message, *stored* how many rows have a role and text.
    """
    seen: Counter[tuple[str, str]] = Counter()
    anchor = None
    for at, key in enumerate(transcript):
        seen[key] += 1
        if seen[key] == stored.get(key):
            anchor = at + 1
    return anchor


def _run(transcript: Sequence[str], stored: Sequence[str], at: int) -> int:
    """How many messages agree, going back from the newest stored one at *at*."""
    length = 0
    while length < min(at + 1, len(stored)) and transcript[at - length] == stored[-1 - length]:
        length += 1
    return length


def import_cap(stored: int) -> int:
    """How many messages the engine imports at most where no entry id proves that they are new.

    Source: docs/engine/ingest.md, "Later reads".
    """
    return max(stored // 5, 50)
