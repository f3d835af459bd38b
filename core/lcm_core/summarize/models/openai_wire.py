"""Chat completions as many servers speak them, by OpenAI's SDK: an extra, imported only for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lcm_core.errors import ConfigurationError
from lcm_core.summarize.credentials import Credential
from lcm_core.summarize.models.providers import PROVIDERS, Choice, host_of
from lcm_core.summarize.models.wire import Answer, Question, Trouble, WireError, retry_after, trouble_of

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, AsyncStream
    from openai.types.chat import ChatCompletionChunk

_CONNECT_SECONDS = 10.0
#: Their words for how an answer ended, in those of the Messages API.
_ENDS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class OpenAIWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(self, choice: Choice, credential: Credential | None, timeout: float) -> None:
        try:
            import httpx
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
        self._client: AsyncOpenAI = AsyncOpenAI(
            api_key="none" if credential is None else credential.secret_for(choice),
            organization="",
            project="",
            base_url=choice.base_url,
            max_retries=0,
            http_client=httpx.AsyncClient(
                trust_env=not choice.is_local,
                follow_redirects=False,
                timeout=httpx.Timeout(timeout, connect=_CONNECT_SECONDS),
            ),
        )

    async def ask(self, question: Question) -> Answer:
        """One call, streamed."""
        import httpx
        import openai

        try:
            async with await self._stream(question) as stream:
                return await _collected(stream)
        except openai.APIStatusError as error:
            raise _of_status(error) from None
        except openai.APITimeoutError:
            raise WireError(Trouble.LOST, "no answer in time") from None
        except (openai.APIConnectionError, httpx.TransportError) as error:
            raise WireError(Trouble.LOST, f"the connection broke ({type(error).__name__})") from None
        except openai.APIError as error:  # an error in the middle of a stream
            raise WireError(Trouble.BUSY, error.message) from None
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            raise WireError(
                Trouble.MALFORMED, f"what came back is no answer ({type(error).__name__})"
            ) from None

    async def _stream(self, question: Question) -> AsyncStream[ChatCompletionChunk]:
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
            stream_options={"include_usage": True},
            **extra,
        )
        return stream

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


async def _collected(stream: AsyncStream[ChatCompletionChunk]) -> Answer:
    """The pieces of a stream as one answer.

    Raises:
        WireError: it held none.
    """
    pieces: list[str] = []
    stop: str | None = None
    taken = given = 0
    async for chunk in stream:
        if chunk.usage is not None:
            taken, given = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        for choice in chunk.choices[:1]:
            pieces.append(choice.delta.content or "")
            stop = choice.finish_reason or stop
    if stop is None and not pieces:
        raise WireError(Trouble.MALFORMED, "what came back is no answer")
    return Answer("".join(pieces), _ENDS.get(stop, stop) if stop else None, taken, given)


def _of_status(error: APIStatusError) -> WireError:
    status = error.status_code
    if 300 <= status < 400:
        return WireError(
            Trouble.REQUEST, "the server points to another address, which is not followed", status=status
        )
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return WireError(
        trouble_of(status),
        said if isinstance(said, str) else error.message,
        status=status,
        retry_after=retry_after(error.response.headers),
    )
