"""Context items as they are read for assembly: rows, whole, before any rule was applied to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lcm_core.records import LargeFile, Message, MessagePart, SummaryId, SummaryText


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A raw message in a context, whole."""

    ordinal: int
    message: Message
    parts: tuple[MessagePart, ...]
    payload: LargeFile | None = None  #: that ``large_content`` names, read only when stubs are wanted


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary in a context, whole."""

    ordinal: int
    text: SummaryText
    sources: tuple[SummaryId, ...]  #: that have a row, in the order of condensation


@dataclass(frozen=True, slots=True)
class Dangling:
    """A context item whose row is gone: the engine skips it silently."""

    ordinal: int
    name: str  #: of what is gone: ``message 7`` or the id of a summary


StoredItem: TypeAlias = "StoredMessage | StoredSummary | Dangling"
