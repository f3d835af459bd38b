"""A stored message, or one that the host holds in memory, as the message that is sent. Pure.

docs/engine/assembly.md, "Messages"; what it counts: docs/engine/ingest.md, "Tokens".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lcm_core.assemble.blocks import Part, blocks_of, host_block, parts_with_metadata, text_block, word
from lcm_core.assemble.message import (
    BlockKind,
    Content,
    Identity,
    Origin,
    OriginKind,
    Role,
    SentMessage,
    counted_content,
)
from lcm_core.engine_rules import RULES_PRESENT, AssemblyRules
from lcm_core.frozen import dataclass
from lcm_core.javascript import BLANKS, Json, JsonObject, parsed_object
from lcm_core.records import Message, MessagePart
from lcm_core.tokens import estimate_weighted

#: What a result is said to come from where no name was noted.
UNKNOWN_TOOL = "unknown"


@dataclass(frozen=True, slots=True)
class RebuiltMessage:
    """What a stored message is sent as."""

    role: Role
    content: Content
    call_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None
    identity: Identity | None = None
    reasoning: str | None = None
    sender: JsonObject | None = None


def rebuild(message: Message, rows: Sequence[MessagePart], rules: AssemblyRules) -> RebuiltMessage:
    """Put a message together from its parts, or from its text where this version stored none."""
    parts = parts_with_metadata(rows)
    role = _role(message.role, parts)
    call_id = _call_id(parts, rules) if role is Role.TOOL_RESULT else None
    if role is Role.TOOL_RESULT and call_id is None:
        role = Role.ASSISTANT
    identity = _identity(parts) if role is Role.ASSISTANT and rules.names_authors else None
    content = _content(message.content, parts, role, rules, identity)
    if role is Role.TOOL_RESULT:
        if not rules.names_results:
            return RebuiltMessage(role, content, call_id)
        return RebuiltMessage(role, content, call_id, _tool_name(parts), _is_error(parts))
    if role is Role.ASSISTANT:
        reasoning = _reasoning(parts) if rules.names_authors else None
        return RebuiltMessage(role, content, identity=identity, reasoning=reasoning)
    sender = recorded_sender(message.sender) if rules.names_authors and message.role == "user" else None
    return RebuiltMessage(role, content, sender=sender)


def rebuilt_content(text: str, rows: Sequence[MessagePart], role: Role, rules: AssemblyRules) -> Content:
    """The content that a message of *role* has by its parts; by *text*, its own, where they give none.

    *role* is as given, whatever the parts say of it.
    """
    parts = parts_with_metadata(rows)
    return _content(text, parts, role, rules, _identity(parts) if role is Role.ASSISTANT else None)


def _reasoning_of(rows: Sequence[MessagePart]) -> str | None:
    """What a provider keeps as ``reasoning_content`` beside the content of a message."""
    return _reasoning(parts_with_metadata(rows))


def is_void(message: Message, rules: AssemblyRules) -> bool:
    """Whether a message without parts is not there at all to the present engine: an answer without text."""
    return rules.skips_void_answers and message.role == "assistant" and not message.content.strip(BLANKS)


# -- content ---------------------------------------------------------------------------------------------


def _content(
    text: str, parts: Sequence[Part], role: Role, rules: AssemblyRules, identity: Identity | None
) -> Content:
    """*identity*: of the model that wrote an assistant's message, and so vouches for its reasoning."""
    vouched = identity is not None or not rules.signatures_need_identity
    found = blocks_of(parts, rules, vouched=vouched)
    if not found:
        if role is Role.USER:
            return text
        return (text_block(text),) if text or role is Role.TOOL_RESULT else ()
    if role is Role.USER and len(found) == 1 and found[0].kind is BlockKind.TEXT:
        return found[0].text
    return found


# -- what is beside it -----------------------------------------------------------------------------------

_ROLES = {
    "toolResult": Role.TOOL_RESULT,
    "assistant": Role.ASSISTANT,
    "user": Role.USER,
    "system": Role.USER,
}
_ROLES_OF_ROWS = {"tool": Role.TOOL_RESULT, "assistant": Role.ASSISTANT}


def _role(row: str, parts: Sequence[Part]) -> Role:
    for part in parts:
        if part.original_role is not None:
            return _ROLES.get(part.original_role) or _ROLES_OF_ROWS.get(row, Role.USER)
    return _ROLES_OF_ROWS.get(row, Role.USER)


def _call_id(parts: Sequence[Part], rules: AssemblyRules) -> str | None:
    """The call that a result answers, of the first part that names one."""
    for part in parts:
        noted = word(part.metadata.get("toolCallId")) if rules.names_results else None
        found = part.row.tool_call_id or noted or _first(part.block, "toolCallId", "tool_call_id")
        if found:
            return found
    return None


def _tool_name(parts: Sequence[Part]) -> str:
    for part in parts:
        found = part.row.tool_name or word(part.metadata.get("toolName"))
        found = found or _first(part.block, "name", "toolName")
        if found:
            return found
    return UNKNOWN_TOOL


def _first(block: JsonObject, *keys: str) -> str | None:
    return next((found for key in keys if (found := word(block.get(key))) is not None), None)


def _is_error(parts: Sequence[Part]) -> bool | None:
    said: list[Json] = [part.metadata.get("isError") for part in parts]
    return next((one for one in said if isinstance(one, bool)), None)


def _identity(parts: Sequence[Part]) -> Identity | None:
    for part in parts:
        if (found := _identity_of(part)) is not None:
            return found
    return None


def _identity_of(part: Part) -> Identity | None:
    """The model that wrote a message, where one part says all of it."""
    noted = part.metadata
    if "modelProvider" not in noted:
        return None
    provider, api, model = (
        word(noted["modelProvider"]),
        word(noted.get("modelApi")),
        word(noted.get("modelId")),
    )
    if provider is None or api is None or model is None:
        return None
    return Identity(provider, api, model, word(noted.get("responseModelId")))


def _reasoning(parts: Sequence[Part]) -> str | None:
    """What a provider keeps as ``reasoning_content`` beside the content."""
    for part in parts:
        if part.metadata.get("topLevelReasoningField") == "reasoning_content":
            said = word(part.metadata.get("topLevelReasoningContent"))
            if said is not None:
                return said
    return None


# -- who said it -------------------------------------------------------------------------------------------


#: What is sent and said of a sender, in this order.
_MEMBERS: Final = ("senderId", "senderName", "senderUsername")


def recorded_sender(recorded: str | None) -> JsonObject | None:
    """The members of a recorded sender that say something, unchanged; None without any.

    docs/engine/assembly.md, "Messages".
    """
    if not recorded:
        return None
    return sender_fields(parsed_object(recorded)) or None


def sender_fields(sender: JsonObject) -> JsonObject:
    """The members of a sender that say something, unchanged."""
    values = ((name, sender.get(name)) for name in _MEMBERS)
    return {name: value for name, value in values if isinstance(value, str) and value.strip(BLANKS)}


# -- what it counts ----------------------------------------------------------------------------------------


#: The id of a part while it has none: a call without an id of its own is counted with it.
PART_ID = "estimate-part-"
#: What a message is counted as that has no content but reasoning beside it.
_REASONING_ALONE = '[{"type":"reasoning"}]'


def tokens_as_sent(message: Message, parts: Sequence[MessagePart]) -> int:
    """The count that ``messages.token_count`` holds when the present engine stored *message*."""
    counted = [replace(part, part_id=f"{PART_ID}{ordinal}") for ordinal, part in enumerate(parts)]
    if [part.metadata.get("topLevelReasoningOnly") for part in parts_with_metadata(counted)] == [True]:
        content = _REASONING_ALONE
    else:
        rebuilt = rebuilt_content(
            message.content, counted, _counted_role(message.role), RULES_PRESENT.assembly
        )
        content = counted_content(rebuilt)
    reasoning = _reasoning_of(counted)
    return estimate_weighted(content) + (estimate_weighted(reasoning) if reasoning else 0)


def _counted_role(role: str) -> Role:
    if role in ("user", "system"):
        return Role.USER
    return Role.TOOL_RESULT if role == "tool" else Role.ASSISTANT


# -- messages of the host ----------------------------------------------------------------------------------


_LIVE_ROLES = {"assistant": Role.ASSISTANT, "toolResult": Role.TOOL_RESULT, "tool": Role.TOOL_RESULT}


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
        _LIVE_ROLES.get(role, Role.USER) if isinstance(role, str) else Role.USER,
        content,
        Origin(OriginKind.LIVE),
        call_id=call_id if isinstance(call_id, str) else None,
        tool_name=name if isinstance(name, str) else None,
        is_error=failed if isinstance(failed, bool) else None,
        given=document,
    )
