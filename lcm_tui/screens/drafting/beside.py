"""The draft of the selected summary and its present text beside the list, where there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lcm_core.operations.drafting.items import BatchItem
from lcm_core.records import SummaryId, SummaryText
from lcm_core.store.summaries import texts_of
from textual.widget import Widget

from lcm_tui.panes.aside import Aside
from lcm_tui.panes.desk import Desk
from lcm_tui.panes.finding import TextFinder
from lcm_tui.widgets.text import Block, Document, heading

#: From this width of the terminal on, in cells.
WIDE: Final = 120
#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.06


class DraftBeside(Aside):
    """The list, and beside it the texts of what is selected."""

    def __init__(self, listed: Widget, desk: Desk, item: Callable[[], BatchItem | None]) -> None:
        """*item*: the one that is selected, as far as it has come at the moment."""
        super().__init__(listed, show_text=self.follow, beside=WIDE)
        self.finder = TextFinder(self.text)
        self._desk = desk
        self._item = item
        self._followed: BatchItem | None = None  #: whose texts are read, or shown
        self._shown: SummaryId | None = None

    def read_again(self) -> None:
        """The database has changed: what is there now may be another text."""
        self._followed = None
        self.follow()

    def follow(self) -> None:
        """Show the selected one, where there is room and it is another one or has come further."""
        if not self.text.display:
            return
        item = self._item()
        if item is None:
            self._followed = None
            self._desk.work_on("text", self._show_nothing)
        elif item is not self._followed:
            self._followed = item
            self._desk.work_on("text", self._read, item)

    async def _show_nothing(self) -> None:
        self._shown = None
        self.text.show(())

    async def _read(self, item: BatchItem) -> None:
        await asyncio.sleep(DETAIL_SECONDS)
        found = await self._desk.session.read(texts_of, [item.summary_id])
        await self.text.load(texts_document(item, found), keep_place=self._shown == item.summary_id)
        self._shown = item.summary_id


def texts_document(item: BatchItem, found: list[SummaryText]) -> Document:
    """The draft of a summary, and its present text: *found*, which is empty when it is gone."""
    blocks: list[Block] = []
    draft = item.draft or (item.drafts[-1] if item.drafts else None)
    if draft is not None:
        proposed = "Draft" if item.draft is not None else "Draft, not proposed"
        blocks += [heading(f"{proposed}, {draft.tokens:,} tokens, {draft.model}"), Block(draft.text), Block()]
    if not found:
        return (*blocks, Block(f"{item.summary_id} is no longer in the database.", "error"))
    one = found[0]
    return (*blocks, heading(f"Text now, {one.summary.tokens:,} tokens"), Block(one.content))
