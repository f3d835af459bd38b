"""The first screen: every conversation of the database, and sessions on disk that it does not know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import ClassVar

from lcm_core.ingest.sessions import DiskSession, KnownSession, SessionIndex, find_sessions, unknown_to
from lcm_core.records import Conversation, ConversationId
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationEntry
from lcm_core.store.sums import sums_of, sums_since
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.base import DataScreen
from lcm_tui.screens.conversation_rows import (
    COLUMNS,
    COUNTED,
    ORDERS,
    Row,
    RowFilter,
    RowKey,
    cells_of,
    ordered,
)
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Layout, Line, lay_out, row_of

#: Conversations whose counts are read in one transaction.
BATCH = 40
#: A conversation that keeps changing is scanned whole at most this often; between, appended rows are added.
WHOLE_SECONDS = 10.0
#: How often the sessions folder is looked at, and sums that may have changed are.
LOOK_SECONDS = 5.0


class ConversationsScreen(DataScreen[list[ConversationEntry]]):
    """All conversations, newest activity first."""

    HELP = """
Every conversation in the database, archived ones too, newest activity first. Below them, marked "on disk",
stand sessions whose transcript lies in the sessions folder but which the database does not know.

"summaries" counts by depth: L leaves, 1 2 3 condensed summaries of that depth. "context" is the number of
items that the model sees, "ctx tok" their stored tokens. "bad" counts summaries that carry one of the
engine's failure markers or are empty. Columns that cost a scan fill in while you look (…). – means: this
version of the engine did not record it. Type / to filter over all columns; words are combined.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "context", "summaries", "files", "briefs", "search", "sort", "turn")
    )

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self._rows: dict[RowKey, Row] = {}
        self._order: Sequence[RowKey] = ()
        self._disk: Collection[DiskSession] = ()  #: all sessions in the folder, known to the database or not
        self._disk_index: SessionIndex | None = None
        self._matching = RowFilter()
        self._filter = ""
        self._sort = "activity"
        self._turned = False
        self._listed = False
        self._filling = False
        self._count_wanted: set[RowKey] = set()
        self._sum_wanted: set[RowKey] = set()
        self._uncounted: set[RowKey] = set()  #: rows that were not counted since the last change
        self._unsummed: set[RowKey] = set()  #: rows that were not scanned whole since the last change
        self._summed_at: dict[int, float] = {}  #: monotonic time of the last whole scan

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """A heading and the list."""
        yield Heading(self._layout, id="heading")
        yield LineView[RowKey](self._draw, empty="Reading the database …", id="list")

    @property
    def table(self) -> LineView[RowKey]:
        """The list of conversations."""
        return self.query_one("#list", LineView)

    def main_widget(self) -> LineView[RowKey]:
        """The list."""
        return self.table

    def on_mount(self) -> None:
        """Load, and look for sessions on disk."""
        self.query_one(TitleBar).where = "Conversations"
        self.table.focus()
        # Not before the database's own rows stand on the screen.
        self.call_after_refresh(self.work_on, "sessions", self._find_sessions)
        self.set_interval(LOOK_SECONDS, self._look_again)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(store.list_conversations)

    def show(self, data: list[ConversationEntry]) -> None:
        """Show the list; what was known of a conversation stays until it has been read again."""
        known, rows = self._rows, dict[RowKey, Row]()
        changed: set[RowKey] = set()
        for entry in data:
            key = entry.conversation.conversation_id
            old = known.get(key)
            rows[key] = replace(old, entry=entry) if old else Row(entry)
            if old is not None and old.entry != entry:
                changed.add(key)
        fresh = [key for key in rows if key not in known] if self._listed else []
        self._rows = rows
        self._add_sessions()
        self._uncounted = {key for key, row in rows.items() if row.entry is not None}
        self._unsummed = set(self._uncounted)
        self._listed = True
        self._arrange()
        self.table.mark_fresh([*fresh, *changed])
        self._want_counts(changed)

    def _add_sessions(self) -> None:
        """Put what the database does not know below what it does."""
        listed = {key: row for key, row in self._rows.items() if row.entry is not None}
        told = [
            KnownSession(row.conversation.session_id, row.conversation.session_key)
            for row in listed.values()
            if row.conversation is not None
        ]
        self._rows = listed
        self._rows.update((str(found.path), Row(None, found)) for found in unknown_to(self._disk, told))

    async def _find_sessions(self) -> None:
        """Sessions on disk; only files that changed since the last look are opened."""
        folder = self.session.settings.sessions.value
        listing = await asyncio.to_thread(find_sessions, folder, self._disk_index)
        self._disk_index = listing.index
        if listing.sessions != self._disk:
            self._disk = listing.sessions
            if self._listed:
                self._add_sessions()
                self._arrange()

    def _look_again(self) -> None:
        """Follow what changes without a change of the list, for as long as it is seen."""
        if self.app.screen is self:
            self.work_on("sessions", self._find_sessions)
            now = time.monotonic()
            self._sum_wanted |= {
                key
                for key in self._unsummed.intersection(self.table.visible_keys)
                if isinstance(key, int) and now - self._summed_at.get(key, now) > WHOLE_SECONDS
            }
            self._fill()

    def action_reload(self) -> None:
        """Read everything again now."""
        self._summed_at.clear()
        self._sum_wanted |= {key for key, row in self._rows.items() if row.sums is not None}
        self.work_on("sessions", self._find_sessions)
        super().action_reload()

    # -- columns that cost more ------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if not self._filling:
            self._filling = True
            self.work_on("fill", self._fill_rows, exclusive=False)

    def _want_counts(self, changed: Collection[RowKey] = ()) -> None:
        """Count what is in sight and what was never counted; all when order or filter tell by it."""
        unknown = {key for key in self._uncounted if self._rows[key].counts is None}
        seen = self._uncounted.intersection(self.table.visible_keys)
        self._count_wanted |= unknown | seen | (self._uncounted & set(changed))
        if self._sort in COUNTED or self._filter:
            self._count_wanted |= self._uncounted
        self._fill()

    async def _fill_rows(self) -> None:
        try:
            while self._count_wanted or self._sum_wanted:
                await (self._fill_counts() if self._count_wanted else self._fill_sums())
                if self._sort in COUNTED and not self._count_wanted | self._sum_wanted:
                    self._arrange()
        finally:
            self._filling = False

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, BATCH)
        self._uncounted.difference_update(batch)
        for counts in await self.session.read(store.count_rows, batch):
            row = self._rows.get(counts.conversation_id)
            if row is not None:
                if row.counts != counts or row.sums is None:
                    self._sum_wanted.add(counts.conversation_id)
                if row.counts is None or row.counts.summaries != counts.summaries:
                    self._summed_at.pop(
                        counts.conversation_id, None
                    )  # appended rows do not tell what is broken
                self._rows[counts.conversation_id] = replace(row, counts=counts)
        self.table.redraw(batch)

    async def _fill_sums(self) -> None:
        """Sums of the next conversation; of one that only grew, those of what was appended."""
        for conversation_id in self._next(self._sum_wanted, 1):
            row = self._rows.get(conversation_id)
            if row is None:
                continue
            age = time.monotonic() - self._summed_at.get(conversation_id, 0.0)
            if row.sums is None or age > WHOLE_SECONDS:
                self._unsummed.discard(conversation_id)
                sums = await self.session.read(sums_of, conversation_id)
                self._summed_at[conversation_id] = time.monotonic()
            else:
                sums = await self.session.read(sums_since, row.sums)
            latest = self._rows.get(conversation_id)
            if latest is not None:
                self._rows[conversation_id] = replace(latest, sums=sums)
                self.table.redraw([conversation_id])

    def _next(self, wanted: set[RowKey], limit: int) -> list[ConversationId]:
        """Take the next keys off a set of wanted ones: first those in sight, then in the list's order."""
        seen = [key for key in self.table.visible_keys if key in wanted]
        rest = (key for key in self._order if key in wanted)
        chosen = list(islice(dict.fromkeys(chain(seen, rest)), limit)) or list(islice(wanted, limit))
        wanted.difference_update(chosen)
        return [ConversationId(key) for key in chosen if isinstance(key, int)]

    # -- order and filter --------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Filter and sort; the cursor stays on its conversation."""
        keys = self._matching.passing(self._rows, self._filter, self.session.zone)
        self._order = ordered(self._rows, keys, self._sort, turned=self._turned)
        self.table.empty = (
            "No conversation matches." if self._rows else "This database holds no conversation."
        )
        self.table.replace(self._order)
        self.query_one(TitleBar).note = self._note()

    def _note(self) -> str:
        known = sum(row.entry is not None for row in self._rows.values())
        total = f"{known:,}" + (
            f" and {len(self._rows) - known:,} on disk" if len(self._rows) > known else ""
        )
        said = f"{len(self._order):,} of {total} /{self._filter}" if self._filter else total
        if self._sort != "activity" or self._turned:
            title = next(column.title for column in COLUMNS if column.name == self._sort)
            said += f"  by {title} {'↓' if ORDERS[self._sort][1] != self._turned else '↑'}"
        return said

    def action_search(self) -> None:
        """Filter as you type."""
        self.ask("filter: words in any column", self._filter)

    def answered(self, text: str, *, done: bool) -> None:
        """The filter changed."""
        self._filter = text
        self._arrange()
        self._want_counts()

    async def action_back(self) -> None:
        """Take the filter away first; then quit."""
        if not self._filter:
            await super().action_back()
            return
        if self.asking:
            self.close_prompt()
        self._filter = ""
        self._arrange()

    def action_sort(self) -> None:
        """Sort by the next column that is shown."""
        names = [column.name for column in self._layout(self.table.scrollable_content_region.width).columns]
        at = names.index(self._sort) if self._sort in names else -1
        self._sort_by(names[(at + 1) % len(names)])

    def action_turn(self) -> None:
        """Turn the order round."""
        self._turned = not self._turned
        self._arrange()

    def _sort_by(self, name: str) -> None:
        self._turned = self._sort == name and not self._turned
        self._sort = name
        self._arrange()
        self._want_counts()

    # -- drawing -----------------------------------------------------------------------------------------

    def _layout(self, width: int) -> Layout:
        return lay_out(COLUMNS, width)

    def _draw(self, key: RowKey, width: int) -> Sequence[Line]:
        return (row_of(self._layout(width), cells_of(self._rows[key], self.session.zone)),)

    # -- going on ----------------------------------------------------------------------------------------

    def selected_id(self) -> str | None:
        """The conversation's id, or the session's."""
        row = self._selected()
        if row is None:
            return None
        if row.conversation is not None:
            return str(row.conversation.conversation_id)
        return row.session.session_id if row.session else None

    def why_not(self, command: str) -> str | None:
        """Most views need a conversation that the database knows."""
        row = self._selected()
        if command in {"open", "context", "summaries", "files", "briefs"}:
            if row is None:
                return "no conversation is selected"
            if row.conversation is None and command != "open":
                return "the database does not know this session; enter shows its transcript"
        return None

    @on(LineView.Opened, "#list")
    async def _opened(self) -> None:
        await self.action_run("open")

    @on(Heading.Clicked)
    def _heading_clicked(self, event: Heading.Clicked) -> None:
        self._sort_by(event.column)

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.refresh_bars()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        if not self._uncounted.isdisjoint(self.table.visible_keys):
            self._want_counts()

    def action_open(self) -> None:
        """Show the messages."""
        row = self._selected()
        if row is None:
            return
        if row.conversation is None:
            if row.session is not None:
                from lcm_tui.screens.disk_session import DiskSessionScreen

                self.app.push_screen(DiskSessionScreen(row.session))
            return
        from lcm_tui.screens.conversation import ConversationScreen

        self.app.push_screen(ConversationScreen(row.conversation))

    def action_context(self) -> None:
        """Show what the model sees."""
        from lcm_tui.screens.context import ContextScreen

        self.app.push_screen(ContextScreen(self._conversation()))

    def action_summaries(self) -> None:
        """Show the summary DAG."""
        from lcm_tui.screens.dag import DagScreen

        self.app.push_screen(DagScreen(self._conversation()))

    def action_files(self) -> None:
        """Show the large files."""
        from lcm_tui.screens.files import FilesScreen

        self.app.push_screen(FilesScreen(self._conversation()))

    def action_briefs(self) -> None:
        """Show the focus briefs."""
        from lcm_tui.screens.briefs import BriefsScreen

        self.app.push_screen(BriefsScreen(self._conversation()))

    def _selected(self) -> Row | None:
        key = self.table.selected
        return self._rows.get(key) if key is not None else None

    def _conversation(self) -> Conversation:
        row = self._selected()
        assert row is not None  # why_not has made sure
        assert row.conversation is not None
        return row.conversation
