"""From what a host said to rows, as engines before 0.15 made them.

Source: docs/engine/ingest.md, "Older engines".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lcm_core.engine_rules import IngestRules
from lcm_core.ingest.jsonl import BadLineError, decode_object, string
from lcm_core.ingest.parts import StoredPart
from lcm_core.javascript import Json, JsonObject, js_json, well_formed

#: Keys of a block's metadata that say where its payload went, as the engine writes them.
EXTERNAL: Final = (
    "externalizedFileId",
    "externalizedFileIds",
    "originalByteSize",
    "imageExternalized",
    "toolOutputExternalized",
    "rawPayloadExternalized",
    "fileBlocksExternalized",
    "externalizationReason",
)
_TEXT: Final = frozenset({"text", "input_text", "output_text"})
_REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_FILE: Final = frozenset({"image", "file", "document"})
_CALL: Final = frozenset({"tooluse", "toolcall", "functioncall"})
_RESULT: Final = frozenset({"toolresult", "tooluseresult", "functioncalloutput"})
_DEPTH: Final = 8
_CALL_ID: Final = ("toolCallId", "tool_call_id", "tool_use_id", "call_id", "id")


def content_of(message: JsonObject) -> Json:
    """What a message says; a command that the operator ran in the host is its text."""
    if "content" in message or message.get("role") != "bashExecution":
        return message.get("content")
    command, output = (string(message.get(key)) or "" for key in ("command", "output"))
    return [{"type": "text", "text": f"$ {command}\n{output}"}]


def text_of_content(content: Json, rules: IngestRules) -> str:
    """The text in a message, as ``messages.content`` keeps it."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return next((text for key in ("text", "output") if (text := string(content.get(key)))), "")
    if not isinstance(content, list):
        return ""
    text = "\n".join(_texts(content, rules.loose_text, 0))
    thinks = any(isinstance(block, dict) and _type(block) in _REASONING for block in content)
    return js_json(content) if rules.loose_text and thinks and not text else text


def _texts(content: Json, loose: bool, depth: int) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list) and depth < _DEPTH:
        for block in content:
            if not isinstance(block, dict):
                continue
            kind = _type(block)
            if kind in _TEXT and isinstance(block.get("text"), str):
                yield str(block["text"])
            elif _plain(kind) in _RESULT:
                yield from _texts(_output(block), loose, depth + 1)
            elif loose and kind in _FILE and (data := string(block.get("data"))):
                yield data


def stored_parts(message: JsonObject, role: str, marks: JsonObject, rules: IngestRules) -> list[StoredPart]:
    """The parts of a message whose payloads have been taken out; *marks* say so of a text without blocks."""
    base = _base(message, role, rules)
    content = content_of(message)
    if isinstance(content, str | dict):
        text = content if isinstance(content, str) else js_json(content)
        return [_part("text", message, role, {**base, **marks}, rules, text=text)]
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    if content is None and set(message) - {"role", "timestamp"}:
        whole: JsonObject = {**base, "rawType": str(message.get("role")), "raw": message}
        return [_part("agent", message, role, whole, rules)]
    return [_block_part(block, message, role, base, rules) for block in blocks]


def _base(message: JsonObject, role: str, rules: IngestRules) -> JsonObject:
    """What the metadata of every part of a message begins with."""
    base: dict[str, Json] = {"originalRole": message.get("role")}
    if role == "tool" and rules.results_are_named:
        base |= {key: message[key] for key in ("toolCallId", "toolName", "isError") if key in message}
    if message.get("role") == "bashExecution":
        kept = ("exitCode", "cancelled", "truncated", "fullOutputPath", "excludeFromContext")
        base["bashExecution"] = {key: message[key] for key in kept if key in message}
    return base


def _block_part(
    block: Json, message: JsonObject, role: str, base: JsonObject, rules: IngestRules
) -> StoredPart:
    if not isinstance(block, dict):
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        else:
            return _part("agent", message, role, {**base, "raw": block}, rules)
    kind = _type(block)
    marks: JsonObject = {key: block[key] for key in EXTERNAL if key in block}
    metadata: JsonObject = {**base, **marks, "rawType": block.get("type"), "raw": block}
    if kind in _TEXT:
        return _part("text", message, role, metadata, rules, text=_string(block.get("text")))
    if kind in _REASONING:
        return _part("reasoning", message, role, metadata, rules, text=_thought(block))
    if _plain(kind) in _CALL | _RESULT:
        return _tool_part(block, message, role, metadata, rules)
    return _part("file" if kind in _FILE else "agent", message, role, metadata, rules)


def _tool_part(
    block: JsonObject, message: JsonObject, role: str, metadata: JsonObject, rules: IngestRules
) -> StoredPart:
    name = _first(block, ("name", "toolName", "tool_name")) or _first(message, ("toolName",))
    if not rules.calls_are_tools:
        return StoredPart("agent", None, None, name, None, None, js_json(metadata))
    given = next((block[key] for key in ("arguments", "input") if block.get(key) is not None), None)
    output = _output(block) if _plain(_type(block)) in _RESULT else None
    return StoredPart(
        "tool",
        None,
        _first(block, _CALL_ID) or _first(message, ("toolCallId",)),
        name,
        _as_text(given),
        _as_text(output),
        js_json(metadata),
    )


def _part(
    part_type: str,
    message: JsonObject,
    role: str,
    metadata: JsonObject,
    rules: IngestRules,
    text: str | None = None,
) -> StoredPart:
    """A part that is no tool block; one of a tool's answer names the call."""
    call = _first(message, _CALL_ID[:-1]) if role == "tool" else None
    name = _first(message, ("toolName", "tool_name")) if role == "tool" and rules.results_are_named else None
    text = None if text is None else well_formed(text)
    return StoredPart(part_type, text, call, name, None, None, js_json(metadata))


def text_to_count(message: JsonObject, role: str, rules: IngestRules) -> str:
    """The text that a message's tokens are estimated of.

    The string itself where the host sent one, also in the only block of a user's message; else the JSON of
    the blocks. Of sealed reasoning the block inside the signature counts from 0.8 on, for it is what goes to
    the model again.
    """
    content = content_of(message)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else js_json(content)
    only = content[0] if role == "user" and len(content) == 1 else None
    if isinstance(only, dict) and _type(only) in _TEXT and isinstance(only.get("text"), str):
        return str(only["text"])
    if not rules.opens_signatures:
        return js_json(content)
    return js_json([_as_sent(block) for block in content])


def _as_sent(block: Json) -> Json:
    """A block as it goes to the model again: the one that a signature seals, where it does."""
    signature = block.get("thinkingSignature") if isinstance(block, dict) else None
    if isinstance(signature, str) and signature.startswith("{"):
        try:
            inner = decode_object(signature)
        except BadLineError:
            return block
        if inner.get("type") == "reasoning":
            return inner
    return block


def _type(block: JsonObject) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _string(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else js_json(value)


def _as_text(value: Json) -> str | None:
    if value is None:
        return None
    return well_formed(value) if isinstance(value, str) else js_json(value)


def _thought(block: JsonObject) -> str | None:
    found = _first(block, ("thinking", "text", "reasoning"))
    if found is not None:
        return found
    summary = block.get("summary")
    if isinstance(summary, list):
        texts = [str(each["text"]) for each in summary if isinstance(each, dict) and string(each.get("text"))]
        return "\n".join(texts) or None
    return string(summary)


def _output(block: JsonObject) -> Json:
    return next((block[key] for key in ("content", "output", "result") if block.get(key) is not None), None)


def _first(holder: JsonObject, keys: tuple[str, ...]) -> str | None:
    """The first text with something in it, as a database can keep it."""
    return next((well_formed(text) for key in keys if (text := string(holder.get(key))) is not None), None)
