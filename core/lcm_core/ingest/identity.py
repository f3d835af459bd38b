"""By what a stored message is known again (engine.md 1.3)."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from lcm_core.ingest.jsonl import JsonObject, string
from lcm_core.javascript import js_json, well_formed

#: How the lines begin that the host puts around what a user wrote. The engine takes them away before it
#: hashes; by which rule exactly is not known, so such a row gets no hash.
_DECORATION: Final = re.compile(
    r"^(?:Conversation info|Sender|Thread starter|Replied message|Forwarded message(?: context)?"
    r"|Chat history[^\n(]{0,40}) ?\((?:untrusted|metadata)|^Untrusted context \(",
    re.MULTILINE,
)
#: Only what a provider minted names an event for ever; a model may repeat an id that it made up.
_MINTED: Final = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}")


def identity_of(role: str, content: str) -> str:
    """SHA-256 of role, NUL and content, in hexadecimal digits: the plain rule."""
    text = f"{role}\0{well_formed(content)}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_decorated(role: str, content: str) -> bool:
    """Whether the host put metadata around what a user wrote, so that the plain rule does not hold."""
    return role == "user" and "(" in content and _DECORATION.search(content) is not None


def event_key(message: JsonObject, role: str) -> str | None:
    """``messages.stable_event_key``: the provider's own name for an answer or for a tool's result."""
    if role == "assistant":
        response = string(message.get("responseId"))
        return None if response is None else f"assistant-response:{response}"
    if role == "tool":
        call = string(message.get("toolCallId")) or string(message.get("tool_call_id"))
        if call is not None and _MINTED.fullmatch(call):
            return f"tool-result:{call}"
    return None


def entry_hash(role: str, content: str) -> str:
    """``conversation_bootstrap_state.last_processed_entry_hash`` of the last message imported."""
    return hashlib.sha256(js_json({"role": role, "content": content}).encode()).hexdigest()
