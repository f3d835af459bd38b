"""What a batch of drafts is made of: found, chosen by the operator, and estimated before anybody is asked."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.errors import LcmError
from lcm_core.operations.drafting.items import BatchItem, select_items
from lcm_core.operations.drafting.saved import SavedDrafts, drafts_folder, unfinished
from lcm_core.operations.repair import CONTAMINATED, conversations_of, find_repair
from lcm_core.records import SummaryId
from lcm_core.summarize.cost import Forecast, total_forecast

from lcm_tui.dialogs.ask_again import AskAgain
from lcm_tui.dialogs.question import Question
from lcm_tui.drafts import NOTHING, Asked, Wanted, Work, author_like, author_of, worth_keeping
from lcm_tui.frame import DataScreen
from lcm_tui.panes.head import Head
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Block
from lcm_tui.writing import Modelling


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to do."""

    items: tuple[BatchItem, ...]
    author: Modelling
    kept: tuple[SavedDrafts, ...]  #: earlier batches that were not brought to their end


class Choosing(DataScreen[Found]):
    """A screen with a batch that has not begun yet, and with its work once it has."""

    def __init__(self, wanted: Wanted, title: str) -> None:
        super().__init__()
        self.wanted = wanted
        self._title = title
        self.head = Head(self.head_lines)
        self.table = LineView[SummaryId](self._draw, empty="Looking for them …", id="list")
        self.items: dict[SummaryId, BatchItem] = {}  #: before the batch begins
        self.marks: set[SummaryId] = set()
        self.author: Modelling | None = None
        self.asked = Asked()  #: how the operator wants it written
        self.forecast: Forecast | None = None
        self.estimating = ""
        self.work: Work | None = None
        self.kept: tuple[SavedDrafts, ...] = ()
        self.question_asked = False
        self._moved: set[SummaryId] = set()
        self._pausing = False
        self._leaving = False

    @abstractmethod
    def head_lines(self) -> Sequence[Line]:
        """What stands above the items."""

    @abstractmethod
    def _draw(self, key: SummaryId, width: int) -> Sequence[Line]:
        """What a summary looks like."""

    @abstractmethod
    def _say(self) -> None:
        """Say how it stands."""

    @property
    def all_items(self) -> Sequence[BatchItem]:
        """Every item, as it stands."""
        return self.work.batch.items if self.work is not None else tuple(self.items.values())

    # -- what there is to do -----------------------------------------------------------------------------

    async def fetch(self) -> Found:
        """The summaries that are meant; once a batch is made of them it is not read again."""
        if self.work is not None and self.author is not None:
            return Found(self.work.batch.items, self.author, ())
        author = await asyncio.to_thread(author_of, self.session.settings)
        path, kind = self.session.database.path, self.wanted.kind
        kept = await asyncio.to_thread(unfinished, drafts_folder(), path, kind)
        return Found(tuple(await self._items()), author, tuple(one for one in kept if self._is_mine(one)))

    def _is_mine(self, kept: SavedDrafts) -> bool:
        where = self.wanted.conversation_id
        here = where is None or any(item.conversation_id == where for item in kept.items)
        return len(kept.items) > 1 and here and worth_keeping(kept.items)

    async def _items(self) -> list[BatchItem]:
        wanted, read = self.wanted, self.session.read
        if wanted.summary_id is not None and wanted.conversation_id is not None:
            return await read(
                select_items, wanted.conversation_id, summary_ids=[wanted.summary_id], subtree=True
            )
        found: list[BatchItem] = []
        for one in await read(conversations_of, wanted.conversation_id):
            self.estimating = f"reading conversation {one} …"
            self.call_later(self.head.refresh)
            found += (await read(find_repair, one)).all_items
        self.estimating = ""
        return [item for item in found if item.reason != CONTAMINATED] + [
            item for item in found if item.reason == CONTAMINATED
        ]

    def show(self, data: Found) -> None:
        """List it; what is in the batch stays as the operator chose."""
        if self.work is not None:
            self.table.redraw()
            return
        first = not self.items
        before = set(self.items)
        self.author, self.kept = self.author or data.author, data.kept
        self.items = {item.summary_id: item for item in data.items}
        new = {one for one, item in self.items.items() if one not in before and item.reason != CONTAMINATED}
        self.marks = (self.marks & set(self.items)) | new
        self.table.empty = "Nothing is broken here." if self.wanted.kind == "repair" else "There is nothing."
        self.table.replace(list(self.items))
        if first and self.kept and not self.question_asked:
            self.question_asked = True
            self.work_on("kept", self._offer_kept, self.kept[0], exclusive=False)
        self._estimate()
        self._say()

    async def _offer_kept(self, kept: SavedDrafts) -> None:
        """An earlier batch was not brought to its end: go on with it?"""
        said = Block(
            f"A batch of {kept.header.made_at[:16].replace('T', ' ')} UTC has {kept.open_items:,} of "
            f"{len(kept.items):,} summaries left; its drafts are kept."
        )
        answers = (("enter", "go on with it"), ("n", "begin anew; the old drafts stay where they are"))
        answer = await self.app.push_screen_wait(
            Question("Go on with an earlier batch?", (said,), answers, decides=False)
        )
        if answer == "enter" and self.author is not None:
            self._make_work(list(kept.items), kept)
        self._say()

    def _estimate(self) -> None:
        if self.work is None and self.author is not None:
            self.work_on("estimate", self._estimated, self.author, sorted(self.marks))

    async def _estimated(self, author: Modelling, ids: Sequence[SummaryId]) -> None:
        """What the marked take, at most; nothing is sent."""
        self.forecast = None
        work = Work(self.session, author, [self.items[one] for one in ids], kind=self.wanted.kind)
        try:
            found: list[Forecast] = []
            for one in ids:
                self.estimating = f"estimating, {len(found):,} of {len(ids):,} …"
                self.head.refresh()
                found.append(await work.forecast(one))
            self.forecast = total_forecast(found) if found else NOTHING
        finally:
            self.estimating = ""
            await work.close()
        self._say()

    # -- choosing ----------------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Take the summary into the batch, or out of it."""
        key = self.table.selected
        if key is not None:
            self.marks ^= {key}
            self.table.redraw({key})
            self._estimate()
            self._say()

    def action_choice_1(self) -> None:
        """Take all contaminated consumers in, or out."""
        those = {item.summary_id for item in self.all_items if item.reason == CONTAMINATED}
        self.marks = self.marks - those if those <= self.marks else self.marks | those
        self.table.redraw()
        self._estimate()
        self._say()

    async def _choose_author(self, before: Modelling) -> None:
        """Ask who writes this batch, and estimate again; nobody is asked before the next question."""
        asked = await self.app.push_screen_wait(AskAgain("Who writes this batch?", before.words, self.asked))
        if asked is None:
            return
        self.asked = asked
        try:
            self.author = await asyncio.to_thread(author_like, self.session.settings, before, asked)
        except LcmError as error:
            self.app.notify(error.message, title="Not asked", severity="error", timeout=12)
            return
        self._estimate()
        self._say()

    def _make_work(self, items: Sequence[BatchItem], kept: SavedDrafts | None) -> Work:
        assert self.author is not None
        self.work = Work(
            self.session,
            self.author,
            items,
            kind=self.wanted.kind,
            kept=kept,
            instructions=self.asked.instructions,
        )
        self.work.listeners.append(self._item_changed)
        self.table.replace([item.summary_id for item in self.work.batch.items])
        return self.work

    def _item_changed(self, item: BatchItem) -> None:
        self._moved.add(item.summary_id)
