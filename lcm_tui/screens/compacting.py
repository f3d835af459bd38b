"""The passes that the engine would make of a conversation, made one by one, or all, and followed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.records import Conversation
from lcm_core.base.text import parse_budget, step
from lcm_core.base.values import Record, replace
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.compact import CompactionSetting, ForecastPass
from lcm_core.operations.compact_pass import PassDraft, read_source
from lcm_core.operations.selection import Mode
from lcm_core.store.database import Database
from lcm_core.writers.retention import Retention, measure, read_retention_source
from lcm_core.writers.source import Rendering
from textual import on
from textual.app import ComposeResult

from lcm_tui.flows.change import Change, Choice
from lcm_tui.flows.compaction import (
    CompactionRun,
    CompactionWish,
    PlannedCompaction,
    Rule,
    plan_compaction,
    span_text,
)
from lcm_tui.flows.drafts import Modelling, choose_writer, cost_text
from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import keys_back
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import Question, WholeScreen
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, ListPane, TextFinder
from lcm_tui.kit.panes import TwoPanes
from lcm_tui.kit.pick import Pick
from lcm_tui.kit.session import rest_after
from lcm_tui.kit.spans import Block, Column, Line, Span, WrappedBlock, choices_lines
from lcm_tui.kit.text import TextView
from lcm_tui.screens import actions, picks
from lcm_tui.screens.frame import DONE_SECONDS
from lcm_tui.screens.questions import BackupFirst
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.blocks import budget_problem
from lcm_tui.tables.compaction import (
    COLUMNS,
    Outlook,
    Passes,
    behind,
    head_lines,
    held_document,
    nothing_document,
    outcome_words,
)

# -- choices ---------------------------------------------------------------------------------------------
# What the operator chooses about a compaction: mode, target, what becomes of drafts, numbers.

#: A sweep that takes finished tool calls of the current turn besides (docs/spec/compaction.md).
CURRENT_TURN: Final = "sweep, current turn too"
MODES: Final = {
    "sweep": Mode.SWEEP,
    CURRENT_TURN: Mode.SWEEP,
    "one leaf": Mode.ONE_LEAF,
    "leaf, then condense": Mode.LEAF,
    "until under": Mode.UNTIL_UNDER,
    "single root": Mode.SINGLE_ROOT,
}
#: What each makes, where its name leaves that open.
MEANT: Final = {
    "sweep": "all messages outside the fresh tail, then summaries",
    "one leaf": "the oldest messages, once",
    "until under": "sweeps down to the target",
    "single root": "everything into one summary",
}
ABOUT_ACCEPTING: Final = "The draft that waits becomes a summary in the place of its sources."
_SHARE: Final = re.compile(r"([1-9][0-9]?|100) ?%")
_COUNT: Final = re.compile(r"[0-9]{1,6}")


class Target(Record, frozen=True):
    """What the context is to come under: some tokens, or a share of the budget."""

    percent: int = 100
    tokens: int | None = None  #: in place of the share

    def of(self, budget: int) -> int:
        """In tokens."""
        return budget * self.percent // 100 if self.tokens is None else self.tokens

    @property
    def words(self) -> str:
        """For people."""
        if self.tokens is not None:
            return f"{self.tokens:,}"
        return "the budget" if self.percent == 100 else f"{self.percent} %"


TARGETS: Final = tuple(map(Target, (100, 75, 50, 25, 10)))


def target_of(text: str) -> Target | None:
    """What was typed: ``60%`` of the budget, or tokens such as ``40000`` and ``40k``; None: neither."""
    share = _SHARE.fullmatch(text.strip())
    if share is not None:
        return Target(int(share[1]))
    tokens = parse_budget(text)
    return None if tokens is None else Target(tokens=tokens)


def _mode_problem(named: Sequence[str], text: str) -> str | None:
    """Why a text is no mode."""
    return None if not text.strip() or text.strip() in named else f"“{text}” is not a mode."


def _target_problem(text: str) -> str | None:
    """Why a text is no target."""
    if not text.strip() or target_of(text) is not None:
        return None
    return f"“{text}” is neither a number of tokens (40k) nor a share of the budget (60%)."


def _count_problem(text: str) -> str | None:
    """Why a text is no number of messages."""
    if not text.strip() or _COUNT.fullmatch(text.strip()) is not None:
        return None
    return f"“{text}” is not a number of messages: write 0, 16 or 64, or nothing (as configured)."


# -- the list of passes ----------------------------------------------------------------------------------


class PassList(ListPane[int]):
    """The passes by their numbers: those that were dealt with, then those to come."""

    READING: ClassVar[str] = "Reading the context …"

    def __init__(self, doing: Callable[[], str]) -> None:
        """*doing*: what is being done with the pass at hand."""
        super().__init__(id="pass-pane")
        self._doing = doing
        self._known = 0  #: passes dealt with that are listed
        self._nothing = self.READING
        self._following: int | None = None
        self.passes = Passes((), {})

    def show(self, passes: Passes, *, nothing: str) -> None:
        """List the passes; a cursor on the pass at hand goes on with it. *nothing*: said without any."""
        done = len(passes.done)
        follows = self.table.selected in (None, self._known + 1) and self._known < done
        self.passes, self._known, self._nothing = passes, done, nothing
        count = len(self.matching(()))
        self._following = min(done + 1, count) if follows and count else None
        self.relist()

    def matching(self, words: Sequence[str]) -> Sequence[int]:
        """All of them: passes are not filtered."""
        del words
        return self.passes.numbers()

    def keep_on(self, keys: Sequence[int]) -> int | None:
        """The pass that follows the one that was made."""
        del keys
        return self._following

    def why_empty(self) -> str:
        """Nothing was read yet, or there is nothing to compact."""
        return self._nothing

    def columns(self) -> Sequence[Column]:
        """What is said of a pass."""
        return COLUMNS

    def cells(self, key: int) -> Mapping[str, Span]:
        """A pass that was dealt with, or is to come."""
        return self.passes.cells(key, self._doing() if key == len(self.passes.done) + 1 else "")


# -- the screen ------------------------------------------------------------------------------------------

#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.06
#: Modes that, begun again on what their first passes left, would do more than they do.
ONCE: Final = frozenset({Mode.ONE_LEAF, Mode.LEAF})


class CompactingScreen(DataScreen[Outlook]):
    """The passes that the engine would make of a conversation; `a` makes one in two steps, `A` all."""

    HELP = """
What the engine would compact here, pass by pass, before any model is called.

Each row is one new summary: its sources, their stored tokens, and its expected length.

~ marks estimates: later passes depend on the length of earlier drafts. Leaving costs nothing.

Digits change the options. Mode opens a list that says what each would do now: a sweep (leaves until only the
fresh tail is raw, then condensed), one that also takes finished tool calls of the current turn, as engines
from 1.1 on do after an overflow, one leaf, one leaf and the condensing that follows it, sweeps until the
context is below the target, or a single root. Target: a size in tokens (40k) or a share of the budget (60%),
which chooses sweeps until below it. Accept: every draft, ask for each one, or stop when no model gave a
shorter text instead of truncating it. # sets how many of the newest messages to protect; B, + and - change
the budget. Where nothing is to be compacted, enter protects fewer until something is.

a drafts the next pass and shows it, with what it keeps, loses and invents and which items of the context it
would replace; m previews its rows; a again accepts it. A runs all that remain as option 3 says. Each draft is
written without a lock, then committed in one short transaction if its sources have not changed; otherwise the
pass is planned again. The host may keep writing. While a draft waits, A accepts it and all that follow; esc
asks whether to discard or keep it. A kept draft is reused, not paid for again, until the app exits.

esc during a run stops after the current pass; esc again cancels the model call. Finished passes stay; they
are one batch in the history: U, then u undoes it. enter opens the whole text, / and n find in it.
"""

    def __init__(self, conversation: Conversation, batch: str = "") -> None:
        """*batch*: that the passes become a part of; empty: one of their own."""
        super().__init__()
        self.conversation = conversation
        self._batch = batch
        self.mode = Choice("mode", tuple(MODES))
        self.target = TARGETS[0]
        self.rule = Choice("accept", tuple(rule.value for rule in Rule))
        self.backup = BackupFirst()
        self.what_if: int | None = None  #: the budget that was set here, in tokens; None: as configured
        self.tail: int | None = None  #: newest messages that are left alone; None: as is configured
        self.head = Lines(self._head, id="head")
        self.list = PassList(self._doing)
        self.text = TextView(id="text")
        self._finder = TextFinder(self.text)
        self._run: CompactionRun | None = None
        self._outlook = Outlook()
        self._coming: dict[int, ForecastPass] = {}  #: by number
        self._model: Modelling | None = None
        self._spent = 0.0  #: seconds that the last look took
        self._offering = False  #: a backup
        self._began = 0.0  #: monotonic, of the pass at hand
        self._measured: tuple[PassDraft, Retention] | None = None  #: the draft that waits, against its source
        self._sources: dict[tuple[int | str, ...], str] = {}  #: of the row under the cursor

    @property
    def compaction(self) -> CompactionRun:
        """What is made of the conversation here."""
        if self._run is None:
            self._run = CompactionRun(self, self.session.paid, self._batch)
        return self._run

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The head, the passes, and the text of the selected one."""
        yield self.head
        yield TwoPanes(self.list, self.text, shares=(0.62, 0.5), beside=120)

    def main_widget(self) -> LineView[int]:
        """The passes."""
        return self.list.table

    def finder(self) -> Finder:
        """That of the text."""
        return self._finder

    def where(self) -> str:
        """Whose context it is."""
        return f"Compact {self.session.called(self.conversation)}"

    def selected_id(self) -> str | None:
        """The summary that was made; else the first source of the pass."""
        number = self.list.table.selected
        return None if number is None else self.list.passes.id_of(number)

    def on_mount(self) -> None:
        """Say how far it is, again every second while passes are made."""
        self._say_state()
        self.set_interval(1, self._tick)

    async def on_unmount(self) -> None:
        """Close what is connected."""
        if self._run is not None:
            await self._run.close()

    # -- what is chosen ----------------------------------------------------------------------------------

    @property
    def budget(self) -> int:
        """In tokens."""
        return self.session.budget if self.what_if is None else self.what_if

    def wanted(self) -> tuple[Mode, int]:
        """The mode, and the tokens to come under."""
        return MODES[self.mode.value], self.target.of(self.budget)

    def wish(self, mode: str = "") -> CompactionWish:
        """What is chosen, together; with another *mode*, by its name."""
        name = mode or self.mode.value
        under = MODES[name] is Mode.UNTIL_UNDER
        target = self.wanted()[1] if under else None
        return CompactionWish(MODES[name], self.budget, target, self.tail, current_turn=name == CURRENT_TURN)

    def setting(self) -> CompactionSetting:
        """How the database is compacted, without what its engine has noted."""
        session = self.session
        return self.wish().setting(session.database.schema, session.settings, self.conversation.session_key)

    def _choices_lines(self, width: int) -> list[Line]:
        """The choices, each with its key."""
        target = self.target.words if MODES[self.mode.value] is Mode.UNTIL_UNDER else "none"
        said = [
            (self.key_of("choice-1"), self.mode.title, self.mode.value),
            (self.key_of("choice-2"), "target", target),
            (self.key_of("choice-3"), self.rule.title, self.rule.value),
        ]
        if self.what_if is not None:
            said.append((self.key_of("budget"), "budget", f"{self.budget:,}"))
        if self.tail is not None:
            said.append((self.key_of("tail"), "tail", f"{self.tail:,}"))
        said += self.backup.said(self.key_of("backup-first"))
        return choices_lines(said, width)

    # -- turning them ------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Read the context again, for what is wanted now."""
        self.compaction.failed = None
        self._redraw_head()
        self.load()

    def _turn(self, choice: Choice) -> None:
        choice.turn()
        self._redraw_head()

    # -- picking them ------------------------------------------------------------------------------------

    async def _plan(self, wish: CompactionWish) -> PlannedCompaction:
        session = self.session
        return await plan_compaction(session.database, session.settings, self.conversation, wish, self._model)

    async def _ask_mode(self) -> None:
        """Ask for the mode; the list says what each would do now, what saves most first."""
        named = [one for one in MODES if one != CURRENT_TURN or self._takes_current_turn]

        async def picks() -> Sequence[Pick]:
            found = [(one, (await self._plan(self.wish(one))).forecast) for one in named]
            found.sort(key=lambda one: one[1].tokens_after - one[1].tokens_before)
            width = max(map(len, named))
            return [
                Pick(one, one.ljust(width), f"{outcome_words(seen)}  {MEANT.get(one, '')}")
                for one, seen in found
            ]

        text = await self.ask("Mode", check=partial(_mode_problem, named), picks=picks)
        if text is not None and text.strip():
            self.mode.value = text.strip()
            self._renew()

    @property
    def _takes_current_turn(self) -> bool:
        return engine_rules(self.session.database.schema).compaction.compacts_current_turn

    async def _ask_target(self) -> None:
        """Ask what the context is to come under; the mode becomes the one that it belongs to."""
        label = "Target size: tokens (40k) or a share of the budget (60%)"
        picks = [Pick(f"{one.percent}%", one.words, f"{one.of(self.budget):,} tokens") for one in TARGETS]
        text = await self.ask(label, check=_target_problem, picks=picks)
        target = target_of(text) if text is not None else None
        if target is None:
            return
        self.target = target
        self.mode.value = next(words for words, mode in MODES.items() if mode is Mode.UNTIL_UNDER)
        self._renew()

    async def _ask_tail(self) -> None:
        """Ask how many messages are left alone."""
        count = self.setting().bounds().fresh_tail_count
        text = await self.ask(
            f"Newest messages to protect, e.g. 16 (now {count:,}; empty: as configured)",
            check=_count_problem,
        )
        if text is None:
            return
        self._protect(int(text) if text.strip() else None)

    def _protect(self, tail: int | None) -> None:
        if tail != self.tail:
            self.tail = tail
            self._renew()

    async def _protect_fewer(self) -> None:
        """Protect half of the newest messages, or a quarter …, until compacting saves something."""
        count, found = self.setting().bounds().fresh_tail_count, None
        while count:
            count //= 2
            seen = (await self._plan(replace(self.wish(), tail=count))).forecast
            if seen.passes:
                found = found if seen.saves_little and found is not None else count
                if not seen.saves_little:
                    break
        if found is None:
            self.app.notify("Nothing to compact, whatever is protected.", timeout=4)
        else:
            self._protect(found)

    async def _ask_budget(self) -> None:
        """Ask for the budget."""
        known = partial(picks.budgets, self.session, self.conversation, asked=self.budget)
        text = await self.ask("Budget in tokens, e.g. 64k", check=budget_problem, picks=known)
        if text is not None:
            self._set_budget(parse_budget(text) if text.strip() else None)

    def _step_budget(self, direction: int) -> None:
        self._set_budget(step(self.budget, direction))

    def _set_budget(self, budget: int | None) -> None:
        before, self.what_if = self.budget, budget
        if self.budget != before:
            self._renew()

    # -- what is to come ---------------------------------------------------------------------------------

    async def fetch(self) -> Outlook:
        """What is to come, from the context as it is."""
        if self.compaction.running:
            await asyncio.sleep(rest_after(self._spent))
        begun, wish = time.monotonic(), self.wish()
        await self.backup.look(self.session)
        problem = ""
        if self._model is None:
            try:
                self._model = await asyncio.to_thread(choose_writer, self.session.settings)
            except LcmError as error:
                problem = error.message
        try:
            planned = await self._plan(wish)
        except LcmError as error:
            return Outlook(wish, None, error.message, problem)
        self._spent = time.monotonic() - begun
        return Outlook(wish, planned, "", problem)

    def show(self, data: Outlook) -> None:
        """Show what is to come behind what was done."""
        if data.wish != self.wish():
            return  # another look follows
        self._outlook = data
        done, under_way = len(self.compaction.done), self.compaction.under_way
        if under_way is None or under_way.wish.mode not in ONCE:
            passes = data.planned.forecast.passes if data.planned is not None else ()
            self._coming = {done + one.number: behind(done, one) for one in passes}
        self._show_passes()

    def _show_passes(self) -> None:
        done = self.compaction.done
        self._coming = {number: one for number, one in self._coming.items() if number > len(done)}
        nothing = self._outlook.refusal or (
            "Reading the context …" if self._outlook.planned is None else "No pass: the text says why."
        )
        self.list.show(Passes(done, self._coming, self.compaction.held), nothing=nothing)
        self._say_state()

    def _look_anew(self) -> None:
        """Choose who writes, and read the context, again."""
        self._model = self._model if self.compaction.writer is not None else None
        self._renew()

    # -- what is said ------------------------------------------------------------------------------------

    def _doing(self) -> str:
        run = self.compaction
        if not run.running:
            return ""
        return "▸ draft" if run.held else "▸ writing" if run.is_asking else "▸ running"

    def _redraw_head(self) -> None:
        self.head.again()

    def _head(self, width: int) -> list[Line]:
        lines = self._choices_lines(width)
        mode = ": ".join(filter(None, (self.mode.value, MEANT.get(self.mode.value))))
        for block in head_lines(self._outlook, self.compaction, mode):
            wrapped = WrappedBlock(block, max(width - 1, 12))
            lines += [wrapped.line(at) for at in range(len(wrapped))]
        return lines

    def _say_state(self) -> None:
        """Say in the title bar what is done now."""
        run, bar = self.compaction, self.title_bar
        if run.held is not None:
            bar.note = f"pass {len(run.done) + 1}: waiting draft"
        elif run.running:
            doing = f"writing, {time.monotonic() - self._began:.0f} s" if run.is_asking else "at work"
            last = ", then stops (esc: cancel it)" if run.stopping else ""
            bar.note = f"pass {len(run.done) + 1}: {doing}{last}"
        elif run.made:
            bar.note = f"{len(run.made):,} made"
        else:
            bar.note = "not applied yet" if self._outlook.planned else "reading …"
        self._redraw_head()
        self.refresh_bars()

    def _tick(self) -> None:
        if self.compaction.running and self.app.screen is self:
            self._say_state()

    # -- the text of a pass ------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        number, held = self.list.table.selected, self.compaction.held
        if number is None:
            keys = {name: self.key_of(name) for name in ("open", "choice-1", "choice-2", "tail")}
            self.text.show(nothing_document(self._outlook, keys))
        elif held is not None and number == len(self.compaction.done) + 1:
            self.work_on("detail", self._load_held, number, held)
        else:
            self.work_on("detail", self._load_text, number)

    async def _load_held(self, number: int, held: PassDraft) -> None:
        """Show the draft that waits; what it keeps of its source is measured in a thread."""
        if self._measured is None or self._measured[0] is not held:
            self.text.show(held_document(number, held, None))
            self._measured = held, await asyncio.to_thread(_measure, held, self.setting().rendering)
        if self.compaction.held is held and self.list.table.selected == number:
            self.text.show(held_document(number, held, self._measured[1]), keep_place=True)

    async def _load_text(self, number: int) -> None:
        """Show a pass; its sources are read when the cursor stays on it."""
        refs = self.list.passes.refs(number)
        if refs not in self._sources:
            await asyncio.sleep(DETAIL_SECONDS)
            try:
                found = await self.session.read(read_source, refs, self.setting().rendering)
            except LcmError as error:
                self._sources = {refs: error.message}
            else:
                self._sources = {refs: found.text}
        if self.list.table.selected == number:
            passes = self.list.passes
            source = self._sources.get(passes.refs(number))
            self.text.show(passes.document(number, source), keep_place=True)

    def _why_not_open(self) -> str | None:
        if self.list.table.selected is None and self._outlook.planned is None:
            return "still loading: try again in a moment"
        return None

    async def _open(self) -> None:
        """Show the text whole; without a pass, look for one."""
        if self.list.table.selected is None:
            await self._protect_fewer()
        else:
            self.app.push_screen(WholeScreen(self.text.document))

    # -- making passes -----------------------------------------------------------------------------------

    def decided_on(self) -> object:
        """The draft that waits, else whether the passes ahead are known."""
        return self.compaction.held, self._outlook.planned is None

    def _why_running(self) -> str | None:
        return "passes are running; esc stops after the current one" if self.compaction.running else None

    def _why_not_go(self) -> str | None:
        """A pass must be due, somebody must be able to write it, and one is made at a time."""
        if self.compaction.held is not None:
            return None
        if self.compaction.running or self._offering:
            return "a pass is running; esc stops after it"
        if self._outlook.refusal or self._outlook.problem:
            return self._outlook.refusal or self._outlook.problem
        if self._outlook.planned is None or self._outlook.wish != self.wish():
            return "still loading: try again in a moment"
        return None if self._coming else f"mode {self.mode.value} has nothing to compact"

    def _go(self, *, whole: bool) -> None:
        """Make the next pass, or all that are left; a draft that waits is taken."""
        if self.compaction.held is not None:
            self.work_on("accept", self._take, whole)
        else:
            self._offering = True
            self.work_on("compact", self._make, whole, exclusive=False)

    async def _take(self, whole: bool) -> None:
        """Take the draft that waits; a backup is offered before it."""
        draft, chosen = self.compaction.held, Rule(self.rule.value)
        if await self.backup.settled(self.app, self.session) and self.compaction.held is draft:
            rest = Rule.ACCEPT if chosen is Rule.ASK else chosen
            self.compaction.answer(take=True, rest=rest if whole else None)

    async def _make(self, whole: bool) -> None:
        run, planned = self.compaction, self._outlook.planned
        assert planned is not None  # _why_not_go has made sure
        run.rule = Rule(self.rule.value) if whole else Rule.ASK
        try:
            await run.go(planned, whole=whole)
        except LcmError as error:
            run.failed = error
            self._say_state()
            return
        finally:
            self._offering = False
        if run.writer is None:
            self._model = None
        await self.session.database.refresh()
        self.load()

    def _why_no_preview(self) -> str | None:
        return "no draft waits: a writes one" if self.compaction.held is None else None

    def _preview(self) -> None:
        """Show the rows that accepting the waiting draft changes; `a` there accepts it."""
        title = f"Accept pass {len(self.compaction.done) + 1}"
        plan, agreed = self.compaction.plan_held, partial(self._go, whole=False)
        self.open(places.Preview(Change(plan, title, ABOUT_ACCEPTING, agreed=agreed)))

    # -- what the flow asks ------------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        """The open file."""
        return self.session.database

    async def agree(self, planned: PlannedCompaction) -> bool:
        """The passes were shown; a backup is offered before the first one that no word is waited for."""
        del planned
        return self.compaction.rule is Rule.ASK or await self.backup.settled(self.app, self.session)

    working = nullcontext  # the list and the title bar say what goes on

    def changed(self) -> None:
        """Draw what became of the pass at hand, from wherever it is made."""
        if self.is_attached:
            self._began = time.monotonic()
            self._show_passes()
            self._show_text()

    # -- leaving -----------------------------------------------------------------------------------------

    def step_back(self) -> bool:
        """Leave out the draft that waits, or stop, or give the call up."""
        run = self.compaction
        if run.held is not None:
            self.work_on("held", self._ask_about, run.held)
        elif not run.running:
            return super().step_back()
        elif not run.stopping:
            run.stop()
        elif not run.give_up():
            self.app.notify("A commit in progress cannot be stopped.", timeout=3)
        return True

    async def _ask_about(self, draft: PassDraft) -> None:
        """Ask before a draft that was paid for is left out."""
        run, cost = self.compaction, cost_text(draft.text.usage.cost_usd)
        said = (
            Block(
                f"Pass {len(run.done) + 1}: {span_text(draft.chunk.refs)}, {draft.chunk.tokens:,} → "
                f"{draft.text.tokens:,} tokens, cost {cost}. No further pass runs now."
            ),
        )
        answers = (
            ("k", "keep it: running this pass again reuses it"),
            ("x", "discard it"),
            ("a", "accept it, then stop"),
        )
        question = Question("Keep this draft?", said, answers, leave="back to the draft")
        answer = await self.app.push_screen_wait(question)
        if run.held is not draft or not answer:
            return
        if answer == "a":
            run.stop()
        run.answer(take=answer == "a", keep=answer == "k")

    async def before_leaving(self) -> bool:
        """Let the screen below select the last summary that was made, and say how to take all back."""
        made = self.compaction.made
        if not made:
            return True
        last = made[-1].draft
        self.hand_down(None if last is None else last.summary_id)
        count = f"{len(made):,} {'summary was' if len(made) == 1 else 'summaries were'} made"
        keys = keys_back("undo", [self.conversation.conversation_id])
        which = "it" if len(made) == 1 else "all of it"
        self.app.notify(f"{count}. To undo {which}: {keys}.", title="Compacted", timeout=DONE_SECONDS)
        return True

    KEYS: ClassVar[Sequence[Key[CompactingScreen]]] = (
        commands.APPLY.does(
            lambda s: s._go(whole=False),
            _why_not_go,
            title="Draft 1 pass",
            help="Draft the next pass and show it; then accept the waiting draft.",
            title_now=lambda s: "Accept" if s.compaction.held is not None else "",
        ),
        commands.ACCEPT_REST.does(
            lambda s: s._go(whole=True),
            _why_not_go,
            title="Run all",
            help="Run every remaining pass, and accept the waiting draft.",
        ),
        commands.OPEN.does(
            _open,
            _why_not_open,
            title="Whole text",
            help="Open the text of the selected pass; without a pass, protect fewer of the newest messages.",
            title_now=lambda s: "Protect fewer" if s.list.table.selected is None else "",
        ),
        commands.OTHER_VIEW.does(
            _preview,
            _why_no_preview,
            title="Preview",
            help="Show the rows that accepting the waiting draft changes.",
        ),
        commands.CHOICE_1.does(
            _ask_mode,
            _why_running,
            title="Mode",
            help="Pick the mode: the list says what each would do now.",
        ),
        commands.CHOICE_2.does(
            _ask_target,
            _why_running,
            title="Target",
            help="Set a target size: tokens (40k) or a share of the budget (60%).",
        ),
        commands.CHOICE_3.does(
            lambda s: s._turn(s.rule),
            _why_running,
            title="Accept",
            help="Change how drafts are accepted: all, ask each, stop on truncation.",
        ),
        commands.BACKUP_FIRST.does(lambda s: s._turn(s.backup), lambda s: s.backup.why_not()),
        actions.ITS_HISTORY,
        Key(
            "tail",
            "number_sign",
            "Fresh tail",
            "Set how many of the newest messages to protect.",
            _ask_tail,
        ),
        commands.BUDGET.does(
            _ask_budget,
            _why_running,
            help="Set the token budget that decides when compaction is due.",
        ),
        commands.BUDGET_MORE.does(lambda s: s._step_budget(1), _why_running),
        commands.BUDGET_LESS.does(lambda s: s._step_budget(-1), _why_running),
    )
    COMMON: ClassVar[Sequence[Key[CompactingScreen]]] = (commands.RELOAD.does(_look_anew),)


def _measure(draft: PassDraft, rendering: Rendering) -> Retention:
    chunk = draft.chunk
    estimator = rendering.rules.estimator
    source = read_retention_source(chunk.source.text, previous=chunk.previous or "", estimator=estimator)
    return measure(source, draft.text.content)
