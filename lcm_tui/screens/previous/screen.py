"""Previous context: what the model was given of earlier summaries when it made one, as far as can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lcm_core.records import Conversation, SummaryId
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import Action, bindings
from lcm_tui.frame import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.screens.previous.documents import about
from lcm_tui.screens.previous.panes import GivenPane
from lcm_tui.screens.previous.reads import PreviousData, load_previous
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.lines import LineView


class PreviousScreen(DataScreen[PreviousData]):
    """The previous context of one summary."""

    HELP = """
When the engine writes a summary, it gives the model some of the preceding text: the previous context. The
database does not record it, so "as given" is reconstructed from the order in which summaries were made, what
had been condensed by then, and which messages each covers; the sentence above the text lists the assumptions.
Texts are as the database has them now.

"For a rewrite" is the same without broken summaries. w switches. Summaries marked – were considered and
skipped, each with the reason. Only leaves are written with a previous context.

Select a summary to read it, or the first row to read the whole text as the model received it. enter moves
into the text, esc back to the list.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "summaries", "previous", "rewrite-mode"))

    def __init__(self, conversation: Conversation, summary_id: SummaryId) -> None:
        super().__init__()
        self.given = GivenPane()
        self._conversation = conversation
        self._summary_id = summary_id

    def compose_body(self) -> ComposeResult:
        """The summaries and a text."""
        yield self.given

    def actions(self) -> Sequence[Action]:
        """Reading, choosing, and where a summary leads to."""
        return (
            Action("open", self.given.text.focus, self.given.why_nothing),
            Action("rewrite-mode", self._show_next_view, self.given.why_nothing),
            Action("summaries", self._show_in_dag),
            Action("previous", self._show_previous, self._why_no_previous),
        )

    def where(self) -> str:
        """Of which summary."""
        return f"Previous context of {self._summary_id}"

    def main_widget(self) -> LineView[SummaryId]:
        """The list."""
        return self.given.table

    def finder(self) -> Finder:
        """The search in the text."""
        return self.given.finder

    def step_back(self) -> bool:
        """Out of the text first."""
        if self.given.text.has_focus:
            self.given.table.focus()
            return True
        return super().step_back()

    def selected_id(self) -> str:
        """The selected summary; on the whole text the one that it was given for."""
        return self.given.selected or self._summary_id

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> PreviousData:
        """The two previous contexts and the summaries in them."""
        return await self.session.read(load_previous, self._summary_id)

    def show(self, data: PreviousData) -> None:
        """Show them; of a summary that is gone, go on showing what was read."""
        bar = self.query_one(TitleBar)
        if data.subject is None and self.given.data is not None:
            bar.note = "this summary is no longer in the database"
            return
        self.given.zone = self.session.zone
        self.given.show(data)
        bar.note = about(data.subject) if data.subject else ""

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.given.show_text()

    # -- commands ----------------------------------------------------------------------------------------

    def _show_next_view(self) -> None:
        """As given, for a rewrite, or what may have been given instead."""
        self.given.show_next_view()
        self.refresh_bars()

    def _show_in_dag(self) -> None:
        """Show the selected summary in the DAG."""
        self.open(places.Summaries(self._conversation, SummaryId(self.selected_id())))

    def _why_no_previous(self) -> str | None:
        if self.given.selected is None:
            return "select a summary first; this is the previous context already"
        return None

    def _show_previous(self) -> None:
        """Show the previous context of the selected summary."""
        if self.given.selected is not None:
            self.open(places.Previous(self._conversation, self.given.selected))
