"""Step 5 and 6 of assembly: messages as a provider accepts them, every tool result behind its call.

Each function takes messages in order and gives messages in order; what it did is told beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from lcm_core.assemble.blocks import text_block
from lcm_core.assemble.message import Block, BlockKind, Origin, OriginKind, Role, SentMessage
from lcm_core.assemble.rules import AssemblyRules
from lcm_core.dag.markers import BLANKS
from lcm_core.frozen import dataclass

#: What a tool call without a result is answered with (engine.md 2.4).
MISSING_RESULT: Final = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)


class Mended(StrEnum):
    """What was done to a message so that a provider accepts the whole."""

    EMPTY_DROPPED = "empty assistant message dropped"
    REASONING_DROPPED = "assistant message of nothing but reasoning dropped"
    CALL_STRIPPED = "tool call without a result removed"
    CALL_REPEATED = "tool call with an id that was used before removed"
    CALL_FAILED = "tool call of a failed turn removed"
    RESULT_MOVED = "tool result moved behind its call"
    RESULT_REPEATED = "second result of a tool call dropped"
    RESULT_ORPHANED = "tool result without its call dropped"
    RESULT_MISSING = "tool call without a result answered with an error"


#: Repairs by which a message is not sent at all.
DROPPING: Final = frozenset(
    {
        Mended.EMPTY_DROPPED,
        Mended.REASONING_DROPPED,
        Mended.RESULT_REPEATED,
        Mended.RESULT_ORPHANED,
    }
)
#: By a name of its own: to look up the member of an enum takes as long as all else that is asked of a block.
_TOOL_CALL: Final = BlockKind.TOOL_CALL


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was mended."""

    what: Mended
    origin: Origin  #: of the message that it was done to
    call_id: str | None = None


def strip_unanswered(
    messages: Iterable[SentMessage], tail_from: int | None, repairs: list[Repair]
) -> list[SentMessage]:
    """Remove tool calls before the fresh tail (ordinal *tail_from*) whose result is not among *messages*."""
    held = list(messages)
    answered = {one.call_id for one in held if one.role is Role.TOOL_RESULT}
    found: list[SentMessage] = []
    for message in held:
        ordinal = message.origin.ordinal
        blocks = message.blocks
        if (tail_from is None or (ordinal is not None and ordinal < tail_from)) and _holds_call(blocks):
            kept = tuple(
                [
                    block
                    for block in blocks
                    if block.kind is not BlockKind.TOOL_CALL or not block.call_id or block.call_id in answered
                ]
            )
            if len(kept) < len(blocks):
                gone = [call for call in message.calls if call.call_id not in answered]
                repairs += [Repair(Mended.CALL_STRIPPED, message.origin, call.call_id) for call in gone]
                message = message.with_content(kept)
        found.append(message)
    return found


def normalise(
    messages: Iterable[SentMessage], rules: AssemblyRules, repairs: list[Repair]
) -> list[SentMessage]:
    """Assistant messages as blocks, without those that say nothing."""
    found: list[SentMessage] = []
    for message in messages:
        if message.role is not Role.ASSISTANT:
            found.append(message)
            continue
        if isinstance(message.content, str):
            text = message.content
            message = message.with_content((text_block(text),) if text else ())
        if rules.drops_blank_text:
            message = _without_blank(message)
        if not message.content:
            repairs.append(Repair(Mended.EMPTY_DROPPED, message.origin))
        elif rules.drops_blank_text and all(b.kind is BlockKind.REASONING for b in message.blocks):
            repairs.append(Repair(Mended.REASONING_DROPPED, message.origin))
        else:
            found.append(message)
    return found


def _without_blank(message: SentMessage) -> SentMessage:
    kept = tuple([b for b in message.blocks if b.kind is not BlockKind.TEXT or b.text.strip(BLANKS)])
    return message if len(kept) == len(message.blocks) else message.with_content(kept)


def pair_tools(
    messages: Sequence[SentMessage], rules: AssemblyRules, repairs: list[Repair]
) -> list[SentMessage]:
    """Put every tool result right behind its call; make up those that are missing, drop those of no call."""
    if rules.calls_once:
        messages = _calls_once(messages, repairs)
    calls = {at: held for at, message in enumerate(messages) if (held := _calls_of(message))}
    answers = _answers(messages, calls, anywhere=rules.finds_displaced_results)
    taken = {place for places in answers.values() for place in places.values()}
    called = {call_id for held in calls.values() for call_id in held}
    found: list[SentMessage] = []
    for at, message in enumerate(messages):
        if message.role is Role.TOOL_RESULT:
            if at not in taken:
                what = Mended.RESULT_REPEATED if message.call_id in called else Mended.RESULT_ORPHANED
                repairs.append(Repair(what, message.origin, message.call_id))
            continue
        found.append(message)
        for call_id, name in calls.get(at, {}).items():
            place = answers.get(at, {}).get(call_id)
            if place is None:
                repairs.append(Repair(Mended.RESULT_MISSING, message.origin, call_id))
                found.append(_made_up(message, call_id, name))
                continue
            result = messages[place]
            if place < at or any(one.role is not Role.TOOL_RESULT for one in messages[at + 1 : place]):
                repairs.append(Repair(Mended.RESULT_MOVED, result.origin, call_id))
            found.append(result)
    return found


def _calls_once(messages: Sequence[SentMessage], repairs: list[Repair]) -> list[SentMessage]:
    """Without calls whose id was used before, and without those of turns that failed."""
    seen: set[str] = set()
    found: list[SentMessage] = []
    for message in messages:
        blocks = message.blocks
        if message.role is not Role.ASSISTANT or not _holds_call(blocks):
            found.append(message)
            continue
        kept = []
        for block in blocks:
            if block.kind is BlockKind.TOOL_CALL and block.call_id:
                if message.failed or block.call_id in seen:
                    what = Mended.CALL_FAILED if message.failed else Mended.CALL_REPEATED
                    repairs.append(Repair(what, message.origin, block.call_id))
                    continue
                seen.add(block.call_id)
            kept.append(block)
        if len(kept) == len(blocks):
            found.append(message)
        elif kept:
            found.append(message.with_content(tuple(kept)))
        else:
            repairs.append(Repair(Mended.EMPTY_DROPPED, message.origin))
    return found


def _answers(
    messages: Sequence[SentMessage], calls: Mapping[int, Iterable[str]], *, anywhere: bool
) -> dict[int, dict[str, int]]:
    """Where the results of each message's calls stand; both by the messages' places.

    They are looked for behind the call, up to the next assistant message or (*anywhere*) in the whole. There
    a result that was made up once does not stand for a real one.
    """
    places: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        if message.role is Role.TOOL_RESULT and message.call_id:
            places.setdefault(message.call_id, []).append(at)
    speaking = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT]
    found: dict[int, dict[str, int]] = {}
    for at, following in pairwise([*speaking, len(messages)]):
        for call_id in calls.get(at, ()):
            held = places.get(call_id, [])
            if anywhere:
                held = sorted(held, key=lambda place: (_is_made_up(messages[place]), place < at))
            else:
                held = [place for place in held if at < place < following]
            if held:
                found.setdefault(at, {})[call_id] = held[0]
    return found


def _holds_call(blocks: Iterable[Block]) -> bool:
    return _TOOL_CALL in [block.kind for block in blocks]


def _calls_of(message: SentMessage) -> dict[str, str | None]:
    """The ids of a message's calls and the tools they name, each once, in order."""
    found: dict[str, str | None] = {}
    for call in message.calls:
        found.setdefault(call.call_id or "", call.tool_name)
    return found


def _is_made_up(message: SentMessage) -> bool:
    return MISSING_RESULT in message.text


def _made_up(message: SentMessage, call_id: str, name: str | None) -> SentMessage:
    origin = Origin(OriginKind.SYNTHETIC, message.origin.ordinal)
    content = (text_block(MISSING_RESULT),)
    return SentMessage(Role.TOOL_RESULT, content, origin, 0, call_id, name or "unknown", True)
