"""What is sent, for other programs and for people: JSON that an API call takes, and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from lcm_core.assemble.elements import BRIEF_END, SUMMARY_END
from lcm_core.assemble.message import Block, BlockKind, OriginKind, Role, SentMessage
from lcm_core.assemble.result import Assembled
from lcm_core.dag import gist
from lcm_core.javascript import Json, JsonObject, stringify

#: What the API takes in the id of a tool call; others are written with underscores.
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]")
#: Texts by another name, which that API does not take.
_TEXTS: Final = frozenset({"input_text", "output_text"})
_FENCE: Final = re.compile(r"`{3,}")


def host_messages(assembled: Assembled) -> list[JsonObject]:
    """The messages in the form in which the engine hands them to its host."""
    return [message.document() for message in assembled.messages]


def api_request(assembled: Assembled) -> JsonObject:
    """``system`` and ``messages`` for a call of Anthropic's Messages API; model and length are the caller's.

    Results of tools become blocks of the user; reasoning without a signature and OpenAI's own items, which
    that API refuses, are left out.
    """
    turns: list[tuple[str, list[Json]]] = []
    for message in assembled.messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks: list[Json] = list(_api_blocks(message))
        if not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    messages: list[Json] = [{"role": role, "content": blocks} for role, blocks in turns]
    return {"system": assembled.system.text, "messages": messages}


def request_text(assembled: Assembled) -> str:
    """`api_request` as JSON, laid out."""
    return json.dumps(json.loads(stringify(api_request(assembled))), indent=2, ensure_ascii=False) + "\n"


def markdown(assembled: Assembled, title: str = "") -> str:
    """The messages for a reader: one section each, with where it came from and what it weighs."""
    lines = [f"# {title or 'What the model sees'}", ""]
    kept, budget = len(assembled.messages), assembled.budget
    lines.append(
        f"{kept:,} messages, {assembled.sent_tokens:,} of {budget:,} tokens, rules {assembled.rules}."
    )
    for number, (message, tokens) in enumerate(zip(assembled.messages, assembled.weights, strict=True), 1):
        lines += ["", f"## {number}. {message.role} · {message.origin.name} · {tokens:,} tokens", ""]
        lines += _markdown_body(message)
    if assembled.evicted:
        lines += ["", "## Not sent", ""]
        lines += [f"- ordinal {one.ordinal}: {one.step}, {one.why}" for one in assembled.evicted]
    if assembled.unread is not None:
        unread = assembled.unread
        lines.append(f"- ordinals {unread.first_ordinal} to {unread.last_ordinal}: budget, not read")
    return "\n".join(lines) + "\n"


def spoken(message: SentMessage) -> str:
    """What a message says without its wrapper, and the tools that it calls, on one line or more."""
    if message.origin.kind in (OriginKind.SUMMARY, OriginKind.FOCUS_BRIEF):
        return message.text.partition("<content>\n")[2]
    if isinstance(message.content, str):
        return message.content
    words = [
        f"{block.tool_name}({block.text})" if block.kind is BlockKind.TOOL_CALL else block.text
        for block in message.content
        if block.text or block.kind is BlockKind.TOOL_CALL
    ]
    return " ".join(words)


def beginning(message: SentMessage) -> str:
    """What tells a message from others in a list: of a summary or brief, what its element holds."""
    said = spoken(message)
    if message.origin.kind not in (OriginKind.SUMMARY, OriginKind.FOCUS_BRIEF):
        return said
    return gist.beginning(said.removesuffix(SUMMARY_END).removesuffix(BRIEF_END))


# -- the API ---------------------------------------------------------------------------------------------


def _api_blocks(message: SentMessage) -> Iterator[JsonObject]:
    if message.role is Role.TOOL_RESULT:
        found: list[Json] = [one for block in message.blocks if (one := _api_block(block)) is not None]
        result: dict[str, Json] = {
            "type": "tool_result",
            "tool_use_id": _api_id(message.call_id),
            "content": found or message.text,
        }
        if message.is_error:
            result["is_error"] = True
        yield result
    elif isinstance(message.content, str):
        if message.content.strip():
            yield {"type": "text", "text": message.content}
    else:
        for block in message.content:
            if (one := _api_block(block)) is not None:
                yield one


def _api_block(block: Block) -> JsonObject | None:
    document = block.document if isinstance(block.document, Mapping) else {}
    match block.kind:
        case BlockKind.TEXT:
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case BlockKind.TOOL_CALL:
            given = next((document[key] for key in ("arguments", "input", "args") if key in document), None)
            arguments = given if isinstance(given, Mapping) else {}
            return {
                "type": "tool_use",
                "id": _api_id(block.call_id),
                "name": block.tool_name or "unknown",
                "input": arguments,
            }
        case BlockKind.REASONING:
            signature = document.get("thinkingSignature") or document.get("signature")
            if document.get("type") != "thinking" or not isinstance(signature, str) or signature[:1] == "{":
                return None
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case BlockKind.IMAGE:
            return _api_image(document)
        case _ if document.get("type") in _TEXTS or (block.kind is BlockKind.TOOL_RESULT and block.text):
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case _:
            return {"type": "text", "text": stringify(block.document)}


def _api_image(document: JsonObject) -> JsonObject:
    data, mime = document.get("data"), document.get("mimeType") or document.get("mime_type")
    if isinstance(data, str) and isinstance(mime, str):
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
    return document


def _api_id(call_id: str | None) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id or "")


# -- Markdown --------------------------------------------------------------------------------------------


def _markdown_body(message: SentMessage) -> Iterator[str]:
    if isinstance(message.content, str):
        yield from _fenced(message.content)
        return
    if message.role is Role.TOOL_RESULT:
        failed = ", an error" if message.is_error else ""
        tool = f" ({message.tool_name})" if message.tool_name else ""
        yield f"Result of `{message.call_id}`{tool}{failed}:"
        yield ""
    for at, block in enumerate(message.content):
        if at:
            yield ""
        if block.kind is BlockKind.TEXT:
            yield from _fenced(block.text)
            continue
        name = f" `{block.tool_name}` `{block.call_id}`" if block.kind is BlockKind.TOOL_CALL else ""
        yield f"{block.kind}{name}:"
        yield ""
        yield from _fenced(block.text or stringify(block.document))


def _fenced(text: str) -> Iterator[str]:
    """A text that cannot end its own fence."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    yield from (fence, text, fence)
