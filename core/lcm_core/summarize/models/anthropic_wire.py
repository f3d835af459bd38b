"""The Messages API by Anthropic's SDK, which is imported only here and only for a call: it costs a second."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from lcm_core.settings.values import Json
from lcm_core.summarize.credentials import Credential, Kind, OwnHeaders
from lcm_core.summarize.models.http import client_for, documents
from lcm_core.summarize.models.providers import ANTHROPIC, Choice, host_of
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
    from anthropic import AsyncAnthropic

_OAUTH_BETA: Final = "oauth-2025-04-20"
_VERSION: Final = "2023-06-01"
#: What a prompt takes; gateways may cache parts of it without being asked to.
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(
        self, choice: Choice, credential: Credential | None, own: OwnHeaders | None, timeout: float
    ) -> None:
        from anthropic import AsyncAnthropic

        secret = "none" if credential is None else credential.secret_for(choice)
        is_token = credential is not None and credential.kind is Kind.OAUTH
        headers = {} if own is None else dict(own.values_for(choice))
        headers |= {"Authorization": f"Bearer {secret}", "anthropic-version": _VERSION}
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
            http_client=client_for(choice, headers, timeout),
        )
        self._client._custom_headers = {}  # of the environment; what no header can hold breaks every call

    async def ask(self, question: Question) -> Answer:
        """One call; streamed where the server does that."""
        body: dict[str, object] = {"stream": question.streams}
        if question.temperature is not None:
            body["temperature"] = question.temperature
        collected = Collected(question)
        async with (
            sending("anthropic"),
            await self._client.messages.create(
                model=self._model,
                max_tokens=question.max_tokens,
                system=question.system,
                messages=[{"role": "user", "content": question.user}],
                stream=True,
                extra_body=body,
            ) as stream,
            aclosing(documents(stream.response)) as found,
        ):
            async for document in found:
                if _added(document, collected):
                    return collected.answer()
        if collected.is_empty and collected.stop_reason is None and collected.input_tokens is None:
            raise WireError(Trouble.MALFORMED, "what came back is no answer")
        return collected.answer()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def _added(document: Mapping[str, Json], collected: Collected) -> bool:
    """Take what one event, or a whole message, holds; True when nothing comes after it."""
    kind = document.get("type")
    if kind == "error" or (kind is None and "error" in document):
        said = said_in(document)
        raise WireError(trouble_of(200, said), said.message or "the server told an error")
    match kind:
        case "message":
            for block in _objects(document.get("content")):
                _begin(block, collected)
            _count(document.get("usage"), collected)
            collected.stop_reason = _text(document.get("stop_reason")) or "end_turn"  # it is there as a whole
        case "message_start":  # what it says of the answer is only its beginning
            collected.count(tokens_in(_object(document.get("message")).get("usage"), *_INPUT), None)
        case "content_block_start":
            _begin(_object(document.get("content_block")), collected)
        case "content_block_delta":
            delta = _object(document.get("delta"))
            if delta.get("type") == "text_delta":
                collected.say(delta.get("text"))
        case "message_delta":
            stop = _object(document.get("delta")).get("stop_reason")
            collected.stop_reason = _text(stop) or collected.stop_reason
            _count(document.get("usage"), collected)
        case _:
            pass
    return kind in ("message", "message_stop")


def _begin(block: Mapping[str, Json], collected: Collected) -> None:
    if block.get("type") == "text":
        collected.begin_block()
        collected.say(block.get("text"))


def _count(usage: Json, collected: Collected) -> None:
    collected.count(tokens_in(usage, *_INPUT), tokens_in(usage, "output_tokens"))


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
