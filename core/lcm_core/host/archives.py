"""A session that is read as a stream of lines: cold and deleted archives, and files.

Rules: docs/host.md, "Cold archives" and "Deleted and reset sessions".

Nothing is held of it but the line that is read. An archive is read to its end only when its checksum is the
one that the host recorded.
"""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

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
    decode_object,
    open_regular,
    open_transcript,
    scan_lines,
)
from lcm_core.javascript import Json, JsonObject
from lcm_core.store.host_database import HostRows, read_host
from lcm_core.store.host_sessions import ENTRY_LIMIT, ColdRow

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes that an archive may hold, whatever the host says of it.
ARCHIVE_LIMIT: Final = 8 * 1024**3
_CHUNK: Final = 1024 * 1024
#: A line of a cold archive holds an entry as a text within JSON: twice its bytes at most, and more.
_COLD_LINE: Final = 2 * ENTRY_LIMIT + 64 * 1024
#: How the host begins a line with an entry.
_EVENT_LINE: Final = (b'{"kind":"event"', b'{"kind": "event"')

Opened: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]


class TextLines:
    """A transcript, line by line."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def lines(self, cancelled: Cancelled) -> Iterator[RawLine]:
        """All lines, from the beginning."""
        with self._opened() as file:
            yield from scan_lines(file, limit=ENTRY_LIMIT, cancelled=cancelled)

    def raw(self, cancelled: Cancelled) -> Iterator[bytes]:
        """All lines that may be entries, not parsed; too long ones are empty."""
        for line in self.lines(cancelled):
            yield b"" if line.too_long else line.data

    def entry_of(self, line: bytes) -> bytes:
        """The entry in such a line."""
        return line

    def path(self) -> Sequence[int] | None:
        """The host's own active path, as numbers of lines; None where it has to be walked."""
        return None

    @property
    def problems(self) -> list[LineProblem]:
        """What is wrong beside the lines themselves."""
        return []


@dataclass(slots=True)
class ColdLines:
    """The entries of a cold archive (docs/host.md, "Cold archives"), and what it says of their path."""

    session_id: str
    row: ColdRow
    opened: Opened
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
            said = f"{events:,} entries in the archive, but {self.row.events:,} in the host's record"
            self.problems.append(LineProblem(events, said))

    def raw(self, cancelled: Cancelled) -> Iterator[bytes]:
        """All lines that may be entries, not parsed; too long ones are empty."""
        with self.opened() as file:
            for line in scan_lines(file, limit=_COLD_LINE, cancelled=cancelled):
                if line.data.startswith(_EVENT_LINE):
                    yield b"" if line.too_long else line.data

    def entry_of(self, line: bytes) -> bytes:
        """The entry in such a line; nothing where there is none."""
        try:
            row = decode_object(line).get("row")
        except BadLineError:
            return b""
        text = row.get("event_json") if isinstance(row, dict) else None
        return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""

    def _check_header(self, value: JsonObject) -> None:
        same = value.get("kind") == "header" and value.get("sessionId") == self.session_id
        if not same or (self.row.generation is not None and value.get("generation") != self.row.generation):
            raise TranscriptError(
                f"The cold archive {self.row.name} does not belong to session {self.session_id} of this host "
                "database: restore the right file from a backup of the host.",
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


Source: TypeAlias = TextLines | ColdLines


def cold_row_lines(rows: HostRows, session: HostSession) -> ColdLines:
    """The entries of a cold archive that lies in its row."""
    assert isinstance(session.place, ColdPlace)
    row = session.place.row
    name = f"The cold archive of session {session.session_id} in {rows.path}"

    def packed() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_cold_archives", "archive_blob", row.row)

    return ColdLines(session.session_id, row, _opened(name, packed, _cold_limit(row), row.sha256))


def archive_lines(rows: HostRows, place: ArchivePlace) -> TextLines:
    """The transcript of a session that was deleted or reset, in its row."""
    row = place.row
    name = f"The archive of session {row.session_id} in {rows.path}"

    def stored() -> Generator[bytes, None, None]:
        return rows.blob("session_transcript_archives", "archive_blob", row.row)

    return TextLines(_opened(name, stored, ARCHIVE_LIMIT, row.sha256, packed=row.encoding != "identity"))


def _cold_limit(row: ColdRow) -> int:
    """Bytes that a cold archive may hold: each entry several times over, as texts within JSON."""
    if row.raw_bytes is None or row.events is None:
        return ARCHIVE_LIMIT
    return min(ARCHIVE_LIMIT, max(0, 16 * row.raw_bytes + 8192 * row.events) + _CHUNK)


def cold_file(place: ColdPlace) -> Opened:
    """What opens a cold archive that lies in a file of its folder.

    Raises:
        TranscriptError: it is not there, or its row names another place.
    """
    name = place.row.name or ""
    path = place.folder / name
    if not name or name in (".", "..") or {"/", "\\", "\0"}.intersection(name):
        raise TranscriptError(
            f"The host's database {place.database} names a cold archive of this session that is no file in "
            f"{place.folder}: the database is damaged.",
            code="ARCHIVE_OUTSIDE",
        )
    _check_inside(path, place.folder)
    if not path.exists():
        raise TranscriptMissingError(
            f"The cold archive {path} is missing: restore it from a backup of the host.",
            code="ARCHIVE_MISSING",
            details={"path": str(path)},
        )
    return _opened(str(path), lambda: _pieces_of(path), _cold_limit(place.row), place.row.sha256)


def _check_inside(path: Path, folder: Path) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TranscriptError(
            f"{path} leads out of its folder through a link and was not opened.", code="ARCHIVE_OUTSIDE"
        )


def file_of(path: Path) -> Opened:
    """What opens a transcript in a file, packed or not."""
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
) -> Opened:
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
            f"{name} was changed after the host wrote it (its checksum differs): restore it from a backup of "
            "the host.",
            code="ARCHIVE_DAMAGED",
        )


def from_stream(
    session: HostSession,
    use: Callable[Concatenate[Source, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What *use* makes of a session that does not lie in the host's table of entries; it may run again.

    Raises:
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
    """
    place = session.place
    match place:
        case ColdPlace() if place.row.in_database:
            return read_host(place.database, lambda rows: use(cold_row_lines(rows, session), *args, **kwargs))
        case ColdPlace():
            return use(ColdLines(session.session_id, place.row, cold_file(place)), *args, **kwargs)
        case ArchivePlace():
            return read_host(place.database, lambda rows: use(archive_lines(rows, place), *args, **kwargs))
        case FilePlace():
            return use(TextLines(file_of(place.path)), *args, **kwargs)
        case HotPlace():
            raise ValueError(f"{session.session_id} is in the table of entries")
