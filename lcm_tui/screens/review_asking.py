"""How drafts come into a review: a model is asked, or a person writes."""

from __future__ import annotations

import asyncio

from lcm_core.errors import LcmError

from lcm_tui import places
from lcm_tui.dialogs.ask_again import AskAgain
from lcm_tui.dialogs.question import Question
from lcm_tui.drafts import CUT, Asked, Instructed, author_like, forecast_sentence, is_offline, key_text
from lcm_tui.screens.review_comparing import Comparing
from lcm_tui.widgets.text import Block
from lcm_tui.writing import Modelling


class Asking(Comparing):
    """A review whose drafts can be asked for, and written by hand; searching is in its diff."""

    needle = ""
    asked = Asked()  #: what was asked for last

    # -- asking a model ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask for the first draft; whoever costs something is asked only after a question."""
        self._busy("asking …")
        self.work_on("draft", self._ask, self.work.author, "", True)

    def _busy(self, what: str) -> None:
        self.busy = what
        if self.is_mounted:
            self.again()

    async def _ask(self, author: Modelling, instructions: str, first: bool) -> None:
        """Put the question, and ask."""
        try:
            if not await self._agreed(author):
                return
            self._busy(f"{author.words.partition(' (')[0]} writes …")
            if first:
                await self.work.batch.run()
                failed = self.work.batch.failed
                if failed is not None:
                    raise failed
            else:
                writer = self.work.writer_of(author)
                asked = Instructed(writer, instructions) if instructions else writer
                self.work.note_author(author, await self.work.batch.again(self.summary_id, asked))
        except LcmError as error:
            self.app.notify(error.message, title="No draft", severity="error", timeout=12)
        finally:
            self._busy("")

    async def _agreed(self, author: Modelling) -> bool:
        """Whether somebody may be asked who costs something; others may."""
        if is_offline(author):
            return True
        forecast = await self.work.forecast(self.summary_id, self.work.writer_of(author))
        said = [
            Block(author.words),
            Block(key_text(author)),
            Block(forecast_sentence(forecast, self.work.budget)),
        ]
        said += [Block(note) for note in await asyncio.to_thread(lambda: author.prompt_notes)]
        question = Question("Ask this model?", tuple(said), (("a", "ask"),))
        answer = await self.app.push_screen_wait(question)
        return bool(answer)

    def action_rewrite(self) -> None:
        """Ask for another draft."""
        self.work_on("ask", self._ask_again, exclusive=False)

    async def _ask_again(self) -> None:
        form = AskAgain("Ask again", self.work.author.words, self.asked, cut=True)
        asked = await self.app.push_screen_wait(form)
        if asked is None:
            return
        self.asked = asked
        if asked.whom == CUT:
            await self.work.batch.cut(self.summary_id)
            return
        self._busy("asking …")
        self.work_on("draft", self._ask_anew, asked)

    async def _ask_anew(self, asked: Asked) -> None:
        try:
            author = await asyncio.to_thread(author_like, self.session.settings, self.work.author, asked)
        except LcmError as error:
            self.app.notify(error.message, title="No draft", severity="error", timeout=12)
            self._busy("")
            return
        await self._ask(author, asked.instructions, first=False)

    def answered(self, text: str, *, done: bool) -> None:
        """What is searched for."""
        self.needle = text
        found = self.view.find(text, first=True)
        if done and text and not found:
            self.app.notify(f"“{text}” does not stand in the lines that are shown.", timeout=3)

    # -- writing by hand ---------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Edit the text shown, here."""
        self.open(places.Editor(str(self.summary_id), self._begun_with(), self._edited))

    def action_edit_outside(self) -> None:
        """Edit the text shown in the operator's own editor."""
        self.work_on("edit", self._edit_outside, exclusive=False)

    async def _edit_outside(self) -> None:
        from lcm_tui.outside_editor import edit_outside

        try:
            self._edited(await edit_outside(self.app, str(self.summary_id), self._begun_with()))
        except LcmError as error:
            self.app.notify(error.message, title="Not edited", severity="error", timeout=12)

    def _begun_with(self) -> str:
        """The text shown; without a draft the present one."""
        shown = self.text
        if shown is not None:
            return shown
        return self.draft.text if self.draft else self.material.base.content if self.material else ""

    def _edited(self, text: str) -> None:
        if text != self._begun_with():
            self.work_on("write", self._write, text, exclusive=False)

    async def _write(self, text: str) -> None:
        await self.work.batch.write(self.summary_id, text)

    # -- searching ---------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search in the lines that are shown."""
        self.open_prompt("search in the lines that are shown", self.needle)

    def action_next(self) -> None:
        """Go to the next match."""
        self.view.find(self.needle)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self.view.find(self.needle, direction=-1)
