"""The Codex session in which a session of the host was held: where it is, and what it says.

Facts: docs/host.md, "Codex sessions".

A rollout is a file of another program: any size, any types, a last line that is still being written. What
cannot be read is counted with its line and passed over; nothing is held beyond `MOST_ROWS` and
`MOST_CHARACTERS`. What its records are is decided by `lcm_core.ingest.rollout`, as for an import.
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
    scan_lines,
    string,
)
from lcm_core.ingest.rollout import RecordKind, RolloutReading, RolloutRecord, first_of, text_of
from lcm_core.javascript import Json

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
    others: Mapping[str, int]  #: records that say nothing that a conversation could hold, by their type
    repeated: int  #: events that only repeat a message
    refused: str | None  #: why the engine's import takes nothing of it: "line 3 has no type"
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
    return Rollout(
        path,
        tuple(rows),
        reading.lines,
        reading.problems,
        dict(others + reading.passed),
        reading.repeated,
        reading.refused,
        complete,
    )


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
