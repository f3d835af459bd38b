"""Step 7 of assembly: what whole messages weigh as JSON, and the last cut when that is over the budget."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from lcm_core.assemble.js import estimate, stringify
from lcm_core.assemble.message import Role, SentMessage
from lcm_core.dag.markers import BLANKS
from lcm_core.javascript import Json
from lcm_core.tokens import Estimator

#: What a picture or another payload that is no text counts (engine.md 2.1).
OPAQUE_TOKENS: Final = 1_600
_OPAQUE_KEYS: Final = frozenset({"data", "image", "imageData", "image_data", "base64", "bytes", "source"})
_OPAQUE_LENGTH: Final = 4_096
_BASE64: Final = re.compile(rf"[A-Za-z0-9+/=_{BLANKS}-]+")
_DATA_URL: Final = re.compile(r"data:[\w.+-]+/[\w.+-]+[;,]", re.ASCII)


def serialized_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A whole message as JSON in tokens; payloads that are no text count a fixed amount each."""
    document = message.document()
    text = stringify(document)
    if len(text) < _OPAQUE_LENGTH and '"data:' not in text:  # no room for a payload
        return estimate(text, estimator)
    found: list[None] = []
    text = stringify(_without_payloads(document, "", found))
    return estimate(text, estimator) + OPAQUE_TOKENS * len(found)


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
