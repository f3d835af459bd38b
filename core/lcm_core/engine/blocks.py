"""A stored message rebuilt as the message that is sent: its blocks, its role and sender, its tokens. Pure.

docs/spec/assembly.md, "Blocks" and "Messages"; what a message counts: docs/spec/ingest.md, "Tokens".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, parsed_object, read_json, stringify
from lcm_core.base.records import Message, MessagePart
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import Record, replace
from lcm_core.engine.messages import (
    Block,
    BlockKind,
    Content,
    Identity,
    Origin,
    OriginKind,
    Role,
    SentMessage,
    counted_content,
)
from lcm_core.engine.rules import RULES_PRESENT, AssemblyRules

# -- blocks ----------------------------------------------------------------------------------------------
# What the parts of a message are sent as. There are two tables. The present engine sends the host's own
# block unless that belongs to a tool: calls and results are rebuilt from columns and block together,
# without anything else that the host noted there. The engine of 0.1 sends the host's block whatever it is.


class NoValue(Enum):
    """Stands for a value where there is none: JSON's null is one."""

    MISSING = "missing"


_NO_VALUE: Final = NoValue.MISSING
#: How hosts name a block that calls a tool, and one that answers; spelt otherwise it is neither.
_CALL_TYPES: Final = frozenset(
    {"toolCall", "tool_use", "tool-use", "toolUse", "functionCall", "function_call"}
)
_RESULT_TYPES: Final = frozenset({"function_call_output", "toolResult", "tool_result"})
_TOOL_TYPES: Final = _CALL_TYPES | _RESULT_TYPES
_REASONING_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
#: Calls whose input is named ``arguments``; that of others is named ``input``.
_WITH_ARGUMENTS: Final = frozenset({"toolCall", "functionCall"})
_FUNCTION_CALL: Final = "function_call"
_FUNCTION_OUTPUT: Final = "function_call_output"
#: The prefix of the id of a part where a call has no id of its own.
_MADE_ID: Final = "toolu_lcm_"
#: The signature of a block that only repeats a field beside the content.
_NO_SIGNATURE: Final = "reasoning_content"

# For reading alone: what a screen or an export shows of a block. No rule of assembly asks for these.
_IMAGES: Final = frozenset({"image", "input_image", "image_url"})
_FILES: Final = frozenset({"file", "input_file", "document"})


class Part(Record, frozen=True):
    """A row of ``message_parts`` with its metadata read."""

    row: MessagePart
    metadata: JsonObject  #: empty where it is no object
    noted: Json  #: the metadata as parsed: an object or a list; else None
    raw: Json  #: the host's block, an object (or a list); None: none is recorded
    block: JsonObject  #: the same where it is an object; else an empty one
    raw_type: str | None  #: as the metadata says it, not as the block does; not empty
    original_role: str | None  #: not empty


_NOTHING: Final[JsonObject] = {}
#: By a name of its own: to look up the member of an enum takes as long as all else that is asked of a block.
_TOOL_CALL: Final = BlockKind.TOOL_CALL
_TEXT_BLOCK: Final = BlockKind.TEXT


def parts_with_metadata(rows: Iterable[MessagePart]) -> list[Part]:
    """The parts of a message, in order."""
    return [part_with_metadata(row, _value_or(row.metadata or "", None)) for row in rows]


def part_with_metadata(row: MessagePart, noted: Json) -> Part:
    """A part whose metadata were parsed as *noted*."""
    if not isinstance(noted, dict):
        return Part(row, _NOTHING, noted if isinstance(noted, list) else None, None, _NOTHING, None, None)
    raw = noted.get("raw")
    block = raw if isinstance(raw, dict) else _NOTHING
    kept = raw if block is raw or isinstance(raw, list) else None
    return Part(row, noted, noted, kept, block, word(noted.get("rawType")), word(noted.get("originalRole")))


def blocks_of(parts: Sequence[Part], rules: AssemblyRules, *, vouched: bool) -> tuple[Block, ...]:
    """What parts are sent as, in order; *vouched*: the message names the model that signed its reasoning."""
    if not rules.rebuilds_tools:
        return tuple([host_block(_block_of_0_1(part)) for part in parts])
    found: list[Block] = []
    for part in parts:
        if part.metadata.get("topLevelReasoningOnly") is True:
            continue
        document = _document(part, rules, vouched=vouched)
        if document is not _NO_VALUE:
            found.append(host_block(document))
    return tuple(found)


def text_block(text: str) -> Block:
    """A text as a block."""
    return Block(_TEXT_BLOCK, _text(text), text)


def host_block(document: Json) -> Block:
    """A block of a message as it is there; a call keeps its id, a text what it says."""
    if not isinstance(document, dict):
        return Block(BlockKind.OTHER, document, document if isinstance(document, str) else "")
    named = document.get("type")
    kind = named if isinstance(named, str) else ""
    if kind == "text":
        says = document.get("text")
        return Block(
            BlockKind.TEXT if isinstance(says, str) else BlockKind.OTHER, document, _read_as_text(says)
        )
    if kind in _CALL_TYPES:
        return Block(
            _TOOL_CALL,
            document,
            "",
            word(document.get("id")) or word(document.get("call_id")),
            word(document.get("name")),
        )
    if kind in _REASONING_TYPES:
        return Block(
            BlockKind.REASONING, document, _read_as_text(document.get("thinking") or document.get("text"))
        )
    if kind in _RESULT_TYPES:
        output = document.get("output")
        return Block(
            BlockKind.TOOL_RESULT,
            document,
            _read_as_text(document.get("content") if output is None else output),
        )
    if kind in _IMAGES:
        return Block(BlockKind.IMAGE, document)
    if kind in _FILES:
        return Block(
            BlockKind.FILE, document, _read_as_text(document.get("name") or document.get("fileName"))
        )
    return Block(BlockKind.OTHER, document, _read_as_text(document.get("text")))


def word(value: Json) -> str | None:
    """A text of at least one character, be it a blank; else None."""
    return value if isinstance(value, str) and value else None


def _read_as_text(value: Json) -> str:
    """What a value says to a reader: a text, the texts of blocks, else its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [_read_as_text(one.get("text")) for one in value if isinstance(one, dict)]
        return "\n".join(filter(None, texts))
    return "" if value is None else stringify(value)


# -- blocks of the present engine ------------------------------------------------------------------------


def _document(part: Part, rules: AssemblyRules, *, vouched: bool) -> Json | NoValue:
    """What a part is sent as; `_NO_VALUE` for one that is not sent."""
    if part.raw is not None:
        own = part.block.get("type")
        named = own if isinstance(own, str) else part.raw_type  # also an empty one
        if named == "thinking" and isinstance(signed := part.block.get("thinkingSignature"), str):
            return _signed(part.block, signed, rules, vouched=vouched)
        if named not in _TOOL_TYPES:
            return part.raw
    row = part.row
    if row.part_type == "reasoning":
        return _reasoning(part)
    if row.part_type == "tool":
        answers = part.original_role == "toolResult" or part.raw_type == _FUNCTION_OUTPUT
        return _result(part) if answers else _call(part)
    if part.raw_type in _CALL_TYPES:
        return _call(part)
    if part.raw_type in _RESULT_TYPES:
        return _result(part)
    if row.part_type == "text":
        return _text(row.text or "")
    return _otherwise(part)


def _signed(raw: JsonObject, signature: str, rules: AssemblyRules, *, vouched: bool) -> Json | NoValue:
    """Reasoning with its provider's signature, or without one that nobody can vouch for."""
    if rules.restores_reasoning_items and signature.startswith("{") and raw.get("type") == "thinking":
        # The host keeps the whole item of OpenAI's Responses API where others keep a signature.
        item = _value(signature)
        if isinstance(item, dict) and item.get("type") == "reasoning" and isinstance(item.get("id"), str):
            return item
    if vouched:
        return raw
    if signature == _NO_SIGNATURE:
        return _NO_VALUE
    return {name: value for name, value in raw.items() if name != "thinkingSignature"}


def _reasoning(part: Part) -> JsonObject:
    kind = "thinking" if part.raw_type == "thinking" else "reasoning"
    if not part.row.text:
        return {"type": kind}
    return {"type": kind, "thinking" if kind == "thinking" else "text": part.row.text}


def _call(part: Part) -> JsonObject:
    """A tool call by columns and block together; what else the host noted in its block is gone."""
    named = part.raw_type if part.raw_type in _CALL_TYPES else "toolCall"
    call: dict[str, Json] = {"type": named}
    call_id = _call_id(part)
    if named != _FUNCTION_CALL:
        call["id"] = call_id or f"{_MADE_ID}{part.row.part_id}"
    elif call_id:
        call["call_id"] = call_id
    if name := _tool_name(part):
        call["name"] = name
    given = _input(part)
    if given is not _NO_VALUE:
        call["arguments" if named in _WITH_ARGUMENTS or named == _FUNCTION_CALL else "input"] = given
    return call


def _result(part: Part) -> JsonObject:
    """A tool's answer, likewise; plain text where the host sent nothing else."""
    row, raw = part.row, part.block
    says = raw.get("text")
    bare = "output" not in raw and "content" not in raw and not row.tool_output
    if bare and isinstance(says, str) and (row.text is None or row.text == says):
        return _text(says)
    named = part.raw_type if part.raw_type in _RESULT_TYPES else "tool_result"
    result: dict[str, Json] = {"type": named}
    if name := _tool_name(part):
        result["name"] = name
    if row.tool_output:
        result["output"] = _value_or(row.tool_output, row.tool_output)
    elif row.text is not None:
        result["output"] = row.text
    elif "output" in raw:
        result["output"] = raw["output"]
    elif "content" in raw:
        result["content"] = raw["content"]
    else:
        result["output"] = ""
    for failed in ("is_error", "isError"):
        if isinstance(raw.get(failed), bool):
            result[failed] = raw[failed]
            break
    if call_id := _call_id(part):
        result["call_id" if named == _FUNCTION_OUTPUT else "tool_use_id"] = call_id
    return result


def _call_id(part: Part) -> str | None:
    raw = part.block
    return part.row.tool_call_id or word(raw.get("id")) or word(raw.get("call_id"))


def _tool_name(part: Part) -> str | None:
    return part.row.tool_name or word(part.block.get("name"))


def _input(part: Part) -> Json | NoValue:
    """What a tool is called with; JSON in a text becomes a value. `_NO_VALUE` without any."""
    given: Json | NoValue = part.row.tool_input
    if not given:
        given = part.block.get("arguments")
        if given is None:
            given = part.block.get("input", _NO_VALUE)  # null is an input
    if isinstance(given, str):
        return _value_or(given, given) if given else _NO_VALUE
    return given


#: How deep JSON in a row may be nested; to write it again takes a call for every level.
_DEEPEST: Final = 200


def _value_or(text: str, otherwise: str | None) -> Json:
    found = _value(text)
    return otherwise if found is _NO_VALUE else found


def _value(text: str) -> Json | NoValue:
    """The value that a text writes; `_NO_VALUE` when it is no JSON, or deeper than any host's."""
    try:
        found = read_json(text)
    except ValueError:
        return _NO_VALUE
    # So deep it can only be when it is long.
    deep = len(text) > 2 * _DEEPEST and text.count("[") + text.count("{") > _DEEPEST and _is_deep(found)
    return _NO_VALUE if deep else found


def _is_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(_DEEPEST):
        inner: list[Json] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = inner
    return any(isinstance(one, dict | list) for one in level)


# -- blocks of both engines ------------------------------------------------------------------------------


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _otherwise(part: Part) -> JsonObject:
    """A part that is neither text, reasoning nor a tool's, without a block of the host."""
    if part.row.text:
        return _text(part.row.text)
    return _text("" if part.noted is None else stringify(part.noted))


# -- blocks of 0.1 ---------------------------------------------------------------------------------------


def _block_of_0_1(part: Part) -> Json:
    if part.raw is not None:
        return part.raw
    row = part.row
    if row.part_type in ("text", "reasoning"):
        return _text(row.text or "")
    if row.part_type == "tool":
        output = _value(row.tool_output) if row.tool_output else _NO_VALUE
        if output is not _NO_VALUE:
            return output
        texts = (row.text, row.tool_output, row.tool_input)
        return _text(next((text for text in texts if text is not None), ""))
    return _otherwise(part)


# -- messages --------------------------------------------------------------------------------------------
# A stored message, or one that the host holds in memory, as the message that is sent.

#: What a result is said to come from where no name was noted.
UNKNOWN_TOOL = "unknown"


class RebuiltMessage(Record, frozen=True):
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
    call_id = _rebuild_call_id(parts, rules) if role is Role.TOOL_RESULT else None
    if role is Role.TOOL_RESULT and call_id is None:
        role = Role.ASSISTANT
    identity = _identity(parts) if role is Role.ASSISTANT and rules.names_authors else None
    content = _content(message.content, parts, role, rules, identity)
    if role is Role.TOOL_RESULT:
        if not rules.names_results:
            return RebuiltMessage(role, content, call_id)
        return RebuiltMessage(role, content, call_id, _rebuild_tool_name(parts), _is_error(parts))
    if role is Role.ASSISTANT:
        reasoning = _rebuild_reasoning(parts) if rules.names_authors else None
        return RebuiltMessage(role, content, identity=identity, reasoning=reasoning)
    sender = recorded_sender(message.sender) if rules.names_authors and message.role == "user" else None
    return RebuiltMessage(role, content, sender=sender)


def rebuilt_content(text: str, rows: Sequence[MessagePart], role: Role, rules: AssemblyRules) -> Content:
    """The content that a message of *role* has by its parts; by *text*, its own, where they give none.

    *role* is as given, whatever the parts say of it.
    """
    parts = parts_with_metadata(rows)
    return _content(text, parts, role, rules, _identity(parts) if role is Role.ASSISTANT else None)


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


# -- roles -----------------------------------------------------------------------------------------------

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


def _rebuild_call_id(parts: Sequence[Part], rules: AssemblyRules) -> str | None:
    """The call that a result answers, of the first part that names one."""
    for part in parts:
        noted = word(part.metadata.get("toolCallId")) if rules.names_results else None
        found = part.row.tool_call_id or noted or _first(part.block, "toolCallId", "tool_call_id")
        if found:
            return found
    return None


def _rebuild_tool_name(parts: Sequence[Part]) -> str:
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


def _rebuild_reasoning(parts: Sequence[Part]) -> str | None:
    """What a provider keeps as ``reasoning_content`` beside the content."""
    for part in parts:
        if part.metadata.get("topLevelReasoningField") == "reasoning_content":
            said = word(part.metadata.get("topLevelReasoningContent"))
            if said is not None:
                return said
    return None


# -- senders ---------------------------------------------------------------------------------------------


#: What is sent and said of a sender, in this order.
_MEMBERS: Final = ("senderId", "senderName", "senderUsername")


def recorded_sender(recorded: str | None) -> JsonObject | None:
    """The members of a recorded sender that say something, unchanged; None without any.

    docs/spec/assembly.md, "Messages".
    """
    if not recorded:
        return None
    return sender_fields(parsed_object(recorded)) or None


def sender_fields(sender: JsonObject) -> JsonObject:
    """The members of a sender that say something, unchanged."""
    values = ((name, sender.get(name)) for name in _MEMBERS)
    return {name: value for name, value in values if isinstance(value, str) and value.strip(BLANKS)}


# -- tokens ----------------------------------------------------------------------------------------------


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
    reasoning = _rebuild_reasoning(parts_with_metadata(counted))
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
