"""The summaries that were given, or passed over, and the text of the one under the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lcm_core.dag.previous import PassedOver, PreviousNode
from lcm_core.records import SummaryId
from lcm_core.wording import counted
from textual.app import ComposeResult

from lcm_tui.panes.finding import TextFinder
from lcm_tui.panes.listing import ListPane
from lcm_tui.screens.previous.documents import cells_of, summary_document, whole_document
from lcm_tui.screens.previous.reads import PreviousData, View
from lcm_tui.widgets.panes import Rows
from lcm_tui.widgets.spans import Column, Line, Span
from lcm_tui.widgets.text import Block, Document, TextView
from lcm_tui.widgets.two_panes import TwoPanes

#: The row that stands for the text as a whole.
WHOLE: Final = SummaryId("")

COLUMNS = (
    Column("use", "", 7, keep=100),
    Column("id", "summary", 20, keep=95),
    Column("depth", "depth", 5, keep=90),
    Column("tokens", "tokens", 7, right=True, keep=60),
    Column("span", "covers", 24, keep=50, timed="in"),
    Column("why", "why", 30, grows=True, keep=80),
)


class GivenPane(ListPane[SummaryId]):
    """One previous context of several: its summaries, and below them the text of the selected one."""

    def __init__(self) -> None:
        super().__init__()
        self.text = TextView(id="text")
        self.finder = TextFinder(self.text, self.why_nothing)
        self.data: PreviousData | None = None
        self._place = 0
        self.as_text = False  #: the whole text alone
        self._given: Mapping[SummaryId, PreviousNode] = {}
        self._passed: Mapping[SummaryId, PassedOver] = {}
        self._shown: tuple[int, SummaryId | None] | None = None

    def compose(self) -> ComposeResult:
        """The list, and the text below it."""
        given = Rows(*super().compose(), id="chosen")
        self._panes = TwoPanes(given, self.text, shares=(0.64, 1 / 3))
        yield self._panes

    def show(self, data: PreviousData) -> None:
        """Show what was read; the choice among several and the selection stay."""
        old, self.data = self.data, data
        counted = len(data.views) if old is None else len(old.views)
        if self._place >= len(data.views) or (self._place > 1 and counted != len(data.views)):
            self._place = 0
        self._arrange()

    def show_next_view(self) -> None:
        """Go on to the next of the previous contexts that there are."""
        if self.data is not None and self.data.views:
            self._place = (self._place + 1) % len(self.data.views)
            self._arrange()

    def show_as_text(self, alone: bool) -> None:
        """Show the whole text alone, or the summaries above it again."""
        self.as_text = alone
        if alone:
            self.table.select(WHOLE)
        self._panes.show_only(self.text if alone else None)
        (self.text if alone else self.table).focus()

    def show_view(self, place: int) -> None:
        """Show this one of the previous contexts as soon as they are known."""
        self._place = place

    @property
    def place(self) -> int:
        """Which of the previous contexts is shown."""
        return self._place

    def _arrange(self) -> None:
        """List what the chosen one holds."""
        view = self.view
        self._given = {node.summary_id: node for node in view.choice.nodes} if view else {}
        self._passed = {passed.summary_id: passed for passed in view.choice.passed_over} if view else {}
        before = set(self.table.keys)
        self.relist()
        if before:
            self.table.mark_fresh([key for key in self.table.keys if key not in before])
        self.show_text()

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """Which previous context is shown."""
        return self.data.views[self._place] if self.data is not None and self.data.views else None

    @property
    def selected(self) -> SummaryId | None:
        """The summary under the cursor; None on the row for the whole text."""
        return self.table.selected or None

    def why_nothing(self) -> str | None:
        """Why nothing can be done here; None when a previous context is shown."""
        return "there is no previous context here" if self.view is None else None

    # -- listing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """What is said of a summary that was given or passed over."""
        return COLUMNS

    def matching(self, words: Sequence[str]) -> Sequence[SummaryId]:
        """All of them: there is no filter."""
        del words
        return [WHOLE, *self._given, *self._passed] if self.view is not None else []

    def why_empty(self) -> str:
        """Nothing is given to what is no leaf."""
        return "No previous context."

    def draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        """The whole text, or a summary."""
        return (self._whole_row(),) if key == WHOLE else super().draw(key, width)

    def cells(self, key: SummaryId) -> Mapping[str, Span]:
        """A summary, and why it was given or passed over."""
        if self.data is None:
            return {}
        held, node = self.data.texts.get(key), self._given.get(key)
        cells = cells_of(self.data, held.summary if held else None, self.zone)
        if node is None:
            mark, why = Span("–", "dim"), Span(self._passed[key].reason, "dim")
        else:
            broken = f"broken ({node.broken}); " if node.broken else ""
            mark = Span(self.view.word if self.view else "", "ok")
            blank = "no text; " if node.blank else ""
            why = Span(f"{broken}{blank}{node.origin}", "error" if node.broken else "text")
        return {**cells, "use": mark, "id": Span(key, "dim" if node is None else "key"), "why": why}

    def _whole_row(self) -> Line:
        says = [node.summary.tokens for node in self._given.values() if not node.blank]
        said = f"{counted(len(says), 'summary')}, {sum(says):,} tokens" if says else "nothing"
        if blank := len(self._given) - len(says):
            said += f" ({counted(blank, 'summary')} without text)"
        title = self.view.title if self.view else ""
        return (Span(f"The whole text, {title}: ", "title"), Span(said))

    # -- the text ----------------------------------------------------------------------------------------

    def show_text(self) -> None:
        """Show what is under the cursor."""
        if self.data is not None:
            shown = (self._place, self.table.selected)
            self.text.show(self._document(self.data), keep_place=shown == self._shown)
            self._shown = shown

    def _document(self, data: PreviousData) -> Document:
        key = self.selected
        if self.view is None:
            return (Block(data.nothing),)
        if key is None:
            return whole_document(data.views, self._place)
        if key not in data.texts:
            return (Block(f"The summary {key} is no longer in the database."),)
        node = self._given.get(key)
        why = node.origin if node is not None else self._passed[key].reason
        return summary_document(data, data.texts[key], node, why, self.zone)
