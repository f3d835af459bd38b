"""Messages as a provider accepts them: no unanswered calls, no silent messages, tools in pairs; and forks.

docs/spec/assembly.md, "Calls without a result", "Messages that say nothing" and "Tool pairing". Each
function takes messages in order and returns messages in order; what it did is noted in a list of repairs.

Pairing has two rules, that of the present engine and that of 0.1. Both go from the oldest message to the
newest: a message with calls takes its results out of what follows, out of its **span** first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, Struct, field
from lcm_core.engine.blocks import UNKNOWN_TOOL, text_block, word
from lcm_core.engine.messages import Block, BlockKind, Origin, OriginKind, Role, SentMessage


class RepairKind(StrEnum):
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
        RepairKind.EMPTY_DROPPED,
        RepairKind.REASONING_DROPPED,
        RepairKind.REPEATS_DROPPED,
        RepairKind.RESULT_REPEATED,
        RepairKind.RESULT_ORPHANED,
    }
)


class Repair(Record, frozen=True):
    """One repair."""

    what: RepairKind
    origin: Origin  #: of the message that it was done to
    call_id: str | None = None


# -- calls without a result, and silence -------------------------------------------------------------------


# By names of their own: to look up the member of an enum takes as long as all else that is asked of a block.
_TEXT: Final = BlockKind.TEXT
_TOOL_CALL: Final = BlockKind.TOOL_CALL
_REASONING: Final = BlockKind.REASONING


def without_unanswered_calls(
    messages: Iterable[SentMessage],
    tail_from: int | None,
    answered_anywhere: Collection[str],
    repairs: list[Repair],
) -> list[SentMessage]:
    """Remove tool calls that no result of theirs follows.

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
        repairs += [Repair(RepairKind.CALL_STRIPPED, message.origin, call_id) for call_id in stripped]
        kept = [one for one in message.blocks if one.kind is not _TOOL_CALL or one.call_id not in gone]
        if kept:
            found.append(message.with_content(tuple(kept)))
        else:
            repairs.append(Repair(RepairKind.EMPTY_DROPPED, message.origin))
    return found


def without_silence(messages: Iterable[SentMessage], repairs: list[Repair]) -> list[SentMessage]:
    """Messages without blank texts of the assistant, and without those that say nothing at all."""
    found: list[SentMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            message = _spoken(message)
        content = message.content
        if not content or (isinstance(content, str) and not content.strip(BLANKS)):
            repairs.append(Repair(RepairKind.EMPTY_DROPPED, message.origin))
        elif message.role is Role.ASSISTANT and all(one.kind is _REASONING for one in message.blocks):
            repairs.append(Repair(RepairKind.REASONING_DROPPED, message.origin))
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


# -- tool pairing ------------------------------------------------------------------------------------------


#: What a tool call without a result is answered with (docs/spec/assembly.md, "Tool pairing").
MISSING_RESULT: Final = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)
#: Calls before which the present engine puts reasoning that follows them.
_BEHIND_REASONING: Final = frozenset({"functionCall", "function_call"})
_MOVABLE_REASONING: Final = frozenset({"thinking", "reasoning"})
_CALLS_OF_0_1: Final = frozenset({"toolCall", "toolUse", "functionCall"})
_RESULT: Final = Role.TOOL_RESULT
_ASSISTANT: Final = Role.ASSISTANT


def pair_tools(
    messages: Sequence[SentMessage], repairs: list[Repair], *, calls_once: bool
) -> list[SentMessage]:
    """Put every result right behind its call; make up those that are missing, drop those of no call.

    *calls_once*: as the present engine does, which also removes calls whose id was used before and finds
    results that are elsewhere; else as 0.1. Where nothing is dropped, moved or made up, the messages stay
    as they are.
    """
    out = _Out(messages)
    if calls_once:
        _Present(out).pair()
    else:
        _pair_as_0_1(out)
    if not out.changed:
        return list(messages)
    repairs += out.repairs
    return out.found


class _Out(Struct):
    """What becomes of a list of messages."""

    messages: Sequence[SentMessage]
    found: list[SentMessage] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    changed: bool = False  #: something was dropped, moved or made up
    called: set[str] = field(default_factory=set)  #: ids of the calls that were sent

    def drop(self, at: int) -> None:
        """Leave out a result that belongs to no call, or whose call has another."""
        result = self.messages[at]
        known = result.call_id in self.called
        self.note(RepairKind.RESULT_REPEATED if known else RepairKind.RESULT_ORPHANED, result, result.call_id)

    def note(self, what: RepairKind, message: SentMessage, call_id: str | None = None) -> None:
        """Note a repair."""
        self.repairs.append(Repair(what, message.origin, call_id))
        self.changed = True

    def make_up(self, caller: SentMessage, call_id: str, name: str | None) -> None:
        """Send an error as the result of a call that has none."""
        self.note(RepairKind.RESULT_MISSING, caller, call_id)
        origin = Origin(OriginKind.SYNTHETIC, caller.origin.ordinal)
        content = (text_block(MISSING_RESULT),)
        self.found.append(SentMessage(_RESULT, content, origin, 0, call_id, name or UNKNOWN_TOOL, True))


class _Span(Record, frozen=True):
    """What follows a message with calls, up to the next one with others."""

    end: int  #: the place of that one, or behind the last message
    answers: dict[str, int]  #: the places of the results, by call
    kept: tuple[SentMessage, ...]  #: users' and assistants' messages, to be sent behind the results
    first_kept: int  #: the place of the first of them, or the end


# -- the present engine ----------------------------------------------------------------------------------


class _Present:
    """One pass by the rule of the present engine."""

    def __init__(self, out: _Out) -> None:
        self.out = out
        self.messages = out.messages
        self.taken: set[int] = set()  #: places of results that were taken from behind a span
        self.results: dict[str, list[int]] = {}  #: the places of all results, by call
        for at, message in enumerate(out.messages):
            if message.role is _RESULT:
                self.results.setdefault(message.call_id or "", []).append(at)

    def pair(self) -> None:
        """From the oldest message to the newest."""
        at = 0
        while at < len(self.messages):
            message = self.messages[at]
            following = at + 1
            if message.role is _RESULT:
                if at not in self.taken:
                    self.out.drop(at)
            elif message.role is _ASSISTANT:
                fresh = self._fresh(message)
                if fresh is not None and fresh.calls:
                    following = self._called(at, fresh)
                elif fresh is not None:
                    self.out.found.append(fresh)
            else:
                self.out.found.append(message)
            at = following

    def _called(self, at: int, message: SentMessage) -> int:
        """Send a message with calls, their results, and what is among these; the place behind that."""
        out, names = self.out, _names(message)
        out.called.update(names)
        span = self._span(at + 1, names)
        if span.answers and span.kept:
            out.changed = True
        answers = {**span.answers, **self._behind(span, names)}
        out.found.append(message)
        for call_id, name in names.items():
            place = answers.get(call_id)
            if place is None:
                out.make_up(message, call_id, name)
                continue
            if place > span.first_kept:
                out.note(RepairKind.RESULT_MOVED, self.messages[place], call_id)
            out.found.append(self.messages[place])
        out.found += span.kept
        return span.end

    def _span(self, start: int, names: dict[str, str | None]) -> _Span:
        answers: dict[str, int] = {}
        kept: list[SentMessage] = []
        first_kept: int | None = None
        at = start
        while at < len(self.messages):
            message = self.messages[at]
            if message.role is _RESULT:
                if at not in self.taken:
                    self._collect(at, names, answers)
            else:
                if message.role is _ASSISTANT and self._is_new(message):
                    break
                left = self._fresh(message) if message.role is _ASSISTANT else message
                if left is not None:
                    kept.append(left)
                    first_kept = at if first_kept is None else first_kept
            at += 1
        return _Span(at, answers, tuple(kept), at if first_kept is None else first_kept)

    def _behind(self, span: _Span, names: dict[str, str | None]) -> dict[str, int]:
        """Results that come behind the span, for calls that have none in it or one that was made up."""
        found: dict[str, int] = {}
        if span.end == len(self.messages):
            return found
        ends = self.messages[span.end]
        if any(call.call_id in self.out.called for call in ends.calls):
            found = dict(span.answers)
            new = {call.call_id for call in ends.calls}
            for at in range(span.end + 1, len(self.messages)):
                message = self.messages[at]
                if message.role is _ASSISTANT and self._is_new(message, new):
                    break
                if message.role is _RESULT and message.call_id in names and at not in self.taken:
                    self.taken.add(at)
                    self._collect(at, names, found)
        for call_id in names:
            place = found.get(call_id, span.answers.get(call_id))
            if place is not None and not _is_made_up(self.messages[place]):
                continue
            places = [at for at in self.results.get(call_id, ()) if at > span.end and at not in self.taken]
            real = [at for at in places if not _is_made_up(self.messages[at])]
            better = real[0] if real else places[0] if places and place is None else None
            if better is not None:
                if place is not None:
                    self.out.drop(place)
                self.taken.add(better)
                found[call_id] = better
        return found

    def _collect(self, at: int, names: dict[str, str | None], answers: dict[str, int]) -> None:
        """Take a result for its call: the first, but a real one before one that was made up."""
        result = self.messages[at]
        call_id = result.call_id or ""
        if call_id not in names:
            self.out.drop(at)
            return
        known = answers.get(call_id)
        if known is None:
            answers[call_id] = at
        elif _is_made_up(self.messages[known]) and not _is_made_up(result):
            self.out.drop(known)
            answers[call_id] = at
        else:
            self.out.drop(at)

    def _is_new(self, message: SentMessage, known: Collection[str | None] = ()) -> bool:
        """Whether a message has a call whose id was not sent, nor is among *known*."""
        called = self.out.called
        return any(call.call_id not in called and call.call_id not in known for call in message.calls)

    def _fresh(self, message: SentMessage) -> SentMessage | None:
        """An assistant's message with reasoning first and every call once; None when nothing is left."""
        blocks = message.blocks
        if _TOOL_CALL not in [block.kind for block in blocks]:
            return message
        ordered = _reasoning_first(blocks)
        if ordered is not blocks:
            self.out.note(RepairKind.REASONING_MOVED, message)
            message = message.with_content(ordered)
        seen: set[str] = set()
        kept: list[Block] = []
        for block in ordered:
            if block.kind is _TOOL_CALL and block.call_id:
                if block.call_id in self.out.called or block.call_id in seen:
                    self.out.note(RepairKind.CALL_REPEATED, message, block.call_id)
                    continue
                seen.add(block.call_id)
            kept.append(block)
        if len(kept) == len(ordered):
            return message
        if all(block.kind is _REASONING or is_blank(block) for block in kept):
            self.out.note(RepairKind.REPEATS_DROPPED, message)
            return None
        return message.with_content(tuple(kept))


def _names(message: SentMessage) -> dict[str, str | None]:
    """The ids of a message's calls and the tools that they name, in order."""
    return {call.call_id or "": call.tool_name for call in message.calls}


def _reasoning_first(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Reasoning and calls with the reasoning first, where a single call of a function precedes some."""
    types = [_type(block) for block in blocks]
    reasons = [kind in _MOVABLE_REASONING for kind in types]
    calls = [block.kind is _TOOL_CALL for block in blocks]
    if not all(map(max, reasons, calls)) or sum(kind in _BEHIND_REASONING for kind in types) != 1:
        return blocks
    if True not in reasons[calls.index(True) :]:
        return blocks
    first = [block for block, is_reason in zip(blocks, reasons, strict=True) if is_reason]
    return (*first, *(block for block, is_call in zip(blocks, calls, strict=True) if is_call))


def _type(block: Block) -> str | None:
    return word(block.document.get("type")) if isinstance(block.document, dict) else None


def _is_made_up(result: SentMessage) -> bool:
    """Whether an engine made a result up once, and the host stored it."""
    return bool(result.is_error) and any(
        block.kind is BlockKind.TEXT and block.text == MISSING_RESULT for block in result.blocks
    )


# -- 0.1 -------------------------------------------------------------------------------------------------


def _pair_as_0_1(out: _Out) -> None:
    messages = out.messages
    answered: set[str] = set()
    at = 0
    while at < len(messages):
        message = messages[at]
        calls = list(_calls_of_0_1(message))
        if message.role is _RESULT:
            out.drop(at)
        else:
            out.found.append(message)
        at += 1
        if not calls:
            continue
        out.called.update(call_id for call_id, _ in calls)
        start = at
        while at < len(messages) and messages[at].role is not _ASSISTANT:
            at += 1
        _answer_as_0_1(out, message, calls, range(start, at), answered)


def _answer_as_0_1(
    out: _Out,
    caller: SentMessage,
    calls: Sequence[tuple[str, str | None]],
    span: range,
    answered: set[str],
) -> None:
    """Send the results of calls, each once in the whole; then the others of the span."""
    messages = out.messages
    places: dict[str, int] = {}
    others: list[int] = []
    for at in span:
        result = messages[at]
        if result.role is not _RESULT:
            others.append(at)
        elif result.call_id in places:
            # A second answer in the same span goes only where something else is changed.
            out.repairs.append(Repair(RepairKind.RESULT_REPEATED, result.origin, result.call_id))
        elif result.call_id in dict(calls):
            places[result.call_id or ""] = at
        else:
            out.drop(at)
    out.changed = out.changed or bool(places and others)
    for call_id, name in calls:
        place = places.pop(call_id, None)
        if call_id in answered:
            if place is not None:
                out.drop(place)
            out.changed = True
            continue
        answered.add(call_id)
        if place is None:
            out.make_up(caller, call_id, name)
            continue
        if others and place > others[0]:
            out.note(RepairKind.RESULT_MOVED, messages[place], call_id)
        out.found.append(messages[place])
    out.found += [messages[at] for at in others]


def _calls_of_0_1(message: SentMessage) -> Iterator[tuple[str, str | None]]:
    """The calls that 0.1 knows as such: fewer types, and their ``id`` alone."""
    for block in message.blocks if message.role is _ASSISTANT else ():
        document = block.document
        if isinstance(document, dict) and _type(block) in _CALLS_OF_0_1:
            call_id = word(document.get("id"))
            if call_id is not None:
                yield call_id, word(document.get("name"))


# -- forks -----------------------------------------------------------------------------------------------
# What a fork adds to its context: the host's messages behind the place where it was forked. Pure
# (docs/spec/assembly.md, "Forks").


class ForkMark(Record, frozen=True):
    """That a conversation was begun from a fork of which a part was left out."""

    source_messages: int  #: of the transcript when it was first read; 0: not known
    budget: int  #: tokens of a first import


class Suffixed(Record, frozen=True):
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
