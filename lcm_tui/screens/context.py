"""The context of a conversation: what the model sees, in order, and how much of the budget it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import ClassVar, Final

from lcm_core.budget import parse_budget, step
from lcm_core.context_reading import Fetched, FoundOverlay, find_item, read_context
from lcm_core.context_view import RowKey, TailRule
from lcm_core.known_context import KnownContext, stands_for_item
from lcm_core.records import Conversation
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry, ItemId
from lcm_core.tokens import TokenCheck
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from lcm_tui.commands import bindings
from lcm_tui.screens.base import DataScreen
from lcm_tui.screens.context_lines import columns, findings_line, item_line, line_between
from lcm_tui.screens.context_pane import between_document, item_document
from lcm_tui.screens.item_links import ItemLinks
from lcm_tui.screens.item_text import load_item
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.composition import CompositionBar, Measured
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Document, TextView, mark

#: Items that the list shows before it has read how many there are.
FIRST: Final = 2_000
#: Items whose weight, or whose text for a search, is read at a time.
PAGE: Final = 1_000
SEARCH_PAGE: Final = 400
#: Entries that are kept.
KEPT: Final = 3_000
#: From this width on, the text of what is selected stands beside the list.
WIDE: Final = 110
#: The cursor rests this long on an item before its text is read.
DEBOUNCE_SECONDS: Final = 0.05
#: The pause between pages that only verify what is known.
VERIFY_SECONDS: Final = 0.05


class ContextScreen(ItemLinks, DataScreen[Fetched]):
    """What the model sees of one conversation."""

    HELP = """
What the model sees of this conversation, in order: summaries (L made from messages, D1 D2 D3 condensed), then
raw messages. "tokens" are the engine's stored counts; 202 ≠ ~187 means that neither of its two rules gives
the stored count for the text that is there. "total" adds them up from the top. … has not been read yet.

The bar shows what the context is made of, to its own scale; the gauge below it how much of the budget that
takes. + and - change the budget, B types one.

Lines between items say where ordinals are missing (a host may prune on purpose), where the fresh tail begins
(the newest messages, which compaction may not touch), and where the engine sends a focus brief instead of the
summaries marked ┆. ✗ marks an item with something wrong: its row is gone (the engine skips it), it stands
twice, it belongs to another conversation, its ordinal or its type makes no sense.

enter shows an item whole; m switches between its text and what the model gets. / searches ids, kinds and
previews.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "summaries", "previous", "messages", "briefs", "budget", "wrapped", "files"),
            *("budget-more", "budget-less"),
        )
    )
    DEFAULT_CSS = """
    ContextScreen {
        #panes { height: 1fr; }
        #chosen { width: 3fr; }
        #text { width: 2fr; border-left: solid $foreground 30%; }
    }
    """

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
        self._overlay: FoundOverlay | None = None
        self._shown: tuple[RowKey, bool] | None = None
        self._wrapped = False
        self._filling = False
        self._needle = ""
        self._asking_budget = False

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The head, the list, and the text of what is selected."""
        self.text.display = self.app.size.width >= WIDE
        yield self.head
        with Horizontal(id="panes"):
            with Vertical(id="chosen"):
                yield Heading(columns, id="heading")
                yield self.table
            yield self.text

    @property
    def known(self) -> KnownContext:
        """What has been read of the context."""
        if self._known is None:
            engine = self.session.settings.engine
            count, tokens = engine.fresh_tail_count, engine.fresh_tail_max_tokens
            rule = TailRule(self.session.rules, count.value if count.is_set else None, tokens.value)
            self._known = KnownContext(self._conversation_id, rule)
        return self._known

    def main_widget(self) -> LineView[RowKey]:
        """The list."""
        return self.table

    def on_mount(self) -> None:
        """Say where this is."""
        self.query_one(TitleBar).where = f"Context {self._conversation_id}  {self.conversation.lane}"
        self.table.focus()

    def on_resize(self) -> None:
        """Show the pane where it has room (a class for that would style the whole screen again)."""
        fits = self.app.size.width >= WIDE
        if self.text.display != fits:
            self.text.display = fits
            self.call_after_refresh(self._show_text)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Fetched:
        """What changed, and what is in sight; the first time no more than the beginning."""
        return await self.session.read(
            read_context,
            self.known,
            sight={item for _, item in self._in_sight()},
            select=self._select,
            limit=None if self._loaded or self._select else FIRST,
            overlay=self._overlay,
            zone=self.session.zone,
        )

    def show(self, data: Fetched) -> None:
        """Show it; selection and place are kept by key."""
        known, first = self.known, not self._loaded
        complete = data.view.items.complete
        self._loaded, self._overlay = True, data.overlay
        known.adopt(data.view)
        known.learn(data.weights)
        self._outdated = set(self._entries) - set(data.entries)
        self._learn_entries(data.entries.values())
        self.table.empty = self._why_empty()
        self._redraw(data.selected)
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
            while ids := known.unread(PAGE) or known.unverified(PAGE):
                verifying = known.totals is not None
                changed = known.learn(await self.session.read(store.weights_of, ids))
                if changed or not verifying:
                    self._redraw()
                if verifying:
                    await asyncio.sleep(VERIFY_SECONDS)
        finally:
            self._filling = False

    def _redraw(self, select: RowKey | None = None) -> None:
        """Show what is known now."""
        known = self.known
        if not self.table.is_attached:
            return
        if self.table.keys is not known.view.keys or select is not None:
            self.table.replace(known.view.keys, select=select)
        else:
            self.table.redraw()
            self._show_text()
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

    def _in_sight(self) -> list[tuple[RowKey, ItemId]]:
        """The visible lines that show items, and the items."""
        found = []
        for key in self.table.visible_keys:
            place = self._place_of(key) if stands_for_item(key) else None
            if place is not None:
                found.append((key, self.known.view.items.ids[place]))
        return found

    def _place_of(self, key: RowKey | None) -> int | None:
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
        items, lines = self.known.view.items, self._in_sight()
        wanted = [
            self._place_of(key) for key, item in lines if item in self._outdated or item not in self._entries
        ]
        places = [place for place in wanted if place is not None]
        if places:
            entries = await self.session.read(store.entries_of, [items.item(place) for place in places])
            self._learn_entries(entries)
            self.table.redraw([key for key, _ in lines])
        for key, item in lines:
            entry = self._entries.get(item)
            known = self._checks.get(item)
            if entry is None or entry.dangling or (known is not None and _same_text(known[0], entry)):
                continue
            check = await self.session.read(store.check_tokens, item)
            self._checks[item] = (entry, check)
            self.table.redraw([key])

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
        place = self._place_of(key)
        if place is None:
            return ((),)
        item = self.known.view.items.ids[place]
        check = self._checks.get(item)
        line = item_line(
            self.known, place, self._entries.get(item), check[1] if check else None, datetime.now(UTC), width
        )
        return (mark(line, self._needle) if self._needle else line,)

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()
        self.refresh_bars()

    def _show_text(self) -> None:
        """Show what is selected in the pane, when there is one; what stands there stays until then."""
        key = self.table.selected
        if not self.text.display or key is None:
            return
        if stands_for_item(key):
            self.work_on("text", self._load_text, key)
        else:
            self._show_document(key, between_document(self.known, key))

    async def _load_text(self, key: RowKey) -> None:
        if self._shown is None or self._shown[0] != key:
            await asyncio.sleep(DEBOUNCE_SECONDS)
        place = self._place_of(key)
        if place is None:
            return
        data = await self.session.read(load_item, self.known.view.items.ids[place])
        place = self._place_of(key)
        if place is not None and self.table.selected == key:
            document = item_document(self.known, place, data, self.session, wrapped=self._wrapped)
            self._show_document(key, document)

    def _show_document(self, key: RowKey, document: Document) -> None:
        shown = (key, self._wrapped)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- searching ---------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search as you type."""
        self._asking_budget = False
        self.ask("search: an id, a kind, or words of a preview", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """A search or a budget was typed."""
        if self._asking_budget:
            if done:
                self._set_budget(text)
            return
        self._needle = text
        self.table.redraw()
        if text and not done:
            self._find(forward=True, include=True, quiet=True)
        elif text:
            self._find(forward=True, include=True)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(forward=True)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(forward=False)

    def _find(self, *, forward: bool, include: bool = False, quiet: bool = False) -> None:
        self.work_on("search", self._search, self._needle, forward, include, quiet)

    async def _search(self, needle: str, forward: bool, include: bool, quiet: bool) -> None:
        """Go to the nearest match, round the end of the list when need be; pages are read on the way."""
        items = self.known.view.items
        at = self._place_of(self.table.selected) or 0
        onward = [*range(at, len(items)), *range(at)]
        order = onward if forward else [at, *reversed(onward[1:])]
        order = order if include else [*order[1:], at]
        for start in range(0, len(order), SEARCH_PAGE):
            places = order[start : start + SEARCH_PAGE]
            place = await self.session.read(find_item, items, needle, places)
            if place is not None:
                self._go_to(items.ids[place], items.ordinals[place])
                return
        if not quiet:
            self.app.notify(f"No item of this context holds “{needle}”.", timeout=3)

    def _go_to(self, item: ItemId, ordinal: int) -> None:
        """Stand on an item, wherever it has moved to meanwhile."""
        view = self.known.view
        for key, place in zip(view.keys, view.places, strict=True):
            if (
                stands_for_item(key)
                and view.items.ids[place] == item
                and (item not in view.structure.ordinals_of or view.items.ordinals[place] == ordinal)
            ):
                self.table.select(key)
                return

    async def action_back(self) -> None:
        """End a search first, then leave."""
        if not self.asking and self._needle:
            self._needle = ""
            self.table.redraw()
        else:
            await super().action_back()

    # -- the budget --------------------------------------------------------------------------------------

    def action_budget(self) -> None:
        """Ask for the budget."""
        self._asking_budget = True
        self.ask("budget in tokens: 128000, 128k or 1m", str(self.session.budget))

    def action_budget_more(self) -> None:
        """Raise the budget by a step."""
        self._set_budget(str(step(self.session.budget, 1)))

    def action_budget_less(self) -> None:
        """Lower the budget by a step."""
        self._set_budget(str(step(self.session.budget, -1)))

    def _set_budget(self, text: str) -> None:
        budget = parse_budget(text)
        if budget is None:
            self.app.notify(f"“{text}” is no number of tokens: write 128000, 128k or 1m.", severity="warning")
        else:
            self.session.budget = budget
            self._redraw()

    # -- commands ----------------------------------------------------------------------------------------

    def linked_item(self) -> ItemId:
        """The item under the cursor; None on a line between items."""
        key = self.table.selected
        place = self._place_of(key) if key is not None and stands_for_item(key) else None
        return None if place is None else self.known.view.items.ids[place]

    def linked_seq(self) -> int | None:
        """The seq of the message under the cursor."""
        entry = self._entries.get(self.linked_item())
        return None if entry is None else entry.seq

    def selected_id(self) -> str | None:
        """The summary's or message's id, or the brief's."""
        key = self.table.selected
        if key is not None and key[0] == "brief":
            return str(key[1])
        item = self.linked_item()
        return None if item is None else str(item)

    def why_not(self, command: str) -> str | None:
        """Some commands need a summary or a message under the cursor."""
        match command:
            case "open" if self.selected_id() is None:
                return "no item is selected" if self._loaded else "the context is still being read"
            case "wrapped" if not self.text.display:
                return "a text has no room beside this list: enter opens the item, and m switches there"
            case "next" | "previous-match" if not self._needle:
                return "nothing has been searched for yet"
            case _:
                return super().why_not(command)

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Show the item whole; of a brief, all briefs."""
        item = self.linked_item()
        if item is None:
            self.action_briefs()
            return
        from lcm_tui.screens.item import ItemScreen

        self.app.push_screen(ItemScreen(self.conversation, item, wrapped=self._wrapped))

    def action_wrapped(self) -> None:
        """Switch the pane between the text and what the model gets."""
        self._wrapped = not self._wrapped
        self._show_text()


def _same_text(before: ContextEntry, now: ContextEntry) -> bool:
    """Whether a count that was checked for one entry holds for the other, as far as one can see."""
    return before.tokens == now.tokens and before.preview == now.preview
