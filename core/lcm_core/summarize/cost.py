"""What calls cost: prices, what a batch will cost at most, and limits that hold while calls are in flight."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from lcm_core.errors import ConfigurationError, ExitCode
from lcm_core.settings.summary import SummarySettings
from lcm_core.summarize.models.providers import Choice, Shape, is_loopback
from lcm_core.summarize.request import NO_USAGE, SummarizerError, Usage

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, in USD."""
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


FREE: Final = Price(0.0, 0.0)
#: List prices as we know them; ``[summary] input_price`` and ``output_price`` stand above them.
_PRICES: Final = (
    (re.compile(r"claude-haiku-4"), Price(1.0, 5.0)),
    (re.compile(r"claude-3-5-haiku|claude-haiku-3-5"), Price(0.8, 4.0)),
    (re.compile(r"claude-(?:sonnet-4|3-[57]-sonnet)"), Price(3.0, 15.0)),
    (re.compile(r"claude-opus-4-[5-9]"), Price(5.0, 25.0)),
    (re.compile(r"claude-(?:opus-4|3-opus)"), Price(15.0, 75.0)),
    (re.compile(r"gpt-4o-mini"), Price(0.15, 0.6)),
    (re.compile(r"gpt-4o"), Price(2.5, 10.0)),
    (re.compile(r"gpt-4\.1-mini"), Price(0.4, 1.6)),
    (re.compile(r"gpt-4\.1"), Price(2.0, 8.0)),
)


class LimitReachedError(SummarizerError):
    """The next call could pass a limit that the operator set; it was not made."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "LIMIT_REACHED"


def price_of(choice: Choice, settings: SummarySettings) -> Price | None:
    """What *choice* costs; None: not known, which is not nothing."""
    given = settings.input_price.value, settings.output_price.value
    if given[0] is not None and given[1] is not None:
        return Price(given[0], given[1])
    at_home = choice.is_local and is_loopback(choice.provider.base_url)  # not a gateway that passes calls on
    if choice.provider.shape is Shape.EXTRACTIVE or at_home:
        return FREE
    return next((price for pattern, price in _PRICES if pattern.search(choice.model)), None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a batch takes at most when no call is repeated: estimates, told with a ``~``."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: None: the price is not known

    def __add__(self, other: Forecast) -> Forecast:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Forecast(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


def total(forecasts: Iterable[Forecast]) -> Forecast:
    """Several forecasts as one."""
    return sum(forecasts, Forecast(0, 0, 0, 0.0))


@dataclass(frozen=True, slots=True)
class Spent:
    """What a batch has taken so far, in all of its runs; calls that gave no draft count too."""

    calls: int = 0
    usage: Usage = NO_USAGE


NOTHING_SPENT: Final = Spent()


class Budget:
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
                f"The limit of {self.max_calls} calls is reached, those of earlier runs of this batch "
                "counted: what is done is kept, the rest was not asked.",
                details={"maxCalls": self.max_calls},
            )
        spent = (self.spent.usage.cost_usd or 0.0) + self._reserved
        if self.max_cost is not None and spent + most > self.max_cost:
            raise LimitReachedError(
                f"The next call could pass the limit of ${self.max_cost:g} (spent, in earlier runs of this "
                f"batch too, or in flight: ${spent:.4f}): what is done is kept, the rest was not asked.",
                details={"maxCost": self.max_cost, "spent": spent},
            )
        self.spent = replace(self.spent, calls=self.spent.calls + 1)
        self._reserved += most

    def end(self, most: float, usage: Usage) -> None:
        """Count what a call really took that was begun with *most*."""
        self._reserved -= most
        self.spent = replace(self.spent, usage=self.spent.usage + usage)


class Meter:
    """Counts the calls of one writer, at its price, in the budget of their batch."""

    def __init__(self, price: Price | None, budget: Budget | None = None) -> None:
        """Without a *budget* there is no limit."""
        self.price = price
        self.budget = budget or Budget()
        if self.budget.max_cost is not None and price is None:
            raise ConfigurationError(
                "--max-cost cannot be kept: the price of this model is not known. Set input_price and "
                "output_price (USD for a million tokens) under [summary] in config.toml, or use --max-calls.",
                code="PRICE_UNKNOWN",
            )

    def begin(self, input_tokens: int, output_tokens: int) -> float:
        """Count a call that may take so many tokens; the result is given back to `end`.

        Raises:
            LimitReachedError: it could pass a limit.
        """
        most = 0.0 if self.price is None else self.price.of(input_tokens, output_tokens)
        self.budget.begin(most)
        return most

    def end(self, reserved: float, input_tokens: int, output_tokens: int) -> Usage:
        """Count what a call really took. A call that failed is told with what is known of it."""
        cost = None if self.price is None else self.price.of(input_tokens, output_tokens)
        usage = Usage(input_tokens, output_tokens, cost)
        self.budget.end(reserved, usage)
        return usage
