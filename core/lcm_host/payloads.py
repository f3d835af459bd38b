"""Large payloads: moved from a message to a file, with a summary of what each is made of.

docs/spec/ingest.md, "Payloads". `take_out` says what leaves a message and writes nothing; `write_payloads`
writes the files.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from lcm_core.base.errors import DatabaseError
from lcm_core.base.javascript import (
    Json,
    JsonObject,
    first_units,
    js_json,
    last_units,
    ordered_members,
    read_json,
    well_formed,
)
from lcm_core.base.jsonl import open_regular
from lcm_core.base.records import ConversationId
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import MOST_PER_CHARACTER, estimate_weighted, utf16_length
from lcm_core.base.values import Record, Struct, field
from lcm_core.engine.stored_parts import (
    HOLDERS,
    LISTS,
    REASONING,
    TOOLS,
    TopLevel,
    first_flag,
    first_text,
    message_text,
    says_nothing,
    text_in,
    type_of,
)

# -- summaries of payloads -------------------------------------------------------------------------------
# What replaces a payload in the message (docs/spec/ingest.md, "Summaries").

_BLANK_RUN: Final = re.compile(rf"[{BLANKS}]+")
_LINE_END: Final = re.compile(r"\r?\n")
_ENDING: Final = re.compile(r".\.([a-z0-9]{1,10})\Z", re.DOTALL)
_EXCERPT: Final = 500
#: How many of a kind are listed at most.
_IMPORTS, _DEFINITIONS, _HEADERS, _NAMES = 12, 24, 18, 30

_STRUCTURED_TYPES: Final = (
    *("application/json", "application/xml", "application/yaml", "application/x-yaml"),
    *("application/x-ndjson", "text/csv", "text/tab-separated-values", "text/xml"),
)
_STRUCTURED_ENDINGS: Final = frozenset({"csv", "json", "tsv", "xml", "yaml", "yml"})
_CODE_TYPES: Final = (
    *("application/javascript", "application/typescript", "application/x-python-code", "application/x-rust"),
    *("text/javascript", "text/x-c", "text/x-c++", "text/x-go", "text/x-java", "text/x-python"),
    *("text/x-rust", "text/x-script.python", "text/x-shellscript", "text/x-typescript"),
)
_CODE_ENDINGS: Final = frozenset(
    {
        *("c", "cc", "cpp", "cs", "go", "h", "hpp", "java", "js", "jsx", "kt", "m", "php", "py", "rb", "rs"),
        *("scala", "sh", "sql", "swift", "ts", "tsx"),
    }
)
#: Endings by type, when the name has none.
_ENDING_OF_TYPE: Final[Mapping[str, str]] = {
    "application/json": "json",
    "application/x-ndjson": "json",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "application/csv": "csv",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/javascript": "js",
    "application/typescript": "ts",
    "text/x-typescript": "ts",
    "application/x-python-code": "py",
    "text/x-python": "py",
    "text/x-script.python": "py",
    "application/x-rust": "rs",
    "text/x-rust": "rs",
    "application/x-sh": "sh",
    "text/x-shellscript": "sh",
    "text/markdown": "md",
    "text/plain": "txt",
    "text/x-c": "c",
    "text/x-c++": "cpp",
    "text/x-go": "go",
    "text/x-java": "java",
}


def explore(text: str, name: str | None, mime: str | None) -> str:
    """The exploration summary of a text; *name* and *mime* as its message gives them."""
    ending, kind = name_ending(name), (mime or "").strip(BLANKS).lower()
    if kind.startswith(_STRUCTURED_TYPES) or ending in _STRUCTURED_ENDINGS:
        what = ending or _ENDING_OF_TYPE.get(kind, "txt")
        return _STRUCTURED.get(what, _structured_by_type(kind))(text)
    if kind.startswith(_CODE_TYPES) or ending in _CODE_ENDINGS:
        return _code(text, name)
    return _text(text, name)


def name_ending(name: str | None) -> str | None:
    """The ending of a file's name without its dot, in lower case; None when it has none."""
    found = _ENDING.search(re.split(r"[/\\]", (name or "").strip(BLANKS))[-1].lower())
    return found[1] if found else None


def lines_of(text: str) -> list[str]:
    """The lines of a text: they end at LF or CR LF."""
    return _LINE_END.split(text)


def _line(text: str, width: int) -> str:
    """A text as one line of at most *width* UTF-16 units."""
    one = _BLANK_RUN.sub(" ", text).strip(BLANKS)
    return one if utf16_length(one) <= width else f"{first_units(one, width)}..."


# -- structured text -------------------------------------------------------------------------------------


def _structured_by_type(kind: str) -> Callable[[str], str]:
    """How a text is read whose ending says nothing: by what its type begins with."""
    found = next((one for one in _STRUCTURED_TYPES if kind.startswith(one)), None)
    what = _ENDING_OF_TYPE[found] if found and found != "application/x-ndjson" else None
    return _STRUCTURED.get(what or "", _other)


def _json(text: str) -> str:
    try:
        value = read_json(text)
    except ValueError:
        return "Structured summary (JSON): failed to parse as valid JSON."
    kind = "array" if isinstance(value, list) else _type(value)
    return f"Structured summary (JSON):\nTop-level type: {kind}.\nShape: {_shape(value, 0)}."


def _shape(value: Json, depth: int) -> str:
    if depth >= 2:
        return "..."
    if isinstance(value, list):
        if not value:
            return "array(len=0)"
        sample = ", ".join(_shape(one, depth + 1) for one in value[:3])
        return f"array(len={len(value)}, sample=[{sample}])"
    if isinstance(value, dict):
        keys = ", ".join(key for key, _ in itertools.islice(ordered_members(value), 10))
        return f"object(keys={len(value)}{': ' if keys or value else ''}{keys})"
    return _type(value)


def _type(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, int | float) else "object"


def _table(text: str, name: str, separator: str) -> str:
    rows = [row for line in lines_of(text) if (row := line.strip(BLANKS))]
    if not rows:
        return f"Structured summary ({name}): no rows found."
    columns = [column for cell in rows[0].split(separator) if (column := cell.strip(BLANKS))]
    sample = _line(rows[1], 180) if len(rows) > 1 else "(no data rows)"
    return "\n".join(
        [
            f"Structured summary ({name}):",
            f"Rows: {len(rows) - 1:,}.",
            f"Columns ({len(columns)}): {', '.join(columns) or '(none detected)'}.",
            f"First row sample: {sample or '(no data rows)'}.",
        ]
    )


_ELEMENT: Final = re.compile(rf"<([A-Za-z0-9_:-]+)(?=[{BLANKS}>])")
_KEY: Final = re.compile(rf"^([A-Za-z0-9_.-]+):[{BLANKS}]*(?:#.*)?$")


def _xml(text: str) -> str:
    names = [found[1] for found in _ELEMENT.finditer(text)]
    root = names[0] if names else "unknown"
    others = list(dict.fromkeys([name for name in names if name != root][:_NAMES]))
    return "\n".join(
        [
            "Structured summary (XML):",
            f"Root element: {root}.",
            f"Child elements seen: {', '.join(others) or '(none detected)'}.",
        ]
    )


def _yaml(text: str) -> str:
    keys = list(dict.fromkeys(found[1] for line in lines_of(text) if (found := _KEY.match(line))))
    shown = ", ".join(keys[:_NAMES]) or "(none detected)"
    return f"Structured summary (YAML):\nTop-level keys ({len(keys)}): {shown}."


def _other(text: str) -> str:
    return f"Structured summary:\nCharacters: {utf16_length(text):,}.\nLines: {len(lines_of(text)):,}."


_STRUCTURED: Final[Mapping[str, Callable[[str], str]]] = {
    "json": _json,
    "csv": lambda text: _table(text, "CSV", ","),
    "tsv": lambda text: _table(text, "TSV", "\t"),
    "xml": _xml,
    "yaml": _yaml,
    "yml": _yaml,
}

# -- code and text ---------------------------------------------------------------------------------------

_IMPORT: Final = re.compile(
    rf"[{BLANKS}]*(?:import[{BLANKS}]|from[{BLANKS}]+[^{BLANKS}]+[{BLANKS}]+import[{BLANKS}]"
    rf"|const[{BLANKS}]+[A-Za-z0-9_$]+[{BLANKS}]*=[{BLANKS}]*require\()"
)
_DEFINITION: Final = re.compile(
    rf"(?:export[{BLANKS}]+)?(?:async[{BLANKS}]+)?(?:function|class|interface|type"
    rf"|const[{BLANKS}]+[A-Za-z0-9_$]+[{BLANKS}]*=[{BLANKS}]*\("
    rf"|def[{BLANKS}]+[A-Za-z0-9_]+[{BLANKS}]*\(|struct[{BLANKS}]+[A-Za-z0-9_])"
)
_MARKDOWN: Final = re.compile(rf"#{{1,6}}[{BLANKS}]")
_CAPITALS: Final = re.compile(rf"[A-Z0-9][A-Z0-9{BLANKS}:_-]{{6,}}\Z")


def _code(text: str, name: str | None) -> str:
    lines = lines_of(text)
    imports = _listed((line for line in lines if _IMPORT.match(line)), _IMPORTS, 180)
    stripped = (line.strip(BLANKS) for line in lines)
    definitions = _listed((line for line in stripped if _DEFINITION.match(line)), _DEFINITIONS, 200)
    return "\n".join(
        [
            f"Code exploration summary{f' ({name})' if name else ''}:",
            f"Lines: {len(lines):,}.",
            f"Imports/dependencies ({len(imports)}): {' | '.join(imports) or 'none detected'}.",
            f"Top-level definitions ({len(definitions)}): {' | '.join(definitions) or 'none detected'}.",
        ]
    )


def _text(text: str, name: str | None) -> str:
    lines = lines_of(text)
    headers = _listed((line for one in lines if _is_header(line := one.strip(BLANKS))), _HEADERS, 160)
    words = sum(1 for word in _BLANK_RUN.split(text) if word)
    return "\n".join(
        [
            f"Text exploration summary{f' ({name})' if name else ''}:",
            f"Characters: {utf16_length(text):,}.",
            f"Words: {words:,}.",
            f"Lines: {len(lines):,}.",
            f"Detected section headers: {' | '.join(headers) or 'none detected'}.",
            f"Opening excerpt: {_line(first_units(text, _EXCERPT), _EXCERPT) or '(empty)'}.",
            f"Closing excerpt: {_line(last_units(text, _EXCERPT), _EXCERPT) or '(empty)'}.",
        ]
    )


def _is_header(line: str) -> bool:
    return utf16_length(line) >= 2 and (
        _MARKDOWN.match(line) is not None or _CAPITALS.match(line) is not None
    )


def _listed(lines: Iterable[str], count: int, width: int) -> list[str]:
    """The first of some lines, each once."""
    return list(dict.fromkeys(_line(line, width) for line in itertools.islice(lines, count)))


NewId = Callable[[], str]
#: Counts the tokens of a whole message.
Count = Callable[[JsonObject, TopLevel], int]


class Payload(Record, frozen=True):
    """A file to be written, and its row in ``large_files``."""

    file_id: str
    file_name: str | None  #: None when the message does not say it
    mime: str | None
    data: bytes
    lines: int | None  #: None for what is no text
    summary: str
    ending: str  #: with its dot

    @property
    def stored_name(self) -> str:
        """Its name in the conversation's folder."""
        return f"{self.file_id}{self.ending}"


class Taking(Struct):
    """A message without what was taken out of it so far."""

    message: JsonObject
    role: str  #: as it is stored
    top: TopLevel
    content: str  #: what it says
    tokens: int
    threshold: int
    new_id: NewId
    count: Count
    payloads: list[Payload] = field(default_factory=list)

    def put(self, content: Json) -> None:
        """Another content; what it says and weighs is made again."""
        self.message = {**self.message, "content": content}
        self.content = message_text(self.message)
        self.tokens = self.count(self.message, self.top)

    def put_text(self, text: str, **marks: Json) -> None:
        """One text takes the place of all blocks, and weighs what it says."""
        self.message = {**self.message, "content": text, **marks}
        self.content, self.tokens = text, estimate_weighted(text)

    def is_large(self, text: str) -> bool:
        """Whether a text goes to a file."""
        if len(text) * MOST_PER_CHARACTER < self.threshold:
            return False
        return estimate_weighted(text) >= self.threshold


def take_out(
    message: JsonObject,
    role: str,
    top: TopLevel,
    *,
    content: str,
    tokens: int,
    threshold: int,
    new_id: NewId,
    count: Count,
) -> Taking:
    """Take out pictures, large file blocks, large answers of tools, and what else is large.

    *content* and *tokens* are those of the whole message; from *threshold* tokens on something is large.
    """
    taking = Taking(message, role, top, content, tokens, max(1, threshold), new_id, count)
    _native_pictures(taking)
    _inline_picture(taking)
    if role == "user":
        _file_blocks(taking)
    if role == "tool":
        _tool_results(taking)
    elif "content" in taking.message:
        _raw_payload(taking)
    return taking


# -- pictures in messages --------------------------------------------------------------------------------


def _native_pictures(taking: Taking) -> None:
    content = taking.message.get("content")
    if not isinstance(content, list):
        return
    found = [_native_picture(block) for block in content]
    if not any(found):
        return
    blocks: list[Json] = []
    for at, (block, picture) in enumerate(zip(content, found, strict=True)):
        if picture is None:
            blocks.append(block)
            continue
        name = _attached_name(content, at) or f"{taking.role}-image.{picture.ending}"
        payload = _picture_file(taking, picture, name)
        blocks.append(
            {
                "type": "text",
                "text": _picture_reference(taking.role.capitalize(), payload),
                "externalizedFileId": payload.file_id,
                "originalByteSize": len(payload.data),
                "imageExternalized": True,
                "externalizationReason": "native_image",
            }
        )
    taking.put(blocks)


def _picture_file(taking: Taking, picture: Picture, name: str) -> Payload:
    name, mime = well_formed(name), well_formed(picture.mime)
    size = len(picture.data)
    payload = Payload(
        taking.new_id(),
        name,
        mime,
        picture.data,
        None,
        f"Image file ({picture.ending.upper()}, {size:,} bytes) — {name}",
        f".{picture.ending}",
    )
    taking.payloads.append(payload)
    return payload


def _picture_reference(label: str, payload: Payload) -> str:
    said_of_it = f"{payload.file_name} ({payload.mime}, {len(payload.data):,} bytes)"
    return f"[{label} image: {said_of_it} | LCM file: {payload.file_id}]"


#: Tokens that a text has at least to be taken for a picture.
_PICTURE_TOKENS: Final = 100
_MEDIA: Final = re.compile(rf"\[media attached:[{BLANKS}]*([^{BLANKS}(]+)")
_DIGITS_LINE: Final = re.compile(r"\n([A-Za-z0-9+/]{20,})(?=\n)")


def _pure_picture(text: str) -> Picture | None:
    """The picture that a text is, all of it."""
    trimmed = text.strip(BLANKS)
    if len(trimmed) * MOST_PER_CHARACTER < _PICTURE_TOKENS:
        return None
    picture = _picture_in_text(trimmed)
    if picture is None or estimate_weighted(trimmed) < _PICTURE_TOKENS or not _is_pure(trimmed):
        return None
    return picture


def _inline_picture(taking: Taking) -> None:
    """Base64 in a message, as text."""
    if taking.role == "tool":
        content, count = taking.message.get("content"), len(taking.payloads)
        if isinstance(content, str | list):
            try:
                replaced = _without_pictures(taking, content)
            except RecursionError:  # nested deeper than this machine goes: it stays
                del taking.payloads[count:]
                return
            if replaced is not content:
                taking.put(replaced)
        return
    text = taking.content
    if text.startswith("[media attached:") and (found := _after_media(text)) is not None:
        before, name, picture = found
        payload = _picture_file(taking, picture, name)
        taking.put_text(f"{before}\n\n{_picture_reference('User', payload)}")
    elif (pure := _pure_picture(text)) is not None:
        payload = _picture_file(taking, pure, f"{taking.role}-image.{pure.ending}")
        label = "Assistant image" if taking.role == "assistant" else "Image"
        taking.put_text(_picture_reference(label, payload).replace(f"{label} image: ", f"{label}: ", 1))


def _after_media(text: str) -> tuple[str, str, Picture] | None:
    """The text before the data of an attached picture, its name, and the picture."""
    line = _DIGITS_LINE.search(text)
    name = _MEDIA.match(text)
    if line is None or name is None:
        return None
    data = text[line.start(1) :]
    picture = _picture_in_text(data)
    if picture is None or estimate_weighted(data) < _PICTURE_TOKENS:
        return None
    return text[: line.start()].strip(BLANKS), name[1], picture


def _without_pictures(taking: Taking, value: Json) -> Json:
    """A tool's answer with references in the place of texts that are pictures; the very same without any."""
    if isinstance(value, str):
        picture = _pure_picture(value)
        if picture is None:
            return value
        return _picture_reference("Tool", _picture_file(taking, picture, f"tool-image.{picture.ending}"))
    if isinstance(value, list):
        found = [_without_pictures(taking, one) for one in value]
        return found if any(new is not old for new, old in zip(found, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    names = ("text",) if type_of(value) == "text" else ("output", "content", "result")
    changed: dict[str, Json] = {}
    for name in names:
        if name in value and (new := _without_pictures(taking, value[name])) is not value[name]:
            changed[name] = new
    return {**value, **changed} if changed else value


# -- file blocks -----------------------------------------------------------------------------------------

_OPEN: Final = re.compile(r"<file\b([^>]*)>", re.IGNORECASE | re.ASCII)
_CLOSE: Final = re.compile(r"</file>", re.IGNORECASE | re.ASCII)
_ATTRIBUTE: Final = re.compile(
    rf"""([A-Za-z_:][A-Za-z0-9_.:-]*)[{BLANKS}]*=[{BLANKS}]*(?:"([^"]*)"|'([^']*)'|([^{BLANKS}"'>]+))"""
)


def _file_blocks(taking: Taking) -> None:
    """Large file blocks in what a user says."""
    text, pieces, at = taking.content, [], 0
    ids: list[Json] = []
    while (opened := _OPEN.search(text, at)) is not None:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            break
        inner = text[opened.end() : closed.start()]
        if taking.is_large(inner):
            given = _attributes(opened[1])
            payload = _text_file(taking, inner, given.get("name"), given.get("mime"))
            ids.append(payload.file_id)
            label = f"{payload.file_name or 'unknown'} | {payload.mime or 'unknown'}"
            head = f"[LCM File: {payload.file_id} | {label} | {len(payload.data):,} bytes]"
            pieces += [text[at : opened.start()], _reference(head, payload)]
        else:
            pieces.append(text[at : closed.end()])
        at = closed.end()
    if ids:
        taking.put_text(
            "".join([*pieces, text[at:]]),
            externalizedFileIds=ids,
            fileBlocksExternalized=True,
            externalizationReason="large_file_block",
        )


def _attributes(text: str) -> dict[str, str]:
    found = {}
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        value = (double or single or bare).strip(BLANKS)
        if value:
            found[name.lower()] = value
    return found


def _text_file(taking: Taking, text: str, name: str | None, mime: str | None) -> Payload:
    name = None if name is None else well_formed(name)
    mime = None if mime is None else well_formed(mime)
    payload = Payload(
        taking.new_id(),
        name,
        mime,
        well_formed(text).encode(),
        len(lines_of(text)),
        well_formed(explore(text, name, mime)),
        f".{name_ending(name) or _ENDING_OF_TYPE.get((mime or '').strip(BLANKS).lower(), 'txt')}",
    )
    taking.payloads.append(payload)
    return payload


def _reference(head: str, payload: Payload, asking: str | None = None) -> str:
    summary = payload.summary.strip(BLANKS) or "(no summary available)"
    text = f"{head}\n\nExploration Summary:\n{summary}"
    if asking is None:
        return text
    return (
        f'{text}\n\nCall lcm_describe(id="<file_id above>", expandFile=true) to fetch the full {asking} '
        "content from disk."
    )


# -- answers of tools ------------------------------------------------------------------------------------

_FUNCTION_OUTPUT: Final = "function_call_output"
_RESULT_BLOCKS: Final = frozenset({"tool_result", "toolResult", _FUNCTION_OUTPUT})
_IMAGE_REFERENCE: Final = re.compile(
    r"\[(?:User |Assistant |System |Tool )?image: [^\n]* \| LCM file: file_[a-f0-9]{16}\]", re.IGNORECASE
)


def _tool_results(taking: Taking) -> None:
    content = taking.message.get("content")
    blocks = content if isinstance(content, list) else []
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    found = [_tool_result(taking, block) for block in blocks]
    if any(new is not old for new, old in zip(found, blocks, strict=True)):
        taking.put(found)


def _tool_result(taking: Taking, block: Json) -> Json:
    """The block that replaces a large answer; else the block itself."""
    kind = type_of(block)
    if not isinstance(block, dict) or (kind != "text" and kind not in _RESULT_BLOCKS):
        return block
    if kind == "text":
        output: Json = block.get("text")
    else:
        output = block.get("output", block.get("content", block))
    text = text_in(output)
    if says_nothing(text) or text is None or _is_image_reference(text):
        return block
    name = next(
        one for one in (first_text(block, ("name",)), taking.top.tool_name, "tool-result") if one is not None
    )
    if name == "lcm_describe" or not taking.is_large(text):
        return block
    payload = _text_file(taking, text, f"{name}.txt", "text/plain")
    head = f"[LCM Tool Output: {payload.file_id} | tool={name} | {len(payload.data):,} bytes]"
    return _result_block(taking, block, name, _reference(head, payload, "output"), payload)


def _result_block(taking: Taking, block: JsonObject, name: str, reference: str, payload: Payload) -> Json:
    kind = type_of(block)
    named = block.get("rawType") if kind == "text" else kind
    result_type = _FUNCTION_OUTPUT if named == _FUNCTION_OUTPUT else "tool_result"
    made: JsonObject
    if kind == "text":
        made = {"type": "text", "text": reference, "rawType": result_type}
    else:
        made = {"type": result_type, "output": reference}
    made |= {
        "externalizedFileId": payload.file_id,
        "originalByteSize": len(payload.data),
        "toolOutputExternalized": True,
        "externalizationReason": "large_tool_result",
    }
    ids = ("tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "call_id", "id")
    call_id = first_text(block, ids)
    call_id = taking.top.call_id if call_id is None else call_id
    if call_id:
        made["call_id" if result_type == _FUNCTION_OUTPUT else "tool_use_id"] = call_id
    if isinstance(block.get("is_error"), bool):
        made["is_error"] = block["is_error"]
    else:
        failed = first_flag(block, ("isError",))
        failed = taking.top.is_error if failed is None else failed
        if failed is not None:
            made["isError"] = failed
    if name:
        made["name"] = name
    return made


def _is_image_reference(text: str) -> bool:
    return _IMAGE_REFERENCE.fullmatch(text.strip(BLANKS)) is not None


# -- other payloads --------------------------------------------------------------------------------------

_REFERENCES: Final = ("[LCM File:", "[LCM Tool Output:", "[LCM Raw Payload:")


def _raw_payload(taking: Taking) -> None:
    """What is still large, as a whole."""
    message = taking.message
    if taking.tokens < taking.threshold or message.get("rawPayloadExternalized") is True:
        return
    trimmed = taking.content.strip(BLANKS)
    if trimmed.startswith(_REFERENCES) or _is_image_reference(trimmed) or _holds_tools(message["content"]):
        return
    content, role = message["content"], taking.top.role
    if isinstance(content, str):
        payload = _text_file(taking, content, f"raw-{role}-payload.txt", "text/plain")
    else:
        payload = _text_file(taking, js_json(content), f"raw-{role}-payload.json", "application/json")
    label = f"role={role} | reason=large_raw_message | {len(payload.data):,} bytes"
    taking.put_text(
        _reference(f"[LCM Raw Payload: {payload.file_id} | {label}]", payload, "payload"),
        rawPayloadExternalized=True,
        externalizedFileId=payload.file_id,
        originalByteSize=len(payload.data),
        externalizationReason="large_raw_message",
    )


def _holds_tools(value: Json) -> bool:
    """Whether a call, a result or reasoning is anywhere in a content."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            if first_text(one, ("type", "rawType")) in TOOLS | REASONING:
                return True
            waiting += [one[name] for name in (*HOLDERS, *LISTS) if name in one]
    return False


# -- decoding pictures -----------------------------------------------------------------------------------


class Picture(Record, frozen=True):
    """The bytes of a picture and what is said of them."""

    data: bytes
    ending: str  #: without its dot
    mime: str


#: How the base64 of a kind of picture begins: its ending and type.
_BEGINNINGS: Final = (
    ("/9j/", "jpg", "image/jpeg"),
    ("iVBOR", "png", "image/png"),
    ("R0lGOD", "gif", "image/gif"),
    ("UklGR", "webp", "image/webp"),
    ("PHN2Zy", "svg", "image/svg+xml"),
)
_DECLARED: Final[Mapping[str, str]] = {
    "jpeg": "jpg",
    "jpg": "jpg",
    "png": "png",
    "gif": "gif",
    "webp": "webp",
    "svg+xml": "svg",
    "heic": "heic",
    "avif": "avif",
    "bmp": "bmp",
}
_STRICT: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DIGITS: Final = re.compile(rf"[A-Za-z0-9+/={BLANKS}]+")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9+/]+")
_URL: Final = re.compile(r"data:([^;,]+);base64,", re.IGNORECASE)
_ATTACHED: Final = re.compile(
    rf"\[media attached(?:[{BLANKS}]+[0-9]+/[0-9]+)?:[{BLANKS}]*([^{BLANKS}\]|()]+)", re.IGNORECASE
)
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.@-]+")
_TYPES: Final = ("mimeType", "mime_type", "mediaType", "media_type")
#: What an inline text must have to be taken for a picture.
_PURE: Final = 0.8


def _native_picture(block: Json) -> Picture | None:
    """The picture that a block of type image holds in base64; None when it stays as it is."""
    if not isinstance(block, dict) or type_of(block) != "image":
        return None
    data = block.get("data")
    if not isinstance(data, str) or not data:
        return None
    declared = first_text(block, _TYPES)
    if (url := _URL.match(data.strip(BLANKS))) is not None:
        declared, data = url[1], data.strip(BLANKS)[url.end() :]
    digits = _BLANK_RUN.sub("", data)
    if _STRICT.fullmatch(digits) is None:
        return None
    kind = _kind_by_beginning(digits) or _declared_kind(declared)
    return None if kind is None else Picture(decoded(digits), *kind)


def _picture_in_text(text: str) -> Picture | None:
    """The picture whose base64 a text begins with; None when it begins with none that is known."""
    kind = _kind_by_beginning(text)
    return None if kind is None else Picture(decoded(text), *kind)


def _is_pure(text: str) -> bool:
    """Whether a trimmed text is mostly base64."""
    digits = sum(len(run) for run in _DIGITS.findall(text))
    return digits >= _PURE * utf16_length(text)


def _attached_name(blocks: list[Json], before: int) -> str | None:
    """The name in the text block nearest before a picture that says what was attached."""
    for block in reversed(blocks[:before]):
        text = block.get("text") if isinstance(block, dict) and type_of(block) == "text" else None
        found = _ATTACHED.search(text) if isinstance(text, str) else None
        if found is not None and (name := re.split(r"[/\\]", found[1])[-1]):
            return _UNUSUAL.sub("_", name)
    return None


def decoded(text: str) -> bytes:
    """The bytes of base64 as the engine's platform reads it: what is no digit is skipped, ``=`` ends it."""
    digits = text.partition("=")[0].replace("-", "+").replace("_", "/")
    digits = _FOREIGN.sub("", digits)
    if len(digits) % 4 == 1:  # six bits make no byte
        digits = digits[:-1]
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


def _kind_by_beginning(digits: str) -> tuple[str, str] | None:
    return next(((ending, mime) for start, ending, mime in _BEGINNINGS if digits.startswith(start)), None)


def _declared_kind(mime: str | None) -> tuple[str, str] | None:
    family, _, kind = (mime or "").strip(BLANKS).partition("/")
    ending = _DECLARED.get(kind.lower()) if family.lower() == "image" else None
    return None if ending is None or mime is None or says_nothing(mime) else (ending, mime)


# -- files -----------------------------------------------------------------------------------------------


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class PayloadError(DatabaseError):
    """The large-files folder cannot be written."""

    default_code = "LARGE_FILES_UNWRITABLE"


def payload_path(folder: Path, conversation_id: ConversationId, payload: Payload) -> Path:
    """The path of a payload: ``<folder>/<conversation>/<file id><ending>``, absolute."""
    return Path(os.path.abspath(folder)) / str(conversation_id) / payload.stored_name


def write_payloads(
    folder: Path, conversation_id: ConversationId, payloads: Iterable[Payload]
) -> tuple[Path, ...]:
    """Write payloads, each 0600, and say where; when one cannot be written none stays.

    Raises:
        PayloadError: the folder or a file cannot be written, or a link leads out of the folder.
    """
    written: list[Path] = []
    try:
        for payload in payloads:
            path = payload_path(folder, conversation_id, payload)
            _prepare(path.parent)
            descriptor = os.open(path, _NEW, 0o600)
            written.append(path)
            with open(descriptor, "wb") as file:
                file.write(payload.data)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        remove_payloads(written)
        reason = error.strerror or str(error)
        raise PayloadError(
            f"A large payload could not be written to {folder} ({reason}). Nothing was imported; check the "
            "folder and the disk, or name another folder with LCM_LARGE_FILES_DIR."
        ) from error
    except BaseException:
        remove_payloads(written)
        raise
    return tuple(written)


def same_bytes(path: Path, data: bytes) -> bool:
    """Whether a file of this folder is there and holds the very same; blocks."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size == len(data) and file.read(len(data) + 1) == data
    except OSError:
        return False


def remove_payloads(paths: Iterable[Path]) -> None:
    """Take files back that `write_payloads` wrote; a folder that they left empty goes too."""
    folders = set()
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        folders.add(path.parent)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _prepare(folder: Path) -> None:
    """Make a conversation's folder; a link in its place would lead elsewhere."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or not folder.is_dir():
        raise PayloadError(f"{folder} is not a folder; nothing was imported. Move it away.")
