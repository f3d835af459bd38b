"""Who writes summaries: the options that every command with a model takes, and what they choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from lcm_core.errors import UsageError
from lcm_core.summarize.cost import Price

from lcm_tui.cli import options
from lcm_tui.cli.answer import Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.readable import Cell
from lcm_tui.writing import Modelling as Chosen
from lcm_tui.writing import choose_writer, cost_text, most_text, spent_text

__all__ = ["ModelFlags", "Modelling", "cost_text", "modelling", "most_text", "spent_text"]

Provider: TypeAlias = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="Who writes: extractive needs no key and no network."),
]
Model: TypeAlias = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which model.")]
BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="A server that speaks the same language.")
]
KeyVariable: TypeAlias = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The variable that holds the key.")
]
KeyFile: TypeAlias = Annotated[
    str | None, typer.Option("--api-key-file", metavar="PATH", help="The file that holds the key.")
]
MaxCalls: TypeAlias = Annotated[
    str | None, typer.Option("--max-calls", metavar="N", help="No more calls than that.")
]
MaxCost: TypeAlias = Annotated[
    str | None, typer.Option("--max-cost", metavar="USD", help="No call that could cost more than that.")
]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """The options as they were given."""

    provider: Provider = None
    model: Model = None
    base_url: BaseUrl = None
    api_key_env: KeyVariable = None
    api_key_file: KeyFile = None
    max_calls: MaxCalls = None
    max_cost: MaxCost = None


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


def modelling(run: Run, flags: ModelFlags, prompts: str | None = None) -> Modelling:
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
        max_calls=None if flags.max_calls is None else options.whole_number("max-calls", flags.max_calls, 0),
        max_cost=None if flags.max_cost is None else _dollars(flags.max_cost),
    )
    chosen = choose_writer(
        run.settings,
        settings,
        key_variable=flags.api_key_env,
        key_file=None if flags.api_key_file is None else Path(flags.api_key_file).expanduser(),
        prompts=None
        if prompts is None
        else Path(options.readable_text("--prompt-dir", prompts)).expanduser(),
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


def _dollars(given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise UsageError(
            f"--max-cost must be a number of US dollars, not {given}.", details={"option": "max-cost"}
        )
    return value
