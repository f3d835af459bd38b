"""Who of a group said something (docs/engine/ingest.md, "Other columns")."""

from __future__ import annotations

from typing import Final

from lcm_core.ingest.jsonl import JsonObject
from lcm_core.javascript import BLANKS, js_json

_NAMES: Final = ("senderId", "senderName", "senderUsername")


def sender_of(message: JsonObject) -> str | None:
    """``messages.openclaw_sender_metadata``: JSON; None when the host does not say who it was."""
    told = message.get("__openclaw")
    if message.get("role") != "user" or not isinstance(told, dict):
        return None
    found: JsonObject = {}
    for name in _NAMES:
        value = told.get(name)
        if isinstance(value, str) and value.strip(BLANKS):
            found[name] = value
    return js_json(found) if found else None
