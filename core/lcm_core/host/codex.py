"""The Codex session in which a session of the host was held: where it is, and what it says.

Facts: docs/host.md, "Codex sessions".

A rollout is a file of another program: any size, any types, a last line that is still being written. What
cannot be read is counted with its line and passed over; nothing is held beyond `MOST_ROWS` and
`MOST_CHARACTERS`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from lcm_core.ingest.jsonl import (
    BadLineError,
    Cancelled,
    LineProblems,
    compact_json,
    decode_object,
    never_cancelled,
    open_regular,
    open_transcript,
    read_moment,
    scan_lines,
    string,
)
from lcm_core.javascript import Json, JsonObject

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

_EVENTS: Final = {"user_message": "user", "agent_message": "assistant"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One thing that was said or done: of a rollout or of a conversation."""

    role: str  #: user, assistant, system, developer ...; or `CALL`, `RESULT`, `REASONING`
    text: str
    where: str  #: what a person finds it by, such as ``line 12``
    at: datetime | None  #: UTC

    @property
    def said(self) -> str:
        """What two of them are alike by: role and words, whatever the blanks between."""
        return f"{self.role} {' '.join(self.text.split())}"


@dataclass(frozen=True, slots=True)
class Rollout:
    """A Codex session as far as it was read."""

    path: Path
    rows: tuple[Spoken, ...]
    lines: int  #: that are not blank
    problems: LineProblems
    others: Mapping[str, int]  #: lines that say nothing that a conversation could hold, by their type
    repeated: int  #: events that only repeat a message
    complete: bool  #: False: it is longer than what is held


# -- finding it ------------------------------------------------------------------------------------------


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


# -- reading it ------------------------------------------------------------------------------------------


def read_rollout(path: Path, *, cancelled: Cancelled = never_cancelled) -> Rollout:
    """Read a rollout; blocks.

    Raises:
        TranscriptError: it cannot be read at all.
        CancelledError: *cancelled* said so.
    """
    rows: list[tuple[Spoken, bool]] = []  #: and whether it is an event, which may repeat a message
    problems, others = LineProblems(), Counter[str]()
    lines = characters = 0
    complete = True
    with open_transcript(path) as file:
        for line in scan_lines(file, cancelled=cancelled):
            if len(rows) >= MOST_ROWS or characters > MOST_CHARACTERS:
                complete = False
                break
            lines += 1
            if line.too_long:
                problems.add(line.number, f"{line.size:,} bytes, which is more than is read of one line")
                continue
            try:
                value = decode_object(line.data)
            except BadLineError as error:
                problems.add(line.number, str(error) if line.ended else f"unfinished, {error}")
                continue
            spoken = list(_spoken(value, f"line {line.number:,}"))
            if not spoken:
                others[_kind(value)] += 1
            for one, is_event in spoken:
                rows.append((one, is_event))
                characters += len(one.text)
    kept = _without_repeats(rows)
    return Rollout(path, kept, lines, problems, dict(others), len(rows) - len(kept), complete)


def _without_repeats(rows: Sequence[tuple[Spoken, bool]]) -> tuple[Spoken, ...]:
    """Events say once more what a message says: each message takes one of them away."""
    messages = Counter(one.said for one, is_event in rows if not is_event)
    kept = []
    for one, is_event in rows:
        if is_event and messages[one.said] > 0:
            messages[one.said] -= 1
        else:
            kept.append(one)
    return tuple(kept)


def _kind(value: JsonObject) -> str:
    """The type of a line, and of what is in it."""
    payload = value.get("payload")
    inner = payload.get("type") if isinstance(payload, dict) else None
    return " ".join(one[:40] for one in (value.get("type"), inner) if isinstance(one, str)) or "no type"


def _spoken(value: JsonObject, where: str) -> Iterator[tuple[Spoken, bool]]:
    """What a line says, and whether it is an event."""
    payload, kind = value.get("payload"), value.get("type")
    if not isinstance(payload, dict):
        return
    at = read_moment(value.get("timestamp"))
    if kind == "event_msg":
        event = payload.get("type")
        role = _EVENTS.get(event) if isinstance(event, str) else None
        text = _text(payload.get("message"))
        if role is not None and text:
            yield Spoken(role, _cut(text), where, at), True
    elif kind == "response_item":
        found = _item(payload)
        if found is not None and found[1]:
            yield Spoken(found[0], _cut(found[1]), where, at), False


def _item(payload: JsonObject) -> tuple[str, str] | None:
    """Role and text of an item of the model; None: it holds nothing of the kind."""
    kind = payload.get("type")
    if kind == "message":
        return string(payload.get("role")) or "unknown", _text(payload.get("content"))
    if kind == "reasoning":
        texts = (_text(payload.get("summary")), _text(payload.get("content")))
        return REASONING, "\n".join(filter(None, texts))
    if isinstance(kind, str) and kind.endswith("_output"):
        return RESULT, _text(_first(payload, "output", "result", "text"))
    if isinstance(kind, str) and kind.endswith("_call"):
        name = string(payload.get("name")) or kind.removesuffix("_call")
        return CALL, f"{name} {written_arguments(_first(payload, 'arguments', 'input', 'action'))}".strip()
    return None


def _first(payload: JsonObject, *names: str) -> Json:
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def written_arguments(value: Json) -> str:
    """Arguments in one form, whether they are an object or the text of one."""
    if isinstance(value, str):
        try:
            return compact_json(decode_object(value))
        except BadLineError:
            return value
    return "" if value is None else compact_json(value)


def _text(value: Json, depth: int = 0) -> str:
    """The words of a text, a list of blocks, or an object that holds either."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth < 3:
        return "\n".join(filter(None, (_text(one, depth + 1) for one in value)))
    if isinstance(value, dict) and depth < 3:
        inner = _first(value, "text", "content", "output")
        return _text(inner, depth + 1) if inner is not None else compact_json(value)
    return "" if value is None else compact_json(value)


def _cut(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}\n… {len(text) - TEXT_LIMIT:,} more characters"
