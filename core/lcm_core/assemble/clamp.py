"""Step 7 of assembly: what whole messages weigh as JSON, and the last cut when that is over the budget."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lcm_core.assemble.message import BlockKind, Content, Identity, Origin, OriginKind, Role, SentMessage
from lcm_core.assemble.repair import is_blank
from lcm_core.frozen import dataclass
from lcm_core.javascript import BLANKS, Json, stringify
from lcm_core.tokens import Estimator, estimate, quarters, utf16_length

#: What a payload that is no text counts beside the words that replace it.
OPAQUE_TOKENS: Final = 1_600
_OPAQUE: Final = "[opaque binary payload]"
_OPAQUE_KEYS: Final = frozenset({"data", "image", "imageData", "image_data", "base64", "bytes", "source"})
_OPAQUE_LENGTH: Final = 4_096  #: UTF-16 units
_SAMPLE: Final = 512  #: likewise
_BASE64: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=\r\n]+")


def serialized_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A whole message as JSON in tokens; payloads that are no text count a fixed amount each."""
    if message.quarters is not None and (around := _around(message, estimator)) is not None:
        return -(-(message.quarters + around) // 4)
    document = message.document()
    text = stringify(document)
    if not _may_hold_payload(text):
        return estimate(text, estimator)
    found: list[None] = []
    bare = _without_payloads(document, "", found)
    return estimate(stringify(bare) if found else text, estimator) + OPAQUE_TOKENS * len(found)


def content_quarters(content: Content, estimator: Estimator) -> tuple[int, bool]:
    """What a content weighs in quarters of a token, and whether that is its part in the whole message, too.

    It is not where a text is written otherwise there, or a payload that is no text counts otherwise.
    """
    if isinstance(content, str):
        return quarters(content, estimator), False
    documents = [block.document for block in content]
    text = stringify(documents)
    found: list[None] = []
    if _may_hold_payload(text):
        _without_payloads(documents, "", found)
    return quarters(text, estimator), bool(text) and not found


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


def _without_payloads(value: Json, key: str, found: list[None]) -> Json:
    if isinstance(value, str):
        if not _is_opaque(value, key):
            return value
        found.append(None)
        return _OPAQUE
    if isinstance(value, Mapping):
        return {name: _without_payloads(inner, name, found) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_without_payloads(inner, "", found) for inner in value]
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
    ANSWER_LAST = "an answer last"


@dataclass(frozen=True, slots=True)
class Clamped:
    """What the last cut leaves of a list of messages, by their places."""

    kept: tuple[int, ...]
    cut: Mapping[int, CutReason]  #: the others, by place


def clamp(
    messages: Sequence[SentMessage],
    weights: Sequence[int],
    budget: int,
    share: float,
    *,
    host_delivers_turn: bool = False,
) -> Clamped:
    """What is left when the whole weighs more than the budget (docs/engine/assembly.md, "The final clamp").

    *share* of the budget is filled from the newest message back; *host_delivers_turn*: the host hands the
    prompt over by itself, so that the list may end with the assistant.
    """
    every = range(len(messages))
    if not messages or sum(weights) <= budget:
        return Clamped(tuple(every), {})
    first = _newest_within(weights, max(1, math.floor(budget * share)))
    cut = dict.fromkeys(range(first), CutReason.OLD)
    while first < len(messages) - 1 and messages[first].role is Role.TOOL_RESULT:
        cut[first] = CutReason.RESULT_FIRST
        first += 1
    kept = list(every[first:])
    if not any(messages[at].role is Role.USER for at in kept):
        user = next((at for at in reversed(every[:first]) if messages[at].role is Role.USER), None)
        if user is not None:
            kept.insert(0, user)
            del cut[user]
    ends = len(kept)
    while ends and _goes_at_the_end(messages[kept[ends - 1]], host_delivers_turn=host_delivers_turn):
        ends -= 1
    if ends or host_delivers_turn:
        cut.update(dict.fromkeys(kept[ends:], CutReason.ANSWER_LAST))
        del kept[ends:]
    return Clamped(tuple(kept), cut)


def _newest_within(weights: Sequence[int], goal: int) -> int:
    """The place of the oldest of the newest messages that weigh no more than *goal*; the newest always."""
    first = len(weights) - 1
    spent = weights[first]
    while first > 0 and spent + weights[first - 1] <= goal:
        first -= 1
        spent += weights[first]
    return first


def _goes_at_the_end(message: SentMessage, *, host_delivers_turn: bool) -> bool:
    if message.role is not Role.ASSISTANT:
        return False
    if not host_delivers_turn:
        return True
    if isinstance(message.content, str):
        return not message.content.strip(BLANKS)
    return all(block.kind is BlockKind.REASONING or is_blank(block) for block in message.content)
