"""One line of a transcript as a record (docs/host.md, "Lines of a transcript")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from lcm_core.ingest.content import ContentPart, content_parts, engine_role, host_parts, json_part, shorten
from lcm_core.ingest.header import read_moment
from lcm_core.ingest.jsonl import Json, JsonObject, RawLine, compact_json, string

_FRAME = ("type", "id", "parentId", "timestamp")


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """What somebody said. Source: ``message`` of an entry."""

    role: str  #: system, user, assistant or tool: as the engine would store it
    original_role: str  #: as the host wrote it; empty when it did not
    parts: tuple[ContentPart, ...]
    provider: str | None
    model: str | None
    stop_reason: str | None
    error: str | None  #: why the model's answer failed


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One entry of the tree. Text is as the host wrote it: make it safe before showing it."""

    line: int  #: from 1
    size: int  #: bytes of the line
    entry_id: str | None
    parent_id: str | None
    type: str  #: message, compaction, model_change ... as in the file
    timestamp: str | None  #: as in the file (epoch milliseconds as digits)
    moment: datetime | None  #: the same in UTC; None when it is no time
    on_path: bool  #: the host sees it; False on an abandoned branch
    message: TranscriptMessage | None  #: of entries of type message
    title: str  #: one line that says what an entry is that is no message
    parts: tuple[ContentPart, ...]  #: what it holds: the message's parts, a summary, a custom payload
    problem: str | None  #: why it is not shown whole


def read_entry(
    line: RawLine, value: JsonObject, *, on_path: bool, text_limit: int | None = None
) -> TranscriptEntry:
    """The entry that a parsed line holds, each part's text at most *text_limit* code points long."""
    held = value.get("message")
    inner: JsonObject = held if isinstance(held, dict) else {}
    is_message = value.get("type") == "message"
    title, parts = ("", host_parts(inner)) if is_message else _described(value)
    if text_limit is not None:
        parts = tuple(shorten(part, text_limit) for part in parts)
    return _entry(line, value, on_path, _message(inner, parts) if is_message else None, title, parts, None)


def unread_entry(
    line: RawLine, head: JsonObject, *, on_path: bool, reason: str | None = None
) -> TranscriptEntry:
    """The entry of a line of which only the start was read; *reason* when it is not its length."""
    held = head.get("message")
    inner: JsonObject = held if isinstance(held, dict) else {}
    message = _message(inner, ()) if head.get("type") == "message" else None
    title = "" if message else str(head.get("type") or "entry")
    return _entry(line, head, on_path, message, title, (), reason or f"too long ({line.size:,} bytes)")


def _entry(
    line: RawLine,
    value: JsonObject,
    on_path: bool,
    message: TranscriptMessage | None,
    title: str,
    parts: tuple[ContentPart, ...],
    problem: str | None,
) -> TranscriptEntry:
    stamp = value.get("timestamp")
    if read_moment(stamp) is None and isinstance(held := value.get("message"), dict):
        stamp = held.get("timestamp") or stamp
    return TranscriptEntry(
        line=line.number,
        size=line.size,
        entry_id=string(value.get("id")),
        parent_id=string(value.get("parentId")),
        type=str(value.get("type") or ""),
        timestamp=str(stamp) if isinstance(stamp, str | int | float) else None,
        moment=read_moment(stamp),
        on_path=on_path,
        message=message,
        title=" ".join(title.split()),
        parts=parts,
        problem=problem,
    )


def _message(value: JsonObject, parts: tuple[ContentPart, ...]) -> TranscriptMessage:
    role = string(value.get("role")) or ""
    return TranscriptMessage(
        role=engine_role(role),
        original_role=role,
        parts=parts,
        provider=string(value.get("provider")),
        model=string(value.get("model")),
        stop_reason=string(value.get("stopReason")),
        error=string(value.get("errorMessage")),
    )


_Described = tuple[str, tuple[ContentPart, ...]]


def _described(value: JsonObject) -> _Described:
    """A line about an entry that is no message, and what it holds."""
    kind = str(value.get("type") or "")
    describe = _DESCRIBE.get(kind)
    return describe(value) if describe else (kind, _rest(value))


def _compaction(value: JsonObject) -> _Described:
    before = value.get("tokensBefore")
    tokens = (
        f" ({before:,} tokens before)" if isinstance(before, int) and not isinstance(before, bool) else ""
    )
    return f"compaction{tokens}", content_parts(value.get("summary"))


def _branch_summary(value: JsonObject) -> _Described:
    origin = string(value.get("fromId"))
    return f"branch summary{_from(origin)}", content_parts(value.get("summary"))


def _model_change(value: JsonObject) -> _Described:
    names = [name for name in (string(value.get("provider")), string(value.get("modelId"))) if name]
    return f"model: {'/'.join(names) or 'not recorded'}", ()


def _thinking_level(value: JsonObject) -> _Described:
    return f"thinking level: {_word(value.get('thinkingLevel'))}", ()


def _reset(value: JsonObject) -> _Described:
    reason = string(value.get("reason"))
    return f"reset: {reason}" if reason else "reset", _rest(value)


def _custom(value: JsonObject) -> _Described:
    data = value.get("data")
    parts = () if data is None else (json_part("custom", data),)
    return f"custom: {_word(value.get('customType'))}", parts


def _custom_message(value: JsonObject) -> _Described:
    return f"custom message: {_word(value.get('customType'))}", content_parts(value.get("content"))


_DESCRIBE: dict[str, Callable[[JsonObject], _Described]] = {
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "model_change": _model_change,
    "thinking_level_change": _thinking_level,
    "reset": _reset,
    "custom": _custom,
    "custom_message": _custom_message,
}


def _from(origin: str | None) -> str:
    return f" from {origin}" if origin else ""


def _word(value: Json) -> str:
    return string(value) or ("not recorded" if value is None else compact_json(value))


def _rest(value: JsonObject) -> tuple[ContentPart, ...]:
    """What an entry holds beside its frame, as JSON."""
    rest: JsonObject = {key: each for key, each in value.items() if key not in _FRAME}
    return (json_part("", rest),) if rest else ()
