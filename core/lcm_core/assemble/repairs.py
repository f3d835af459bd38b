"""What was done to messages so that a provider accepts the whole."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lcm_core.assemble.message import Origin
from lcm_core.frozen import dataclass


class Mended(StrEnum):
    """What was done to a message."""

    EMPTY_DROPPED = "empty message dropped"
    REASONING_DROPPED = "assistant message of nothing but reasoning dropped"
    CALL_STRIPPED = "tool call without a result removed"
    CALL_REPEATED = "tool call with an id that was used before removed"
    REPEATS_DROPPED = "assistant message of nothing but repeated tool calls dropped"
    REASONING_MOVED = "reasoning moved before the tool call"
    RESULT_MOVED = "tool result moved behind its call"
    RESULT_REPEATED = "second result of a tool call dropped"
    RESULT_ORPHANED = "tool result without its call dropped"
    RESULT_MISSING = "tool call without a result answered with an error"


#: Repairs by which a message is not sent at all.
DROPPING: Final = frozenset(
    {
        Mended.EMPTY_DROPPED,
        Mended.REASONING_DROPPED,
        Mended.REPEATS_DROPPED,
        Mended.RESULT_REPEATED,
        Mended.RESULT_ORPHANED,
    }
)


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was mended."""

    what: Mended
    origin: Origin  #: of the message that it was done to
    call_id: str | None = None
