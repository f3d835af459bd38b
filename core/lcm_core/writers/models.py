"""The two ways to ask a model: Anthropic's Messages API and the chat completions of OpenAI and many others.

The SDKs are imported only here and only for a call: that costs a second. What they raise becomes a
`WireError`; the names of their errors are the same in both.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from lcm_core.base.errors import ConfigurationError
from lcm_core.base.setting_values import Json, object_or_empty
from lcm_core.writers.keys import Credential, KeyKind, OwnHeaders
from lcm_core.writers.request import ANTHROPIC, PROVIDERS, ModelChoice, StopReason, host_of
from lcm_core.writers.wire import (
    AnswerBuilder,
    FailureKind,
    ModelAnswer,
    ModelQuestion,
    ServerMessage,
    WireError,
    answer_documents,
    failure_kind,
    http_client,
    no_answer,
    retry_after,
    server_message,
    tokens_in,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk


@asynccontextmanager
async def wire_errors(sdk: str) -> AsyncIterator[None]:
    """Around one call: whatever goes wrong in it is a `WireError`.

    Raises:
        WireError: no answer came back.
    """
    import httpx2

    names: Any = importlib.import_module(sdk)
    try:
        yield
    except WireError:
        raise
    except names.APIStatusError as error:
        raise _of_status(error) from None
    except names.APIConnectionError as error:
        raise _of_connection(error.__cause__ or error) from None
    except httpx2.TransportError as error:
        raise _of_connection(error) from None
    except (names.APIError, httpx2.HTTPError, httpx2.StreamError) as error:
        raise WireError(FailureKind.LOST, f"the connection broke ({type(error).__name__})") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise no_answer(type(error).__name__) from None


def _of_connection(cause: BaseException) -> WireError:
    import httpx2

    if isinstance(cause, WireError):  # of the gate, which the SDK took for the network
        return cause
    unsent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)
    if isinstance(cause, httpx2.TimeoutException):
        return WireError(FailureKind.LOST, "no answer in time", unsent=unsent)
    return WireError(FailureKind.LOST, f"the connection broke ({type(cause).__name__})", unsent=unsent)


def _told(document: Mapping[str, Json]) -> WireError:
    """The failure that an answer reports after it began well."""
    said = server_message(document)
    return WireError(failure_kind(200, said), said.message or "the server reported an error")


def _headers(choice: ModelChoice, own: OwnHeaders | None, secret: str) -> dict[str, str]:
    """The operator's headers for the address, and the key."""
    values = {} if own is None else own.values_for(choice)
    return {**values, "Authorization": f"Bearer {secret}"}


def _of_status(error: Any) -> WireError:
    status = int(error.status_code)
    if 300 <= status < 400:
        return WireError(
            FailureKind.REQUEST, "the server points to another address, which is not followed", status=status
        )
    said = server_message(error.body)
    if not said.message:
        said = ServerMessage(str(error.message), said.kind)
    return WireError(
        failure_kind(status, said),
        said.message,
        status=status,
        retry_after=retry_after(error.response.headers),
    )


_OAUTH_BETA: Final = "oauth-2025-04-20"
_VERSION: Final = "2023-06-01"
#: What a prompt takes; gateways may cache parts of it without being asked to.
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(
        self, choice: ModelChoice, credential: Credential | None, own: OwnHeaders | None, timeout: float
    ) -> None:
        from anthropic import AsyncAnthropic

        secret = "none" if credential is None else credential.secret_for(choice)
        is_token = credential is not None and credential.kind is KeyKind.OAUTH
        headers = _headers(choice, own, secret) | {"anthropic-version": _VERSION}
        if is_token:
            headers["anthropic-beta"] = _OAUTH_BETA
        elif choice.host != host_of(ANTHROPIC.base_url):
            headers["X-Api-Key"] = secret  # what gateways ask for beside a bearer token
        self._model = choice.model
        self._client: AsyncAnthropic = AsyncAnthropic(
            api_key=None if is_token else secret,
            auth_token=secret if is_token else None,
            base_url=choice.base_url,
            max_retries=0,
            open_telemetry=False,  # else the environment may have texts exported to a collector
            http_client=http_client(choice, headers, timeout),
        )
        self._client._custom_headers = {}  # of the environment; what no header can hold breaks every call

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """One call; streamed where the server does that."""
        body: dict[str, object] = {"stream": question.streams}
        if question.temperature is not None:
            body["temperature"] = question.temperature
        collected = AnswerBuilder(question)
        async with (
            wire_errors("anthropic"),
            await self._client.messages.create(
                model=self._model,
                max_tokens=question.max_tokens,
                system=question.system,
                messages=[{"role": "user", "content": question.user}],
                stream=True,
                extra_body=body,
            ) as stream,
            aclosing(answer_documents(stream.response)) as found,
        ):
            async for document in found:
                if _added(document, collected):
                    return collected.answer()
        if collected.is_empty and collected.stop_reason is None and collected.input_tokens is None:
            raise no_answer()
        return collected.answer()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def _added(document: Mapping[str, Json], collected: AnswerBuilder) -> bool:
    """Take what one event, or a whole message, holds; True when nothing follows it."""
    kind = document.get("type")
    if kind == "error" or (kind is None and "error" in document):
        raise _told(document)
    match kind:
        case "message":
            for block in _objects(document.get("content")):
                _begin(block, collected)
            _count(document.get("usage"), collected)
            collected.stop_reason = (
                _text(document.get("stop_reason")) or StopReason.END_TURN
            )  # it is there as a whole
        case "message_start":  # what it says of the answer is only its beginning
            collected.count(tokens_in(object_or_empty(document.get("message")).get("usage"), *_INPUT), None)
        case "content_block_start":
            _begin(object_or_empty(document.get("content_block")), collected)
        case "content_block_delta":
            delta = object_or_empty(document.get("delta"))
            if delta.get("type") == "text_delta":
                collected.say(delta.get("text"))
        case "message_delta":
            stop = object_or_empty(document.get("delta")).get("stop_reason")
            collected.stop_reason = _text(stop) or collected.stop_reason
            _count(document.get("usage"), collected)
        case _:
            pass
    return kind in ("message", "message_stop")


def _begin(block: Mapping[str, Json], collected: AnswerBuilder) -> None:
    if block.get("type") == "text":
        collected.begin_block()
        collected.say(block.get("text"))


def _count(usage: Json, collected: AnswerBuilder) -> None:
    collected.count(tokens_in(usage, *_INPUT), tokens_in(usage, "output_tokens"))


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


#: Their words for how an answer ended, in those of the Messages API.
_ENDS: Final = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}


class OpenAIWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(
        self, choice: ModelChoice, credential: Credential | None, own: OwnHeaders | None, timeout: float
    ) -> None:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise ConfigurationError(
                f"{choice.provider.name} needs the package openai: install lcm-tui with the extra [openai].",
                code="EXTRA_MISSING",
            ) from None
        self._model = choice.model
        #: OpenAI's own models take the new name of the limit, other servers often only the old one.
        self._limit = (
            "max_completion_tokens" if choice.host == host_of(PROVIDERS["openai"].base_url) else "max_tokens"
        )
        secret = "none" if credential is None else credential.secret_for(choice)
        http: Any = http_client(choice, _headers(choice, own, secret), timeout)
        self._client: AsyncOpenAI = AsyncOpenAI(
            api_key=secret,
            organization="",
            project="",
            base_url=choice.base_url,
            max_retries=0,
            http_client=http,
        )
        self._client._custom_headers = {}  # of the environment; what no header can hold breaks every call

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """One call; streamed where the server does that."""
        collected = AnswerBuilder(question)
        async with wire_errors("openai"), await self._stream(question) as stream:
            http: Any = stream.response
            await _collect(http, collected)
        if collected.is_empty and collected.stop_reason is None:
            raise no_answer()
        return collected.answer()

    async def _stream(self, question: ModelQuestion) -> AsyncStream[ChatCompletionChunk]:
        from openai import omit

        extra: dict[str, Any] = {self._limit: question.max_tokens}
        if question.temperature is not None:
            extra["temperature"] = question.temperature
        stream: AsyncStream[ChatCompletionChunk] = await self._client.chat.completions.create(
            model=self._model,
            messages=[
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.user},
            ],
            stream=True,
            stream_options={"include_usage": True} if question.streams else omit,
            extra_body={"stream": question.streams},
            **extra,
        )
        return stream

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


async def _collect(http: Any, collected: AnswerBuilder) -> None:
    """Read an answer to its end; once it has ended and only its count is missing, a break does no harm."""
    import httpx2

    try:
        async with aclosing(answer_documents(http)) as found:
            async for document in found:
                _add(document, collected)
    except httpx2.TransportError:
        if collected.stop_reason is None:
            raise


def _add(document: Mapping[str, Json], collected: AnswerBuilder) -> None:
    """Take what one event, or a whole completion, holds."""
    if document.get("error") is not None:
        raise _told(document)
    usage = document.get("usage")
    collected.count(tokens_in(usage, "prompt_tokens"), tokens_in(usage, "completion_tokens"))
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return
    message, is_whole = first.get("delta"), False
    if not isinstance(message, Mapping):
        message, is_whole = first.get("message"), True
    stop = first.get("finish_reason")
    if isinstance(message, Mapping):
        _say(message.get("content"), collected)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            collected.say(refusal)
            stop = "content_filter"
        if is_whole and not isinstance(stop, str):
            stop = "stop"  # it is there as a whole
    if isinstance(stop, str) and stop and collected.stop_reason != StopReason.REFUSAL:
        collected.stop_reason = _ENDS.get(stop, stop)


def _say(content: Json, collected: AnswerBuilder) -> None:
    """A text, or the texts of some parts, as newer servers write them."""
    if not isinstance(content, list):
        collected.say(content)
        return
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in (None, "text", "output_text"):
            collected.say(part.get("text"))
