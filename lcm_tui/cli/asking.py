"""Asking a model about the memory: who was named, what that may cost, and the word of the operator."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.base.errors import CancelledError, ExitCode
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.values import Struct, field, replace, to_json
from lcm_core.operations.drafts import spent_to_json
from lcm_core.store.database import Database
from lcm_core.writers.cost import CallBudget, CallLoad, Forecast
from lcm_core.writers.writer import ModelSummarizer, call_budget, open_model
from lcm_recall.ask import Asked, AskedAnswer, AskLimits, Inquiry, query_forecast
from lcm_recall.queries import RecallSettings, recall_settings

from lcm_tui.cli import output
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.drafts import flagged, model_document
from lcm_tui.cli.options import ModelOptions
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.recall import in_scope, passage_title
from lcm_tui.cli.working import ask, can_ask, show_and_ask
from lcm_tui.flows.asking import ask_memory
from lcm_tui.flows.drafts import Modelling, named_model, spent_text
from lcm_tui.tables.blocks import Facts, Note, Prose
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.drafts import cost_facts, model_facts


def flagged_model(run: Run, flags: ModelOptions, *, by_flags: bool = False) -> Modelling | None:
    """The model that somebody named, by options or (unless *by_flags*) by settings; None: nobody did.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    if by_flags and not any((flags.provider, flags.model, flags.base_url)):
        return None
    return named_model(run.settings, flagged(run, flags), key_variable=flags.api_key_env)


def opened(model: Modelling, spending: CallBudget | None = None) -> ModelSummarizer:
    """The model, to be asked; it connects with its first call. Close it. *spending*: shared with others.

    Raises:
        ConfigurationError: a limit of cost cannot be kept.
    """
    found = open_model(model.chosen, model.settings, spending or call_budget(model.settings))
    assert found is not None  # it has an address
    return found


def forecast_document(forecast: Forecast, most: CallLoad) -> dict[str, Json]:
    """What asking takes, for programs."""
    return {"expected": to_json(forecast.once), "atMost": to_json(most)}


def forecast_blocks(
    model: Modelling, forecast: Forecast, most: CallLoad, when: str = "the first call answers"
) -> list[Block]:
    """Who would be asked, and what that takes; *when* it takes no more than expected."""
    return [Facts([*model_facts(model), *cost_facts(forecast.once, most, "retries", when)])]


class AskWork(Struct):
    """One run of ``ask`` (`AskUi`)."""

    run: Run
    question: str
    scope: tuple[int | None, str | None, str | None]  #: conversation, session key, agent
    limits: AskLimits
    model: Modelling | None
    yes: bool
    why: str = "No model was called: name one with --provider or --model. This is the evidence found."
    data: dict[str, Json] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    line: ProgressLine = field(default_factory=lambda: ProgressLine(bar=False))

    def do(self, *, fail_empty: bool) -> Answer:
        """Find the evidence, ask when that was agreed to, and show both."""
        answer = self.run.work(self._asked)
        empty = fail_empty and not answer.data["evidence"] and answer.exit_code is ExitCode.DONE
        return replace(answer, exit_code=ExitCode.NOT_FOUND) if empty else answer

    async def _asked(self, database: Database) -> Answer:
        named, within = await database.read(in_scope, *self.scope)
        settings = recall_settings(self.run.settings)
        inquiry = Inquiry(database, settings, self.question, self.limits, within)
        try:
            asked, spent = await ask_memory(self, inquiry, self.model)
        finally:
            self.line.clear()
        if spent is not None:
            self.data["spent"] = spent_to_json(spent)
            self.blocks = [Facts([("Calls", spent.calls), ("Cost", spent_text(spent.usage))])]
        return self._answer(named, asked)

    async def show_evidence(self, evidence: Asked) -> None:
        """It is in the answer."""

    async def agree(self, model: Modelling, forecast: Forecast, budget: CallBudget) -> bool:
        """Ask a person; without a terminal only ``--yes`` agrees."""
        most = budget.at_most(forecast)
        self.data = {"writer": model_document(model), **forecast_document(forecast, most)}
        self.blocks = forecast_blocks(model, forecast, most)
        self.why = "No model was called: confirm with --yes. This is the evidence found."
        if self.yes or not can_ask():
            return self.yes
        output.print_aside(self.blocks, self.run.presentation)
        try:
            ask(f"Call {model.words}?")
        except CancelledError:
            return False
        return True

    def progress(self, done: int, what: str) -> None:
        """A line that goes away."""
        del done
        self.line.show(what)

    def _answer(self, named: str, asked: Asked) -> Answer:
        blocks: list[Block] = []
        if asked.answer is not None:
            blocks.append(Prose(asked.answer, title=f"Answer of {asked.model}"))
            blocks.append(
                Facts([("Citations", ", ".join(asked.citations) or "none: check the answer yourself")])
            )
        elif asked.failed is None:
            blocks.append(Note(self.why))
        blocks += map(Note, asked.remarks)
        for one in asked.cited_first:
            cited = "cited: " if one.citation in asked.citations else ""
            blocks.append(Prose(one.text, title=f"{cited}{passage_title(self.run, one)}"))
        if not asked.evidence:
            blocks.append(Note("No evidence was found."))
        blocks.append(
            Facts([("Scope", named), ("Evidence", f"~{asked.tokens:,} of {self.limits.tokens:,} tokens")])
        )
        blocks += map(Note, asked.gap_texts)
        told = self.run.answer(
            "ask", {**to_json(AskedAnswer.of(named, asked)), **self.data}, [*blocks, *self.blocks]
        )
        if asked.failed is None:
            return told
        return replace(told, exit_code=asked.failed.exit_code, failed=asked.failed)


def agreed_model(
    run: Run, flags: ModelOptions, given: JsonObject, settings: RecallSettings, *, yes: bool
) -> ModelSummarizer | None:
    """The model that answers ``lcm_expand_query``, when one was named and the operator agrees.

    Raises:
        NobodyToAskError: nobody can be asked whether it may, and no *yes* was given.
        CancelledError: the answer is no.
    """
    model = flagged_model(run, flags, by_flags=True)
    if model is None:
        return None
    found = opened(model)

    def shown() -> Sequence[Block]:
        forecast = query_forecast(found, given, settings)
        return forecast_blocks(model, forecast, found.meter.budget.at_most(forecast))

    show_and_ask(shown, f"Call {model.words}?", run.presentation, yes=yes)
    return found
