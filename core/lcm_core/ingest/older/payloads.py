"""Large payloads leave a message for a file, as engines before 0.15 took them out.

Source: docs/engine/ingest.md, "Older engines".

`extract_payloads` says what leaves a message and writes nothing; `write_payloads` writes the files.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from lcm_core.engine_rules import IngestRules
from lcm_core.ingest.explore import explore, image_summary, name_ending
from lcm_core.ingest.jsonl import string
from lcm_core.ingest.older.parts import text_of_content
from lcm_core.ingest.payloads import NewId, Payload
from lcm_core.javascript import BLANKS, Json, JsonObject, well_formed
from lcm_core.tokens import MOST_PER_CHARACTER, estimate


@dataclass(frozen=True, slots=True)
class ExtractedMessage:
    """A message without its large payloads."""

    message: JsonObject
    payloads: tuple[Payload, ...]
    marks: JsonObject  #: what the metadata says of a text that holds references
    large_content: str | None  #: ``messages.large_content``: the file that holds a tool's answer


@dataclass(slots=True)
class _Extraction:
    """One message on the way."""

    role: str
    rules: IngestRules
    new_id: NewId
    payloads: list[Payload] = field(default_factory=list)
    marks: dict[str, Json] = field(default_factory=dict)
    large_content: str | None = None


def extract_payloads(
    message: JsonObject, role: str, *, rules: IngestRules, new_id: NewId
) -> ExtractedMessage:
    """Take out images, large file blocks, large answers of tools, and what else is large."""
    extraction = _Extraction(role, rules, new_id)
    content = message.get("content")
    if rules.images_become_files:
        content = _images(extraction, content)
    if role == "user":
        content = _file_blocks(extraction, content)
    if rules.payloads_become_files:
        content = (
            _tool_output(extraction, message, content)
            if role == "tool"
            else _tool_blocks(extraction, content)
        )
        content = _rest(extraction, content)
    held = message if content is message.get("content") else {**message, "content": content}
    return ExtractedMessage(held, tuple(extraction.payloads), extraction.marks, extraction.large_content)


# -- images ----------------------------------------------------------------------------------------------


def _images(extraction: _Extraction, content: Json) -> Json:
    if not isinstance(content, list) or not any(_is_image(block) for block in content):
        return content
    return [_image(extraction, block) if _is_image(block) else block for block in content]


def _is_image(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in ("image", "input_image", "image_url")


def _image(extraction: _Extraction, block: Json) -> Json:
    """The text block that replaces an image whose bytes are in the message; else the block itself."""
    assert isinstance(block, dict)
    inline = _inline(block)
    if inline is None:
        return block
    data, mime = inline
    ending = _IMAGE_ENDINGS.get(mime, ".bin")
    name = _file_name(string(block.get("fileName")) or string(block.get("name")), "")
    name = name or f"{extraction.role}-image{ending}"
    kind = mime.partition("/")[2].partition(";")[0].partition("+")[0] or "unknown"
    summary = image_summary(kind, len(data), name)
    payload = Payload(extraction.new_id(), name, mime, data, None, summary, ending)
    extraction.payloads.append(payload)
    said = f"{name} ({mime}, {len(data):,} bytes)"
    return {
        "type": "text",
        "text": f"[{extraction.role.capitalize()} image: {said} | LCM file: {payload.file_id}]",
        "externalizedFileId": payload.file_id,
        "originalByteSize": len(data),
        "imageExternalized": True,
        "externalizationReason": "native_image",
    }


def _inline(block: JsonObject) -> tuple[bytes, str] | None:
    """The bytes and the type of an image that is there in base64."""
    source = block.get("source") if isinstance(block.get("source"), dict) else block
    assert isinstance(source, dict)
    data = string(source.get("data"))
    mime = string(source.get("mimeType")) or string(source.get("media_type")) or string(block.get("mimeType"))
    url = block.get("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if data is None and isinstance(url, str):
        data = url
    if data is not None and data.startswith("data:"):
        head, _, data = data.partition(",")
        mime = mime or head.removeprefix("data:").partition(";")[0]
    if data is None or data.startswith(("http:", "https:", "file:")):
        return None
    decoded = _decoded(data)
    return None if decoded is None else (decoded, well_formed(mime or "image/png").lower())


_BLANK_RUN: Final = re.compile(rf"[{BLANKS}]+")


def _decoded(data: str) -> bytes | None:
    """The bytes of base64 as Node reads it: broken into lines, for URLs, or without its padding.

    None when it holds anything else: that is no payload, and stays.
    """
    digits = _BLANK_RUN.sub("", data).rstrip("=")
    if len(digits) % 4 == 1:  # six bits make no byte
        digits = digits[:-1]
    try:
        digits = digits.replace("-", "+").replace("_", "/")
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_IMAGE_ENDINGS: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/jpg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "image/heic": ".heic",
    "image/bmp": ".bmp",
    "image/tiff": ".tiff",
}

# -- file blocks -----------------------------------------------------------------------------------------

_OPEN: Final = re.compile(r"<file\b([^<>]{0,2000})>")
_CLOSE: Final = "</file>"
_ATTRIBUTE: Final = re.compile(r"""([A-Za-z_-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def _file_blocks(extraction: _Extraction, content: Json) -> Json:
    """A user's text with references in the place of large file blocks; then it is one text without blocks.

    Where there is something other than text beside them, the blocks stay.
    """
    if not isinstance(content, str | list):
        return content
    if isinstance(content, list) and not all(_is_text(block) for block in content):
        return [_file_block(extraction, block) for block in content]
    text, file_ids = _without_files(extraction, text_of_content(content, extraction.rules))
    extraction.marks.update(_file_marks(file_ids))
    return text if file_ids else content


def _is_text(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _file_block(extraction: _Extraction, block: Json) -> Json:
    if not isinstance(block, dict) or not _is_text(block):
        return block
    text, file_ids = _without_files(extraction, str(block["text"]))
    return {**block, "text": text, **_file_marks(file_ids)} if file_ids else block


def _file_marks(file_ids: list[str]) -> JsonObject:
    if not file_ids:
        return {}
    return {
        "externalizedFileIds": list(file_ids),
        "fileBlocksExternalized": True,
        "externalizationReason": "large_file_block",
    }


def _without_files(extraction: _Extraction, text: str) -> tuple[str, list[str]]:
    """A text whose large file blocks have become references, and the ids of the files."""
    pieces: list[str] = []
    file_ids: list[str] = []
    at = 0
    while (opened := _OPEN.search(text, at)) is not None:
        end = text.find(_CLOSE, opened.end())
        if end < 0:
            break
        inner = text[opened.end() : end]
        if _fits(extraction, inner):
            pieces.append(text[at : end + len(_CLOSE)])
        else:
            payload = _file(extraction, inner, opened[1])
            file_ids.append(payload.file_id)
            head = f"{payload.file_name} | {payload.mime} | {len(payload.data):,} bytes"
            pieces += [
                text[at : opened.start()],
                _reference(f"LCM File: {payload.file_id} | {head}", payload),
            ]
        at = end + len(_CLOSE)
    return "".join([*pieces, text[at:]]), file_ids


def _file(extraction: _Extraction, inner: str, attributes: str) -> Payload:
    given = {name.lower(): first or second for name, first, second in _ATTRIBUTE.findall(attributes)}
    name = _file_name(given.get("name"), "file.txt")
    mime = given.get("mime") or given.get("type") or _MIME.get(name_ending(name) or "", "text/plain")
    return _text_payload(extraction, inner, name, _one_line(mime))


def _text_payload(extraction: _Extraction, text: str, name: str, mime: str) -> Payload:
    ending = PurePosixPath(name).suffix
    if not re.fullmatch(r"\.[A-Za-z0-9]{1,16}", ending):
        ending = ".txt"
    text = well_formed(text)
    payload = Payload(
        extraction.new_id(),
        name,
        mime,
        text.encode("utf-8", "replace"),
        text.count("\n") + 1,
        explore(text, name, mime),
        ending.lower(),
    )
    extraction.payloads.append(payload)
    return payload


_MIME: Final = {
    "json": "application/json",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "xml": "application/xml",
}


def _reference(head: str, payload: Payload) -> str:
    return f"[{head}]\n\nExploration Summary:\n{payload.summary}"


def _file_name(given: str | None, otherwise: str) -> str:
    """A name without folders and without what would end a reference."""
    name = re.split(r"[/\\]", _one_line(given or ""))[-1]
    return re.sub(r"[\x00-\x1f\x7f|\[\]<>:*?\"]", "_", name)[:120] or otherwise


def _one_line(text: str) -> str:
    return " ".join(well_formed(text).replace("|", " ").replace("]", " ").split())[:200]


# -- answers of tools, and the rest ----------------------------------------------------------------------


def _tool_output(extraction: _Extraction, message: JsonObject, content: Json) -> Json:
    """A tool's answer with references in the place of its large texts."""
    name = _one_line(string(message.get("toolName")) or string(message.get("tool_name")) or "unknown")
    if isinstance(content, str):
        if _fits(extraction, content):
            return content
        text, marks = _tool_reference(extraction, content, name)
        extraction.marks.update(marks)
        return text
    if not isinstance(content, list):
        return content
    return [_tool_text(extraction, block, name) for block in content]


def _tool_text(extraction: _Extraction, block: Json, name: str) -> Json:
    text = block.get("text") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(text, str):
        return block
    if _fits(extraction, text):
        return block
    reference, marks = _tool_reference(extraction, text, name)
    return {**block, "text": reference, **marks}


def _tool_blocks(extraction: _Extraction, content: Json) -> Json:
    """The same for answers that are blocks in a message of another role."""
    if not isinstance(content, list):
        return content
    found: list[Json] = []
    for block in content:
        held = block.get("content") if isinstance(block, dict) else None
        if (
            isinstance(block, dict)
            and block.get("type") in ("tool_result", "toolResult")
            and held is not None
        ):
            taken = _tool_output(extraction, block, held)
            marks = dict(extraction.marks) if isinstance(held, str) and taken is not held else {}
            extraction.marks.clear()
            block = block if taken is held else {**block, "content": taken, **marks}
        found.append(block)
    return found if any(new is not old for new, old in zip(found, content, strict=True)) else content


def _tool_reference(extraction: _Extraction, text: str, name: str) -> tuple[str, JsonObject]:
    is_json = text.lstrip()[:1] in ("{", "[") and explore(text, "x.json", "").startswith("Structured")
    ending, mime = ("json", "application/json") if is_json else ("txt", "text/plain")
    payload = _text_payload(extraction, text, f"{_file_name(name, 'tool')}-output.{ending}", mime)
    extraction.large_content = extraction.large_content or payload.file_id
    head = f"LCM Tool Output: {payload.file_id} | tool={name} | {len(payload.data):,} bytes"
    marks: JsonObject = {
        "externalizedFileId": payload.file_id,
        "originalByteSize": len(payload.data),
        "toolOutputExternalized": True,
        "externalizationReason": "large_tool_result",
    }
    return _reference(head, payload), marks


def _rest(extraction: _Extraction, content: Json) -> Json:
    """Texts that are still too large; blocks that are no text stay, for calls must keep their arguments."""
    if isinstance(content, str):
        if _fits(extraction, content):
            return content
        reference, marks = _raw_reference(extraction, content)
        extraction.marks = {**extraction.marks, **marks}
        return reference
    if not isinstance(content, list):
        return content
    found: list[Json] = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if isinstance(block, dict) and isinstance(text, str) and not _fits(extraction, text):
            reference, marks = _raw_reference(extraction, text)
            block = {**block, "text": reference, **marks}
        found.append(block)
    return found if any(new is not old for new, old in zip(found, content, strict=True)) else content


def _fits(extraction: _Extraction, text: str) -> bool:
    rules, most = extraction.rules, extraction.rules.large_file_token_threshold
    return len(text) * MOST_PER_CHARACTER < most or estimate(text, rules.estimator) < most


def _raw_reference(extraction: _Extraction, text: str) -> tuple[str, JsonObject]:
    reason = "large_raw_payload"
    payload = _text_payload(extraction, text, f"{extraction.role}-payload.txt", "text/plain")
    head = f"LCM Raw Payload: {payload.file_id} | role={extraction.role} | reason={reason}"
    marks: JsonObject = {
        "externalizedFileId": payload.file_id,
        "originalByteSize": len(payload.data),
        "rawPayloadExternalized": True,
        "externalizationReason": reason,
    }
    return _reference(f"{head} | {len(payload.data):,} bytes", payload), marks
