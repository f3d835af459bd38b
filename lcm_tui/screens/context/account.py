"""The account of an assembly in two to four lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.assemble.ledger import ItemOutcome, Ledger
from lcm_core.operations.compaction.distance import Distance
from textual.geometry import Region
from textual.strip import Strip

from lcm_tui.views.sent import SHARES, asked_line, counts_line, shares_line, why_line
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What is said of an assembly."""

    ledger: Ledger | None = None  #: None: nothing was assembled yet
    distance: Distance | None = None  #: how far the next compaction is; None: not known yet
    prompt: str = ""  #: what the user asks
    clamps: bool = True  #: with the engine's hard limit
    problem: str | None = None  #: why nothing could be assembled
    working: bool = False  #: it is of other settings than those that are asked for

    ordinal: int | None = None  #: of the selected item
    fate: ItemOutcome | None = None  #: what becomes of the selected item

    def lines(self, width: int) -> Iterator[Line]:
        """What is sent and left out; how it is spread, and when compaction comes; what else is asked for;
        why the selected item is not sent, or others are not; where all are, what the shares are of."""
        yield counts_line(self.ledger, self.problem, working=self.working, width=width)
        yield shares_line(self.ledger, self.distance, width)
        if self.prompt or not self.clamps:
            yield asked_line(self.ledger, self.prompt, clamps=self.clamps, width=width)
        if self.ledger is not None and (
            self.ledger.assembled.evicted_items or self.ledger.assembled.over_budget
        ):
            yield why_line(self.ledger, self.ordinal, self.fate, width)
        elif self.problem is None:
            yield (Span(f" {SHARES}", "dim"),)


class AccountBar(Drawn):
    """The head of an assembly.

    A third line says what else is asked for than the engine would do by itself, when there is such a thing;
    the last one why items are not sent, or, where all are, what the words of the shares mean.
    """

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    AccountBar { height: 2; width: 1fr; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="account")
        self._account = Account()
        self._lines: list[Line] = []
        self._width = -1  #: for which they were made

    def show_account(self, account: Account) -> None:
        """Show another one; lines that say the same are not drawn again."""
        before, self._account = self._lines, account
        self._make(self.size.width)
        height = len(self._lines)
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        for y, line in enumerate(self._lines):
            if before[y : y + 1] != [line]:
                self.refresh(Region(0, y, self.size.width, 1))

    def _make(self, width: int) -> None:
        self._lines, self._width = list(self._account.lines(width)), width

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        if self._width != self.size.width:
            self._make(self.size.width)
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.style_of, self.size.width)
