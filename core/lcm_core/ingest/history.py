"""The messages of a transcript in the order in which the host sees them, one after the other.

Only the path that ends at the last entry counts (field.md 6.2). Lines have no limit of their own: each is
held while it is worked on, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lcm_core.ingest.header import EPOCH, read_moment
from lcm_core.ingest.index import TranscriptIndex, index_transcript
from lcm_core.ingest.jsonl import (
    BadLineError,
    Cancelled,
    Json,
    JsonObject,
    TranscriptChangedError,
    never,
    open_transcript,
    read_object,
    string,
)
from lcm_core.ingest.transcript import read_line
from lcm_core.javascript import js_json

#: Bytes of a line that are read for an import: more than any that a host writes.
NO_LIMIT: Final = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class HostMessage:
    """A message as its host has it."""

    message: JsonObject  #: field.md 6.3
    moment: datetime  #: UTC, without fractions of a second
    entry_id: str | None = None
    sender: str | None = None  #: JSON: senderId, senderName, senderUsername
    line: int | None = None  #: in its transcript, from 1
    end: int | None = None  #: the byte behind its line


def index_for_import(path: Path, *, cancelled: Cancelled = never) -> TranscriptIndex:
    """`index_transcript` without a limit on lines; raises the same errors."""
    return index_transcript(path, line_limit=NO_LIMIT, cancelled=cancelled)


def message_positions(index: TranscriptIndex) -> list[int]:
    """The positions on the path that hold messages."""
    role, shown = index.scan.columns.role, index.shown
    return [position for position, number in enumerate(shown) if role[number]]


def entry_ids(index: TranscriptIndex, positions: list[int]) -> list[str | None]:
    """The ids of the entries at some positions of the path."""
    by_number = {number: entry_id for entry_id, number in index.scan.numbers.items()}
    return [by_number.get(index.shown[position]) for position in positions]


def read_messages(
    index: TranscriptIndex,
    positions: list[int],
    *,
    after: datetime | None = None,
    cancelled: Cancelled = never,
) -> Iterator[HostMessage]:
    """The messages at some positions of the path, in their order.

    A message without a readable time has that of the one before it (*after* for the first, else the time at
    which the session began, else that of the file): never the time of the import.

    Raises:
        TranscriptError: the file cannot be read, or was rewritten since it was indexed.
        ReadCancelledError: the caller stopped it.
    """
    last = after or _beginning(index)
    with open_transcript(index.path) as file:
        for position in positions:
            line = read_line(index, file, index.shown[position], NO_LIMIT, cancelled)
            try:
                value = read_object(line.data)
            except BadLineError as error:
                raise TranscriptChangedError(
                    f"{index.path} was rewritten while it was read (line {line.number}): try again."
                ) from error
            held = value.get("message")
            message: JsonObject = held if isinstance(held, dict) else {}
            last = _moment(value.get("timestamp"), message.get("timestamp")) or last
            yield HostMessage(
                message,
                last,
                string(value.get("id")),
                _sender(message),
                line.number,
                line.offset + line.size + line.ended,
            )


def _moment(*stamps: Json) -> datetime | None:
    found = next((moment for stamp in stamps if (moment := read_moment(stamp)) is not None), None)
    return None if found is None else found.replace(microsecond=0)


def _beginning(index: TranscriptIndex) -> datetime:
    if index.header is not None and index.header.started_at is not None:
        return index.header.started_at.replace(microsecond=0)
    seconds = index.stamp.modified_ns // 10**9
    return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else EPOCH


def _sender(message: JsonObject) -> str | None:
    """``messages.openclaw_sender_metadata``: who of a group wrote it."""
    keys = ("senderId", "senderName", "senderUsername")
    found: JsonObject = {key: message[key] for key in keys if string(message.get(key)) is not None}
    return js_json(found) if found and message.get("role") == "user" else None


def host_message(
    message: JsonObject, *, now: datetime, entry_id: str | None = None, last: datetime | None = None
) -> HostMessage:
    """A message that a host hands over itself, stamped as the host did, else by the clock."""
    moment = _moment(message.get("timestamp")) or last or now.astimezone(UTC).replace(microsecond=0)
    return HostMessage(message, moment, entry_id, _sender(message))
