"""A question to the memory: its evidence at once, and an answer when a model was named and agreed to."""

from __future__ import annotations

from typing import Protocol

from lcm_core.writers.cost import CallBudget, Forecast, Spent
from lcm_core.writers.writer import call_budget, open_model
from lcm_recall.ask import Asked, Inquiry

from lcm_tui.flows.drafts import Modelling


class AskUi(Protocol):
    """Who shows the evidence, and asks whether a model may be called."""

    async def show_evidence(self, evidence: Asked) -> None:
        """Show what was found."""

    async def agree(self, model: Modelling, forecast: Forecast, budget: CallBudget) -> bool:
        """Ask whether it may be called; *budget* has the limits of the operator."""

    def progress(self, done: int, what: str) -> None:
        """Say how far the call is."""


async def ask_memory(ui: AskUi, inquiry: Inquiry, model: Modelling | None) -> tuple[Asked, Spent | None]:
    """The evidence, and the answer with what it took; None: no model was called.

    Raises:
        ConfigurationError: a limit of cost cannot be kept.
    """
    await inquiry.gather(for_model=model is not None)
    await ui.show_evidence(inquiry.evidence)
    opened = None if model is None else open_model(model.chosen, model.settings, call_budget(model.settings))
    if model is None or opened is None:
        return inquiry.evidence, None
    budget = opened.meter.budget
    try:
        forecast = inquiry.forecast(opened)
        if not await ui.agree(model, forecast, budget):
            return inquiry.evidence, None
        return await inquiry.ask(opened, ui.progress), budget.spent
    finally:
        await opened.aclose()
