"""A transcript as the host sees it, a page at a time (docs/host.md, "Lines of a transcript").

`index_transcript` reads the file once and notes where its entries are; `read_entries` reads a page from
there, so that a file of any size is shown without being held. Entries form a tree by ``parentId``: the path
that ends at the last entry is shown, abandoned branches are counted. All functions are synchronous: run
them in a thread and stop them with *cancelled*.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from lcm_core.ingest.content import (
    ContentPart,
    content_parts,
    engine_role,
    host_parts,
    json_part,
    shorten,
)
from lcm_core.ingest.jsonl import (
    CIRCLE,
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
from lcm_core.javascript import Json, JsonObject


def read_entries(
    index: TranscriptIndex,
    start: int,
    stop: int,
    *,
    everything: bool = False,
    line_limit: int | None = None,
    text_limit: int | None = None,
    cancelled: Cancelled = never_cancelled,
) -> list[TranscriptEntry]:
    """The entries at positions *start* to *stop* of the path, those that exist.

    With *everything* a position counts all entries in file order, abandoned ones too. *line_limit* (bytes,
    at least `HEAD_BYTES`; the index's when None) bounds what is parsed of one line, *text_limit* (code
    points) the text of one part: `ContentPart.cut` says how much is missing.

    Raises:
        TranscriptChangedError: a line is not the one that was indexed.
        TranscriptError: the file cannot be opened or read any more.
        CancelledError: the caller stopped it.
    """
    chosen = (index.numbers if everything else index.shown)[max(0, start) : max(0, stop)]
    on_path = set(index.shown) if everything else set(chosen)
    limit = max(HEAD_BYTES, index.line_limit if line_limit is None else line_limit)
    with open_transcript(index.path) as file:
        return [
            _entry(index, _read_line(index, file, number, limit, cancelled), number in on_path, text_limit)
            for number in chosen
        ]


def _read_line(
    index: TranscriptIndex, file: BinaryIO, number: int, limit: int, cancelled: Cancelled = never_cancelled
) -> RawLine:
    """The line of an entry by its number; only its start when it has more than *limit* bytes.

    Raises:
        TranscriptChangedError: the line is not the one that was indexed.
        CancelledError: the caller stopped it.
    """
    check_cancelled(cancelled)
    columns = index.scan.columns
    size, place = columns.size[number], columns.offset[number]
    too_long = size > limit
    file.seek(place)
    data = file.read(min(size, HEAD_BYTES) if too_long else size)
    if fingerprint(data) != columns.check[number]:
        raise _changed(index, columns.line[number])
    return RawLine(columns.line[number], place, size, data, too_long, ended=True)


def _entry(index: TranscriptIndex, line: RawLine, on_path: bool, text_limit: int | None) -> TranscriptEntry:
    if line.too_long:
        return unread_entry(line, peek_object(line.data), on_path=on_path)
    try:
        value = decode_object(line.data)
    except BadLineError as error:
        if line.size > index.line_limit:  # it is parsed for the first time: the caller raised the limit
            return unread_entry(line, peek_object(line.data), on_path=on_path, reason=str(error))
        raise _changed(index, line.number) from error
    return read_entry(line, value, on_path=on_path, text_limit=text_limit)


def _changed(index: TranscriptIndex, line: int) -> TranscriptChangedError:
    return TranscriptChangedError(
        f"{index.path} was rewritten since it was opened (line {line} differs): reload it."
    )


# -- where entries are: one streamed pass, small to keep, cheap to bring up to date ------------------------


@dataclass(frozen=True, slots=True)
class TranscriptIndex:
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

    @property
    def numbers(self) -> Sequence[int]:
        """All entries in file order, as `read_entries` takes them with ``everything``."""
        return range(self.entry_count)

    def line_at(self, position: int) -> int:
        """The entry's line, from 1."""
        return self.scan.columns.line[self.shown[position]]


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


@dataclass(slots=True)
class EntryColumns:
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


@dataclass(slots=True)
class TranscriptScan:
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


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """What somebody said. Source: ``message`` of an entry."""

    role: str  #: system, user, assistant or tool: as the engine would store it
    original_role: str  #: as the host wrote it; empty when it did not
    parts: tuple[ContentPart, ...]
    provider: str | None
    model: str | None
    stop_reason: str | None
    error: str | None  #: why the model's answer failed


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One entry of the tree. Text is as the host wrote it: make it safe before showing it."""

    line: int  #: from 1
    size: int  #: bytes of the line
    entry_id: str | None
    parent_id: str | None
    type: str  #: message, compaction, model_change ... as in the file
    timestamp: str | None  #: as in the file (epoch milliseconds as digits)
    moment: datetime | None  #: the same in UTC; None when it is no time
    on_path: bool  #: the host sees it; False on an abandoned branch
    message: TranscriptMessage | None  #: of entries of type message
    title: str  #: one line that says what an entry is that is no message
    parts: tuple[ContentPart, ...]  #: what it holds: the message's parts, a summary, a custom payload
    problem: str | None  #: why it is not shown whole


def read_entry(
    line: RawLine, value: JsonObject, *, on_path: bool, text_limit: int | None = None
) -> TranscriptEntry:
    """The entry that a parsed line holds, each part's text at most *text_limit* code points long."""
    held = value.get("message")
    inner: JsonObject = held if isinstance(held, dict) else {}
    is_message = value.get("type") == "message"
    title, parts = ("", host_parts(inner)) if is_message else _described(value)
    if text_limit is not None:
        parts = tuple(shorten(part, text_limit) for part in parts)
    return _entry_of(line, value, on_path, _message(inner, parts) if is_message else None, title, parts, None)


def unread_entry(
    line: RawLine, head: JsonObject, *, on_path: bool, reason: str | None = None
) -> TranscriptEntry:
    """The entry of a line of which only the start was read; *reason* when it is not its length."""
    held = head.get("message")
    inner: JsonObject = held if isinstance(held, dict) else {}
    message = _message(inner, ()) if head.get("type") == "message" else None
    title = "" if message else str(head.get("type") or "entry")
    return _entry_of(line, head, on_path, message, title, (), reason or f"too long ({line.size:,} bytes)")


def _entry_of(
    line: RawLine,
    value: JsonObject,
    on_path: bool,
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
        on_path=on_path,
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
