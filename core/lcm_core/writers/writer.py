"""Who writes summaries: chosen by the settings, asked within limits, and paced as the server demands.

`choose_model` says who is asked and with which key, `open_summary_writer` makes the `SummaryWriter`;
`ModelSummarizer` is the one that asks over a wire: prompt, room for the answer, time limit, repeats,
limits, and what it cost.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from lcm_core.base.errors import JsonScalar
from lcm_core.base.settings import SummarySettings
from lcm_core.base.text import BLANKS, clip, safe_line, without_commands
from lcm_core.base.values import Record, replace
from lcm_core.writers.cost import (
    NOTHING_SPENT,
    UNKNOWN_MARGIN,
    CallBudget,
    CallLoad,
    CallMeter,
    Forecast,
    Price,
    Spent,
    most_tokens,
    price_of,
)
from lcm_core.writers.extractive import ExtractiveSummarizer
from lcm_core.writers.keys import (
    Credential,
    KeyKind,
    KeySource,
    OwnHeaders,
    Secrets,
    find_credential,
    find_headers,
    has_anthropic_key,
)
from lcm_core.writers.prompts import PromptTemplates, SummaryPrompt
from lcm_core.writers.request import (
    HELD_KEY,
    ApiShape,
    ModelChoice,
    NotServedError,
    ProviderAuthError,
    ProviderUnavailableError,
    StopReason,
    SummarizerError,
    SummaryReply,
    SummaryRequest,
    choose_provider,
)
from lcm_core.writers.wire import (
    ATTEMPTS,
    LONGEST_WAIT,
    FailureKind,
    ModelQuestion,
    Wire,
    WireError,
    without_thoughts,
)

#: A limit that has grown to this is none any more.
_MOST: Final = 64
#: A window is so much longer than the pause that a server asks for: its clock is not ours.
_MARGIN: Final = 1.1
#: How much longer a window is when even one call was too many in it.
_LONGER: Final = 1.5
#: Calls that go out at a time before it is known whether the server refuses some.
_OPENING: Final = 4
_TRIAL: Final = 1.0  #: s
#: Answers whose times are kept.
_MOST_ANSWERS: Final = 1_000


class CallPace:
    """A gate before every call. For one event loop.

    At first a few calls go out at a time, one more after each answer, and twice as many after a moment in
    which none was refused. A pause holds for all calls that have not gone out yet. Once calls were refused
    for their number, half as many go out at a time as did, and in a window as long as the pause only as many
    as were answered in one; after whole windows without a refusal one more (docs/spec/models.md, "Retries").
    """

    def __init__(
        self, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sleep, self._clock = sleep, clock
        self._pauses: set[asyncio.Task[None]] = set()
        self._window: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._out = 0
        self._gone = 0  #: calls that went out in this window
        self._began = 0.0  #: when it began, by the clock
        self._waited = False  #: whether one more was wanted in it
        self._calm = 0  #: windows without a refusal since the pace was changed
        self._patience = 1  #: windows without a refusal until the pace grows
        self._answered: deque[float] = deque(maxlen=_MOST_ANSWERS)  #: when; under a limit, in this window
        self._refused = False  #: the pace was changed, and the pause for it is not over
        self.seconds = 0.0  #: of a window
        self.most: int | None = None  #: calls at a time; None: as many as are asked for
        self.each: int | None = None  #: calls of a window; None: that is not known
        self.answers = 0  #: so far, of all calls
        self._opening = _OPENING  #: calls at a time as long as none was refused
        self._trial: asyncio.Task[None] | None = None  #: whether those that went out last are refused

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a call may go out; it is out until the end of the block."""
        while not self._may_go():
            await self._moved.wait()
        if self.most is not None and not self._gone:
            self._began = self._clock()
            self._answered.clear()
        self._out += 1
        self._gone += 1
        try:
            yield
        finally:
            self._out -= 1
            self._move()

    def _may_go(self) -> bool:
        """Whether one more call may go out now; if not, something is on its way that moves it."""
        if self._pauses:
            return False
        if self.most is None:
            return self._out < self._opening or self._tries()
        left = self._began + self.seconds - self._clock()
        if self._window is None and self._gone and left <= 0:
            self._end_window()
        if self._out < self.most and (self.each is None or self._gone < self.each):
            return True
        self._waited = True
        if self._window is None and self._gone:
            self._window = self._task(left)
        return False

    def _tries(self) -> bool:
        """Not now: a refusal comes at once, and after a moment without one twice as many may be out."""
        if self._trial is None:
            self._trial = self._task(_TRIAL)
        return False

    def answered(self) -> None:
        """A call was answered."""
        self._opening += 1
        self.answers += 1
        self._answered.append(self._clock())

    def pause(self, seconds: float, *, slower: bool) -> None:
        """Let no call go out for so long; *slower*: afterwards fewer in as much time."""
        if slower:
            self._slow_down(seconds * _MARGIN)
        self._pauses.add(self._task(seconds))

    def _slow_down(self, seconds: float) -> None:
        if self._pauses:  # the others of the same burst are refused by the same limit
            self.seconds = max(self.seconds, seconds)
            return
        if self.most is None:
            since = self._clock() - seconds
            while self._answered and self._answered[0] < since:
                self._answered.popleft()
            self.most, self._gone = (self._out + 1) // 2, 0  # the refused one is back already
        else:
            self.most //= 2
            if self.each == 1:  # even that was too many in this window
                seconds = max(self.seconds * _LONGER, seconds)
            elif self.each is not None:
                self.each -= 1
        self.most, self.seconds = max(1, self.most), max(self.seconds, seconds)
        self._patience = min(2 * self._patience, _MOST)
        self._calm, self._refused = -1, True  # this window does not count

    def _measure(self) -> None:
        """All calls of the burst are back or will be answered: so many pass in a window."""
        passed = len(self._answered) + self._out
        if passed:
            self.each = passed if self.each is None else max(1, min(self.each, passed))
        self._refused = False

    async def aclose(self) -> None:
        """End all pauses."""
        pauses = [*self._pauses, *(one for one in (self._window, self._trial) if one is not None)]
        for one in pauses:
            one.cancel()
        await asyncio.gather(*pauses, return_exceptions=True)

    def _task(self, seconds: float) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._slept(seconds))
        task.add_done_callback(self._ended)
        return task

    async def _slept(self, seconds: float) -> None:
        await self._sleep(seconds)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._pauses.discard(task)
        if self._refused and not self._pauses:
            self._measure()
        if task is self._window:
            self._end_window()
        if task is self._trial:
            self._trial = None
            self._opening *= 2
        self._move()

    def _end_window(self) -> None:
        """After enough windows without a refusal, in which more calls were wanted, one more may go out."""
        self._window = None
        self._calm += self._calm < 0 or self._waited
        self._gone, self._waited = 0, False
        if self.most is None or self._calm < self._patience:
            return
        self._calm = 0
        self.most = self.most + 1 if self.most < _MOST else None
        if self.each is not None:
            self.each = None if self.most is None else self.each + max(1, self.each // 4)

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


log = logging.getLogger(__name__)

_FIRST_WAIT: Final = 0.5  #: s; doubled each time (docs/spec/settings.md, "Asking a summariser")
_FIRST_PAUSE: Final = 1.0  #: s, of all calls; likewise doubled
_MOST_WAIT: Final = 8.0
_LEAST_ROOM: Final = 1_024
_MOST_ROOM: Final = 32_000
_SHOWN: Final = 200
#: Failures after which the same question may be answered.
_PASSING: Final = frozenset({FailureKind.RATE, FailureKind.BUSY, FailureKind.LOST, FailureKind.MALFORMED})
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
        choice: ModelChoice,
        credential: Credential | None,
        meter: CallMeter,
        *,
        headers: OwnHeaders | None = None,
        prompts: PromptTemplates | None = None,
        timeout: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.choice = choice
        self.meter = meter
        self._credential = credential
        self._headers = headers
        self._secrets = Secrets({}) if credential is None else credential.secrets
        if headers is not None:
            self._secrets |= headers.secrets
        self._prompts = prompts or PromptTemplates()
        self._timeout = timeout
        self._sleep = sleep
        self._pace = CallPace(sleep)
        self._connecting = asyncio.Lock()
        self._wire: Wire | None = None
        self._takes_temperature = takes_temperature(choice)
        self._streams = True

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Ask, and ask again where that helps.

        Raises:
            ProviderAuthError: the key was refused.
            HopelessError: no other request would be answered either, for now.
            LimitReachedError: a limit of the operator would be passed.
            SummarizerError: no answer came back.
        """
        return await self._asked(*await asyncio.to_thread(self._question, request))

    @property
    def name(self) -> str:
        """Who is asked, for people."""
        return str(self.choice)

    async def say(self, system: str, user: str, target_tokens: int) -> SummaryReply:
        """Ask something of one's own; the answer is to have about so many tokens. Raises as a call does."""
        known = most_tokens((system, user), self.choice)
        question = ModelQuestion(system, user, answer_room(target_tokens), 0.1)
        return await self._asked(question, known)

    def load_of(self, system: str, user: str, target_tokens: int, more_tokens: int = 0) -> CallLoad:
        """What such a call takes at most, with so many more tokens of public vocabularies in its request."""
        known = most_tokens((system, user), self.choice) + math.ceil(more_tokens * UNKNOWN_MARGIN)
        return CallLoad.of_call(known, answer_room(target_tokens), self.meter.price)

    async def _asked(self, question: ModelQuestion, known: int) -> SummaryReply:
        wire = await self._connection()
        attempt, refused, answers = 1, 0, self._pace.answers
        while True:
            if not self._takes_temperature:
                question = replace(question, temperature=None)
            question = replace(question, streams=self._streams)
            async with self._pace.turn():
                try:
                    reply = await self._once(wire, question, known)
                    self._pace.answered()
                    return reply
                except WireError as caught:
                    error = caught
            if error.kind is FailureKind.RATE and self._pace.answers > answers:
                refused, answers = 0, self._pace.answers  # others are answered: continue, slowly
            refused += error.kind is FailureKind.RATE
            if question.temperature is not None and _dislikes_temperature(error):
                self._takes_temperature = False
                continue
            if question.streams and _dislikes_streams(error):
                self._streams = False
                continue
            wait = _wait(error, max(attempt, refused))
            if wait is None:
                raise self._failure(error, max(attempt, refused)) from None
            log.info("call %d gave no answer (%s), again in %.1f s", attempt, error.kind, wait)
            if error.kind is FailureKind.RATE or error.retry_after is not None:
                self._pace.pause(wait, slower=error.kind is FailureKind.RATE)
            else:
                await self._sleep(wait)
            attempt += error.kind is not FailureKind.RATE

    def _question(self, request: SummaryRequest) -> tuple[ModelQuestion, int]:
        """What is sent, and how many tokens that is at most."""
        prompt = self._prompts.render(request)
        question = ModelQuestion(
            prompt.system, prompt.user, answer_room(request.target_tokens), 0.1 if request.aggressive else 0.2
        )
        return question, self._input_tokens(prompt)

    def _input_tokens(self, prompt: SummaryPrompt) -> int:
        return most_tokens((prompt.system, prompt.user), self.choice)

    async def _once(self, wire: Wire, question: ModelQuestion, known: int) -> SummaryReply:
        """One call. What its answer took is counted; where nobody says what that is, the most it can be."""
        call = self.meter.begin(known, question.max_tokens)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await wire.ask(question)
        except WireError as error:
            if error.is_free:
                call.refused(counts=not (error.unsent or _is_no_work(error, question)))
            raise
        except TimeoutError:
            raise WireError(FailureKind.LOST, f"no answer in {self._timeout:g} s") from None
        else:
            usage = call.answered(answer.input_tokens, answer.output_tokens)
        finally:
            call.lost()  # unless it has been settled
        if answer.stop_reason is None:
            raise WireError(FailureKind.LOST, "the answer broke off")
        stop = answer.stop_reason
        text = without_commands(without_thoughts(answer.text))
        if self._secrets.are_in(text):
            text, stop = "", HELD_KEY  # it must not reach any file
        return SummaryReply(
            text=text,
            model=self.choice.model,
            finished=stop in (StopReason.END_TURN, StopReason.STOP_SEQUENCE),
            stop_reason=stop,
            usage=usage,
            is_missing=not text.strip(BLANKS),
        )

    async def _connection(self) -> Wire:
        async with self._connecting:
            if self._wire is None:
                self._wire = await asyncio.to_thread(self._connected)
            return self._wire

    def _connected(self) -> Wire:
        if self.choice.provider.shape is ApiShape.ANTHROPIC:
            from lcm_core.writers.models import AnthropicWire

            return AnthropicWire(self.choice, self._credential, self._headers, self._timeout)
        from lcm_core.writers.models import OpenAIWire

        return OpenAIWire(self.choice, self._credential, self._headers, self._timeout)

    def _failure(self, error: WireError, attempts: int) -> SummarizerError:
        said = clip(safe_line(self._secrets.redacted(error.message)), _SHOWN)
        who = f"{self.choice.provider.name} at {self.choice.host}"
        details: dict[str, JsonScalar] = {"provider": self.choice.provider.name, "status": error.status}
        words = f"{error.status}: {said}" if error.status else said
        hopeless = _hopeless(error, who, words, self.choice.model, details)
        if hopeless is not None:
            return hopeless
        if error.kind is FailureKind.AUTH:
            key = self._credential
            origin = "" if key is None else f" from {key.origin}"
            is_token = key is not None and key.kind is KeyKind.OAUTH
            hint = "the host refreshes it" if is_token else "give another key"
            return ProviderAuthError(
                f"{who} refused the key{origin} ({words}): {hint}, or use --provider extractive.",
                details=details,
            )
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        return SummarizerError(
            f"{who} gave no answer{tries} ({words}): try again later or with another model.",
            details=details,
        )

    def forecast(self, request: SummaryRequest, again: SummaryRequest | None = None) -> Forecast:
        """What *request* takes when it is asked once, and at most. Reads the prompts, sends nothing.

        At most, every question is sent `ATTEMPTS` times and each of those is charged in full, and *again* is
        asked after it.
        """
        price = self.meter.price
        loads = [
            CallLoad.of_call(
                self._input_tokens(self._prompts.render(one)), answer_room(one.target_tokens), price
            )
            for one in (request, again)
            if one is not None
        ]
        return Forecast.of(loads, ATTEMPTS)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pace.aclose()
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None


def answer_room(target_tokens: int) -> int:
    """Tokens that an answer may take: so much more than asked for that it can end by itself."""
    return min(max(2 * target_tokens + 512, _LEAST_ROOM), max(_MOST_ROOM, target_tokens))


def takes_temperature(choice: ModelChoice) -> bool:
    """Whether the model takes a temperature, judged by its name."""
    if choice.provider.shape is ApiShape.ANTHROPIC:
        return _TAKES_TEMPERATURE.match(choice.model) is not None
    return _TAKES_NONE.search(choice.model) is None


def _hopeless(
    error: WireError, who: str, words: str, model: str, details: Mapping[str, JsonScalar]
) -> ProviderUnavailableError | None:
    """What ends a batch, with what to do about it; None: another question may be answered."""
    asks_for = error.retry_after or 0.0
    match error.kind:
        case FailureKind.NO_MODEL:
            return NotServedError(
                f"{who} does not have the model {model} ({words}): name another with --model, or check "
                "--base-url.",
                code="MODEL_NOT_FOUND",
                details=details,
            )
        case FailureKind.NO_CREDIT:
            return NotServedError(
                f"{who} has no credit left for this key ({words}): add credit there, or use another key or "
                "provider.",
                code="NO_CREDIT",
                details=details,
            )
        case FailureKind.RATE | FailureKind.BUSY if asks_for > LONGEST_WAIT:
            return ProviderUnavailableError(
                f"{who} asks for a pause of {_duration(asks_for)} ({words}): continue after that, or use "
                "another provider.",
                code="RATE_LIMITED",
                details={**details, "retryAfter": asks_for if math.isfinite(asks_for) else None},
            )
        case FailureKind.RATE:
            return ProviderUnavailableError(
                f"{who} rejects every call for now ({words}): continue later with fewer calls at a time.",
                code="RATE_LIMITED",
                details=details,
            )
        case _:
            return None


def _dislikes_temperature(error: WireError) -> bool:
    return error.status == 400 and "temperature" in error.message.lower()


def _dislikes_streams(error: WireError) -> bool:
    return error.status in (400, 422, 501) and "stream" in error.message.lower()


def _is_no_work(error: WireError, question: ModelQuestion) -> bool:
    """Whether a refused call is none that a limit of calls means: the server, or we, asked too early."""
    if error.kind is FailureKind.RATE:
        return True
    if question.streams and _dislikes_streams(error):
        return True
    return question.temperature is not None and _dislikes_temperature(error)


def _wait(error: WireError, attempt: int) -> float | None:
    """How long to wait before the next attempt, in s; None: no attempt would help, or there were enough."""
    if error.kind not in _PASSING or attempt >= ATTEMPTS:
        return None
    if error.retry_after is not None:
        return None if error.retry_after > LONGEST_WAIT else error.retry_after
    first = _FIRST_WAIT if error.kind is not FailureKind.RATE else _FIRST_PAUSE
    wait = min(first * math.pow(2, attempt - 1), _MOST_WAIT)
    return wait * random.uniform(0.75, 1.0)


def _duration(seconds: float) -> str:
    """A pause for people: minutes, or hours where it is long."""
    if not math.isfinite(seconds) or seconds > 100 * 86_400:
        return "more than 100 days"
    minutes = math.ceil(seconds / 60)
    if minutes < 100:
        return f"{minutes} minutes"
    hours = math.ceil(seconds / 3_600)
    return f"{hours} hours" if hours < 100 else f"{math.ceil(hours / 24)} days"


class SummaryWriter(Protocol):
    """A `Summarizer` that knows what it costs and can be closed."""

    choice: ModelChoice
    meter: CallMeter

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Summarise."""

    def forecast(self, request: SummaryRequest, again: SummaryRequest | None = None) -> Forecast:
        """What a request takes, and at most, when *again* may be asked after it; nothing is sent."""

    async def aclose(self) -> None:
        """Close all connections."""


def open_model(
    chosen: ChosenModel, settings: SummarySettings, budget: CallBudget | None = None
) -> ModelSummarizer | None:
    """The model that was chosen, for questions of one's own; None: it is none that can be asked anything.

    Raises:
        ConfigurationError: a limit of cost cannot be kept, for the price is not known.
    """
    writer = open_summary_writer(chosen, settings, budget=budget)
    return writer if isinstance(writer, ModelSummarizer) else None


def named_model(
    settings: SummarySettings, environ: Mapping[str, str], state_dir: Path
) -> ModelSummarizer | None:
    """The model that an operator's settings name, to be called and closed (``aclose``); None: they name none.

    Its key comes from *environ*, or from the host's profiles below *state_dir*. A key alone names no model.

    Raises:
        ConfigurationError: provider, model, address and key do not go together, or a limit cannot be kept.
    """
    if not (settings.provider.value or settings.model.value or settings.base_url.value):
        return None
    return open_model(choose_model(settings, KeySource(environ, state_dir)), settings)


class ChosenModel(Record, frozen=True):
    """What will be asked; for a preview, nothing is connected yet."""

    choice: ModelChoice
    credential: Credential | None
    price: Price | None  #: None: not known
    headers: OwnHeaders | None = None  #: the operator's own for this address

    @property
    def key_origin(self) -> str | None:
        """Where the key came from, and enough of it to know it again; None: no key is used."""
        return None if self.credential is None else f"{self.credential.masked} from {self.credential.origin}"


def choose_model(settings: SummarySettings, source: KeySource) -> ChosenModel:
    """Who is asked. Reads profile files where a key is looked for, and nothing else.

    Raises:
        ModelError: provider, model and address do not go together.
        CredentialError: there is no key for them.
    """
    choice = choose_provider(settings, source.environ, has_key=has_anthropic_key(source))
    return ChosenModel(
        choice, find_credential(choice, source), price_of(choice, settings), find_headers(choice, source)
    )


def call_budget(settings: SummarySettings, spent: Spent = NOTHING_SPENT) -> CallBudget:
    """What a batch may take; *spent* is what its earlier runs took."""
    return CallBudget(max_calls=settings.max_calls.value, max_cost=settings.max_cost.value, spent=spent)


def open_summary_writer(
    chosen: ChosenModel,
    settings: SummarySettings,
    prompts: PromptTemplates | None = None,
    budget: CallBudget | None = None,
) -> SummaryWriter:
    """A writer for what was chosen; it connects with its first request.

    Writers of one batch share its *budget*; without one this writer has that of *settings* for itself.

    Raises:
        ConfigurationError: a limit of cost cannot be kept, for the price is not known.
    """
    meter = CallMeter(chosen.price, budget or call_budget(settings))
    if chosen.choice.provider.shape is ApiShape.EXTRACTIVE:
        return ExtractiveSummarizer(meter)
    return ModelSummarizer(
        chosen.choice,
        chosen.credential,
        meter,
        headers=chosen.headers,
        prompts=prompts,
        timeout=settings.timeout,
    )
