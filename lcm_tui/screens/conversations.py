"""The first screen: every conversation of the database, and sessions on disk that it does not know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import ClassVar

from lcm_core.ingest.sessions import DiskSession
from lcm_core.records import Conversation, ConversationId
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationCounts, ConversationEntry
from lcm_core.store.sums import ConversationSums, sums_of, sums_since
from lcm_core.times import format_local, parse_utc, sort_key
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.base import DataScreen
from lcm_tui.widgets.bars import Heading, TitleBar
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Column, Layout, Line, Span, lay_out, row_of

#: Conversations whose counts are read in one transaction.
BATCH = 40
#: A conversation that keeps changing is scanned whole at most this often; between, appended rows are added.
WHOLE_SECONDS = 10.0

COLUMNS = (
    Column("id", "id", 5, right=True, keep=100),
    Column("agent", "agent", 9, keep=40),
    Column("session", "session", 18, grows=True, keep=90),
    Column("title", "title", 14, keep=10),
    Column("state", "state", 10, keep=45),
    Column("messages", "messages", 8, right=True, keep=80),
    Column("tokens", "tokens", 9, right=True, keep=50),
    Column("depths", "summaries", 18, keep=60),
    Column("context", "context", 7, right=True, keep=55),
    Column("context_tokens", "ctx tok", 8, right=True, keep=52),
    Column("broken", "bad", 4, right=True, keep=70),
    Column("activity", "last activity", 16, keep=85),
)

PENDING = "…"
UNRECORDED = "–"


@dataclass(frozen=True, slots=True)
class Row:
    """What is known so far about a conversation, or about a session that only the disk knows."""

    entry: ConversationEntry | None
    session: DiskSession | None = None
    counts: ConversationCounts | None = None
    sums: ConversationSums | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The conversation, when the database knows it."""
        return self.entry.conversation if self.entry else None


RowKey = int | str  #: conversation id, or the path of a session on disk


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

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[RowKey, Row] = {}
        self._order: list[RowKey] = []
        self._filter = ""
        self._sort = "activity"
        self._turned = False
        self._listed = False
        self._filling = False
        self._count_wanted: set[RowKey] = set()
        self._sum_wanted: set[RowKey] = set()
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
        self.work_on("sessions", self._find_sessions)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(store.list_conversations)

    def show(self, data: list[ConversationEntry]) -> None:
        """Show the list; what was known of a conversation stays until it has been read again."""
        known = self._rows
        rows: dict[RowKey, Row] = {}
        changed: set[RowKey] = set()
        for entry in data:
            key = entry.conversation.conversation_id
            old = known.get(key)
            rows[key] = replace(old, entry=entry) if old else Row(entry)
            if old is not None and old.entry != entry:
                changed.add(key)
        fresh = [key for key in rows if key not in known] if self._listed else []
        rows.update({key: row for key, row in known.items() if row.session is not None})
        self._rows = rows
        self._listed = True
        self._arrange()
        self.table.mark_fresh([*fresh, *changed])
        self.table.empty = "This database holds no conversation." if not data else "No conversation matches."
        uncounted = {key for key, row in rows.items() if row.entry and row.counts is None}
        self._count_wanted |= changed | uncounted | set(self.table.visible_keys)
        self._fill()

    async def _find_sessions(self) -> None:
        """Sessions on disk that the database does not know."""
        from lcm_tui.screens.disk_session import unknown_sessions

        entries = await self.fetch()
        known = [entry.conversation for entry in entries]
        found = await asyncio.to_thread(unknown_sessions, self.session.settings, known)
        for session in found:
            self._rows[str(session.path)] = Row(None, session)
        if found and self._listed:
            self._arrange()

    # -- columns that cost more ------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if not self._filling:
            self._filling = True
            self.work_on("fill", self._fill_rows, exclusive=False)

    async def _fill_rows(self) -> None:
        try:
            while self._count_wanted or self._sum_wanted:
                await (self._fill_counts() if self._count_wanted else self._fill_sums())
                if self._sort not in {"activity", "id"} and not self._count_wanted | self._sum_wanted:
                    self._arrange()
        finally:
            self._filling = False

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, BATCH)
        for counts in await self.session.read(store.count_rows, batch):
            row = self._rows.get(counts.conversation_id)
            if row is not None:
                if row.counts != counts or row.sums is None:
                    self._sum_wanted.add(counts.conversation_id)
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
        needles = self._filter.casefold().split()
        keys = [key for key, row in self._rows.items() if _matches(self._cells(row), needles)]
        by, descending = _SORTS.get(self._sort, _SORTS["activity"])
        keys.sort(key=lambda key: by(self._rows[key]), reverse=descending != self._turned)
        self._order = keys
        self.table.replace(keys)
        known = sum(row.entry is not None for row in self._rows.values())
        shown = len(keys) if self._filter else known
        note = f"{shown:,} of {known:,}" if self._filter else f"{known:,}"
        sorted_by = "" if self._sort == "activity" and not self._turned else f" by {self._sort}"
        self.query_one(TitleBar).note = f"{note}{sorted_by}" + (f" /{self._filter}" if self._filter else "")

    def action_search(self) -> None:
        """Filter as you type."""
        self.ask("filter: words in any column", self._filter)

    def answered(self, text: str, *, done: bool) -> None:
        """The filter changed."""
        self._filter = text
        self._arrange()

    async def action_back(self) -> None:
        """Take the filter away first; then quit."""
        if self._filter or self.query_one("#prompt").display:
            self.close_prompt()
            self._filter = ""
            self._arrange()
            return
        await super().action_back()

    def action_sort(self) -> None:
        """Sort by the next column that is shown."""
        names = [
            column.name for column in self._layout(self.table.size.width).columns if column.name in _SORTS
        ]
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
        self.query_one("#heading").refresh()

    # -- drawing -----------------------------------------------------------------------------------------

    def _layout(self, width: int) -> Layout:
        return lay_out(COLUMNS, width)

    def _draw(self, key: RowKey, width: int) -> Sequence[Line]:
        return (row_of(self._layout(width), self._cells(self._rows[key])),)

    def _cells(self, row: Row) -> dict[str, Span]:
        if row.entry is None:
            return _disk_cells(row.session) if row.session else {}
        conversation, counts, sums = row.entry.conversation, row.counts, row.sums
        said = parse_utc(row.entry.last_activity)
        return {
            "id": Span(str(conversation.conversation_id), "key"),
            "agent": Span(conversation.agent or UNRECORDED),
            "session": Span(conversation.lane),
            "title": Span(conversation.title or "", "dim"),
            "state": _state(conversation),
            "messages": Span(_number(counts.messages if counts else None)),
            "tokens": Span(_number(sums.message_tokens if sums else None)),
            "depths": Span(_depths(counts)),
            "context": Span(_number(counts.context_items if counts else None)),
            "context_tokens": Span(_number(sums.context_tokens if sums else None)),
            "broken": _broken(sums),
            "activity": Span(
                format_local(said, self.session.zone)[:16]
                if said
                else row.entry.last_activity or "no messages",
                "text" if said else "dim",
            ),
        }

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
        if event.column in _SORTS:
            self._sort_by(event.column)

    @on(LineView.Highlighted, "#list")
    def _highlighted(self) -> None:
        self.refresh_bars()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        uncounted = {key for key in self.table.visible_keys if not self._rows[key].counts}
        if uncounted:
            self._count_wanted |= uncounted
            self._fill()

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


def _matches(cells: Mapping[str, Span], needles: Sequence[str]) -> bool:
    said = " ".join(span.text for span in cells.values()).casefold() if needles else ""
    return all(needle in said for needle in needles)


def _number(value: int | None) -> str:
    return PENDING if value is None else f"{value:,}"


def _state(conversation: Conversation) -> Span:
    if conversation.active is None:
        return Span(UNRECORDED, "dim")
    if conversation.active:
        return Span("active", "ok")
    return Span(conversation.archive_cause or "archived", "warn")


def _depths(counts: ConversationCounts | None) -> str:
    if counts is None:
        return PENDING
    return " ".join(f"{'L' if found.depth == 0 else found.depth}:{found.count}" for found in counts.summaries)


def _broken(sums: ConversationSums | None) -> Span:
    if sums is None:
        return Span(PENDING, "dim")
    return Span(f"✗{sums.broken}", "error") if sums.broken else Span("")


def _disk_cells(session: DiskSession) -> dict[str, Span]:
    return {
        "id": Span("disk", "warn"),
        "agent": Span(session.agent or UNRECORDED),
        "session": Span(session.session_key or session.session_id),
        "state": Span("on disk", "warn"),
        "activity": Span(f"{session.modified:%Y-%m-%d %H:%M}"),
    }


def _activity_of(row: Row) -> tuple[object, ...]:
    if row.entry is None:
        return (False, row.session.modified if row.session else None)
    said = sort_key(row.entry.last_activity or row.entry.conversation.updated_at)
    return (True, said, row.entry.conversation.conversation_id)


def _text_of(column: str) -> Callable[[Row], tuple[object, ...]]:
    def key(row: Row) -> tuple[object, ...]:
        conversation = row.conversation
        if conversation is None:
            return (True, "")
        said = {
            "agent": conversation.agent or "",
            "session": conversation.lane,
            "title": conversation.title or "",
            "state": _state(conversation).text,
        }[column]
        return (False, said.casefold(), conversation.conversation_id)

    return key


def _number_of(value: Callable[[Row], int | None]) -> Callable[[Row], tuple[object, ...]]:
    return lambda row: (row.entry is not None, value(row) or 0)


#: How each column sorts, and whether its largest value comes first.
_SORTS: Mapping[str, tuple[Callable[[Row], tuple[object, ...]], bool]] = {
    "activity": (_activity_of, True),
    "id": (_number_of(lambda row: row.conversation.conversation_id if row.conversation else None), False),
    "agent": (_text_of("agent"), False),
    "session": (_text_of("session"), False),
    "title": (_text_of("title"), False),
    "state": (_text_of("state"), False),
    "messages": (_number_of(lambda row: row.counts.messages if row.counts else None), True),
    "tokens": (_number_of(lambda row: row.sums.message_tokens if row.sums else None), True),
    "depths": (
        _number_of(lambda row: sum(found.count for found in row.counts.summaries) if row.counts else None),
        True,
    ),
    "context": (_number_of(lambda row: row.counts.context_items if row.counts else None), True),
    "context_tokens": (_number_of(lambda row: row.sums.context_tokens if row.sums else None), True),
    "broken": (_number_of(lambda row: row.sums.broken if row.sums else None), True),
}
