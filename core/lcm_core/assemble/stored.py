"""Context items as they are read for assembly: rows, whole, before any rule was applied to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, TypeAlias

from lcm_core.frozen import dataclass
from lcm_core.records import LargeFile, Message, MessagePart, SummaryId, SummaryText
from lcm_core.tokens import as_engine_read, has_surrogates


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A raw message in a context, whole."""

    ordinal: int
    message: Message
    parts: tuple[MessagePart, ...]
    payload: LargeFile | None = None  #: that ``large_content`` names, read only when stubs are wanted

    def as_engine_read(self) -> StoredMessage:
        """The same with U+FFFD for bytes that are no UTF-8: so the engine has them, and sends them."""
        texts: list[str | None] = [self.message.content]
        for part in self.parts:
            texts += _texts_of(part)
        for text in texts:
            if text and not text.isascii() and has_surrogates(text):
                break
        else:
            return self
        message = replace(self.message, content=as_engine_read(self.message.content))
        return replace(self, message=message, parts=tuple(map(_part_as_read, self.parts)))


#: Columns of a part that hold what somebody wrote.
_TEXTS: Final = (
    "text",
    "tool_call_id",
    "tool_name",
    "tool_input",
    "tool_output",
    "tool_error",
    "file_name",
    "file_url",
    "metadata",
)
_texts_of: Final[Callable[[MessagePart], tuple[str | None, ...]]] = attrgetter(*_TEXTS)


def _part_as_read(part: MessagePart) -> MessagePart:
    held = zip(_TEXTS, _texts_of(part), strict=True)
    changed: dict[str, Any] = {name: as_engine_read(text) for name, text in held if text is not None}
    return replace(part, **changed)


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary in a context, whole."""

    ordinal: int
    text: SummaryText
    sources: tuple[SummaryId, ...]  #: that have a row, in the order of condensation

    def as_engine_read(self) -> StoredSummary:
        """The same with U+FFFD for bytes that are no UTF-8."""
        if not has_surrogates(self.text.content):
            return self
        return replace(self, text=replace(self.text, content=as_engine_read(self.text.content)))


@dataclass(frozen=True, slots=True)
class Dangling:
    """A context item whose row is gone: the engine skips it silently."""

    ordinal: int
    name: str  #: of what is gone: ``message 7`` or the id of a summary


StoredItem: TypeAlias = "StoredMessage | StoredSummary | Dangling"
