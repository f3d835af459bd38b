"""By what a stored message is known again (docs/engine/ingest.md, "Hashes")."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from lcm_core.ingest.canonical import canonical
from lcm_core.ingest.jsonl import Json, JsonObject
from lcm_core.ingest.shapes import CALL_IDS, RESULTS, first_text, type_of
from lcm_core.javascript import js_json, well_formed

#: Only what a provider minted names an event for ever; a model may repeat an id that it made up.
_MINTED: Final = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}")


def plain_hash(role: str, content: str) -> str:
    """SHA-256 of role, NUL and content, in hexadecimal digits."""
    text = f"{role}\0{well_formed(content)}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def identity_of(role: str, content: str) -> str:
    """``messages.identity_hash``: the same of the content without what changes whenever a host sends it."""
    return plain_hash(role, canonical(role, content))


def entry_hash(role: str, content: str) -> str:
    """``conversation_bootstrap_state.last_processed_entry_hash`` of a message."""
    text = js_json({"role": role, "content": canonical(role, content)})
    return hashlib.sha256(text.encode()).hexdigest()


def event_key(message: JsonObject, role: str) -> str | None:
    """``messages.stable_event_key``: the provider's own name for an answer or for a tool's result."""
    if role == "assistant":
        response = first_text(message, ("responseId", "response_id"))
        return f"assistant-response:{response}" if response else None
    if role != "tool":
        return None
    ids = {one for one in _result_ids(message) if one}
    content = message.get("content")
    blocks = [one for one in content if type_of(one) in RESULTS] if isinstance(content, list) else []
    if len(blocks) > 1 or len(ids) != 1:
        return None
    call = ids.pop()
    return f"tool-result:{call}" if _MINTED.fullmatch(call) else None


def _result_ids(message: JsonObject) -> Iterator[str | None]:
    names = (*CALL_IDS, "id")
    yield first_text(message, names)
    content: Json = message.get("content")
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and type_of(block) in RESULTS:
            yield first_text(block, names)
