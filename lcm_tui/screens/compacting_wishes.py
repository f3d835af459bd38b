"""What the operator chooses about a compaction: mode, what to come under, what becomes of drafts, numbers."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, Literal

from lcm_core.budget import parse_budget, step
from lcm_core.operations.compaction.run import CompactionSetting, Mode, compaction_setting

from lcm_tui.changes.change import Choice
from lcm_tui.screens.compacting_run import Rule
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.widgets.spans import Line, Span

MODES: Final = {
    "sweep": Mode.SWEEP,
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


class Wishes(TextSearch):
    """A screen with the choices of a compaction."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = Choice("mode", tuple(MODES))
        self.target = Choice("under", tuple(TARGETS))
        self.rule = Choice("commit", tuple(rule.value for rule in Rule))
        self.wish = 0  #: grows with every choice: a look that began before one is worth nothing
        self.tail: int | None = None  #: newest messages that are left alone; None: as is configured
        self._targets = dict(TARGETS)
        self._asks: Literal["search", "budget", "under", "tail"] = "search"

    @abstractmethod
    def look_anew(self) -> None:
        """Something else is wanted."""

    @abstractmethod
    def head_again(self) -> None:
        """Draw what says what is wanted."""

    def wanted(self) -> tuple[Mode, int]:
        """The mode, and the tokens to come under."""
        return MODES[self.mode.value], self._targets[self.target.value].of(self.session.budget)

    def wanted_setting(self) -> CompactionSetting:
        """How the database is compacted."""
        session = self.session
        return compaction_setting(
            session.database.schema,
            session.settings.engine,
            session.zone,
            session.budget,
            tail=self.tail,
        )

    def choices_line(self) -> Line:
        """The choices, each with its key."""
        spans = [Span(" ")]
        for number, choice in enumerate((self.mode, self.target, self.rule), 1):
            if choice is not self.target or self.wanted()[0] is Mode.UNTIL_UNDER:
                key = self.key_of(f"choice-{number}")
                spans += [
                    Span(f"{key} ", "key"),
                    Span(f"{choice.title}: ", "dim"),
                    Span(f"{choice.value}  "),
                ]
        if self.tail is not None:
            key = self.key_of("tail")
            spans += [Span(f"{key} ", "key"), Span("tail: ", "dim"), Span(f"{self.tail:,}")]
        return tuple(spans)

    def why_not(self, command: str) -> str | None:
        """What to come under belongs to one mode."""
        if command == "choice-2" and self.wanted()[0] is not Mode.UNTIL_UNDER:
            return "it belongs to the mode “until under”"
        return super().why_not(command)

    def action_choice_1(self) -> None:
        """Turn the mode."""
        self.mode.turn()
        self.look_anew()

    def action_choice_2(self) -> None:
        """Turn what the context is to come under."""
        self.target.turn()
        self.look_anew()

    def action_choice_3(self) -> None:
        """Turn what becomes of a draft."""
        self.rule.turn()
        self.head_again()

    def action_budget(self) -> None:
        """Ask for the budget."""
        self._asks, self._asked_from = "budget", self.focused
        self.open_prompt(f"budget in tokens (64000, 64k, 1m); enter: {self.session.budget:,} as it is")

    def action_under(self) -> None:
        """Ask what the context is to come under; the mode becomes the one that it belongs to."""
        self._asks, self._asked_from = "under", self.focused
        self.open_prompt("come under: tokens (40000, 40k) or a share of the budget (60%)")

    def action_tail(self) -> None:
        """Ask how many messages are left alone."""
        self._asks, self._asked_from = "tail", self.focused
        count = self.wanted_setting().bounds().fresh_tail_count
        self.open_prompt(f"newest messages to leave alone, {count:,} now; empty: as is configured")

    def action_search(self) -> None:
        """Search in the text."""
        self._asks = "search"
        super().action_search()

    def answered(self, text: str, *, done: bool) -> None:
        """A search, a budget, a target or a tail was typed."""
        match self._asks:
            case "search":
                super().answered(text, done=done)
            case "budget" if done and text.strip():
                self._set_budget(parse_budget(text), text)
            case "under" if done and text.strip():
                self._set_target(text)
            case "tail" if done:
                self._set_tail(text.strip())

    def _set_target(self, text: str) -> None:
        target = target_of(text)
        if target is None:
            said = f"“{text}” is no number of tokens (40000, 40k) and no share of the budget (60%)."
            self.app.notify(said, severity="warning")
            return
        self._targets = {**TARGETS, target.words: target}
        self.target = Choice("under", tuple(self._targets), chosen=target.words)
        under = next(words for words, mode in MODES.items() if mode is Mode.UNTIL_UNDER)
        self.mode = Choice("mode", tuple(MODES), chosen=under)
        self.look_anew()

    def _set_tail(self, text: str) -> None:
        if text and _COUNT.fullmatch(text) is None:
            said = f"“{text}” is no number of messages: write 0, 16 or 64, or nothing for what is configured."
            self.app.notify(said, severity="warning")
            return
        tail = int(text) if text else None
        if tail != self.tail:
            self.tail = tail
            self.look_anew()

    def action_budget_more(self) -> None:
        """Raise the budget by a step."""
        self._set_budget(step(self.session.budget, 1))

    def action_budget_less(self) -> None:
        """Lower the budget by a step."""
        self._set_budget(step(self.session.budget, -1))

    def _set_budget(self, budget: int | None, text: str = "") -> None:
        if budget is None:
            self.app.notify(f"“{text}” is no number of tokens: write 128000, 128k or 1m.", severity="warning")
        elif budget != self.session.budget:
            self.session.budget = budget
            self.look_anew()
