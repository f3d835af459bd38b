"""One entry of a session: who said what, and when, whichever place it was read from.

A row or line that cannot be read is an entry with a problem, never a reason to stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lcm_core.host.packing import unpacked_entry
from lcm_core.ingest.jsonl import BadLineError, RawLine, decode_object, peek_object, read_moment, string
from lcm_core.ingest.parts import message_text
from lcm_core.ingest.skipping import has_failed, is_runtime_context, stored_role
from lcm_core.javascript import Json, JsonObject
from lcm_core.store.host_sessions import ENTRY_LIMIT, EventRow

MESSAGE = "message"
#: Answers that the host shows and no model gave: the engine never gets them.
_SHOWN_ONLY: Final = frozenset({"delivery-mirror", "gateway-injected"})


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One entry of a session's path. Texts are as the host wrote them: make them safe before showing them."""

    number: int  #: its place in the file: ``seq`` of a row (0 is the header), or the line, from 1
    entry_id: str | None
    type: str | None  #: message, compaction, reset ...
    role: str | None  #: of a message, as the host wrote it
    text: str | None  #: of a message: what its text blocks say; None where it cannot be read
    created_at: datetime | None  #: UTC
    problem: str | None  #: why it is not shown whole; follows "entry N:" in a sentence
    is_storable: bool = False  #: a message that an engine stores, unless it is a heartbeat

    @property
    def is_message(self) -> bool:
        """Whether it is something that somebody said."""
        return self.type == MESSAGE


def entry_of_row(row: EventRow) -> SessionEntry:
    """The entry that a row of the host's table holds."""
    try:
        value, problem = value_of(row)
    except BadLineError as error:
        value, problem = navigation_of(row), str(error)
    return entry_of(row.seq, value, problem, row.created_ms)


def entry_of_line(line: RawLine) -> SessionEntry:
    """The entry that a line of a transcript holds."""
    try:
        if line.too_long:
            return entry_of(line.number, peek_object(line.data), _too_long(line.size))
        return entry_of(line.number, decode_object(line.data), None)
    except BadLineError as error:
        return entry_of(line.number, {}, str(error))


def entry_of(
    number: int, value: JsonObject, problem: str | None, created_ms: int | None = None
) -> SessionEntry:
    """The entry of a value, of which only the beginning may be there: then there is a *problem*."""
    held = value.get("message")
    message: JsonObject = held if isinstance(held, dict) else {}
    kind = string(value.get("type"))
    if kind == MESSAGE and not message and problem is None:
        problem = "an entry of type message without a message"
    stamp = read_moment(value.get("timestamp")) or read_moment(message.get("timestamp"))
    return SessionEntry(
        number,
        string(value.get("id")),
        kind,
        string(message.get("role")),
        text_of(message.get("content")) if kind == MESSAGE and problem is None else None,
        stamp or read_moment(created_ms),
        problem,
        kind == MESSAGE and _is_storable(message),
    )


def _is_storable(message: JsonObject) -> bool:
    """Whether an engine stores such messages (docs/host.md, "Is it ingesting?")."""
    role, model = stored_role(message), message.get("model")
    shown_only = message.get("provider") == "openclaw" and model in _SHOWN_ONLY
    mirrored = role == "assistant" and model == "delivery-mirror"
    if role is None or shown_only or mirrored or has_failed(message):
        return False
    return not (role == "assistant" and is_runtime_context(role, message_text(message)))


def text_of(content: Json) -> str:
    """What a message says: a text as it is, of blocks their texts, one in a line."""
    if isinstance(content, str):
        return content
    return "\n".join(_texts(content))


def _texts(content: Json) -> Iterator[str]:
    blocks = content if isinstance(content, list) else [content]
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield str(block["text"])


def value_of(row: EventRow) -> tuple[JsonObject, str | None]:
    """What a row holds, and why it is not whole.

    Raises:
        BadLineError: it cannot be read at all.
        ConfigurationError: this Python cannot unpack it.
    """
    if row.json is not None and row.packed_size is not None:
        raise BadLineError("its row contains it twice, as text and packed")
    if row.json is not None:
        if len(row.json) > ENTRY_LIMIT:
            return peek_object(row.json), _too_long(None)
        return decode_object(row.json), None
    if row.packed_size is None:
        raise BadLineError("its row is empty")
    if row.packed is None:
        raise BadLineError(_too_long(row.packed_size))
    return decode_object(unpacked_entry(row.packed, row.size, ENTRY_LIMIT)), None


def navigation_of(row: EventRow) -> JsonObject:
    """What the host noted beside a packed entry: its type, ids, time and role; empty when it did not."""
    try:
        noted = decode_object(row.navigation or "").get("navigation")
    except BadLineError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _too_long(size: int | None) -> str:
    said = f"{size:,} bytes" if size is not None else f"more than {ENTRY_LIMIT:,} characters"
    return f"too long ({said}) to be read with the others"
