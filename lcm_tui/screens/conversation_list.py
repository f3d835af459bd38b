"""A list of the conversations of a database: the first screen, and the choice of a target."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationEntry

from lcm_tui.screens.base import DataScreen
from lcm_tui.screens.conversation_rows import COLUMNS, Row, RowFilter, RowKey, cells_of, ordered
from lcm_tui.screens.listing import FilterScreen
from lcm_tui.widgets.spans import Column, Span


class ConversationList(FilterScreen[RowKey], DataScreen[list[ConversationEntry]]):
    """Conversations, newest activity first."""

    FILTER = "words in any column"

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self._rows: dict[RowKey, Row] = {}
        self._sort = "activity"
        self._turned = False
        self._holding = RowFilter()

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(store.list_conversations)

    def columns(self) -> Sequence[Column]:
        """All that is known of a conversation."""
        return COLUMNS

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
