"""Asking a model about the memory: who was named, what that may cost, and the word of the operator."""

from __future__ import annotations

from lcm_core.javascript import Json, JsonObject
from lcm_core.recall.model_delegate import query_forecast
from lcm_core.recall.settings import RecallSettings
from lcm_core.summarize.cost import CallLoad, Forecast
from lcm_core.summarize.models.writer import ModelSummarizer, call_budget, open_model

from lcm_tui.cli import output
from lcm_tui.cli.answer import Run
from lcm_tui.cli.drafting_report import load_document
from lcm_tui.cli.modelling import modelling
from lcm_tui.cli.options import ModelOptions
from lcm_tui.cli.working import ask_before_change, can_ask
from lcm_tui.views.blocks import Block, Facts
from lcm_tui.views.writer import writer_facts
from lcm_tui.writing import Modelling, cost_text, most_text


def named_model(run: Run, flags: ModelOptions, *, by_flags: bool = False) -> Modelling | None:
    """The model that somebody named, by options or (unless *by_flags*) by settings; None: nobody did.

    A key alone names none, and the extractive writer is none that can be asked.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    named = [flags.provider, flags.model, flags.base_url]
    if not by_flags:
        summary = run.settings.summary
        named += [summary.provider.value, summary.model.value, summary.base_url.value]
    if not any(named):
        return None
    model = modelling(run, flags)
    return model if model.chosen.choice.base_url else None


def opened(model: Modelling) -> ModelSummarizer:
    """The model, to be asked; it connects with its first call. Close it.

    Raises:
        ConfigurationError: a limit of cost cannot be kept.
    """
    found = open_model(model.chosen, model.settings, call_budget(model.settings))
    assert found is not None  # it has an address
    return found


def at_most(model: ModelSummarizer, forecast: Forecast) -> CallLoad:
    """The most that may be taken within the limits of the operator."""
    return model.meter.budget.at_most(forecast)


def forecast_document(forecast: Forecast, most: CallLoad) -> dict[str, Json]:
    """What asking takes, for programs."""
    return {"expected": load_document(forecast.once), "atMost": load_document(most)}


def forecast_blocks(model: Modelling, forecast: Forecast, most: CallLoad) -> list[Block]:
    """Who would be asked, and what that takes."""
    once = forecast.once
    cost = f"~{cost_text(once.cost_usd)}" if once.cost_usd else cost_text(once.cost_usd)
    return [
        Facts(
            [
                *writer_facts(model),
                ("Calls", f"{once.calls:,}; at most {most.calls:,}, with repeats"),
                ("Sent", f"~{once.input_tokens:,} tokens; at most {most.input_tokens:,}"),
                ("Cost", f"{cost} when the first call answers"),
                ("Cost at most", most_text(most.cost_usd)),
            ]
        )
    ]


def agreed_model(
    run: Run, flags: ModelOptions, given: JsonObject, settings: RecallSettings, *, yes: bool
) -> ModelSummarizer | None:
    """The model that answers ``lcm_expand_query``, when one was named and the operator agrees.

    Raises:
        NobodyToAskError: nobody can be asked whether it may, and no *yes* was given.
        CancelledError: the answer is no.
    """
    model = named_model(run, flags, by_flags=True)
    if model is None:
        return None
    found = opened(model)
    if not yes and can_ask():
        forecast = query_forecast(found, given, settings)
        output.print_aside(forecast_blocks(model, forecast, at_most(found, forecast)), run.presentation)
    ask_before_change(f"Ask {model.words}?", yes=yes)
    return found
