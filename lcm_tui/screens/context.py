"""The context of a conversation: what the model sees, in order, and how much of the budget it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.budget import parse_budget, step
from lcm_core.context_reading import find_item
from lcm_core.context_view import RowKey
from lcm_core.known_context import stands_for_item
from lcm_core.records import Conversation
from lcm_core.store.context import ItemId
from textual import on
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.context_list import ContextList
from lcm_tui.screens.context_pane import between_document, item_document
from lcm_tui.screens.item_text import load_item
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Document

#: Items whose text is read at a time for a search.
SEARCH_PAGE: Final = 400
#: The cursor rests this long on an item before its text is read.
DEBOUNCE_SECONDS: Final = 0.05


class ContextScreen(ContextList):
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
        super().__init__(conversation, select=select)
        self._shown: tuple[RowKey, bool] | None = None
        self._wrapped = False
        self._origin = 0  #: the place from which a search began
        self._asking_budget = False

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.show_text()
        self.refresh_bars()

    def show_text(self) -> None:
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
        place = self.place_of(key)
        if place is None:
            return
        data = await self.session.read(load_item, self.known.view.items.ids[place])
        place = self.place_of(key)
        if place is not None and self.table.selected == key:
            document = item_document(self.known, place, data, self.session, wrapped=self._wrapped)
            self._show_document(key, document)

    def _show_document(self, key: RowKey, document: Document) -> None:
        shown = (key, self._wrapped)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- searching ---------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search as you type, from where the cursor stands now."""
        self._asking_budget = False
        self._origin = self.place_of(self.table.selected) or 0
        self.ask("search: an id, a kind, or words of a preview", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """A search or a budget was typed."""
        if self._asking_budget:
            if done:
                self._set_budget(text)
            return
        self._needle = text
        self.table.redraw()
        if text:
            self.work_on("search", self._search, text, self._around(self._origin, forward=True), not done)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(forward=True)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(forward=False)

    def _find(self, *, forward: bool) -> None:
        here, *others = self._around(self.place_of(self.table.selected) or 0, forward=forward) or [0]
        self.work_on("search", self._search, self._needle, [*others, here], False)

    def _around(self, place: int, *, forward: bool) -> list[int]:
        """All places from one on, round the end of the list."""
        count = len(self.known.view.items)
        onward = [*range(place, count), *range(min(place, count))]
        return onward if forward else [*onward[:1], *reversed(onward[1:])]

    async def _search(self, needle: str, places: Sequence[int], typing: bool) -> None:
        """Go to the first match among some places; they are read page by page."""
        items = self.known.view.items
        for start in range(0, len(places), SEARCH_PAGE):
            page = places[start : start + SEARCH_PAGE]
            place = await self.session.read(find_item, items, needle, page)
            if place is not None:
                self._go_to(items.ids[place], items.ordinals[place])
                return
        if typing and places:
            self._go_to(items.ids[places[0]], items.ordinals[places[0]])
        elif not typing:
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
            self.show_known()

    # -- commands ----------------------------------------------------------------------------------------

    def linked_item(self) -> ItemId:
        """The item under the cursor; None on a line between items."""
        key = self.table.selected
        place = self.place_of(key) if key is not None and stands_for_item(key) else None
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
        self.show_text()
