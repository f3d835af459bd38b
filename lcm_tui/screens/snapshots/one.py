"""A context as an engine sent it once: its messages, as far as their rows still stand."""

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
from lcm_tui.actions.links import bound, item_links
from lcm_tui.actions.series import Series
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.aside import Aside
from lcm_tui.panes.finding import Finder
from lcm_tui.places import Side
from lcm_tui.screens.snapshots.panes import WHOLE, SentThen
from lcm_tui.screens.snapshots.reads import Rebuilt, load_snapshot, when_of
from lcm_tui.views.context_text import SHOWN
from lcm_tui.views.item import cut
from lcm_tui.views.sent import sent_columns
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Document


class SnapshotScreen(DataScreen[Rebuilt]):
    """What was sent then."""

    HELP = """
One context as an engine sent it, message by message, rebuilt from the rows that still exist. The first line
is the whole request; it says whether the rebuilt request matches the hash of what was sent. "sent" is the
token count recorded then; ✗ marks a message that no longer exists.

enter opens a message. D compares the snapshot (-) with the context as it is now under the same budget.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "compare", "summaries", "previous", *STEPPED)
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Open the selected message, or the record of the whole request."),
            "compare": ("Compare", "Compare it with the context as it is now, under the same budget."),
        }
    )

    def __init__(self, conversation: Conversation, one: Snapshot) -> None:
        super().__init__()
        self.conversation = conversation
        self.one = one
        self.list = SentThen(one)
        self._series = Series("message", lambda: self.list.table, self._place_of)
        self._aside = Aside(Heading(sent_columns, id="heading"), self.list.table, show_text=self._show_text)
        self.text = self._aside.text

    def compose_body(self) -> ComposeResult:
        """The messages, and beside them, where there is room, the text of the selected one."""
        yield self._aside

    def actions(self) -> Sequence[Action]:
        """Looking at a message, comparing, and where it leads to."""
        return bound(
            self,
            Action("open", self._open_message, self._why_not_open),
            Action("compare", self._compare),
            *item_links(self, self.conversation, item=self.list.item, seq=lambda: None),
        )

    def where(self) -> str:
        """Which one."""
        return f"Snapshot {self.conversation.conversation_id}  {self._time}"

    def main_widget(self) -> LineView[int]:
        """The messages."""
        return self.list.table

    def finder(self) -> Finder:
        """The search among the messages."""
        return self.list.finder

    def selected_id(self) -> str | None:
        """The id of what is selected."""
        return self.list.selected_id()

    def on_mount(self) -> None:
        """Say under which budget it was sent."""
        self.title_bar.note = f"under {self.one.budget:,} tokens"

    @property
    def _time(self) -> str:
        return when_of(self.one, self.session.zone)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Rebuilt:
        """Put it together from what stands now."""
        return await self.session.read(load_snapshot, self.one, self.session.engine_zone)

    def show(self, data: Rebuilt) -> None:
        """Show it; the cursor stays on its message."""
        self.list.show(data)
        self._show_text()

    @on(LineView.Highlighted, "#list")
    def _show_text(self) -> None:
        document = self._document()
        if self.text.display and document is not None:
            self.text.show(cut(document, SHOWN))

    def _document(self) -> Document | None:
        return self.list.document(self._time)

    # -- commands ----------------------------------------------------------------------------------------

    def _why_not_open(self) -> str | None:
        return "the snapshot is still being read" if self._document() is None else None

    def _open_message(self) -> None:
        """Show it whole."""
        if self.list.table.selected is not None:
            place = self._place_of(self.list.table.selected)
            if place is not None:
                self.open(place, self._series)

    def _place_of(self, key: int) -> places.Place | None:
        document, item = self.list.document(self._time, key), self.list.item(key)
        if document is None:
            return None
        name = self.one.id if key == WHOLE else "synthetic" if item is None else str(item)
        return places.Sent(self.conversation, name, document, item, None, f"sent {self._time[:16]}")

    def _compare(self) -> None:
        """Compare with the context as it is now."""
        one = self.one
        then = Side(one.conversation_id, one.budget, snapshot_id=one.id)
        now = Side(one.conversation_id, one.budget, "now", budget_of_snapshot=True)
        self.open(places.Comparison(then, now))
