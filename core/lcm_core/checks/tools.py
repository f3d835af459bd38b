"""What a part of a message says of a tool. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

#: Types of blocks that call a tool (docs/engine/ingest.md, "What a block is").
_CALLS: Final = frozenset(
    {
        "toolCall",
        "tool_use",
        "tool-use",
        "toolUse",
        "functionCall",
        "function_call",
        "tool_call",
        "server_tool_use",
    }
)
_RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output", "tool_use_result"})
_ID_KEYS: Final = ("id", "call_id", "callId", "toolCallId", "tool_call_id", "tool_use_id", "toolUseId")


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A part that is a tool call or a result."""

    call_id: str
    is_call: bool
    from_metadata: bool  #: the column is empty and the metadata holds the id


def tool_part(role: str, part_type: str, call_id: str | None, metadata: str | None) -> ToolPart | None:
    """What a part says of a tool; None when it says nothing.

    The id is the column's, else ``metadata.toolCallId``, else that of ``metadata.raw`` (0.1 kept it there).
    """
    if call_id:
        return ToolPart(call_id, role == "assistant" and part_type in ("tool", "agent"), False)
    if part_type not in ("tool", "agent") and role != "tool":
        return None
    known = _object(metadata)
    raw = known.get("raw")
    kind = str(known.get("rawType") or (raw.get("type") if isinstance(raw, dict) else ""))
    found = known.get("toolCallId")
    if not isinstance(found, str) and isinstance(raw, dict) and kind in _CALLS | _RESULTS:
        found = next((raw[key] for key in _ID_KEYS if isinstance(raw.get(key), str)), None)
    if not isinstance(found, str) or not found:
        return None
    return ToolPart(found, kind in _CALLS or (role == "assistant" and kind not in _RESULTS), True)


def _object(metadata: str | None) -> dict[str, Any]:
    try:
        value = json.loads(metadata or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
