"""A list of the conversations of a database: the first screen, and the choice of a target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationEntry
from textual import on

from lcm_tui.frame import DataScreen
from lcm_tui.screens.conversation_rows import COLUMNS, Row, RowFilter, RowKey, cells_of, ordered
from lcm_tui.screens.listing import FilterScreen
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Layout, Span, lay_out_in_turn


@lru_cache(maxsize=16)
def _layouts(columns: tuple[Column, ...], width: int) -> Sequence[Layout]:
    """The columns, as many at a time as have room; asked for each row."""
    return lay_out_in_turn(columns, width)


class ConversationList(FilterScreen[RowKey], DataScreen[list[ConversationEntry]]):
    """Conversations, newest activity first."""

    FILTER = "words in any column"

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self._rows: dict[RowKey, Row] = {}
        self._sort = "activity"
        self._turned = False
        self._holding = RowFilter()
        self._turn = 0  #: which lot of the columns is shown, where there is no room for all

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(store.list_conversations)

    def columns(self) -> tuple[Column, ...]:
        """All that is known of a conversation."""
        return COLUMNS

    def beyond(self, width: int) -> str:
        """Which way there are more columns."""
        last = len(_layouts(self.columns(), width)) - 1
        return "" if not last else "›" if self._turn <= 0 else "‹" if self._turn >= last else "↔"

    def _layout(self, width: int) -> Layout:
        layouts = _layouts(self.columns(), width)
        return layouts[min(self._turn, len(layouts) - 1)]

    @on(LineView.Sided, "#list")
    def _sided(self, event: LineView.Sided) -> None:
        """Show the columns at that side."""
        width = self.table.scrollable_content_region.width
        last = len(_layouts(self.columns(), width)) - 1
        turn = max(0, min(self._turn + event.side, last))
        if turn != self._turn:
            self._turn = turn
            self.table.redraw()
            self.refresh_bars()

    def cells(self, key: RowKey) -> dict[str, Span]:
        """What is known so far."""
        return cells_of(self._rows[key], self.session.zone)

    def matching(self, words: Sequence[str]) -> Sequence[RowKey]:
        """The rows that hold the words in any column, sorted."""
        keys = self._holding.passing(self._rows, words, self.session.zone)
        return ordered(self._rows, keys, self._sort, turned=self._turned)

    def note(self) -> str:
        """How many."""
        return self.counted(f"{len(self._rows):,}")
