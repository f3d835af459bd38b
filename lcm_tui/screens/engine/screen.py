"""The engine's own state in this file, conversation by conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.engine_work import ConversationWork, DebtState
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.engine_work import PreparedText
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.changes.close_debt import closing_debt
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.listing import Beside
from lcm_tui.screens.engine.panes import WorkList
from lcm_tui.screens.engine.reads import Found, load_texts, load_work
from lcm_tui.views.block_document import document_of
from lcm_tui.views.engine import conversation_work_blocks, prepared_blocks
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import TextView

#: How often ages and leases are counted again while nothing changes: a lease is a minute long.
LOOK_SECONDS: Final = 30.0


class EngineScreen(DataScreen[Found]):
    """What the engine prepares, owes and has committed."""

    HELP = """
The 1.x engine prepares summaries in the background and publishes them when a context reaches its threshold.
This screen shows what it stores for that: what is prepared or stuck, what would be published and what that
would replace, why a batch was lost, the compaction debt, how many messages are proven to come from the
transcript, and the last turn. ! marks rows that need attention; they come first.

enter opens the prepared texts. No model has received them: they are not part of the conversation until they
are published. x previews closing the debt of an ended conversation, which no engine ever pays; this screen
writes nothing else. Engines before 1.0 prepare nothing.
"""
    HERE: ClassVar[str] = "engine"
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "fix", "context", "summaries", "health", "history", "search")
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Prepared", "Read the prepared texts of this conversation; no model has received them."),
            "fix": ("Close debt", "Preview closing the debt of an ended conversation."),
        }
    )

    def __init__(self, conversation: Conversation | None = None) -> None:
        """Stand on *conversation*."""
        super().__init__()
        owner = None if conversation is None else conversation.conversation_id
        self.list = WorkList(self._say_count, owner)
        self.text = TextView(id="text")
        self._panes = Beside(self.list, self.text)
        self._texts: tuple[ConversationId, Sequence[PreparedText]] | None = None  #: that are being read
        self._shown: tuple[ConversationId, bool] | None = None  #: whose state, or prepared texts, are shown

    def compose_body(self) -> ComposeResult:
        """The list, and the state of what is selected."""
        yield self._panes

    def on_mount(self) -> None:
        """Count ages again from time to time."""
        self.set_interval(LOOK_SECONDS, self._look_again)

    def actions(self) -> Sequence[Action]:
        """Reading what is prepared, closing debt, and the views of the selected conversation."""
        return (
            Action("open", self._read_prepared, self._why_nothing_prepared),
            Action("fix", self._close_debt, self._why_no_closing),
            self._of_selected("context", places.Context),
            self._of_selected("summaries", places.Summaries),
            self._of_selected("health", partial(places.Health, only=True)),
            self._of_selected("history", partial(places.History, only=True)),
        )

    def where(self) -> str:
        """What this is about."""
        return "Engine"

    def main_widget(self) -> LineView[ConversationId]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter, or the search in the text when the keys are there."""
        return self._panes.finder

    def step_back(self) -> bool:
        """Leave what is prepared first."""
        if self._panes.leave_text():
            self._texts = None
            self._show_text()
            return True
        return super().step_back()

    def selected_id(self) -> str | None:
        """The conversation's id."""
        return None if self.list.selected is None else str(self.list.selected.conversation_id)

    async def fetch(self) -> Found:
        """The state of all conversations."""
        return await self.session.read(load_work)

    def show(self, data: Found) -> None:
        """Show it; the cursor stays on its conversation."""
        self.list.show(data)
        self._say_count()
        self._show_text()

    def _look_again(self) -> None:
        if self.app.screen is self:
            self.load()

    def _say_count(self) -> None:
        found = self.list.found
        self.title_bar.note = "" if found is None else self.list.counted(f"{len(found.by_id):,}")

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        one, found = self.list.selected, self.list.found
        if one is None or found is None:
            self.text.show(())
            return
        texts: Sequence[PreparedText] = ()
        if self._texts is not None and self._texts[0] == one.conversation_id:
            texts = self._texts[1]
        blocks = prepared_blocks(texts) or conversation_work_blocks(self._when, found.work, one)
        shown = (one.conversation_id, bool(texts))
        self.text.show(document_of(blocks), keep_place=shown == self._shown)
        self._shown = shown

    def _when(self, stored: str | None) -> str | None:
        return None if stored is None else moment_text(stored, self.session.zone)

    # -- commands ----------------------------------------------------------------------------------------

    def _of_selected(self, command: str, place: Callable[[Conversation], places.Place]) -> Action:
        """A command that opens a place of the selected conversation."""

        def go() -> None:
            if self.list.selected is not None:
                self.open(place(self.list.selected.conversation))

        return Action(command, go, self.list.why_none)

    def _why_nothing_prepared(self) -> str | None:
        one = self.list.selected
        if one is None:
            return self.list.why_none()
        texts = any(node.has_text for batch in one.batches for node in batch.nodes)
        return None if texts else "this conversation has no prepared text"

    async def _read_prepared(self) -> None:
        """Put the prepared texts in the place of the state, and the keys into them."""
        one = self.list.selected
        if one is None:
            return
        self._texts = (one.conversation_id, await self.session.read(load_texts, one))
        self._show_text()
        self.text.focus()

    def _why_no_closing(self) -> str | None:
        return self.list.why_none() if self.list.selected is None else why_no_closing(self.list.selected)

    def _close_debt(self) -> None:
        if self.list.selected is not None:
            self.open(places.Preview(closing_debt(self.list.selected.conversation)))


def why_no_closing(one: ConversationWork) -> str | None:
    """Why its debt cannot be closed; None when it can."""
    if one.debt is DebtState.INACTIVE:
        return None
    if one.debt in (DebtState.NONE, DebtState.CLOSED):
        return "this conversation owes no compaction"
    return "this conversation is active: its host pays the debt"
