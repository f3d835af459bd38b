"""The messages of a transcript as the engine reads them for an import, and as the rows that store them.

One pass notes where every entry is; messages are read from there when they are stored, so that a file of
any size is imported without being held. The screens read the same files by `lcm_host.reading`,
which keeps what the engine passes over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.base.javascript import Json, JsonObject, js_json, read_json, well_formed
from lcm_core.base.jsonl import (
    CIRCLE,
    EPOCH,
    INCOMPLETE,
    NO_OBJECT,
    BadLineError,
    FileStamp,
    LineProblem,
    LineProblems,
    RawLine,
    Spliced,
    TranscriptChangedError,
    TranscriptError,
    TranscriptHeader,
    missing_parent,
    open_transcript,
    read_header,
    repeated_id,
    scan_lines,
    spliced,
    stamp_of,
)
from lcm_core.base.records import MessageId, MessagePart
from lcm_core.base.text import BLANKS
from lcm_core.base.times import sql_utc
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.engine.blocks import PART_ID, Part, blocks_of, part_with_metadata, sender_fields
from lcm_core.engine.rules import RULES_PRESENT, IngestRules
from lcm_core.engine.sessions import Skipped, has_failed, is_mirror, is_runtime_context, stored_role
from lcm_core.engine.stored_parts import (
    StoredPart,
    TopLevel,
    event_key,
    identity_of,
    message_text,
    parts_of,
    top_level,
)
from lcm_core.store.messages import new_file_id

from lcm_host.payloads import NewId, Payload, take_out

#: Bytes of a line that are read: the engine's platform has no longer texts.
HOST_LINE_LIMIT: Final = 2**29
#: Bytes of a transcript that is one JSON list: it has to be held as a whole.
LIST_LIMIT: Final = 2**28
_BOM: Final = b"\xef\xbb\xbf"
_BLANK_BYTES: Final = b" \t\r\n\x0b\x0c"
#: Where a line ends beside LF, when the whole file is read.
_MORE_ENDS: Final = (b"\r", b"\xe2\x80\xa8", b"\xe2\x80\xa9")


class HostMessage(Record, frozen=True):
    """A message as its host has it."""

    message: JsonObject
    created_at: str | None = None  #: as `stored_time` gives it; None: the present
    entry_id: str | None = None
    line: int | None = None  #: in its transcript, from 1
    end: int | None = None  #: the byte behind its line


class HostEntry(Record, frozen=True):
    """One entry of a transcript: where it is in the file and in the tree."""

    line: int  #: from 1
    offset: int
    size: int  #: bytes, without what ends the line
    end: int  #: the byte behind its line
    node: str | None  #: its id in the tree
    parent: str | None
    is_message: bool
    is_bare: bool  #: the line is the message itself: what it says of id and time is the message's
    value: JsonObject | None  #: an entry of a JSON list, which has no line of its own


class HostFile(Record, frozen=True):
    """A transcript that was read once."""

    path: Path
    stamp: FileStamp
    header: TranscriptHeader | None
    entries: tuple[HostEntry, ...]
    on_path: tuple[int, ...]  #: the entries with messages that the host sees, in order, as numbers
    nodes_on_path: frozenset[str]
    abandoned: int  #: entries that the host does not see
    bad_lines: int
    problem_count: int
    problems: tuple[LineProblem, ...]  #: by line, at most `PROBLEM_LIMIT`
    plain: tuple[HostEntry, ...]  #: the entries, were lines to end at LF alone: so appended ones are read
    plain_bad_at: tuple[int, ...]  #: the bytes at which lines begin that are bad then
    repeated: tuple[tuple[int, ...], ...] = ()  #: entries with the same id, as numbers, in order

    @property
    def messages(self) -> tuple[HostEntry, ...]:
        """The entries of the messages that the host sees."""
        return tuple(self.entries[number] for number in self.on_path)

    @property
    def entry_count(self) -> int:
        """Entries in the file, whether the host sees them or not."""
        return len(self.entries)

    def last_message(self) -> HostEntry | None:
        """The last entry in the file that is a message."""
        return next((one for one in reversed(self.entries) if one.is_message), None)


def entry_id_of(entry: HostEntry) -> str | None:
    """The id under which a message is stored: none for a line that is the message itself."""
    return None if entry.is_bare else entry.node


def read_host_file(path: Path, *, whole_records: bool = False) -> HostFile:
    """Read a transcript once; blocks. *whole_records*: those in spliced lines too, which the engine skips.

    Raises:
        TranscriptError: the file cannot be opened or read; the sentence says why and what to do.
    """
    with open_transcript(path) as file:
        stamp = stamp_of(file)
        reading = _Reading(whole_records=whole_records)
        listed = _listed(path, file, stamp)
        if listed is not None:
            for value in listed:
                reading.take(value, RawLine(1, 0, stamp.size, b"", False, ended=True))
        else:
            for line in scan_lines(file, limit=HOST_LINE_LIMIT):
                reading.take_line(line)
        return reading.file(path, stamp)


def read_messages(
    file: HostFile,
    entries: Sequence[HostEntry],
    *,
    inherit: bool = False,
) -> Iterator[HostMessage]:
    """The messages of some entries, in their order.

    With *inherit* a message that nothing gives a time has that of the one before it (the first that of the
    header, else of the file); else it has none, and is stored with the present.

    Raises:
        TranscriptError: the file cannot be read, or was rewritten since.
    """
    last = _beginning(file)
    with open_transcript(file.path) as source:
        for entry in entries:
            value = entry.value if entry.value is not None else _read_again(file, source, entry)
            message = value if entry.is_bare else value.get("message")
            if not isinstance(message, dict):
                raise _changed(file, entry.line)
            said_at = value.get("timestamp")
            entry_time = said_at if isinstance(said_at, str) and not entry.is_bare else None
            created_at = stored_time(message, entry_time)
            if inherit and created_at is None and not _has_time(message, entry_time):
                created_at = last
            last = created_at or last
            yield HostMessage(message, created_at, entry_id_of(entry), entry.line, entry.end)


def host_message(message: JsonObject, *, entry_id: str | None = None, timed: bool = True) -> HostMessage:
    """A message that a host hands over itself; without *timed* it is stored with the present."""
    return HostMessage(message, stored_time(message) if timed else None, entry_id)


def _beginning(file: HostFile) -> str:
    if file.header is not None and file.header.started_at is not None:
        return sql_utc(file.header.started_at)
    return sql_utc(datetime.fromtimestamp(max(0, file.stamp.modified_ns) // 10**9, UTC))


def _read_again(file: HostFile, source: BinaryIO, entry: HostEntry) -> JsonObject:
    source.seek(entry.offset)
    try:
        value = read_line(source.read(entry.size))
    except BadLineError as error:
        raise _changed(file, entry.line) from error
    if _node(value) != entry.node:
        raise _changed(file, entry.line)
    return value


def _changed(file: HostFile, line: int) -> TranscriptChangedError:
    return TranscriptChangedError(f"{file.path} was rewritten while it was read (line {line}): try again.")


# -- lines of the file -----------------------------------------------------------------------------------


def read_line(data: bytes) -> JsonObject:
    """The object that a line holds, as the engine reads it. Raises BadLineError."""
    try:
        value = read_json(data.decode("utf-8", "replace").strip(BLANKS))
    except ValueError as error:
        said = getattr(error, "msg", None)
        where = f": {said} at character {getattr(error, 'pos', 0) + 1}" if said else ""
        raise BadLineError(f"not JSON{where}") from error
    except MemoryError as error:
        raise BadLineError("too large for the memory of this machine") from error
    if not isinstance(value, dict):
        raise BadLineError(NO_OBJECT)
    return value


def _is_one(line: RawLine) -> bool:
    """Whether what ends at LF is one line however lines end; a CR right before it is a part of its end."""
    data = line.data.rstrip(b"\r")
    return line.too_long or not any(end in data for end in _MORE_ENDS)


def _split(line: RawLine) -> Iterator[RawLine]:
    """The lines that the engine finds in what ends at LF: they end at CR, U+2028 and U+2029 too."""
    data = line.data
    for separator in _MORE_ENDS[1:]:
        data = data.replace(separator, b"\r" * 3)  # as long, so that offsets hold
    for piece in _PIECE.finditer(data):
        is_last = piece.end() == len(data)
        if piece[0].strip(_BLANK_BYTES):
            yield RawLine(
                line.number,
                line.offset + piece.start(),
                len(piece[0]),
                piece[0],
                False,
                ended=line.ended or not is_last,
            )


_PIECE: Final = re.compile(rb"[^\r]+")


def _listed(path: Path, file: BinaryIO, stamp: FileStamp) -> list[Json] | None:
    """The entries of a transcript that is one JSON list; None when it is none."""
    start = file.read(4096).removeprefix(_BOM).lstrip(_BLANK_BYTES)
    file.seek(0)
    if not start.startswith(b"["):
        return None
    if stamp.size > LIST_LIMIT:
        raise TranscriptError(
            f"{path} is one JSON list of {stamp.size:,} bytes, more than is read as a whole "
            f"({LIST_LIMIT:,}): write its entries as lines."
        )
    text = file.read().decode("utf-8", "replace").strip(BLANKS)
    file.seek(0)
    try:
        value = read_json(text.replace("\u2028", "\n").replace("\u2029", "\n"))
    except (ValueError, MemoryError):
        return None
    return value if isinstance(value, list) else None


# -- the tree --------------------------------------------------------------------------------------------


def holds_message(value: Json) -> bool:
    """Whether a value has the shape of a message: a role, and something said or a command with its output."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    return "content" in value or ("command" in value and "output" in value)


def _node(value: JsonObject) -> str | None:
    return _id(value, "id", "uuid")


def _id(value: JsonObject, *names: str) -> str | None:
    """The first of some members that is a text with something in it, trimmed."""
    for name in names:
        given = value.get(name)
        if isinstance(given, str) and (found := given.strip(BLANKS)):
            return found
    return None


def _entry(value: Json, line: RawLine, end: int | None = None) -> HostEntry | None:
    """The entry that a value is; None for what is none: the header, or something without id and message."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind == "session":
        return None
    is_bare = holds_message(value)
    is_framed = kind in (None, "message") and holds_message(value.get("message"))
    node = _node(value)
    if node is None and not is_bare and not is_framed:
        return None
    return HostEntry(
        line.number,
        line.offset,
        line.size,
        line.offset + line.size + line.ended if end is None else end,
        node,
        _id(value, "parentId", "parentUuid"),
        is_bare or is_framed,
        is_bare,
        None if line.data else value,
    )


class _Reading(Struct):
    """A pass over a transcript."""

    entries: list[HostEntry] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  #: the last entry of an id
    header: TranscriptHeader | None = None
    began: bool = False
    bad_lines: int = 0
    problems: LineProblems = field(default_factory=LineProblems)
    plain: list[HostEntry] = field(default_factory=list)
    plain_bad_at: list[int] = field(default_factory=list)
    repeated: dict[str, list[int]] = field(default_factory=dict)  #: entries by an id that several have
    whole_records: bool = False  #: in spliced lines, too

    def take_line(self, line: RawLine) -> None:
        """Note what ends at LF: one line, or several."""
        if _is_one(line):
            self._take_part(line, plain=True)
            return
        self._take_plain(line)
        for part in _split(line):
            self._take_part(part, plain=False)

    def _take_plain(self, line: RawLine) -> None:
        try:
            entry = _entry(read_line(line.data), line)
        except BadLineError:
            self.plain_bad_at.append(line.offset)
        else:
            self.plain += [entry] if entry is not None else []

    def _take_part(self, line: RawLine, *, plain: bool) -> None:
        try:
            if line.too_long:
                raise BadLineError(f"too long ({line.size:,} bytes) to be read")
            value: Json = read_line(line.data)
        except BadLineError as error:
            if plain:
                self.plain_bad_at.append(line.offset)
            found = spliced(line) if self.whole_records else None
            if found is None:
                self._bad(line, str(error))
            else:
                self._take_spliced(line, found)
            return
        self.take(value, line, plain=plain)

    def _take_spliced(self, line: RawLine, found: Spliced) -> None:
        """Note the whole records of a line: until the last of them, the line is not read to its end."""
        self.bad_lines += found.is_lost and line.ended
        self.problems.add(line.number, found.problem)
        for record in found.records:
            is_last = record is found.records[-1]
            end = line.offset + line.size + line.ended if is_last else line.offset
            try:
                self.take(read_line(record.data), record, plain=False, end=end)
            except BadLineError as error:
                self.problems.add(line.number, str(error))

    def take(self, value: Json, line: RawLine, *, plain: bool = True, end: int | None = None) -> None:
        """Note one entry; *line* is where it is, without data for one of a JSON list.

        *end*: the byte up to which the file is read with it, where that is not the end of *line*.
        """
        if not isinstance(value, dict):
            self._bad(line, NO_OBJECT)
            return
        first, self.began = not self.began, True
        if first and line.data:
            self.header = read_header(value)
        entry = _entry(value, line, end)
        if entry is None:
            return
        if plain:
            self.plain.append(entry)
        if entry.node is not None:
            if entry.node in self.numbers:
                before = self.numbers[entry.node]
                self.problems.add(line.number, repeated_id(entry.node, self.entries[before].line))
                self.repeated.setdefault(entry.node, [before]).append(len(self.entries))
            self.numbers[entry.node] = len(self.entries)
        self.entries.append(entry)

    def _bad(self, line: RawLine, reason: str) -> None:
        self.began = True
        self.bad_lines += line.ended
        self.problems.add(line.number, reason if line.ended else INCOMPLETE)

    def file(self, path: Path, stamp: FileStamp) -> HostFile:
        """What was read."""
        numbers = self._path()
        if numbers is None:
            numbers = list(range(len(self.entries)))
        entries = self.entries
        nodes = frozenset(node for at in numbers if (node := entries[at].node) is not None)
        problems = sorted(self.problems.kept, key=lambda problem: problem.line)
        return HostFile(
            path,
            stamp,
            self.header,
            tuple(entries),
            tuple(at for at in numbers if entries[at].is_message),
            nodes,
            len(entries) - len(numbers),
            self.bad_lines,
            self.problems.count,
            tuple(problems),
            tuple(self.plain),
            tuple(self.plain_bad_at),
            tuple(map(tuple, self.repeated.values())),
        )

    def _path(self) -> list[int] | None:
        """The entries from a root to the last one; None when the tree cannot be followed."""
        if not self.entries or any(one.is_message and one.node is None for one in self.entries):
            return None
        steps: list[int] = []
        passed: set[int] = set()
        at = len(self.entries) - 1
        while True:
            if at in passed:
                self.problems.add(self.entries[at].line, f"{CIRCLE}{_FILE_ORDER}")
                return None
            passed.add(at)
            steps.append(at)
            parent = self.entries[at].parent
            if parent is None:
                return steps[::-1]
            found = self.numbers.get(parent)
            if found is None:
                self.problems.add(self.entries[at].line, f"{missing_parent(parent)}{_FILE_ORDER}")
                return None
            at = found


_FILE_ORDER: Final = "; all messages count, in the order of the file"


# -- times -----------------------------------------------------------------------------------------------


_NAMES: Final = ("timestamp", "createdAt", "created_at")
#: Milliseconds on either side of 1970 that the engine's language has a date for.
_LAST: Final = 8.64e15
_ZONED: Final = re.compile(r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z")
_BLANK: Final = re.compile(f"[{BLANKS}]")
_ISO: Final = re.compile(
    r"(?P<year>[0-9]{4}|[+-][0-9]{6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?)?"
    r" ?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?",
    re.IGNORECASE,
)
#: As hosts write it: nothing is left to be done but to check it.
_USUAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
_DATE_ALONE: Final = re.compile(r"(?:[0-9]{4}|[+-][0-9]{6})(?:-[0-9]{2}){0,2}")
_DAYS_OF_400_YEARS: Final = 146_097


def stored_time(message: JsonObject, entry_time: Json = None) -> str | None:
    """``YYYY-MM-DD HH:MM:SS`` of a message; None when nothing readable says it: the present then.

    *entry_time* is that of the transcript's entry; the message's own goes before it.
    """
    given = next((message[name] for name in _NAMES if message.get(name) is not None), None)
    if not _is_given(given):
        given = entry_time
    return _time_of(given)


def _has_time(message: JsonObject, entry_time: Json = None) -> bool:
    """Whether anything says when a message was said, be it unreadable."""
    return any(_is_given(message.get(name)) for name in _NAMES) or _is_given(entry_time)


def _is_given(value: Json) -> bool:
    if isinstance(value, str):
        return bool(value.strip(BLANKS))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _time_of(value: Json) -> str | None:
    """The same of a value: milliseconds since 1970, or a text."""
    if isinstance(value, str) and _USUAL.fullmatch(value) is not None:
        try:
            datetime.fromisoformat(value[:19])
        except ValueError:
            pass
        else:
            return f"{value[:10]} {value[11:19]}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    milliseconds = _parsed(value) if isinstance(value, str) else value
    if milliseconds is None or not abs(milliseconds) <= _LAST or math.isnan(milliseconds):
        return None
    return _written(math.floor(math.trunc(milliseconds) / 1000))


def _written(seconds: int) -> str:
    """A moment as the engine's language writes it, in 19 characters: years of six digits lose seconds."""
    try:
        return (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(" ")
    except OverflowError:
        days, rest = divmod(seconds, 86_400)
        cycles = (days - 11_017) // _DAYS_OF_400_YEARS  # from 2000-03-01, where the calendar begins anew
        inside = EPOCH + timedelta(days=days - cycles * _DAYS_OF_400_YEARS, seconds=rest)
        year = inside.year + 400 * cycles
        sign = "-" if year < 0 else "+"
        text = f"{year:04d}" if 0 <= year <= 9999 else f"{sign}{abs(year):06d}"
        return f"{text}{inside:-%m-%d %H:%M:%S}"[:19]


def _parsed(text: str) -> float | None:
    """A text as the engine reads it: one without a zone is UTC."""
    text = text.strip(BLANKS)
    if not text:
        return None
    if _ZONED.search(text) is None:
        text = f"{_BLANK.sub('T', text, count=1)}Z" if not _DATE_ALONE.fullmatch(text) else text
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour == 24 and not (minute or second):
        day_more, hour = 1, 0
    else:
        day_more = 0
    if found["year"] == "-000000" or (hour > 23 or minute > 59 or second > 59):
        return None
    cycles, inner = divmod(year, 400)
    try:
        moment = datetime(2000 + inner, month, 1, hour, minute, second, tzinfo=UTC)
        if not 1 <= day <= 31:
            return None
        moment += timedelta(days=day - 1 + day_more)
    except ValueError:
        return None
    offset = 0
    zone = found["zone"]
    if zone and zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    fraction = int((found["fraction"] or "0")[:3].ljust(3, "0"))
    seconds = (moment - EPOCH) // timedelta(seconds=1) + (cycles - 5) * _DAYS_OF_400_YEARS * 86_400 - offset
    return seconds * 1000 + fraction


# -- rows ------------------------------------------------------------------------------------------------
# One message of a host as the rows that hold it (docs/spec/ingest.md).


class StoredMessage(Record, frozen=True):
    """The rows of one message, but for the ids that a database gives."""

    entry_id: str | None
    role: str
    content: str
    tokens: int
    whole_tokens: int  #: before payloads were taken out
    identity: str  #: ``identity_hash``
    event_key: str | None
    sender: str | None  #: JSON
    created_at: (
        str | None
    )  #: UTC, ``YYYY-MM-DD HH:MM:SS`` (years of six digits lose seconds); None: the present
    parts: tuple[StoredPart, ...]
    payloads: tuple[Payload, ...]
    may_mirror: bool = False  #: not stored behind the answer that it repeats
    is_reasoned: bool = False  #: it holds reasoning: a copy of it is not stored


def store_message(
    host: HostMessage, rules: IngestRules, *, new_id: NewId = new_file_id
) -> StoredMessage | Skipped:
    """The rows that the engine would write for a message, or why it writes none."""
    role = stored_role(host.message)
    if role is None:
        return Skipped.ROLE
    if role == "assistant" and has_failed(host.message):
        return Skipped.FAILED
    message = host.message
    content, top = message_text(message), top_level(message)
    if is_runtime_context(role, content):
        return Skipped.RUNTIME
    parts = parts_of(message, top)
    tokens = _count_tokens(message, top, parts, content)
    taken = take_out(
        message,
        role,
        top,
        content=content,
        tokens=tokens,
        threshold=rules.large_file_token_threshold,
        new_id=new_id,
        count=_count,
    )
    if taken.message is not message:
        parts = parts_of(taken.message, top)
    text = well_formed(taken.content)
    return StoredMessage(
        entry_id=_kept(host.entry_id),
        role=role,
        content=text,
        tokens=taken.tokens,
        whole_tokens=tokens,
        identity=identity_of(role, text),
        event_key=_kept(event_key(message, role)),
        sender=sender_metadata(message),
        created_at=host.created_at,
        parts=tuple(map(_kept_part, parts)),
        payloads=tuple(taken.payloads),
        may_mirror=is_mirror(message, role, content),
        is_reasoned=top.reasoning is not None or any(part.part_type == "reasoning" for part in parts),
    )


def message_tokens(message: JsonObject) -> int:
    """Tokens of a message, whether it is stored or not, before payloads are taken out."""
    return _count(message, top_level(message))


def _count(message: JsonObject, top: TopLevel) -> int:
    return _count_tokens(message, top, parts_of(message, top), message_text(message))


def _kept_part(part: StoredPart) -> StoredPart:
    """A part as a database keeps it: half a surrogate pair is no character there."""
    columns = (part.text, part.tool_call_id, part.tool_name, part.tool_input, part.tool_output)
    kept = tuple(map(_kept, columns))
    if kept == columns:
        return part
    text, call_id, name, given, output = kept
    return replace(
        part, text=text, tool_call_id=call_id, tool_name=name, tool_input=given, tool_output=output
    )


def _kept(name: str | None) -> str | None:
    return None if name is None else well_formed(name)


# -- tokens ------------------------------------------------------------------------------------------------


def _count_tokens(message: JsonObject, top: TopLevel, parts: Sequence[StoredPart], content: str) -> int:
    """``messages.token_count`` of a message that says *content* and is stored as *parts*."""
    if "content" not in message:
        return estimate_weighted(content)
    said = message["content"]
    if isinstance(said, str) and top.role in ("user", "system"):
        return estimate_weighted(said)
    sent = _sent(top, parts, content)
    tokens = estimate_weighted(sent if isinstance(sent, str) else js_json(sent))
    return tokens + (estimate_weighted(top.reasoning) if top.reasoning is not None else 0)


def _sent(top: TopLevel, parts: Sequence[StoredPart], content: str) -> Json:
    """The content that assembly would send."""
    is_user = top.role in ("user", "system")
    if len(parts) == 1 and parts[0].noted.get("topLevelReasoningOnly") is True:
        blocks: list[Json] = [{"type": "reasoning"}]
    elif all(_is_text(part.noted.get("raw")) for part in parts):
        blocks = [part.noted["raw"] for part in parts]
    else:
        held = [_as_read(ordinal, part) for ordinal, part in enumerate(parts)]
        rebuilt = blocks_of(held, RULES_PRESENT.assembly, vouched=bool(top.identity))
        blocks = [block.document for block in rebuilt]
    if not blocks:
        if is_user:
            return content
        return [{"type": "text", "text": content}] if content or top.role != "assistant" else content
    only = blocks[0]
    if is_user and len(blocks) == 1 and isinstance(only, dict) and only.get("type") == "text":
        text = only.get("text")
        if isinstance(text, str):
            return text
    return blocks


def _is_text(raw: Json) -> bool:
    """Whether a block of the host is sent as it is without further questions."""
    return isinstance(raw, dict) and raw.get("type") == "text"


def _as_read(ordinal: int, part: StoredPart) -> Part:
    """A part as assembly reads it from the database."""
    row = MessagePart(
        MessageId(0),
        ordinal,
        part.part_type,
        part.text,
        part.tool_call_id,
        part.tool_name,
        None,
        part.tool_input,
        part.tool_output,
        None,
        None,
        None,
        None,
        None,
        f"{PART_ID}{ordinal}",
    )
    return part_with_metadata(row, part.noted)


# -- senders ---------------------------------------------------------------------------------------------


def sender_metadata(message: JsonObject) -> str | None:
    """``messages.openclaw_sender_metadata``: JSON; None when the host does not say who it was."""
    sender = message.get("__openclaw")
    if message.get("role") != "user" or not isinstance(sender, dict):
        return None
    found = sender_fields(sender)
    return js_json(found) if found else None
