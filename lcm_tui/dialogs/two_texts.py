"""An answer and its evidence over the screen, beside each other where there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from lcm_core.wording import counted
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.commands import COMMANDS
from lcm_tui.dialogs.dialog import BESIDE, Dialog, key_row
from lcm_tui.views.asked import MARGIN, blocks_of, passage_at, passages_in
from lcm_tui.widgets.spans import Line, Span, slice_of, text_of
from lcm_tui.widgets.text import Document, TextView
from lcm_tui.widgets.two_panes import TwoPanes
from lcm_tui.widgets.wrapped import WrappedBlock

#: Cells of a terminal in which two texts stand beside each other.
_BESIDE: Final = 100
_CHOOSING: Final = (
    key_row("↑ ↓ k j", "Passage", "Select the passage above or below; a tall one scrolls first."),
    key_row("1 … 9", "Open", "Open the passage of this number."),
    key_row("PgUp PgDn", "Page", "Scroll by a page; space pages on."),
    key_row("Home End", "Ends", "Go to the first passage or the last; g and G do the same."),
)


class Passages(TextView):
    """The evidence, in which one passage is selected; a passage that is too tall scrolls before the next."""

    moves = (
        (("up", "down"), "the passage above, the passage below"),
        (("page-up", "page-down", "text-page-down"), "scroll by a page"),
        (("first", "last"), "the first passage, the last one"),
    )

    def __init__(self, document: Document, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(document, id=id)
        self.selected = 1

    @property
    def count(self) -> int:
        """How many passages there are."""
        return passages_in(self.document)

    def select(self, number: int) -> None:
        """Select a passage and bring it into sight, its heading at least."""
        self.selected = max(1, min(number, self.count))
        first, end = self._extent
        if end - first > self._height or first < self._top:
            self._show_from(first)
        elif end > self._top + self._height:
            self._show_from(end - self._height)
        self._draw_anew()

    def action_move(self, step: int) -> None:
        """To the next passage, or the one before; first to the end of the one that is selected."""
        first, end = self._extent
        cut = end > self._top + self._height if step > 0 else first < self._top
        last = self.selected == (self.count if step > 0 else 1)
        if cut or last:
            super().action_move(step)
        else:
            self.select(self.selected + step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page, and select what is in sight then; at the end of the text the last passage."""
        before = self._top
        super().action_page(direction)
        first, end = self._extent
        if self._top == before:
            self.select(self.count if direction > 0 else 1)
        elif end <= self._top or first >= self._top + self._height:
            self.selected = min(passage_at(self.first_block), max(self.count, 1))
            self._draw_anew()

    def action_first(self) -> None:
        """To the first passage."""
        super().action_first()
        self.select(1)

    def action_last(self) -> None:
        """To the last passage."""
        self.select(self.count)

    @property
    def _extent(self) -> tuple[int, int]:
        """The first line of the selected passage, and the one behind its last."""
        heading, text = blocks_of(self.selected)
        if text + 1 >= len(self._tops):
            return 0, 0
        return self._tops[heading], self._tops[text + 1]

    def _line_or_nothing(self, at: int) -> Line:
        line = super()._line_or_nothing(at)
        first, end = self._extent
        if not first <= at < end:
            return line
        return (Span("▌".ljust(MARGIN), "key"), *slice_of(line, MARGIN, len(text_of(line))))


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
        Binding("enter", "open(0)", "Open", tooltip="Open the selected passage.", id="two-texts-open"),
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
        self.second = Passages(second, id="second")
        self._panes = TwoPanes(self.first, self.second, shares=(0.4, 0.5), beside=_BESIDE)

    def compose_box(self) -> ComposeResult:
        """Both texts."""
        yield self._panes

    def on_mount(self) -> None:
        """Arrows choose a passage at once."""
        self.second.focus()

    def fit(self) -> None:
        """The answer has the lines that it needs; what is left is the evidence's."""
        width = max(self.app.size.width - BESIDE, 1)
        self._panes.give_lines(sum(len(WrappedBlock(block, width)) for block in self.first.document))

    def more_keys(self) -> Document:
        """Those that choose a passage."""
        return _CHOOSING

    def action_open(self, number: int) -> None:
        """Open a passage in its conversation; 0: the selected one."""
        count = self.second.count
        if number > count:
            there = counted(count, "passage") if count else "no passage"
            self.notify(f"There is no passage {number}: the evidence has {there}.", timeout=3)
        elif count:
            self.second.select(number or self.second.selected)
            self._open_passage(self.second.selected)

    @on(TextView.Clicked, "#second")
    def _clicked_passage(self, event: TextView.Clicked) -> None:
        """A click selects a passage; one on the selected passage opens it."""
        number = passage_at(event.block)
        if number == self.second.selected:
            self.action_open(0)
        else:
            self.second.select(number)

    def action_divide(self, step: int) -> None:
        """Give one of them more room."""
        self.query_one(TwoPanes).move(step)

    async def show(self, first: Document, second: Document) -> None:
        """Show others."""
        await self.first.load(first)
        await self.second.load(second)
        self.second.select(1)
        self.fit()
