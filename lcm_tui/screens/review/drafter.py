"""How drafts come into a review: a model is asked, or a person writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lcm_core.errors import LcmError

from lcm_tui import places
from lcm_tui.dialogs.ask_again import AskAgain
from lcm_tui.dialogs.question import Question
from lcm_tui.drafts import CUT, Asked, Instructed, author_like, forecast_sentence, is_offline, key_text
from lcm_tui.frame import CommandScreen
from lcm_tui.outside_editor import edit_outside
from lcm_tui.screens.review.subject import Subject
from lcm_tui.widgets.text import Block
from lcm_tui.writing import Modelling


class Drafter:
    """Asks for drafts of one summary, and takes what was written by hand."""

    def __init__(
        self,
        screen: CommandScreen,
        subject: Subject,
        *,
        shown: Callable[[], str | None],
        changed: Callable[[], None],
    ) -> None:
        """*shown*: the text in sight, None when none can be taken; *changed*: `busy` says something else."""
        self._screen = screen
        self._subject = subject
        self._shown = shown
        self._changed = changed
        self._asked = Asked()  #: what was asked for last
        self.busy = ""  #: what is being done, while it is

    def why_not(self) -> str | None:
        """One draft is made at a time."""
        return f"wait: {self.busy}" if self.busy else None

    def why_not_edited(self) -> str | None:
        """There must be a text to begin with."""
        unread = self._subject.material is None
        return self.why_not() or ("it is still being read" if unread else None)

    def _set_busy(self, what: str) -> None:
        self.busy = what
        self._changed()

    # -- asking a model ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask for the first draft; whoever costs something is asked only after a question."""
        self._set_busy("asking …")
        self._screen.work_on("rewrite", self._ask, self._subject.work.author, "", True)

    async def ask_again(self) -> None:
        """Ask for another draft, as the operator says."""
        subject, screen = self._subject, self._screen
        form = AskAgain("Draft again", subject.work.author.words, self._asked, cut=True)
        asked = await screen.app.push_screen_wait(form)
        if asked is None:
            return
        self._asked = asked
        if asked.whom == CUT:
            await subject.work.batch.cut(subject.summary_id)
            return
        self._set_busy("asking …")
        try:
            author = await asyncio.to_thread(author_like, screen.session.settings, subject.work.author, asked)
        except LcmError as error:
            self._say_failed(error)
            self._set_busy("")
            return
        await self._ask(author, asked.instructions, first=False)

    async def _ask(self, author: Modelling, instructions: str, first: bool) -> None:
        """Put the question, and ask."""
        work = self._subject.work
        try:
            if not await self._agreed(author):
                return
            self._set_busy(f"{author.words.partition(' (')[0]} writes …")
            if first:
                await work.batch.run()
                failed = work.batch.failed
                if failed is not None:
                    raise failed
            else:
                writer = work.writer_of(author)
                asked = Instructed(writer, instructions) if instructions else writer
                work.note_author(author, await work.batch.again(self._subject.summary_id, asked))
        except LcmError as error:
            self._say_failed(error)
        finally:
            self._set_busy("")

    def _say_failed(self, error: LcmError) -> None:
        self._screen.app.notify(error.message, title="No draft", severity="error", timeout=12)

    async def _agreed(self, author: Modelling) -> bool:
        """Whether somebody may be asked who costs something; others may."""
        if is_offline(author):
            return True
        work = self._subject.work
        forecast = await work.forecast(self._subject.summary_id, work.writer_of(author))
        said = [
            Block(author.words),
            Block(key_text(author)),
            Block(forecast_sentence(forecast, work.budget)),
        ]
        said += [Block(note) for note in await asyncio.to_thread(lambda: author.prompt_notes)]
        question = Question("Call this model?", tuple(said), (("a", "ask"),))
        answer = await self._screen.app.push_screen_wait(question)
        return bool(answer)

    # -- writing by hand ---------------------------------------------------------------------------------

    def edit(self) -> None:
        """Edit the text shown, here."""
        self._screen.open(places.Editor(str(self._subject.summary_id), self._first_text(), self._take_edited))

    async def edit_outside(self) -> None:
        """Edit the text shown in the operator's own editor."""
        name = str(self._subject.summary_id)
        try:
            self._take_edited(await edit_outside(self._screen.app, name, self._first_text()))
        except LcmError as error:
            self._screen.app.notify(error.message, title="Not edited", severity="error", timeout=12)

    def _first_text(self) -> str:
        """The text shown; without a draft the present one."""
        shown, draft, material = self._shown(), self._subject.draft, self._subject.material
        if shown is not None:
            return shown
        return draft.text if draft else material.base.content if material else ""

    def _take_edited(self, text: str) -> None:
        if text != self._first_text():
            subject = self._subject
            self._screen.work_on("write", subject.work.batch.write, subject.summary_id, text, exclusive=False)
