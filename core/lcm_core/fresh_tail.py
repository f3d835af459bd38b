"""Where the fresh tail of a context begins: the newest messages, which compaction may not touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lcm_core.engine_rules import TailRules


class TailItem(Protocol):
    """What the rule needs to know of a context item, in order of ordinal."""

    @property
    def ordinal(self) -> int:
        """Place in the context."""

    @property
    def is_message(self) -> bool:
        """Whether it is a raw message whose row exists."""

    @property
    def role(self) -> str | None:
        """Role of the message."""

    @property
    def tokens(self) -> int:
        """Its weight: as stored for compaction, as sent for assembly."""


@dataclass(frozen=True, slots=True)
class FreshTail:
    """The protected end of a context."""

    count: int  #: messages that the rule protects at most, before the turn is kept whole
    max_tokens: int | None  #: cap on its tokens; the newest message is protected in any case
    first_ordinal: int | None  #: None: the context holds no raw message, nothing is protected
    messages: int  #: raw messages from there on
    tokens: int  #: what they weigh together


def protected(
    newest_first: Iterable[tuple[int, bool]], *, count: int, max_tokens: int | None, whole_turn: bool
) -> int:
    """How many raw messages of a context are protected, counted from its end.

    *newest_first*: the weight of each raw message in tokens, and whether its role is user; no more of them is
    looked at than the rule needs. With *whole_turn* (0.15 on) everything up to the newest user message is
    protected whatever the limits say, and counts against both (docs/engine/compaction.md, "Fresh tail").
    """
    if count <= 0:
        return 0
    taken, spent = 0, 0
    waiting = whole_turn  # for the newest user message
    without_user: int | None = None  # how many they are if there is none
    for tokens, is_user in newest_first:
        if taken and (taken >= count or (max_tokens is not None and spent + tokens > max_tokens)):
            if not waiting:
                return taken
            if without_user is None:
                without_user = taken
        taken += 1
        spent += tokens
        waiting = waiting and not is_user
    return without_user if waiting and without_user is not None else taken


def fresh_tail(items: Sequence[TailItem], rules: TailRules) -> FreshTail:
    """The fresh tail of a context (docs/engine/compaction.md, "Fresh tail")."""
    messages = [item for item in items if item.is_message]
    size = protected(
        ((item.tokens, item.role == "user") for item in reversed(messages)),
        count=rules.fresh_tail_count,
        max_tokens=rules.fresh_tail_max_tokens,
        whole_turn=rules.keeps_turn_whole,
    )
    tail = messages[len(messages) - size :]
    return FreshTail(
        count=rules.fresh_tail_count,
        max_tokens=rules.fresh_tail_max_tokens,
        first_ordinal=tail[0].ordinal if tail else None,
        messages=len(tail),
        tokens=sum(item.tokens for item in tail),
    )
