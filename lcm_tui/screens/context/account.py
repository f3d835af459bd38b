"""The account of an assembly in two or three lines."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.assemble.ledger import Ledger
from lcm_core.operations.compaction.forecast import Distance
from textual.geometry import Region
from textual.strip import Strip

from lcm_tui.views.sent import asked_line, counts_line, shares_line
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What is said of an assembly."""

    ledger: Ledger | None = None  #: None: nothing was assembled yet
    distance: Distance | None = None  #: how far the next compaction is; None: not known yet
    prompt: str = ""  #: what the user asks
    clamps: bool = True  #: with the engine's hard limit
    problem: str | None = None  #: why nothing could be assembled
    working: bool = False  #: it is of other settings than those that are asked for

    def line(self, y: int, width: int) -> Line:
        """What is sent and left out; how it is spread, and when compaction comes; what else is asked for."""
        if y == 1:
            return shares_line(self.ledger, self.distance, width)
        if y:
            return asked_line(self.ledger, self.prompt, clamps=self.clamps, width=width)
        return counts_line(self.ledger, self.problem, working=self.working, width=width)


class AccountBar(Drawn):
    """The head of an assembly.

    A third line says what else is asked for than the engine would do by itself, when there is such a thing.
    """

    DEFAULT_CSS = """
    AccountBar { height: 2; width: 1fr; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="account")
        self._account = Account()
        self._said: dict[int, Line] = {}  #: what stands in each line

    def show_account(self, account: Account) -> None:
        """Show another one; lines that say the same are not drawn again."""
        self._account = account
        height = 2 if account.clamps and not account.prompt else 3
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        for y in range(self.size.height):
            if self._said.get(y) != account.line(y, self.size.width):
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        self._said[y] = self._account.line(y, self.size.width)
        return strip_of(self._said[y], self.style_of, self.size.width)
