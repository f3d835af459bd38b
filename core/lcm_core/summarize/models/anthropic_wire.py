"""The Messages API by Anthropic's SDK, which is imported only here and only for a call: it costs a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_core.summarize.credentials import Credential, Kind
from lcm_core.summarize.models.providers import ANTHROPIC, Choice, host_of
from lcm_core.summarize.models.wire import Answer, Question, Trouble, WireError, retry_after, trouble_of

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

_OAUTH_BETA = "oauth-2025-04-20"
_CONNECT_SECONDS = 10.0


class AnthropicWire:
    """One client; made in a thread, for import and certificates take a second."""

    def __init__(self, choice: Choice, credential: Credential | None, timeout: float) -> None:
        import httpx2
        from anthropic import AsyncAnthropic

        secret = "none" if credential is None else credential.secret_for(choice)
        is_token = credential is not None and credential.kind is Kind.OAUTH
        headers = {"anthropic-beta": _OAUTH_BETA} if is_token else {}
        if not is_token and choice.host != host_of(ANTHROPIC.base_url):
            headers["X-Api-Key"] = secret  # what gateways ask for; the SDK sends a bearer token only
        self._model = choice.model
        self._client: AsyncAnthropic = AsyncAnthropic(
            api_key=None if is_token else secret,
            auth_token=secret if is_token else None,
            base_url=choice.base_url,
            max_retries=0,
            default_headers=headers,
            # Redirects are not followed: a key stays where it belongs. No proxy on this machine.
            http_client=httpx2.AsyncClient(
                trust_env=not choice.is_local,
                follow_redirects=False,
                timeout=httpx2.Timeout(timeout, connect=_CONNECT_SECONDS),
            ),
        )

    async def ask(self, question: Question) -> Answer:
        """One call, streamed."""
        import anthropic
        import httpx2

        body = {} if question.temperature is None else {"temperature": question.temperature}
        try:
            async with self._client.messages.stream(
                model=self._model,
                max_tokens=question.max_tokens,
                system=question.system,
                messages=[{"role": "user", "content": question.user}],
                extra_body=body,
            ) as stream:
                message = await stream.get_final_message()
        except anthropic.APIStatusError as error:
            raise _of_status(error) from None
        except anthropic.APITimeoutError:
            raise WireError(Trouble.LOST, "no answer in time") from None
        except (anthropic.APIConnectionError, httpx2.TransportError) as error:
            raise WireError(Trouble.LOST, f"the connection broke ({type(error).__name__})") from None
        except (anthropic.AnthropicError, ValueError, AssertionError, AttributeError, TypeError) as error:
            # What is no answer of the Messages API breaks the SDK in several ways.
            raise WireError(
                Trouble.MALFORMED, f"what came back is no answer ({type(error).__name__})"
            ) from None
        text = "\n".join(block.text for block in message.content if block.type == "text")
        usage = message.usage
        return Answer(text, message.stop_reason, usage.input_tokens, usage.output_tokens)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def _of_status(error: APIStatusError) -> WireError:
    status = error.status_code
    message = str(getattr(error, "api_message", None) or error.message)
    if status == 200:  # an error event in the middle of a stream
        return WireError(Trouble.BUSY, message)
    if 300 <= status < 400:
        return WireError(
            Trouble.REQUEST, "the server points to another address, which is not followed", status=status
        )
    return WireError(
        trouble_of(status), message, status=status, retry_after=retry_after(error.response.headers)
    )
