"""Step 7 of assembly: what whole messages weigh as sent, and the last cut when that is too much.

Source: docs/spec/assembly.md, "The final clamp".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lcm_core.base.javascript import Json, stringify
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import Estimator, estimate, quarters, utf16_length
from lcm_core.base.values import Record, replace
from lcm_core.engine.messages import BlockKind, Content, Identity, Origin, OriginKind, Role, SentMessage
from lcm_core.engine.pairing import Repair, is_blank, pair_tools
from lcm_core.engine.rules import AssemblyRules, ClampRules

#: What a payload that is no text counts beside the words that replace it.
OPAQUE_TOKENS: Final = 1_600
_OPAQUE: Final = "[opaque binary payload]"
_OPAQUE_KEYS: Final = frozenset({"data", "image", "imageData", "image_data", "base64", "bytes", "source"})
_OPAQUE_LENGTH: Final = 4_096  #: UTF-16 units
_SAMPLE: Final = 512  #: likewise
_RESULT_OVERHEAD: Final = 12  #: tokens of a tool's result beside content and name
_BLOCK_OVERHEAD: Final = 6  #: tokens of a block in it beside what it says
_SENDER: Final = "__openclaw"
_BASE64: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=\r\n]+")


def clamp_tokens(message: SentMessage, rules: AssemblyRules) -> int:
    """What a message weighs for the last cut: the whole as JSON, or a tool's result by its own measure."""
    weighed = message if rules.counts_senders else _without_sender(message)
    whole = serialized_tokens(weighed, rules.estimator)
    if not rules.weighs_results or not _is_result(message):
        return whole
    return max(whole, _result_tokens(message, rules.estimator))


def _without_sender(message: SentMessage) -> SentMessage:
    """A message without what a host keeps of its own beside the content."""
    if message.given is not None and _SENDER in message.given:
        left = {name: value for name, value in message.given.items() if name != _SENDER}
        return replace(message, given=left)
    return message if message.sender is None else replace(message, sender=None)


def _is_result(message: SentMessage) -> bool:
    by_type = message.given is not None and message.given.get("type") == Role.TOOL_RESULT
    return by_type or message.role is Role.TOOL_RESULT


def _result_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A tool's result by the measure of the 1.x line: twice its content, its name, and a fifth more."""
    document = message.document()
    content, name = document.get("content"), document.get("toolName", document.get("tool_name"))
    if isinstance(content, str):
        tokens = 2 * estimate(content, estimator)
    elif isinstance(content, Sequence):
        tokens = sum(_block_tokens(block, estimator) for block in content)
    else:
        tokens = 2 * estimate(stringify(content), estimator)
    named = 0 if name is None else -(-4 * estimate(stringify(name), estimator) // 3)
    return math.ceil(1.2 * (_RESULT_OVERHEAD + tokens + named))


def _block_tokens(block: Json, estimator: Estimator) -> int:
    if isinstance(block, str):
        return 2 * estimate(block, estimator)
    says = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return _BLOCK_OVERHEAD + 2 * estimate(says if isinstance(says, str) else stringify(block), estimator)


def serialized_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A whole message as JSON in tokens; payloads that are no text count a fixed amount each."""
    if message.quarters is not None and (around := _around(message, estimator)) is not None:
        return -(-(message.quarters + around) // 4)
    document = message.document()
    text = stringify(document)
    if not _may_hold_payload(text):
        return estimate(text, estimator)
    bare, payloads = _without_payloads(document)
    return estimate(stringify(bare) if payloads else text, estimator) + OPAQUE_TOKENS * payloads


def content_quarters(content: Content, estimator: Estimator) -> tuple[int, bool]:
    """What a content weighs in quarters of a token, and whether that is its part in the whole message, too.

    It is not where a text is written otherwise there, or a payload that is no text counts otherwise.
    """
    if isinstance(content, str):
        return quarters(content, estimator), False
    documents = [block.document for block in content]
    text = stringify(documents)
    payloads = _without_payloads(documents)[1] if _may_hold_payload(text) else 0
    return quarters(text, estimator), bool(text) and not payloads


def _may_hold_payload(text: str) -> bool:
    """Whether there is room in it for a payload that is no text."""
    return len(text) >= _OPAQUE_LENGTH // 2  # as many characters may be twice as many units


def _around(message: SentMessage, estimator: Estimator) -> int | None:
    """What a message weighs beside its content, in quarters; None when a payload may be there."""
    plain = message.reasoning is None and message.origin.kind is not OriginKind.LIVE
    if message.role is Role.ASSISTANT and plain:
        return _around_answer(message.identity, len(str(message.tokens)), estimator)
    text = stringify({"role": str(message.role), "content": [], **message.around()})
    return None if _may_hold_payload(text) else quarters(text, estimator) - len("[]")


@lru_cache(maxsize=256)
def _around_answer(identity: Identity | None, digits: int, estimator: Estimator) -> int | None:
    """The same of an answer of the assistant whose account has numbers of so many *digits*."""
    one = SentMessage(Role.ASSISTANT, (), Origin(OriginKind.MESSAGE), 10 ** (digits - 1), identity=identity)
    text = stringify(one.document())
    return None if _may_hold_payload(text) else quarters(text, estimator) - len("[]")


def _without_payloads(value: Json) -> tuple[Json, int]:
    """A value with a mark for each payload, and how many there are; none in what nests too deep to look."""
    found: list[None] = []
    try:
        return _marked(value, "", found), len(found)
    except RecursionError:
        return value, 0


def _marked(value: Json, key: str, found: list[None]) -> Json:
    if isinstance(value, str):
        if not _is_opaque(value, key):
            return value
        found.append(None)
        return _OPAQUE
    if isinstance(value, Mapping):
        return {name: _marked(inner, name, found) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_marked(inner, "", found) for inner in value]
    return value


def _is_opaque(text: str, key: str) -> bool:
    """Whether a text under a key of an object is a payload that is no text."""
    if not text.startswith("data:") and key not in _OPAQUE_KEYS:
        return False
    long = len(text) >= _OPAQUE_LENGTH or (
        len(text) >= _OPAQUE_LENGTH // 2 and utf16_length(text) >= _OPAQUE_LENGTH
    )
    return long and (text.startswith("data:") or _BASE64.fullmatch(text[:_SAMPLE]) is not None)


# -- the last cut ----------------------------------------------------------------------------------------


class CutReason(StrEnum):
    """Why the last cut takes a message away."""

    OLD = "too old"  #: the newest ones fill what is left of the budget
    RESULT_FIRST = "a result first"
    ORPHANED_TURN = "an orphaned turn"  #: a tool exchange before the first user, and what belongs to it
    UNPAIRED = "an unpaired result"
    ANSWER_LAST = "an answer last"


class Clamped(Record, frozen=True):
    """What the last cut leaves of a list of messages."""

    messages: tuple[SentMessage, ...]
    cut: Mapping[int, CutReason]  #: the others, by place
    repairs: tuple[Repair, ...] = ()  #: of what is left


def clamp(
    messages: Sequence[SentMessage],
    weights: Sequence[int],
    budget: int,
    rules: ClampRules,
    *,
    host_delivers_turn: bool = False,
) -> Clamped:
    """What is left when the whole is too much (docs/spec/assembly.md, "The final clamp").

    *host_delivers_turn*: the host hands the prompt over by itself, so that the list may end with the
    assistant.
    """
    goal = math.floor(budget * rules.share)
    cut: dict[int, CutReason] = {}
    kept = list(range(len(messages)))
    if rules.keeps_turns:
        kept = _without_orphans(messages, kept)
        cut.update(dict.fromkeys(set(range(len(messages))).difference(kept), CutReason.ORPHANED_TURN))
    if sum(weights[at] for at in kept) <= rules.limit(budget):
        return Clamped(tuple([messages[at] for at in kept]), cut)
    first = _newest_within([weights[at] for at in kept], max(1, goal))
    chosen = _with_turns(messages, kept, first) if rules.keeps_turns else _with_user(messages, first, cut)
    ends = _end(messages, chosen, host_delivers_turn=host_delivers_turn)
    cut.update(dict.fromkeys(set(kept).difference(chosen, cut), CutReason.OLD))
    cut.update(dict.fromkeys(chosen[ends:], CutReason.ANSWER_LAST))
    if rules.keeps_turns:
        return _paired(messages, chosen[:ends], cut)
    return Clamped(tuple([messages[at] for at in chosen[:ends]]), cut)


def _newest_within(weights: Sequence[int], goal: int) -> int:
    """The place of the oldest of the newest messages that weigh no more than *goal*; the newest always."""
    first = len(weights) - 1
    spent = weights[first]
    while first > 0 and spent + weights[first - 1] <= goal:
        first -= 1
        spent += weights[first]
    return first


def _with_user(messages: Sequence[SentMessage], first: int, cut: dict[int, CutReason]) -> list[int]:
    """The places from *first* on without results at their head, behind a user's message."""
    begin = first
    while begin < len(messages) - 1 and messages[begin].role is Role.TOOL_RESULT:
        cut[begin] = CutReason.RESULT_FIRST
        begin += 1
    chosen = list(range(begin, len(messages)))
    if not any(_is_user(messages[at]) for at in chosen):
        chosen[:0] = _user_before(messages, range(begin))
    return chosen


def _end(messages: Sequence[SentMessage], chosen: Sequence[int], *, host_delivers_turn: bool) -> int:
    """How many of the chosen places are left when answers at the end go."""
    ends = len(chosen)
    while ends and _goes_at_the_end(messages[chosen[ends - 1]], host_delivers_turn=host_delivers_turn):
        ends -= 1
    return ends if ends or host_delivers_turn else len(chosen)


def _goes_at_the_end(message: SentMessage, *, host_delivers_turn: bool) -> bool:
    if message.role is not Role.ASSISTANT:
        return False
    if not host_delivers_turn:
        return True
    if isinstance(message.content, str):
        return not message.content.strip(BLANKS)
    return all(block.kind is BlockKind.REASONING or is_blank(block) for block in message.content)


def _user_before(messages: Sequence[SentMessage], places: Sequence[int]) -> list[int]:
    """The last of some places that has a user's message; none where there is none."""
    return [at for at in places if _is_user(messages[at])][-1:]


def _is_user(message: SentMessage) -> bool:
    return _role(message) == Role.USER


def _role(message: SentMessage) -> str:
    """The role in the words of the host, which has more of them than a database."""
    said = None if message.given is None else message.given.get("role")
    return said if isinstance(said, str) else str(message.role)


# -- whole turns -------------------------------------------------------------------------------------------


#: Roles of the host whose messages stay wherever they stand before the first user.
_PROTECTED: Final = frozenset({"system", "developer"})


def _without_orphans(messages: Sequence[SentMessage], places: Sequence[int]) -> list[int]:
    """The places without a tool exchange before the first user, and the results of its calls behind it."""
    first = next((nth for nth, at in enumerate(places) if _is_user(messages[at])), 0)
    head = places[:first]
    if not any(_is_exchange(messages[at]) for at in head):
        return list(places)
    found = [at for at in head if _role(messages[at]) in _PROTECTED]
    gone = {name for at in head for name in _calls(messages[at])}
    for at in places[first:]:
        message = messages[at]
        gone.difference_update(_calls(message))  # called again: its results stay
        if message.role is not Role.TOOL_RESULT or message.call_id not in gone:
            found.append(at)
    return found


def _with_turns(messages: Sequence[SentMessage], places: Sequence[int], first: int) -> list[int]:
    """The places from the one numbered *first* on, with all calls and results that belong to theirs."""
    by_name: dict[str, list[int]] = {}
    for at in places:
        for name in _names(messages[at]):
            by_name.setdefault(name, []).append(at)
    chosen = set(places[first:])
    waiting = list(chosen)
    while waiting:
        for name in _names(messages[waiting.pop()]):
            partners = by_name.pop(name, ())
            waiting += [at for at in partners if at not in chosen]
            chosen.update(partners)
    found = sorted(chosen)
    head = next((found[:nth] for nth, at in enumerate(found) if _is_user(messages[at])), found)
    if len(head) == len(found) or any(_is_exchange(messages[at]) for at in head):
        chosen.update(_user_before(messages, [at for at in places if at < found[0]]))
    for at in places:
        if _role(messages[at]) not in _PROTECTED:
            break
        chosen.add(at)
    return sorted(chosen)


def _paired(messages: Sequence[SentMessage], places: Sequence[int], cut: dict[int, CutReason]) -> Clamped:
    """The chosen messages as a provider accepts them; an answer at the end as it is."""
    sent = [_as_result(messages[at]) for at in places]
    answer = [sent.pop()] if sent and sent[-1].role is Role.ASSISTANT else []
    repairs: list[Repair] = []
    sent = pair_tools(sent, repairs, calls_once=True) + answer
    left = [sent[at] for at in _without_orphans(sent, range(len(sent)))]
    # Two messages of a host may have equal origins: each has its own.
    paired, kept = ({id(one.origin) for one in some} for some in (sent, left))
    for at in places:
        own = id(messages[at].origin)
        if own not in kept:
            cut[at] = CutReason.ORPHANED_TURN if own in paired else CutReason.UNPAIRED
    return Clamped(tuple(left), cut, tuple(repairs))


def _is_exchange(message: SentMessage) -> bool:
    """Whether a message calls a tool, or answers a call."""
    return message.role is Role.TOOL_RESULT or bool(message.calls)


def _calls(message: SentMessage) -> list[str]:
    return [call.call_id for call in message.calls if call.call_id]


def _names(message: SentMessage) -> list[str]:
    """The ids of the calls that a message makes or answers."""
    if message.role is Role.TOOL_RESULT:
        return [message.call_id] if message.call_id else []
    return _calls(message)


def _as_result(message: SentMessage) -> SentMessage:
    """A result of the host under the role and with the id by which results are known."""
    if message.role is not Role.TOOL_RESULT or message.given is None:
        return message
    given = {**message.given, "role": str(Role.TOOL_RESULT), "toolCallId": message.call_id or ""}
    return replace(message, given=given)
