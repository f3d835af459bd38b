"""How many tokens a message has: those of what assembly would send (docs/engine/ingest.md, "Tokens")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lcm_core.assemble.blocks import Part, blocks_of, part_of
from lcm_core.assemble.counted import PART_ID
from lcm_core.engine_rules import RULES_PRESENT
from lcm_core.ingest.jsonl import Json, JsonObject
from lcm_core.ingest.parts import StoredPart, TopLevel
from lcm_core.javascript import js_json
from lcm_core.records import MessageId, MessagePart
from lcm_core.tokens import estimate_weighted


def count_tokens(message: JsonObject, top: TopLevel, parts: Sequence[StoredPart], content: str) -> int:
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
        blocks = [cast("Json", block.document) for block in rebuilt]
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
    return part_of(row, part.noted)
