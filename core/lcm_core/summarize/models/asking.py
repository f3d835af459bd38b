"""A `Summarizer` over a wire: prompt, room for the answer, time limit, repeats, limits, and what it cost."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from lcm_core.summarize.cost import Forecast, Meter
from lcm_core.summarize.credentials import Credential, Kind
from lcm_core.summarize.models.providers import Choice, Shape
from lcm_core.summarize.models.wire import (
    LONGEST_WAIT,
    Question,
    Trouble,
    Wire,
    WireError,
    without_thoughts,
)
from lcm_core.summarize.prompts import Prompt, Prompts
from lcm_core.summarize.request import ProviderAuthError, SummarizerError, SummaryReply, SummaryRequest
from lcm_core.text import clip, safe_line
from lcm_core.tokens import estimate_weighted

log = logging.getLogger(__name__)

#: Times that one question is sent at most.
ATTEMPTS: Final = 4
_FIRST_WAIT: Final = 0.5  #: s; doubled each time (engine.md 8)
_MOST_WAIT: Final = 8.0
_LEAST_ROOM: Final = 1_024
_MOST_ROOM: Final = 32_000
_SHOWN: Final = 200
#: Claude models that take a temperature; those after them refuse one.
_TAKES_TEMPERATURE: Final = re.compile(
    r"claude-(?:2|3|instant)|claude-(?:haiku|sonnet|opus)-4(?:-[0-6])?(?:[-@][0-9]{8}|-latest)?$",
    re.IGNORECASE,
)
_TAKES_NONE: Final = re.compile(r"(?:^|/)(?:o[1-9](?:$|-)|gpt-5)", re.IGNORECASE)


class ModelSummarizer:
    """Asks one model. Any number of requests may be in flight; close it when done."""

    def __init__(
        self,
        choice: Choice,
        credential: Credential | None,
        meter: Meter,
        *,
        prompts: Prompts | None = None,
        timeout: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.choice = choice
        self.meter = meter
        self._credential = credential
        self._prompts = prompts or Prompts()
        self._timeout = timeout
        self._sleep = sleep
        self._connecting = asyncio.Lock()
        self._wire: Wire | None = None
        self._takes_temperature = takes_temperature(choice)

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Ask, and ask again where that helps.

        Raises:
            ProviderAuthError: the key was refused.
            LimitReachedError: a limit of the operator would be passed.
            SummarizerError: no answer came back.
        """
        prompt = await asyncio.to_thread(self._prompts.render, request)
        question = Question(
            prompt.system, prompt.user, room(request.target_tokens), 0.1 if request.aggressive else 0.2
        )
        wire = await self._connection()
        attempt = 1
        while True:
            if not self._takes_temperature:
                question = replace(question, temperature=None)
            try:
                return await self._once(wire, question)
            except WireError as error:
                if question.temperature is not None and _dislikes_temperature(error):
                    self._takes_temperature = False
                    continue
                wait = _wait(error, attempt)
                if wait is None:
                    raise self._failure(error, attempt) from None
                log.info(
                    "call %d of %d gave no answer (%s), again in %.1f s",
                    attempt,
                    ATTEMPTS,
                    error.trouble,
                    wait,
                )
            await self._sleep(wait)
            attempt += 1

    async def _once(self, wire: Wire, question: Question) -> SummaryReply:
        known = _input_tokens(question)
        reserved = self.meter.begin(known, question.max_tokens)
        taken = (known, 0)  # what breaks off was worked on all the same: its input is counted
        try:
            async with asyncio.timeout(self._timeout):
                answer = await wire.ask(question)
            taken = (answer.input_tokens or known, answer.output_tokens)
        except TimeoutError:
            raise WireError(Trouble.LOST, f"no answer in {self._timeout:g} s") from None
        except WireError as error:
            if error.trouble is not Trouble.LOST:
                taken = (0, 0)
            raise
        finally:
            usage = self.meter.end(reserved, *taken)
        if answer.stop_reason is None:
            raise WireError(Trouble.LOST, "the answer broke off")
        return SummaryReply(
            text=without_thoughts(answer.text),
            model=self.choice.model,
            finished=answer.stop_reason in ("end_turn", "stop_sequence"),
            stop_reason=answer.stop_reason,
            usage=usage,
        )

    async def _connection(self) -> Wire:
        async with self._connecting:
            if self._wire is None:
                self._wire = await asyncio.to_thread(_connected, self.choice, self._credential, self._timeout)
            return self._wire

    def _failure(self, error: WireError, attempts: int) -> SummarizerError:
        said = error.message if self._credential is None else self._credential.redacted(error.message)
        said = clip(safe_line(said), _SHOWN)
        who = f"{self.choice.provider.name} at {self.choice.host}"
        details = {"provider": self.choice.provider.name, "status": error.status}
        if error.trouble is Trouble.AUTH:
            origin = "" if self._credential is None else f" from {self._credential.origin}"
            hint = "the host refreshes it" if origin and self._is_token() else "give another key"
            return ProviderAuthError(
                f"{who} refused the key{origin} ({error.status}: {said}): {hint}, or use "
                "--provider extractive.",
                details=details,
            )
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        status = f"{error.status}: " if error.status else ""
        return SummarizerError(
            f"{who} gave no summary{tries} ({status}{said}): try again later or with another model.",
            details=details,
        )

    def _is_token(self) -> bool:
        return self._credential is not None and self._credential.kind is Kind.OAUTH

    def forecast(self, request: SummaryRequest) -> Forecast:
        """What *request* costs at most when it is asked once. Reads the prompts, sends nothing."""
        prompt: Prompt = self._prompts.render(request)
        output = room(request.target_tokens)
        tokens = _input_tokens(Question(prompt.system, prompt.user, output, None))
        price = self.meter.price
        return Forecast(1, tokens, output, None if price is None else price.of(tokens, output))

    async def aclose(self) -> None:
        """Close all connections."""
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None


def room(target_tokens: int) -> int:
    """Tokens that an answer may take: so much more than asked for that it can end by itself."""
    return min(max(2 * target_tokens + 512, _LEAST_ROOM), max(_MOST_ROOM, target_tokens))


def takes_temperature(choice: Choice) -> bool:
    """Whether the model takes a temperature, as far as its name tells."""
    if choice.provider.shape is Shape.ANTHROPIC:
        return _TAKES_TEMPERATURE.match(choice.model) is not None
    return _TAKES_NONE.search(choice.model) is None


def _connected(choice: Choice, credential: Credential | None, timeout: float) -> Wire:
    if choice.provider.shape is Shape.ANTHROPIC:
        from lcm_core.summarize.models.anthropic_wire import AnthropicWire

        return AnthropicWire(choice, credential, timeout)
    from lcm_core.summarize.models.openai_wire import OpenAIWire

    return OpenAIWire(choice, credential, timeout)


def _input_tokens(question: Question) -> int:
    return estimate_weighted(question.system) + estimate_weighted(question.user)


def _dislikes_temperature(error: WireError) -> bool:
    return error.status == 400 and "temperature" in error.message.lower()


def _wait(error: WireError, attempt: int) -> float | None:
    """How long to wait before the next attempt, in s; None: no attempt would help, or there were enough."""
    if error.trouble in (Trouble.AUTH, Trouble.REQUEST) or attempt >= ATTEMPTS:
        return None
    if error.retry_after is not None:
        return None if error.retry_after > LONGEST_WAIT else error.retry_after
    wait = min(_FIRST_WAIT * math.pow(2, attempt - 1), _MOST_WAIT)
    return wait * random.uniform(0.75, 1.0)
