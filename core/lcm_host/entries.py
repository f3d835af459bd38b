"""An entry of a session, wherever it is stored: a row of the host's table, or a line of a file or archive.

Source: docs/spec/host.md. A row or line that cannot be read is an entry with a problem, never a reason to
stop.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.jsonl import (
    BadLineError,
    RawLine,
    compact_json,
    decode_object,
    peek_object,
    read_moment,
    string,
)
from lcm_core.base.setting_values import object_or_empty
from lcm_core.base.values import Record
from lcm_core.engine.content import ContentPart, content_parts, host_parts, json_part
from lcm_core.engine.sessions import has_failed, is_runtime_context, stored_role
from lcm_core.engine.stored_parts import message_text

from lcm_host.archives import unpacked_entry
from lcm_host.rows import ENTRY_LIMIT, EventRow

MESSAGE: Final = "message"
#: Answers that the host shows and no model gave: the engine never gets them.
_SHOWN_ONLY: Final = frozenset({"delivery-mirror", "gateway-injected"})
_FRAME: Final = ("type", "id", "parentId", "timestamp")


class SessionEntry(Record, frozen=True):
    """One entry of a session. Texts are as the host wrote them: make them safe before showing them."""

    number: int  #: its place: ``seq`` of a row (0 is the header), or the line, from 1
    value: JsonObject  #: what it holds; where it cannot be read whole, what is known of it
    unread: str | None = None  #: why that is not all of it; follows "entry N:" in a sentence
    stored_at: datetime | None = None  #: UTC; when the host stored it

    @property
    def entry_id(self) -> str | None:
        """Its id."""
        return string(self.value.get("id"))

    @property
    def type(self) -> str | None:
        """Message, compaction, reset and others."""
        return string(self.value.get("type"))

    @property
    def is_message(self) -> bool:
        """Whether it is something that somebody said."""
        return self.type == MESSAGE

    @property
    def message(self) -> JsonObject:
        """The message in it; empty where there is none."""
        return object_or_empty(self.value.get("message"))

    @property
    def role(self) -> str | None:
        """Of a message, as the host wrote it."""
        return string(self.message.get("role"))

    @property
    def problem(self) -> str | None:
        """Why it is not shown whole."""
        if self.unread is None and self.is_message and not self.message:
            return "an entry of type message without a message"
        return self.unread

    @property
    def text(self) -> str | None:
        """What the text blocks of a message say; None where it cannot be read."""
        if not self.is_message or self.problem is not None:
            return None
        return text_of(self.message.get("content"))

    @property
    def timestamp(self) -> str | None:
        """When it was made, as it is written; epoch milliseconds as digits."""
        stamp = self.value.get("timestamp")
        if read_moment(stamp) is None:
            stamp = self.message.get("timestamp") or stamp
        return str(stamp) if isinstance(stamp, str | int | float) else None

    @property
    def created_at(self) -> datetime | None:
        """The same in UTC, else when the host stored it."""
        stamp = read_moment(self.value.get("timestamp")) or read_moment(self.message.get("timestamp"))
        return stamp or self.stored_at

    @property
    def is_storable(self) -> bool:
        """A message that an engine stores: no heartbeat (docs/spec/host.md, "Is it ingesting?")."""
        if not self.is_message:
            return False
        message = self.message
        role, model = stored_role(message), message.get("model")
        shown_only = message.get("provider") == "openclaw" and model in _SHOWN_ONLY
        mirrored = role == "assistant" and model == "delivery-mirror"
        if role is None or shown_only or mirrored or has_failed(message):
            return False
        return not (role == "assistant" and is_runtime_context(role, message_text(message)))

    @property
    def title(self) -> str:
        """One line that says what an entry is that is no message."""
        if self.is_message:
            return ""
        return " ".join(self._described()[0].split())

    @property
    def parts(self) -> tuple[ContentPart, ...]:
        """What it holds: the parts of a message, a summary, a custom payload."""
        if self.is_message:
            return () if self.unread is not None else host_parts(self.message)
        return self._described()[1]

    def _described(self) -> _Described:
        kind = str(self.value.get("type") or "")
        return (kind or "entry", ()) if self.unread is not None else _described(kind, self.value)


def entry_of_row(row: EventRow) -> SessionEntry:
    """The entry that a row of the host's table holds."""
    try:
        value, unread = value_of(row)
    except BadLineError as error:
        value, unread = _navigation_of(row), str(error)
    return SessionEntry(row.seq, value, unread, read_moment(row.created_ms))


def entry_of_line(line: RawLine) -> SessionEntry:
    """The entry that a line of a transcript holds."""
    try:
        if line.too_long:
            return SessionEntry(line.number, peek_object(line.data), too_long(line.size))
        return SessionEntry(line.number, decode_object(line.data))
    except BadLineError as error:
        return SessionEntry(line.number, {}, str(error))


def text_of(content: Json) -> str:
    """What a message says: a text as it is, of blocks their texts, one in a line."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    said = (one.get("text") if isinstance(one, dict) and one.get("type") == "text" else one for one in blocks)
    return "\n".join(one for one in said if isinstance(one, str))


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
            return peek_object(row.json), too_long(None)
        return decode_object(row.json), None
    if row.packed_size is None:
        raise BadLineError("its row is empty")
    if row.packed is None:
        raise BadLineError(too_long(row.packed_size))
    return decode_object(unpacked_entry(row.packed, row.size, ENTRY_LIMIT)), None


def _navigation_of(row: EventRow) -> JsonObject:
    """What the host noted beside a packed entry: its type, ids, time and role; empty when it did not."""
    try:
        noted = decode_object(row.navigation or "").get("navigation")
    except BadLineError:
        return {}
    return noted if isinstance(noted, dict) else {}


def too_long(size: int | None) -> str:
    """Why an entry is not read; None: its bytes were not counted."""
    how_long = f"{size:,} bytes" if size is not None else f"more than {ENTRY_LIMIT:,} characters"
    return f"too long ({how_long}) to be read with the others"


# -- entries that are no messages ------------------------------------------------------------------------

_Described = tuple[str, tuple[ContentPart, ...]]


def _described(kind: str, value: JsonObject) -> _Described:
    """What an entry is, and what it holds beside that."""
    match kind:
        case "compaction":
            before = value.get("tokensBefore")
            counted = isinstance(before, int) and not isinstance(before, bool)
            said = f"compaction ({before:,} tokens before)" if counted else "compaction"
            return said, content_parts(value.get("summary"))
        case "branch_summary":
            origin = string(value.get("fromId"))
            said = f"branch summary from {origin}" if origin else "branch summary"
            return said, content_parts(value.get("summary"))
        case "model_change":
            names = filter(None, (string(value.get("provider")), string(value.get("modelId"))))
            return f"model: {'/'.join(names) or 'not recorded'}", ()
        case "thinking_level_change":
            return f"thinking level: {_word(value.get('thinkingLevel'))}", ()
        case "reset":
            reason = string(value.get("reason"))
            return f"reset: {reason}" if reason else "reset", _rest(value)
        case "custom":
            data = value.get("data")
            parts = () if data is None else (json_part("custom", data),)
            return f"custom: {_word(value.get('customType'))}", parts
        case "custom_message":
            return f"custom message: {_word(value.get('customType'))}", content_parts(value.get("content"))
        case _:
            return kind, _rest(value)


def _word(value: Json) -> str:
    return string(value) or ("not recorded" if value is None else compact_json(value))


def _rest(value: JsonObject) -> tuple[ContentPart, ...]:
    """What an entry holds beside its frame, as JSON."""
    rest: JsonObject = {key: each for key, each in value.items() if key not in _FRAME}
    return (json_part("", rest),) if rest else ()
