"""Codex sessions: their rollouts as an import reads them, and a conversation compared with its own.

Facts: docs/spec/host.md, "Codex sessions".

A rollout is a file of another program: any size, any types, a last line that is still being written. What
cannot be read is counted with its line and skipped; nothing is held beyond `MOST_ROWS` and `MOST_CHARACTERS`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Final

from lcm_core.base.diff import Diff, compare_lines, edits_between
from lcm_core.base.errors import NotFoundError
from lcm_core.base.javascript import Json, JsonObject, js_json
from lcm_core.base.jsonl import (
    BadLineError,
    Cancelled,
    LineProblems,
    RawLine,
    TranscriptChangedError,
    TranscriptError,
    compact_json,
    decode_object,
    never_cancelled,
    open_regular,
    open_transcript,
    read_moment,
    scan_lines,
    stamp_of,
    string,
)
from lcm_core.base.paths import SESSIONS_FOLDER, resolve_transcript
from lcm_core.base.records import Conversation, ConversationId, Message, MessagePart
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, Struct, field
from lcm_core.engine.content import first_of
from lcm_core.store.database import Reader
from lcm_core.store.messages import message_ids, whole_messages
from lcm_core.store.state import transcripts

from lcm_host.sessions import FilePlace, find_session, list_sessions

# -- the records of a rollout ----------------------------------------------------------------------------
# As the engine's own import reads them (docs/spec/ingest.md, "Codex rollouts").
#
# `RolloutReading.records` reads any file, whatever is wrong with it; what makes the import refuse it is
# noted. `write_rollout` makes a transcript of the host from one that is sound.

#: An event is the repetition of a message that was said at most so long before or after it.
SAME_TIME: Final = timedelta(seconds=5)
#: Bytes of a line that an import reads; a comparison reads `lcm_core.base.jsonl.LINE_LIMIT`.
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


class RolloutRecord(Record, frozen=True):
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
        return object_or_empty(self.value.get("payload"))

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


class RolloutReading(Struct):
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
        given = object_or_empty(value.get("payload"))
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
        item = object_or_empty(value.get("payload"))
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


def write_rollout(path: Path, target: BinaryIO) -> tuple[RolloutReading, str]:
    """Write a rollout as a transcript of the host, a header first; what was read, and its thread; blocks.

    Raises:
        TranscriptError: it cannot be read, or is none that the engine would import; nothing of it counts.
        TranscriptChangedError: it was written to meanwhile.
    """
    with open_transcript(path) as file:
        stamp = stamp_of(file)
        reading = RolloutReading()
        previous: str | None = None
        begun = False
        # A file may grow as fast as it is read.
        lines = takewhile(lambda line: line.offset < stamp.size, scan_lines(file, limit=LONGEST_LINE))
        for record in reading.records(lines):
            if reading.refused is not None:
                break
            if not begun:
                _write(target, _header(reading))
                begun = True
            entry_id = record.source_id(reading.thread or "")
            entry: JsonObject = {"type": "message", "id": entry_id, "parentId": previous}
            if (said := string(record.value.get("timestamp"))) is not None:
                entry = {**entry, "timestamp": said}
            _write(target, {**entry, "message": record.message()})
            previous = entry_id
        reason = reading.refused or (None if reading.lines else "it is empty")
        if reason is not None:
            raise TranscriptError(
                f"{path} is not a whole Codex rollout: {reason}. Nothing was imported; the engine's own "
                "import refuses it too.",
                code="ROLLOUT_INVALID",
            )
        if not begun:
            _write(target, _header(reading))
        if stamp_of(file) != stamp:
            raise TranscriptChangedError(
                f"{path} was written to while it was read: close its Codex session, then try again."
            )
    assert reading.thread is not None
    return reading, reading.thread


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


#: What the name of a session file is followed by in that of its binding.
BINDING: Final = ".codex-app-server.json"
#: Below an agent's folder.
CODEX_HOME: Final = Path("agent") / "codex-home"
_SESSIONS: Final = "sessions"
_DATES: Final = 3  #: folders of a year, a month, a day
_BINDING_LIMIT: Final = 1024 * 1024
#: Files and folders that are looked at while a rollout is looked for.
_MOST_FILES: Final = 200_000

MOST_ROWS: Final = 50_000
MOST_CHARACTERS: Final = 32_000_000
#: Characters of one text that are kept.
TEXT_LIMIT: Final = 1_000_000

#: Roles of rows that are no message.
CALL: Final = "call"
RESULT: Final = "result"
REASONING: Final = "reasoning"


class Spoken(Record, frozen=True):
    """One thing that was said or done: of a rollout or of a conversation."""

    role: str  #: user, assistant, system, developer ...; or `CALL`, `RESULT`, `REASONING`
    text: str
    where: str  #: what a person finds it by, such as ``line 12``
    at: datetime | None  #: UTC

    @property
    def said(self) -> str:
        """What two of them are alike by: role and words, whatever the blanks between."""
        return f"{self.role} {' '.join(self.text.split())}"


class Rollout(Record, frozen=True):
    """A Codex session as far as it was read."""

    path: Path
    reading: RolloutReading
    rows: tuple[Spoken, ...]
    others: Mapping[str, int]  #: records that say nothing that a conversation could hold, by their type
    complete: bool  #: False: it is longer than what is held


# -- finding the session ---------------------------------------------------------------------------------


def bound_thread(transcript: Path) -> str | None:
    """The id of the Codex thread that a session file is bound to; None without a binding that can be read."""
    try:
        with open_regular(transcript.with_name(transcript.name + BINDING)) as file:
            value = decode_object(file.read(_BINDING_LIMIT))
    except (OSError, BadLineError):
        return None
    return string(value.get("threadId"))


def homes_of(transcript: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the rollouts of a session file may be: its agent's own folder, then ``CODEX_HOME``."""
    found = [transcript.parent.parent / CODEX_HOME]
    if given := environ.get("CODEX_HOME", "").strip():
        found.append(Path(given))
    return tuple(dict.fromkeys(found))


def find_rollouts(homes: Sequence[Path], thread: str) -> list[Path]:
    """The rollouts of a thread, the newest first: of the last date, which their names begin with."""
    found: dict[Path, None] = {}
    looked = 0
    for home in homes:
        for path in _below(home / _SESSIONS, _DATES):
            looked += 1
            if looked > _MOST_FILES:
                break
            if thread in path.name and path.name.endswith(".jsonl"):
                found[path] = None
    return sorted(found, key=lambda one: (one.parts[-_DATES - 1 :], str(one)), reverse=True)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """The files *depth* folders below; links are not followed into other folders."""
    try:
        with os.scandir(folder) as entries:
            held = sorted(entries, key=lambda one: one.name, reverse=True)
    except OSError:
        return
    for one in held:
        if depth and one.is_dir(follow_symlinks=False):
            yield from _below(Path(one.path), depth - 1)
        elif not depth and one.is_file():
            yield Path(one.path)


# -- reading the session ---------------------------------------------------------------------------------


def read_rollout(path: Path, *, cancelled: Cancelled = never_cancelled) -> Rollout:
    """Read a rollout; blocks.

    Raises:
        TranscriptError: it cannot be read at all.
        CancelledError: *cancelled* said so.
    """
    rows: list[Spoken] = []
    reading, others = RolloutReading(), Counter[str]()
    characters = 0
    complete = True
    with open_transcript(path) as file:
        for record in reading.records(scan_lines(file, cancelled=cancelled)):
            if len(rows) >= MOST_ROWS or characters > MOST_CHARACTERS:
                complete = False
                break
            role, text = _said(record)
            if text:
                rows.append(Spoken(role, _cut(text), f"line {record.line:,}", record.at))
                characters += len(text)
            else:
                others[record.type] += 1
    return Rollout(path, reading, tuple(rows), dict(others + reading.passed), complete)


def _said(record: RolloutRecord) -> tuple[str, str]:
    """Role and text of a record as a conversation would have them; no text: it has nothing of the kind."""
    payload = record.payload
    kind = payload.get("type")
    if record.kind is RecordKind.RESULT:
        return RESULT, record.text
    if record.kind in (RecordKind.MESSAGE, RecordKind.EVENT):
        return record.role, record.text
    if not isinstance(kind, str) or record.value.get("type") != "response_item":
        return "", ""
    if kind == "message":
        return string(payload.get("role")) or "unknown", text_of(payload.get("content"))
    if kind == "reasoning":
        texts = (text_of(payload.get("summary")), text_of(payload.get("content")))
        return REASONING, "\n".join(filter(None, texts))
    if kind.endswith("_output"):
        return RESULT, text_of(first_of(payload, "output", "result", "text"))
    if kind.endswith("_call"):
        name = string(payload.get("name")) or kind.removesuffix("_call")
        return CALL, f"{name} {written_arguments(first_of(payload, 'arguments', 'input', 'action'))}".strip()
    return "", ""


def written_arguments(value: Json) -> str:
    """Arguments in one form, whether they are an object or the text of one."""
    if isinstance(value, str):
        try:
            return compact_json(decode_object(value))
        except BadLineError:
            return value
    return "" if value is None else compact_json(value)


def _cut(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}\n… {len(text) - TEXT_LIMIT:,} more characters"


# -- comparing it with its conversation ------------------------------------------------------------------
# What one of them has and the other has not.

#: Messages that are read at a time.
_PAGE: Final = 400


class SpokenLines(Record, frozen=True):
    """Rows as lines of text: a line that says whose it is, the text, a blank line."""

    rows: tuple[Spoken, ...]
    lines: tuple[str, ...]
    starts: tuple[int, ...]  #: the line with which each row begins

    def heading_at(self, line: int) -> str:
        """The row to which a line belongs, by its role and its place."""
        at = bisect_right(self.starts, line) - 1
        return f"== {self.rows[at].role} · {self.rows[at].where}" if at >= 0 else ""


class CodexDiff(Record, frozen=True):
    """A Codex session (old) and its conversation (new)."""

    rollout: Rollout
    older: int  #: other rollouts of the same thread
    old_text: SpokenLines
    new_text: SpokenLines
    diff: Diff  #: of the lines
    only_codex: tuple[Spoken, ...]  #: in order
    only_conversation: tuple[Spoken, ...]
    elsewhere: int  #: rows of the conversation that Codex has at another place
    same: int
    complete: bool  #: False: one of them is longer than what is compared


# -- which sessions are compared -------------------------------------------------------------------------


def find_codex(
    recorded: Sequence[Path], conversation: Conversation, settings: Settings, environ: Mapping[str, str]
) -> list[Path]:
    """The rollouts of the thread that the conversation's session is bound to, the newest first; blocks.

    Raises:
        NotFoundError: its session is bound to none, or the rollout is not there.
    """
    places = list(dict.fromkeys([*recorded, *_listed(conversation, settings)]))
    for transcript in places:
        if (thread := bound_thread(transcript)) is None:
            continue
        if found := find_rollouts(homes_of(transcript, environ), thread):
            return found
        looked = ", ".join(str(one) for one in homes_of(transcript, environ))
        raise NotFoundError(
            f"Conversation {conversation.conversation_id} is bound to the Codex thread {thread}, which has "
            f"no rollout in {looked}. Set CODEX_HOME to its folder, or name the file: "
            f"{_codex_compare_named(conversation)}",
            code="ROLLOUT_NOT_FOUND",
        )
    raise NotFoundError(
        f"Conversation {conversation.conversation_id} is bound to no Codex session: there is no "
        f"<session>.jsonl{BINDING} beside its transcript. If you have the file: "
        f"{_codex_compare_named(conversation)}",
        code="ROLLOUT_NOT_FOUND",
    )


def _codex_compare_named(conversation: Conversation) -> str:
    return f"`lcm-tui sessions --compare {conversation.conversation_id} --file PATH`."


def _listed(conversation: Conversation, settings: Settings) -> list[Path]:
    """Where the host would have the session file, if it has the session."""
    agents = settings.sessions.value
    found = [agents / f"{conversation.session_id}.jsonl"]
    if conversation.agent is not None:
        found.append(agents / conversation.agent / SESSIONS_FOLDER / f"{conversation.session_id}.jsonl")
    try:
        place = find_session(list_sessions(agents), conversation.session_id).place
    except NotFoundError:
        return found
    return [place.path, *found] if isinstance(place, FilePlace) else found


# -- the comparison -------------------------------------------------------------------------------------


class Held(Record, frozen=True):
    """A conversation as it is compared."""

    conversation: Conversation
    rows: tuple[Spoken, ...]
    complete: bool  #: False: it is longer than what is held
    transcripts: tuple[Path, ...]  #: where its session file is, as the engine recorded it


async def read_held(reader: Reader, conversation: Conversation, settings: Settings) -> Held:
    """Read what is compared with a Codex session."""
    found = await transcripts_of(reader, conversation, settings)
    rows, complete = await spoken_in(reader, conversation.conversation_id)
    return Held(conversation, rows, complete, found)


async def transcripts_of(reader: Reader, conversation: Conversation, settings: Settings) -> tuple[Path, ...]:
    """The session files that the engine recorded for a conversation, as this machine has them."""
    sessions, state = settings.sessions.value, settings.state_dir.value
    stored = await transcripts(reader, conversation.conversation_id)
    found = [resolve_transcript(one, sessions=sessions, state_dir=state).path for _, one in stored]
    return tuple(one for one in found if one is not None)


def why_no_codex(
    recorded: Sequence[Path], conversation: Conversation, settings: Settings, environ: Mapping[str, str]
) -> str | None:
    """Why there is no Codex session to compare a conversation with; None: there is one; blocks."""
    try:
        find_codex(recorded, conversation, settings, environ)
    except NotFoundError as error:
        return error.message
    return None


def compare_with_codex(
    held: Held,
    settings: Settings,
    environ: Mapping[str, str],
    rollout: Path | None = None,
    *,
    cancelled: Cancelled = never_cancelled,
) -> CodexDiff:
    """Compare a conversation with its Codex session, or with the *rollout* that is named; blocks.

    Raises:
        NotFoundError: there is no such Codex session.
        TranscriptError: the rollout cannot be read.
    """
    if rollout is None:
        newest, *older = find_codex(held.transcripts, held.conversation, settings, environ)
    else:
        newest, older = rollout, []
    read = read_rollout(newest, cancelled=cancelled)
    return compare_spoken(read, len(older), held.rows, complete=held.complete)


async def spoken_in(reader: Reader, conversation_id: ConversationId) -> tuple[tuple[Spoken, ...], bool]:
    """What a conversation holds of the same, in its order; and whether that is all of it."""
    ids = await message_ids(reader, conversation_id)
    rows: list[Spoken] = []
    characters = 0
    for start in range(0, len(ids), _PAGE):
        if len(rows) >= MOST_ROWS or characters > MOST_CHARACTERS:
            return tuple(rows), False
        for message, parts in await whole_messages(reader, ids[start : start + _PAGE]):
            said = _codex_compare_said(message, parts)
            rows += said
            characters += sum(len(one.text) for one in said)
    return tuple(rows), True


def _codex_compare_said(message: Message, parts: Sequence[MessagePart]) -> list[Spoken]:
    """A message as Codex has it: reasoning, the text, then each call; of a tool, its results."""
    where, at = f"seq {message.seq:,}", parse_utc(message.created_at)
    found = [(REASONING, one.text or "") for one in parts if one.part_type == "reasoning"]
    outputs = [one.tool_output or one.tool_error or "" for one in parts if one.part_type == "tool"]
    if message.role == "tool":
        found += [(RESULT, text) for text in ([one for one in outputs if one] or [message.content])]
    else:
        found.append((message.role, message.content))
        for one in parts:
            if one.tool_name and (one.tool_input is not None or not (one.tool_output or one.tool_error)):
                found.append((CALL, f"{one.tool_name} {_codex_compare_arguments(one)}".strip()))
    return [Spoken(role, text, where, at) for role, text in found if text.strip()]


def _codex_compare_arguments(part: MessagePart) -> str:
    """What a tool was called with: its column, else, before 0.3, the block as the host sent it."""
    if part.tool_input is not None or part.metadata is None:
        return written_arguments(part.tool_input)
    try:
        raw = decode_object(part.metadata).get("raw")
    except BadLineError:
        return ""
    block = raw if isinstance(raw, dict) else {}
    return written_arguments(next((block[name] for name in ("arguments", "input") if name in block), None))


def compare_spoken(
    rollout: Rollout, older: int, spoken: Sequence[Spoken], *, complete: bool = True
) -> CodexDiff:
    """Lay both side by side."""
    old, new = tuple(one.said for one in rollout.rows), tuple(one.said for one in spoken)
    edits = edits_between(old, new)
    same = sum(one.old_end - one.old_start for one in edits if one.same)
    left = [at for one in edits if not one.same for at in range(one.old_start, one.old_end)]
    right = [at for one in edits if not one.same for at in range(one.new_start, one.new_end)]
    only_old, only_new = Counter(old[at] for at in left), Counter(new[at] for at in right)
    moved = only_old & only_new
    left_text, right_text = _lines(rollout.rows), _lines(tuple(spoken))
    return CodexDiff(
        rollout,
        older,
        left_text,
        right_text,
        compare_lines(left_text.lines, right_text.lines),
        _without(moved, [rollout.rows[at] for at in left]),
        _without(moved, [spoken[at] for at in right]),
        sum(moved.values()),
        same,
        complete and rollout.complete,
    )


def _without(moved: Counter[str], rows: Sequence[Spoken]) -> tuple[Spoken, ...]:
    rest, kept = Counter(moved), []
    for one in rows:
        if rest[one.said] > 0:
            rest[one.said] -= 1
        else:
            kept.append(one)
    return tuple(kept)


def _lines(rows: tuple[Spoken, ...]) -> SpokenLines:
    lines: list[str] = []
    starts: list[int] = []
    for one in rows:
        starts.append(len(lines))
        lines += (f"== {one.role}", *one.text.split("\n"), "")
    return SpokenLines(rows, tuple(lines), tuple(starts))
