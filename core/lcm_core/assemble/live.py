"""The host's own messages, to fall back on: what it holds in memory, in the form it would send."""

from __future__ import annotations

from lcm_core.assemble.blocks import host_block
from lcm_core.assemble.message import Content, Origin, OriginKind, Role, SentMessage
from lcm_core.javascript import JsonObject

_ROLES = {"assistant": Role.ASSISTANT, "toolResult": Role.TOOL_RESULT, "tool": Role.TOOL_RESULT}


def live_message(document: JsonObject) -> SentMessage:
    """A message of the host, which is sent as it is; content that is no text and no blocks says nothing."""
    role = document.get("role")
    given = document.get("content")
    content: Content = ""
    if isinstance(given, str):
        content = given
    elif isinstance(given, list):
        content = tuple(map(host_block, given))
    call_id, name, failed = document.get("toolCallId"), document.get("toolName"), document.get("isError")
    return SentMessage(
        _ROLES.get(role, Role.USER) if isinstance(role, str) else Role.USER,
        content,
        Origin(OriginKind.LIVE),
        call_id=call_id if isinstance(call_id, str) else None,
        tool_name=name if isinstance(name, str) else None,
        is_error=failed if isinstance(failed, bool) else None,
        given=document,
    )
