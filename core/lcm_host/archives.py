"""The text of a session that lies in a file or in an archive, and what the host has packed with zstd.

Facts: docs/spec/host.md, "Packed entries", "Cold archives" and "Deleted and reset sessions".
"""

from __future__ import annotations

import hashlib
import importlib
import io
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Concatenate, Final, TypeAlias, cast

from lcm_core.base.errors import ConfigurationError
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import (
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
    scan_lines,
)
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.text import counted
from lcm_core.base.values import P, Struct, T, field, replace
from lcm_core.store.host_database import HostRows, read_host

from lcm_host.rows import ENTRY_LIMIT, ColdRow
from lcm_host.sessions import ArchivePlace, ColdPlace, FilePlace, HostSession, HotPlace

# -- packed entries --------------------------------------------------------------------------------------
# Entries in a table, and archives. Nothing is unpacked beyond a limit that the caller gives.

#: How a zstd frame begins.
MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bytes that one call unpacks at most.
_PIECE: Final = 256 * 1024


def _zstd() -> Any:
    """The standard library's module, or its copy for Python below 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ConfigurationError(
        "Sessions of this host are compressed with zstd, which this Python cannot read: install "
        "backports.zstd into its environment.",
        code="ZSTD_MISSING",
    )


def unpacked_entry(data: bytes, size: int | None, limit: int) -> bytes:
    """An entry of the table: one frame that says how long it is, as the table does.

    Raises:
        BadLineError: the bytes are no such frame, or sizes differ.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    if not data.startswith(MAGIC):
        raise BadLineError("compressed, but not a zstd frame")
    if size is None or not 0 <= size <= limit:
        said = "none" if size is None else f"{size:,}"
        raise BadLineError(f"compressed, with a recorded size of {said}; it must be 0 to {limit:,} bytes")
    try:
        said = zstd.get_frame_info(data).decompressed_size
        if said is not None and said != size:
            raise BadLineError(f"compressed; its frame says {said:,} bytes, its row {size:,}")
        unpacking = zstd.ZstdDecompressor()
        text: bytes = unpacking.decompress(data, size + 1)
    except zstd.ZstdError as error:
        raise BadLineError(f"compressed, and its zstd frame is damaged ({error})") from error
    if len(text) != size or not unpacking.eof or unpacking.unused_data:
        raise BadLineError(f"compressed, and its frame does not contain the {size:,} bytes that its row says")
    return text


def unpacked(name: str, packed: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """What pieces of a packed file hold, in pieces; *name* is how the file is called in a sentence.

    Raises:
        TranscriptError: the frame is damaged or cut off, or it holds more than *limit* bytes.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    held = 0
    try:
        for piece in _unpack(zstd, name, packed):
            held += len(piece)
            if held > limit:
                raise _damaged(name, f"it has more than the {limit:,} bytes that the host may have written")
            yield piece
    except zstd.ZstdError as error:
        raise _damaged(name, f"its zstd frame is damaged: {error}") from error


def _unpack(zstd: Any, name: str, packed: Iterator[bytes]) -> Iterator[bytes]:
    unpacking = None
    for data in packed:
        while data:
            if unpacking is None or unpacking.eof:
                unpacking = zstd.ZstdDecompressor()
            yield unpacking.decompress(data, _PIECE)
            while not unpacking.eof and not unpacking.needs_input:
                yield unpacking.decompress(b"", _PIECE)
            data = unpacking.unused_data if unpacking.eof else b""
    if unpacking is None or not unpacking.eof:
        raise _damaged(name, "its zstd frame ends too early")


def _damaged(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        f"{name} cannot be read: {reason}. Copy it again, or restore it from a backup of the host.",
        code="ARCHIVE_DAMAGED",
    )


class Pieces(io.RawIOBase):
    """Pieces of bytes as a file that is read once, from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It can be read, and not written or moved in."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* as far as one piece goes; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


# -- the lines of a session ------------------------------------------------------------------------------
# An archive is read to its end only when its checksum is the one that the host recorded.


#: Bytes that an archive may hold, whatever the host says of it.
ARCHIVE_LIMIT: Final = 8 * 1024**3
#: What was unpacked is held up to this size (bytes), and else lies in a private file.
_IN_MEMORY: Final = 4 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
#: A line of a cold archive holds an entry as a text within JSON: twice its bytes at most, and more.
_COLD_LINE: Final = 2 * ENTRY_LIMIT + 64 * 1024
#: How a line with an entry begins there.
_EVENT_LINE: Final = (b'\n{"kind":"event"', b'\n{"kind": "event"')

Opened: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]


def _up_to(until: int | None, lines: Iterator[RawLine]) -> Iterator[RawLine]:
    return lines if until is None else takewhile(lambda line: line.offset + line.size <= until, lines)


class TextLines(Struct):
    """A transcript: each line is an entry."""

    opened: Opened
    path: Path | None = None  #: of a file that is read where it lies
    folder: tempfile.TemporaryDirectory[str] | None = None  #: of what was unpacked
    problems: list[LineProblem] = field(default_factory=list)  #: beside the lines themselves

    place_word: ClassVar[str] = "line"  #: what the number of an entry counts
    is_text: ClassVar[bool] = True  #: an entry is the bytes of its line

    def lines(
        self,
        file: BinaryIO,
        *,
        offset: int = 0,
        number: int = 1,
        until: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> Iterator[RawLine]:
        """The lines of *file* from a byte, at which line *number* begins, to another."""
        found = scan_lines(file, limit=ENTRY_LIMIT, offset=offset, number=number, cancelled=cancelled)
        return _up_to(until, found)

    def line_at(self, file: BinaryIO, number: int, offset: int, size: int) -> RawLine:
        """A line of which the place is known; only its start when it is too long."""
        too_long = size > ENTRY_LIMIT
        file.seek(offset)
        return RawLine(number, offset, size, file.read(HEAD_BYTES if too_long else size), too_long, True)

    def end(self, file: BinaryIO) -> int:
        """The byte behind the last entry."""
        return file.seek(0, 2)

    def host_path(self) -> Sequence[int] | None:
        """The host's own active path, as numbers of lines; None where it has to be walked."""
        return None


class ColdLines(Struct):
    """The entries of a cold archive (docs/spec/host.md, "Cold archives"), and what it says of their path."""

    opened: Opened
    session_id: str
    row: ColdRow
    folder: tempfile.TemporaryDirectory[str] | None = None  #: of what was unpacked
    problems: list[LineProblem] = field(default_factory=list)  #: of the last pass from the beginning
    active: array[int] = field(default_factory=lambda: array("q"))
    index: JsonObject = field(default_factory=dict)

    path: ClassVar[None] = None
    place_word: ClassVar[str] = "entry"
    is_text: ClassVar[bool] = False

    def lines(
        self,
        file: BinaryIO,
        *,
        offset: int = 0,
        number: int = 1,
        until: int | None = None,
        cancelled: Cancelled = never_cancelled,
    ) -> Iterator[RawLine]:
        """The entries from a byte of the archive to another, numbered by their place in the session.

        Raises:
            TranscriptError: it is the archive of another session, or of another state of this one.
        """
        self.problems, self.active = [], array("q")
        events = 0
        found = scan_lines(file, limit=_COLD_LINE, offset=offset, number=number, cancelled=cancelled)
        for outer in _up_to(until, found):
            try:
                value = {} if outer.too_long else decode_object(outer.data)
            except BadLineError as error:
                self.problems.append(LineProblem(outer.number, f"a line of the archive is {error}"))
                continue
            if outer.offset == 0:
                self._check_header(value)
            row = object_or_empty(value.get("row"))
            if value.get("kind") == "event" or outer.too_long:
                events += 1
                yield _cold_event(row, events - 1, outer)
            else:
                self._note(value.get("kind"), row)
        if offset == 0 and self.row.events is not None and events != self.row.events:
            counts = (
                f"{counted(events, 'entry')} in the archive, but {self.row.events:,} in the host's record"
            )
            self.problems.append(LineProblem(events, counts))

    def line_at(self, file: BinaryIO, number: int, offset: int, size: int) -> RawLine:
        """An entry of which the place is known; only its start when it is too long."""
        file.seek(offset)
        outer = RawLine(number, offset, size, file.read(size), False, True)
        return _cold_event(object_or_empty(decode_object(outer.data).get("row")), number, outer)

    def end(self, file: BinaryIO) -> int:
        """The byte behind the last entry: the host's list of the path follows, which may be long."""
        at = size = file.seek(0, 2)
        while at > 0:
            at = max(0, at - _CHUNK)
            file.seek(at)
            data = file.read(_CHUNK + 64)
            found = max(data.rfind(one) for one in _EVENT_LINE)
            if found >= 0:
                file.seek(at + found + 1)
                file.readline()
                return file.tell()
        return size

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

    def host_path(self) -> Sequence[int] | None:
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
    """The entry of a row, at the place of its line in the archive."""
    place, text = _place(row.get("seq")), row.get("event_json")
    number = number if place < 0 else place
    if outer.too_long or not isinstance(text, str):
        return RawLine(number, outer.offset, outer.size, b"", outer.too_long, ended=True)
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, escaped in the archive
        data = text.encode("utf-8", "surrogatepass")
    too_long = len(data) > ENTRY_LIMIT
    return RawLine(number, outer.offset, outer.size, data[:HEAD_BYTES] if too_long else data, too_long, True)


Source: TypeAlias = TextLines | ColdLines


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
    if not path.resolve().is_relative_to(place.folder.resolve()):
        raise TranscriptError(
            f"{path} leads out of its folder through a link and was not opened.", code="ARCHIVE_OUTSIDE"
        )
    if not path.exists():
        raise TranscriptMissingError(
            f"The cold archive {path} is missing: restore it from a backup of the host.",
            code="ARCHIVE_MISSING",
            details={"path": str(path)},
        )
    return _opened(str(path), lambda: _pieces_of(path), _cold_limit(place.row), place.row.sha256)


def file_lines(path: Path) -> TextLines:
    """A transcript in a file, packed or not."""
    if path.suffix != ".zst":
        return TextLines(lambda: open_transcript(path), path)
    return TextLines(_opened(str(path), lambda: _pieces_of(path), ARCHIVE_LIMIT, None))


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


def with_lines(
    session: HostSession,
    use: Callable[Concatenate[Source, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What *use* makes of the lines of a session outside the host's table; it may run again.

    What is packed is a stream: `unpacked_lines` can be read anywhere.

    Raises:
        TranscriptError: an archive or file cannot be read; the sentence says why and what to do.
        DatabaseError: the same of the host's database.
    """
    place, name = session.place, session.session_id

    def in_row(rows: HostRows, table: str, what: str, limit: int, packed: bool = True) -> Opened:
        assert isinstance(place, ColdPlace | ArchivePlace)
        stored = partial(rows.blob, table, "archive_blob", place.row.row)
        said = f"The {what} of session {name} in {rows.path}"
        return _opened(said, stored, limit, place.row.sha256, packed=packed)

    match place:
        case ColdPlace(row=row) if row.in_database:

            def cold(rows: HostRows) -> T:
                opened = in_row(rows, "session_transcript_cold_archives", "cold archive", _cold_limit(row))
                return use(ColdLines(opened, name, row), *args, **kwargs)

            return read_host(place.database, cold)
        case ColdPlace(row=row):
            return use(ColdLines(cold_file(place), name, row), *args, **kwargs)
        case ArchivePlace(row=ended):

            def archived(rows: HostRows) -> T:
                packed = ended.encoding != "identity"
                opened = in_row(rows, "session_transcript_archives", "archive", ARCHIVE_LIMIT, packed)
                return use(TextLines(opened), *args, **kwargs)

            return read_host(place.database, archived)
        case FilePlace():
            return use(file_lines(place.path), *args, **kwargs)
        case HotPlace():
            raise ValueError(f"{name} is in the table of entries")


def unpacked_lines(source: Source, cancelled: Cancelled) -> Source:
    """The same lines where any of them can be read: its `folder`, if it has one, is to be cleaned up."""
    if source.path is not None:
        return source
    with source.opened() as file:
        data = file.read(_IN_MEMORY + 1)
        if len(data) <= _IN_MEMORY:
            return replace(source, opened=lambda: nullcontext(io.BytesIO(data)))
        folder = None
        try:
            folder = tempfile.TemporaryDirectory(prefix="lcm-tui-")
            path = Path(folder.name) / "session.jsonl"
            with path.open("xb") as target:
                while data:
                    check_cancelled(cancelled)
                    target.write(data)
                    data = file.read(_CHUNK)
        except BaseException as error:
            if folder is not None:
                folder.cleanup()
            if isinstance(error, OSError):
                raise TranscriptError(
                    f"An archive cannot be unpacked into a private file ({error}): make room in the folder "
                    "for temporary files, or name another one in TMPDIR."
                ) from error
            raise
    return replace(source, opened=lambda: path.open("rb"), folder=folder)
