"""What calls cost and how they are limited, and questions to a model that answers in JSON."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from operator import add
from typing import ClassVar, Final, Protocol

from lcm_core.base.errors import ConfigurationError, ExitCode
from lcm_core.base.javascript import Json, read_json, trimmed
from lcm_core.base.settings import SummarySettings
from lcm_core.base.text import counted
from lcm_core.base.values import Record, replace
from lcm_core.writers.request import (
    NO_USAGE,
    PROVIDERS,
    ApiShape,
    ModelChoice,
    SummarizerError,
    SummaryReply,
    Usage,
    host_of,
    is_loopback,
)

# -- cost ------------------------------------------------------------------------------------------------
# Prices, tokens of a prompt, what a batch costs at most, and limits on calls and cost.
#
# Prices are the operator's own, else those of ``prices.toml``, else they are not known. The tokens of a
# prompt are estimated on the high side: the engine's own estimate (a quarter of the characters) is too low
# for logs, ids and tables, so runs of characters are counted by their kind, as tokenizers split them
# (docs/spec/models.md, "Input tokens").

_MILLION: Final = 1_000_000
_LIST: Final = "prices.toml"
#: The end of a model's name for the version of one day, or for the newest.
_VERSION: Final = re.compile(r"[-@](?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2}|latest)$")


class Price(Record, frozen=True):
    """USD for a million tokens."""

    input: float
    output: float
    above: int | None = None  #: an input of more tokens makes the whole call cost what follows
    input_above: float = 0.0
    output_above: float = 0.0
    source: str = ""  #: where it was read, for people
    read_on: date | None = None

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What one call of so many tokens costs, in USD."""
        if self.above is not None and input_tokens > self.above:
            return (input_tokens * self.input_above + output_tokens * self.output_above) / _MILLION
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION

    @property
    def words(self) -> str:
        """The price and its source, for people; empty when nobody is paid."""
        if not self.source:
            return ""
        more = "" if self.above is None else f" (${self.input_above:g} and ${self.output_above:g} above "
        more += "" if self.above is None else f"{self.above:,} tokens in)"
        day = "" if self.read_on is None else f" of {self.read_on}"
        return f"${self.input:g} in and ${self.output:g} out a million tokens{more}, by {self.source}{day}"


FREE: Final = Price(0.0, 0.0)


def price_of(choice: ModelChoice, settings: SummarySettings) -> Price | None:
    """What *choice* costs; None: not known, which is not nothing.

    At the address of its provider a model has that provider's price. Another address is taken to be a gateway
    that asks what the makers ask; where that is not so, the operator sets the prices.
    """
    given = settings.input_price.value, settings.output_price.value
    if given[0] is not None and given[1] is not None:
        return Price(given[0], given[1], source="your settings")
    at_home = choice.is_local and is_loopback(choice.provider.base_url)  # not a gateway that passes calls on
    if choice.provider.shape is ApiShape.EXTRACTIVE or at_home:
        return FREE
    own = choice.host == host_of(choice.provider.base_url)
    lists = price_lists()
    names = [choice.provider.name] if own else [choice.provider.name, *lists]
    return next(filter(None, (_listed(lists.get(name, {}), choice.model) for name in names)), None)


def _listed(prices: Mapping[str, Price], model: str) -> Price | None:
    """The price of a model by its whole name; of a version that is not listed, the highest of its kind."""
    exact = prices.get(model)
    if exact is not None:
        return exact
    kind = _VERSION.sub("", model)
    alike = [price for name, price in prices.items() if _VERSION.sub("", name) == kind]
    return max(alike, key=lambda price: (price.output, price.input), default=None)


@cache
def price_lists() -> Mapping[str, Mapping[str, Price]]:
    """All prices that are known, by provider and model."""
    found = tomllib.loads(files("lcm_core.writers").joinpath(_LIST).read_text("utf-8"))
    return {
        provider: {row.pop("model"): Price(read_on=row.pop("date"), **row) for row in rows}
        for provider, rows in found.items()
    }


_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERS: Final = re.compile(r" ?[0-9]+")
_MARKS: Final = re.compile(r"[!-/:-@\[-`{-~]+")
_BLANKS: Final = re.compile(r"[ \t]{2,}|[\r\n]+|\t")
_LONG: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
_CAPITALS_AND_DIGITS: Final = re.compile(r"[A-Z0-9]")
_DIGITS: Final = re.compile(r"[0-9]")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
_WIDE: Final = re.compile(r"[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]+")  # each is three bytes of UTF-8
_LETTERS_A_TOKEN: Final = 5
_DIGITS_A_TOKEN: Final = 3
_BLANKS_A_TOKEN: Final = 16
_ENCODED_A_CHARACTER: Final = 0.75
_MARKS_AFTER_THE_FIRST: Final = 0.5
_FOREIGN_A_BYTE: Final = 0.55
_WIDE_A_CHARACTER: Final = 1.2
#: Tokens around a system prompt and a message.
_FRAME: Final = 16
#: OpenAI's vocabularies are public: the estimate is measured against them, and this is its margin.
_KNOWN: Final = 1.15
#: Others are not. Anthropic says of its present one that it makes up to 1.35 times as many tokens as the
#: one before.
UNKNOWN_MARGIN: Final = 1.35
_UNDERCOUNT: Final = 1.4


def most_tokens(texts: Iterable[str], choice: ModelChoice) -> int:
    """The most tokens that a prompt of *texts* can be for the chosen model, as far as can be estimated."""
    margin = _KNOWN if choice.host == host_of(PROVIDERS["openai"].base_url) else UNKNOWN_MARGIN
    return math.ceil(sum(map(likely_tokens, texts)) * margin) + _FRAME


def likely_of_count(engine_tokens: int) -> int:
    """Tokens of texts of which only the engine's count is known: on logs it counts 0.71 of what is there."""
    return math.ceil(engine_tokens * _UNDERCOUNT)


def likely_tokens(text: str) -> float:
    """Tokens of a text for the vocabularies that are public: hardly ever fewer than they make of it."""
    whole = len(text)
    text = _LONG.sub(lambda run: "" if _is_encoded(run[0]) else run[0], text)
    tokens: float = (whole - len(text)) * _ENCODED_A_CHARACTER
    tokens += sum(-(-len(run) // _LETTERS_A_TOKEN) for run in _WORDS.findall(text))
    for run in _NUMBERS.findall(text):  # a blank before digits is a token of its own
        tokens += -(-len(run.lstrip()) // _DIGITS_A_TOKEN) + (run[0] == " ")
    tokens += sum(1 + (len(run) - 1) * _MARKS_AFTER_THE_FIRST for run in _MARKS.findall(text))
    tokens += sum(1 + len(run) // _BLANKS_A_TOKEN for run in _BLANKS.findall(text))
    if not text.isascii():
        foreign = "".join(_FOREIGN.findall(text))
        wide = sum(map(len, _WIDE.findall(foreign)))
        tokens += wide * _WIDE_A_CHARACTER
        tokens += (len(foreign.encode("utf-8", "replace")) - 3 * wide) * _FOREIGN_A_BYTE
    return tokens


def _is_encoded(run: str) -> bool:
    """Whether a long run is base64 rather than a path: a third of it are capitals and digits."""
    return len(_CAPITALS_AND_DIGITS.findall(run)) * 3 > len(run) and len(_DIGITS.findall(run)) * 20 > len(run)


class LimitReachedError(SummarizerError):
    """The next call could pass a limit that the operator set; it was not made."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "LIMIT_REACHED"


class CallLoad(Record, frozen=True):
    """Calls, and what they take: estimates, shown with a ``~``."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: None: the price is not known

    @classmethod
    def of_call(cls, input_tokens: int, output_tokens: int, price: Price | None) -> CallLoad:
        """One call of so many tokens."""
        cost = None if price is None else price.of(input_tokens, output_tokens)
        return cls(1, input_tokens, output_tokens, cost)

    def __add__(self, other: CallLoad) -> CallLoad:
        return self._combined(other, add)

    def times(self, number: int) -> CallLoad:
        """The same so many times."""
        cost = None if self.cost_usd is None else self.cost_usd * number
        return CallLoad(self.calls * number, self.input_tokens * number, self.output_tokens * number, cost)

    def larger(self, other: CallLoad) -> CallLoad:
        """What holds both, number by number."""
        return self._combined(other, max)

    def within(self, other: CallLoad) -> CallLoad:
        """No more than *other*, number by number."""
        return self._combined(other, min)

    def _combined(self, other: CallLoad, how: Callable[[float, float], float]) -> CallLoad:
        known = self.cost_usd is not None and other.cost_usd is not None
        return CallLoad(
            int(how(self.calls, other.calls)),
            int(how(self.input_tokens, other.input_tokens)),
            int(how(self.output_tokens, other.output_tokens)),
            how(self.cost_usd or 0.0, other.cost_usd or 0.0) if known else None,
        )


NO_LOAD: Final = CallLoad(0, 0, 0, 0.0)


class Forecast(Record, frozen=True):
    """What a batch takes when every first answer is kept, and what it takes at most."""

    once: CallLoad  #: every question asked once; what is sent is estimated on the dear side
    most: CallLoad  #: every question repeated as often as it may be, and asked again for a shorter answer
    largest: CallLoad  #: one call, the largest of all

    @classmethod
    def of(cls, calls: Sequence[CallLoad], times: int) -> Forecast:
        """One request: the call that is made, and the others that may follow it, each so many times."""
        largest = calls[0]
        for one in calls[1:]:
            largest = largest.larger(one)
        return cls(calls[0], sum((one.times(times) for one in calls), NO_LOAD), largest)

    def __add__(self, other: Forecast) -> Forecast:
        return Forecast(self.once + other.once, self.most + other.most, self.largest.larger(other.largest))


NO_FORECAST: Final = Forecast(NO_LOAD, NO_LOAD, NO_LOAD)


def total_forecast(forecasts: Iterable[Forecast]) -> Forecast:
    """Several forecasts as one."""
    return sum(forecasts, NO_FORECAST)


class Spent(Record, frozen=True):
    """What a batch has taken so far, in all of its runs; calls that gave no draft count too."""

    calls: int = 0
    usage: Usage = NO_USAGE


NOTHING_SPENT: Final = Spent()


class CallBudget:
    """What a batch may take and has taken, whoever is asked; it lets no call begin that could pass a limit.

    What is in flight counts with the most that it can cost, and *spent* is what earlier runs of the batch
    took. For one event loop; not for threads.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_cost: float | None = None,
        spent: Spent = NOTHING_SPENT,
    ) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost  #: USD
        self.spent = spent
        self._reserved = 0.0

    def begin(self, most: float) -> None:
        """Count a call that may cost so much, in USD.

        Raises:
            LimitReachedError: it could pass a limit.
        """
        if self.max_calls is not None and self.spent.calls >= self.max_calls:
            raise LimitReachedError(
                f"The limit of {counted(self.max_calls, 'call')} is reached, including earlier runs of this "
                "batch: finished drafts are kept, the rest was not started.",
                details={"maxCalls": self.max_calls},
            )
        spent = (self.spent.usage.cost_usd or 0.0) + self._reserved
        if self.max_cost is not None and spent + most > self.max_cost:
            raise LimitReachedError(
                f"The next call could pass the limit of ${self.max_cost:g} (spent, in earlier runs of this "
                f"batch too, or in flight: ${spent:.4f}): finished drafts are kept, the rest was not "
                "started.",
                details={"maxCost": self.max_cost, "spent": spent},
            )
        self.spent = replace(self.spent, calls=self.spent.calls + 1)
        self._reserved += most

    def end(self, most: float, usage: Usage) -> None:
        """Count what a call really took that was begun with *most*."""
        self._reserved -= most
        self.spent = replace(self.spent, usage=self.spent.usage + usage)

    def take_back(self, most: float) -> None:
        """Forget a call that was begun with *most*: it was refused before anybody worked on it."""
        self._reserved -= most
        self.spent = replace(self.spent, calls=self.spent.calls - 1)

    def at_most(self, forecast: Forecast) -> CallLoad:
        """The most that *forecast* can take: what is foreseen, or what the limits leave of it."""
        most = forecast.most
        if self.max_calls is not None:
            left = max(self.max_calls - self.spent.calls, 0)
            most = most.within(forecast.largest.times(left))
        if self.max_cost is not None and most.cost_usd is not None:
            left_usd = max(self.max_cost - (self.spent.usage.cost_usd or 0.0), 0.0)
            most = replace(most, cost_usd=min(most.cost_usd, left_usd))
        return most


class MeteredCall:
    """One call that was begun: settled once, by the first that is said of it."""

    def __init__(self, meter: CallMeter, input_tokens: int, output_tokens: int) -> None:
        self._meter = meter
        self._most = input_tokens, output_tokens
        self._reserved = meter.cost(input_tokens, output_tokens) or 0.0
        meter.budget.begin(self._reserved)
        self._is_open = True

    def answered(self, input_tokens: int | None, output_tokens: int | None) -> Usage:
        """It took so many tokens; what the server does not say (None) is counted with the most it can be."""
        exact = input_tokens is not None and output_tokens is not None
        taken = self._most[0] if input_tokens is None else input_tokens
        given = self._most[1] if output_tokens is None else output_tokens
        return self._settle(Usage(taken, given, self._meter.cost(taken, given), exact))

    def refused(self, *, counts: bool) -> None:
        """It was not answered, and cost nothing; *counts*: it was a call all the same."""
        if not self._is_open:
            return
        if counts:
            self._settle(Usage(cost_usd=self._meter.cost(0, 0)))
        else:
            self._is_open = False
            self._meter.budget.take_back(self._reserved)

    def lost(self) -> None:
        """Nobody will say what it took: it counts with the most that it can have been."""
        if self._is_open:
            self.answered(None, None)

    def _settle(self, usage: Usage) -> Usage:
        self._is_open = False
        self._meter.budget.end(self._reserved, usage)
        return usage


class CallMeter:
    """Counts the calls of one writer, at its price, in the budget of their batch."""

    def __init__(self, price: Price | None, budget: CallBudget | None = None) -> None:
        """Without a *budget* there is no limit."""
        self.price = price
        self.budget = budget or CallBudget()
        if self.budget.max_cost is not None and price is None:
            raise ConfigurationError(
                "--max-cost cannot be kept: the price of this model is not known. Set input_price and "
                "output_price (USD for a million tokens) under [summary] in config.toml, or use --max-calls.",
                code="PRICE_UNKNOWN",
            )

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """What a call of so many tokens costs, in USD; None: the price is not known."""
        return None if self.price is None else self.price.of(input_tokens, output_tokens)

    def begin(self, input_tokens: int, output_tokens: int) -> MeteredCall:
        """Count a call that may take so many tokens.

        Raises:
            LimitReachedError: it could pass a limit.
        """
        return MeteredCall(self, input_tokens, output_tokens)


# -- questions in our own words --------------------------------------------------------------------------
# A model that answers a prompt of ours, and the JSON in its answer, whatever is around it.

_FENCE: Final = re.compile(r"```(?:json)?[^\S\n]*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


class Model(Protocol):
    """A model that can be called; `ModelSummarizer` is one."""

    @property
    def name(self) -> str:
        """Who it is, for people."""

    async def say(self, system: str, user: str, target_tokens: int) -> SummaryReply:
        """The answer to one request.

        Raises:
            SummarizerError: none came back.
        """

    def load_of(self, system: str, user: str, target_tokens: int, more_tokens: int = 0) -> CallLoad:
        """What such a call takes at most; nothing is sent."""


def fenced(text: str) -> str | None:
    """What stands in the first code fence of a model's reply; None where there is no fence."""
    found = _FENCE.search(text)
    return None if found is None else trimmed(found[1])


def form_in(text: str, forms: Collection[str]) -> Mapping[str, Json] | None:
    """The object of a reply that has one of the members *forms*.

    None for a text that is none, an empty one for JSON of another form.
    """
    inside = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced(text) or "", inside):
        try:
            value = read_json(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, Mapping) and not set(forms).isdisjoint(value):
            return value
        if candidate is text and not isinstance(value, str):
            return {}
    return None
