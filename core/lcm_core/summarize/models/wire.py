"""What is asked of a provider and what comes back: our own types, into which the SDKs are translated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, Protocol

from lcm_core.settings.values import Json

#: Times that one question is sent at most; refusals for their number do not count while others are answered.
ATTEMPTS: Final = 4
#: Pauses that a server asks for beyond this are not waited for: they end the batch. s
LONGEST_WAIT: Final = 300.0
#: A count of tokens beyond this is no count.
_MOST_TOKENS: Final = 100_000_000
#: Characters of one token, at most: blanks, in the vocabularies that are public.
_CHARACTERS_A_TOKEN: Final = 16
_LEAST_LIMIT: Final = 200_000
_LEADING_THOUGHTS: Final = re.compile(
    r"\s*<(?P<tag>think|thinking|thought|reasoning|analysis)>.*?</(?P=tag)>\s*", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What is sent."""

    system: str
    user: str
    max_tokens: int
    temperature: float | None  #: None: this model takes none
    streams: bool = True  #: False: this server refuses to be asked for a stream

    @property
    def most_characters(self) -> int:
        """What an answer may hold; no honest one of `max_tokens` is longer."""
        return max(_LEAST_LIMIT, self.max_tokens * _CHARACTERS_A_TOKEN)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What came back of one call."""

    text: str
    stop_reason: str | None  #: None: the stream ended without saying
    input_tokens: int | None  #: None: the server did not say
    output_tokens: int | None


class FailureKind(StrEnum):
    """Why a call gave no answer, by what can be done about it."""

    AUTH = "auth"  #: the key was refused
    REQUEST = "request"  #: the request was refused: sending it again will not help
    NO_MODEL = "no model"  #: the server does not have the model, or is not at this address
    NO_CREDIT = "no credit"  #: the account has to be filled first
    RATE = "rate"  #: too many requests: none should go out for a while
    BUSY = "busy"  #: overloaded: later
    LOST = "lost"  #: no connection, or it broke: at once
    MALFORMED = "malformed"  #: the response is not an answer
    TOO_LONG = "too long"  #: more came back than any answer has


class WireError(Exception):
    """A call that gave no answer. *message* is the server's own words: foreign text.

    *unsent*: no connection came about, so nobody has worked on it.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        unsent: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status  #: of HTTP; None: none came, or that of an answer
        self.retry_after = retry_after  #: s
        self.unsent = unsent

    @property
    def is_free(self) -> bool:
        """Whether nothing can have been charged: a refusal, or a question that never went out."""
        return self.unsent or self.status is not None


def no_answer(why: str = "") -> WireError:
    """What came back is no answer; *why* in a few words, if there is more to say."""
    return WireError(FailureKind.MALFORMED, f"the response is not an answer{why and f' ({why})'}")


class Wire(Protocol):
    """A connection to one provider with one key."""

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """One call, without repeats. Cancelling closes the stream.

        Raises:
            WireError: no answer came back.
        """

    async def aclose(self) -> None:
        """Close all connections."""


class AnswerBuilder:
    """An answer put together from its pieces, never more of it than the question allows."""

    def __init__(self, question: ModelQuestion) -> None:
        self._room = question.most_characters
        self._blocks: list[list[str]] = [[]]
        self.stop_reason: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None

    def begin_block(self) -> None:
        """Put what follows on a line of its own."""
        self._blocks.append([])

    def say(self, text: Json) -> None:
        """Add a piece of the text; nothing is added where there is none.

        Raises:
            WireError: it is no text, or there is more of it than any answer has.
        """
        if text is None:
            return
        if not isinstance(text, str):
            raise no_answer("a text was expected")
        self._room -= len(text)
        if self._room < 0:
            raise WireError(FailureKind.TOO_LONG, "the answer is longer than requested")
        self._blocks[-1].append(text)

    def count(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Note what the server says it took; the last word on each holds."""
        self.input_tokens = self.input_tokens if input_tokens is None else input_tokens
        self.output_tokens = self.output_tokens if output_tokens is None else output_tokens

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said so far."""
        return not any(map(any, self._blocks))

    def answer(self) -> ModelAnswer:
        """What came."""
        text = "\n".join("".join(block) for block in self._blocks if any(block))
        # A count of nothing where something was written is no count.
        taken = None if self.input_tokens == 0 else self.input_tokens
        given = None if self.output_tokens == 0 and text else self.output_tokens
        return ModelAnswer(text, self.stop_reason, taken, given)


def tokens_in(usage: Json, *names: str) -> int | None:
    """The sum of some counts in what a server says of its usage; None where the first is not a count."""
    if not isinstance(usage, Mapping):
        return None
    counts = [_count(usage.get(name)) for name in names]
    return None if counts[0] is None else sum(filter(None, counts))


def _count(value: Json) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if sound and isinstance(value, int) else None


def without_thoughts(text: str) -> str:
    """*text* without reasoning in tags before the answer; reasoning elsewhere stays and is judged."""
    match = _LEADING_THOUGHTS.match(text)
    return (text[match.end() :] if match else text).strip()


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """How long a server asks to wait, in s: from milliseconds, seconds or a date; None: it does not say.

    A date is taken from the ``Date`` of the same answer, so that our clock does not matter; without one from
    *now*.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            value = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if value >= 0:  # and not NaN
            return value
    until = _date(headers.get("retry-after"))
    if until is None:
        return None
    since = _date(headers.get("date")) or now or datetime.now(UTC)
    return max((until - since).total_seconds(), 0.0)


def _date(value: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(value or "")
    except (ValueError, TypeError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


_NO_CREDIT: Final = re.compile(
    r"credit balance|insufficient[_ ](?:quota|credits?|funds|balance)|exceeded your current quota"
    r"|billing_(?:error|not_active|hard_limit)|out of credits?|payment required",
    re.IGNORECASE,
)
_NO_MODEL: Final = re.compile(
    r"model_not_found|\bmodel\b[^\n]{0,120}\b(?:not found|does not exist|not exist|is not available)"
    r"|not a valid model|unknown model|no such model",
    re.IGNORECASE,
)
#: What servers call their failures, in an answer that began well.
_KINDS: Final[Mapping[str, FailureKind]] = {
    "authentication_error": FailureKind.AUTH,
    "permission_error": FailureKind.AUTH,
    "invalid_request_error": FailureKind.REQUEST,
    "not_found_error": FailureKind.NO_MODEL,
    "billing_error": FailureKind.NO_CREDIT,
    "rate_limit_error": FailureKind.RATE,
    "rate_limit_exceeded": FailureKind.RATE,
}


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """What a server says of a failure, wherever in its document that is."""

    message: str
    kind: str  #: its types and codes, one after the other


def server_message(document: Json) -> ServerMessage:
    """The message and the kind of a failure in the shapes that servers use; empty where there is none."""
    found = document
    if isinstance(found, Mapping) and isinstance(found.get("error"), Mapping | str):
        found = found["error"]
    if isinstance(found, str):
        return ServerMessage(found, "")
    if not isinstance(found, Mapping):
        return ServerMessage("", "")
    message = found.get("message")
    kinds = [found.get("type"), found.get("code")]
    return ServerMessage(
        message if isinstance(message, str) else "", " ".join(str(one) for one in kinds if one is not None)
    )


def failure_kind(status: int, said: ServerMessage) -> FailureKind:
    """What a status, and what is said with it, means for trying again; 200 is an answer that went wrong."""
    whole = f"{said.kind} {said.message}"
    if status == 402 or (status < 500 and _NO_CREDIT.search(whole)):
        return FailureKind.NO_CREDIT
    if status == 200:
        kinds = said.kind.split()
        coded = next((int(one) for one in kinds if re.fullmatch(r"[45][0-9]{2}", one)), None)
        if coded is not None:
            return failure_kind(coded, said)
        return next((_KINDS[one] for one in kinds if one in _KINDS), FailureKind.BUSY)
    if status in (401, 403):
        return FailureKind.AUTH
    if status == 404 or (status in (400, 422) and _NO_MODEL.search(whole)):
        return FailureKind.NO_MODEL
    if status == 429:
        return FailureKind.RATE
    if status in (408, 409) or status >= 500:
        return FailureKind.BUSY
    return FailureKind.REQUEST
