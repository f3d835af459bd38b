"""Who writes summaries, by options, environment and config: the same for the command line and the app."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from lcm_core.settings import Settings, SummarySettings
from lcm_core.summarize.cost import CallBudget
from lcm_core.summarize.credentials import KeySource
from lcm_core.summarize.models.writer import ChosenModel, SummaryWriter, choose_model, open_summary_writer
from lcm_core.summarize.prompts import PromptTemplates, operators_prompts, prompts_at
from lcm_core.summarize.request import Usage


@dataclass(frozen=True, slots=True)
class Modelling:
    """What was chosen, not connected yet."""

    chosen: ChosenModel
    settings: SummarySettings
    prompts: PromptTemplates  #: what is asked, the operator's own templates among them

    @property
    def words(self) -> str:
        """Who is asked, for people."""
        return str(self.chosen.choice)

    @property
    def key(self) -> str | None:
        """Where the key comes from, masked; None: no key is used."""
        return self.chosen.key_origin

    @property
    def headers(self) -> str:
        """Which headers of the environment are sent along; empty: none."""
        found = self.chosen.headers
        return "" if found is None else f"{', '.join(found.names)} from {found.origin}"

    @property
    def price_words(self) -> str:
        """What the model costs, and who says so; empty where nobody is paid or nobody knows."""
        return "" if self.chosen.price is None else self.chosen.price.words

    @property
    def prompt_notes(self) -> tuple[str, ...]:
        """What is to be known of the operator's own prompts, when somebody is asked.

        Raises:
            ConfigurationError: a prompt cannot be read.
        """
        return self.prompts.notes() if self.chosen.choice.base_url else ()

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """What so many tokens cost, in USD; None: the price is not known."""
        price = self.chosen.price
        return None if price is None else price.of(input_tokens, output_tokens)

    def open(self, budget: CallBudget | None = None) -> SummaryWriter:
        """The writer; it connects with its first request. Writers of one batch share its *budget*.

        Raises:
            ConfigurationError: a limit of cost cannot be kept.
        """
        return open_summary_writer(self.chosen, self.settings, self.prompts, budget)


def choose_writer(
    settings: Settings,
    summary: SummarySettings | None = None,
    *,
    key_variable: str | None = None,
    key_file: Path | None = None,
    prompts: Path | None = None,
) -> Modelling:
    """Choose who is asked; *summary* are the settings with options over them. Nothing is sent.

    *prompts* is a folder of prompts, or one file, in place of those beside our config. It reads files where
    a key is looked for.

    Raises:
        ConfigurationError: provider, model, address and key do not go together, or there are no prompts.
    """
    wanted = settings.summary if summary is None else summary
    source = KeySource(os.environ, settings.credentials_dir, key_variable, key_file)
    own = operators_prompts(settings.user_config_file.value) if prompts is None else prompts_at(prompts)
    return Modelling(choose_model(wanted, source), wanted, own)


def named_model(
    settings: Settings,
    summary: SummarySettings | None = None,
    *,
    key_variable: str | None = None,
    key_file: Path | None = None,
) -> Modelling | None:
    """The model for a question that somebody named; *summary* as in `choose_writer`. None: nobody did.

    A key alone names none, and the extractive writer is none that can be asked.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    named = settings.summary if summary is None else summary
    if not any((named.provider.value, named.model.value, named.base_url.value)):
        return None
    model = choose_writer(settings, summary, key_variable=key_variable, key_file=key_file)
    return model if model.chosen.choice.base_url else None


def spent_text(usage: Usage) -> str:
    """What something cost, for people: at most so much, where the provider did not say all of it."""
    if usage.is_exact or not usage.cost_usd:
        return cost_text(usage.cost_usd)
    return f"at most {most_text(usage.cost_usd)}"


def most_text(cost: float | None) -> str:
    """A cost that is not passed, for people: never rounded down."""
    if not cost:
        return cost_text(cost)
    digits = 2 if cost >= 0.01 else 4
    return f"${math.ceil(round(cost * 10**digits, 6)) / 10**digits:.{digits}f}"


def cost_text(cost: float | None) -> str:
    """A cost for people."""
    if cost is None:
        return "not known"
    return "nothing" if cost == 0 else f"${cost:.2f}" if cost >= 0.01 else f"${cost:.4f}"
