"""Where the fresh tail of a context begins: the newest messages, which compaction may not touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lcm_core.rules import Rules


class TailItem(Protocol):
    """What the rule needs to know of a context item, in order of ordinal."""

    @property
    def ordinal(self) -> int:
        """Place in the context."""

    @property
    def is_message(self) -> bool:
        """Whether it stands for a raw message whose row exists."""

    @property
    def role(self) -> str | None:
        """Role of the message."""

    @property
    def tokens(self) -> int:
        """Stored estimate."""


@dataclass(frozen=True, slots=True)
class FreshTail:
    """The protected end of a context."""

    count: int  #: messages that the rule protects at most, before the turn is kept whole
    max_tokens: int | None  #: cap on its tokens; the newest message is protected in any case
    first_ordinal: int | None  #: None: the context holds no raw message, nothing is protected
    messages: int  #: raw messages from there on
    tokens: int  #: their stored tokens


def fresh_tail(
    items: Sequence[TailItem], rules: Rules, *, count: int | None = None, max_tokens: int | None = None
) -> FreshTail:
    """The fresh tail of a context under *rules*, with an operator's settings on top (engine.md 2.2, 2.5).

    The newest *count* raw messages, fewer when they exceed *max_tokens*; at the present engine moved back to
    the newest user message, so that the active turn is not split; a tail of none stays none (so recorded of
    compaction).
    """
    limit = rules.fresh_tail_count if count is None else count
    messages = [item for item in items if item.is_message]
    first, spent = len(messages), 0
    while first > 0 and len(messages) - first < limit:
        tokens = messages[first - 1].tokens
        if max_tokens is not None and first < len(messages) and spent + tokens > max_tokens:
            break
        spent += tokens
        first -= 1
    if rules.tail_keeps_turn_whole and first < len(messages):
        users = [index for index, item in enumerate(messages) if item.role == "user"]
        if users and users[-1] < first:
            first = users[-1]
    tail = messages[first:]
    return FreshTail(
        count=limit,
        max_tokens=max_tokens,
        first_ordinal=tail[0].ordinal if tail else None,
        messages=len(tail),
        tokens=sum(item.tokens for item in tail),
    )
