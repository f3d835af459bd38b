"""The lists of the context screen, its items and the messages as sent, and the screens of one of either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from lcm_core.base.records import ContextItems, Conversation, ItemId, SummaryId
from lcm_core.base.tokens import TokenCheck
from lcm_core.base.values import replace
from lcm_core.engine.messages import Origin
from lcm_core.engine.rules import TailRules
from lcm_core.engine.sent import Ledger, MessageKey
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry
from lcm_core.store.context_view import (
    ContextView,
    Distance,
    Group,
    RowKey,
    Totals,
    read_context,
    stands_for_item,
    view_context,
)
from lcm_core.store.context_view import searched_text as searched_item

from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import MARK, MarkingFinder
from lcm_tui.kit.spans import Block, Document, Line
from lcm_tui.kit.text import mark
from lcm_tui.screens import actions
from lcm_tui.screens.frame import SERIES, CommandScreen
from lcm_tui.screens.reading import DataScreen, TextScreen
from lcm_tui.tables.context import ItemRow, findings_line, ids_of, item_line, line_between
from lcm_tui.tables.items import ItemData, document, facts, load_item, name_of
from lcm_tui.tables.sent import (
    ContextHead,
    account_document,
    account_line,
    message_document,
    searched_text,
    sent_line,
)
from lcm_tui.tables.summaries import ShortIds

# -- the screen of an item -------------------------------------------------------------------------------
# An item in full: as text, and as it is wrapped for the model.


class ItemScreen(TextScreen, DataScreen[ItemData]):
    """A summary or message of a context to read."""

    HELP = """
One item of the context: first its metadata, then its whole text.

m switches to what the model receives: a summary in the wrapper of the engine version that wrote this
database, a message as its role and the blocks that the host sent.

Opened from the list of items it also says whether the model receives it under the budget, and if not, which
step dropped it and why.

Later assembly steps (pairing of tool calls, the budget) are not applied here: m on the list of items shows
the messages after all steps.

"not recomputable" after a token count: the text that the engine counted is not in the database, so the count
cannot be verified.
"""

    def __init__(
        self, conversation: Conversation, item: ItemId, *, wrapped: bool = False, fate: Document = ()
    ) -> None:
        """*fate*: whether the model receives it, as known on opening; it stays as it is."""
        super().__init__(empty="Reading the database …")
        self.conversation = conversation
        self.item = item
        self._wrapped = wrapped
        self._fate = fate
        self._data: ItemData | None = None

    def where(self) -> str:
        """Which item."""
        return f"Context {self.conversation.conversation_id}  {name_of(self.item)}"

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
        commands.OPEN.does(
            lambda s: actions.open_trace(s, s.item, s.text.line),
            lambda s: "the item refers to nothing" if s.item is None else None,
            title="Lines",
            help="Trace the line of the last match, else the first in sight; of a message as L does.",
        ),
        commands.OTHER_VIEW.does(
            _turn_wrapped,
            title="As sent",
            help="Switch between the text as stored and as sent to the model.",
            title_now=lambda s: "As stored" if s._wrapped else "",
        ),
        actions.summaries_key(lambda s: s.item, _covered_by),
        actions.previous_key(lambda s: s.item),
        actions.trace_key(lambda s: s.item),
        actions.messages_key(_seq),
        actions.rewrite_key(_summary_id),
        *actions.edit_keys(_summary_id),
        *SERIES,
    )


# -- the list of items -----------------------------------------------------------------------------------

#: Stored tokens of the items whose texts are counted again at a time.
CHECKED_TOKENS: Final = 20_000
#: What `/` asks for, among items as among messages.
SEARCH: Final = "find: an id, a kind, or words of a preview"


class ItemList(LineView[RowKey]):
    """The items of one conversation's context, and what is between them."""

    def __init__(
        self,
        screen: CommandScreen,
        conversation: Conversation,
        marks: Container[object],
        budget: Callable[[], int],
    ) -> None:
        """*screen* reads for it; *marks* are the operator's; *budget*: the one asked for now, in tokens."""
        super().__init__(self._row, empty="Reading the database …", id="list")
        self.finder = MarkingFinder[RowKey](
            lambda: self, self._searched, label=SEARCH, none="No item of this context"
        )
        self.was_read = False
        self.entries: dict[ItemId, ContextEntry] = {}
        self.ledger: Ledger | None = None  #: what becomes of the items; None: not known yet
        self._desk = screen
        self._budget = budget
        self._conversation = conversation
        self._marks = marks
        self._view: ContextView | None = None
        self._ids = ShortIds()
        self.id_cells = self._ids.cells
        self._wanted: tuple[str, ...] | None = None  #: where to stand once it has been read
        self._judged = asyncio.Event()  #: what is broken or stale was read
        self._checks: dict[ItemId, tuple[ContextEntry, TokenCheck | None]] = {}

    @property
    def view(self) -> ContextView:
        """The context as it was read last."""
        if self._view is None:
            self._view = view_context(self._conversation.conversation_id, self._rules, ContextItems(), ())
        return self._view

    @property
    def _rules(self) -> TailRules:
        return self._desk.session.rules_for(self._conversation.session_key).tail

    @property
    def totals(self) -> Totals | None:
        """What the items add up to; None until they have been read."""
        return self.view.totals if self.was_read else None

    def head(self) -> ContextHead:
        """What the head says of it."""
        view = self.view
        return ContextHead(self._budget(), self.totals, view.tail, findings_line(view))

    # -- what is selected --------------------------------------------------------------------------------

    def counted_keys(self) -> tuple[int, int]:
        """The items, without the lines between them."""
        place = self.place
        return (0 if place is None else place + 1), len(self.view.items)

    @property
    def place(self) -> int | None:
        """The place of the item under the cursor; None on a line between items."""
        key = self.selected
        return self.place_of(key) if key is not None and stands_for_item(key) else None

    @property
    def item(self) -> ItemId:
        """The item under the cursor; None on a line between items."""
        place = self.place
        return None if place is None else self.view.items.refs[place]

    @property
    def ordinal(self) -> int | None:
        """The ordinal of the item under the cursor, or of the one that follows the line under it."""
        place = self.place_of(self.selected)
        return None if place is None else self.view.items.ordinals[place]

    def place_of(self, key: RowKey | None) -> int | None:
        """The place of the item that a line shows, or that follows it."""
        line = self.index_of(key) if key is not None else None
        view = self.view
        if line is None or line >= len(view.places) or view.places[line] >= len(view.items):
            return None
        return view.places[line]

    def select_group(self, group: Group) -> None:
        """Stand on the first item of a sort, as the bar above shows it."""
        view = self.view

        def fits(place: int) -> bool:
            entry = view.entries[place]
            if entry.dangling or entry.role != group.role:
                return False
            if entry.role is None:
                return (entry.depth or 0) == group.depth
            return group.protected == view.is_protected(place)

        self._select_where(fits)

    def select_ordinal(self, ordinal: int | None) -> None:
        """Stand on the item at an ordinal, when it is still there."""
        ordinals = self.view.items.ordinals
        self._select_where(lambda place: ordinals[place] == ordinal)

    @property
    def _wrong(self) -> list[int]:
        """The lines of what has a fault or is stale."""
        view = self.view
        return [
            line
            for line, (key, place) in enumerate(zip(view.keys, view.places, strict=True))
            if stands_for_item(key) and ((row := ItemRow(view, place)).faults or row.stale)
        ]

    def why_none_wrong(self) -> str | None:
        """There is none; while that is being read there may be one."""
        return None if self._wrong or not self._judged.is_set() else "nothing here is broken or stale"

    async def select_wrong(self) -> None:
        """Stand on the next item with a fault, or the next broken or stale summary, once it is known."""
        await self._judged.wait()
        if why := self.why_none_wrong():
            self.app.notify(f"{why.capitalize()}.", timeout=3)
        else:
            after = (line for line in self._wrong if line > self.cursor)
            self.select(self.keys[next(after, self._wrong[0])])

    def _select_where(self, fits: Callable[[int], bool]) -> None:
        view = self.view
        for key, place in zip(view.keys, view.places, strict=True):
            if stands_for_item(key) and fits(place):
                self.select(key)
                return

    def stand_on(self, wanted: tuple[str, ...] | None) -> None:
        """Stand on ``("summary", id)`` or ``("message", id)`` once it is read the next time."""
        self._wanted = wanted

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> ContextView:
        """The whole context as it is now."""
        session = self._desk.session
        number = self._conversation.conversation_id
        return await session.read(read_context, number, self._rules, session.engine_zone)

    def show(self, view: ContextView, *, arrived: bool) -> bool:
        """Show it, selection and place are kept by key; whether it is another one than before.

        What is new in it has *arrived*, or it is of another moment.
        """
        before, first = self.view, not self.was_read
        self.was_read = True
        view = replace(view, wrong=before.wrong)
        changed = first or view != before
        if changed:
            self._view = view
            self.entries = dict(zip(view.items.refs, view.entries, strict=True))
            self._ids, self.id_cells = ids_of(view)
            self.empty = self._why_empty()
            # The cursor begins on an item; the line above the first one stays in sight.
            self.replace(view.keys, select=next(filter(stands_for_item, view.keys), None) if first else None)
            if not first:
                known = set(before.keys)
                fresh = [key for key in view.keys if stands_for_item(key) and key not in known]
                self.mark_fresh(fresh, arrived=arrived)
        if self._wanted is not None:
            name = tuple(map(str, self._wanted))
            key = next((key for key in view.keys if tuple(map(str, key))[:2] == name), None)
            if key is not None:
                self.select(key)
            elif first:
                self.app.notify(f"{name[-1]} is not in this context.", severity="warning")
        self._wanted = None
        self.check_counts()
        self._desk.work_on("wrong", self._read_wrong)
        return changed

    async def _read_wrong(self) -> None:
        """Say which summaries are broken or stale, behind the rows: it takes every text of them."""
        from lcm_core.operations.stale import read_wrong

        among = [entry.item.summary_id for entry in self.view.entries if entry.item.summary_id is not None]
        wrong = await self._desk.session.read(read_wrong, self._conversation.conversation_id, among)
        if wrong != self.view.wrong:
            self._view = replace(self.view, wrong=wrong)
            self.redraw()
        self._judged.set()

    def _why_empty(self) -> str:
        if not self._desk.session.database.schema.has("context_items"):
            return "This file has no table of context items: the model's context is not recorded."
        return "The context is empty: the model receives nothing of this conversation."

    def show_fates(self, ledger: Ledger) -> None:
        """Show what becomes of the items."""
        self.ledger = ledger
        self.redraw()

    def check_counts(self) -> None:
        """Count the texts of the lines in sight again: whether the stored counts are the engine's."""
        self._desk.work_on("sight", self._check_counts)

    async def _check_counts(self) -> None:
        unchecked = {
            item: entry
            for key in self.visible_keys
            if stands_for_item(key) and (place := self.place_of(key)) is not None
            if not (entry := self.view.entries[place]).dangling
            if (item := self.view.items.refs[place]) not in self._checks or self._checks[item][0] != entry
        }
        while unchecked:
            batch: dict[ItemId, ContextEntry] = {}
            while unchecked and sum(entry.tokens or 0 for entry in batch.values()) < CHECKED_TOKENS:
                item = next(iter(unchecked))
                batch[item] = unchecked.pop(item)
            found = await self._desk.session.read(store.checked_tokens, batch)
            self._checks |= {item: (entry, found.get(item)) for item, entry in batch.items()}
            odd = {item for item in batch if found.get(item) is not None}
            self.redraw([key for key in self.visible_keys if key[1] in odd])

    def _searched(self, key: RowKey) -> str:
        place = self.place_of(key) if stands_for_item(key) else None
        if place is None:
            return ""
        row = ItemRow(self.view, place)
        return f"{searched_item(row.entry)} {'broken' if row.faults else ''} {row.notes}"

    def _row(self, key: RowKey, width: int) -> Sequence[Line]:
        if not stands_for_item(key):
            return (line_between(self.view, key, width),)
        place = self.place_of(key)
        if place is None:
            return ((),)
        item, now = self.view.items.refs[place], datetime.now(UTC)
        check = self._checks.get(item)
        line = item_line(
            self.view,
            place,
            check[1] if check else None,
            now,
            width,
            mark=MARK if item in self._marks else "",
            ledger=self.ledger,
            ids=self._ids,
            id_cells=self.id_cells,
        )
        return (mark(line, self.finder.needle),)


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
        """Stand on the message that is sent for the item at an ordinal."""
        ledger = self._ledger
        key = ledger.key_at(ordinal) if ledger is not None and ordinal is not None else None
        if ledger is not None:
            self.replace((ACCOUNT, *ledger.keys), select=key)

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


class SentScreen(TextScreen):
    """What was assembled, to read; it stays as it was when it was opened."""

    HELP = """
One message as the model receives it: role, source, tokens, adjustments, and its text (a summary in its
wrapper) or blocks as JSON.

The first line of the messages opens the whole request. m shows the item that a message was made from.

The whole request says where the messages came from, whether the host may use their size as the prompt size,
the fresh tail, the prompt cache, what each step left out, every adjustment, and what is added to the system
prompt.

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
        super().__init__(document)
        self.conversation = conversation
        self._called = name
        self._item = item
        self._seq = seq
        self._note = note

    def where(self) -> str:
        """Of which context, and what of it."""
        called = self._called if self._item is None else name_of(self._item)
        return f"Context {self.conversation.conversation_id}  {called}"

    def selected_id(self) -> str | None:
        """The id of what it stands for."""
        return None if self._item is None else str(self._item)

    def on_mount(self) -> None:
        """Say under what it was sent."""
        self.title_bar.note = self._note

    def _say_it_stays(self) -> None:
        """Another one is opened from the list."""
        self.app.notify("This does not reload: open it again.", timeout=4)

    KEYS: ClassVar[Sequence[Key[SentScreen]]] = (
        commands.OTHER_VIEW.does(
            lambda s: s.open_instead(places.Item(s.conversation, s._item)),
            lambda s: "it stands for no item of the context" if s._item is None else None,
            title="As stored",
            help="Show the item that this message was made from, as it is stored.",
        ),
        actions.summaries_key(lambda s: s._item),
        actions.previous_key(lambda s: s._item),
        actions.messages_key(lambda s: s._seq),
        *SERIES,
    )
    COMMON: ClassVar[Sequence[Key[SentScreen]]] = (commands.RELOAD.does(_say_it_stays),)
