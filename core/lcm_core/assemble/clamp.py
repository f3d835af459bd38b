"""Step 7 of assembly: what whole messages weigh as JSON, and the last cut when that is over the budget."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from lcm_core.assemble.js import estimate, stringify
from lcm_core.assemble.message import Content, Identity, Origin, OriginKind, Role, SentMessage
from lcm_core.dag.markers import BLANKS
from lcm_core.javascript import Json
from lcm_core.tokens import Estimator, quarters

#: What a picture or another payload that is no text counts (engine.md 2.1).
OPAQUE_TOKENS: Final = 1_600
_OPAQUE_KEYS: Final = frozenset({"data", "image", "imageData", "image_data", "base64", "bytes", "source"})
_OPAQUE_LENGTH: Final = 4_096
_BASE64: Final = re.compile(rf"[A-Za-z0-9+/=_{BLANKS}-]+")
_DATA_URL: Final = re.compile(r"data:[\w.+-]+/[\w.+-]+[;,]", re.ASCII)


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
    return len(text) >= _OPAQUE_LENGTH or '"data:' in text


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
        opaque = _DATA_URL.match(value) is not None or (
            key in _OPAQUE_KEYS and len(value) >= _OPAQUE_LENGTH and _BASE64.fullmatch(value) is not None
        )
        if not opaque:
            return value
        found.append(None)
        return ""
    if isinstance(value, Mapping):
        return {name: _without_payloads(inner, name, found) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_without_payloads(inner, key, found) for inner in value]
    return value


def clamp(messages: Sequence[SentMessage], weights: Sequence[int], budget: int, share: float) -> int:
    """How many of the oldest messages must go so that the rest weighs at most *share* of the budget.

    None go when all of them are within the budget. The newest message stays, and the rest does not begin
    with a tool's answer: where that is the newest message, its call stays too.
    """
    if sum(weights) <= budget or not messages:
        return 0
    left = math.floor(budget * share)
    first = len(messages)
    while first > 0 and (left >= weights[first - 1] or first == len(messages)):
        first -= 1
        left -= weights[first]
    while first < len(messages) - 1 and messages[first].role is Role.TOOL_RESULT:
        first += 1
    while first > 0 and messages[first].role is Role.TOOL_RESULT:
        first -= 1
    return first
