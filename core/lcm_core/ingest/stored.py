"""One message of a host as the rows that hold it (docs/engine/ingest.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lcm_core.assemble.blocks import Part, blocks_of, part_with_metadata
from lcm_core.assemble.rebuild import PART_ID, sender_fields
from lcm_core.engine_rules import RULES_PRESENT, IngestRules
from lcm_core.ingest.host_file import HostMessage
from lcm_core.ingest.identity import event_key, identity_of
from lcm_core.ingest.parts import StoredPart, TopLevel, message_text, parts_of, top_level
from lcm_core.ingest.payloads import NewId, Payload, take_out
from lcm_core.ingest.skipping import Skipped, has_failed, is_mirror, is_runtime_context, stored_role
from lcm_core.javascript import Json, JsonObject, js_json, well_formed
from lcm_core.records import MessageId, MessagePart
from lcm_core.store.files import new_file_id
from lcm_core.tokens import estimate_weighted


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The rows of one message, but for the ids that a database gives."""

    entry_id: str | None
    role: str
    content: str
    tokens: int
    whole_tokens: int  #: before payloads were taken out
    identity: str  #: ``identity_hash``
    event_key: str | None
    sender: str | None  #: JSON
    created_at: (
        str | None
    )  #: UTC, ``YYYY-MM-DD HH:MM:SS`` (years of six digits lose seconds); None: the present
    parts: tuple[StoredPart, ...]
    payloads: tuple[Payload, ...]
    may_mirror: bool = False  #: not stored behind the answer that it repeats
    is_reasoned: bool = False  #: it holds reasoning: a copy of it is not stored


def store_message(
    host: HostMessage, rules: IngestRules, *, new_id: NewId = new_file_id
) -> StoredMessage | Skipped:
    """The rows that the engine would write for a message, or why it writes none."""
    role = stored_role(host.message)
    if role is None:
        return Skipped.ROLE
    if role == "assistant" and has_failed(host.message):
        return Skipped.FAILED
    message = host.message
    content, top = message_text(message), top_level(message)
    if is_runtime_context(role, content):
        return Skipped.RUNTIME
    parts = parts_of(message, top)
    tokens = _count_tokens(message, top, parts, content)
    taken = take_out(
        message,
        role,
        top,
        content=content,
        tokens=tokens,
        threshold=rules.large_file_token_threshold,
        new_id=new_id,
        count=_count,
    )
    if taken.message is not message:
        parts = parts_of(taken.message, top)
    text = well_formed(taken.content)
    return StoredMessage(
        entry_id=_kept(host.entry_id),
        role=role,
        content=text,
        tokens=taken.tokens,
        whole_tokens=tokens,
        identity=identity_of(role, text),
        event_key=_kept(event_key(message, role)),
        sender=sender_metadata(message),
        created_at=host.created_at,
        parts=tuple(map(_kept_part, parts)),
        payloads=taken.payloads,
        may_mirror=is_mirror(message, role, content),
        is_reasoned=top.reasoning is not None or any(part.part_type == "reasoning" for part in parts),
    )


def message_tokens(message: JsonObject) -> int:
    """Tokens of a message, whether it is stored or not, before payloads are taken out."""
    return _count(message, top_level(message))


def _count(message: JsonObject, top: TopLevel) -> int:
    return _count_tokens(message, top, parts_of(message, top), message_text(message))


def _kept_part(part: StoredPart) -> StoredPart:
    """A part as a database keeps it: half a surrogate pair is no character there."""
    columns = (part.text, part.tool_call_id, part.tool_name, part.tool_input, part.tool_output)
    kept = tuple(map(_kept, columns))
    if kept == columns:
        return part
    text, call_id, name, given, output = kept
    return replace(
        part, text=text, tool_call_id=call_id, tool_name=name, tool_input=given, tool_output=output
    )


def _kept(name: str | None) -> str | None:
    return None if name is None else well_formed(name)


# -- tokens ------------------------------------------------------------------------------------------------


def _count_tokens(message: JsonObject, top: TopLevel, parts: Sequence[StoredPart], content: str) -> int:
    """``messages.token_count`` of a message that says *content* and is stored as *parts*."""
    if "content" not in message:
        return estimate_weighted(content)
    said = message["content"]
    if isinstance(said, str) and top.role in ("user", "system"):
        return estimate_weighted(said)
    sent = _sent(top, parts, content)
    tokens = estimate_weighted(sent if isinstance(sent, str) else js_json(sent))
    return tokens + (estimate_weighted(top.reasoning) if top.reasoning is not None else 0)


def _sent(top: TopLevel, parts: Sequence[StoredPart], content: str) -> Json:
    """The content that assembly would send."""
    is_user = top.role in ("user", "system")
    if len(parts) == 1 and parts[0].noted.get("topLevelReasoningOnly") is True:
        blocks: list[Json] = [{"type": "reasoning"}]
    elif all(_is_text(part.noted.get("raw")) for part in parts):
        blocks = [part.noted["raw"] for part in parts]
    else:
        held = [_as_read(ordinal, part) for ordinal, part in enumerate(parts)]
        rebuilt = blocks_of(held, RULES_PRESENT.assembly, vouched=bool(top.identity))
        blocks = [block.document for block in rebuilt]
    if not blocks:
        if is_user:
            return content
        return [{"type": "text", "text": content}] if content or top.role != "assistant" else content
    only = blocks[0]
    if is_user and len(blocks) == 1 and isinstance(only, dict) and only.get("type") == "text":
        text = only.get("text")
        if isinstance(text, str):
            return text
    return blocks


def _is_text(raw: Json) -> bool:
    """Whether a block of the host is sent as it is without further questions."""
    return isinstance(raw, dict) and raw.get("type") == "text"


def _as_read(ordinal: int, part: StoredPart) -> Part:
    """A part as assembly reads it from the database."""
    row = MessagePart(
        MessageId(0),
        ordinal,
        part.part_type,
        part.text,
        part.tool_call_id,
        part.tool_name,
        None,
        part.tool_input,
        part.tool_output,
        None,
        None,
        None,
        None,
        None,
        f"{PART_ID}{ordinal}",
    )
    return part_with_metadata(row, part.noted)


# -- who said it -------------------------------------------------------------------------------------------


def sender_metadata(message: JsonObject) -> str | None:
    """``messages.openclaw_sender_metadata``: JSON; None when the host does not say who it was."""
    sender = message.get("__openclaw")
    if message.get("role") != "user" or not isinstance(sender, dict):
        return None
    found = sender_fields(sender)
    return js_json(found) if found else None
