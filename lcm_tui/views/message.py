"""How a message is named, and what it holds, part by part."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.ingest.content import ContentPart, PartKind, row_parts
from lcm_core.store.messages import MessageEntry


def message_name(message_id: object, seq: object = None) -> str:
    """A message as every screen names it: ``m47``, with its place in the conversation ``m47 #12``."""
    return f"m{message_id}" if seq is None else f"m{message_id} #{seq}"


def parts_of(entry: MessageEntry) -> Sequence[ContentPart]:
    """What the message holds: its parts, else its text (bulk imports wrote no parts)."""
    found = [part for row in entry.parts for part in row_parts(row, entry.message.role)]
    if any(part.text or part.arguments or part.byte_size or part.name for part in found):
        return found
    return [ContentPart(PartKind.TEXT, "", entry.message.content), *found]
