"""Where the entries of a transcript lie: one streamed pass, small to keep, cheap to bring up to date."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from lcm_core.ingest.columns import PROBLEM_LIMIT, FileStamp, LineProblem, Scan, fingerprint, stamp_of
from lcm_core.ingest.header import TranscriptHeader
from lcm_core.ingest.jsonl import HEAD_BYTES, LINE_LIMIT, Cancelled, never, open_transcript, scan_lines


@dataclass(frozen=True, slots=True)
class TranscriptIndex:
    """A transcript's entries by place: a position counts along the path that the host sees, from 0."""

    path: Path
    line_limit: int  #: bytes; of longer lines only the start was read
    problem_count: int
    problems: tuple[LineProblem, ...]  #: by line, at most `PROBLEM_LIMIT`
    stamp: FileStamp  #: of the file when it was read
    scan: Scan  #: what the pass noted; not to be changed
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
        """Lines that are no entry; each is among the problems."""
        return self.scan.bad_lines

    @property
    def message_count(self) -> int:
        """Messages on the path."""
        role = self.scan.columns.role
        return sum(1 for number in self.shown if role[number])

    @property
    def numbers(self) -> Sequence[int]:
        """All entries in file order, as `read_entries` takes them with ``everything``."""
        return range(self.entry_count)

    def type_at(self, position: int) -> str:
        """The type of the entry as the file names it."""
        columns = self.scan.columns
        return columns.names[columns.kind[self.shown[position]]]

    def role_at(self, position: int) -> str | None:
        """The role of the message as the engine maps it; None when the entry is no message."""
        columns = self.scan.columns
        return columns.names[columns.role[self.shown[position]]] or None

    def line_at(self, position: int) -> int:
        """The entry's line, from 1."""
        return self.scan.columns.line[self.shown[position]]

    def size_at(self, position: int) -> int:
        """Bytes of the entry's line."""
        return self.scan.columns.size[self.shown[position]]

    def position_of(self, entry_id: str) -> int | None:
        """Where the entry stands on the path; None when it is not on it."""
        number = self.scan.numbers.get(entry_id)
        if number is None or number not in self.shown:
            return None
        return self.shown.index(number)

    def position_from(self, moment: datetime) -> int | None:
        """The first entry at or after *moment*; None when all are earlier."""
        seconds, moments = moment.timestamp(), self.scan.columns.moment
        found = (position for position, number in enumerate(self.shown) if moments[number] >= seconds)
        return next(found, None)


def index_transcript(
    path: Path, *, line_limit: int = LINE_LIMIT, cancelled: Cancelled = never
) -> TranscriptIndex:
    """Read a transcript once and note where its entries lie.

    A line of more than *line_limit* bytes keeps its place but is not read beyond its start. Bad lines are
    counted and reported, never raised.

    Raises:
        TranscriptError: the file cannot be opened or read; the sentence says why and what to do.
        CancelledError: the caller stopped it.
    """
    with open_transcript(path) as file:
        return _indexed(path, file, Scan(), line_limit, cancelled)


def refresh_index(index: TranscriptIndex, *, cancelled: Cancelled = never) -> TranscriptIndex:
    """The index of the file as it is now; raises as `index_transcript`.

    The same value when nothing changed. When lines were appended only those are read; a file that was
    replaced or rewritten is read anew.
    """
    with open_transcript(index.path) as file:
        stamp = stamp_of(file)
        if stamp == index.stamp:
            return index
        scan = index.scan.copied() if _was_appended(index, stamp, file) else Scan()
        return _indexed(index.path, file, scan, index.line_limit, cancelled)


def _indexed(path: Path, file: BinaryIO, scan: Scan, limit: int, cancelled: Cancelled) -> TranscriptIndex:
    stamp = stamp_of(file)
    for line in scan_lines(
        file, limit=limit, offset=scan.end_offset, number=scan.end_line, cancelled=cancelled
    ):
        scan.take(line)
    shown, found = scan.path()
    problems = sorted((*scan.problems, *found), key=lambda problem: problem.line)
    return TranscriptIndex(
        path=path,
        line_limit=limit,
        problem_count=scan.problem_count + len(found),
        problems=tuple(problems[:PROBLEM_LIMIT]),
        stamp=stamp,
        scan=scan,
        shown=shown,
    )


def _was_appended(index: TranscriptIndex, stamp: FileStamp, file: BinaryIO) -> bool:
    """Whether the indexed lines still stand where they stood, and none was without its end."""
    old, scan = index.stamp, index.scan
    same_file = (stamp.device, stamp.inode) == (old.device, old.inode)
    if not same_file or stamp.size <= old.size or scan.open_line:
        return False
    columns = scan.columns
    if not columns.line:
        return True
    file.seek(columns.offset[-1])
    return fingerprint(file.read(min(columns.size[-1], HEAD_BYTES))) == columns.check[-1]
