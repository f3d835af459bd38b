"""The only HTTP client of the SDKs: which headers go to which address, how much of an answer is read.

The SDKs read much from the environment (headers, keys, organisations, tracing). Whatever they made of it, a
request leaves with the headers that are listed here and those of its wire, for the address that was chosen,
and for no other.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lcm_core.errors import ConfigurationError
from lcm_core.settings.values import Json
from lcm_core.summarize.models.providers import ModelChoice, host_of
from lcm_core.summarize.models.wire import FailureKind, WireError, no_answer

if TYPE_CHECKING:
    import httpx2

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
