"""The snapshots of a conversation's context: what an engine noted of each that it gave to its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from lcm_core.records import Conversation
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot, snapshot_page
from lcm_core.store.listing import Page, Window
from lcm_core.times import format_local, parse_utc
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.frame import DataScreen
from lcm_tui.places import Side
from lcm_tui.screens.dissolving import MARK
from lcm_tui.screens.listing import FilterScreen, PanedScreen
from lcm_tui.screens.snapshot_text import noted_document, told
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Span
from lcm_tui.widgets.text import Block

#: Snapshots that are read; an engine keeps 20 of a conversation unless its host says otherwise.
MOST: Final = 500
EMPTY: Final = "No snapshot of this context is kept."
WHO: Final = (
    "A Python host that uses our Engine leaves a snapshot of each context that it is given, the newest 20 "
    "of a conversation; other engines leave none. To compare with an earlier time without one, use a backup: "
    "lcm-tui context compare ID --db-b BACKUP."
)

Listed: TypeAlias = Snapshot | DamagedSnapshot

COLUMNS: Final = (
    Column("mark", "", 1, keep=99),
    Column("time", "sent at", 19, keep=95),
    Column("budget", "budget", 8, right=True, keep=94),
    Column("tokens", "tokens", 8, right=True, keep=93),
    Column("messages", "messages", 8, right=True, keep=85),
    Column("evicted", "not sent", 8, right=True, keep=80),
    Column("source", "source", 14, keep=70),
    Column("rules", "rules", 5, keep=20),
    Column("cache", "cache", 8, keep=30),
    Column("selection", "selection", 13, keep=15),
    Column("id", "id", 20, keep=90),
)


class SnapshotsScreen(PanedScreen[str], DataScreen[Page[Listed]]):
    """What was kept of the contexts of one conversation."""

    HELP = """
The contexts that an engine gave to its host, the newest first, as it noted them: when, under which budget,
how many tokens and messages, what was not sent, where the messages came from. A Python host that uses our
Engine keeps the newest 20 of a conversation. A snapshot holds numbers and references, no text.

enter shows one as it was: its messages are put together again from the rows that still stand, and a hash says
whether that is exactly what was sent. D compares the selected one (-) with the context as it is now under the
same budget (+); with two marked (space), the older one (-) with the newer one (+).
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "compare", "mark", "context"))
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {
            "open": ("Open", "Show the context as it was sent then, as far as its rows still stand."),
            "compare": ("Compare", "Compare the selected one with now, or the two that are marked."),
            "mark": ("Mark", "Mark two snapshots, to compare them with each other."),
            "context": ("Context", "Show the context as it is now."),
        }
    )
    FILTER: ClassVar[str] = "a time, a budget, a source or an id"

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self._by_id: Mapping[str, Listed] = MappingProxyType({})
        self._read = False
        self._marked: dict[str, None] = {}

    def where(self) -> str:
        """Whose snapshots."""
        return f"Snapshots {self.conversation.conversation_id}  {self.conversation.lane}"

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> Page[Listed]:
        """The newest."""
        return await self.session.read(snapshot_page, self.conversation.conversation_id, Window(MOST))

    def show(self, data: Page[Listed]) -> None:
        """Show them; the selection stays on its snapshot."""
        known, first = self._by_id, not self._read
        self._by_id, self._read = {one.id: one for one in data.items}, True
        self._marked = {one: None for one in self._marked if isinstance(self._by_id.get(one), Snapshot)}
        self.relist()
        if not first:
            self.table.mark_fresh([one for one in self._by_id if one not in known])
        self._show_text()

    def why_empty(self) -> str:
        """Nobody keeps any, or the filter lets none through."""
        return f"No snapshot holds “{self._filter}”." if self._filter else EMPTY

    def note(self) -> str:
        """How many, and how many are marked."""
        marked = f", {len(self._marked)} marked" if self._marked else ""
        return self.counted(f"{len(self._by_id):,}") + marked if self._by_id else ""

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The snapshots whose time, budget, source or id hold every word."""
        return [key for key in self._by_id if all(word in self._searched(key) for word in words)]

    def _searched(self, key: str) -> str:
        cells = self.cells(key)
        return " ".join(span.text for span in cells.values()).casefold()

    # -- drawing -----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """What is said of a snapshot."""
        return COLUMNS

    def cells(self, key: str) -> dict[str, Span]:
        """A snapshot; a dot marks those that are to be compared."""
        one = self._by_id[key]
        common = {
            "mark": Span(MARK if key in self._marked else " ", "ok"),
            "time": Span(self._time(one)),
            "id": Span(key, "key"),
        }
        if isinstance(one, DamagedSnapshot):
            return {**common, "budget": Span("damaged", "error")}
        source = told(one, "source")
        return {
            **common,
            "budget": Span(f"{one.budget:,}"),
            "tokens": Span(f"{one.sent_tokens:,}"),
            "messages": Span(f"{len(one.sent):,}"),
            "evicted": Span(f"{one.evicted:,}", "warn" if one.evicted else "dim"),
            "source": Span(source, "text" if source == "assembled" else "warn"),
            "rules": Span(one.rules, "dim"),
            "cache": Span(told(one, "cacheState"), "dim"),
            "selection": Span(one.selection, "dim"),
        }

    def _time(self, one: Listed) -> str:
        """When it was sent; of a damaged one whatever stands there."""
        return format_local(parse_utc(one.created_at), self.session.zone) or one.created_at

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self._show_text()

    def _show_text(self) -> None:
        key = self.table.selected
        one = self._by_id.get(key) if key is not None else None
        if isinstance(one, DamagedSnapshot):
            self.text.show((Block(one.id, "key"), Block(one.problem, "error")))
        elif one is not None:
            self.text.show(noted_document(one, self._time(one)))
        else:
            self.text.show(() if self._by_id or not self._read else (Block(WHO, "dim"),))

    # -- commands ----------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The snapshot's id."""
        return self.table.selected

    def why_not(self, command: str) -> str | None:
        """Something must be selected; two can be compared."""
        if command in {"open", "mark"} and self.table.selected is None:
            return "no snapshot is selected"
        if command == "compare" and len(self._marked) > 2:
            return "two can be compared, and more are marked"
        if command == "compare" and self.table.selected is None and len(self._marked) < 2:
            return "no snapshot is selected"
        compares_marked = command == "compare" and len(self._marked) == 2
        selected = None if compares_marked else self._by_id.get(self.table.selected or "")
        if command in {"open", "mark", "compare"} and isinstance(selected, DamagedSnapshot):
            return "this snapshot is damaged"
        return super().why_not(command)

    def action_open(self) -> None:
        """Show it as it was."""
        one = self._by_id.get(self.table.selected or "")
        if isinstance(one, Snapshot):
            self.open(places.OneSnapshot(self.conversation, one))

    def action_mark(self) -> None:
        """Mark the snapshot to compare it with another one, or take its mark away."""
        key = self.table.selected
        if key is None:
            return
        if key in self._marked:
            del self._marked[key]
        else:
            self._marked[key] = None
        self.table.redraw([key])
        self.say_note()
        self.refresh_bars()

    def action_compare(self) -> None:
        """Compare two that are marked, or the selected one with the context as it is now."""
        # The list has the newest on top.
        whole = {key: one for key, one in self._by_id.items() if isinstance(one, Snapshot)}
        marked = [one for key, one in whole.items() if key in self._marked]
        if len(marked) == 2:
            newer, older = map(self._side, marked)
        else:
            selected = whole.get(self.table.selected or "")
            if selected is None:
                return
            older = self._side(selected)
            newer = Side(older.conversation_id, older.budget, "now", budget_of_snapshot=True)
        self.open(places.Comparison(older, newer))

    def _side(self, one: Snapshot) -> Side:
        return Side(self.conversation.conversation_id, one.budget, snapshot_id=one.id)

    def action_context(self) -> None:
        """Show the context as it is now."""
        self.open(places.Context(self.conversation))

    def filter_by(self, text: str) -> None:
        """Filter by other words; the text follows the cursor."""
        FilterScreen.filter_by(self, text)
        self._show_text()
