"""What a message holds, as parts that a screen can show, whichever place it was read from.

The same parts come out of a host's message (docs/spec/host.md, "Messages of the host") and of the rows of
``message_parts``, whose metadata keeps the host's block. Block types and roles map as the engine maps them
(docs/spec/ingest.md, "Parts").
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import BadLineError, compact_json, decode_object, peek_object, string
from lcm_core.base.records import MessagePart
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.values import Record, replace


class PartKind(StrEnum):
    """What a part is to a reader."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    IMAGE = "image"
    FILE = "file"
    OTHER = "other"


class ContentPart(Record, frozen=True):
    """One part of a message; text is as the host wrote it and not yet safe to show."""

    kind: PartKind
    raw_type: str  #: the host's or the engine's name for it; empty for a bare string
    text: str = ""  #: what it says; the JSON of a block of a kind that we do not know
    call_id: str | None = None  #: pairs a tool call with its result
    tool_name: str | None = None
    arguments: str | None = None  #: of a tool call, JSON text
    is_error: bool | None = None  #: of a tool result; None when not recorded
    name: str | None = None  #: of a file
    mime: str | None = None
    byte_size: int | None = None  #: of an image's or a file's payload, which is not kept here
    url: str | None = None
    cut: int = 0  #: code points that were left out of ``text`` and ``arguments``


_TEXT = {"text", "inputtext", "outputtext"}
_REASONING = {"thinking", "redactedthinking", "reasoning"}
_CALL = {"tooluse", "toolcall", "functioncall"}
_RESULT = {"toolresult", "tooluseresult", "functioncalloutput", "functionresult"}
_IMAGE = {"image", "inputimage", "imageurl"}
_FILE = {"file", "inputfile", "document"}
_DEPTH = 8
_ROLES = {"user", "assistant", "system", "tool"}


def engine_role(role: str) -> str:
    """The role under which the engine stores a host's message.

    Source: docs/spec/ingest.md, "What is not stored".
    """
    if role in _ROLES:
        return role
    return "tool" if _plain(role) == "toolresult" else "assistant"


def host_parts(message: JsonObject) -> tuple[ContentPart, ...]:
    """The parts of a host's message, in its order."""
    role, content = message.get("role"), message.get("content")
    if role == "bashExecution" and content is None:
        return tuple(_shell(message))
    if isinstance(role, str) and engine_role(role) == "tool":
        return tuple(_result(message, role))
    if content is None:
        text = string(message.get("summary"))
        if text is not None:
            return (ContentPart(PartKind.TEXT, str(role), text),)
        rest: JsonObject = {key: value for key, value in message.items() if key not in ("role", "timestamp")}
        return (json_part(str(role), rest),) if rest else ()
    return content_parts(content)


def content_parts(content: Json) -> tuple[ContentPart, ...]:
    """The parts of a text, a block or a list of both."""
    return tuple(_blocks(content))


def json_part(raw_type: str, value: Json) -> ContentPart:
    """A value of which we know no more than its JSON."""
    return ContentPart(PartKind.OTHER, raw_type, compact_json(value))


def row_parts(row: MessagePart, role: str) -> tuple[ContentPart, ...]:
    """The parts that a row of ``message_parts`` represents; *role* is that of its message.

    The columns win over the host's block in the metadata, because the engine redacts and externalises them.
    """
    metadata = _object(row.metadata)
    raw = metadata.get("raw")
    if row.part_type in ("text", "reasoning") and row.text is not None:
        if role == "tool" and row.tool_call_id is not None:
            return (_row_result(row, row.text, metadata),)
        return (ContentPart(PartKind(row.part_type), row.part_type, row.text),)
    recorded = any(text is not None for text in (row.tool_input, row.tool_output, row.tool_error))
    if isinstance(raw, dict) and not recorded:
        return tuple(_with_row(part, row) for part in _block(raw))
    if recorded or row.part_type == "tool":
        return tuple(_row_tool(row, metadata))
    if row.part_type == "file" or row.file_name or row.file_url:
        image = (row.file_mime or "").startswith("image/")
        kind = PartKind.IMAGE if image else PartKind.FILE
        return (
            ContentPart(
                kind, row.part_type, row.text or "", name=row.file_name, mime=row.file_mime, url=row.file_url
            ),
        )
    return (ContentPart(PartKind.OTHER, row.part_type, row.text or ""),)


def shorten(part: ContentPart, limit: int) -> ContentPart:
    """The part with at most *limit* code points each of text and arguments; what is missing is counted."""
    arguments = part.arguments or ""
    missing = max(0, len(part.text) - limit) + max(0, len(arguments) - limit)
    if not missing:
        return part
    short = arguments[:limit] if part.arguments is not None else None
    return replace(part, text=part.text[:limit], arguments=short, cut=part.cut + missing)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _blocks(content: Json, depth: int = 0) -> Iterator[ContentPart]:
    """The parts of a text, a block or a list of both; what is nested too deeply becomes JSON."""
    if isinstance(content, str):
        yield ContentPart(PartKind.TEXT, "", content)
    elif isinstance(content, list) and depth < _DEPTH:
        for block in content:
            yield from _blocks(block, depth + 1)
    elif isinstance(content, dict) and depth < _DEPTH:
        yield from _block(content, depth)
    elif content is not None:
        yield json_part("", content)


def _block(block: JsonObject, depth: int = 0) -> Iterator[ContentPart]:
    raw_type = block.get("type")
    raw_type = raw_type if isinstance(raw_type, str) else ""
    kind = _plain(raw_type)
    if kind in _TEXT:
        yield ContentPart(PartKind.TEXT, raw_type, _text(block.get("text")))
    elif kind in _REASONING:
        yield ContentPart(PartKind.REASONING, raw_type, _thought(block))
    elif kind in _CALL:
        yield _call(block, raw_type)
    elif kind in _RESULT:
        yield from _result(block, raw_type, depth + 1)
    elif kind in _IMAGE:
        yield _payload(PartKind.IMAGE, block, raw_type)
    elif kind in _FILE:
        yield _payload(PartKind.FILE, block, raw_type)
    else:
        yield json_part(raw_type, block)


def _text(value: Json) -> str:
    """The text of a value that should be one."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def _thought(block: JsonObject) -> str:
    for key in ("thinking", "text", "reasoning"):
        if (text := string(block.get(key))) is not None:
            return text
    summary = block.get("summary") or block.get("content")
    if isinstance(summary, list):
        return "\n".join(_text(each.get("text")) for each in summary if isinstance(each, dict))
    return _text(summary)


def _call(block: JsonObject, raw_type: str) -> ContentPart:
    inner = object_or_empty(block.get("function"))
    arguments = first_of(block, "arguments", "input", "args", "params")
    if arguments is None:
        arguments = inner.get("arguments")
    return ContentPart(
        PartKind.TOOL_CALL,
        raw_type,
        call_id=_call_id(block, "id"),
        tool_name=_name(block) or _name(inner),
        arguments=None if arguments is None else _text(arguments),
    )


def _result(holder: JsonObject, raw_type: str, depth: int = 0) -> Iterator[ContentPart]:
    """A tool's answer, which is a whole message or a block in one: its text, then its pictures and files."""
    content = first_of(holder, "content", "output", "result", "text")
    if isinstance(content, dict) and "type" not in content:
        content = compact_json(content)
    parts = tuple(_blocks(content, depth))
    failed = first_of(holder, "isError", "is_error")
    texts = (part.text for part in parts if part.kind is PartKind.TEXT)
    call_id = _call_id(holder)
    yield ContentPart(
        PartKind.TOOL_RESULT,
        raw_type,
        "\n".join(texts),
        call_id=call_id,
        tool_name=_name(holder),
        is_error=failed if isinstance(failed, bool) else None,
    )
    for part in parts:
        if part.kind is not PartKind.TEXT:
            yield replace(part, call_id=part.call_id or call_id)


def _shell(message: JsonObject) -> Iterator[ContentPart]:
    """A command that the operator ran in the host: a call and its result without an id."""
    command: JsonObject = {"command": message.get("command")}
    yield ContentPart(PartKind.TOOL_CALL, "bashExecution", tool_name="bash", arguments=compact_json(command))
    code = message.get("exitCode")
    failed = bool(message.get("cancelled")) or (isinstance(code, int) and code != 0)
    output = _text(message.get("output"))
    yield ContentPart(PartKind.TOOL_RESULT, "bashExecution", output, tool_name="bash", is_error=failed)


def _payload(kind: PartKind, block: JsonObject, raw_type: str) -> ContentPart:
    """An image or a file: what it is and how large, without its bytes."""
    source = first_of(block, "source", "image_url", "file")
    inner = object_or_empty(source)
    url = string(source) or string(inner.get("url")) or string(block.get("url"))
    data = first_of(block, "data", "file_data") or first_of(inner, "data", "file_data")
    mime = first_of(block, "mimeType", "mime_type", "media_type") or first_of(inner, "mimeType", "media_type")
    for candidate in (url, data):
        if isinstance(candidate, str) and candidate.startswith("data:"):
            head, _, data = candidate.partition(",")
            mime = mime or head.removeprefix("data:").partition(";")[0]
            url = None
    text = block.get("text")
    if inner.get("type") == "text":
        text, data = data, None
    name = first_of(block, "fileName", "file_name", "filename", "name", "title") or first_of(
        inner, "filename", "name"
    )
    return ContentPart(
        kind,
        raw_type,
        _text(text),
        name=string(name),
        mime=string(mime),
        byte_size=_decoded_size(data) if isinstance(data, str) else None,
        url=url,
    )


def _decoded_size(data: str) -> int:
    """How many bytes a base64 text encodes."""
    return (len(data) - data.endswith("=") - data.endswith("==")) * 3 // 4


def first_of(block: JsonObject, *keys: str) -> Json:
    """The first of some members that is there."""
    return next((block[key] for key in keys if block.get(key) is not None), None)


def _call_id(block: JsonObject, *more: str) -> str | None:
    keys = ("toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "callId", *more)
    return string(first_of(block, *keys))


def _name(block: JsonObject) -> str | None:
    return string(first_of(block, "toolName", "tool_name", "name"))


def _object(text: str | None) -> JsonObject:
    try:
        return decode_object(text or "{}")
    except BadLineError:  # a list reads the start of long texts only
        return peek_object(text or "")


def _row_result(row: MessagePart, text: str, metadata: JsonObject) -> ContentPart:
    failed = metadata.get("isError")
    return ContentPart(
        PartKind.TOOL_RESULT,
        row.part_type,
        text,
        call_id=row.tool_call_id,
        tool_name=row.tool_name,
        is_error=True if row.tool_error else failed if isinstance(failed, bool) else None,
    )


def _row_tool(row: MessagePart, metadata: JsonObject) -> Iterator[ContentPart]:
    output = row.tool_output if row.tool_output is not None else row.tool_error
    if row.tool_input is not None or output is None:
        yield ContentPart(
            PartKind.TOOL_CALL,
            row.part_type,
            row.text or "",
            call_id=row.tool_call_id,
            tool_name=row.tool_name,
            arguments=row.tool_input,
        )
    if output is not None:
        yield _row_result(row, output, metadata)


def _with_row(part: ContentPart, row: MessagePart) -> ContentPart:
    """A part read from the metadata with what the columns say about it."""
    return replace(
        part,
        call_id=row.tool_call_id or part.call_id,
        tool_name=row.tool_name or part.tool_name,
        name=row.file_name or part.name,
        mime=row.file_mime or part.mime,
        url=row.file_url or part.url,
    )
