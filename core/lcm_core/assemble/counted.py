"""What the present engine counts a stored message by: the content that it would send, and its reasoning.

Pure; docs/engine/ingest.md, "Tokens".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lcm_core.assemble.blocks import read_parts
from lcm_core.assemble.message import Role, content_text
from lcm_core.assemble.rebuild import reasoning_of, rebuilt_content
from lcm_core.engine_rules import RULES_PRESENT
from lcm_core.records import Message, MessagePart
from lcm_core.tokens import estimate_weighted

#: What stands for the id of a part while it has none: a call without an id of its own is counted with it.
PART_ID = "estimate-part-"
#: What a message without content is counted as whose reasoning stands beside it.
REASONING_ALONE = '[{"type":"reasoning"}]'


def tokens_as_sent(message: Message, parts: Sequence[MessagePart]) -> int:
    """The count that ``messages.token_count`` holds when the present engine stored *message*."""
    counted = [replace(part, part_id=f"{PART_ID}{ordinal}") for ordinal, part in enumerate(parts)]
    if [part.metadata.get("topLevelReasoningOnly") for part in read_parts(counted)] == [True]:
        content = REASONING_ALONE
    else:
        rebuilt = rebuilt_content(message.content, counted, _role(message.role), RULES_PRESENT.assembly)
        content = content_text(rebuilt)
    reasoning = reasoning_of(counted)
    return estimate_weighted(content) + (estimate_weighted(reasoning) if reasoning else 0)


def _role(role: str) -> Role:
    if role in ("user", "system"):
        return Role.USER
    return Role.TOOL_RESULT if role == "tool" else Role.ASSISTANT
