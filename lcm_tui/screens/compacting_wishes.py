"""What the operator chooses about a compaction: mode, what to come under, what becomes of drafts, budget."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from lcm_core.budget import parse_budget, step
from lcm_core.operations.compaction.modes import Mode, setting_of
from lcm_core.operations.compaction.run import Setting

from lcm_tui.screens.compacting_run import Rule
from lcm_tui.screens.plan import Choice
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.widgets.spans import Line, Span

MODES: Final = {
    "sweep": Mode.SWEEP,
    "one leaf": Mode.ONE_LEAF,
    "leaf, then condense": Mode.LEAF,
    "until under": Mode.UNTIL_UNDER,
    "single root": Mode.SINGLE_ROOT,
}
#: What the context is to come under, as a share of the budget in percent.
TARGETS: Final = {"the budget": 100, "75 %": 75, "50 %": 50, "25 %": 25, "10 %": 10}


class Wishes(TextSearch):
    """A screen with the choices of a compaction."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = Choice("mode", tuple(MODES))
        self.target = Choice("under", tuple(TARGETS))
        self.rule = Choice("commit", tuple(rule.value for rule in Rule))
        self.wish = 0  #: grows with every choice: a look that began before one is worth nothing
        self._asks_budget = False

    @abstractmethod
    def look_anew(self) -> None:
        """Something else is wanted."""

    @abstractmethod
    def head_again(self) -> None:
        """Draw what says what is wanted."""

    def wanted(self) -> tuple[Mode, int]:
        """The mode, and the tokens to come under."""
        return MODES[self.mode.value], self.session.budget * TARGETS[self.target.value] // 100

    def wanted_setting(self) -> Setting:
        """How the database is compacted."""
        session = self.session
        return setting_of(session.database.schema, session.settings.engine, session.zone, session.budget)

    def choices_line(self) -> Line:
        """The choices, each with its key."""
        spans = [Span(" ")]
        for number, choice in enumerate((self.mode, self.target, self.rule), 1):
            if choice is not self.target or self.wanted()[0] is Mode.UNTIL_UNDER:
                key = self.key_of(f"choice-{number}")
                spans += [
                    Span(f"{key} ", "key"),
                    Span(f"{choice.title}: ", "dim"),
                    Span(f"{choice.value}   "),
                ]
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
        self._asks_budget, self._asked_from = True, self.focused
        self.ask("budget in tokens: 128000, 128k or 1m", str(self.session.budget))

    def action_search(self) -> None:
        """Search in the text."""
        self._asks_budget = False
        super().action_search()

    def answered(self, text: str, *, done: bool) -> None:
        """A search or a budget was typed."""
        if not self._asks_budget:
            super().answered(text, done=done)
        elif done:
            self._set_budget(parse_budget(text), text)

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
