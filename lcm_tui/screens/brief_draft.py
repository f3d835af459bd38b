"""A focus brief on its way: `a` does what is due next, up to the preview that puts it in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar

from lcm_core.base.errors import LcmError
from lcm_core.change.commit import Committed
from lcm_core.change.plan import touched_rows
from lcm_core.store.database import Database
from lcm_core.store.focus import BRIEFS
from textual.app import ComposeResult

from lcm_tui.flows.compaction import PlannedCompaction
from lcm_tui.flows.focus import BriefOnScreen, BriefOutlook, InForce, Step, make_brief, recording_failure
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.listing import Finder, TextFinder
from lcm_tui.kit.spans import Line, WrappedBlock, choices_lines
from lcm_tui.kit.terminal import edit_outside
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.focus import head_blocks, text_document


class BriefDraftScreen(DataScreen[BriefOutlook]):
    """One focus brief that is being made."""

    HELP = """
A new focus brief. Nothing has been changed yet and leaving costs nothing; a text that was paid for is kept,
and shown again for the same question.

a starts the next step: the sweep, the text, the preview.

First the sweep that the engine makes before a brief: a screen shows its passes and their cost; they belong to
the same batch as the brief. 1 skips the sweep; the engine would not. Then the text: a calls the configured
model, for the cost shown; without one it opens the editor here, as e does, for the offline writer of
summaries answers no questions. E opens $EDITOR. r calls the model again. Last the preview: the rows, the
tokens saved, and a again to apply.

The engine records a call that fails as a failed brief; here 2 previews that.

"saves" compares the tokens of the covered summaries with those of the brief. What is invented is named:
paths, ids, numbers and names that are in no text the model was shown.
"""
    DEFAULT_CSS = """
    BriefDraftScreen #text { height: 1fr; border-top: solid $foreground 30%; padding-left: 1; }
    """

    def __init__(self, work: BriefOnScreen) -> None:
        """*work* ends with the screen."""
        super().__init__()
        self.work = work
        self.head = Lines(self._head, id="head")
        self.text = TextView(id="text")
        self._finder = TextFinder(self.text)
        self._outlook: BriefOutlook | None = None
        self._failure = ""
        self._agreed = False  #: one key is one step

    def compose_body(self) -> ComposeResult:
        """What is due, and the text."""
        yield self.head
        yield self.text

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """That of the text."""
        return self._finder

    def where(self) -> str:
        """Whose brief."""
        return f"Focus brief {self.session.called(self.work.conversation)}"

    def on_mount(self) -> None:
        """Follow the work."""
        self.work.changed = self._work_changed
        self._say()

    async def on_unmount(self) -> None:
        """Close what is connected."""
        self.work.changed = lambda: None
        await self.work.close()

    async def fetch(self) -> BriefOutlook:
        """How it stands against the database as it is."""
        return await self.work.outlook()

    def show(self, data: BriefOutlook) -> None:
        """Show it."""
        self._outlook = data
        self._say()

    # -- what is said ------------------------------------------------------------------------------------

    def _head(self, width: int) -> list[Line]:
        lines: list[Line] = []
        chosen = "yes" if self.work.sweeps else "no"
        key = self.key_of("choice-1")
        lines += choices_lines([(key, "sweep first", chosen)], width)
        for block in head_blocks(self.work, self._outlook, self._failure):
            wrapped = WrappedBlock(block, max(width - 1, 12))
            lines += [wrapped.line(at) for at in range(len(wrapped))]
        return lines

    def _say(self) -> None:
        bar = self.title_bar
        states = {
            Step.SWEEP: "the sweep is due first",
            Step.WRITE: "no text yet",
            Step.PREVIEW: "draft: not applied yet",
        }
        bar.note = self.work.busy or ("reading …" if self._outlook is None else states[self.work.step])
        self.head.again()
        keys = {name: self.key_of(name) for name in ("apply", "edit", "edit-outside", "choice-2")}
        self.text.show(text_document(self.work, keys), keep_place=True)
        self.refresh_bars()

    def _work_changed(self) -> None:
        if self.is_attached:
            self._say()

    # -- steps -------------------------------------------------------------------------------------------

    def _next_step_title(self) -> str:
        write = "Write" if self._by_hand else "Call model"
        return {Step.SWEEP: "Sweep", Step.WRITE: write, Step.PREVIEW: "Preview"}[self.work.step]

    def decided_on(self) -> object:
        """What is due, of what was read."""
        return None if self._outlook is None else (self.work.step, self.work.draft)

    def _why_busy(self) -> str | None:
        if self.work.busy:
            return f"wait: {self.work.busy}"
        return "still loading: try again in a moment" if self._outlook is None else None

    def _why_not_go(self) -> str | None:
        if (busy := self._why_busy()) is not None or self._outlook is None:
            return busy
        if self._outlook.refusal:
            return self._outlook.refusal
        return None if self.work.step is not Step.WRITE or self._by_hand else self._why_nobody()

    def _why_nobody(self) -> str | None:
        if self._outlook is not None and self._outlook.problem:
            return self._outlook.problem
        if self.work.author is None:
            return f"no model is configured; {self.key_of('edit')} opens the editor"
        return None

    @property
    def _by_hand(self) -> bool:
        """Whether the operator writes: no model is configured, and the offline writer answers no question."""
        return self.work.author is None and (self._outlook is None or not self._outlook.problem)

    def _why_not_written(self) -> str | None:
        refused = None if self._outlook is None else self._outlook.refusal or None
        return self._why_busy() or refused or self._why_nobody()

    def _why_not_edited(self) -> str | None:
        busy = self._why_busy()
        if busy is None and self.work.step is Step.SWEEP:
            return f"the sweep comes first; {self.key_of('choice-1')} skips it"
        return busy or (None if self._outlook is None else self._outlook.refusal or None)

    def _why_no_choice(self) -> str | None:
        return self._why_busy() or (None if self.work.draft is None else "the text is written already")

    def _turn_sweep(self) -> None:
        self.work.sweeps = not self.work.sweeps
        self._outlook = None
        self._say()
        self.load()

    def _go(self) -> None:
        """Do what is due."""
        if self.work.step is Step.WRITE and self._by_hand:
            self._edit()
        else:
            self._failure, self._agreed = "", True
            self.work_on("write", self._written, partial(make_brief, self, self.work))

    # -- what the flow asks ------------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        """The open file."""
        return self.session.database

    async def agree(self, step: Step) -> bool:
        """The key was pressed for what is due."""
        del step
        agreed, self._agreed = self._agreed, False
        return agreed

    async def sweep(self, planned: PlannedCompaction) -> None:
        """Show its passes; they are made there."""
        self.work.swept = True
        self.open(places.Compaction(self.work.conversation, self.work.batch))

    async def put_in_force(self) -> None:
        """Preview it."""
        self.open(places.Preview(InForce(self.work, then=self._applied)))

    # -- a call ------------------------------------------------------------------------------------------

    def _record(self) -> None:
        """Preview what the engine records of a call that failed."""
        self.open(places.Preview(recording_failure(self.work, self._recorded)))

    def _recorded(self, done: Sequence[Committed]) -> None:
        if done:
            self.work.failed = None
            self._failure = "The failed call is recorded."
            self._say()

    def _why_not_recorded(self) -> str | None:
        return self._why_busy() or ("no call has failed" if self.work.failed is None else None)

    def _write(self) -> None:
        self._failure = ""
        self.work_on("write", self._written, partial(self.work.write, self.session.database))

    async def _written(self, write: Callable[[], Awaitable[None]]) -> None:
        try:
            await write()
        except LcmError as error:
            self._failure = error.message
        self.load()
        self._say()

    # -- by hand -----------------------------------------------------------------------------------------

    def _held(self) -> str:
        return "" if self.work.draft is None else self.work.draft.text.content

    def _edit(self) -> None:
        self.open(places.Editor("a focus brief", self._held(), self._take))

    async def _edit_outside(self) -> None:
        self._take(await edit_outside(self.app, "focus-brief", self._held()) or "")

    def _take(self, text: str) -> None:
        if text != self._held() and text.strip():
            self.work_on("take", self._taken, text, exclusive=False)

    async def _taken(self, text: str) -> None:
        await self.session.read(self.work.take, text)
        self.load()

    # -- leaving -----------------------------------------------------------------------------------------

    def step_back(self) -> bool:
        """Give up the call that is out first."""
        if self.work.busy:
            self.workers.cancel_group(self, "write")
            self.work.busy = ""
            self._say()
            return True
        return super().step_back()

    def _applied(self, done: Sequence[Committed]) -> None:
        if done:
            self.work_on("applied", self._leave, done, exclusive=False)

    async def _leave(self, done: Sequence[Committed]) -> None:
        """It is in force: back to the list, which stands on it."""
        await self.action_back()
        below = self.app.screen
        made = (one for edit in done[-1].edits for one in touched_rows(edit) if one[0] == BRIEFS and one[1])
        for _, _, row in made:
            if isinstance(below, CommandScreen) and row.get("status") == "active":
                below.stand_on(str(row["brief_id"]))

    KEYS: ClassVar[Sequence[Key[BriefDraftScreen]]] = (
        commands.APPLY.does(
            _go,
            _why_not_go,
            title="Next step",
            help="Sweep first, then call the model, then preview the brief.",
            title_now=_next_step_title,
        ),
        commands.EDIT.does(_edit, _why_not_edited, title="Write here", help="Write or edit the text here."),
        commands.EDIT_OUTSIDE.does(_edit_outside, _why_not_edited, help="Write or edit the text in $EDITOR."),
        commands.REWRITE.does(_write, _why_not_written, title="Write again", help="Call the model again."),
        commands.CHOICE_1.does(
            _turn_sweep,
            _why_no_choice,
            title="Sweep",
            help="Sweep the context first, as the engine does, or skip that.",
        ),
        commands.CHOICE_2.does(
            _record,
            _why_not_recorded,
            title="Record",
            help="Preview recording the failed call, as the engine does.",
        ),
        commands.CONTEXT.does(lambda s: s.open(places.Context(s.work.conversation))),
    )
