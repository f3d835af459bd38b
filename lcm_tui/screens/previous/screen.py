"""Previous context: what the model was given of earlier summaries when it made one, as far as can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.records import Conversation, SummaryId
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.screens.previous.documents import about
from lcm_tui.screens.previous.panes import GivenPane
from lcm_tui.screens.previous.reads import PreviousData, load_previous
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
into the text, esc back to the list; m shows the whole text alone. [ and ] go to the previous context of the
leaf that was made before and after. D compares what was given (-) with what a rewrite would be given (+).
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "rewrite-mode", "other-view", "compare", "summaries", "previous", *STEPPED)
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "rewrite-mode": (
                "For rewrite",
                "Switch between what was given, what a rewrite would be given, and what may have been given.",
            ),
            "other-view": ("As text", "Show the whole text alone, or the summaries above it again."),
            "compare": ("Compare", "Compare what was given with what a rewrite would be given now."),
            "hunk-previous": ("Previous leaf", "Show the previous context of the leaf that was made before."),
            "hunk-next": ("Next leaf", "Show the previous context of the leaf that was made next."),
        }
    )

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
            Action("other-view", self._turn_form, self.given.why_nothing),
            Action("compare", self._compare, self.given.why_nothing),
            Action("hunk-previous", lambda: self._go(-1), self._why_unread),
            Action("hunk-next", lambda: self._go(1), self._why_unread),
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
        if self.given.as_text:
            self._turn_form()
            return True
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
        bar = self.title_bar
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

    def _turn_form(self) -> None:
        """As a list with a text, or as one text."""
        self.given.show_as_text(not self.given.as_text)
        self.refresh_bars()

    def title_now(self, command: str) -> str:
        """`m` and `w` say what they give."""
        if command == "other-view" and self.given.as_text:
            return "As list"
        return super().title_now(command)

    def _compare(self) -> None:
        self.open(places.PreviousComparison(self._summary_id))

    def _why_unread(self) -> str | None:
        return "still loading: try again in a moment" if self.given.data is None else None

    def _go(self, direction: int) -> None:
        """Show the previous context of the leaf that was made before this one, or after it."""
        data = self.given.data
        beside = None if data is None else data.before if direction < 0 else data.after
        if beside is None:
            end = "first" if direction < 0 else "last"
            self.app.notify(f"This is the {end} leaf of the conversation.", timeout=3)
            return
        following = self.open_instead(places.Previous(self._conversation, beside))
        if isinstance(following, CommandScreen):
            following.go_on_from(self)

    def go_on_from(self, before: CommandScreen) -> None:
        """The same one of the previous contexts, as a list or as one text."""
        if isinstance(before, PreviousScreen):
            self.given.show_view(before.given.place)
            if before.given.as_text:
                self.call_after_refresh(self._turn_form)

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
