"""Compacting a conversation: every pass before any call; then made one by one, or all, and followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.errors import LcmError
from lcm_core.operations.compaction.plans import PassDraft
from lcm_core.operations.compaction.reading import read_source
from lcm_core.operations.compaction.run import CompactionSetting, Mode
from lcm_core.records import Conversation
from lcm_core.summarize.models.writer import SummaryWriter
from lcm_core.summarize.retention import Retention, measure, read_retention_source
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.compacting import KEY_REFUSED, span_text
from lcm_tui.dialogs.backup_offer import backup_settled
from lcm_tui.dialogs.question import Question
from lcm_tui.dialogs.whole import WholeScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.change import Lines
from lcm_tui.screens.compacting_ahead import Foreseeing
from lcm_tui.screens.compacting_lines import COLUMNS, head_lines, held_document, nothing_document
from lcm_tui.screens.compacting_run import Order, Rule
from lcm_tui.screens.preview.screen import DONE_SECONDS
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Layout, Line, lay_out
from lcm_tui.widgets.text import Block, TextView
from lcm_tui.widgets.wrapped import WrappedBlock
from lcm_tui.writing import cost_text

#: Cells from which the text stands beside the passes and not below them.
WIDE: Final = 120
#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.06
#: Modes that, begun again on what their first passes left, would do more than they do.
ONCE: Final = frozenset({Mode.ONE_LEAF, Mode.LEAF})
#: What must wait until no pass is being made.
QUIET: Final = frozenset({"choice-1", "choice-2", "choice-3", "budget", "budget-more", "budget-less"})


class CompactingScreen(Foreseeing):
    """The passes that the engine would make of a conversation; `a` makes the next one, `A` all."""

    HELP = """
What the engine would compact here, pass by pass, before any model is asked: each row is one summary to be
made, from which messages or summaries, with how many stored tokens, and about how long it would be. ~ marks
what is assumed: later passes depend on how long the answers before them turn out. Leaving costs nothing.

Digits turn the choices. Mode: a sweep (leaves until only the fresh tail is raw, then condensed), one leaf,
one leaf and what follows it by itself, sweep after sweep until the context is under a share of the budget, or
a single root. Commit: accept every draft, ask before each one, or stop where no model gave a shorter text
instead of cutting it. = types what to come under, in tokens (40k) or as a share (60%); # how many of the
newest messages are left alone; B, + and - change the budget.

a makes the next pass, A all that are left. Each is written without a lock, then committed in one short
transaction if its sources still stand as they were; else it is planned again. A host may go on writing. When
a draft waits for your word, it is shown with what it keeps, loses and invents of its source; a takes it, A
takes it and all that follow. esc asks what becomes of it: it is dropped, or kept, and then nobody is asked or
paid again when the same pass is made later on, as long as the app runs.

esc while passes are made stops after the one at hand; once more, it gives the call of the model up. What was
made stays; all of it is one batch of the history: U, then u takes it back. enter shows the text whole, / and
n search it.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("apply", "accept-rest", "open", "choice-1", "choice-2", "choice-3", "history"),
            *("under", "tail", "budget", "budget-more", "budget-less"),
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "apply": ("One pass", "Make the next pass, or take the draft that waits."),
            "accept-rest": ("All passes", "Make all passes that are left, drafts that wait among them."),
            "choice-1": ("Mode", "Turn the mode: sweep, one leaf, leaf and condense, until under, one root."),
            "choice-2": ("Under", "Turn what the context is to come under, as a share of the budget."),
            "choice-3": ("Drafts", "Turn what becomes of drafts: accept all, ask before each, no cut text."),
            "open": ("Whole text", "Show the text of the selected pass whole."),
            "budget": ("Budget", "Type the token budget that decides when compaction is due."),
        }
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
        super().__init__(conversation)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.head = Lines(self._head, id="head")
        self._writer: SummaryWriter | None = None
        self._offering = False  #: a backup
        self._began = 0.0  #: monotonic, of the pass at hand
        self._measured: tuple[PassDraft, Retention] | None = None  #: the draft that waits, against its source
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

    def main_widget(self) -> LineView[int]:
        """The passes."""
        return self.table

    def on_mount(self) -> None:
        """Say whose context it is."""
        one = self.conversation
        self.query_one(TitleBar).where = f"Compact {one.conversation_id}  {one.lane}"
        self.say_state()
        self.set_interval(1, self._tick)
        self.table.focus()

    async def on_unmount(self) -> None:
        """Close what is connected."""
        if self._writer is not None:
            await self._writer.aclose()

    def action_reload(self) -> None:
        """Choose who writes, and read the context, again."""
        self._model = self._model if self._writer is not None else None
        self.look_anew()

    # -- drawing -----------------------------------------------------------------------------------------

    def _layout(self, width: int) -> Layout:
        return lay_out(COLUMNS, width)

    def _draw(self, number: int, width: int) -> Sequence[Line]:
        doing = self._doing() if number == len(self.course.done) + 1 else ""
        return (self.passes.row(self._layout(width), number, doing),)

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

    def say_state(self) -> None:
        """Say in the title bar what is done now."""
        course, bar = self.course, self.query_one(TitleBar)
        if course.held is not None:
            bar.note = f"pass {len(course.done) + 1}: a draft waits"
        elif course.running:
            doing = f"writing, {time.monotonic() - self._began:.0f} s" if course.is_asking else "at work"
            last = ", then stops (esc: give it up)" if course.stopping else ""
            bar.note = f"pass {len(course.done) + 1}: {doing}{last}"
        elif course.made:
            bar.note = f"{len(course.made):,} made, {course.batch}"
        else:
            bar.note = "nothing changed yet" if self._ahead.forecast else "reading …"
        self.head.again()
        self.refresh_bars()

    def _tick(self) -> None:
        if self.course.running and self.app.screen is self:
            self.say_state()

    # -- the text of a pass ------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        number, held = self.table.selected, self.course.held
        if number is None:
            keys = {name: self.key_of(name) for name in ("choice-1", "tail", "under")}
            self.text.show(nothing_document(self._ahead, *self.wanted(), keys))
        elif held is not None and number == len(self.course.done) + 1:
            self.work_on("detail", self._load_held, number, held)
        else:
            self.work_on("detail", self._load_text, number)

    async def _load_held(self, number: int, held: PassDraft) -> None:
        """Show the draft that waits; what it keeps of its source is measured in a thread."""
        if self._measured is None or self._measured[0] is not held:
            self.text.show(held_document(number, held, None))
            self._measured = held, await asyncio.to_thread(_measure, held, self.wanted_setting())
        if self.course.held is held and self.table.selected == number:
            self.text.show(held_document(number, held, self._measured[1]), keep_place=True)

    async def _load_text(self, number: int) -> None:
        """Show a pass; its sources are read when the cursor stays on it."""
        refs = self.passes.refs(number)
        if refs not in self._sources:
            await asyncio.sleep(DETAIL_SECONDS)
            try:
                found = await self.session.read(read_source, refs, self.wanted_setting().rendering)
            except LcmError as error:
                self._sources = {refs: error.message}
            else:
                self._sources = {refs: found.text}
        if self.table.selected == number:
            source = self._sources.get(self.passes.refs(number))
            self.text.show(self.passes.document(number, source), keep_place=True)

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Show the text whole."""
        self.app.push_screen(WholeScreen(self.text.document))

    def selected_id(self) -> str | None:
        """The summary that was made; else the first source of the pass."""
        number = self.table.selected
        return None if number is None else self.passes.id_of(number)

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

    def decided_on(self) -> object:
        """The draft that waits, else whether the passes ahead are known."""
        return self.course.held, self._ahead.forecast is None

    def _why_not_go(self) -> str | None:
        if self.course.running or self._offering:
            return "a pass is being made; esc stops after it"
        if self._ahead.refusal or self._ahead.problem:
            return self._ahead.refusal or self._ahead.problem
        if self._ahead.forecast is None or self._ahead.wish != self.wish:
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
            if not self.course.made and not await backup_settled(self.app, self.session):
                return
            if self._writer is None and self._model is not None:
                self._writer = self._model.open()
        except LcmError as error:
            self.course.failure = error.message
            self.say_state()
            return
        finally:
            self._offering = False
        assert self._writer is not None  # why_not has made sure
        self.course.rule = Rule(self.rule.value)
        who = "" if self._model is None else self._model.words
        await self.course.go(order, self._writer, who, whole=whole)
        if self.course.failure.startswith(
            KEY_REFUSED
        ):  # it is looked for again; a limit of cost would start anew
            await self._writer.aclose()
            self._writer = self._model = None
        await self.session.database.refresh()
        self.load()

    def course_changed(self) -> None:
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
            self._ask_what_becomes(course.held)
        elif not course.running:
            await self._leave()
        elif not course.stopping:
            course.stop()
        elif not course.give_up():
            self.app.notify("What is being committed cannot be stopped.", timeout=3)

    def _ask_what_becomes(self, draft: PassDraft) -> None:
        """Ask before a draft that was paid for is left out."""
        course, cost = self.course, cost_text(draft.text.usage.cost_usd)
        said = (
            Block(
                f"Pass {len(course.done) + 1}: {span_text(draft.chunk.refs)}, {draft.chunk.tokens:,} → "
                f"{draft.text.tokens:,} tokens, cost {cost}. Whatever you choose, nothing more is made now."
            ),
        )
        answers = (
            ("k", "keep it: the next time this pass is made, nobody is asked again"),
            ("x", "drop it"),
            ("a", "take it, and stop after it"),
        )

        def answered(answer: str | None) -> None:
            if course.held is not draft or not answer:
                return
            if answer == "a":
                course.stop()
            course.answer(take=answer == "a", keep=answer == "k")

        self.app.push_screen(
            Question("What becomes of this draft?", said, answers, leave="look at it again"), answered
        )

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
        self.open(places.History(self.conversation, only=True))


def _measure(draft: PassDraft, setting: CompactionSetting) -> Retention:
    chunk = draft.chunk
    estimator = setting.rendering.rules.estimator
    source = read_retention_source(chunk.source.text, previous=chunk.previous or "", estimator=estimator)
    return measure(source, draft.text.content)
