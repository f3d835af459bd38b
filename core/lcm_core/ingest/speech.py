"""What a message says, as ``messages.content`` keeps it (docs/engine/ingest.md, "What a message says")."""

from __future__ import annotations

from typing import Final

from lcm_core.ingest.jsonl import Json, JsonObject, json_value
from lcm_core.ingest.shapes import HOLDERS, LISTS, REASONING, TOOLS, type_of
from lcm_core.javascript import BLANKS, js_json

#: What is nested deeper says nothing.
_DEEPEST: Final = 6
_TEXTS: Final = ("text", "transcript", "transcription", "message", "summary")
_OUTPUTS: Final = ("output", "content", "result")


def content_text(message: JsonObject) -> str:
    """The text of a whole message."""
    if "content" in message:
        return text_of(message["content"])
    if "output" in message:
        command, output = (_as_text(message.get(name)) for name in ("command", "output"))
        return f"$ {command}\n{output}"
    return ""


def text_of(content: Json) -> str:
    """What a content says; what says nothing is kept as its JSON, unless it is empty or of tools alone."""
    if (found := said(content)) is not None:
        return found
    if content is None or content == []:
        return ""
    if isinstance(content, list) and all(type_of(block) in TOOLS | REASONING for block in content):
        return ""
    return js_json(content)


def said(value: Json, depth: int = 0) -> str | None:
    """What a value says; None for nothing, which an empty text is not."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return _said_in_text(value, depth)
    if isinstance(value, list):
        texts = [text for each in value if (text := said(each, depth + 1)) and not is_blank(text)]
        return "\n".join(texts) if texts else None
    return _said_by_object(value, depth) if isinstance(value, dict) else None


def is_blank(text: str | None) -> bool:
    """Whether a text says nothing when it is trimmed."""
    return text is None or not text.strip(BLANKS)


def _said_in_text(text: str, depth: int) -> str:
    trimmed = text.strip(BLANKS)
    if trimmed[:1] + trimmed[-1:] in ("{}", "[]") and len(trimmed) > 1:
        try:
            value = json_value(trimmed)
        except ValueError:
            return text
        return said(value, depth + 1) or text
    return text


def _said_by_object(block: JsonObject, depth: int) -> str | None:
    kind = type_of(block)
    if kind in REASONING:
        return None
    if kind in TOOLS:
        if block.get("toolOutputExternalized") is not True:
            return None
        texts = (said(block.get(name), depth + 1) for name in _OUTPUTS)
        found = next((text for text in texts if text is not None), None)
        return None if is_blank(found) else found
    for name in _TEXTS:
        value = block.get(name)
        if isinstance(value, str) and not is_blank(value):
            return value
    for name in LISTS:
        value = block.get(name)
        if isinstance(value, list) and (found := said(value, depth + 1)) is not None:
            return found
    texts = (said(block.get(name), depth + 1) for name in HOLDERS)
    return next((text for text in texts if not is_blank(text)), None)


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
