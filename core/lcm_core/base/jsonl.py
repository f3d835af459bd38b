"""Transcript files as bytes and lines: opening them safely, reading lines of any length, decoding JSON.

Everything here is synchronous and bounded: no line is held whole beyond a limit that the caller gives.
The lines themselves: docs/spec/host.md, "Lines of a transcript".
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, TypeAlias

from lcm_core.base.errors import CancelledError, ExitCode, LcmError, nothing_at
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.text import BLANKS, agree, counted
from lcm_core.base.values import Record, Struct, field

Cancelled: TypeAlias = Callable[[], bool]

#: Bytes of a line that are parsed at most, unless the caller says otherwise.
LINE_LIMIT = 16 * 1024 * 1024
#: Bytes at the start of a longer line, from which its id, type and role are taken.
HEAD_BYTES = 64 * 1024
_BUFFER = 1024 * 1024
_PACKERS = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz"}
_UNPACK = {".zst": ("zstd", "zstd -dc"), ".gz": ("gzip", "gzip -dc")}


class TranscriptError(LcmError):
    """A session file that cannot be read as a transcript."""

    exit_code = ExitCode.DATABASE
    default_code = "TRANSCRIPT_UNREADABLE"


class TranscriptMissingError(TranscriptError):
    """There is no session file at the path."""

    exit_code = ExitCode.NOT_FOUND
    default_code = "TRANSCRIPT_NOT_FOUND"


class TranscriptChangedError(TranscriptError):
    """The file was rewritten after its index was made; index it again."""

    exit_code = ExitCode.STALE
    default_code = "TRANSCRIPT_CHANGED"


class BadLineError(ValueError):
    """A line that is no JSON object; the text is the reason, for a person."""


class RawLine(Record, frozen=True):
    """One line that is not blank."""

    number: int  #: from 1, blank lines counted
    offset: int  #: byte where it begins
    size: int  #: bytes, without the newline
    data: bytes  #: the line; only its first `HEAD_BYTES` when ``too_long``
    too_long: bool
    ended: bool  #: a newline follows; without one the host may still be writing


def never_cancelled() -> bool:
    """The `Cancelled` of a caller that never stops."""
    return False


def check_cancelled(cancelled: Cancelled) -> None:
    """Stop here when the caller has asked for it. Raises CancelledError."""
    if cancelled():
        raise CancelledError("Reading was stopped before the end of the file; open it again to read it.")


@contextmanager
def open_transcript(path: Path) -> Iterator[BinaryIO]:
    """Open a plain session file for reading.

    Raises:
        TranscriptMissingError: nothing is there.
        TranscriptError: a directory, a pipe, no permission, an archive, a failing disk (also while reading).
    """
    try:
        with open_regular(path) as file:
            _refuse_packed(path, file)
            yield file
    except OSError as error:
        _explain(path, error)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file without ever waiting for a pipe's writer. Raises OSError."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        return os.fdopen(descriptor, "rb", buffering=_BUFFER)
    except BaseException:
        os.close(descriptor)
        raise


def _packed_suffix(path: Path) -> str | None:
    """``.zst`` or ``.gz`` when the name says that the file is compressed."""
    return path.suffix if path.suffix in _UNPACK else None


def _refuse_packed(path: Path, file: BinaryIO) -> None:
    start = file.read(4)
    file.seek(0)
    suffix = next(
        (found for magic, found in _PACKERS.items() if start.startswith(magic)), _packed_suffix(path)
    )
    if suffix is None:
        return
    packer, command = _UNPACK[suffix]
    quoted = shlex.quote(str(path))
    raise TranscriptError(
        f"{path} is compressed with {packer} and cannot be opened here: "
        f"unpack it with `{command} {quoted} > session.jsonl` and open that file.",
        code="TRANSCRIPT_COMPRESSED",
    )


def _explain(path: Path, error: OSError) -> NoReturn:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        raise TranscriptMissingError(
            nothing_at("session file", path, "Check the path."), details={"path": str(path)}
        ) from error
    if isinstance(error, IsADirectoryError):
        raise TranscriptError(f"{path} is a folder, not a session file: give a .jsonl file in it.") from error
    if isinstance(error, PermissionError):
        raise TranscriptError(
            f"You may not read {path}: run this as the user who owns it, or copy the file."
        ) from error
    reason = error.strerror or str(error)
    raise TranscriptError(f"{path} cannot be read ({reason}): check the file and its disk.") from error


def scan_lines(
    file: BinaryIO,
    *,
    limit: int = LINE_LIMIT,
    offset: int = 0,
    number: int = 1,
    cancelled: Cancelled = never_cancelled,
) -> Iterator[RawLine]:
    """The lines from byte *offset* on, where line *number* begins, in one pass; blank ones are left out.

    A line of more than *limit* bytes (at least `HEAD_BYTES`) is passed over in pieces.
    """
    limit = max(limit, HEAD_BYTES)
    if file.seekable():  # not so what is unpacked while it is read, which begins at 0
        file.seek(offset)
    while True:
        check_cancelled(cancelled)
        data = file.readline(limit + 1)
        if not data:
            return
        ended = data.endswith(b"\n")
        size = len(data) - ended
        too_long = size > limit
        data = data[: HEAD_BYTES if too_long else size]
        if too_long:
            rest, ended = _skip_line(file, cancelled)
            size += rest
        if too_long or data.strip():
            yield RawLine(number, offset, size, data, too_long, ended)
        offset += size + ended
        number += 1


def _skip_line(file: BinaryIO, cancelled: Cancelled) -> tuple[int, bool]:
    """Pass over the rest of a line: its bytes without the newline, and whether there was one."""
    skipped = 0
    while data := file.readline(_BUFFER):
        check_cancelled(cancelled)
        if data.endswith(b"\n"):
            return skipped + len(data) - 1, True
        skipped += len(data)
    return skipped, False


def _refuse_constant(name: str) -> NoReturn:
    raise BadLineError(f"not JSON: {name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode_object(data: bytes | str) -> JsonObject:
    """The JSON object that a line or a stored text holds; invalid UTF-8 becomes surrogate escapes.

    Raises:
        BadLineError: it holds something else, or nothing that is JSON.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    text = text.strip(BLANKS)
    try:
        value: Json = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadLineError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except BadLineError:
        raise
    except ValueError as error:
        raise BadLineError("not JSON that can be read here: a number has too many digits") from error
    except RecursionError as error:
        raise BadLineError("not JSON that can be read here: it is nested too deeply") from error
    if not isinstance(value, dict):
        raise BadLineError(NO_OBJECT)
    return value


def peek_object(data: bytes | str) -> JsonObject:
    """What can be read at the start of an object that was cut off, and of the object in it that was cut."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    found: dict[str, Json] = {}
    _peek_into(found, text.removeprefix("\ufeff").lstrip(), 0)
    return found


def _peek_into(found: dict[str, Json], text: str, at: int) -> None:
    try:
        at = _expect(text, at, "{")
        while True:
            key, at = _DECODER.raw_decode(text, _blank(text, at))
            at = _blank(text, _expect(text, _blank(text, at), ":"))
            try:
                value, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                if text[at] == "{":
                    inner: dict[str, Json] = {}
                    _peek_into(inner, text, at)
                    found[str(key)] = inner
                return
            found[str(key)] = value
            at = _expect(text, _blank(text, at), ",")
    except (ValueError, IndexError, RecursionError):
        return


def _expect(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise BadLineError(f"no {character} where one must be")
    return at + 1


def _blank(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


# -- several records on a line ----------------------------------------------------------------------------


class Spliced(Record, frozen=True):
    """A line that is no record by itself, and the whole records in it."""

    records: tuple[RawLine, ...]  #: in order, each with its own place in the file
    is_lost: bool  #: something else is in the line that is neither blank nor NUL
    problem: str  #: what is to be said of the line


#: What may stand between records and is none.
_FILLING: Final = f"{BLANKS}\0"
_FILLING_RUN: Final = re.compile(f"[{_FILLING}]*")
_BEGINNING: Final = re.compile(r'\{[ \t\r\n]*["}]')
#: Characters that are tried for each one of a line, and besides, so that a line of brackets ends sometime.
#: Each object counts as some more; one that is cut by a part of all before it, whose lines its error counts.
_TRIED_FACTOR: Final = 8
_TRIED_AT_LEAST: Final = 1_000_000
_EACH_COUNTS: Final = 64
_BEFORE_COUNTS: Final = 8
#: Characters before an object that say whether it is a value of another one.
_LOOKED_BACK: Final = 4096


def spliced(line: RawLine) -> Spliced | None:
    """The whole records of a line that two writers or a crash spoiled; None when there is none.

    Rules: docs/spec/host.md, "Lines that are spliced". An object within a record that was cut off is no
    record.
    """
    if line.too_long or line.size > LINE_LIMIT:
        return None
    text = line.data.decode("utf-8", "surrogateescape")
    records: list[RawLine] = []
    lost: list[str] = []
    behind, tried, offset = 0, 0, line.offset  # behind the last record; the byte there
    for start, end, value, work in _objects(text):
        tried += work + _EACH_COUNTS
        if tried > _TRIED_FACTOR * len(text) + _TRIED_AT_LEAST:
            break
        if value is None or not _is_record(text, behind, start, end, value):
            continue
        lost += [between] if (between := text[behind:start].strip(_FILLING)) else []
        data = text[start:end].encode("utf-8", "surrogateescape")
        offset += len(text[behind:start].encode("utf-8", "surrogateescape"))
        records.append(RawLine(line.number, offset, len(data), data, False, ended=True))
        behind, offset = end, offset + len(data)
    if not records or records[0].data == line.data.strip():
        return None
    lost += [rest] if (rest := text[behind:].strip(_FILLING)) else []
    return Spliced(tuple(records), bool(lost), _splice_problem(len(records), lost, text.count("\0")))


def _objects(text: str) -> Iterator[tuple[int, int, JsonObject | None, int]]:
    """Where objects begin and end in a text, their values (None: it is cut), and how much was tried."""
    at = 0
    while (found := _BEGINNING.search(text, at)) is not None:
        start = found.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            at = start + 1
            yield start, at, None, error.pos - start + error.pos // _BEFORE_COUNTS
        except (ValueError, RecursionError):
            at = start + 1
            yield start, at, None, len(text) - start
        else:
            yield start, at, value, at - start


def _is_record(text: str, behind: int, start: int, end: int, value: JsonObject) -> bool:
    """Whether an object in a line is a record of its own, and no part of one that was cut off.

    It is one where a line or a record has ended right before it. Else it has the members of an entry, and the
    line or another record begins right behind it.
    """
    if _behind_filling(text, behind) == start:
        return any(name in value for name in ("type", "message", "role", "id", "uuid"))
    following = _behind_filling(text, end)
    if following < len(text) and text[following] != "{":
        return False
    kind = string(value.get("type"))
    if kind is None:
        before = text[max(behind, start - _LOOKED_BACK) : start].rstrip(_FILLING)
        is_said = string(value.get("role")) is not None and "content" in value
        return is_said and not before.endswith((":", "[", ","))
    named = string(value.get("id")) or string(value.get("uuid"))
    placed = any(name in value for name in ("parentId", "parentUuid", "timestamp"))
    has_message = kind != "message" or isinstance(value.get("message"), dict)
    return has_message and placed and (named is not None or kind == "session")


def _behind_filling(text: str, at: int) -> int:
    found = _FILLING_RUN.match(text, at)
    return found.end() if found is not None else at


def _splice_problem(records: int, lost: Sequence[str], nuls: int) -> str:
    whole = f"{counted(records, 'whole record')} of the line {agree(records, 'are')} read"
    if not lost:
        return (
            f"{counted(nuls, 'NUL byte')} in it; {whole}"
            if nuls
            else f"{records:,} records in it, all of them read"
        )
    names = [name for piece in lost if (name := string(peek_object(piece).get("id"))) is not None]
    named = f" ({', '.join(map(_short, names[:5]))})" if names else ""
    return f"{counted(len(lost), 'record')} in it{named} {agree(len(lost), 'are')} cut off and lost; {whole}"


def compact_json(value: Json) -> str:
    """A JSON value as one line, as the engine stores tool arguments."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "(nested too deeply to show)"


def string(value: Json) -> str | None:
    """The value when it is a string with something in it, else None."""
    return value if isinstance(value, str) and value.strip() else None


#: Problems that are kept with their text; all are counted.
PROBLEM_LIMIT = 1000


class LineProblem(Record, frozen=True):
    """Something about a line that a person should know."""

    line: int  #: from 1
    reason: str  #: what follows "line N:" in a sentence; may hold text of the file


class LineProblems(Struct):
    """What is wrong with the lines of a transcript: all counted, the first `PROBLEM_LIMIT` kept."""

    count: int = 0
    kept: list[LineProblem] = field(default_factory=list)

    def add(self, line: int, reason: str) -> None:
        """Note one."""
        self.count += 1
        if len(self.kept) < PROBLEM_LIMIT:
            self.kept.append(LineProblem(line, reason))

    def copied(self) -> LineProblems:
        """The same, free to grow."""
        return LineProblems(self.count, list(self.kept))


NO_OBJECT = "a JSON value, but not an object"
INCOMPLETE = "the file ends within it; the host may be writing it"
CIRCLE = "its parents form a circle"


def repeated_id(entry_id: str, line: int) -> str:
    """What is wrong with an entry whose id another line, *line*, had before."""
    return f"its id {_short(entry_id)} is already in line {line}"


def missing_parent(entry_id: str) -> str:
    """What is wrong with an entry whose parent, *entry_id*, is nowhere."""
    return f"its parent {_short(entry_id)} is not in the file"


def _short(entry_id: str) -> str:
    return entry_id if len(entry_id) <= 80 else f"{entry_id[:79]}…"


class FileStamp(Record, frozen=True):
    """What shows that a file is still the same."""

    device: int
    inode: int
    size: int  #: bytes
    modified_ns: int


def fingerprint(data: bytes) -> int:
    """CRC-32 of the start of a line, by which it is known again."""
    return zlib.crc32(data[:HEAD_BYTES])


def stamp_of(file: BinaryIO) -> FileStamp:
    """What an open file is now. Raises OSError."""
    status = os.fstat(file.fileno())
    return FileStamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


# -- the first line ----------------------------------------------------------------------------------------


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TranscriptHeader(Record, frozen=True):
    """What the host wrote down when the session began. Source: the line of type ``session``."""

    session_id: str | None
    version: int  #: 1 when the host did not say; entries form a tree since 2
    started_at: datetime | None  #: UTC
    cwd: str | None  #: the folder in which the agent worked
    parent_session: str | None  #: the transcript that this one was forked from


def read_header(line: JsonObject) -> TranscriptHeader | None:
    """The header, when the line is one."""
    if line.get("type") != "session":
        return None
    version = line.get("version")
    return TranscriptHeader(
        session_id=string(line.get("id")),
        version=version if isinstance(version, int) else 1,
        started_at=read_moment(line.get("timestamp")),
        cwd=string(line.get("cwd")),
        parent_session=string(line.get("parentSession")),
    )


def read_moment(value: Json) -> datetime | None:
    """A time in UTC from ISO text (no zone means UTC) or epoch milliseconds; None when it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return EPOCH + timedelta(milliseconds=value)
    except (ValueError, OverflowError):
        return None
    return None
