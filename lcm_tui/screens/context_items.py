"""The lists of the context screen, its items and the messages as sent, and the screens of one of either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import ClassVar, Final

from lcm_core.base.records import Conversation, ItemId, SummaryId
from lcm_core.base.tokens import TokenCheck
from lcm_core.engine.messages import Origin
from lcm_core.engine.sent import Ledger, MessageKey
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry
from lcm_core.store.context_view import (
    Distance,
    Fetched,
    FoundOverlay,
    Group,
    KnownContext,
    RowKey,
    find_item,
    goes_on,
    moved_tail,
    read_context,
    stands_for_item,
)
from textual.app import ComposeResult

from lcm_tui.kit import commands
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, Finder, MarkingFinder, TextFinder
from lcm_tui.kit.spans import Block, Document, Line
from lcm_tui.kit.text import TextView, mark
from lcm_tui.screens import actions, pruning
from lcm_tui.screens.frame import SERIES, CommandScreen, DataScreen
from lcm_tui.tables.composition import Measured
from lcm_tui.tables.context import age_text, fate_at, findings_line, item_line, line_between, same_fate
from lcm_tui.tables.items import ItemData, document, facts, load_item, name_of
from lcm_tui.tables.sent import account_document, account_line, message_document, searched_text, sent_line

# -- the screen of an item -------------------------------------------------------------------------------
# An item in full: as text, and as it is wrapped for the model.


class ItemScreen(DataScreen[ItemData]):
    """A summary or message of a context to read."""

    HELP = """
One item of the context: first its metadata, then its whole text. Opened from the list of items it also says
whether the model receives it under the budget, and if not, which step dropped it and why.

m switches to what the model receives: a summary in the wrapper of the engine version that wrote this
database, a message as its role and the blocks that the host sent. Later assembly steps (pairing of tool
calls, the budget) are not applied here: m on the list of items shows the messages after all steps.

"not recomputable" after a token count: the text that the engine counted is not in the database, so the count
cannot be verified.
"""

    def __init__(
        self, conversation: Conversation, item: ItemId, *, wrapped: bool = False, fate: Document = ()
    ) -> None:
        """*fate*: whether the model receives it, as known on opening; it stays as it is."""
        super().__init__()
        self.conversation = conversation
        self.item = item
        self.text = TextView(empty="Reading the database …", id="text")
        self._finder = TextFinder(self.text)
        self._wrapped = wrapped
        self._fate = fate
        self._data: ItemData | None = None

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def where(self) -> str:
        """Which item."""
        return f"Context {self.conversation.conversation_id}  {name_of(self.item)}"

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self._finder

    def selected_id(self) -> str | None:
        """The item's id."""
        return None if self.item is None else str(self.item)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> ItemData:
        """Everything behind the item."""
        return await self.session.read(load_item, self.item)

    def show(self, data: ItemData) -> None:
        """Show it; of a row that is gone meanwhile, go on showing what was read."""
        gone = data.summary is None and data.message is None
        if gone and self._data is not None:
            self.title_bar.note = "its row is missing from the database"
            return
        self._data = data
        self._show_text(keep_place=True)

    def _show_text(self, *, keep_place: bool) -> None:
        if self._data is None:
            return
        body = document(self._data, self.session, wrapped=self._wrapped)
        self.title_bar.note = "as the model receives it" if self._wrapped else "as text"
        self.text.show((*facts(self._data, self.session), *self._fate, Block(), *body), keep_place=keep_place)

    def _turn_wrapped(self) -> None:
        """Switch between the text and what the model gets."""
        self._wrapped = not self._wrapped
        self._show_text(keep_place=False)
        self.refresh_bars()

    def go_on_from(self, before: CommandScreen) -> None:
        """As text, or as the model gets it."""
        if isinstance(before, ItemScreen):
            self._wrapped = before._wrapped

    # -- what is shown -----------------------------------------------------------------------------------

    def _summary_id(self) -> SummaryId | None:
        return SummaryId(self.item) if isinstance(self.item, str) else None

    def _seq(self) -> int | None:
        message = self._data.message if self._data is not None else None
        return None if message is None else message.message.seq

    def _covered_by(self) -> SummaryId | None:
        """A summary that covers the message."""
        message = self._data.message if self._data is not None else None
        return message.covered_by[0] if message and message.covered_by else None

    KEYS: ClassVar[Sequence[Key[ItemScreen]]] = (
        commands.OTHER_VIEW.does(
            _turn_wrapped,
            title="As sent",
            help="Switch between the text as stored and as sent to the model.",
            title_now=lambda s: "As stored" if s._wrapped else "",
        ),
        actions.summaries_key(lambda s: s.item, _covered_by),
        actions.previous_key(lambda s: s.item),
        actions.messages_key(_seq),
        pruning.rewrite_key(_summary_id),
        *SERIES,
    )


# -- the list of items -----------------------------------------------------------------------------------
# It is read while it is looked at; and the search for one of them.

#: Items that the list shows before it has read how many there are.
FIRST: Final = 2_000
#: Items whose weight is read at a time.
PAGE: Final = 1_000
#: Items that are verified at a time: between two keys.
VERIFIED: Final = 400
#: Entries that are kept.
KEPT: Final = 3_000
#: Stored tokens of the items whose texts are counted again at a time.
CHECKED_TOKENS: Final = 20_000
#: The pause between pages that only verify what is known.
VERIFY_SECONDS: Final = 0.02
#: Items whose text is read at a time for a search.
SEARCH_PAGE: Final = 400
#: What `/` asks for, among items as among messages.
SEARCH: Final = "find: an id, a kind, or words of a preview"


class ItemList(LineView[RowKey]):
    """The items of one conversation's context, what they weigh, and those in sight with a preview."""

    def __init__(
        self,
        screen: CommandScreen,
        conversation: Conversation,
        marks: Container[object],
        learned: Callable[[], None],
        budget: Callable[[], int],
    ) -> None:
        """*screen* reads for it; *marks* are the operator's; *learned* is called when more is known.

        *budget*: the one that is asked for at the moment, in tokens.
        """
        super().__init__(self._row, empty="Reading the database …", id="list")
        self.finder = ItemFinder(screen, self)
        self.was_read = False
        self.entries: dict[ItemId, ContextEntry] = {}  #: of the items that were in sight
        self.ledger: Ledger | None = None  #: what becomes of the items; None: not known yet
        self._desk = screen
        self._budget = budget
        self._conversation_id = conversation.conversation_id
        self._session_key = conversation.session_key
        self._marks = marks
        self._learned = learned
        self._known: KnownContext | None = None
        self._wanted: tuple[str, ...] | None = None  #: where to stand once it has been read
        self._outdated: set[ItemId] = set()
        self._checks: dict[ItemId, tuple[ContextEntry, TokenCheck | None]] = {}
        self._ages: dict[RowKey, str] = {}  #: of the rows that were drawn, in the words they were drawn in
        self._overlay: FoundOverlay | None = None
        self._filling = False

    @property
    def known(self) -> KnownContext:
        """What has been read of the context."""
        if self._known is None:
            self._known = KnownContext(
                self._conversation_id, self._desk.session.rules_for(self._session_key).tail
            )
        return self._known

    def measured(self) -> Measured:
        """What the head says of it."""
        known, items = self.known, self.known.view.items
        return Measured(
            len(items),
            self._budget(),
            known.totals,
            known.view.tail,
            findings_line(known),
            read=known.read,
            counting=not items.complete,
        )

    # -- what is selected --------------------------------------------------------------------------------

    def counted_keys(self) -> tuple[int, int]:
        """The items, without the lines between them."""
        key = self.selected
        place = self.place_of(key) if key is not None and stands_for_item(key) else None
        return (0 if place is None else place + 1), len(self.known.view.items)

    @property
    def item(self) -> ItemId:
        """The item under the cursor; None on a line between items."""
        key = self.selected
        place = self.place_of(key) if key is not None and stands_for_item(key) else None
        return None if place is None else self.known.view.items.refs[place]

    @property
    def ordinal(self) -> int | None:
        """The ordinal of the item under the cursor, or of the one that follows the line under it."""
        place = self.place_of(self.selected)
        return None if place is None else self.known.view.items.ordinals[place]

    def place_of(self, key: RowKey | None) -> int | None:
        """The place of the item that a line shows, or that follows it."""
        line = self.index_of(key) if key is not None else None
        view = self.known.view
        if line is None or line >= len(view.places) or view.places[line] >= len(view.items):
            return None
        return view.places[line]

    def select_item(self, item: ItemId, ordinal: int) -> None:
        """Stand on an item, wherever it has moved to meanwhile; of one that repeats on that *ordinal*."""
        items = self.known.view.items
        self._select_where(
            lambda place: (
                items.refs[place] == item and (item not in items.repeated or items.ordinals[place] == ordinal)
            )
        )

    def select_group(self, group: Group) -> None:
        """Stand on the first item of a sort, as the bar above shows it."""
        items, tail = self.known.view.items, self.known.view.tail
        first = tail.first_ordinal if tail is not None else None
        weights = self.known.weights

        def wanted(place: int) -> bool:
            weight = weights.get(items.refs[place])
            if weight is None or weight.role != group.role:
                return False
            if weight.role is None:
                return (weight.depth or 0) == group.depth
            return group.protected == (first is not None and items.ordinals[place] >= first)

        self._select_where(wanted)

    def select_ordinal(self, ordinal: int | None) -> None:
        """Stand on the item at an ordinal, when it is still there."""
        ordinals = self.known.view.items.ordinals
        self._select_where(lambda place: ordinals[place] == ordinal)

    def _select_where(self, wanted: Callable[[int], bool]) -> None:
        view = self.known.view
        for key, place in zip(view.keys, view.places, strict=True):
            if stands_for_item(key) and wanted(place):
                self.select(key)
                return

    def stand_on(self, wanted: tuple[str, ...] | None) -> None:
        """Stand on ``("summary", id)`` or ``("message", id)`` once it is read the next time."""
        self._wanted = wanted

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Fetched:
        """What changed, and what is in sight; the first time no more than the beginning."""
        session = self._desk.session
        return await session.read(
            read_context,
            self.known,
            sight={item: place for _, item, place in self._in_sight()},
            select=self._wanted,
            limit=None if self.was_read or self._wanted else FIRST,
            overlay=self._overlay,
            zone=session.engine_zone,
        )

    def show(self, data: Fetched) -> None:
        """Show it; selection and place are kept by key."""
        known, first = self.known, not self.was_read
        alike, tail = self._rows_alike(data), known.view.tail
        complete = data.view.items.complete
        self.was_read, self._overlay = True, data.overlay
        known.adopt(data.view)
        if known.learn(data.weights):
            alike = []
        moved = moved_tail(tail, known.view.tail)
        self._outdated = set(self.entries) - set(data.entries)
        self._learn_entries(data.entries.values())
        self.empty = self._why_empty()
        # The cursor begins on an item; the line above the first one stays in sight.
        begins = next(filter(stands_for_item, known.view.keys), None) if first else None
        self.show_known(data.selected or begins, [key for key, ordinal in alike if ordinal not in moved])
        self.mark_fresh(data.fresh)
        if first and self._wanted is not None and data.selected is None:
            self.app.notify(f"{self._wanted[-1]} is not in this context.", severity="warning")
        self._wanted = None
        self.read_sight()
        if complete and not self._filling:
            self._filling = True
            self._desk.work_on("fill", self._fill)

    def _why_empty(self) -> str:
        if not self._desk.session.database.schema.has("context_items"):
            return "This file has no table of context items: the model's context is not recorded."
        return "The context is empty: the model receives nothing of this conversation."

    async def _fill(self) -> None:
        """Read what the items weigh, from the top; then verify what was known before the last change."""
        known = self.known
        try:
            while ids := known.unread(PAGE) or known.unverified(VERIFIED):
                verifying = known.totals is not None
                if verifying:
                    await self._desk.calm()
                changed = known.learn(await self._desk.session.read(store.weights_of, ids))
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
            if place < known.read and item in data.entries and data.entries[item] == self.entries.get(item)
        ]

    def _rows_as_old(self) -> list[tuple[RowKey, ItemId, int]]:
        """The rows in sight, as `_in_sight`, whose age is still in the words in which it was drawn."""
        now = datetime.now(UTC)
        return [
            (key, item, place)
            for key, item, place in self._in_sight()
            if self._ages.get(key) == age_text(self.entries.get(item), now)
        ]

    def show_known(self, select: RowKey | None = None, alike: Iterable[RowKey] = ()) -> None:
        """Show what is known now; rows that are *alike* look as they do."""
        if not self.is_attached:
            return
        view = self.known.view
        if self.keys is not view.keys or select is not None:
            self.replace(view.keys, select=select, alike=alike)
        else:
            self.redraw(alike=alike)
        self._learned()

    def show_fates(self, ledger: Ledger) -> None:
        """Show what becomes of the items."""
        before, self.ledger = self.ledger, ledger
        known = self.known
        self.redraw(
            alike=[
                key
                for key, _, place in self._rows_as_old()
                if same_fate(fate_at(known, place, before), fate_at(known, place, ledger))
            ]
        )

    # -- what is in sight --------------------------------------------------------------------------------

    def _in_sight(self, pages: int = 0) -> list[tuple[RowKey, ItemId, int]]:
        """The visible lines that show items, the items and their places; *pages*: so many above and below."""
        found = []
        for key in self.keys_near(pages):
            place = self.place_of(key) if stands_for_item(key) else None
            if place is not None:
                found.append((key, self.known.view.items.refs[place], place))
        return found

    def read_sight(self) -> None:
        """Read what is in sight and not known."""
        self._desk.work_on("sight", self._read_entries)

    async def _read_entries(self) -> None:
        """Read previews for the lines in sight, then whether their token counts are the engine's."""
        await self._read_lines(self._in_sight())
        # Paging finds its lines read.
        await self._read_lines(self._in_sight(pages=1))
        await self._check_counts()

    async def _check_counts(self) -> None:
        """Count the texts of the lines in sight again, as many at a time as are read at once."""
        unchecked = {
            item: entry
            for _, item, _ in self._in_sight()
            if (entry := self.entries.get(item)) is not None and not entry.dangling
            if (known := self._checks.get(item)) is None or not _same_text(known[0], entry)
        }
        while unchecked:
            batch: dict[ItemId, ContextEntry] = {}
            while unchecked and sum(entry.tokens or 0 for entry in batch.values()) < CHECKED_TOKENS:
                item = next(iter(unchecked))
                batch[item] = unchecked.pop(item)
            found = await self._desk.session.read(store.checked_tokens, batch)
            changed: list[ItemId] = []
            for item, entry in batch.items():
                known, check = self._checks.get(item), found.get(item)
                self._checks[item] = (entry, check)
                if check != (known[1] if known else None):
                    changed.append(item)
            self.redraw([key for key, item, _ in self._in_sight() if item in changed])

    async def _read_lines(self, lines: Sequence[tuple[RowKey, ItemId, int]]) -> None:
        """Read the previews of these lines, as far as they are not known."""
        items = self.known.view.items
        places = [place for _, item, place in lines if item in self._outdated or item not in self.entries]
        if not places:
            return
        entries = await self._desk.session.read(
            store.context_entries, [items.item(place) for place in places]
        )
        before = {item: self.entries.get(item) for _, item, _ in lines}
        self._learn_entries(entries)
        weights = {items.refs[place]: entry.weight for place, entry in zip(places, entries, strict=True)}
        if self.known.learn(weights) or self.keys is not self.known.view.keys:
            self.show_known()
        self.redraw([key for key, item, _ in lines if self.entries.get(item) != before[item]])

    async def read_entry(self, place: int) -> None:
        """Read what is known of an item in sight for one that is not."""
        item = self.known.view.items.item(place)
        self._learn_entries(await self._desk.session.read(store.context_entries, [item]))

    def _learn_entries(self, entries: Iterable[ContextEntry]) -> None:
        """Take in what was read; of too many, those that were read first are let go."""
        for entry in entries:
            item = entry.item.summary_id or entry.item.message_id
            self.entries.pop(item, None)
            self.entries[item] = entry
            self._outdated.discard(item)
        for item in list(islice(self.entries, max(0, len(self.entries) - KEPT))):
            del self.entries[item]
            self._checks.pop(item, None)

    def _row(self, key: RowKey, width: int) -> Sequence[Line]:
        if not stands_for_item(key):
            return (line_between(self.known, key, width),)
        place = self.place_of(key)
        if place is None:
            return ((),)
        item, now = self.known.view.items.refs[place], datetime.now(UTC)
        check, entry = self._checks.get(item), self.entries.get(item)
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
            mark=MARK if item in self._marks else "",
            ledger=self.ledger,
        )
        return (mark(line, self.finder.needle),)


def _same_text(before: ContextEntry, now: ContextEntry) -> bool:
    """Whether a count that was checked for one entry holds for the other, as far as one can see."""
    return before.tokens == now.tokens and before.preview == now.preview


class ItemFinder:
    """Searches ids, kinds and previews of all items, in the database and page by page."""

    label = SEARCH

    def __init__(self, screen: CommandScreen, items: ItemList) -> None:
        self.needle = ""
        self._desk = screen
        self._list = items
        self._origin = 0  #: the place from which a search began

    def why_not_search(self) -> str | None:
        """A context can always be searched."""
        return None

    def begin(self) -> None:
        """Search from the item under the cursor on."""
        self._origin = self._place

    def typed(self, text: str) -> None:
        """Mark it, and go to the first item that holds it; back to where the search began when none does."""
        self._mark(text)
        if text:
            self._desk.work_on("search", self._search_typed, text)

    async def confirm(self, text: str) -> str | None:
        """Say so when no item holds it."""
        self._desk.workers.cancel_group(self._desk, "search")
        self._mark(text)
        return await self._find(text, self._around(self._origin, forward=True)) if text else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the context."""
        here, *others = self._around(self._place, forward=forward) or [0]
        return await self._find(self.needle, [*others, here])

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return None if self.needle else "search first: / finds text"

    def leave(self) -> bool:
        """Take the marks away."""
        had = bool(self.needle)
        self._mark("")
        return had

    @property
    def _place(self) -> int:
        return self._list.place_of(self._list.selected) or 0

    def _mark(self, text: str) -> None:
        self.needle = text
        self._list.redraw()

    def _around(self, place: int, *, forward: bool) -> list[int]:
        """All places from one on, round the end of the list."""
        count = len(self._list.known.view.items)
        onward = [*range(place, count), *range(min(place, count))]
        return onward if forward else [*onward[:1], *reversed(onward[1:])]

    async def _search_typed(self, text: str) -> None:
        items, places = self._list.known.view.items, self._around(self._origin, forward=True)
        if await self._find(text, places) and places:
            self._list.select_item(items.refs[places[0]], items.ordinals[places[0]])

    async def _find(self, needle: str, places: Sequence[int]) -> str | None:
        """Go to the first match among some places; a sentence when there is none."""
        items = self._list.known.view.items
        for start in range(0, len(places), SEARCH_PAGE):
            page = places[start : start + SEARCH_PAGE]
            place = await self._desk.session.read(find_item, items, needle, page)
            if place is not None:
                self._list.select_item(items.refs[place], items.ordinals[place])
                return None
        return f"No item of this context contains “{needle}”."


# -- the messages as sent --------------------------------------------------------------------------------
# As the model receives them, as a list; the line above them represents all.

#: The line above the messages that stands for all of them.
ACCOUNT: Final[MessageKey] = ("account", 0, 0)


class SentList(LineView[MessageKey]):
    """What an assembly sends, message by message."""

    def __init__(self, marks: Container[object]) -> None:
        """*marks* are the operator's."""
        super().__init__(self._row, empty="Assembling …", id="sent")
        self.finder = MarkingFinder[MessageKey](
            lambda: self, self._searched, label=SEARCH, none="No message of this context"
        )
        self._marks = marks
        self._ledger: Ledger | None = None

    def counted_keys(self) -> tuple[int, int]:
        """The messages, without the line above them."""
        return self.cursor, max(len(self.keys) - 1, 0)

    def show_sent(self, ledger: Ledger) -> None:
        """Show an assembly in place of the one before; while the list is hidden, only keep it."""
        self._ledger = ledger
        self.empty = "Nothing is sent."
        if self.display:
            self.replace((ACCOUNT, *ledger.keys))

    def select_ordinal(self, ordinal: int | None) -> None:
        """Stand on the message that is sent for the item at an ordinal; from the top where that fits."""
        ledger = self._ledger
        key = ledger.key_at(ordinal) if ledger is not None and ordinal is not None else None
        if ledger is not None:
            self.replace((ACCOUNT, *ledger.keys), select=key)
        self.call_after_refresh(self._begin_at_top)

    def _begin_at_top(self) -> None:
        if self.display and self.cursor < self.size.height:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def number(self) -> int | None:
        """The number of the selected message among those sent, from 0; None on the line above them."""
        key = self.selected
        return None if key is None or self._ledger is None else self._ledger.places.get(key)

    @property
    def origin(self) -> Origin | None:
        """What the selected message stands for."""
        return None if self.selected is None else self._origin_of(self.selected)

    def _origin_of(self, key: MessageKey) -> Origin | None:
        number = None if self._ledger is None else self._ledger.places.get(key)
        if number is None or self._ledger is None:
            return None
        return self._ledger.assembled.messages[number].origin

    @property
    def item(self) -> ItemId:
        """The item that it stands for; None for what was made up."""
        return None if self.selected is None else self.item_of(self.selected)

    def item_of(self, key: MessageKey) -> ItemId:
        """The item that a message was made from."""
        origin = self._origin_of(key)
        return None if origin is None else origin.summary_id or origin.message_id

    @property
    def ordinal(self) -> int | None:
        """The ordinal of the item that it stands for."""
        origin = self.origin
        return None if origin is None else origin.ordinal

    def document(self, distance: Distance | None, key: MessageKey | None = None) -> Document | None:
        """What is selected, or a *key*, to read; None while nothing is assembled.

        *distance*: to the next compaction.
        """
        ledger, key = self._ledger, self.selected if key is None else key
        if ledger is None:
            return None
        number = None if key is None else ledger.places.get(key)
        return account_document(ledger, distance) if number is None else message_document(ledger, number)

    # -- drawing -----------------------------------------------------------------------------------------

    def _row(self, key: MessageKey, width: int) -> Sequence[Line]:
        ledger = self._ledger
        if ledger is None:
            return ((),)
        if key == ACCOUNT:
            return (account_line(ledger, width),)
        at = ledger.places.get(key)
        if at is None:
            return ((),)
        marked = ledger.assembled.messages[at].origin.summary_id in self._marks
        return (mark(sent_line(ledger, at, width, MARK if marked else ""), self.finder.needle),)

    def _searched(self, key: MessageKey) -> str:
        message = self._ledger.message(key) if self._ledger is not None else None
        return "" if message is None else searched_text(message)


# -- the screen of a message as sent ---------------------------------------------------------------------
# One message as the model receives it, in full, or the account of all of them.


class SentScreen(CommandScreen):
    """What was assembled, to read; it stays as it was when it was opened."""

    HELP = """
One message as the model receives it under the budget: its role, its source, its tokens as sent and as stored,
its adjustments, then its text (a summary in its wrapper) or its blocks as JSON.

The first line of the messages opens the whole request: where the messages came from, whether the host may use
their size as the prompt size, the fresh tail, the prompt cache, what each step left out, every adjustment,
and what is added to the system prompt.

This view does not change when the database does.
"""

    def __init__(
        self,
        conversation: Conversation,
        name: str,
        document: Document,
        item: ItemId,
        seq: int | None,
        note: str,
    ) -> None:
        """*note*: under what it was sent."""
        super().__init__()
        self.conversation = conversation
        self.text = TextView(document, id="text")
        self._finder = TextFinder(self.text)
        self._name = name
        self._item = item
        self._seq = seq
        self._note = note

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def where(self) -> str:
        """Of which context, and what of it."""
        return f"Context {self.conversation.conversation_id}  {self._name}"

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self._finder

    def selected_id(self) -> str | None:
        """The id of what it stands for."""
        return None if self._item is None else str(self._item)

    def on_mount(self) -> None:
        """Say under what it was sent."""
        self.title_bar.note = self._note

    def _say_it_stays(self) -> None:
        """Another one is opened from the list."""
        self.app.notify("This view does not reload; go back and open it again.", timeout=4)

    KEYS: ClassVar[Sequence[Key[SentScreen]]] = (
        actions.summaries_key(lambda s: s._item),
        actions.previous_key(lambda s: s._item),
        actions.messages_key(lambda s: s._seq),
        *SERIES,
    )
    COMMON: ClassVar[Sequence[Key[SentScreen]]] = (commands.RELOAD.does(_say_it_stays),)
