"""A question to the memory: its evidence at once, and an answer when a model was named and agreed to."""

from __future__ import annotations

import asyncio

from lcm_core.errors import LcmError
from lcm_core.recall.asking import Asked, Inquiry
from lcm_core.recall.read import Passage
from lcm_core.recall.settings import recall_settings
from lcm_core.records import ConversationId
from lcm_core.summarize.models.writer import ModelSummarizer, call_budget, open_model

from lcm_tui.dialogs.question import Question
from lcm_tui.dialogs.two_texts import TwoTexts
from lcm_tui.drafts import forecast_text, key_text
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.search.reads import place_of_passage
from lcm_tui.views.asked import NOBODY, UNASKED, answer_document, evidence_document
from lcm_tui.widgets.wrapped import Block
from lcm_tui.writing import Modelling, named_model, spent_text


async def ask_memory(screen: CommandScreen, question: str, within: tuple[ConversationId, ...] | None) -> None:
    """Show the evidence for a question; ask a model about it when the operator agrees."""
    session = screen.session
    asking = _Asking(
        screen, Inquiry(session.database, recall_settings(session.settings), question, within=within)
    )
    await asking.run()


class _Asking:
    def __init__(self, screen: CommandScreen, inquiry: Inquiry) -> None:
        self._screen = screen
        self._inquiry = inquiry
        self._shown: Asked | None = None

    async def run(self) -> None:
        model, problem = None, ""
        try:
            model = await asyncio.to_thread(named_model, self._screen.session.settings)
        except LcmError as error:
            problem = error.message
        await self._inquiry.gather(for_model=model is not None)
        evidence = self._inquiry.evidence
        zone = self._screen.session.zone
        note = problem or (NOBODY if model is None else UNASKED)
        pane = TwoTexts(answer_document(evidence, note), evidence_document(evidence, zone), self._open)
        self._shown = evidence
        self._screen.app.push_screen(pane, self._leave)
        if model is None:
            return
        opened = open_model(model.chosen, model.settings, call_budget(model.settings))
        if opened is None:
            return
        try:
            if await self._agreed(model, opened):
                await pane.show(
                    answer_document(evidence, f"{model.words} is being asked; esc cancels."),
                    evidence_document(evidence, zone),
                )
                asked = self._shown = await self._inquiry.ask(opened)
                spent = opened.meter.budget.spent
                told = f"{spent.calls} calls, cost: {spent_text(spent.usage)}"
                await pane.show(answer_document(asked, "", told), evidence_document(asked, zone))
        finally:
            await opened.aclose()

    def _open(self, number: int) -> None:
        """Open a passage in its place; `esc` comes back to the evidence."""
        passages = () if self._shown is None else self._shown.cited_first
        if number <= len(passages):
            self._screen.work_on("passage", self._open_passage, passages[number - 1])

    async def _open_passage(self, passage: Passage) -> None:
        question = self._inquiry.evidence.question
        self._screen.open(await self._screen.session.read(place_of_passage, passage, question))

    def _leave(self, _: None) -> None:
        """End a call that is out: nobody waits for its answer any more."""
        self._screen.workers.cancel_group(self._screen, "ask")

    async def _agreed(self, model: Modelling, opened: ModelSummarizer) -> bool:
        forecast = self._inquiry.forecast(opened)
        most = opened.meter.budget.at_most(forecast)
        said = (
            Block(model.words),
            Block(key_text(model)),
            Block(f"If the first call answers: {forecast_text(forecast, opened.meter.budget)}."),
            Block(
                f"At most {most.calls:,} calls including retries, and {most.input_tokens:,} tokens in. "
                "The question and passages of your database are sent."
            ),
        )
        question = Question("Call this model?", said, (("a", "ask"),), leave="show only the evidence")
        answer = await self._screen.app.push_screen_wait(question)
        return bool(answer)
