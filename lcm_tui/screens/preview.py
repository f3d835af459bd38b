"""The preview of a change: what it would do, checked again and again, until it is applied or left."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.times import format_local
from lcm_core.base.values import Record, replace
from lcm_core.change.commit import WAIT_SECONDS, Committed
from lcm_core.change.plan import Moved
from lcm_core.change.preview import Planned, batch_of, plan_for
from lcm_core.store.database import Database
from textual import on
from textual.app import ComposeResult
from textual.notifications import SeverityLevel
from textual.widget import Widget

from lcm_tui.flows.change import BlockedError, Change, ChangeState, Notice, apply
from lcm_tui.kit import commands
from lcm_tui.kit.bars import keys_back
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.session import rest_after
from lcm_tui.kit.spans import Block, Line, Span, WrappedBlock, choices_lines, text_of
from lcm_tui.screens.change_pane import HELP_VIEW, NEXT_VIEW, OPEN_LINE, ROWS_OR_DIFF, ChangePane
from lcm_tui.screens.frame import DONE_SECONDS
from lcm_tui.screens.questions import BackupFirst, wal_settled
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.change import Shown, head_lines, shown_of
from lcm_tui.tables.preview import done_text

#: The digits that turn choices.
MOST_CHOICES: Final = 3
_CHOICES: Final = tuple(f"choice-{number}" for number in range(1, MOST_CHOICES + 1))
#: Cells in which no line of a head is broken.
WIDE: Final = 1000
#: What is applied sooner needs no words about it, which would only come and go.
SLOW_SECONDS: Final = 0.5


class Outcome(Record, frozen=True):
    """What one look at the database brings: a change to show, or the sentence that refuses it."""

    wish: int  #: which of the operator's wishes it answers
    planned: Planned | None
    shown: Shown | None
    refusal: str = ""
    blocked: BlockedError | None = None  #: the refusal, when another choice makes it possible
    inode: int | None = None  #: of the file that was looked at


class PlanScreen(DataScreen[Outcome]):
    """What a change would do; `a` does it."""

    HELP = f"""
A preview: nothing has been changed yet, nothing is locked, and leaving costs nothing.

a applies exactly what is shown here in one short transaction, recorded in the history, where u undoes it.

If another process is writing, lcm-tui waits a few seconds; esc cancels the wait, and nothing is changed.

{HELP_VIEW}

The preview is checked again whenever the database changes. If the plan no longer fits, it is planned again
and shown with what changed; nothing is applied that was not shown. Digits change the options above the head,
if there are any; before the first change of a day b decides whether the database is backed up first.
"""

    def __init__(self, change: Change) -> None:
        """Preview a change; the screen below is told to select ``Plan.select`` (`CommandScreen.stand_on`)."""
        super().__init__()
        self._change = change
        self._backup = BackupFirst() if change.offers_backup else None
        self.view = ChangePane(self, self.lines_above)
        self._planned: Planned | None = None  #: what `a` applies; None: nothing yet, or no more
        self._inode: int | None = None  #: of the file that it was planned on, or checked against since
        self._wish = 0  #: grows with every choice: a look that began before one is worth nothing
        self._refusal = ""  #: why there is no plan
        self._blocked: BlockedError | None = None  #: the same, when another choice makes it possible
        self._failure = ""  #: why what is shown was not applied
        self._moved: tuple[Moved, ...] = ()  #: why it must be planned anew
        self._anew, self._anew_at = "", 0.0  #: that it was, without being stale, until the next key
        self._select: str | int | None = None
        self._spent = 0.0  #: seconds that the last look took
        self._state = ChangeState()  #: how far it is
        self._begun = False  #: `a` was pressed, and it has not come to an end
        self._asking = False  #: whether to back up first; nothing is applied yet
        self._slow = False  #: and that takes its time
        self._stop = threading.Event()  #: what is being applied is not wanted any more

    def compose_body(self) -> ComposeResult:
        """The change."""
        self.view.ordinals.empty = self.view.edits.empty = "Planning …"
        yield self.view

    def on_mount(self) -> None:
        """Say how far it is."""
        self._say_state()
        self.view.head.again()

    async def on_unmount(self) -> None:
        """Take back what lies beside the database and was not committed."""
        await self._change.left(self.session.database)

    def where(self) -> str:
        """What is about to be done."""
        return self._change.title

    def main_widget(self) -> Widget:
        """The list in front."""
        return self.view.list_in_front()

    def finder(self) -> Finder:
        """That of the list in front."""
        return self.view.finder

    def selected_id(self) -> str | None:
        """The id of the selected item."""
        return self.view.selected_id()

    def on_screen_resume(self) -> None:
        """Leave, when all was applied while another screen was in front."""
        if self._state.finished:
            self.call_later(self._leave)

    def explained(self) -> str:
        """What this change does, in a sentence, and what a preview is; then more of both."""
        about, *more = re.split(r"(?<=\.)\s+", self._change.about.strip(), maxsplit=1)
        preview, rest = self.HELP.strip().split("\n\n", 1)
        return "\n\n".join((about, preview, *more, rest))

    @property
    def committing(self) -> bool:
        """Whether what is shown is being applied, or has been."""
        return self._begun or self._state.finished

    def cancelled(self) -> bool:
        """Whether what is being applied is not wanted any more; asked in the thread of a commit too."""
        return self._stop.is_set()

    # -- planning ----------------------------------------------------------------------------------------

    async def fetch(self) -> Outcome:
        """Check what is shown against the database; plan when nothing is, or it is stale."""
        if self._planned is not None:
            await asyncio.sleep(rest_after(self._spent))
        begun, wish = time.monotonic(), self._wish
        if self._backup is not None:
            await self._backup.look(self.session)
        try:
            planned, inode = await self._planned_now()
        except LcmError as error:
            blocked = error if isinstance(error, BlockedError) else None
            return Outcome(wish, None, None, error.message, blocked)
        before = self.view.shown
        shown = await asyncio.to_thread(lambda: before if before == (new := shown_of(planned)) else new)
        self._spent = time.monotonic() - begun
        return Outcome(wish, planned, shown, inode=inode)

    async def _planned_now(self) -> tuple[Planned, int | None]:
        """What is planned, and the inode of the file that it was planned on."""
        database = self.session.database
        while True:
            before = database.inode
            planned = await self.session.read(plan_for, self._change.planner, self._planned, self._moved)
            if database.inode == before:
                return planned, before

    def show(self, data: Outcome) -> None:
        """Show it; what has not changed stays as it is."""
        if self.committing or data.wish != self._wish:
            return  # another look follows
        if self._planned is not None and data.shown is not None:
            self._say_anew(self.view.shown, data.shown)
        self._moved = ()
        self._planned, self._refusal, self._inode = data.planned, data.refusal, data.inode
        self._blocked = data.blocked
        self.view.show_change(data.shown, empty=self._empty())
        self._say_state()

    def _say_anew(self, before: Shown | None, shown: Shown) -> None:
        """Say what was shown before another process wrote; a stale plan says what moved."""
        if before is None or before is shown or shown.moved:
            return
        old, new = (
            [text_of(line).strip() for line in head_lines(one, self.session.budget, WIDE)]
            for one in (before, shown)
        )
        if was := next((line for line in old if line not in new), ""):
            at = format_local(datetime.now(UTC), self.session.zone)[11:19]
            self._anew, self._anew_at = f"planned again {at}; before: {was}", time.monotonic()

    @on(LineView.Highlighted)
    @on(LineView.Scrolled)
    def _forget_anew(self) -> None:
        """A key was pressed since: it is no news."""
        if self._anew and self.session.key_at > self._anew_at:
            self._anew = ""
            self.view.head.again()

    async def action_run(self, command: str) -> None:
        """Do what a key does."""
        self._forget_anew()
        await super().action_run(command)

    def _empty(self) -> str:
        """What is said in the place of a change that is refused."""
        if self._blocked is None:
            return self._refusal and "There is nothing to apply."
        return f"{self.key_of(self._way_on(self._blocked))} shows what that would change."

    @staticmethod
    def _way_on(blocked: BlockedError) -> str:
        """The command that makes it possible."""
        return f"choice-{blocked.choice + 1}"

    def in_key_bar(self) -> list[str]:
        """Of what is refused, the choices that may be the way on come first; nothing can be applied."""
        shown = super().in_key_bar()
        if not self._refusal:
            return shown
        first = [self._way_on(self._blocked)] if self._blocked is not None else []
        allowing = zip(_CHOICES, self._change.choices, strict=False)
        choices = [name for name, choice in allowing if choice.allows]
        return [*dict.fromkeys((*first, *choices)), *(name for name in shown if name != "apply")]

    def _plan_anew(self, moved: tuple[Moved, ...] = ()) -> None:
        self._planned, self._moved, self._blocked = None, moved, None
        self._wish += 1
        self._say_state()
        self.load()

    def data_changed(self) -> None:
        """Look again, but not at what is just being written."""
        if not self.committing:
            super().data_changed()

    def _look_anew(self) -> None:
        """Plan anew, whether it still fits or not."""
        self._failure = ""
        self._plan_anew()

    # -- what is said ------------------------------------------------------------------------------------

    def lines_above(self, width: int) -> list[Line]:
        """Why it cannot be done or was not, or that it takes its time; then the choices."""
        said = Span(self._refusal or self._failure, "error")
        if self._slow:
            said = Span(
                f"It may have to wait until no other process writes; {self.key_of('back')} stops it.", "warn"
            )
        elif self._anew and not said.text:
            said = Span(self._anew, "warn")
        lines: list[Line] = []
        if said.text:
            block = WrappedBlock(Block(spans=(Span(" "), said), indent=3), max(width - 1, 12))
            lines += [block.line(at) for at in range(len(block))]
        choices = [
            (self.key_of(f"choice-{number}"), choice.title, choice.value)
            for number, choice in enumerate(self._change.choices[:MOST_CHOICES], 1)
        ]
        if not self._refusal and self._backup is not None:
            choices += self._backup.said(self.key_of("backup-first"))
        return [*lines, *choices_lines(choices, width)]

    def _say_state(self) -> None:
        bar = self.title_bar
        if self.committing and not self._asking:
            total = self._state.total
            at = min(len(self._state.done) + 1, total)
            several = f"{total:,}+" if self._state.more else f"{total:,}"
            which = "" if total < 2 else f" {at:,} of {several}"
            end = "stopping" if self._stop.is_set() else f"{self.key_of('back')} stops"
            bar.note = f"applying{which}, {end}"
        elif self._refusal:
            bar.note = "blocked by later changes" if self._blocked else "refused"
        else:
            done = len(self._state.done)
            planned = f"{done:,} applied, the rest not yet" if done else "preview: not applied yet"
            bar.note = planned if self._planned else "planning …"
        self.refresh_bars()

    def _why_applying(self) -> str | None:
        return "it is being applied now" if self.committing else None

    def _offered(self, number: int) -> str:
        """What a choice does where it may be the way on from a refusal."""
        blocked, choices = self._blocked, self._change.choices
        if blocked is not None and blocked.choice + 1 == number:
            return blocked.offer
        if not self._refusal or number > len(choices):
            return ""
        said = f"{choices[number - 1].title}: {choices[number - 1].following}"
        return said[0].upper() + said[1:]

    def _why_no_choice(self, number: int) -> str | None:
        there = number <= len(self._change.choices)
        return self._why_applying() or (None if there else "this preview has no such option")

    def decided_on(self) -> object:
        """The plan that is shown; while it is still being planned there is none."""
        return (self.view.shown, len(self._state.done)) if self._planned else None

    def _why_not_apply(self) -> str | None:
        if self.committing:
            return self._why_applying()
        if self._refusal:
            return "Refused: see the reason above"
        if self._planned is None:
            return "it is still being planned"
        return None if any(self._planned.plans) else "there is nothing to change"

    # -- choices -----------------------------------------------------------------------------------------

    def _turn(self, place: int) -> None:
        self._change.choices[place].turn()
        self.say_where()
        self._failure = ""
        self.view.head.again()
        self._plan_anew()

    def _why_no_backup(self) -> str | None:
        return self._why_applying() or (
            "a copy is made anyway" if self._backup is None else self._backup.why_not()
        )

    def _turn_backup(self) -> None:
        if self._backup is not None:
            self._backup.turn()
            self.view.head.again()

    # -- applying ----------------------------------------------------------------------------------------

    def step_back(self) -> bool:
        """While it is applied, stop before the next commit. What was applied of a batch stays."""
        if self.committing:
            self._stop.set()
            self._say_state()
        elif self._state.done and self._change.then is not None:
            self._change.then(self._state.committed)
        return self.committing

    async def _begin(self) -> None:
        """Apply exactly what is shown; what cannot be undone needs something typed."""
        wanted, shown = self._change.confirmation(), self.view.shown
        if wanted is not None and not await self.confirmed(wanted):
            return
        if self.view.shown is not shown:
            said = "It was planned again while you typed: check it, and press the key again."
            self.app.notify(said, severity="warning")
            return
        if self._change.agreed is not None:
            self.app.pop_screen()
            self._change.agreed()
        elif self._planned is not None and self._why_not_apply() is None:
            self._failure = ""
            self._state.plan(self._planned.plans, more=self._planned.more)
            self._state.inode = self._inode
            if not self._state.done:
                self._select = self._state.ahead[0].select
            self._begun = True
            self._stop.clear()
            self._say_state()
            await self._apply()

    async def _apply(self) -> None:
        try:
            await apply(self, self._change, self._state)
        finally:
            self._begun = False
            error = self._state.error
            if error is not None and not self._state.moved:
                self._failure = error.message
            if not self._state.finished and self.is_attached:  # the app may be ending
                self._say_state()
                self.view.head.again()
        if self._state.finished:
            self._leave()
        elif self._state.moved:
            self._plan_anew(self._state.moved)
        else:
            self.load()

    # -- what the flow asks ------------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        """The open file."""
        return self.session.database

    @property
    def wait(self) -> float:
        """How long a lock of another process is waited for."""
        return WAIT_SECONDS

    async def agree(self, state: ChangeState) -> bool:
        """`a` was pressed; what is planned again is looked at first."""
        if state.error is not None:
            return False
        self._asking = True
        self._say_state()
        try:
            if self._backup is None:
                return await wal_settled(self.app, self.session)
            return await self._backup.settled(self.app, self.session)
        finally:
            self._asking = False
            if self.is_attached:  # the app may be ending
                self._say_state()

    async def plan_rest(self, state: ChangeState) -> None:
        """Plan what follows."""
        batch = await self.session.read(batch_of, self._change.planner)
        state.plan(batch.plans, more=batch.more)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Say that it takes its time, when it does."""
        del what

        def say_slow() -> None:
            if self._begun:
                self._slow = True
                self.view.head.again()

        timer = self.set_timer(SLOW_SECONDS, say_slow)
        try:
            yield
        finally:
            timer.stop()
            self._slow = False

    def changed(self) -> None:
        """A plan was committed: those that are done are not shown again when a later one fails."""
        if self._state.ahead and self._planned is not None:
            self._planned = replace(self._planned, plans=self._state.ahead, more=self._state.more)
        self._say_state()

    def tell(self, notices: Sequence[Notice]) -> None:
        """Tell what came of it besides."""
        for one in notices:
            severity: SeverityLevel = "warning" if one.warns else "information"
            self.app.notify(one.text, title=one.title, severity=severity, timeout=DONE_SECONDS)

    # -- leaving -----------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Close the screen, and let the one below stand on what the change brought."""
        if self.app.screen is not self:
            return
        done = self._state.committed
        self.hand_down(self._select)
        self.app.pop_screen()
        self._tell_done(done)
        if self._change.then is not None:
            self._change.then(done)

    def _tell_done(self, done: Sequence[Committed]) -> None:
        """Say what was done and how it is taken back; and what did not follow."""
        operations = [one.operation for one in done if one.operation is not None]
        if not operations:
            self.app.notify("Done.", timeout=DONE_SECONDS)
        else:
            back = "redo" if operations[-1].kind == "undo" else "undo"
            keys = keys_back(back, (one.conversation_id for one in operations))
            which = f"it: {keys}" if len(operations) == 1 else f"them: {keys}"
            what = done_text([one.title for one in operations], "Applied")
            self.app.notify(f"{what}. To {back} {which}.", timeout=DONE_SECONDS)
        for problem in dict.fromkeys(one.search for one in done if one.search):
            self.app.notify(problem, title="Search index", severity="warning", timeout=DONE_SECONDS)

    KEYS: ClassVar[Sequence[Key[PlanScreen]]] = (
        commands.APPLY.does(_begin, _why_not_apply),
        OPEN_LINE,
        commands.CHOICE_1.does(
            lambda s: s._turn(0), lambda s: s._why_no_choice(1), title_now=lambda s: s._offered(1)
        ),
        commands.CHOICE_2.does(
            lambda s: s._turn(1), lambda s: s._why_no_choice(2), title_now=lambda s: s._offered(2)
        ),
        commands.CHOICE_3.does(
            lambda s: s._turn(2), lambda s: s._why_no_choice(3), title_now=lambda s: s._offered(3)
        ),
        commands.BACKUP_FIRST.does(_turn_backup, _why_no_backup),
        ROWS_OR_DIFF,
    )
    COMMON: ClassVar[Sequence[Key[PlanScreen]]] = (
        NEXT_VIEW,
        commands.RELOAD.does(_look_anew, _why_applying, title="Preview again"),
    )

    @property  # below the keys, which are of the module of that name
    def commands(self) -> list[str]:
        """Without the options that this change does not have."""
        gone = _CHOICES[len(self._change.choices) :]
        return [name for name in super().commands if name not in gone]
