"""What the operator chooses about a compaction: mode, what to come under, what becomes of drafts, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lcm_core.budget import parse_budget, step
from lcm_core.engine_rules import engine_rules
from lcm_core.operations.compaction.run import CompactionSetting, compaction_setting
from lcm_core.operations.compaction.sweep import Mode

from lcm_tui.changes.change import Choice
from lcm_tui.commands import Action
from lcm_tui.compaction_run import Rule
from lcm_tui.frame import CommandScreen
from lcm_tui.views.units import budget_problem
from lcm_tui.widgets.spans import Line, Span

#: A sweep that takes finished tool calls of the current turn besides (docs/engine/compaction.md).
CURRENT_TURN: Final = "sweep, current turn too"
MODES: Final = {
    "sweep": Mode.SWEEP,
    CURRENT_TURN: Mode.SWEEP,
    "one leaf": Mode.ONE_LEAF,
    "leaf, then condense": Mode.LEAF,
    "until under": Mode.UNTIL_UNDER,
    "single root": Mode.SINGLE_ROOT,
}
_SHARE: Final = re.compile(r"([1-9][0-9]?|100) ?%")
_COUNT: Final = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Target:
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


TARGETS: Final = {one.words: one for one in map(Target, (100, 75, 50, 25, 10))}


def target_of(text: str) -> Target | None:
    """What was typed: ``60%`` of the budget, or tokens such as ``40000`` and ``40k``; None: neither."""
    share = _SHARE.fullmatch(text.strip())
    if share is not None:
        return Target(int(share[1]))
    tokens = parse_budget(text)
    return None if tokens is None else Target(tokens=tokens)


class CompactionChoices:
    """The choices of one screen, and the commands that turn them."""

    def __init__(
        self,
        screen: CommandScreen,
        session_key: str | None,
        *,
        changed: Callable[[], None],
        redraw: Callable[[], None],
    ) -> None:
        """*changed*: another compaction is wanted; *redraw*: what is said of the choices is old."""
        self._screen = screen
        self._session_key = session_key
        self._changed = changed
        self._redraw = redraw
        self._targets = dict(TARGETS)
        self.mode = Choice("mode", tuple(MODES))
        self.target = Choice("target", tuple(TARGETS))
        self.rule = Choice("accept", tuple(rule.value for rule in Rule))
        self.what_if: int | None = None  #: the budget that was set here, in tokens; None: as configured
        self.tail: int | None = None  #: newest messages that are left alone; None: as is configured
        self.version = 0  #: grows with every choice: a look that began before one is worth nothing

    def actions(self, when: Callable[[], str | None]) -> tuple[Action, ...]:
        """Their commands; *when* says why nothing can be chosen now."""
        return (
            Action("choice-1", self._turn_mode, when),
            Action("choice-2", self._turn_target, lambda: when() or self._why_no_target()),
            Action("choice-3", self._turn_rule, when),
            Action("under", self._ask_target),
            Action("tail", self._ask_tail),
            Action("budget", self._ask_budget, when),
            Action("budget-more", partial(self._step_budget, 1), when),
            Action("budget-less", partial(self._step_budget, -1), when),
        )

    # -- what is chosen ----------------------------------------------------------------------------------

    @property
    def budget(self) -> int:
        """In tokens."""
        return self._screen.session.budget if self.what_if is None else self.what_if

    def wanted(self) -> tuple[Mode, int]:
        """The mode, and the tokens to come under."""
        return MODES[self.mode.value], self._targets[self.target.value].of(self.budget)

    def setting(self) -> CompactionSetting:
        """How the database is compacted."""
        session = self._screen.session
        rules = session.settings.engine
        setting = compaction_setting(
            session.database.schema,
            rules,
            session.engine_zone,
            self.budget,
            tail=self.tail,
            session_key=self._session_key,
        )
        return replace(setting, current_turn=self.mode.value == CURRENT_TURN)

    def line(self) -> Line:
        """The choices, each with its key."""
        spans = [Span(" ")]
        for number, choice in enumerate((self.mode, self.target, self.rule), 1):
            used = choice is not self.target or self._why_no_target() is None
            key = self._screen.key_of(f"choice-{number}")
            spans += [
                Span(f"{key} ", "key" if used else "dim"),
                Span(f"{choice.title}: ", "dim"),
                Span(f"{choice.value}  ") if used else Span("–  ", "dim"),
            ]
        if self.what_if is not None:
            key = self._screen.key_of("budget")
            spans += [Span(f"{key} ", "key"), Span("budget: ", "dim"), Span(f"{self.budget:,}  ")]
        if self.tail is not None:
            key = self._screen.key_of("tail")
            spans += [Span(f"{key} ", "key"), Span("tail: ", "dim"), Span(f"{self.tail:,}")]
        return tuple(spans)

    # -- turning them ------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Something else is wanted, or the same of what is there now."""
        self.version += 1
        self._changed()

    def _turn_mode(self) -> None:
        self.mode.turn()
        rules = engine_rules(self._screen.session.database.schema).compaction
        if self.mode.value == CURRENT_TURN and not rules.compacts_current_turn:
            self.mode.turn()
        self.renew()

    def _turn_target(self) -> None:
        self.target.turn()
        self.renew()

    def _turn_rule(self) -> None:
        self.rule.turn()
        self._redraw()

    def _why_no_target(self) -> str | None:
        wanted = MODES[self.mode.value] is Mode.UNTIL_UNDER
        return None if wanted else "The target applies only to the mode “until under”"

    # -- typing them -------------------------------------------------------------------------------------

    async def _ask_target(self) -> None:
        """Ask what the context is to come under; the mode becomes the one that it belongs to."""
        label = "Target size: tokens (40k) or a share of the budget (60%)"
        text = await self._screen.ask(label, check=_target_problem)
        target = target_of(text) if text is not None else None
        if target is None:
            return
        self._targets = {**TARGETS, target.words: target}
        self.target = Choice("target", tuple(self._targets), chosen=target.words)
        under = next(words for words, mode in MODES.items() if mode is Mode.UNTIL_UNDER)
        self.mode = Choice("mode", tuple(MODES), chosen=under)
        self.renew()

    async def _ask_tail(self) -> None:
        """Ask how many messages are left alone."""
        count = self.setting().bounds().fresh_tail_count
        text = await self._screen.ask(
            f"Newest messages to protect, e.g. 16 (now {count:,}; empty: as configured)",
            check=_count_problem,
        )
        if text is None:
            return
        text = text.strip()
        tail = int(text) if text else None
        if tail != self.tail:
            self.tail = tail
            self.renew()

    async def _ask_budget(self) -> None:
        """Ask for the budget."""
        configured = self._screen.session.budget
        text = await self._screen.ask(
            f"Budget in tokens, e.g. 64k (empty: {configured:,}, as configured)", check=budget_problem
        )
        if text is not None:
            self._set_budget(parse_budget(text) if text.strip() else None)

    def _step_budget(self, direction: int) -> None:
        self._set_budget(step(self.budget, direction))

    def _set_budget(self, budget: int | None) -> None:
        before, self.what_if = self.budget, budget
        if self.budget != before:
            self.renew()


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
