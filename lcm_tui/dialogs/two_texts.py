"""Two texts over the screen, beside each other where there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.commands import COMMANDS
from lcm_tui.dialogs.dialog import READING, Dialog
from lcm_tui.views.asked import passage_at
from lcm_tui.widgets.panes import TwoPanes
from lcm_tui.widgets.text import Document, TextView

#: Cells of a terminal in which two texts stand beside each other.
_BESIDE = 100


class TwoTexts(Dialog[None]):
    """An answer and its evidence; ``tab`` goes from one to the other."""

    ABOUT = "The evidence for a question, and its answer if a model was asked. Nothing changes here."
    FIXED = None
    DEFAULT_CSS = """
    TwoTexts .box { width: 100%; }
    TwoTexts Divider { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Other text", tooltip="Go to the other text.", id="two-texts-tab"),
        Binding(
            COMMANDS["divider-back"].key,
            "divide(-1)",
            "Divider back",
            tooltip=COMMANDS["divider-back"].help,
            id="divider-back",
        ),
        Binding(
            COMMANDS["divider-on"].key,
            "divide(1)",
            "Divider on",
            tooltip=COMMANDS["divider-on"].help,
            id="divider-on",
        ),
        Binding("enter", "open(0)", "Open", tooltip="Open the first passage in sight.", id="two-texts-open"),
        *(
            Binding(
                str(number),
                f"open({number})",
                f"Passage {number}",
                tooltip="Open the passage of this number.",
                show=False,
                id=f"two-texts-open-{number}",
            )
            for number in range(1, 10)
        ),
        Binding("escape,q", "dismiss", "Back", tooltip="Close both texts.", id="two-texts-back"),
    ]

    def __init__(self, first: Document, second: Document, open_passage: Callable[[int], object]) -> None:
        """*open_passage* gets the number of a passage, from 1."""
        super().__init__()
        self._open_passage = open_passage
        self.first = TextView(first, id="first")
        self.second = TextView(second, id="second")

    def compose_box(self) -> ComposeResult:
        """Both texts."""
        yield TwoPanes(self.first, self.second, shares=(0.5, 0.5), beside=_BESIDE)

    def more_keys(self) -> Document:
        """Those that scroll."""
        return READING

    def action_open(self, number: int) -> None:
        """Open a passage in its conversation; 0: the first in sight."""
        self._open_passage(number or passage_at(self.second.first_block))

    def action_divide(self, step: int) -> None:
        """Give one of them more room."""
        self.query_one(TwoPanes).move(step)

    async def show(self, first: Document, second: Document) -> None:
        """Show others."""
        await self.first.load(first)
        await self.second.load(second)
