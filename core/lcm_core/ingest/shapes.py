"""Names that blocks and messages of hosts use (docs/engine/ingest.md, "What a block is")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lcm_core.ingest.jsonl import Json, JsonObject

REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
RESULTS: Final = frozenset({"function_call_output", "tool_result", "toolResult", "tool_use_result"})
CALLS: Final = frozenset(
    {"tool_use", "toolUse", "tool-use", "toolCall", "tool_call", "functionCall", "function_call"}
)
#: Blocks that say nothing in ``messages.content``.
TOOLS: Final = CALLS | RESULTS
#: The members that hold the id of a tool call, the first one counts.
CALL_IDS: Final = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
#: The members under which blocks lie in one another, beside lists.
LISTS: Final = ("segments", "utterances", "paragraphs", "alternatives", "words", "items", "results")
HOLDERS: Final = ("content", "output", "result", "payload", "data", "value")


def first_text(holder: JsonObject, names: Iterable[str]) -> str | None:
    """The first of some members that is a text, be it empty."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, str):
            return value
    return None


def first_flag(holder: JsonObject, names: Iterable[str]) -> bool | None:
    """The first of some members that is true or false."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, bool):
            return value
    return None


def type_of(block: Json) -> str | None:
    """The ``type`` of a block when it is a text."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None
