"""What calls cost: what a batch will cost at most, and limits that hold while calls are in flight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from lcm_core.errors import ConfigurationError, ExitCode
from lcm_core.summarize.prices import FREE, Price, price_of
from lcm_core.summarize.request import NO_USAGE, SummarizerError, Usage

__all__ = ["FREE", "Price", "price_of"]


class LimitReachedError(SummarizerError):
    """The next call could pass a limit that the operator set; it was not made."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "LIMIT_REACHED"


@dataclass(frozen=True, slots=True)
class Load:
    """Calls, and what they take: estimates, told with a ``~``."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: None: the price is not known

    @classmethod
    def of_call(cls, input_tokens: int, output_tokens: int, price: Price | None) -> Load:
        """One call of so many tokens."""
        cost = None if price is None else price.of(input_tokens, output_tokens)
        return cls(1, input_tokens, output_tokens, cost)

    def __add__(self, other: Load) -> Load:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Load(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )

    def times(self, number: int) -> Load:
        """The same so many times."""
        cost = None if self.cost_usd is None else self.cost_usd * number
        return Load(self.calls * number, self.input_tokens * number, self.output_tokens * number, cost)

    def larger(self, other: Load) -> Load:
        """What holds both, number by number."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Load(
            max(self.calls, other.calls),
            max(self.input_tokens, other.input_tokens),
            max(self.output_tokens, other.output_tokens),
            max(self.cost_usd or 0.0, other.cost_usd or 0.0) if known else None,
        )

    def within(self, other: Load) -> Load:
        """No more than *other*, number by number."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Load(
            min(self.calls, other.calls),
            min(self.input_tokens, other.input_tokens),
            min(self.output_tokens, other.output_tokens),
            min(self.cost_usd or 0.0, other.cost_usd or 0.0) if known else None,
        )


NO_LOAD: Final = Load(0, 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a batch takes when every first answer stands, and what it takes at most."""

    once: Load  #: every question asked once; what is sent is estimated on the dear side
    most: Load  #: every question repeated as often as it may be, and asked again for a shorter answer
    largest: Load  #: one call, the largest of all

    @classmethod
    def of(cls, calls: Sequence[Load], times: int) -> Forecast:
        """One request: the call that is made, and the others that may follow it, each so many times."""
        largest = calls[0]
        for one in calls[1:]:
            largest = largest.larger(one)
        return cls(calls[0], sum((one.times(times) for one in calls), NO_LOAD), largest)

    def __add__(self, other: Forecast) -> Forecast:
        return Forecast(self.once + other.once, self.most + other.most, self.largest.larger(other.largest))

    @property
    def calls(self) -> int:
        """When every first answer stands."""
        return self.once.calls

    @property
    def input_tokens(self) -> int:
        """When every first answer stands."""
        return self.once.input_tokens

    @property
    def output_tokens(self) -> int:
        """When every first answer stands, at most."""
        return self.once.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """When every first answer stands, at most; None: the price is not known."""
        return self.once.cost_usd


NOTHING_FORESEEN: Final = Forecast(NO_LOAD, NO_LOAD, NO_LOAD)


def total(forecasts: Iterable[Forecast]) -> Forecast:
    """Several forecasts as one."""
    return sum(forecasts, NOTHING_FORESEEN)


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

    def take_back(self, most: float) -> None:
        """Forget a call that was begun with *most*: it was refused before anybody worked on it."""
        self._reserved -= most
        self.spent = replace(self.spent, calls=self.spent.calls - 1)

    def at_most(self, forecast: Forecast) -> Load:
        """The most that *forecast* can take: what is foreseen, or what the limits leave of it."""
        most = forecast.most
        if self.max_calls is not None:
            left = max(self.max_calls - self.spent.calls, 0)
            most = most.within(forecast.largest.times(left))
        if self.max_cost is not None and most.cost_usd is not None:
            left_usd = max(self.max_cost - (self.spent.usage.cost_usd or 0.0), 0.0)
            most = replace(most, cost_usd=min(most.cost_usd, left_usd))
        return most


class Call:
    """One call that was begun: settled once, by the first that is said of it."""

    def __init__(self, meter: Meter, input_tokens: int, output_tokens: int) -> None:
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

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """What a call of so many tokens costs, in USD; None: the price is not known."""
        return None if self.price is None else self.price.of(input_tokens, output_tokens)

    def begin(self, input_tokens: int, output_tokens: int) -> Call:
        """Count a call that may take so many tokens.

        Raises:
            LimitReachedError: it could pass a limit.
        """
        return Call(self, input_tokens, output_tokens)
