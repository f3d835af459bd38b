"""A queue of drafts: what is written again, how far each has come, what it costs, and what is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from lcm_core.change.commit import Committed
from lcm_core.errors import LcmError
from lcm_core.operations.drafting.items import SETTLED, BatchItem, BatchProgress, ItemState
from lcm_core.operations.drafting.rules import DEFAULT, EXAMPLES, AcceptanceRule, parse_rule
from lcm_core.operations.repair import CONTAMINATED
from lcm_core.records import SummaryId
from lcm_core.summarize.models.writer import call_budget
from lcm_core.summarize.request import NO_USAGE
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.changes.change import Change
from lcm_tui.changes.rewrite import ABOUT
from lcm_tui.commands import bindings
from lcm_tui.dialogs.backup_offer import backup_settled
from lcm_tui.dialogs.question import Question
from lcm_tui.drafts import Work, forecast_sentence, forecast_text, key_text
from lcm_tui.screens.drafting_choosing import Choosing
from lcm_tui.screens.drafting_rows import columns_for, head_lines, row
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Block

#: How often rate and remaining time are drawn.
SECONDS: Final = 0.5
ASK_RULE: Final = f"accept when: {EXAMPLES}"


class DraftingScreen(Choosing):
    """A batch of drafts."""

    HELP = """
Summaries that are to be written again, sources before their consumers. Nothing is asked and nothing is
changed before P: it says how many calls that takes at most, how many tokens, what it costs and who is asked,
and puts the question; w there lets somebody else write, by another prompt, with instructions. space takes a
summary into the batch (●) or out of it; consumers that were made from broken summaries ("contaminated") stand
at the end and are not in it unless you mark them (1 marks them all).

While it runs every summary says how far it has come. P pauses: no other call begins; P once more breaks off
the calls that are in flight. enter reviews a draft and a previews putting it in. L leaves a summary as it is.
A accepts the rest of this batch by a rule that you state ("nothing invented, no rule lost, retention 80");
no rule accepts a draft that reverses a rule of its source. It ends with the batch, and what it does not
accept says why and waits for you.

What was paid for is kept on the disk: leave at any time, and go on later.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("proceed", "open", "apply", "accept-rest", "mark", "leave-out", "choice-1", "history"),
        )
    )

    def compose_body(self) -> ComposeResult:
        """How far it is, and every item."""
        yield self.head
        yield Heading(columns_for, id="heading")
        yield self.table

    def main_widget(self) -> LineView[SummaryId]:
        """The items."""
        return self.table

    def on_mount(self) -> None:
        """Say what this is."""
        self.query_one(TitleBar).where = self._title
        self.set_interval(SECONDS, self._tick)
        self.table.focus()

    async def on_unmount(self) -> None:
        """The batch ends with the screen, also when the app ends; what was paid for is kept."""
        if self.work is not None:
            await self.work.close()

    # -- what is said ------------------------------------------------------------------------------------

    @property
    def progress(self) -> BatchProgress | None:
        """How far the batch is; None: it has not begun."""
        return None if self.work is None else self.work.batch.progress()

    def _item(self, summary_id: SummaryId) -> BatchItem | None:
        if self.work is not None:
            return self.work.batch.item(summary_id)
        return self.items.get(summary_id)

    def _draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        item = self._item(key)
        return ((),) if item is None else (row(item, width, marked=key in self.marks),)

    def head_lines(self) -> Sequence[Line]:
        """Who is asked, how far it is, what it cost, and what is accepted by itself."""
        return tuple(self._head())

    def _head(self) -> Iterator[Line]:
        if self.author is None:
            return
        batch = None if self.work is None else self.work.batch
        estimate = self.estimating or (
            "" if self.forecast is None else forecast_text(self.forecast, call_budget(self.author.settings))
        )
        yield from head_lines(
            self.author.words,
            key_text(self.author),
            len(self.marks),
            sum(item.reason == CONTAMINATED and item.summary_id not in self.marks for item in self.all_items),
            estimate,
            self.progress,
            spent=NO_USAGE if self.work is None else self.work.budget.spent.usage,
            running=batch is not None and batch.running,
            rule="" if batch is None or batch.options.rule is None else batch.options.rule.words,
            trouble=self._trouble(),
            width=self.size.width,
        )

    def _trouble(self) -> str:
        if self.work is None:
            return ""
        failed = self.work.batch.failed
        return self.work.problem or ("" if failed is None else failed.message)

    def _tick(self) -> None:
        if self._moved:
            moved, self._moved = self._moved, set()
            self.table.redraw(moved)
            self._say()
        elif self.work is not None and self.work.batch.running:
            self.head.refresh()

    def _say(self) -> None:
        if not self.is_mounted:
            return
        item = self._selected()
        note = "nothing asked yet" if self.work is None else ""
        self.query_one(TitleBar).note = item.why if item is not None and item.why else note
        self.head.refresh()
        self.refresh_bars()

    @on(LineView.Highlighted)
    def _highlighted(self) -> None:
        self._say()

    def _selected(self) -> BatchItem | None:
        key = self.table.selected
        return None if key is None else self._item(key)

    def selected_id(self) -> str | None:
        """The selected summary."""
        key = self.table.selected
        return None if key is None else str(key)

    # -- choosing ----------------------------------------------------------------------------------------

    def why_not(self, command: str) -> str | None:
        """What has not begun cannot be reviewed; what has begun cannot be chosen anew."""
        item, begun = self._selected(), self.work is not None
        match command:
            case "mark" | "choice-1" if begun:
                return "the batch has begun: L leaves a summary out"
            case "mark" | "leave-out" if item is None:
                return "nothing is selected"
            case "choice-1" if not any(one.reason == CONTAMINATED for one in self.all_items):
                return "none is contaminated"
            case "proceed":
                return self._why_not_proceed()
            case "open" | "apply" | "leave-out" | "accept-rest" if not begun:
                return "nothing has been asked yet: P begins"
            case "open" | "apply" if item is None or (not item.drafts and item.state is not ItemState.FAILED):
                return "it has no draft yet"
            case "apply" if item is not None and item.state is ItemState.COMMITTED:
                return "it has been committed: U takes it back"
            case "leave-out" if item is not None and item.state in SETTLED | {ItemState.DRAFTING}:
                return f"it is {item.state}"
            case _:
                return super().why_not(command)

    def _why_not_proceed(self) -> str | None:
        if self.work is not None:
            return "all is decided" if self.work.batch.finished else None
        if not self.items:
            return self.table.empty
        if not self.marks:
            return "no summary is marked"
        return None if self.forecast is not None else "it is still being estimated"

    # -- running -----------------------------------------------------------------------------------------

    def action_proceed(self) -> None:
        """Begin after a question; pause; break off what is in flight; go on."""
        work = self.work
        if work is None:
            self.work_on("batch", self._begin)
        elif not work.batch.running:
            self.work_on("batch", self._run, work)
        elif self._pausing:
            self.work_on("cancel", work.batch.cancel)
        else:
            self._pausing = True
            work.batch.stop()
            self.app.notify("No other call begins. P again breaks off those in flight.", timeout=5)

    async def _begin(self) -> None:
        """Ask whether to ask; then make the batch of what is marked."""
        author, forecast = self.author, self.forecast
        if author is None or forecast is None:
            return
        chosen = [item for item in self.items.values() if item.summary_id in self.marks]
        said = (
            Block(f"{len(chosen):,} summaries, by {author.words}; {key_text(author)}."),
            Block(forecast_sentence(forecast, call_budget(author.settings))),
            *(Block(note) for note in await asyncio.to_thread(lambda: author.prompt_notes)),
            Block("Drafts are shown for review; nothing is put into the database by itself."),
        )
        answers = (("a", "begin"), ("w", "let somebody else write"))
        answer = await self.app.push_screen_wait(Question("Have them written?", said, answers))
        if answer == "w":
            await self._choose_author(author)
        elif answer:
            await self._run(self._make_work(chosen, None))

    async def _run(self, work: Work) -> None:
        self._pausing = False
        self._say()
        try:
            await work.batch.run()
        finally:
            if self.is_mounted:
                self.table.redraw()
                self._say()
        trouble = self._trouble()
        if trouble:
            self.app.notify(trouble, title="The batch stopped", severity="error", timeout=12)

    def _go_on(self) -> None:
        """Draft what may be drafted now that something was decided."""
        work = self.work
        waits = work is not None and any(item.state is ItemState.WAITING for item in work.batch.items)
        if work is not None and waits and not work.batch.running and not self._pausing:
            self.work_on("batch", self._run, work)

    # -- deciding ----------------------------------------------------------------------------------------

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Review the drafts of the selected summary."""
        key = self.table.selected
        if key is not None and self.work is not None:
            self.open(places.Review(self.work, key))

    def action_apply(self) -> None:
        """Preview putting the proposed draft in."""

        item, work = self._selected(), self.work
        if item is None or work is None:
            return
        draft = item.draft
        if draft is None or not draft.may_be_taken:
            self.action_open()
            return
        title = f"{self.wanted.kind.capitalize()} {item.summary_id}, draft {draft.number}"

        def then(done: Sequence[Committed]) -> None:
            if done:
                self.work_on("committed", work.committed, item, draft, done, exclusive=False)

        self.open(places.Preview(Change(work.planner(item, draft), title, ABOUT, then=then)))

    def on_screen_resume(self) -> None:
        """Go on with what waited for the decision that was made."""
        if self.work is not None:
            self.table.redraw()
            self._say()
            self._go_on()

    def action_leave_out(self) -> None:
        """Leave a summary as it is."""
        key = self.table.selected
        if key is not None and self.work is not None:
            self.work.batch.skip(key, "Left as it is.")
            self._go_on()

    def action_accept_rest(self) -> None:
        """Ask for the rule."""
        self.open_prompt(ASK_RULE, DEFAULT)

    def answered(self, text: str, *, done: bool) -> None:
        """The rule, in words."""
        if not done or self.work is None:
            return
        try:
            rule = parse_rule(text)
        except LcmError as error:
            self.app.notify(error.message, severity="error", timeout=8)
            return
        self.work_on("rule", self._accept, self.work, rule, exclusive=False)

    async def _accept(self, work: Work, rule: AcceptanceRule) -> None:
        """Say the rule as a sentence, ask, and run by it."""
        open_items = sum(item.state not in SETTLED for item in work.batch.items)
        said = (
            Block(f"The rule of this batch: {rule.words}."),
            Block(
                f"It holds for the {open_items:,} summaries that are not decided, and ends with this batch. "
                "A cut of the source and a draft with a fault are never accepted by it. Each is one "
                "operation of the history, and can be taken back."
            ),
        )
        answer = await self.app.push_screen_wait(
            Question("Accept the rest by this rule?", said, (("a", "accept them"),))
        )
        if not answer or not await backup_settled(self.app, self.session):
            return
        work.batch.options = replace(work.batch.options, rule=rule)
        if not work.batch.running:
            self.work_on("batch", self._run, work)

    def action_history(self) -> None:
        """Show what was changed."""
        self.open(places.History())

    async def action_back(self) -> None:
        """Leave; what is in flight is broken off, what was paid for is kept."""
        if self.asking:
            self.close_prompt()
            return
        work = self.work
        if work is not None and not self._leaving:
            if work.batch.running and not await self._may_leave():
                return
            self._leaving = True
            await work.close()
            if not work.batch.finished and work.worth_keeping:
                self.app.notify("The drafts are kept; R or W goes on with them.", timeout=6)
        if self.app.screen is self:
            self.app.pop_screen()

    async def _may_leave(self) -> bool:
        """A batch that runs is not left by accident."""
        if self._pausing:
            return True
        self.app.notify("It is running: P pauses it; esc once more leaves and breaks off.", timeout=5)
        self._pausing = True
        if self.work is not None:
            self.work.batch.stop()
        return False
