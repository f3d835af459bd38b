"""Who writes summaries: the options that every command with a model takes, and what they choose."""

from __future__ import annotations

from pathlib import Path

from lcm_core.settings import SummarySettings
from lcm_core.summarize.cost import Price

from lcm_tui.cli.answer import Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import ModelOptions
from lcm_tui.writing import Modelling, choose_writer


def model_document(model: Modelling) -> Document:
    """Who writes, for programs."""
    choice, price = model.chosen.choice, model.chosen.price
    return {
        "provider": choice.provider.name,
        "model": choice.model,
        "baseUrl": choice.base_url or None,
        "key": model.key,
        "headers": [] if model.chosen.headers is None else list(model.chosen.headers.names),
        "price": None if price is None else _price_document(price),
        "promptNotes": list(model.prompt_notes),
    }


def modelling(run: Run, flags: ModelOptions, prompts: Path | None = None) -> Modelling:
    """Choose who is asked by options, environment and config. Nothing is sent.

    *prompts*: a folder of prompts, or one file; None: those beside our config.

    Raises:
        UsageError: an option does not fit.
        ConfigurationError: provider, model, address and key do not go together, or there are no prompts.
    """
    return choose_writer(
        run.settings,
        flagged(run, flags),
        key_variable=flags.api_key_env,
        key_file=flags.api_key_file,
        prompts=prompts,
    )


def flagged(run: Run, flags: ModelOptions) -> SummarySettings:
    """Environment and config under the options."""
    return run.settings.summary.with_flags(
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        max_calls=flags.max_calls,
        max_cost=flags.max_cost,
    )


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
