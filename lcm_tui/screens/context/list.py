"""A context as a list that is read while it is looked at; its keys and the text beside it: `context`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from lcm_core.assemble.ledger import Ledger
from lcm_core.context_items import ItemId
from lcm_core.context_view import (
    Fetched,
    FoundOverlay,
    KnownContext,
    RowKey,
    goes_on,
    moved_tail,
    read_context,
    stands_for_item,
)
from lcm_core.records import Conversation, SummaryId
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry
from lcm_core.tokens import TokenCheck
from textual import on

from lcm_tui.actions.dissolve import why_not_dissolved
from lcm_tui.frame import DataScreen
from lcm_tui.screens.dissolving import MARK, Dissolving
from lcm_tui.screens.item_links import ItemLinks
from lcm_tui.screens.rewriting import Rewriting
from lcm_tui.views.context import age_text, findings_line, item_line, line_between
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.composition import CompositionBar, Measured
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import TextView, mark

#: Items that the list shows before it has read how many there are.
FIRST: Final = 2_000
#: Items whose weight is read at a time.
PAGE: Final = 1_000
#: Items that are verified at a time: between two keys.
VERIFIED: Final = 400
#: Entries that are kept.
KEPT: Final = 3_000
#: From this width on, the text of what is selected stands beside the list.
WIDE: Final = 110
#: The pause between pages that only verify what is known.
VERIFY_SECONDS: Final = 0.02


class ContextList(Dissolving, Rewriting, ItemLinks, DataScreen[Fetched]):
    """The items of one conversation's context, what they weigh, and those in sight with a preview."""

    def __init__(self, conversation: Conversation, *, select: tuple[str, ...] | None = None) -> None:
        """The context of *conversation*, standing on ``("summary", id)`` or ``("message", id)``."""
        super().__init__()
        self.conversation = conversation
        self._conversation_id = conversation.conversation_id
        self.head = CompositionBar(id="head")
        self.table = LineView[RowKey](self._draw, empty="Reading the database …", id="list")
        self.text = TextView(id="text")  #: what is selected; not shown on a narrow screen
        self._select = select
        self._known: KnownContext | None = None
        self._loaded = False
        self._entries: dict[ItemId, ContextEntry] = {}
        self._outdated: set[ItemId] = set()
        self._checks: dict[ItemId, tuple[ContextEntry, TokenCheck | None]] = {}
        self._ages: dict[RowKey, str] = {}  #: of the rows that were drawn, in the words they were drawn in
        self._overlay: FoundOverlay | None = None
        self._filling = False
        self._needle = ""  #: what is marked in the list
        self.ledger: Ledger | None = None  #: what becomes of the items; None: not known yet

    # -- layout ------------------------------------------------------------------------------------------

    @property
    def known(self) -> KnownContext:
        """What has been read of the context."""
        if self._known is None:
            self._known = KnownContext(self._conversation_id, self.session.rules.tail)
        return self._known

    def on_mount(self) -> None:
        """Say where this is."""
        self.query_one(TitleBar).where = f"Context {self._conversation_id}  {self.conversation.lane}"
        self.table.focus()

    def on_resize(self) -> None:
        """Show the pane where it has room (a class for that would style the whole screen again)."""
        fits = self.app.size.width >= WIDE
        if self.text.display != fits:
            self.text.display = fits
            self.call_after_refresh(self.show_text)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Fetched:
        """What changed, and what is in sight; the first time no more than the beginning."""
        return await self.session.read(
            read_context,
            self.known,
            sight={item: place for _, item, place in self._in_sight()},
            select=self._select,
            limit=None if self._loaded or self._select else FIRST,
            overlay=self._overlay,
            zone=self.session.zone,
        )

    def show(self, data: Fetched) -> None:
        """Show it; selection and place are kept by key."""
        known, first = self.known, not self._loaded
        alike, tail = self._rows_alike(data), known.view.tail
        complete = data.view.items.complete
        self._loaded, self._overlay = True, data.overlay
        known.adopt(data.view)
        if known.learn(data.weights):
            alike = []
        moved = moved_tail(tail, known.view.tail)
        self._outdated = set(self._entries) - set(data.entries)
        self._learn_entries(data.entries.values())
        self.table.empty = self._why_empty()
        self.show_known(data.selected, [key for key, ordinal in alike if ordinal not in moved])
        self.table.mark_fresh(data.fresh)
        if first and self._select is not None and data.selected is None:
            self.app.notify(f"{self._select[-1]} does not stand in this context.", severity="warning")
        self._select = None
        self._read_sight()
        if not complete:
            self.call_later(self.load)
        elif not self._filling:
            self._filling = True
            self.work_on("fill", self._fill)

    def _why_empty(self) -> str:
        if not self.session.database.schema.has("context_items"):
            return "This file has no table of context items: the model's context is not recorded."
        return "The context is empty: the model sees nothing of this conversation."

    async def _fill(self) -> None:
        """Read what the items weigh, from the top; then verify what was known before the last change."""
        known = self.known
        try:
            while ids := known.unread(PAGE) or known.unverified(VERIFIED):
                verifying = known.totals is not None
                if verifying:
                    await self.calm()
                changed = known.learn(await self.session.read(store.weights_of, ids))
                if changed or not verifying:
                    self.show_known()
                if verifying:
                    await asyncio.sleep(VERIFY_SECONDS)
        finally:
            self._filling = False

    def _rows_alike(self, data: Fetched) -> list[tuple[RowKey, int]]:
        """The rows in sight, each with its ordinal, that look as they do now when *data* is shown.

        Under a busy host these are nearly all, but for those that join or leave the fresh tail.
        """
        known, before = self.known, self.known.view
        if not goes_on(before, data.view):
            return []
        return [
            (key, before.items.ordinals[place])
            for key, item, place in self._rows_as_old()
            if place < known.read and item in data.entries and data.entries[item] == self._entries.get(item)
        ]

    def _rows_as_old(self) -> list[tuple[RowKey, ItemId, int]]:
        """The rows in sight, as `_in_sight`, whose age is still in the words in which it was drawn."""
        now = datetime.now(UTC)
        return [
            (key, item, place)
            for key, item, place in self._in_sight()
            if self._ages.get(key) == age_text(self._entries.get(item), now)
        ]

    def show_known(self, select: RowKey | None = None, alike: Iterable[RowKey] = ()) -> None:
        """Show what is known now; rows that are *alike* look as they do."""
        known = self.known
        if not self.table.is_attached:
            return
        if self.table.keys is not known.view.keys or select is not None:
            self.table.replace(known.view.keys, select=select, alike=alike)
        else:
            self.table.redraw(alike=alike)
            self.show_text()
        items = known.view.items
        self.head.measure(
            Measured(
                len(items),
                self.session.budget,
                known.totals,
                known.view.tail,
                findings_line(known),
                read=known.read,
                counting=not items.complete,
            )
        )

    # -- what is in sight --------------------------------------------------------------------------------

    def _in_sight(self, pages: int = 0) -> list[tuple[RowKey, ItemId, int]]:
        """The visible lines that show items, the items and their places; *pages*: so many above and below."""
        found = []
        for key in self.table.keys_near(pages):
            place = self.place_of(key) if stands_for_item(key) else None
            if place is not None:
                found.append((key, self.known.view.items.refs[place], place))
        return found

    def place_of(self, key: RowKey | None) -> int | None:
        """The place of the item that a line shows, or that follows it."""
        line = self.table.index_of(key) if key is not None else None
        view = self.known.view
        if line is None or line >= len(view.places) or view.places[line] >= len(view.items):
            return None
        return view.places[line]

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self._read_sight()

    def _read_sight(self) -> None:
        self.work_on("sight", self._read_entries)

    async def _read_entries(self) -> None:
        """Read previews for the lines in sight, then whether their token counts are the engine's."""
        await self._read_lines(self._in_sight())
        # Paging finds its lines read.
        await self._read_lines(self._in_sight(pages=1))
        for key, item, _ in self._in_sight():
            entry = self._entries.get(item)
            known = self._checks.get(item)
            if entry is None or entry.dangling or (known is not None and _same_text(known[0], entry)):
                continue
            check = await self.session.read(store.check_tokens, item)
            self._checks[item] = (entry, check)
            if check != (known[1] if known else None):
                self.table.redraw([key])

    async def _read_lines(self, lines: Sequence[tuple[RowKey, ItemId, int]]) -> None:
        """Read the previews of these lines, as far as they are not known."""
        items = self.known.view.items
        places = [place for _, item, place in lines if item in self._outdated or item not in self._entries]
        if not places:
            return
        entries = await self.session.read(store.context_entries, [items.item(place) for place in places])
        before = {item: self._entries.get(item) for _, item, _ in lines}
        self._learn_entries(entries)
        weights = {items.refs[place]: entry.weight for place, entry in zip(places, entries, strict=True)}
        if self.known.learn(weights) or self.table.keys is not self.known.view.keys:
            self.show_known()
        self.table.redraw([key for key, item, _ in lines if self._entries.get(item) != before[item]])

    def _learn_entries(self, entries: Iterable[ContextEntry]) -> None:
        """Take in what was read; of too many, those that were read first are let go."""
        for entry in entries:
            item = entry.item.summary_id or entry.item.message_id
            self._entries.pop(item, None)
            self._entries[item] = entry
            self._outdated.discard(item)
        for item in list(islice(self._entries, max(0, len(self._entries) - KEPT))):
            del self._entries[item]
            self._checks.pop(item, None)

    def _draw(self, key: RowKey, width: int) -> Sequence[Line]:
        if not stands_for_item(key):
            return (line_between(self.known, key, width),)
        place = self.place_of(key)
        if place is None:
            return ((),)
        item, now = self.known.view.items.refs[place], datetime.now(UTC)
        check, entry = self._checks.get(item), self._entries.get(item)
        if len(self._ages) > KEPT:
            self._ages.clear()
        self._ages[key] = age_text(entry, now)
        line = item_line(
            self.known,
            place,
            entry,
            check[1] if check else None,
            now,
            width,
            mark=MARK if item in self.marks else "",
            ledger=self.ledger,
        )
        return (mark(line, self._needle) if self._needle else line,)

    def show_text(self) -> None:
        """Show what is selected beside the list."""

    # -- changes -------------------------------------------------------------------------------------------

    def markable(self) -> SummaryId | None:
        """The summary under the cursor."""
        return self.linked_summary()

    def rewritable(self) -> SummaryId | None:
        """The summary under the cursor; not the one that covers a message."""
        item = self.linked_item()
        return SummaryId(item) if isinstance(item, str) else None

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What has been read of it: a leaf, or standing twice."""
        entry = self._entries.get(summary_id)
        standing = self.known.view.items.repeated.get(summary_id, (0,))
        return why_not_dissolved(entry.kind == "leaf" if entry else None, len(standing), below)

    def marks_changed(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        del summary_ids
        self.table.redraw()
        self.query_one(TitleBar).note = self.marked_text()

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary or a message once it has been read."""
        self._select = ("summary", ref) if isinstance(ref, str) else ("message", str(ref))
        self.load()


def _same_text(before: ContextEntry, now: ContextEntry) -> bool:
    """Whether a count that was checked for one entry holds for the other, as far as one can see."""
    return before.tokens == now.tokens and before.preview == now.preview
