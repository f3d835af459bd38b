"""Previous context: what the model was given of earlier summaries when it made one, as far as can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.dag.previous import PassedOver, PreviousNode
from lcm_core.records import Conversation, SummaryId
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.screens.listing import TextScreen
from lcm_tui.screens.previous_text import (
    PreviousData,
    View,
    about,
    cells_of,
    load_previous,
    summary_document,
    whole_document,
)
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Line, Span
from lcm_tui.widgets.text import Block, Document

#: The row that stands for the text as a whole.
WHOLE: Final = ""

COLUMNS = (
    Column("use", "", 7, keep=100),
    Column("id", "summary", 20, keep=95),
    Column("depth", "depth", 5, keep=90),
    Column("tokens", "tokens", 7, right=True, keep=60),
    Column("span", "covers", 24, keep=50),
    Column("why", "why", 30, grows=True, keep=80),
)


class PreviousScreen(TextScreen[SummaryId], DataScreen[PreviousData]):
    """The previous context of one summary."""

    HELP = """
When the engine makes a summary it gives the model a piece of what stood before: the previous context. The
database does not record it, so what you see "as given" is reconstructed from the order in which summaries
were made, what had been condensed by then, and which messages each covers; the sentence above the text says
what had to be assumed. Texts are those that the database holds now.

"For a rewrite" is the same without summaries that are broken. w switches. Summaries marked – were looked at
and passed over, each with the reason. Only leaves are made with previous context.

Select a summary to read it, or the first row to read the text as the model was given it. enter goes into the
text, esc out of it again.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "summaries", "previous", "rewrite-mode"))
    DEFAULT_CSS = """
    PreviousScreen #list { height: 1fr; min-height: 3; }
    PreviousScreen #text { height: 2fr; padding-left: 1; border-top: solid $foreground 30%; }
    PreviousScreen #text:focus { border-top: solid $accent; }
    """

    def __init__(self, conversation: Conversation, summary_id: SummaryId) -> None:
        super().__init__()
        self._conversation = conversation
        self._summary_id = summary_id
        self._place = 0
        self._data: PreviousData | None = None
        self._given: dict[SummaryId, PreviousNode] = {}
        self._passed: dict[SummaryId, PassedOver] = {}
        self._shown: tuple[int, SummaryId | None] | None = None

    def where(self) -> str:
        """Of which summary."""
        return f"Previous context of {self._summary_id}"

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> PreviousData:
        """The two previous contexts and the summaries in them."""
        return await self.session.read(load_previous, self._summary_id)

    def show(self, data: PreviousData) -> None:
        """Show them; of a summary that is gone, go on showing what was read."""
        if data.subject is None and self._data is not None:
            self.query_one(TitleBar).note = "this summary is no longer in the database"
            return
        old, self._data = self._data, data
        if old is None or len(old.views) != len(data.views):
            self._place = 0
        self._arrange()

    @property
    def _view(self) -> View | None:
        """Which previous context is shown."""
        return self._data.views[self._place] if self._data is not None and self._data.views else None

    def _arrange(self) -> None:
        """Fill the list with what the view holds."""
        data, view = self._data, self._view
        if data is None:
            return
        self._given = {node.summary_id: node for node in view.choice.nodes} if view else {}
        self._passed = {passed.summary_id: passed for passed in view.choice.passed_over} if view else {}
        before = set(self.table.keys)
        keys = [SummaryId(WHOLE), *self._given, *self._passed] if view else []
        self.table.empty = "No previous context."
        self.table.replace(keys)
        if before:
            self.table.mark_fresh([key for key in keys if key not in before])
        self.query_one(TitleBar).note = about(data.subject) if data.subject else ""
        self._show_text()

    # -- drawing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """What is said of a summary that was given or passed over."""
        return COLUMNS

    def draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        """The whole text, or a summary."""
        return (self._whole_row(),) if key == WHOLE else super().draw(key, width)

    def cells(self, key: SummaryId) -> dict[str, Span]:
        """A summary, and why it was given or passed over."""
        held = self._data.texts.get(key) if self._data is not None else None
        cells = cells_of(held.summary if held else None, self.session)
        cells["id"] = Span(key, "key" if key in self._given else "dim")
        node = self._given.get(key)
        if node is not None:
            broken = f"broken ({node.broken}); " if node.broken else ""
            cells["use"] = Span(self._view.word if self._view else "", "ok")
            cells["why"] = Span(f"{broken}{node.origin}", "error" if node.broken else "text")
        else:
            cells["use"] = Span("–", "dim")
            cells["why"] = Span(self._passed[key].reason, "dim")
        return cells

    def _whole_row(self) -> Line:
        tokens = sum(node.summary.tokens for node in self._given.values())
        many = "1 summary" if len(self._given) == 1 else f"{len(self._given)} summaries"
        said = f"{many}, {tokens:,} tokens" if self._given else "nothing"
        view = self._view
        return (Span(f"The whole text, {view.title if view else ''}: ", "title"), Span(said))

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        if self._data is None:
            return
        key = self.table.selected
        if self._view is None:
            document: Document = (Block(self._data.nothing),)
        elif not key:
            document = whole_document(self._data.views, self._place)
        elif key in self._data.texts:
            node = self._given.get(key)
            why = node.origin if node is not None else self._passed[key].reason
            document = summary_document(self._data.texts[key], node, why, self.session)
        else:
            document = (Block(f"The summary {key} is no longer in the database."),)
        shown = (self._place, key)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- commands ----------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The selected summary; on the whole text the one that it was given for."""
        return self.table.selected or self._summary_id

    def why_not(self, command: str) -> str | None:
        """Most commands need a summary under the cursor."""
        applies = self._view is not None
        match command:
            case "rewrite-mode" | "open" | "search" | "next" | "previous-match" if not applies:
                return "there is no previous context here"
            case "previous" if not self.table.selected:
                return "select a summary first; this is the previous context already"
            case _:
                return super().why_not(command)

    def action_rewrite_mode(self) -> None:
        """Go on to the next of the previous contexts that there are."""
        if self._data is not None and self._data.views:
            self._place = (self._place + 1) % len(self._data.views)
            self._arrange()
            self.refresh_bars()

    def action_summaries(self) -> None:
        """Show the selected summary in the DAG."""
        self.open(places.Summaries(self._conversation, select=SummaryId(self.selected_id() or "")))

    def action_previous(self) -> None:
        """Show the previous context of the selected summary."""
        if self.table.selected:
            self.open(places.Previous(self._conversation, self.table.selected))
