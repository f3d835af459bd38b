"""The context of a conversation: what the model sees, in order, and how much of the budget it takes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.budget import parse_budget, step
from lcm_core.context_items import ItemId
from lcm_core.context_view import RowKey, find_item, stands_for_item
from lcm_core.records import Conversation
from lcm_core.store import context as store
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.context.assembly import AssembledContext
from lcm_tui.screens.context.exporting import Exporting
from lcm_tui.views.context_text import SHOWN, between_document, item_document
from lcm_tui.views.item import cut, load_item
from lcm_tui.views.sent import searched_text
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import Document

#: Items whose text is read at a time for a search.
SEARCH_PAGE: Final = 400
#: The cursor rests this long on an item before its text is read.
DEBOUNCE_SECONDS: Final = 0.05


class ContextScreen(Exporting, AssembledContext):
    """What the model sees of one conversation."""

    HELP = """
What the model sees of this conversation, in order: summaries (L made from messages, D1 D2 D3 condensed), then
raw messages. "tokens" are the engine's stored counts (202 ≠ ~187: neither of its two rules gives the stored
count for the text that is there), "sent" is what the item weighs as it is sent under the budget. An item that
is not sent is dim, marked -, and "sent" names the step in which it went: no row, brief (a focus brief stands
for it), budget, prompt, empty, pairing (a tool result without its call), clamp (the last cut). ~ marks what
was mended so that a provider accepts it; * what the prompt kept. "total" adds the stored counts up from the
top.

The bar shows what the context is made of, to its own scale; the gauge how much of the budget that takes.
Below: what is sent and left out; how the sent tokens are spread over the protected tail, leaves (recent),
layers between (older) and the deepest summaries (root); and how many tokens are left to the next compaction.
+ and - change the budget, B types one, and everything follows.

Q types what the user asks: an engine with prompt-aware eviction then keeps what says most of it, and not the
newest. A line says what came of it. % shows the context without the final clamp: whole messages as JSON weigh
more than the assembler counts, and where they are over the budget the engine cuts the oldest off, to 90 % of
it, before a host gets them. What is shown is with that cut, as sent, until you turn it off.

m puts the messages in place of the items, as the model gets them: roles, XML, blocks; + marks one that was
made up. Its first line stands for all of them: metadata, steps, repairs, the system prompt's addition.
o writes them to a file: JSON for an API call, or Markdown. D compares this context with another budget or
conversation, with itself without the prompt or as it was, and with a snapshot; @ lists the snapshots that an
engine kept of what it sent.

Lines between items say where ordinals are missing (a host may prune on purpose), where the fresh tail begins
(the newest messages, which compaction may not touch), and where the engine sends a focus brief instead of the
summaries marked ┆. ✗ marks an item with something wrong: its row is gone (the engine skips it), it stands
twice, it belongs to another conversation, its ordinal or its type makes no sense.

d previews dissolving a condensed summary: its sources take its place. space marks summaries (●), and d takes
the marked set. U shows what was changed, and takes it back.

enter shows an item or a message whole. / searches ids, kinds and previews, among messages their texts.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *(
                "open",
                "wrapped",
                "budget",
                "prompt",
                "compare",
                "dissolve",
                "compact",
                "rewrite",
                "snapshots",
            ),
            *("export", "summaries", "previous", "messages", "repair", "rewrite-subtree", "mark", "health"),
            *("history", "files", "briefs", "budget-more", "budget-less", "clamp"),
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Show the item, or the message as it is sent, whole."),
            "wrapped": ("As sent", "Switch between the items and the messages as the model gets them."),
            "mark": ("Mark", "Mark a summary or take the mark away; dissolving takes the marked."),
            "search": ("Search", "Search the ids, kinds and previews of items, or the texts of messages."),
        }
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
        self._shown: tuple[object, bool] | None = None
        self._origin = 0  #: the place from which a search began

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    @on(LineView.Highlighted, "#sent")
    def _highlighted(self) -> None:
        self.show_text()
        self.refresh_bars()
        item = self.linked_item()
        if self.as_sent and item is not None and item not in self._entries:
            self.work_on("entry", self._learn_sent)

    async def _learn_sent(self) -> None:
        """Read what the list of items would have read of the message that is selected: its seq."""
        await asyncio.sleep(DEBOUNCE_SECONDS)
        items, ordinal = self.known.view.items, self.ordinal()
        place = bisect_left(items.ordinals, ordinal) if ordinal is not None else len(items)
        if place < len(items) and items.refs[place] == self.linked_item():
            self._learn_entries(await self.session.read(store.context_entries, [items.item(place)]))
            self.refresh_bars()

    def show_text(self) -> None:
        """Show what is selected in the pane, when there is one; what stands there stays until then."""
        if not self.text.display:
            return
        if self.as_sent:
            if (document := self.sent_document()) is not None:
                self._show_document(self.sent.selected, cut(document, SHOWN))
            return
        key = self.table.selected
        if key is not None and stands_for_item(key):
            self.work_on("text", self._load_text, key)
        elif key is not None:
            self._show_document(key, between_document(self.known, key))

    async def _load_text(self, key: RowKey) -> None:
        if self._shown != (key, False):
            await asyncio.sleep(DEBOUNCE_SECONDS)
        place = self.place_of(key)
        if place is None:
            return
        data = await self.session.read(load_item, self.known.view.items.refs[place])
        place = self.place_of(key)
        if place is not None and self.table.selected == key and not self.as_sent:
            document = item_document(self.known, place, data, self.session, self.ledger)
            await self.text.load(document, keep_place=(key, False) == self._shown)
            self._shown = (key, False)

    def _show_document(self, key: object, document: Document) -> None:
        self.workers.cancel_group(self, "text")  # what is being read is of another row
        shown = (key, self.as_sent)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- searching ---------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search as you type, from where the cursor stands now."""
        self._asks = "search"
        self._origin = (self.sent.cursor if self.as_sent else self.place_of(self.table.selected)) or 0
        self.open_prompt("search: an id, a kind, or words of a preview", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """What was asked for was typed."""
        if self._asks != "search":
            if done:
                self._answers[self._asks](text)
            return
        self._needle = text
        self.main_widget().redraw()
        if text and self.as_sent:
            self._find_sent(self._origin, 1, quiet=not done)
        elif text:
            self.work_on("search", self._search, text, self._around(self._origin, forward=True), not done)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(forward=True)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(forward=False)

    @property
    def _answers(self) -> Mapping[str, Callable[[str], None]]:
        return {
            "budget": self._set_budget,
            "prompt": self._set_prompt,
            "export": self.export_to,
            "compare": self.compare_with,
        }

    def _find_sent(self, start: int, direction: int, *, quiet: bool = False) -> None:
        """Stand on the next message that holds what is searched for, round the end of the list."""
        ledger, needle = self.ledger, self._needle.casefold()
        keys = self.sent.keys
        for at in range(start, start + direction * len(keys), direction):
            key = keys[at % len(keys)]
            message = ledger.message(key) if ledger is not None else None
            if message is not None and needle in searched_text(message).casefold():
                self.sent.select(key)
                return
        if not quiet:
            self.app.notify(f"No message of this context holds “{self._needle}”.", timeout=3)

    def _find(self, *, forward: bool) -> None:
        if self.as_sent:
            step = 1 if forward else -1
            self._find_sent(self.sent.cursor + step, step)
            return
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
                self._go_to(items.refs[place], items.ordinals[place])
                return
        if typing and places:
            self._go_to(items.refs[places[0]], items.ordinals[places[0]])
        elif not typing:
            self.app.notify(f"No item of this context holds “{needle}”.", timeout=3)

    def _go_to(self, item: ItemId, ordinal: int) -> None:
        """Stand on an item, wherever it has moved to meanwhile."""
        view = self.known.view
        for key, place in zip(view.keys, view.places, strict=True):
            if (
                stands_for_item(key)
                and view.items.refs[place] == item
                and (item not in view.items.repeated or view.items.ordinals[place] == ordinal)
            ):
                self.table.select(key)
                return

    async def action_back(self) -> None:
        """End a search first, then leave."""
        if not self.asking and self._needle:
            self._needle = ""
            self.main_widget().redraw()
        else:
            await super().action_back()

    # -- what decides what is sent -----------------------------------------------------------------------

    def action_budget(self) -> None:
        """Ask for the budget."""
        self._asks = "budget"
        self.open_prompt(f"budget in tokens (64000, 64k, 1m); enter: {self.session.budget:,} as it is")

    def action_prompt(self) -> None:
        """Ask what the user asks."""
        self._asks = "prompt"
        self.open_prompt(
            "what the user asks, to choose by it what is kept; empty: no prompt", self.user_prompt
        )

    def _set_prompt(self, text: str) -> None:
        if text.strip() != self.user_prompt:
            self.user_prompt = text.strip()
            self.rebudget()

    def action_clamp(self) -> None:
        """With the engine's final clamp, or without."""
        self.clamps = not self.clamps
        self.rebudget()

    def action_snapshots(self) -> None:
        """Show what was kept of the contexts that were sent."""
        self.open(places.Snapshots(self.conversation))

    def action_budget_more(self) -> None:
        """Raise the budget by a step."""
        self._set_budget(str(step(self.session.budget, 1)))

    def action_budget_less(self) -> None:
        """Lower the budget by a step."""
        self._set_budget(str(step(self.session.budget, -1)))

    def _set_budget(self, text: str) -> None:
        if not text.strip():
            return
        budget = parse_budget(text)
        if budget is None:
            self.app.notify(f"“{text}” is no number of tokens: write 128000, 128k or 1m.", severity="warning")
        else:
            self.session.budget = budget
            self.rebudget()

    # -- commands ----------------------------------------------------------------------------------------

    def linked_item(self) -> ItemId:
        """The item under the cursor; None on a line between items, and on what was made up."""
        if self.as_sent:
            at = self.sent_place()
            origin = self.ledger.assembled.messages[at].origin if self.ledger and at is not None else None
            return None if origin is None else origin.summary_id or origin.message_id
        key = self.table.selected
        place = self.place_of(key) if key is not None and stands_for_item(key) else None
        return None if place is None else self.known.view.items.refs[place]

    def linked_seq(self) -> int | None:
        """The seq of the message under the cursor."""
        entry = self._entries.get(self.linked_item())
        return None if entry is None else entry.seq

    def selected_id(self) -> str | None:
        """The summary's or message's id, or the brief's."""
        key = self.main_widget().selected
        if key is not None and key[0] in ("brief", "focus brief"):
            return str(key[1])
        item = self.linked_item()
        return None if item is None else str(item)

    def why_not(self, command: str) -> str | None:
        """Some commands need a summary or a message under the cursor."""
        match command:
            case "open" if self.selected_id() is None and not self.as_sent:
                return "no item is selected" if self._loaded else "the context is still being read"
            case "mark" | "dissolve" if not self._loaded:
                return "the context is still being read"
            case "export" | "compare" if self.ledger is None:
                return "the context is still being assembled"
            case "next" | "previous-match" if not self._needle:
                return "nothing has been searched for yet"
            case "clamp" if self.session.rules.assembly.clamp_share is None:
                return f"an engine of these rules ({self.session.rules.name}) cuts nothing last"
            case _:
                return super().why_not(command)

    @on(LineView.Opened, "#list")
    @on(LineView.Opened, "#sent")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Show the item or the message whole; of a brief, all briefs."""
        if self.as_sent:
            self._open_sent()
            return
        item = self.linked_item()
        if item is None:
            self.action_briefs()
            return
        self.open(places.Item(self.conversation, item))

    def _open_sent(self) -> None:
        document = self.sent_document()
        if document is None:
            return
        name = self.selected_id() or ("all of it" if self.sent_place() is None else "made up here")
        self.open(places.Sent(self.conversation, name, document, self.linked_item(), self.linked_seq()))
