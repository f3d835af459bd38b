"""Messages of a host that the engine does not store, and which it pairs off as heartbeats (engine.md 5)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from lcm_core.dag.markers import BLANKS
from lcm_core.ingest.jsonl import JsonObject, string


class Skipped(StrEnum):
    """Why a message is not stored; the value ends a sentence that begins with a number of messages."""

    FAILED = "empty answers of a turn that failed or was stopped"
    MIRROR = "copies of answers that the host delivered elsewhere"
    RUNTIME = "runtime context of the host"
    HEARTBEAT = "heartbeats"


_RUNTIME: Final = re.compile(r"\s*(?:<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>|OpenClaw runtime context\b)")
_POLL: Final = re.compile(r"\s*(?:HEARTBEAT\b|Read HEARTBEAT\.md\b|\[?heartbeat(?: poll| check)?\]?\s*\Z)")
_ACKNOWLEDGED: Final = re.compile(r"\s*HEARTBEAT_OK\b.{0,40}\Z", re.DOTALL)


def reason_to_skip(message: JsonObject, role: str, content: str, *, has_parts: bool) -> Skipped | None:
    """Why this message is not stored; None when it is. Blank messages are, unless a turn failed."""
    if role == "assistant":
        if message.get("provider") == "openclaw" and message.get("model") == "delivery-mirror":
            return Skipped.MIRROR
        blank = not content.strip(BLANKS) and not has_parts
        if blank and string(message.get("stopReason")) in ("error", "aborted"):
            return Skipped.FAILED
    if role in ("user", "system") and _RUNTIME.match(content):
        return Skipped.RUNTIME
    return None


def is_poll(role: str, content: str) -> bool:
    """Whether a message is the host's own timer asking."""
    return role == "user" and len(content) < 2_000 and _POLL.match(content) is not None


def is_acknowledgement(role: str, content: str) -> bool:
    """Whether an answer says only that there is nothing to do."""
    return role == "assistant" and _ACKNOWLEDGED.match(content) is not None
