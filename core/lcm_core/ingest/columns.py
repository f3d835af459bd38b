"""What one pass over a transcript leaves behind: a few numbers per entry, and what was wrong with lines."""

from __future__ import annotations

import os
import zlib
from array import array
from dataclasses import dataclass, field
from typing import BinaryIO

from lcm_core.ingest.content import engine_role
from lcm_core.ingest.header import TranscriptHeader, read_header, read_moment
from lcm_core.ingest.jsonl import (
    HEAD_BYTES,
    BadLineError,
    JsonObject,
    RawLine,
    decode_object,
    peek_object,
    string,
)

#: Problems that are kept with their text; all are counted.
PROBLEM_LIMIT = 1000
#: Types and roles that are kept by name; a file of random names does not make the index large or slow.
NAME_LIMIT = 250
ROOT, MISSING = -1, -2


@dataclass(frozen=True, slots=True)
class LineProblem:
    """Something about a line that a person should know."""

    line: int  #: from 1
    reason: str  #: what follows "line N:" in a sentence; may hold text of the file


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells that a file is still the same."""

    device: int
    inode: int
    size: int  #: bytes
    modified_ns: int


@dataclass(slots=True)
class Columns:
    """One value per entry, in file order: about 50 bytes for an entry of any size."""

    line: array[int] = field(default_factory=lambda: array("Q"))
    offset: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    check: array[int] = field(default_factory=lambda: array("I"))  #: see `fingerprint`
    origin: array[int] = field(
        default_factory=lambda: array("q")
    )  #: number of the entry before it in the tree
    moment: array[float] = field(default_factory=lambda: array("d"))  #: epoch seconds; NaN when not recorded
    kind: array[int] = field(default_factory=lambda: array("I"))  #: number in ``names``
    role: array[int] = field(default_factory=lambda: array("I"))  #: number in ``names``; 0 for no message
    names: list[str] = field(default_factory=lambda: [""])

    def copied(self) -> Columns:
        """The same values, free to grow."""
        return Columns(
            self.line[:],
            self.offset[:],
            self.size[:],
            self.check[:],
            self.origin[:],
            self.moment[:],
            self.kind[:],
            self.role[:],
            self.names[:],
        )


@dataclass(slots=True)
class Scan:
    """The state of a pass after the last line that ends with a newline; a later pass goes on from a copy."""

    columns: Columns = field(default_factory=Columns)
    numbers: dict[str, int] = field(default_factory=dict)  #: entry number by id
    waiting: dict[str, list[int]] = field(default_factory=dict)  #: entries by a parent that was not seen yet
    header: TranscriptHeader | None = None
    bad_lines: int = 0
    problem_count: int = 0
    problems: list[LineProblem] = field(default_factory=list)
    end_offset: int = 0
    end_line: int = 1
    open_line: bool = False  #: the last line was taken although no newline ends it
    incomplete: int | None = None  #: the last line, when it has no newline and cannot be read (yet)

    def copied(self) -> Scan:
        """The same state, free to go on; what was incomplete is read again."""
        return Scan(
            self.columns.copied(),
            dict(self.numbers),
            {origin: numbers[:] for origin, numbers in self.waiting.items()},
            self.header,
            self.bad_lines,
            self.problem_count,
            list(self.problems),
            self.end_offset,
            self.end_line,
        )

    def take(self, line: RawLine) -> None:
        """Note one line."""
        if line.ended:
            self.end_offset, self.end_line = line.offset + line.size + 1, line.number + 1
        try:
            value = peek_object(line.data) if line.too_long else decode_object(line.data)
            kind = string(value.get("type"))
            if kind is None:
                size = f"too long ({line.size:,} bytes), " if line.too_long else ""
                raise BadLineError(f"{size}an entry without a type")
        except BadLineError as error:
            if line.ended:
                self.bad_lines += 1
                self._problem(line.number, str(error))
            else:
                self.incomplete = line.number
            return
        self.open_line = not line.ended
        if kind == "session":
            self._take_header(line, value)
        else:
            self._take_entry(line, value, kind)

    def _take_header(self, line: RawLine, value: JsonObject) -> None:
        if self.header is None:
            self.header = read_header(value)
        else:
            self._problem(line.number, "another session header; the first one counts")

    def _take_entry(self, line: RawLine, value: JsonObject, kind: str) -> None:
        columns, number = self.columns, len(self.columns.line)
        if line.too_long:
            self._problem(line.number, f"too long ({line.size:,} bytes) to be read with the others")
        message = value.get("message")
        role = message.get("role") if isinstance(message, dict) and kind == "message" else None
        stamp = read_moment(value.get("timestamp"))
        columns.line.append(line.number)
        columns.offset.append(line.offset)
        columns.size.append(line.size)
        columns.check.append(fingerprint(line.data))
        columns.origin.append(self._origin(value, number))
        columns.moment.append(stamp.timestamp() if stamp else float("nan"))
        columns.kind.append(self._name(kind))
        columns.role.append(self._name(engine_role(str(role or ""))) if kind == "message" else 0)
        entry_id = string(value.get("id"))
        if entry_id is not None:
            if entry_id in self.numbers:
                first = columns.line[self.numbers[entry_id]]
                self._problem(line.number, f"its id {_short(entry_id)} already stands in line {first}")
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

    def _name(self, name: str) -> int:
        names = self.columns.names
        if name not in names:
            if len(names) > NAME_LIMIT:
                name = ""
            else:
                names.append(name)
        return names.index(name)

    def _problem(self, line: int, reason: str) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEM_LIMIT:
            self.problems.append(LineProblem(line, reason))

    def path(self) -> tuple[array[int], list[LineProblem]]:
        """The entries from a root to the last one, and what is wrong as long as no more lines come."""
        columns = self.columns
        found: list[LineProblem] = []
        passed, steps = bytearray(len(columns.line)), array("Q")
        at = len(columns.line) - 1
        while at >= 0 and not passed[at]:
            passed[at] = 1
            steps.append(at)
            at = columns.origin[at]
        steps.reverse()
        if at >= 0:
            line = columns.line[steps[0]]
            found.append(LineProblem(line, "its parents form a circle; the path begins here"))
        for origin, numbers in self.waiting.items():
            for number in numbers:
                begins = "; what the host sees begins here" if number in steps[:1] else ""
                reason = f"its parent {_short(origin)} is not in the file{begins}"
                found.append(LineProblem(columns.line[number], reason))
        if self.incomplete is not None:
            reason = "the file ends within it; the host may be writing it"
            found.append(LineProblem(self.incomplete, reason))
        return steps, found


def fingerprint(data: bytes) -> int:
    """CRC-32 of the start of a line, by which it is known again."""
    return zlib.crc32(data[:HEAD_BYTES])


def stamp_of(file: BinaryIO) -> FileStamp:
    """What an open file is now. Raises OSError."""
    status = os.fstat(file.fileno())
    return FileStamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _short(entry_id: str) -> str:
    return entry_id if len(entry_id) <= 80 else f"{entry_id[:79]}…"
