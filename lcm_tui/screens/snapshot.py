"""A context as an engine sent it once: its messages, as far as their rows still stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from lcm_core.assemble.ledger import Ledger, ledger_of
from lcm_core.context_items import ItemId
from lcm_core.records import Conversation
from lcm_core.snapshots import RebuiltSnapshot, rebuild_snapshot
from lcm_core.store.assemblies import Snapshot
from lcm_core.times import format_local, parse_utc
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.places import Side
from lcm_tui.screens.context.list import WIDE
from lcm_tui.screens.item_links import ItemLinks
from lcm_tui.screens.snapshot_text import how_true, lost_document, snapshot_line, whole_document
from lcm_tui.views.context_text import SHOWN
from lcm_tui.views.item import cut
from lcm_tui.views.sent import fitted, message_document, searched_text, sent_columns
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.panes import Columns, Rows
from lcm_tui.widgets.spans import Layout, Line, Span
from lcm_tui.widgets.text import Document, TextView, mark

#: The line above the messages, for all of them.
WHOLE: Final = -1


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot as it can be shown today."""

    found: RebuiltSnapshot
    ledger: Ledger


class SnapshotScreen(ItemLinks, DataScreen[Seen]):
    """What was sent then."""

    HELP = """
One context as an engine sent it, message by message, put together again from the rows that still stand. The
first line stands for all of it and says how true that is: a hash was kept of what was sent. "sent" are the
tokens that were noted then; ✗ marks a message of which nothing stands any more.

enter shows a message whole. D compares the snapshot (-) with the context as it is now under the same budget.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "compare", "summaries", "previous"))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Show the selected message whole, or what was noted of all of them."),
            "compare": ("Compare", "Compare it with the context as it is now, under the same budget."),
        }
    )
    DEFAULT_CSS = """
    SnapshotScreen {
        #panes { height: 1fr; }
        #chosen { width: 3fr; }
        #text { width: 2fr; border-left: solid $foreground 30%; }
    }
    """

    def __init__(self, conversation: Conversation, one: Snapshot) -> None:
        super().__init__()
        self.conversation = conversation
        self.one = one
        self.table = LineView[int](self._draw, empty="Reading the database …", id="list")
        self.text = TextView(id="text")
        self._seen: Seen | None = None
        self._needle = ""

    def compose_body(self) -> ComposeResult:
        """The messages, and beside them, where there is room, the text of the selected one."""
        self.text.display = self.app.size.width >= WIDE
        with Columns(id="panes"):
            with Rows(id="chosen"):
                yield Heading(self._columns, id="heading")
                yield self.table
            yield self.text

    def _columns(self, width: int) -> Layout:
        return sent_columns(width)

    def main_widget(self) -> LineView[int]:
        """The messages, by number from 0."""
        return self.table

    def on_mount(self) -> None:
        """Say which one this is."""
        bar = self.query_one(TitleBar)
        bar.where = f"Snapshot {self.conversation.conversation_id}  {self._time}"
        bar.note = f"under {self.one.budget:,} tokens"
        self.table.focus()

    def on_resize(self) -> None:
        """Show the pane where it has room."""
        fits = self.app.size.width >= WIDE
        if self.text.display != fits:
            self.text.display = fits
            self.call_after_refresh(self._show_text)

    @property
    def _time(self) -> str:
        return format_local(parse_utc(self.one.created_at), self.session.zone) or self.one.created_at

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Seen:
        """Put it together from what stands now."""
        found = await self.session.read(rebuild_snapshot, self.one, self.session.zone)
        return Seen(found, ledger_of(found.assembled))

    def show(self, data: Seen) -> None:
        """Show it; the cursor stays on its message."""
        self._seen = data
        self.table.replace([WHOLE, *range(len(self.one.sent))])
        self._show_text()

    def _draw(self, key: int, width: int) -> Sequence[Line]:
        seen = self._seen
        if seen is None:
            return ((),)
        if key == WHOLE:
            said, same = how_true(seen.found)
            return (
                fitted(((Span("all of it", "heading"),), (Span(said, "ok" if same else "warn"),)), width),
            )
        line = snapshot_line(seen.ledger, self.one.sent[key], key, seen.found.places[key], width)
        return (mark(line, self._needle) if self._needle else line,)

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()
        self.refresh_bars()

    def _show_text(self) -> None:
        document = self._document()
        if self.text.display and document is not None:
            self.text.show(cut(document, SHOWN))

    def _document(self) -> Document | None:
        """What is selected, to read; None while nothing was read."""
        key, seen = self.table.selected, self._seen
        if seen is None or key is None:
            return None
        if key == WHOLE:
            return whole_document(self.one, seen.found, self._time)
        place = seen.found.places[key]
        return lost_document(self.one.sent[key]) if place is None else message_document(seen.ledger, place)

    # -- commands ----------------------------------------------------------------------------------------

    def linked_item(self) -> ItemId:
        """The summary or message that the selected one stands for; None on the line for all."""
        key, seen = self.table.selected, self._seen
        place = None if seen is None or key is None or key == WHOLE else seen.found.places[key]
        if seen is None or place is None:
            return None
        origin = seen.ledger.assembled.messages[place].origin
        return origin.summary_id or origin.message_id

    def selected_id(self) -> str | None:
        """Its id; on the line for all of it that of the snapshot."""
        item = self.linked_item()
        return self.one.id if self.table.selected == WHOLE else None if item is None else str(item)

    def why_not(self, command: str) -> str | None:
        """Nothing opens before it was read."""
        if command == "open" and self._document() is None:
            return "the snapshot is still being read"
        if command in {"next", "previous-match"} and not self._needle:
            return "nothing has been searched for yet"
        return super().why_not(command)

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    def action_open(self) -> None:
        """Show the message whole."""
        document = self._document()
        if document is not None:
            name = self.selected_id() or "made up then"
            note = f"sent {self._time[:16]}"
            item = self.linked_item()
            self.open(places.Sent(self.conversation, name, document, item, None, note))

    def action_compare(self) -> None:
        """Compare with the context as it is now."""
        one = self.one
        then = Side(one.conversation_id, one.budget, snapshot_id=one.id)
        now = Side(one.conversation_id, one.budget, "now", budget_of_snapshot=True)
        self.open(places.Comparison(then, now))

    # -- searching ---------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search the messages."""
        self.open_prompt("search: an id, a role, or words of a message", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """Mark what was typed; at the end go to the first match."""
        self._needle = text
        self.table.redraw()
        if done and text:
            self._find(self.table.cursor, 1)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(self.table.cursor + 1, 1)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(self.table.cursor - 1, -1)

    def _find(self, start: int, direction: int) -> None:
        keys = self.table.keys
        for at in range(start, start + direction * len(keys), direction):
            key = keys[at % len(keys)]
            if self._needle.casefold() in self._searched(key).casefold():
                self.table.select(key)
                return
        self.app.notify(f"No message of this snapshot holds “{self._needle}”.", timeout=3)

    def _searched(self, key: int) -> str:
        seen = self._seen
        place = None if seen is None or key == WHOLE else seen.found.places[key]
        if seen is None or key == WHOLE:
            return ""
        if place is None:
            return self.one.sent[key].name
        return searched_text(seen.ledger.assembled.messages[place])
