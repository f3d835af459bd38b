"""How one question goes over one wire: types that the SDKs are translated into, and nothing of theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

#: Waits that a server asks for beyond this are not waited for. s
LONGEST_WAIT: Final = 60.0
_LEADING_THOUGHTS: Final = re.compile(
    r"\s*<(?P<tag>think|thinking|thought|reasoning|analysis)>.*?</(?P=tag)>\s*", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is sent."""

    system: str
    user: str
    max_tokens: int
    temperature: float | None  #: None: this model takes none


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back of one call."""

    text: str
    stop_reason: str | None  #: None: the stream ended without saying
    input_tokens: int
    output_tokens: int


class Trouble(StrEnum):
    """Why a call gave no answer, by what can be done about it."""

    AUTH = "auth"  #: the key was refused
    REQUEST = "request"  #: the request was refused: sending it again will not help
    BUSY = "busy"  #: too many requests, or overloaded: later
    LOST = "lost"  #: no connection, or it broke: at once
    MALFORMED = "malformed"  #: what came back is no answer


class WireError(Exception):
    """A call that gave no answer. *message* is the server's own words: foreign text."""

    def __init__(
        self, trouble: Trouble, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.message = message
        self.status = status
        self.retry_after = retry_after  #: s


class Wire(Protocol):
    """A connection to one provider with one key."""

    async def ask(self, question: Question) -> Answer:
        """One call, without repeats. Cancelling closes the stream.

        Raises:
            WireError: no answer came back.
        """

    async def aclose(self) -> None:
        """Close all connections."""


def without_thoughts(text: str) -> str:
    """*text* without reasoning in tags before the answer; what stands elsewhere stays to be judged."""
    match = _LEADING_THOUGHTS.match(text)
    return (text[match.end() :] if match else text).strip()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to wait, in s, if it says so in milliseconds or seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            value = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0 <= value < 86_400:
            return value
    return None


def trouble_of(status: int) -> Trouble:
    """What a status means for trying again."""
    if status in (401, 403):
        return Trouble.AUTH
    if status in (408, 409, 429) or status >= 500:
        return Trouble.BUSY
    return Trouble.REQUEST
