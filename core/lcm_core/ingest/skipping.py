"""Messages and sessions of a host that are not stored (docs/engine/ingest.md, "What is not stored")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lcm_core.ingest.parts import first_text
from lcm_core.javascript import BLANKS, JsonObject


class Skipped(StrEnum):
    """Why a message is not stored; the value ends a sentence that begins with a number of messages."""

    ROLE = "of roles that the engine does not store"
    FAILED = "empty answers of a turn that failed or was stopped"
    RUNTIME = "runtime context of the host"
    HEARTBEAT = "heartbeats"


#: How the engine stores the roles of a host; others are not stored.
_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "toolResult": "tool",
}
_RUNTIME: Final = (
    "OpenClaw runtime context for the immediately preceding user message. "
    "This context is runtime-generated, not user-author."
)
_POLL: Final = "[openclaw heartbeat poll]"
_ACKNOWLEDGED: Final = "heartbeat_ok"
_MARKER: Final = "heartbeat.md"


def stored_role(message: JsonObject) -> str | None:
    """The role under which a message is stored; None when it is not."""
    role = message.get("role")
    return _ROLES.get(role) if isinstance(role, str) else None


def has_failed(message: JsonObject) -> bool:
    """Whether an answer says nothing because its turn failed."""
    reason = first_text(message, ("stopReason", "stop_reason"))
    return reason in ("error", "aborted") and message.get("content") in (None, "", [])


def is_runtime_context(role: str, text: str) -> bool:
    """Whether an answer is what the host told the model about its runtime."""
    return role == "assistant" and text.lstrip(BLANKS).startswith(_RUNTIME)


def is_mirror(message: JsonObject, role: str, text: str) -> bool:
    """Whether an answer may be the copy of the one before it (the database decides)."""
    return role == "assistant" and message.get("model") == "delivery-mirror" and bool(text.strip(BLANKS))


def is_poll(role: str, content: str) -> bool:
    """Whether a message is the host's own timer asking (docs/engine/ingest.md, "Heartbeats")."""
    return role == "user" and content.strip(BLANKS).lower() == _POLL


def is_acknowledgement(role: str, content: str) -> bool:
    """Whether an answer says only that there is nothing to do."""
    return role == "assistant" and content.strip(BLANKS).lower() == _ACKNOWLEDGED


def names_heartbeats(content: str) -> bool:
    """Whether a text names the file in which the host keeps what its timer asks for."""
    return _MARKER in content.lower()


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Whether a session's key (or id) fits one of the patterns, as a whole."""
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = {"**": ".*", "*": "[^:]*", "?": "[^:]"}
    return re.compile(
        "".join(pieces.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*|\*|\?)", pattern)),
        re.DOTALL,
    )
