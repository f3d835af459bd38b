"""The context of a conversation: what the model sees, in order, and how much of the budget it takes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.assemble.ledger import ItemOutcome, Ledger, MessageKey
from lcm_core.context_items import ItemId
from lcm_core.context_view import Fetched, RowKey, stands_for_item
from lcm_core.operations.compaction.distance import Distance, distance_of
from lcm_core.records import Conversation, SummaryId
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.dissolve import dissolve_actions, why_not_dissolved
from lcm_tui.actions.drafts import rewrite_actions
from lcm_tui.actions.links import bound, conversation_links, item_links
from lcm_tui.actions.past import STEPS, step_actions
from lcm_tui.actions.series import Series
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.aside import Aside
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.marks import Marks
from lcm_tui.screens.context.account import Account, AccountBar
from lcm_tui.screens.context.assembly import Assembly
from lcm_tui.screens.context.budgeting import budget_actions
from lcm_tui.screens.context.exporting import export_actions
from lcm_tui.screens.context.items import ItemList
from lcm_tui.screens.context.messages import ACCOUNT, SentList
from lcm_tui.views.context import columns, fate_at
from lcm_tui.views.context_text import SHOWN, between_document, item_document
from lcm_tui.views.item import cut, load_item
from lcm_tui.views.sent import sent_columns, under_budget
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.composition import CompositionBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Layout
from lcm_tui.widgets.text import Document

#: The cursor rests this long on an item before its text is read.
DEBOUNCE_SECONDS: Final = 0.05


class ContextScreen(DataScreen[Fetched]):
    """What the model sees of one conversation."""

    HELP = """
What the model sees of this conversation, in order: summaries (L made from messages, D1 D2 D3 condensed), then
raw messages. "stored" are the engine's stored counts, "sent" is what the item costs as sent under the budget.
Items the model does not receive are dimmed, marked -, and "sent" names why: missing (the database lacks it),
in brief (a focus brief replaces it), cut: budget, cut: prompt, cut: limit (the engine's hard limit), empty
(no text is left to send), unpaired (a tool call or its result without the other). The line above the list
says why the selected item is dropped; its text and its own screen say so too. ~ marks a message adjusted for
the provider, * one kept for the prompt. "total" is the running total of stored tokens. 202 ≠ ~187 in
"stored": the stored count matches neither of the engine's two counting rules.

The bar shows what the context is made of, the gauge how much of the budget it uses. Below: what is sent and
what is left out; "in no summary" counts messages that are left out and that no summary which is sent covers:
the model sees them in no form. "pastes as a note" are users' messages of which a file holds what was pasted,
and only a note of it is sent. Then the shares of the sent tokens. "always sent" is the fresh tail, the newest
items that the budget never drops; "root" are the deepest summaries, "recent" are leaves and a focus brief,
"older" is what lies between, raw messages before the tail too. Then how many tokens remain until the next
compaction. + and - change the budget, B sets it, and everything is recalculated: a what-if of this screen,
named in its title; other screens go by the configured budget.

Q sets a user message to test eviction with: an engine with prompt-aware eviction keeps the items that match
it best instead of the newest. % turns the hard limit off: whole messages as JSON are larger than the
assembler counts, and when they exceed the budget (90 % of it by the rules of 1.0 and later) the engine drops
messages before the host gets them: the oldest, down to 90 % of the budget; then tool results that come first,
and answers that come last. By the rules of 1.1 a tool call and its results stay or go together. So the newest
message may be dropped too. The hard limit is on, as in the engine, until you turn it off.

m shows the messages as the model receives them: roles, XML, blocks; + marks a synthetic message. The first
line is the whole request: metadata, steps, adjustments, the system prompt's addition. o writes the request to
a file: JSON for an API call, or Markdown. D compares this context with another budget, another conversation,
itself without the prompt or as it was when opened, or a snapshot; @ lists the snapshots that an engine saved.

Lines between items mark missing ordinals (a host may prune on purpose), the start of the fresh tail (the
newest messages, which compaction does not touch), and where the engine sends a focus brief instead of the
summaries marked ┆. ✗ marks a damaged item: its row is missing (the engine skips it), it appears twice, it
belongs to another conversation, or its ordinal or type is invalid.

d previews dissolving a condensed summary: its sources take its place. space marks summaries (●), and d then
dissolves all of them. U lists changes and undoes them.

[ and ] step through the operations that changed this conversation: the context as it was before each, and at
last as it is now. The lines under the title name the operation, and what changed since that the history does
not know. The past is read-only; D compares it with now.

enter opens an item or a message. / finds ids, kinds and previews; in the messages as sent it finds text.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *(
                "open",
                "other-view",
                "budget",
                "dissolve",
                "prompt",
                "compare",
                "compact",
                "snapshots",
                "rewrite",
            ),
            *("export", "summaries", "previous", "messages", "repair", "rewrite-subtree", "mark", "health"),
            *("history", "files", "briefs", "budget-more", "budget-less", "clamp"),
            *STEPS,
        )
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Open the item, or the message as sent."),
            "other-view": ("Sent messages", "Switch between stored items and the messages as sent."),
            "mark": ("Mark", "Mark or unmark a summary; dissolving applies to the marked ones."),
            "search": ("Find", "Find ids, kinds and previews of items, or text in the messages as sent."),
            **STEPS,
        }
    )

    def __init__(self, conversation: Conversation, *, select: tuple[str, ...] | None = None) -> None:
        """The context of *conversation*, standing on ``("summary", id)`` or ``("message", id)``."""
        super().__init__()
        self.conversation = conversation
        self.marks = Marks[SummaryId](self._marked)
        self.assembly = Assembly(self, conversation, self._show_assembly, self._show_account)
        self.head = CompositionBar(id="head")
        self.account = AccountBar()
        self.items = ItemList(
            self, conversation, self.marks, self._show_known, budget=lambda: self.assembly.asked
        )
        self.items.stand_on(select)
        self.sent = SentList(self.marks)
        self.sent.display = False
        self._heading = Heading(self._columns, id="heading")
        self._aside = Aside(self._heading, self.items, self.sent, show_text=self._show_text)
        self.text = self._aside.text  #: what is selected; not shown on a narrow screen
        self._as_sent = False  #: the messages stand in place of the items
        self._shown: tuple[object, bool] | None = None

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The head, the items or the messages, and the text of what is selected."""
        yield self.head
        yield self.account
        yield self._aside

    def actions(self) -> Sequence[Action]:
        """Looking at what is sent, deciding what is, changing it, and where it leads to."""
        one = self.conversation
        changing = dissolve_actions(
            self, one, self.marks, selected=self.summary_id, why_not=self._why_not_dissolved
        )
        return bound(
            self,
            Action("open", self._open_selected, self._why_not_open),
            Action("other-view", self._turn_as_sent),
            *budget_actions(self, self.assembly, self._settings_changed),
            *export_actions(self, one.conversation_id, self.assembly),
            *step_actions(self, one),
            *(replace(action, when=self._once_read(action.when)) for action in changing),
            *rewrite_actions(self, one, self.summary_id),
            *conversation_links(self, one),
            *item_links(self, one, item=self.item, seq=self.seq, is_leaf=self._is_leaf),
        )

    def where(self) -> str:
        """Whose context."""
        return f"Context {self.session.called(self.conversation)}"

    def _is_leaf(self, summary_id: SummaryId) -> bool | None:
        entry = self.items.entries.get(summary_id)
        return None if entry is None else entry.kind == "leaf"

    def main_widget(self) -> LineView[RowKey]:
        """The list of items, or of messages: their keys look alike."""
        return self._list

    @on(CompositionBar.Clicked)
    def _clicked_bar(self, event: CompositionBar.Clicked) -> None:
        """Stand on the first item of the part that was clicked."""
        if not self._as_sent:
            self.items.focus()
            self.items.select_group(event.group)

    def finder(self) -> Finder:
        """The search in the list that is shown."""
        return self._list.finder

    @property
    def _list(self) -> ItemList | SentList:
        return self.sent if self._as_sent else self.items

    def _columns(self, width: int) -> Layout:
        return sent_columns(width) if self._as_sent else columns(width)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Fetched:
        """What changed, and what is in sight; the first time no more than the beginning."""
        return await self.items.fetch()

    def show(self, data: Fetched) -> None:
        """Show the items; then assemble them, or read the others first."""
        complete = data.view.items.complete
        self.items.show(data)
        if complete:
            self.assembly.file_changed()
        else:
            self.call_later(self.load)

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary or a message once it has been read."""
        self.items.stand_on(("summary", ref) if isinstance(ref, str) else ("message", str(ref)))
        self.load()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self.items.read_sight()

    def _show_known(self) -> None:
        """More is known of the items: how far the next compaction is follows from it."""
        self._show_text()
        self.head.measure(self.items.measured())
        self._show_account()

    def _show_assembly(self, ledger: Ledger) -> None:
        """Show an assembly in place of the one before."""
        self._show_account()
        self.items.show_fates(ledger)
        self.sent.show_sent(ledger)
        self._show_text()
        self.refresh_bars()

    def _settings_changed(self) -> None:
        """The budget, the prompt or the hard limit is another one."""
        self._say_note()
        self.items.show_known()
        if self.items.was_read:
            self.assembly.settings_changed()

    def _show_account(self) -> None:
        if self.account.is_attached:
            one, (ordinal, fate) = self.assembly, self._fate()
            self.account.show_account(
                Account(
                    one.ledger,
                    self.distance,
                    one.prompt,
                    one.clamps,
                    one.problem,
                    one.outdated,
                    ordinal,
                    fate,
                )
            )

    def _fate(self) -> tuple[int | None, ItemOutcome | None]:
        """The ordinal of the selected item and what becomes of it; None: no item is selected."""
        key, known = self.items.selected, self.items.known
        place = None if self._as_sent or key is None or not stands_for_item(key) else self.items.place_of(key)
        if place is None:
            return None, None
        return known.view.items.ordinals[place], fate_at(known, place, self.assembly.ledger)

    @property
    def distance(self) -> Distance | None:
        """How far the next compaction is; None while the context is being read."""
        totals = self.items.known.totals
        if totals is None:
            return None
        return distance_of(
            totals, self.session.rules_for(self.conversation.session_key).compaction, self.assembly.budget
        )

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    @on(LineView.Highlighted, "#sent")
    def _highlighted(self) -> None:
        self._show_text()
        self._show_account()
        item = self.item()
        if self._as_sent and item is not None and item not in self.items.entries:
            self.work_on("entry", self._read_sent)

    async def _read_sent(self) -> None:
        """Read what the list of items would have read of the message that is selected: its seq."""
        await asyncio.sleep(DEBOUNCE_SECONDS)
        items, ordinal = self.items.known.view.items, self.sent.ordinal
        place = bisect_left(items.ordinals, ordinal) if ordinal is not None else len(items)
        if place < len(items) and items.refs[place] == self.item():
            await self.items.read_entry(place)
            self.refresh_bars()

    def _show_text(self) -> None:
        """Show what is selected beside the list, where it has room; what stands there stays until then."""
        if not self.text.display:
            return
        if self._as_sent:
            if (document := self.sent.document(self.distance)) is not None:
                self._show_document(self.sent.selected, cut(document, SHOWN))
            return
        key = self.items.selected
        if key is not None and stands_for_item(key):
            self.work_on("text", self._load_text, key)
        elif key is not None:
            self._show_document(key, between_document(self.items.known, key))

    async def _load_text(self, key: RowKey) -> None:
        items = self.items
        if self._shown != (key, False):
            await asyncio.sleep(DEBOUNCE_SECONDS)
        place = items.place_of(key)
        if place is None:
            return
        data = await self.session.read(load_item, items.known.view.items.refs[place])
        place = items.place_of(key)
        if place is not None and items.selected == key and not self._as_sent:
            document = item_document(items.known, place, data, self.session, self.assembly.ledger)
            await self.text.load(document, keep_place=(key, False) == self._shown)
            self._shown = (key, False)

    def _show_document(self, key: object, document: Document) -> None:
        self.workers.cancel_group(self, "text")  # what is being read is of another row
        shown = (key, self._as_sent)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- what is selected --------------------------------------------------------------------------------

    def item(self) -> ItemId:
        """The item under the cursor; None on a line between items, and on what was made up."""
        return self._list.item

    def seq(self) -> int | None:
        """The seq of the message under the cursor."""
        entry = self.items.entries.get(self.item())
        return None if entry is None else entry.seq

    def title_now(self, command: str) -> str:
        """`m` gives the other form."""
        return "Stored items" if command == "other-view" and self._as_sent else super().title_now(command)

    def summary_id(self) -> SummaryId | None:
        """The summary under the cursor."""
        item = self.item()
        return SummaryId(item) if isinstance(item, str) else None

    def selected_id(self) -> str | None:
        """The summary's or message's id, or the brief's."""
        key = self._list.selected
        if key is not None and key[0] in ("brief", "focus brief"):
            return str(key[1])
        item = self.item()
        return None if item is None else str(item)

    # -- commands ----------------------------------------------------------------------------------------

    def _turn_as_sent(self) -> None:
        """Switch between the items and the messages as they are sent, staying at the same place."""
        before = self._list
        ordinal = before.ordinal
        self._as_sent = not self._as_sent
        self.items.display, self.sent.display = not self._as_sent, self._as_sent
        self._list.finder.needle = before.finder.needle
        self._list.select_ordinal(ordinal)
        self._list.redraw()
        self._list.focus()
        self._heading.refresh()
        self._show_text()
        self.refresh_bars()

    def _why_unread(self) -> str | None:
        return None if self.items.was_read else "still loading: try again in a moment"

    def _once_read(self, why_not: Callable[[], str | None]) -> Callable[[], str | None]:
        return lambda: self._why_unread() or why_not()

    def _why_not_open(self) -> str | None:
        if self._as_sent or self.selected_id() is not None:
            return None
        return self._why_unread() or "no item is selected"

    def _open_selected(self) -> None:
        """Show the item or the message whole; of a brief, all briefs."""
        sent, key = self.sent.selected, self.items.selected
        if self._as_sent:
            if sent is not None and (place := self._sent_place(sent)) is not None:
                self.open(place, Series("message", lambda: self.sent, self._sent_place))
        elif self.item() is None:
            self.open(places.Briefs(self.conversation))
        elif key is not None and (place := self._item_place(key)) is not None:
            self.open(place, Series("item", lambda: self.items, self._item_place))

    def _sent_place(self, key: MessageKey) -> places.Place | None:
        """A message as it is sent, or the account of all."""
        document = self.sent.document(self.distance, key)
        if document is None:
            return None
        item = self.sent.item_of(key)
        entry = self.items.entries.get(item)
        name = str(item) if item is not None else "whole request" if key == ACCOUNT else "synthetic message"
        note = f"as sent under {self.assembly.asked:,} tokens"
        seq = None if entry is None else entry.seq
        return places.Sent(self.conversation, name, document, item, seq, note)

    def _item_place(self, key: RowKey) -> places.Place | None:
        """An item, and what becomes of it; not a line between items."""
        place = self.items.place_of(key) if stands_for_item(key) else None
        if place is None:
            return None
        known, ledger = self.items.known, self.assembly.ledger
        fate = under_budget(fate_at(known, place, ledger), ledger)
        return places.Item(self.conversation, known.view.items.refs[place], fate=fate)

    def _why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What has been read of it: a leaf, or standing twice."""
        entry = self.items.entries.get(summary_id)
        standing = self.items.known.view.items.repeated.get(summary_id, (0,))
        return why_not_dissolved(entry.kind == "leaf" if entry else None, len(standing), below)

    def _marked(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        del summary_ids
        self._list.redraw()
        self._say_note()

    def _say_note(self) -> None:
        """How many are marked, and what is asked here that is not configured."""
        said = filter(None, (self.marks.text, self.assembly.what_if_text))
        self.title_bar.note = "  ".join(said)
