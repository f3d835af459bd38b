"""Two texts over the screen, beside each other where there is room."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from lcm_tui.commands import COMMANDS
from lcm_tui.widgets.panes import Rows, TwoPanes
from lcm_tui.widgets.text import Document, TextView

#: Cells of a terminal in which two texts stand beside each other.
_BESIDE = 100


class TwoTexts(ModalScreen[None]):
    """Two texts; ``tab`` goes from one to the other."""

    DEFAULT_CSS = """
    TwoTexts { align: center middle; }
    TwoTexts > Rows { width: 96%; height: 94%; background: $surface; padding: 1 2; }
    TwoTexts TextView, TwoTexts Divider { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="two-texts-back"),
        Binding(COMMANDS["divider-back"].key, "divide(-1)", "Divider back", id="divider-back"),
        Binding(COMMANDS["divider-on"].key, "divide(1)", "Divider on", id="divider-on"),
    ]

    def __init__(self, first: Document, second: Document) -> None:
        super().__init__()
        self.first = TextView(first, id="first")
        self.second = TextView(second, id="second")

    def compose(self) -> ComposeResult:
        """Both texts."""
        with Rows():
            yield TwoPanes(self.first, self.second, shares=(0.5, 0.5), beside=_BESIDE)

    def action_divide(self, step: int) -> None:
        """Give one of them more room."""
        self.query_one(TwoPanes).move(step)

    async def show(self, first: Document, second: Document) -> None:
        """Show others."""
        await self.first.load(first)
        await self.second.load(second)
