"""Who writes summaries: the options that every command with a model takes, and what they choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lcm_core.summarize.cost import Price

from lcm_tui.cli.answer import Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ModelOptions
from lcm_tui.cli.readable import Cell
from lcm_tui.writing import Modelling as Chosen
from lcm_tui.writing import choose_writer, cost_text, most_text, spent_text

__all__ = ["Modelling", "cost_text", "modelling", "most_text", "spent_text"]


@dataclass(frozen=True, slots=True)
class Modelling(Chosen):
    """What was chosen, as the command line tells it."""

    def facts(self) -> list[tuple[str, Cell]]:
        """Who writes and with which key, for people."""
        told = {"Key": self.key, "Headers": self.headers, "Price": self.price_words}
        return [
            ("Written by", self.words),
            *((name, words) for name, words in told.items() if words),
            *(("Prompts", note) for note in self.prompt_notes),
        ]

    def document(self) -> Document:
        """The same for programs."""
        choice, price = self.chosen.choice, self.chosen.price
        return {
            "provider": choice.provider.name,
            "model": choice.model,
            "baseUrl": choice.base_url or None,
            "key": self.key,
            "headers": [] if self.chosen.headers is None else list(self.chosen.headers.names),
            "price": None if price is None else _price_document(price),
            "promptNotes": list(self.prompt_notes),
        }


def modelling(run: Run, flags: ModelOptions, prompts: Path | None = None) -> Modelling:
    """Choose who is asked by options, environment and config. Nothing is sent.

    *prompts*: a folder of prompts, or one file; None: those beside our config.

    Raises:
        UsageError: an option does not fit.
        ConfigurationError: provider, model, address and key do not go together, or there are no prompts.
    """
    settings = run.settings.summary.with_flags(
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        max_calls=flags.max_calls,
        max_cost=flags.max_cost,
    )
    chosen = choose_writer(
        run.settings,
        settings,
        key_variable=flags.api_key_env,
        key_file=flags.api_key_file,
        prompts=prompts,
    )
    return Modelling(chosen.chosen, chosen.settings, chosen.prompts)


def _price_document(price: Price) -> Document:
    return {
        "inputUsdPerMillion": price.input,
        "outputUsdPerMillion": price.output,
        "aboveInputTokens": price.above,
        "inputUsdPerMillionAbove": None if price.above is None else price.input_above,
        "outputUsdPerMillionAbove": None if price.above is None else price.output_above,
        "source": price.source or None,
        "readOn": None if price.read_on is None else price.read_on.isoformat(),
    }
