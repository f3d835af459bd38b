"""A stored message as the blocks and fields it was sent with: ``message_parts`` put together again.

The host's own block (``raw`` in the metadata) is what is sent; columns stand in where it is not recorded, and
the text column wins over the block's, since the engine redacts and takes out payloads there (engine.md 3, 5).
From 0.8 on the engine counts a message in this very form when it stores it, so stored counts prove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from lcm_core.assemble.js import parsed, parsed_object, stringify
from lcm_core.assemble.message import Block, BlockKind, Content, Identity, Role
from lcm_core.assemble.rules import AssemblyRules
from lcm_core.dag.markers import BLANKS
from lcm_core.frozen import dataclass
from lcm_core.javascript import Json, JsonObject
from lcm_core.records import Message, MessagePart

_TEXT = {"text", "inputtext", "outputtext"}
_REASONING = {"thinking", "redactedthinking", "reasoning"}
_CALL = {"tooluse", "toolcall", "functioncall"}
_RESULT = {"toolresult", "tooluseresult", "functioncalloutput", "functionresult"}
_IMAGE = {"image", "inputimage", "imageurl"}
_FILE = {"file", "inputfile", "document"}
_SIGNATURES = ("thinkingSignature", "thoughtSignature", "signature")
_CALL_IDS = ("toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "callId", "id")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a stored message is sent as."""

    role: Role
    content: Content
    call_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A row of ``message_parts`` with its metadata read."""

    row: MessagePart
    metadata: JsonObject
    raw: JsonObject
    raw_type: str  #: of the host's block, as `plain` writes it


def rebuild(message: Message, rows: tuple[MessagePart, ...], rules: AssemblyRules) -> Rebuilt:
    """Put a message together from its parts, or from its text where this version stored none."""
    parts = [_part(row) for row in rows]
    if message.role == "tool":
        call_id = _call_id(parts)
        if call_id is not None:
            return Rebuilt(
                Role.TOOL_RESULT,
                _result_content(message, parts, rules),
                call_id,
                _first_text([part.row.tool_name or part.metadata.get("toolName") for part in parts]),
                _is_error(parts),
            )
        return Rebuilt(Role.ASSISTANT, _result_content(message, parts, rules), identity=_identity(parts))
    if message.role == "assistant":
        identity = _identity(parts)
        vouched = identity is not None or not rules.signatures_need_identity
        found = [block for part in parts if (block := _block(part, rules, vouched=vouched)) is not None]
        return Rebuilt(Role.ASSISTANT, tuple(found) if found else message.content, identity=identity)
    found = [block for part in parts if (block := _block(part, rules)) is not None]
    if not found:
        return Rebuilt(Role.USER, message.content)
    if len(found) == 1 and found[0].kind is BlockKind.TEXT:
        return Rebuilt(Role.USER, found[0].text)
    return Rebuilt(Role.USER, tuple(found))


def host_block(raw: JsonObject) -> Block:
    """A block of the host as it stands; a call keeps its id, a text what it says."""
    kind = plain(raw.get("type"))
    if kind in _TEXT:
        return Block(BlockKind.TEXT, raw, _text(raw.get("text")))
    if kind in _REASONING:
        return Block(BlockKind.REASONING, raw, _text(raw.get("thinking") or raw.get("text")))
    if kind in _CALL:
        return Block(
            BlockKind.TOOL_CALL,
            raw,
            stringify(_first(raw, "arguments", "input", "args", "params")),
            _first_text([raw[key] for key in _CALL_IDS if key in raw]),
            _first_text([raw.get("name"), raw.get("toolName")]),
        )
    if kind in _IMAGE:
        return Block(BlockKind.IMAGE, raw)
    if kind in _FILE:
        return Block(BlockKind.FILE, raw, _text(raw.get("name") or raw.get("fileName")))
    return Block(BlockKind.OTHER, raw, _text(raw.get("text")))


def text_block(text: str) -> Block:
    """A text as a block."""
    return Block(BlockKind.TEXT, {"type": "text", "text": text}, text)


def plain(name: Json) -> str:
    """The name of a type as all hosts would write it: ``tool_use``, ``toolUse`` and ``tool-use`` are one."""
    return _plain(name) if isinstance(name, str) else ""


@lru_cache(maxsize=256)
def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# -- one part --------------------------------------------------------------------------------------------


def _part(row: MessagePart) -> _Part:
    metadata = parsed_object(row.metadata)
    raw = metadata.get("raw")
    block: JsonObject = raw if isinstance(raw, dict) else {}
    return _Part(row, metadata, block, plain(block.get("type") or metadata.get("rawType")))


def _block(part: _Part, rules: AssemblyRules, *, vouched: bool = True) -> Block | None:
    """What a part is sent as; None for one that says nothing (a snapshot, a step)."""
    row = part.row
    if row.part_type == "reasoning" or part.raw_type in _REASONING:
        return _reasoning(part, rules, vouched=vouched)
    if row.part_type == "text" or part.raw_type in _TEXT:
        return _text_of(part)
    if part.raw_type in _CALL or part.raw_type in _RESULT:
        return _tool(part)
    if part.raw:
        return host_block(part.raw)
    if row.part_type == "tool":
        return _tool(part)
    if row.part_type == "file" and (row.file_url or row.file_name):
        return text_block(row.text or f"[file: {row.file_name or row.file_url}]")
    return text_block(row.text) if row.text else None


def _text_of(part: _Part) -> Block:
    """A text with whatever the host or the engine noted in its block, such as the file of a picture."""
    text = part.row.text if part.row.text is not None else _text(part.raw.get("text"))
    if part.raw_type not in _TEXT or not part.raw:
        return text_block(text)
    document = part.raw if part.raw.get("text") == text else {**part.raw, "text": text}
    return Block(BlockKind.TEXT, document, text)


def _reasoning(part: _Part, rules: AssemblyRules, *, vouched: bool) -> Block:
    """Reasoning with its provider's signature, or without one that nobody can vouch for (engine.md 3)."""
    raw: dict[str, Json] = dict(part.raw)
    if not raw:
        return Block(
            BlockKind.REASONING, {"type": "thinking", "thinking": part.row.text or ""}, part.row.text or ""
        )
    if not vouched:
        raw = {name: value for name, value in raw.items() if name not in _SIGNATURES}
        return host_block(raw)
    if rules.restores_reasoning_items and plain(raw.get("type")) == "thinking":
        # The host keeps the whole item of OpenAI's Responses API where others keep a signature.
        item = parsed_object(_text(raw.get("thinkingSignature")))
        if item.get("type") == "reasoning":
            return Block(BlockKind.REASONING, item, part.row.text or _text(raw.get("thinking")))
    return host_block(raw)


def _tool(part: _Part) -> Block:
    """A tool call, by the host's block or the columns; an answer inside another message is sent as it was."""
    row = part.row
    if part.raw_type in _RESULT and part.raw:
        return Block(BlockKind.OTHER, part.raw, row.tool_output or "")
    if part.raw:
        block = host_block(part.raw)
        if block.call_id is None and row.tool_call_id:
            document: JsonObject = {**part.raw, "id": row.tool_call_id}
            return Block(BlockKind.TOOL_CALL, document, block.text, row.tool_call_id, block.tool_name)
        return block
    arguments = parsed(row.tool_input)
    call: JsonObject = {
        "type": "toolCall",
        "id": row.tool_call_id or "",
        "name": row.tool_name or "",
        "arguments": arguments if arguments is not None else row.tool_input or {},
    }
    return Block(BlockKind.TOOL_CALL, call, row.tool_input or "", row.tool_call_id, row.tool_name)


# -- tool results ----------------------------------------------------------------------------------------


def _result_content(message: Message, parts: list[_Part], rules: AssemblyRules) -> Content:
    """What a tool answered: the texts of its parts, its pictures as they were."""
    found = [block for part in parts if (block := _result_block(part, rules)) is not None]
    return tuple(found) if found else (text_block(message.content),)


def _result_block(part: _Part, rules: AssemblyRules) -> Block | None:
    row = part.row
    if row.tool_output is not None:
        return text_block(row.tool_output)
    if part.raw_type in _RESULT:
        output = _first(part.raw, "output", "content", "result", "text")
        return text_block(row.text if row.text is not None else _text(output))
    return _block(part, rules)


def _call_id(parts: list[_Part]) -> str | None:
    """The call that a tool's message answers: the column, the metadata, or the host's block."""
    return (
        _first_text([part.row.tool_call_id for part in parts])
        or _first_text([part.metadata.get("toolCallId") for part in parts])
        or _first_text([part.raw.get(key) for part in parts if part.raw_type in _RESULT for key in _CALL_IDS])
    )


def _is_error(parts: list[_Part]) -> bool | None:
    if any(part.row.tool_error for part in parts):
        return True
    said = [part.metadata.get("isError") for part in parts]
    said += [part.raw.get(key) for part in parts for key in ("isError", "is_error")]
    return next((one for one in said if isinstance(one, bool)), None)


# -- values ----------------------------------------------------------------------------------------------


def _identity(parts: list[_Part]) -> Identity | None:
    """The model that wrote a message, as its first part notes it."""
    if not parts:
        return None
    noted = [_said(parts[0].metadata.get(name)) for name in ("modelProvider", "modelApi", "modelId")]
    return Identity(*noted) if any(noted) else None


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [_text(one.get("text")) for one in value if isinstance(one, Mapping)]
        return "\n".join(filter(None, texts))
    return "" if value is None else stringify(value)


def _first(block: JsonObject, *keys: str) -> Json:
    return next((block[key] for key in keys if block.get(key) is not None), None)


def _first_text(values: Iterable[Json]) -> str | None:
    for one in values:
        if (text := _said(one)) is not None:
            return text
    return None


def _said(value: Json) -> str | None:
    return value if isinstance(value, str) and value.strip(BLANKS) else None
