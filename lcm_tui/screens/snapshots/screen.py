"""The snapshots of a conversation's context: what an engine noted of each that it gave to its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.records import Conversation
from lcm_core.store.assemblies import Snapshot
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.links import to
from lcm_tui.actions.series import Series, row_actions
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.listing import Beside
from lcm_tui.places import Side
from lcm_tui.screens.snapshots.panes import SnapshotList
from lcm_tui.screens.snapshots.reads import Listed, load_snapshots
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import TextView


class SnapshotsScreen(DataScreen[Sequence[Listed]]):
    """What was kept of the contexts of one conversation."""

    HELP = """
The contexts that an engine sent to its host, newest first: when, under which budget, how many tokens and
messages, what was not sent, and where the messages came from. Only hosts using lcm_core's Python engine save
snapshots (the newest 20 of a conversation). A snapshot stores numbers and references, no text.

enter opens one: it is rebuilt from the rows that still exist, and its hash shows whether that is exactly what
was sent. D compares the selected snapshot (-) with the context as it is now under the same budget (+); with
two marked (space), the older one (-) with the newer one (+).
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "compare", "mark", "context", *STEPPED))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Show the context as it was sent, from the rows that still exist."),
            "compare": ("Compare", "Compare the selected one with now, or the two that are marked."),
            "mark": ("Mark", "Mark two snapshots, to compare them with each other."),
            "context": ("Context", "Show the context as it is now."),
        }
    )

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self.list = SnapshotList(self._changed)
        self.text = TextView(id="text")
        self._panes = Beside(self.list, self.text)
        self._series = Series("snapshot", lambda: self.list.table, self._place_of, newest_first=True)

    def compose_body(self) -> ComposeResult:
        """The list, and what was noted of the selected one."""
        yield self._panes

    def actions(self) -> Sequence[Action]:
        """Looking at one, and comparing."""
        return (
            Action("open", self._open_snapshot, self.list.why_not_selected),
            Action("mark", self._mark, self.list.why_not_selected),
            Action("compare", self._compare, self.list.why_not_compared),
            to(self, "context", places.Context(self.conversation)),
            *row_actions(self, "snapshot", lambda: self.list.table, newest_first=True),
        )

    def where(self) -> str:
        """Whose snapshots."""
        return f"Snapshots {self.session.called(self.conversation)}"

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter; in the text the search in it."""
        return self._panes.finder

    def step_back(self) -> bool:
        """Out of the text, then the filter away."""
        return self._panes.leave_text() or super().step_back()

    def selected_id(self) -> str | None:
        """The snapshot's id."""
        return self.list.table.selected

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Sequence[Listed]:
        """The newest."""
        return await self.session.read(load_snapshots, self.conversation.conversation_id)

    def show(self, data: Sequence[Listed]) -> None:
        """Show them; the selection stays on its snapshot."""
        self.list.zone = self.session.zone
        self.list.show(data)
        self._changed()

    @on(LineView.Highlighted, "#list")
    def _changed(self) -> None:
        """Another one is under the cursor, others are listed, or others are marked."""
        self.title_bar.note = self.list.count
        self.text.show(self.list.document())

    # -- commands ----------------------------------------------------------------------------------------

    def _open_snapshot(self) -> None:
        place = None if self.list.table.selected is None else self._place_of(self.list.table.selected)
        if place is not None:
            self.open(place, self._series)

    def _place_of(self, key: str) -> places.Place | None:
        """One that can be rebuilt."""
        one = self.list.by_id.get(key)
        return places.OneSnapshot(self.conversation, one) if isinstance(one, Snapshot) else None

    def _mark(self) -> None:
        if self.list.selected is not None:
            self.list.marks.turn([self.list.selected.id])
            self.refresh_bars()

    def _compare(self) -> None:
        """Compare two that are marked, or the selected one with the context as it is now."""
        number = self.conversation.conversation_id
        found = [Side(number, one.budget, snapshot_id=one.id) for one in self.list.compared]
        if found:
            now = Side(number, found[0].budget, "now", budget_of_snapshot=True)
            self.open(places.Comparison(found[0], found[1] if len(found) > 1 else now))
