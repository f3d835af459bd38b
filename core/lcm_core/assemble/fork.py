"""What a fork adds to its context: the host's messages behind the place where it was forked. Pure.

Source: docs/engine/assembly.md, "Forks".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lcm_core.assemble.message import Role, SentMessage
from lcm_core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ForkMark:
    """That a conversation was begun from a fork of which a part was left out."""

    source_messages: int  #: of the transcript when it was first read; 0: not known
    budget: int  #: tokens of a first import


@dataclass(frozen=True, slots=True)
class Suffixed:
    """Assembled messages with those of the fork behind them."""

    messages: tuple[SentMessage, ...]
    tokens: int
    appended: int  #: the last so many are the fork's
    evicted: int  #: messages that gave way: assembled ones from the front, then the fork's from theirs


def fork_suffix(
    assembled: Sequence[SentMessage], live: Sequence[SentMessage], source_messages: int
) -> tuple[SentMessage, ...]:
    """The host's messages that are the fork's own, without answers at their end.

    They begin behind the last message of the source that was assembled too; where none was, behind the
    source, and with all of them when the host holds fewer than that.
    """
    covered = {_signature(one) for one in assembled} - {None}
    source = live[:source_messages] if source_messages else live
    anchor = next((at for at in range(len(source) - 1, -1, -1) if _signature(source[at]) in covered), None)
    if anchor is not None:
        begin = anchor + 1
    elif not source_messages:
        return ()
    else:
        begin = source_messages if len(live) >= source_messages else 0
    end = len(live)
    while end > begin and live[end - 1].role is Role.ASSISTANT:
        end -= 1
    return tuple(live[begin:end])


def with_suffix(
    assembled: Sequence[SentMessage],
    suffix: Sequence[SentMessage],
    budget: int,
    weigh: Callable[[SentMessage], int],
) -> Suffixed:
    """Both, within a budget of tokens: what is too much goes from the front."""
    messages = [*assembled, *suffix]
    weights = [weigh(one) for one in messages]
    tokens, first = sum(weights), 0
    while suffix and first < len(messages) and tokens > budget:
        tokens -= weights[first]
        first += 1
    return Suffixed(tuple(messages[first:]), tokens, min(len(suffix), len(messages) - first), first)


def newest_within(
    messages: Sequence[SentMessage], budget: int, weigh: Callable[[SentMessage], int]
) -> tuple[SentMessage, ...]:
    """The newest messages that fit into a budget of tokens."""
    first, room = len(messages), budget
    while first and (weight := weigh(messages[first - 1])) <= room:
        first, room = first - 1, room - weight
    return tuple(messages[first:])


def _signature(message: SentMessage) -> tuple[object, ...] | None:
    """By what a message of the host and a stored one are the same; None: it says nothing."""
    calls = tuple(block.call_id for block in message.calls)
    if not message.text and not calls and not message.call_id:
        return None
    return message.role, message.text, message.call_id, calls
