"""Chat completions as many servers speak them, by OpenAI's SDK: an extra, imported only for a call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from lcm_core.errors import ConfigurationError
from lcm_core.settings.values import Json
from lcm_core.summarize.credentials import Credential, OwnHeaders
from lcm_core.summarize.models.http import client_for, documents
from lcm_core.summarize.models.providers import PROVIDERS, Choice, host_of
from lcm_core.summarize.models.sending import sending
from lcm_core.summarize.models.wire import (
    Answer,
    Collected,
    Question,
    Trouble,
    WireError,
    said_in,
    tokens_in,
    trouble_of,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

#: Their words for how an answer ended, in those of the Messages API.
_ENDS: Final = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class OpenAIWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(
        self, choice: Choice, credential: Credential | None, own: OwnHeaders | None, timeout: float
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
        headers = {} if own is None else dict(own.values_for(choice))
        headers["Authorization"] = f"Bearer {secret}"
        http: Any = client_for(choice, headers, timeout)
        self._client: AsyncOpenAI = AsyncOpenAI(
            api_key=secret,
            organization="",
            project="",
            base_url=choice.base_url,
            max_retries=0,
            http_client=http,
        )
        self._client._custom_headers = {}  # of the environment; what no header can hold breaks every call

    async def ask(self, question: Question) -> Answer:
        """One call; streamed where the server does that."""
        collected = Collected(question)
        async with sending("openai"), await self._stream(question) as stream:
            http: Any = stream.response
            await _collect(http, collected)
        if collected.is_empty and collected.stop_reason is None:
            raise WireError(Trouble.MALFORMED, "what came back is no answer")
        return collected.answer()

    async def _stream(self, question: Question) -> AsyncStream[ChatCompletionChunk]:
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


async def _collect(http: Any, collected: Collected) -> None:
    """Read an answer to its end; once it has ended and only its count is missing, a break does no harm."""
    import httpx2

    try:
        async with aclosing(documents(http)) as found:
            async for document in found:
                _add(document, collected)
    except httpx2.TransportError:
        if collected.stop_reason is None:
            raise


def _add(document: Mapping[str, Json], collected: Collected) -> None:
    """Take what one event, or a whole completion, holds."""
    if document.get("error") is not None:
        said = said_in(document)
        raise WireError(trouble_of(200, said), said.message or "the server told an error")
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
    if isinstance(stop, str) and stop and collected.stop_reason != "refusal":
        collected.stop_reason = _ENDS.get(stop, stop)


def _say(content: Json, collected: Collected) -> None:
    """A text, or the texts of some parts, as newer servers write them."""
    if not isinstance(content, list):
        collected.say(content)
        return
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in (None, "text", "output_text"):
            collected.say(part.get("text"))
