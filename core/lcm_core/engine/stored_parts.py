"""What a host said, as ``messages.content`` and the rows of ``message_parts`` keep it.

docs/spec/ingest.md, "What a block is", "What a message says" and "Parts".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_json, read_json
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, field

REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
RESULTS: Final = frozenset({"function_call_output", "tool_result", "toolResult", "tool_use_result"})
_CALLS: Final = frozenset(
    {"tool_use", "toolUse", "tool-use", "toolCall", "tool_call", "functionCall", "function_call"}
)
#: Blocks that say nothing in ``messages.content``.
TOOLS: Final = _CALLS | RESULTS
#: The members that hold the id of a tool call, the first one counts.
CALL_IDS: Final = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
#: The members that hold nested blocks, beside lists.
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


# -- what a message says -----------------------------------------------------------------------------------


#: What is nested deeper says nothing.
_DEEPEST: Final = 6
_TEXTS: Final = ("text", "transcript", "transcription", "message", "summary")
_OUTPUTS: Final = ("output", "content", "result")


def message_text(message: JsonObject) -> str:
    """The text of a whole message."""
    if "content" in message:
        return content_as_text(message["content"])
    if "output" in message:
        command, output = (_as_text(message.get(name)) for name in ("command", "output"))
        return f"$ {command}\n{output}"
    return ""


def content_as_text(content: Json) -> str:
    """What a content says; what says nothing is kept as its JSON, unless it is empty or of tools alone."""
    if (found := text_in(content)) is not None:
        return found
    if content is None or content == []:
        return ""
    if isinstance(content, list) and all(type_of(block) in TOOLS | REASONING for block in content):
        return ""
    return js_json(content)


def text_in(value: Json, depth: int = 0) -> str | None:
    """What a value says; None for nothing, which an empty text is not."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return _said_in_text(value, depth)
    if isinstance(value, list):
        texts = [text for each in value if (text := text_in(each, depth + 1)) and not says_nothing(text)]
        return "\n".join(texts) if texts else None
    return _said_by_object(value, depth) if isinstance(value, dict) else None


def says_nothing(text: str | None) -> bool:
    """Whether a text says nothing when it is trimmed."""
    return text is None or not text.strip(BLANKS)


def _said_in_text(text: str, depth: int) -> str:
    trimmed = text.strip(BLANKS)
    if trimmed[:1] + trimmed[-1:] in ("{}", "[]") and len(trimmed) > 1:
        try:
            value = read_json(trimmed)
        except ValueError:
            return text
        return text_in(value, depth + 1) or text
    return text


def _said_by_object(block: JsonObject, depth: int) -> str | None:
    kind = type_of(block)
    if kind in REASONING:
        return None
    if kind in TOOLS:
        if block.get("toolOutputExternalized") is not True:
            return None
        texts = (text_in(block.get(name), depth + 1) for name in _OUTPUTS)
        found = next((text for text in texts if text is not None), None)
        return None if says_nothing(found) else found
    for name in _TEXTS:
        value = block.get(name)
        if isinstance(value, str) and not says_nothing(value):
            return value
    for name in LISTS:
        value = block.get(name)
        if isinstance(value, list) and (found := text_in(value, depth + 1)) is not None:
            return found
    texts = (text_in(block.get(name), depth + 1) for name in HOLDERS)
    return next((text for text in texts if not says_nothing(text)), None)


def _as_text(value: Json) -> str:
    """A value as the engine's language puts it into a text."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list) and one:
            waiting += reversed(one)
        elif isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict):
            texts.append("[object Object]")
        else:
            texts.append("" if one is None or one == [] else js_json(one))
    return ",".join(texts)


# -- its parts ---------------------------------------------------------------------------------------------


class StoredPart(Record, frozen=True):
    """One row of ``message_parts``, but for its ids."""

    part_type: str
    text: str | None
    tool_call_id: str | None
    tool_name: str | None
    tool_input: str | None
    tool_output: str | None
    metadata: str  #: JSON
    noted: JsonObject = field(default_factory=dict)  #: the same, as it is counted


class TopLevel(Record, frozen=True):
    """What a message says of itself beside its content."""

    role: str  #: as the host gave it
    call_id: str | None
    tool_name: str | None
    is_error: bool | None
    identity: JsonObject  #: the model that answered; empty when it is not named in full
    reasoning: str | None  #: ``reasoning_content`` of an answer


_PART_TYPES: Final[Mapping[str, str]] = {
    "text": "text",
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "reasoning"),
    **dict.fromkeys(("tool_use", "toolUse", "tool-use", "toolCall", "functionCall", "function_call"), "tool"),
    **dict.fromkeys(("function_call_output", "tool_result", "toolResult", "tool"), "tool"),
    **dict.fromkeys(("file", "image"), "file"),
    **{name: name for name in ("patch", "subtask", "compaction", "snapshot", "retry")},
    **dict.fromkeys(("step_start", "step-start"), "step_start"),
    **dict.fromkeys(("step_finish", "step-finish"), "step_finish"),
}
_IDENTITY: Final = (("modelProvider", "provider"), ("modelApi", "api"), ("modelId", "model"))
_NAMES: Final = ("toolName", "tool_name")
#: What a message says of the call that it answers.
_CALL_KEYS: Final = frozenset({*CALL_IDS, "id", *_NAMES, "isError", "is_error"})
_TEXT_KEYS: Final = frozenset({"type", "text"})
#: Marks of a payload that was taken out: of a block, and of a message that is one text.
_BLOCK_MARKS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "externalizedFileId": str,
    "originalByteSize": (int, float),
    "imageExternalized": bool,
    "toolOutputExternalized": bool,
    "externalizationReason": str,
}


def top_level(message: JsonObject) -> TopLevel:
    """What a message says of itself."""
    role = message.get("role")
    is_answer = role == "assistant"
    if not is_answer and _CALL_KEYS.isdisjoint(message):
        return TopLevel(role if isinstance(role, str) else "", None, None, None, {}, None)
    thought = message.get("reasoning_content")
    return TopLevel(
        role if isinstance(role, str) else "",
        first_text(message, (*CALL_IDS, "id")),
        first_text(message, _NAMES),
        first_flag(message, ("isError", "is_error")),
        _identity(message) if is_answer else {},
        thought if is_answer and isinstance(thought, str) and thought.strip(BLANKS) else None,
    )


def _identity(message: JsonObject) -> JsonObject:
    found: JsonObject = {name: message.get(key) for name, key in _IDENTITY}
    if not all(isinstance(value, str) for value in found.values()):
        return {}
    answered = message.get("responseModel")
    return {**found, "responseModelId": answered} if isinstance(answered, str) else found


def parts_of(message: JsonObject, top: TopLevel) -> list[StoredPart]:
    """The parts of a message as it is stored: payloads have been taken out."""
    if "content" not in message:
        return [_without_content(message, top)]
    content = message["content"]
    if isinstance(content, str):
        return [_of_text(content, message, top)]
    if isinstance(content, list):
        return list(_of_list(content, top))
    metadata: JsonObject = {
        "originalRole": top.role,
        "source": "non-array-content",
        "raw": content,
        **_reasoning(top),
    }
    return [_part("agent", message_text(message) or None, metadata)]


def _without_content(message: JsonObject, top: TopLevel) -> StoredPart:
    if "command" in message and "output" in message:
        metadata: dict[str, Json] = {"originalRole": top.role, "source": "bash-exec"}
        if isinstance(message["command"], str):
            metadata["command"] = message["command"]
        return _part("text", message_text(message), metadata)
    return _part("agent", None, {"originalRole": top.role, "source": "unknown-message-shape", "raw": message})


def _of_text(content: str, message: JsonObject, top: TopLevel) -> StoredPart:
    metadata: JsonObject = {"originalRole": top.role, **top.identity, **_call_fields(top), **_reasoning(top)}
    return _part("text", content, {**metadata, **_text_marks(message)})


def _text_marks(message: JsonObject) -> JsonObject:
    """What the metadata of a text says of the payloads that were taken out of it."""
    found: dict[str, Json] = {}
    if message.get("rawPayloadExternalized") is True:
        found["rawPayloadExternalized"] = True
    if isinstance(file_id := message.get("externalizedFileId"), str):
        found["externalizedFileId"] = file_id
    if isinstance(ids := message.get("externalizedFileIds"), list):
        kept: list[Json] = [one for one in ids if isinstance(one, str)]
        if kept:
            found["externalizedFileIds"] = kept
    if message.get("fileBlocksExternalized") is True:
        found["fileBlocksExternalized"] = True
    size = message.get("originalByteSize")
    if isinstance(size, int | float) and not isinstance(size, bool):
        found["originalByteSize"] = size
    if isinstance(reason := message.get("externalizationReason"), str):
        found["externalizationReason"] = reason
    return found


def _of_list(content: list[Json], top: TopLevel) -> Iterator[StoredPart]:
    if not content and top.reasoning is not None:
        metadata: JsonObject = {
            "originalRole": top.role,
            **top.identity,
            "rawType": "reasoning_content",
            **_reasoning(top),
            "topLevelReasoningOnly": True,
        }
        yield _part("reasoning", None, metadata)
    call_fields = _call_fields(top)
    for ordinal, entry in enumerate(content):
        base: dict[str, Json] = {"originalRole": top.role}
        if ordinal == 0:
            base.update(top.identity)
        base.update(call_fields)
        if ordinal == 0:
            base.update(_reasoning(top))
        yield _of_entry(entry, base, top)


def _of_entry(entry: Json, base: JsonObject, top: TopLevel) -> StoredPart:
    block: JsonObject = entry if isinstance(entry, dict) else {}
    if block.keys() == _TEXT_KEYS and block["type"] == "text" and isinstance(text := block["text"], str):
        noted: JsonObject = {**base, "rawType": "text", "raw": entry}
        return StoredPart("text", text, top.call_id, top.tool_name, None, None, js_json(noted), noted)
    kind = first_text(block, ("rawType", "type"))
    kind = "agent" if kind is None else kind
    metadata: JsonObject = {
        **base,
        **_block_marks(block),
        "rawType": kind,
        "raw": entry
        if not block or block.get("type") == kind or "rawType" not in block
        else {**block, "type": kind},
    }
    part_type = _PART_TYPES.get(kind, "agent")
    ids = (*CALL_IDS, "id") if part_type == "tool" else CALL_IDS
    call_id, name = first_text(block, ids), first_text(block, ("name", *_NAMES))
    return StoredPart(
        part_type,
        _entry_text(block),
        top.call_id if call_id is None else call_id,
        top.tool_name if name is None else name,
        _tool_column(block, ("input", "arguments", "toolInput"), "tool_input"),
        _tool_column(block, ("output", "toolOutput"), "tool_output"),
        js_json(metadata),
        metadata,
    )


def _entry_text(block: JsonObject) -> str | None:
    text = first_text(block, ("text", "thinking"))
    if text is None and block.get("type") in ("reasoning", "thinking"):
        texts = [trimmed for one in _summaries(block.get("summary")) if (trimmed := one.strip(BLANKS))]
        text = "\n".join(dict.fromkeys(texts)) or None
    return text


def _summaries(value: Json) -> Iterator[str]:
    """The texts in the summary of a reasoning block."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            waiting += [one.get("value"), one.get("text")]


def _tool_column(block: JsonObject, names: tuple[str, ...], as_it_is: str) -> str | None:
    """What goes to a tool column: a member written as JSON, else one that is written already."""
    name = next((name for name in names if name in block), None)
    if name is not None:
        return js_json(block[name])
    value = block.get(as_it_is)
    return value if isinstance(value, str) else None


def _block_marks(block: JsonObject) -> JsonObject:
    return {
        name: block[name]
        for name, kind in _BLOCK_MARKS.items()
        if isinstance(block.get(name), kind) and (kind is bool or not isinstance(block[name], bool))
    }


def _call_fields(top: TopLevel) -> JsonObject:
    """What every part of a message repeats of the call that it answers."""
    found: dict[str, Json] = {}
    if top.call_id is not None:
        found["toolCallId"] = top.call_id
    if top.tool_name is not None:
        found["toolName"] = top.tool_name
    if top.is_error is not None:
        found["isError"] = top.is_error
    return found


def _reasoning(top: TopLevel) -> JsonObject:
    if top.reasoning is None:
        return {}
    return {"topLevelReasoningField": "reasoning_content", "topLevelReasoningContent": top.reasoning}


def _part(part_type: str, text: str | None, metadata: JsonObject) -> StoredPart:
    return StoredPart(part_type, text, None, None, None, None, js_json(metadata), metadata)
