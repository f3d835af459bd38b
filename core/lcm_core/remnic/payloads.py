"""Parts of messages as Remnic's parts, and back (docs/remnic.md, "Parts").

A payload is JSON with what Remnic's reader looks for. Beside it, under `OURS`, it holds every column of the
part whose text is not in the payload already, so that the row comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from lcm_core.change.codec import encode_cell
from lcm_core.store.connecting import SqlValue

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Payload: TypeAlias = "dict[str, Json]"
#: A row as it is stored, by column.
Stored: TypeAlias = Mapping[str, SqlValue]

#: The member under which we keep what Remnic has no place for.
OURS: Final = "lcm_tui"
#: Kinds that have one name on both sides.
_ALIKE: Final = frozenset({"patch", "step_start", "step_finish", "snapshot", "retry"})
#: Columns that a part of Remnic has itself, or that its turn says.
_KNOWN: Final = frozenset({"message_id", "ordinal"})
_CALL_IDS: Final = ("id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id", "callId")
_INPUTS: Final = ("arguments", "input")
#: Types of a host's block that ask for a tool.
_CALLS: Final = frozenset(
    {"tool_use", "toolUse", "tool-use", "toolCall", "tool_call", "functionCall", "function_call"}
)
#: The type of a part that Remnic made itself, by its kind.
_BACK: Final = {
    "tool_call": "tool",
    "tool_result": "tool",
    "file_read": "file",
    "file_write": "file",
    **dict.fromkeys(_ALIKE, ""),
}


def payload_of(part: Stored, role: str) -> tuple[str, Payload, str | None, str | None]:
    """Kind, payload, name of the tool and path of the file of a part of a message of some *role*."""
    kind, payload, held = _translated(part, role)
    tool = _clean(part.get("tool_name")) or _block_text(part, ("name", "toolName"))
    path = _clean(part.get("file_name")) or _clean(part.get("file_url"))
    ours: dict[str, Json] = {
        name: _json(value)
        for name, value in sorted(part.items())
        if value is not None and name not in _KNOWN and name not in held
    }
    if held:
        ours["$in"] = dict(sorted(held.items()))
    payload[OURS] = ours
    is_tool = kind in ("tool_call", "tool_result")
    return kind, payload, tool if is_tool else None, path if kind.startswith("file") else None


def _translated(part: Stored, role: str) -> tuple[str, Payload, dict[str, Json]]:
    """Kind, payload, and the columns whose text is in it, each with its member."""
    kind = _clean(part.get("part_type")) or "text"
    held: dict[str, Json] = {}

    def take(column: str, member: str, into: Payload) -> None:
        """Put a column's text into the payload; it is not kept twice when it comes back from there."""
        value = part.get(column)
        text = _clean(value)
        if text is None:
            return
        into[member] = text
        if text == value:
            held[column] = member

    payload: Payload = {}
    is_call = kind == "tool" or (kind == "agent" and _block(part).get("type") in _CALLS)
    if role == "tool" or (is_call and part.get("tool_output") is not None and part.get("tool_input") is None):
        _put(payload, "id", _call_id(part))
        take("tool_output" if part.get("tool_output") is not None else "text_content", "output", payload)
        take("tool_error", "error", payload)
        return "tool_result", payload, held
    if is_call:
        _put(payload, "id", _call_id(part))
        _put(payload, "name", _clean(part.get("tool_name")) or _block_text(part, ("name", "toolName")))
        _take_input(part, payload, held)
        take("tool_output", "output", payload)
        take("tool_error", "error", payload)
        return "tool_call", payload, held
    if kind == "file":
        take("file_name", "name", payload)
        take("file_mime", "mime", payload)
        take("file_url", "url", payload)
        take("text_content", "text", payload)
        return "file_write" if role == "assistant" else "file_read", payload, held
    take("text_content", "text", payload)
    if kind in _ALIKE:
        for column in ("patch_hash", "patch_files", "step_reason", "snapshot_hash"):
            take(column, column, payload)
        return kind, payload, held
    if kind != "text":
        payload["type"] = kind  # reasoning, subtask, compaction, agent: Remnic has no such kind
    return "text", payload, held


def _take_input(part: Stored, payload: Payload, held: dict[str, Json]) -> None:
    raw = part.get("tool_input")
    if raw is None:
        found = next((_block(part)[name] for name in _INPUTS if name in _block(part)), None)
        _put(payload, "input", _plain(found))
        return
    text = _clean(raw)
    value = _parsed(text or "")
    payload["input"] = value if isinstance(value, dict | list) else text
    if raw == (_compact(value) if isinstance(value, dict | list) else text):
        held["tool_input"] = "input"


def parsed_object(text: object) -> dict[str, Json]:
    """A JSON object of the file; empty where it is none."""
    value = _parsed(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else {}


def written(value: Mapping[str, Json]) -> str:
    """A JSON object as it is stored: members in order of their names, as Remnic's importer writes them."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parsed(text: str) -> Json:
    """The value that a text writes, without what JSON for everybody may not hold; None where it is none."""
    try:
        value: Json = _DECODER.decode(text)
        # Most texts hold neither half a character nor a depth that cannot be written again.
        odd = "\\u" in text or _torn(text) or text.count("{") + text.count("[") > _SHALLOW
        return _plain(value) if odd else value
    except (ValueError, RecursionError):
        return None


def _finite(written: str) -> float | None:
    number = float(written)
    return number if abs(number) < float("inf") else None


#: Braces of a text that are no reason to look how deep it is nested.
_SHALLOW: Final = 200
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


def _compact(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def _text_of(value: Json) -> str | None:
    return value if value is None or isinstance(value, str) else _compact(value)


def _clean(value: object) -> str | None:
    """A value as text that JSON can hold; what is no UTF-8 is U+FFFD."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if _torn(text) else text


def _torn(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _plain(value: object) -> Json:
    """JSON values without lone surrogates and without numbers that JSON has not."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {str(_plain(str(name))): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value if isinstance(value, bool | int | float) else None


def _json(value: SqlValue) -> Json:
    return _plain(encode_cell(value))


def _put(payload: Payload, name: str, value: Json) -> None:
    if value is not None:
        payload[name] = value


def _block(part: Stored) -> dict[str, Json]:
    """The block as the host sent it, which the part's metadata holds."""
    raw = parsed_object(part.get("metadata")).get("raw")
    return raw if isinstance(raw, dict) else {}


def _block_text(part: Stored, names: Sequence[str]) -> str | None:
    block = _block(part)
    found = next((block[name] for name in names if isinstance(block.get(name), str)), None)
    return _clean(found)


def _call_id(part: Stored) -> str | None:
    return _clean(part.get("tool_call_id")) or _block_text(part, _CALL_IDS)
