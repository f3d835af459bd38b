"""Messages before tools are paired: without calls that wait for nothing, and without what says nothing.

docs/engine/assembly.md, "Calls without a result" and "Messages that say nothing". Each function takes
messages in order and gives messages in order; what it did is told beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from lcm_core.assemble.blocks import text_block
from lcm_core.assemble.message import Block, BlockKind, Role, SentMessage
from lcm_core.assemble.repairs import Mended, Repair
from lcm_core.javascript import BLANKS

# By names of their own: to look up the member of an enum takes as long as all else that is asked of a block.
_TEXT: Final = BlockKind.TEXT
_TOOL_CALL: Final = BlockKind.TOOL_CALL
_REASONING: Final = BlockKind.REASONING


def strip_unanswered(
    messages: Iterable[SentMessage],
    tail_from: int | None,
    answered_anywhere: Collection[str],
    repairs: list[Repair],
) -> list[SentMessage]:
    """Remove tool calls behind which no result of theirs stands.

    A call in the fresh tail (from ordinal *tail_from* on) may still wait for its result: it goes only when a
    result is among *answered_anywhere*, those of the whole context, chosen or not.
    """
    held = list(messages)
    last: dict[str, int] = {}  # place of the last result of each call
    for at, message in enumerate(held):
        if message.role is Role.TOOL_RESULT and message.call_id:
            last[message.call_id] = at
    found: list[SentMessage] = []
    for at, message in enumerate(held):
        calls = message.calls
        gone = {call.call_id for call in calls if last.get(call.call_id or "", -1) <= at}
        ordinal = message.origin.ordinal
        if gone and tail_from is not None and ordinal is not None and ordinal >= tail_from:
            gone.intersection_update(answered_anywhere)
        if not gone:
            found.append(message)
            continue
        stripped = [call.call_id for call in calls if call.call_id in gone]
        repairs += [Repair(Mended.CALL_STRIPPED, message.origin, call_id) for call_id in stripped]
        kept = [one for one in message.blocks if one.kind is not _TOOL_CALL or one.call_id not in gone]
        if kept:
            found.append(message.with_content(tuple(kept)))
        else:
            repairs.append(Repair(Mended.EMPTY_DROPPED, message.origin))
    return found


def without_silence(messages: Iterable[SentMessage], repairs: list[Repair]) -> list[SentMessage]:
    """Messages without blank texts of the assistant, and without those that say nothing at all."""
    found: list[SentMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            message = _spoken(message)
        content = message.content
        if not content or (isinstance(content, str) and not content.strip(BLANKS)):
            repairs.append(Repair(Mended.EMPTY_DROPPED, message.origin))
        elif message.role is Role.ASSISTANT and _only_reasoning(message.blocks):
            repairs.append(Repair(Mended.REASONING_DROPPED, message.origin))
        else:
            found.append(message)
    return found


def _spoken(message: SentMessage) -> SentMessage:
    """An assistant's message as blocks, without blank texts."""
    if isinstance(message.content, str):
        message = message.with_content((text_block(message.content),))
    blocks = message.blocks
    kept = tuple([block for block in blocks if not is_blank(block)])
    return message if len(kept) == len(blocks) else message.with_content(kept)


def is_blank(block: Block) -> bool:
    """Whether a block is a text of nothing but blanks."""
    return block.kind is _TEXT and not block.text.strip(BLANKS)


def _only_reasoning(blocks: Sequence[Block]) -> bool:
    return all(block.kind is _REASONING for block in blocks)
