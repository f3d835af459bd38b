"""What models cost: the operator's own prices, else those of ``prices.toml``, else it is not known."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Final

from lcm_core.settings.summary import SummarySettings
from lcm_core.summarize.models.providers import Choice, Shape, host_of, is_loopback

_MILLION: Final = 1_000_000
_LIST: Final = "prices.toml"
#: What stands behind a name for one day's version of a model, or for its newest.
_VERSION: Final = re.compile(r"[-@](?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2}|latest)$")


@dataclass(frozen=True, slots=True)
class Price:
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
        """The price and where it comes from, for people; empty when nobody is paid."""
        if not self.source:
            return ""
        more = "" if self.above is None else f" (${self.input_above:g} and ${self.output_above:g} above "
        more += "" if self.above is None else f"{self.above:,} tokens in)"
        day = "" if self.read_on is None else f" of {self.read_on}"
        return f"${self.input:g} in and ${self.output:g} out a million tokens{more}, by {self.source}{day}"


FREE: Final = Price(0.0, 0.0)


def price_of(choice: Choice, settings: SummarySettings) -> Price | None:
    """What *choice* costs; None: not known, which is not nothing.

    At the address of its provider a model has that provider's price. Another address is taken to be a gateway
    that asks what the makers ask; where that is not so, the operator sets the prices.
    """
    given = settings.input_price.value, settings.output_price.value
    if given[0] is not None and given[1] is not None:
        return Price(given[0], given[1], source="your settings")
    at_home = choice.is_local and is_loopback(choice.provider.base_url)  # not a gateway that passes calls on
    if choice.provider.shape is Shape.EXTRACTIVE or at_home:
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
    found = tomllib.loads(files("lcm_core.summarize").joinpath(_LIST).read_text("utf-8"))
    return {provider: {row["model"]: _price(row) for row in rows} for provider, rows in found.items()}


def _price(row: Mapping[str, Any]) -> Price:
    return Price(
        row["input"],
        row["output"],
        row.get("above"),
        row.get("input_above", 0.0),
        row.get("output_above", 0.0),
        row["source"],
        row["date"],
    )
