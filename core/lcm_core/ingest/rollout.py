"""A Codex rollout as the engine's own import reads it (docs/engine/ingest.md, "Codex rollouts").

`RolloutReading.records` reads any file, whatever is wrong with it; what makes the import refuse it is noted.
`write_rollout` makes a transcript of the host of one that is sound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.ingest.jsonl import (
    BadLineError,
    Cancelled,
    LineProblems,
    RawLine,
    TranscriptChangedError,
    TranscriptError,
    compact_json,
    decode_object,
    never_cancelled,
    open_transcript,
    read_moment,
    scan_lines,
    stamp_of,
    string,
)
from lcm_core.javascript import Json, JsonObject, js_json
from lcm_core.wording import counted

#: An event is the repetition of a message that was said at most so long before or after it.
SAME_TIME: Final = timedelta(seconds=5)
#: Bytes of a line that an import reads; a comparison reads `lcm_core.ingest.jsonl.LINE_LIMIT`.
LONGEST_LINE: Final = 2**29
#: What a block of another type is stored as, and the member that keeps its own type.
_TEXT_TYPES: Final = frozenset({"input_text", "output_text"})
ORIGINAL_TYPE: Final = "codexOriginalType"
#: The member of a block of text that keeps the record which it stands for.
RECORD: Final = "codexRecord"
_ROLES: Final = frozenset({"user", "assistant", "system"})
_EVENTS: Final = {"user_message": "user", "agent_message": "assistant"}
_HEADER: Final = "session_meta"
#: Characters that end a line of a transcript and may be raw in JSON.
_LINE_ENDS: Final = ("\u2028", "\u2029")
_DEEPEST: Final = 3  #: lists and objects that a text is looked for in


class RecordKind(StrEnum):
    """What a record of a rollout is."""

    MESSAGE = "message"
    CALL = "call"
    RESULT = "result"
    EVENT = "event"  #: says what a message says, where no message repeats it
    OTHER = "other"  #: nothing that the import knows: kept as text of the assistant


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """One record that is stored."""

    kind: RecordKind
    role: str  #: of the message that it becomes: user, assistant, system, toolResult
    text: str  #: what a message, an event or a result says
    line: int  #: from 1, blank lines counted
    at: datetime | None  #: UTC
    value: JsonObject  #: the whole line
    digest: str  #: SHA-256 of the line's bytes, in hexadecimal

    @property
    def payload(self) -> JsonObject:
        """What is in the record."""
        payload = self.value.get("payload")
        return payload if isinstance(payload, dict) else {}

    @property
    def type(self) -> str:
        """The type of the record and of what is in it, for people."""
        return _named(self.value)

    def source_id(self, thread: str) -> str:
        """The id of the entry that it becomes."""
        return f"codex:{thread}:{self.line}:{self.digest}"

    def message(self) -> JsonObject:
        """The message of the host that it becomes."""
        payload = self.payload
        if self.kind is RecordKind.CALL:
            call: JsonObject = {
                "type": "toolCall",
                "id": payload.get("call_id"),
                "name": payload.get("name"),
                "arguments": _arguments(payload.get("arguments")),
            }
            return {"role": self.role, "content": [call]}
        if self.kind is RecordKind.RESULT:
            result: JsonObject = {"role": self.role, "toolCallId": payload.get("call_id")}
            return {**result, "content": _blocks(payload.get("output"))}
        if self.kind is RecordKind.OTHER:
            text = f"Codex {self.type}: {compact_json(self.value.get('payload', self.value))}"
            return {"role": self.role, "content": [{"type": "text", "text": text, RECORD: self.value}]}
        if self.kind is RecordKind.EVENT:
            return {"role": self.role, "content": [{"type": "text", "text": self.text}]}
        return {"role": self.role, "content": _blocks(payload.get("content"))}


@dataclass(slots=True)
class RolloutReading:
    """What is known of a rollout as far as it was read."""

    thread: str | None = None  #: the id in its header
    started_at: datetime | None = None  #: UTC
    cwd: str | None = None  #: the folder in which the agent worked
    lines: int = 0  #: that are not blank
    repeated: int = 0  #: events that only repeat a message
    kept: Counter[str] = field(default_factory=Counter)  #: records of other kinds, by their type
    passed: Counter[str] = field(default_factory=Counter)  #: headers and boundaries of turns, by their type
    problems: LineProblems = field(default_factory=LineProblems)  #: lines that cannot be read
    refused: str | None = None  #: the first reason why it is not imported: "line 3 has no type"
    forked: bool = False  #: it begins with what another thread said
    paginated: bool = False  #: it may hold only a part of its thread
    _said: dict[tuple[str, str], datetime | None] = field(default_factory=dict)  #: messages of this turn

    def records(self, lines: Iterable[RawLine]) -> Iterator[RolloutRecord]:
        """What the lines of a file say, in order; repetitions and boundaries of turns are left out."""
        for line in lines:
            self.lines += 1
            value = self._object(line)
            if value is None:
                continue
            kind = value.get("type")
            if not isinstance(kind, str) or not kind:
                self.problems.add(line.number, "it has no type")
                self._refuse(line, "has no type")
                continue
            if not line.ended:
                self._refuse(line, "does not end with a newline: Codex may be writing it")
            if kind == _HEADER:
                self.passed[kind] += 1
                self._header(line, value)
                continue
            if self.lines == 1:
                self._refuse(line, f"is no {_HEADER}, with which a rollout begins")
            record = self._record(line, kind, value)
            if record is not None:
                yield record

    def notes(self) -> Iterator[str]:
        """What does not stand in the way of an import, and should be known."""
        if self.forked:
            yield "The thread was forked from another one: what both have is in both rollouts"
        if self.paginated:
            yield "The rollout is paginated: it may hold only a part of its thread"
        if self.repeated:
            yield f"{counted(self.repeated, 'repeated event')} left out, as a message says the same"
        if self.kept:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.kept.items()))
            yield f"Kept as text of the assistant, since no message has their kind: {kinds}"

    def _object(self, line: RawLine) -> JsonObject | None:
        """The object in a line; None: it cannot be read."""
        if line.too_long:
            reason = f"{line.size:,} bytes, which is more than is read of one line"
            self.problems.add(line.number, reason)
            self._refuse(line, f"has {reason}")
            return None
        try:
            return decode_object(line.data)
        except BadLineError as error:
            self.problems.add(line.number, str(error) if line.ended else f"unfinished, {error}")
            self._refuse(line, f"is {error}" if line.ended else "is unfinished: Codex may be writing it")
            return None

    def _refuse(self, line: RawLine, reason: str) -> None:
        self.refused = self.refused or f"line {line.number:,} {reason}"

    def _header(self, line: RawLine, value: JsonObject) -> None:
        payload = value.get("payload")
        given: JsonObject = payload if isinstance(payload, dict) else {}
        thread = string(given.get("id"))
        if self.lines > 1:
            self._refuse(line, f"is a {_HEADER}, which only the first may be")
            return
        if thread is None:
            self._refuse(line, f"is a {_HEADER} without an id")
        self.thread, self.cwd = thread, string(given.get("cwd"))
        self.started_at = read_moment(given.get("timestamp")) or read_moment(value.get("timestamp"))
        self.forked = any(name.startswith("fork") and given[name] not in (None, False, "") for name in given)
        self.paginated = any(_is_page(name, one) for name, one in given.items())

    def _record(self, line: RawLine, kind: str, value: JsonObject) -> RolloutRecord | None:
        payload = value.get("payload")
        item: JsonObject = payload if isinstance(payload, dict) else {}
        inner = item.get("type")
        if _is_boundary(kind, inner):
            self._said.clear()
            self.passed[_named(value)] += 1
            return None
        at = read_moment(value.get("timestamp"))
        found, role, text = _told(kind, item)
        if found is RecordKind.MESSAGE:
            self._said[role, _key(text)] = at
        elif found is RecordKind.EVENT and self._repeats(role, text, at):
            self.repeated += 1
            return None
        record = RolloutRecord(found, role, text, line.number, at, value, sha256(line.data).hexdigest())
        if found is RecordKind.OTHER:
            self.kept[record.type] += 1
        return record

    def _repeats(self, role: str, text: str, at: datetime | None) -> bool:
        """Whether an event says what a message of its turn said at about the same time."""
        said = self._said.get((role, _key(text)))
        return said is not None and at is not None and abs(at - said) <= SAME_TIME


def _named(value: JsonObject) -> str:
    payload = value.get("payload")
    inner = payload.get("type") if isinstance(payload, dict) else None
    return " ".join(one[:40] for one in (value.get("type"), inner) if isinstance(one, str))


def _key(text: str) -> str:
    """A text as it is looked up: a long one by its hash."""
    return text if len(text) <= 64 else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_page(name: str, value: Json) -> bool:
    """Whether a member of the header says that the history is in pages."""
    words = f"{name} {value}".lower() if isinstance(value, str) else name.lower()
    return "paginat" in words and value not in (None, False, "")


def _is_boundary(kind: str, inner: Json) -> bool:
    """Whether a record begins or ends a turn or a task."""
    if kind == "turn_context":
        return True
    return kind == "event_msg" and isinstance(inner, str) and inner.startswith(("task_", "turn_"))


def _told(kind: str, payload: JsonObject) -> tuple[RecordKind, str, str]:
    """What a record is, whose, and what it says."""
    inner = payload.get("type")
    if kind == "event_msg" and isinstance(inner, str) and inner in _EVENTS:
        return RecordKind.EVENT, _EVENTS[inner], text_of(payload.get("message"))
    if kind == "response_item":
        role = payload.get("role")
        if inner == "message" and isinstance(role, str) and role in _ROLES:
            return RecordKind.MESSAGE, role, text_of(payload.get("content"))
        if inner == "function_call":
            return RecordKind.CALL, "assistant", ""
        if inner == "function_call_output":
            return RecordKind.RESULT, "toolResult", text_of(payload.get("output"))
    return RecordKind.OTHER, "assistant", ""


def text_of(value: Json, depth: int = 0) -> str:
    """The words of a text, a list of blocks, or an object that holds either."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth < _DEEPEST:
        return "\n".join(filter(None, (text_of(one, depth + 1) for one in value)))
    if isinstance(value, dict) and depth < _DEEPEST:
        inner = first_of(value, "text", "content", "output")
        return text_of(inner, depth + 1) if inner is not None else compact_json(value)
    return "" if value is None else compact_json(value)


def first_of(payload: JsonObject, *names: str) -> Json:
    """The first of some members that is there."""
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def _blocks(content: Json) -> list[Json]:
    """Blocks of text as the host has them; a block of another type stays as it is."""
    if isinstance(content, list):
        return [_block(one) for one in content]
    return [{"type": "text", "text": text_of(content)}]


def _block(block: Json) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    if isinstance(block, dict) and isinstance(kind, str) and kind in _TEXT_TYPES:
        return {**block, "type": "text", ORIGINAL_TYPE: kind}
    return block


def _arguments(value: Json) -> Json:
    """Arguments as an object where their text holds one."""
    if not isinstance(value, str):
        return value
    try:
        return decode_object(value)
    except BadLineError:
        return value


# -- as a transcript ---------------------------------------------------------------------------------------


def is_rollout(path: Path) -> bool:
    """Whether a file begins as a rollout does; blocks. One that cannot be read is none."""
    try:
        with open_transcript(path) as file:
            first = next(scan_lines(file), None)
            return first is not None and decode_object(first.data).get("type") == _HEADER
    except (TranscriptError, BadLineError):
        return False


def write_rollout(
    path: Path, target: BinaryIO, *, cancelled: Cancelled = never_cancelled
) -> tuple[RolloutReading, str]:
    """Write a rollout as a transcript of the host, a header first; what was read, and its thread; blocks.

    Raises:
        TranscriptError: it cannot be read, or is none that the engine would import; nothing of it counts.
        TranscriptChangedError: it was written to meanwhile.
        CancelledError: *cancelled* said so.
    """
    with open_transcript(path) as file:
        stamp = stamp_of(file)
        _check(path, file, cancelled)
        reading = RolloutReading()
        previous: str | None = None
        begun = False
        lines = _up_to(stamp.size, scan_lines(file, limit=LONGEST_LINE, cancelled=cancelled))
        for record in reading.records(lines):
            if not begun:
                _write(target, _header(reading))
                begun = True
            entry_id = record.source_id(reading.thread or "")
            entry: JsonObject = {"type": "message", "id": entry_id, "parentId": previous}
            if (said := string(record.value.get("timestamp"))) is not None:
                entry = {**entry, "timestamp": said}
            _write(target, {**entry, "message": record.message()})
            previous = entry_id
        if not begun:
            _write(target, _header(reading))
        if stamp_of(file) != stamp:
            raise TranscriptChangedError(
                f"{path} was written to while it was read: close its Codex session, then try again."
            )
    assert reading.thread is not None
    return reading, reading.thread


def _check(path: Path, file: BinaryIO, cancelled: Cancelled) -> None:
    """Read all of it before anything is written: one bad line is enough to refuse it."""
    reading, size = RolloutReading(), stamp_of(file).size
    for _ in reading.records(_up_to(size, scan_lines(file, limit=LONGEST_LINE, cancelled=cancelled))):
        pass
    reason = reading.refused or (None if reading.lines else "it is empty")
    if reason is not None:
        raise TranscriptError(
            f"{path} is not a whole Codex rollout: {reason}. Nothing was imported; the engine's own import "
            "refuses it too.",
            code="ROLLOUT_INVALID",
        )


def _up_to(size: int, lines: Iterable[RawLine]) -> Iterator[RawLine]:
    """The lines that begin in the first *size* bytes: a file may grow as fast as it is read."""
    return takewhile(lambda line: line.offset < size, lines)


def _header(reading: RolloutReading) -> JsonObject:
    header: JsonObject = {"type": "session", "version": 3, "id": reading.thread}
    if reading.started_at is not None:
        header = {**header, "timestamp": reading.started_at.isoformat()}
    return header if reading.cwd is None else {**header, "cwd": reading.cwd}


def _write(target: BinaryIO, value: JsonObject) -> None:
    text = js_json(value)
    for end in _LINE_ENDS:
        text = text.replace(end, f"\\u{ord(end):04x}")
    target.write(text.encode() + b"\n")
