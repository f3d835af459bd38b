"""From settings to a writer: who is asked, with which key, within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lcm_core.settings.summary import SummarySettings
from lcm_core.summarize.cost import NOTHING_SPENT, Budget, Forecast, Meter, Price, Spent, price_of
from lcm_core.summarize.credentials import (
    Credential,
    KeySource,
    OwnHeaders,
    find_credential,
    find_headers,
    has_anthropic_key,
)
from lcm_core.summarize.models.asking import ModelSummarizer
from lcm_core.summarize.models.extractive import ExtractiveSummarizer
from lcm_core.summarize.models.providers import Choice, Shape, choose
from lcm_core.summarize.prompts import Prompts
from lcm_core.summarize.request import SummaryReply, SummaryRequest


class Writer(Protocol):
    """A `Summarizer` that knows what it costs and can be closed."""

    choice: Choice
    meter: Meter

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Summarise."""

    def forecast(self, request: SummaryRequest, again: SummaryRequest | None = None) -> Forecast:
        """What a request takes, and at most, when *again* may be asked after it; nothing is sent."""

    async def aclose(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What will be asked; for a preview, nothing is connected yet."""

    choice: Choice
    credential: Credential | None
    price: Price | None  #: None: not known
    headers: OwnHeaders | None = None  #: the operator's own for this address

    @property
    def key_origin(self) -> str | None:
        """Where the key came from, and enough of it to know it again; None: no key is used."""
        return None if self.credential is None else f"{self.credential.masked} from {self.credential.origin}"


def choose_model(settings: SummarySettings, source: KeySource) -> Chosen:
    """Who is asked. Reads profile files where a key is looked for, and nothing else.

    Raises:
        ModelError: provider, model and address do not go together.
        CredentialError: there is no key for them.
    """
    choice = choose(settings, source.environ, has_key=has_anthropic_key(source))
    return Chosen(
        choice, find_credential(choice, source), price_of(choice, settings), find_headers(choice, source)
    )


def budget_of(settings: SummarySettings, spent: Spent = NOTHING_SPENT) -> Budget:
    """What a batch may take; *spent* is what its earlier runs took."""
    return Budget(max_calls=settings.max_calls.value, max_cost=settings.max_cost.value, spent=spent)


def open_writer(
    chosen: Chosen,
    settings: SummarySettings,
    prompts: Prompts | None = None,
    budget: Budget | None = None,
) -> Writer:
    """A writer for what was chosen; it connects with its first request.

    Writers of one batch share its *budget*; without one this writer has that of *settings* for itself.

    Raises:
        ConfigurationError: a limit of cost cannot be kept, for the price is not known.
    """
    meter = Meter(chosen.price, budget or budget_of(settings))
    if chosen.choice.provider.shape is Shape.EXTRACTIVE:
        return ExtractiveSummarizer(meter)
    return ModelSummarizer(
        chosen.choice,
        chosen.credential,
        meter,
        headers=chosen.headers,
        prompts=prompts,
        timeout=settings.timeout,
    )
