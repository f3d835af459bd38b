"""Compacting a conversation: every pass before any call; then made one by one, or all, and followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.errors import LcmError
from lcm_core.operations.compaction.forecast import foresee
from lcm_core.operations.compaction.modes import Mode, operation_of
from lcm_core.operations.compaction.reading import Loaded, load_context, read_source, warnings_of
from lcm_core.operations.compaction.run import Setting
from lcm_core.records import Conversation
from lcm_core.store.database import Reader
from lcm_core.summarize.models.opening import Writer
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical

from lcm_tui.commands import bindings
from lcm_tui.compacting import KEY_REFUSED
from lcm_tui.screens.backup_offer import backup_settled
from lcm_tui.screens.base import CommandScreen, DataScreen
from lcm_tui.screens.compacting_lines import COLUMNS, Ahead, Coming, Passes, head_lines, held_document
from lcm_tui.screens.compacting_run import Course, Order, Rule
from lcm_tui.screens.compacting_wishes import Wishes
from lcm_tui.screens.plan import DONE_SECONDS, LONGEST_WAIT, SHARE
from lcm_tui.screens.plan_view import Lines, WholeScreen
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Layout, Line, lay_out
from lcm_tui.widgets.text import TextView
from lcm_tui.widgets.wrapped import WrappedBlock
from lcm_tui.writing import Modelling, choose_writer

#: Cells from which the text stands beside the passes and not below them.
WIDE: Final = 120
#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.06
#: Modes that, begun again on what their first passes left, would do more than they do.
ONCE: Final = frozenset({Mode.ONE_LEAF, Mode.LEAF})
#: What must wait until no pass is being made.
QUIET: Final = frozenset({"choice-1", "choice-2", "choice-3", "budget", "budget-more", "budget-less"})


class CompactingScreen(Wishes, DataScreen[Ahead]):
    """The passes that the engine would make of a conversation; `a` makes the next one, `A` all."""

    HELP = """
What the engine would compact here, pass by pass, before any model is asked: each row is one summary to be
made, from which messages or summaries, with how many stored tokens, and about how long it would be. ~ marks
what is assumed: later passes depend on how long the answers before them turn out. Leaving costs nothing.

Digits turn the choices. Mode: a sweep (leaves until only the fresh tail is raw, then condensed), one leaf,
one leaf and what follows it by itself, sweep after sweep until the context is under a share of the budget, or
a single root. Commit: accept every draft, ask before each one, or stop where no model gave a shorter text
instead of cutting it. B, + and - change the budget.

a makes the next pass, A all that are left. Each is written without a lock, then committed in one short
transaction if its sources still stand as they were; else it is planned again. A host may go on writing. When
a draft waits for your word, a takes it, A takes it and all that follow, esc leaves it out and stops.

esc while passes are made stops after the one at hand; once more, it gives the call of the model up. What was
made stays; all of it is one batch of the history: U, then u takes it back. enter shows the text whole, / and
n search it.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("apply", "accept-rest", "open", "choice-1", "choice-2", "choice-3", "history"),
            *("budget", "budget-more", "budget-less"),
        )
    )
    DEFAULT_CSS = """
    CompactingScreen {
        & #panes { height: 1fr; layout: vertical; }
        & #pass-pane { height: 1fr; min-height: 4; }
        & #text { height: 1fr; border-top: solid $foreground 30%; padding-left: 1; }
        & #text:focus { border-top: solid $accent; }
        &.-wide #panes { layout: horizontal; }
        &.-wide #pass-pane { width: 62%; height: 1fr; }
        &.-wide #text { width: 1fr; height: 1fr; border-top: none; border-left: solid $foreground 30%; }
        &.-wide #text:focus { border-left: solid $accent; }
    }
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.conversation = conversation
        self.head = Lines(self._head, id="head")
        self._ahead = Ahead(0, None, None)
        self._coming: dict[int, Coming] = {}  #: by number
        self._course: Course | None = None
        self._model: Modelling | None = None
        self._writer: Writer | None = None
        self._offering = False  #: a backup
        self._spent = 0.0  #: seconds that the last look took
        self._began = 0.0  #: monotonic, of the pass at hand
        self._known = 0  #: passes dealt with that the list shows
        self._sources: dict[tuple[int | str, ...], str] = {}  #: of the row under the cursor

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The head, the passes, and the text of the selected one."""
        yield self.head
        with Container(id="panes"):
            with Vertical(id="pass-pane"):
                yield Heading(self._layout, id="heading")
                yield LineView[int](self._draw, empty="Reading the context …", id="list")
            yield TextView(id="text")

    @property
    def table(self) -> LineView[int]:
        """The passes, by number."""
        return self.query_one("#list", LineView)

    def main_widget(self) -> LineView[int]:
        """The passes."""
        return self.table

    @property
    def course(self) -> Course:
        """What is made of the conversation here."""
        if self._course is None:
            self._course = Course(
                self.session.database, self.conversation.conversation_id, self._course_changed
            )
        return self._course

    @property
    def _passes(self) -> Passes:
        return Passes(self.course.done, self._coming)

    def on_mount(self) -> None:
        """Say whose context it is."""
        one = self.conversation
        self.query_one(TitleBar).where = f"Compact conversation {one.conversation_id}  {one.lane}"
        self._say_state()
        self.set_interval(1, self._tick)
        self.table.focus()

    async def on_unmount(self) -> None:
        """Close what is connected."""
        if self._writer is not None:
            await self._writer.aclose()

    # -- looking ahead -----------------------------------------------------------------------------------

    async def fetch(self) -> Ahead:
        """What is to come, from the context as it stands."""
        if self.course.running:
            await asyncio.sleep(min(LONGEST_WAIT, (SHARE - 1) * self._spent))
        begun, wish, setting, (mode, target) = (
            time.monotonic(),
            self.wish,
            self.wanted_setting(),
            self.wanted(),
        )
        problem = ""
        if self._model is None:
            try:
                self._model = await asyncio.to_thread(choose_writer, self.session.settings)
            except LcmError as error:
                problem = error.message
        try:
            loaded, warnings = await self.session.read(self._read, setting)
        except LcmError as error:
            return Ahead(wish, setting, None, (), self._model, error.message, problem)
        seen = await asyncio.to_thread(foresee, loaded, setting, operation_of(mode, target=target))
        self._spent = time.monotonic() - begun
        return Ahead(wish, setting, seen, warnings, self._model, "", problem)

    async def _read(self, reader: Reader, setting: Setting) -> tuple[Loaded, tuple[str, ...]]:
        number = self.conversation.conversation_id
        return await load_context(reader, number, setting.rendering), await warnings_of(reader, number)

    def show(self, data: Ahead) -> None:
        """Show what is to come behind what was done."""
        if data.wish != self.wish:
            return  # another look follows
        self._ahead = data
        done = len(self.course.done)
        under_way = self.course.under_way
        if under_way is None or under_way.mode not in ONCE:
            passes = data.foresight.passes if data.foresight is not None else ()
            self._coming = {done + one.number: Coming(done + one.number, one, done) for one in passes}
        self._arrange()

    def _arrange(self) -> None:
        done = len(self.course.done)
        for number in [number for number in self._coming if number <= done]:
            del self._coming[number]
        follows = self.table.selected in (None, self._known + 1) and self._known < done
        self._known = done
        self.table.empty = self._ahead.refusal or (
            "Reading the context …" if self._ahead.foresight is None else "Nothing to compact by this mode."
        )
        numbers = [*range(1, done + 1), *self._coming]
        self.table.replace(numbers, select=min(done + 1, len(numbers)) if follows and numbers else None)
        self._say_state()

    def look_anew(self) -> None:
        """Read the context again, for what is wanted now."""
        self.wish += 1
        self.course.failure = ""
        self.head.again()
        self.load()

    def action_reload(self) -> None:
        """Choose who writes, and read the context, again."""
        self._model = self._model if self._writer is not None else None
        self.look_anew()

    # -- drawing -----------------------------------------------------------------------------------------

    def _layout(self, width: int) -> Layout:
        return lay_out(COLUMNS, width)

    def _draw(self, number: int, width: int) -> Sequence[Line]:
        doing = self._doing() if number == len(self.course.done) + 1 else ""
        return (self._passes.row(self._layout(width), number, doing),)

    def _doing(self) -> str:
        course = self.course
        if not course.running:
            return ""
        return "▸ draft" if course.held else "▸ writing" if course.is_asking else "▸ at work"

    def head_again(self) -> None:
        """Draw the head."""
        self.head.again()

    def _head(self, width: int) -> list[Line]:
        lines: list[Line] = [self.choices_line()]
        for block in head_lines(self._ahead, self.course):
            wrapped = WrappedBlock(block, max(width - 1, 12))
            lines += [wrapped.line(at) for at in range(len(wrapped))]
        return lines

    def _say_state(self) -> None:
        course, bar = self.course, self.query_one(TitleBar)
        if course.held is not None:
            bar.note = "a draft waits: a takes it, esc leaves it out"
        elif course.running:
            doing = f"writing, {time.monotonic() - self._began:.0f} s" if course.is_asking else "at work"
            last = ", then stops (esc: give the call up)" if course.stopping else ""
            bar.note = f"pass {len(course.done) + 1}: {doing}{last}"
        elif course.made:
            bar.note = f"{len(course.made):,} made, {course.batch}"
        else:
            bar.note = "preview: nothing changed yet" if self._ahead.foresight else "reading …"
        self.head.again()
        self.refresh_bars()

    def _tick(self) -> None:
        if self.course.running and self.app.screen is self:
            self._say_state()

    # -- the text of a pass ------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        number, held = self.table.selected, self.course.held
        if number is None:
            self.text.show(())
        elif held is not None and number == len(self.course.done) + 1:
            self.text.show(held_document(number, held))
        else:
            self.work_on("detail", self._load_text, number)

    async def _load_text(self, number: int) -> None:
        """Show a pass; its sources are read when the cursor stays on it."""
        refs = self._passes.refs(number)
        if refs not in self._sources:
            await asyncio.sleep(DETAIL_SECONDS)
            try:
                found = await self.session.read(read_source, refs, self.wanted_setting().rendering)
            except LcmError as error:
                self._sources = {refs: error.message}
            else:
                self._sources = {refs: found.text}
        if self.table.selected == number:
            source = self._sources.get(self._passes.refs(number))
            self.text.show(self._passes.document(number, source), keep_place=True)

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Show the text whole."""
        self.app.push_screen(WholeScreen(self.text.document))

    def selected_id(self) -> str | None:
        """The summary that was made; else the first source of the pass."""
        number = self.table.selected
        return None if number is None else self._passes.id_of(number)

    # -- choices -----------------------------------------------------------------------------------------

    def why_not(self, command: str) -> str | None:
        """A pass must be due, somebody must be able to write it, and one is made at a time."""
        if command in {"apply", "accept-rest"}:
            return None if self.course.held is not None else self._why_not_go()
        if command in QUIET and self.course.running:
            return "passes are being made; esc stops after the one at hand"
        if command == "open" and self.table.selected is None:
            return "no pass is selected"
        return super().why_not(command)

    def _why_not_go(self) -> str | None:
        if self.course.running or self._offering:
            return "a pass is being made; esc stops after it"
        if self._ahead.refusal or self._ahead.problem:
            return self._ahead.refusal or self._ahead.problem
        if self._ahead.foresight is None or self._ahead.wish != self.wish:
            return "the context is still being read"
        return None if self._coming else "there is nothing to compact by this mode"

    # -- making passes -----------------------------------------------------------------------------------

    def action_apply(self) -> None:
        """Make the next pass, or take the draft that waits."""
        self._go(whole=False)

    def action_accept_rest(self) -> None:
        """Make all passes that are left, or take the draft that waits and all that follow it."""
        self._go(whole=True)

    def _go(self, *, whole: bool) -> None:
        if self.course.held is not None:
            self.course.answer(take=True, rest=whole)
        else:
            self._offering = True
            self.work_on("compact", self._make, whole, exclusive=False)

    async def _make(self, whole: bool) -> None:
        mode, target = self.wanted()
        order = Order(mode, target if mode is Mode.UNTIL_UNDER else None, self.wanted_setting())
        try:
            if not self.course.made and not await backup_settled(self):
                return
            if self._writer is None and self._model is not None:
                self._writer = self._model.open()
        except LcmError as error:
            self.course.failure = error.message
            self._say_state()
            return
        finally:
            self._offering = False
        assert self._writer is not None  # why_not has made sure
        self.course.rule = Rule(self.rule.value)
        await self.course.go(order, self._writer, whole=whole)
        if self.course.failure == KEY_REFUSED:  # it is looked for again; a limit of cost would start anew
            await self._writer.aclose()
            self._writer = self._model = None
        await self.session.database.refresh()
        self.load()

    def _course_changed(self) -> None:
        """Draw what became of the pass at hand, from wherever it is made."""
        if self.is_attached:
            self._began = time.monotonic()
            self._arrange()
            self._show_text()

    async def action_back(self) -> None:
        """Leave out the draft that waits, or stop, or give the call up, or leave."""
        course = self.course
        if self.asking:
            await super().action_back()
        elif course.held is not None:
            course.answer(take=False)
        elif not course.running:
            await self._leave()
        elif not course.stopping:
            course.stop()
        elif not course.give_up():
            self.app.notify("What is being committed cannot be stopped.", timeout=3)

    async def _leave(self) -> None:
        """Let the screen below stand on the last summary that was made, and say how to take all back."""
        made, batch = self.course.made, self.course.batch
        await super().action_back()
        below = self.app.screen
        if not made or below is self:
            return
        for screen in self.app.screen_stack:
            if isinstance(screen, CommandScreen):
                screen.data_changed()
        last = made[-1].draft
        if isinstance(below, CommandScreen) and last is not None:
            below.stand_on(last.summary_id)
        count = f"{len(made):,} {'summary was' if len(made) == 1 else 'summaries were'} made"
        self.app.notify(
            f"{count}. {batch}: U, u, then 1 for all of the batch takes it back.",
            title="Compacted",
            timeout=DONE_SECONDS,
        )

    def action_history(self) -> None:
        """Show what was changed in this conversation."""
        from lcm_tui.screens.history import HistoryScreen

        self.app.push_screen(HistoryScreen(self.conversation, only=True))
