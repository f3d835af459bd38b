"""One message of a host as the rows that stand for it (engine.md 1.3, 1.4, 5)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from lcm_core.dag.markers import BLANKS
from lcm_core.ingest.content import engine_role
from lcm_core.ingest.history import HostMessage
from lcm_core.ingest.identity import event_key, identity_of, is_decorated
from lcm_core.ingest.parts import StoredPart, content_of, counted_text, parts_of, text_of_content
from lcm_core.ingest.payloads import NewId, Payload, take_out
from lcm_core.ingest.skipping import Skipped, reason_to_skip
from lcm_core.ingest.storing import StoringRules
from lcm_core.javascript import well_formed

#: Tokens from which on a payload goes to a file (engine.md 7.2: largeFileTokenThreshold).
LARGE_TOKENS = 25_000


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The rows of one message, but for the ids that a database gives."""

    entry_id: str | None
    role: str
    content: str
    tokens: int
    identity: str  #: by the plain rule, by which it is compared
    identity_hash: str | None  #: as stored: NULL for a user's message that the host decorated
    event_key: str | None
    sender: str | None  #: JSON
    large_content: str | None
    created_at: datetime  #: UTC, to the second
    parts: tuple[StoredPart, ...]
    payloads: tuple[Payload, ...]


def new_file_id() -> str:
    """``file_`` and 16 random hexadecimal digits."""
    return f"file_{secrets.token_hex(8)}"


def store_message(
    host: HostMessage, rules: StoringRules, *, threshold: int = LARGE_TOKENS, new_id: NewId = new_file_id
) -> StoredMessage | Skipped:
    """The rows that the engine would write for a message, or why it writes none."""
    role = engine_role(str(host.message.get("role") or ""))
    taken = take_out(host.message, role, threshold=threshold, rules=rules, new_id=new_id)
    parts = parts_of(taken.message, role, taken.marks, rules)
    text = well_formed(text_of_content(content_of(taken.message), rules))
    has_parts = any(part.part_type != "text" or (part.text or "").strip(BLANKS) for part in parts)
    skipped = reason_to_skip(taken.message, role, text, has_parts=has_parts)
    if skipped is not None:
        return skipped
    identity = identity_of(role, text)
    return StoredMessage(
        entry_id=_kept(host.entry_id),
        role=role,
        content=text,
        tokens=rules.estimate(counted_text(taken.message, role, rules)),
        identity=identity,
        identity_hash=None if is_decorated(role, text) else identity,
        event_key=_kept(event_key(taken.message, role)),
        sender=host.sender,
        large_content=taken.large_content,
        created_at=host.moment,
        parts=tuple(parts),
        payloads=taken.payloads,
    )


def _kept(name: str | None) -> str | None:
    """A name as a database keeps it."""
    return None if name is None else well_formed(name)
