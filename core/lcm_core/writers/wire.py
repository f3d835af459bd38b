"""Calls to providers: stopped or reused, in our own wire types, through the only HTTP client."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from lcm_core.base.errors import ConfigurationError
from lcm_core.base.setting_values import Json
from lcm_core.base.values import Record, replace
from lcm_core.writers.request import (
    NO_USAGE,
    ModelChoice,
    Summarizer,
    SummarizerError,
    SummaryReply,
    SummaryRequest,
    Usage,
    host_of,
)

if TYPE_CHECKING:
    import httpx2


# -- wrappers around a summariser ------------------------------------------------------------------------
# One whose call can be stopped, one that reuses answers that were paid for.


class StoppedError(SummarizerError):
    """The operator stopped the call; there is no answer."""

    default_code: ClassVar[str] = "CANCELLED"


class StoppableSummarizer:
    """Passes requests on to *writer*; `stop` really cancels the one that is being answered.

    The caller gets a `StoppedError`, as for a call that failed; a commit that runs meanwhile continues.
    """

    def __init__(self, writer: Summarizer) -> None:
        self._writer = writer
        self._call: asyncio.Task[SummaryReply] | None = None
        self._stopped = False

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Summarise."""
        self._stopped = False
        self._call = asyncio.ensure_future(self._ask(request))
        try:
            return await self._call
        except asyncio.CancelledError:
            if not self._stopped:
                self._call.cancel()  # the caller itself was cancelled
                raise
            raise StoppedError("The call was given up; what was made before stays.") from None
        finally:
            self._call = None

    async def _ask(self, request: SummaryRequest) -> SummaryReply:
        return await self._writer(request)

    @property
    def is_asking(self) -> bool:
        """Whether a call is being answered."""
        return self._call is not None

    def stop(self) -> bool:
        """Give up the call that is being answered; False when there is none."""
        if self._call is None:
            return False
        self._stopped = True
        return self._call.cancel()


#: Answers that are kept; of more, the oldest go. One is seldom longer than some thousand characters.
MOST_REPLIES: Final = 64


class ReplyCache:
    """Answers by who was asked for what. It may be shared by several writers, one after the other."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, SummaryRequest], SummaryReply] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, who: str, request: SummaryRequest) -> SummaryReply | None:
        """The answer to exactly this request."""
        return self._held.get((who, request))

    def keep(self, who: str, request: SummaryRequest, reply: SummaryReply) -> None:
        """Keep an answer."""
        self._held[who, request] = reply
        while len(self._held) > MOST_REPLIES:
            self._held.popitem(last=False)

    def forget(self, who: str, request: SummaryRequest) -> None:
        """Drop an answer, if it is kept."""
        self._held.pop((who, request), None)


class CachingSummarizer:
    """A summariser that asks *writer* only for what is not among the *kept* answers."""

    def __init__(self, writer: Summarizer, who: str, kept: ReplyCache) -> None:
        """*who* names the writer: the answer of another one is another answer."""
        self._writer = writer
        self._who = who
        self._kept = kept
        self._open: list[SummaryRequest] = []  #: asked since the last `settle`
        self.spent: Usage = NO_USAGE  #: by all calls that were really made

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """The answer; one that was kept costs nothing any more.

        Raises:
            SummarizerError: no answer came back.
        """
        self._open.append(request)
        held = self._kept.find(self._who, request)
        if held is not None:
            return replace(held, usage=NO_USAGE)
        reply = await self._writer(request)
        self.spent += reply.usage
        self._kept.keep(self._who, request, reply)
        return reply

    def settle(self, *, keep: bool = False) -> None:
        """What was asked since the last time is decided: its answers go, unless they are to be kept."""
        for request in self._open if not keep else ():
            self._kept.forget(self._who, request)
        self._open.clear()


# -- the wire --------------------------------------------------------------------------------------------
# What is sent to a provider and what comes back: our own types, into which the SDKs are translated.

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


class ModelQuestion(Record, frozen=True):
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


class ModelAnswer(Record, frozen=True):
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


class ServerMessage(Record, frozen=True):
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


# -- HTTP ------------------------------------------------------------------------------------------------
# The only HTTP client of the SDKs: which headers go to which address, how much of an answer is read.
#
# The SDKs read much from the environment (headers, keys, organisations, tracing). Whatever they made of it,
# a request leaves with the headers that are listed here and those of its wire, for the address that was
# chosen, and for no other.

#: Bytes of an answer that are read, its text and everything around it.
MOST_BYTES: Final = 8 * 1024 * 1024
#: Bytes of a refusal that are read.
MOST_OF_A_REFUSAL: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0
_PLAIN: Final[Mapping[str, str]] = {
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "lcm-tui",
}
#: Headers that nobody but we may set: how a request is carried, and the key.
RESERVED_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
        *("authorization", "proxy-authorization", "x-api-key", "anthropic-version"),
    }
)
_DONE: Final = "[DONE]"


def http_client(choice: ModelChoice, headers: Mapping[str, str], timeout: float) -> httpx2.AsyncClient:
    """A client that sends *headers* and ours to the address of *choice*, and nothing else to nobody else.

    A redirect is not followed. There is no proxy on the way to this machine; on any other way the proxy of
    the environment carries what only the address can read (https).

    Raises:
        ConfigurationError: a proxy or certificates that the environment names cannot be used.
    """
    import httpx2

    async def only_ours(request: httpx2.Request) -> None:
        if host_of(str(request.url)) != choice.host:
            raise WireError(FailureKind.REQUEST, "it redirects to another address", unsent=True)
        body = await request.aread()
        request.headers = httpx2.Headers(
            {
                "Host": request.url.netloc.decode("ascii"),
                **_PLAIN,
                **headers,
                "Content-Length": str(len(body)),
            }
        )

    async def bounded(response: httpx2.Response) -> None:
        response.stream = _bounded(response.stream, refused=response.status_code >= 300)

    try:
        return httpx2.AsyncClient(
            trust_env=not choice.is_local,
            verify=choice.base_url.startswith("https:"),  # plain http has no certificates to be loaded
            follow_redirects=False,
            timeout=httpx2.Timeout(timeout, connect=_CONNECT_SECONDS),
            event_hooks={"request": [only_ours], "response": [bounded]},
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigurationError(
            f"A proxy or the certificates that the environment names cannot be used "
            f"({type(error).__name__}): see HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR.",
            code="PROXY_INVALID",
        ) from None


def _bounded(stream: Any, *, refused: bool) -> Any:
    """*stream*, read no further than is allowed: of a refusal the rest is left, of an answer refused."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            room = MOST_OF_A_REFUSAL if refused else MOST_BYTES
            async for chunk in stream:
                room -= len(chunk)
                if room < 0 and refused:
                    return
                if room < 0:
                    raise answer_too_long()
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def answer_too_long() -> WireError:
    """The answer has more bytes than any has."""
    return WireError(FailureKind.TOO_LONG, f"the answer is larger than {MOST_BYTES // 1024 // 1024} MB")


async def answer_documents(response: httpx2.Response) -> AsyncGenerator[Mapping[str, Json], None]:
    """What came back, document by document: one of an answer without a stream, else one of each event.

    Which of them it is, is seen by how it begins: servers and gateways do not always say it, or say it wrong.

    Raises:
        WireError: it is larger than any answer, or no JSON.
        httpx2.TransportError: the connection broke.
    """
    whole: bytearray | None = None
    begun, events, read = b"", EventStream(), 0
    async for chunk in response.aiter_bytes():
        read += len(chunk)  # as it is unpacked
        if read > MOST_BYTES:
            raise answer_too_long()
        if whole is None and not events.begun:
            begun += chunk
            chunk = begun.lstrip(b"\xef\xbb\xbf \t\r\n")
            if not chunk:
                continue
            if chunk.startswith(b"{"):
                whole = bytearray(chunk)
                continue
        if whole is not None:
            whole += chunk
            continue
        for data in events.feed(chunk):
            if data == _DONE:
                return
            yield _parsed(data)
    if whole is not None:
        yield _parsed(whole.decode("utf-8", "replace"))


class EventStream:
    """Server-sent events: the data of each, out of pieces that end anywhere."""

    def __init__(self) -> None:
        self.begun = False
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of the events that *chunk* brings to their end."""
        self.begun = True
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line and self._data:
                yield "\n".join(self._data)
                self._data.clear()
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))


def _parsed(text: str) -> Mapping[str, Json]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise no_answer("not JSON") from None
    if not isinstance(document, Mapping):
        raise no_answer("not an object")
    return document
