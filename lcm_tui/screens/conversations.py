"""The first screen: every conversation of the database, and sessions on disk that it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from lcm_core.paths import SESSIONS_IN_HOST_DATABASE
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import ConversationEntry
from textual import on
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.commands import bindings
from lcm_tui.screens.conversation_counts import CountedList
from lcm_tui.screens.conversation_rows import COLUMNS, ORDERS, Row, RowKey, cells_of
from lcm_tui.screens.pruning import Pruning
from lcm_tui.screens.rewriting import Repairing
from lcm_tui.widgets.bars import Heading
from lcm_tui.widgets.spans import Span

if TYPE_CHECKING:  # sessions on disk are looked for behind the first rows
    from lcm_core.ingest.sessions import DiskSession, SessionIndex

#: Commands that need a conversation.
_OF_ONE = frozenset(
    {
        *("open", "context", "summaries", "files", "briefs", "transplant", "merge", "mark"),
        *("archive", "delete", "compact"),
    }
)
#: How often the sessions folder is looked at, and sums that may have changed are.
LOOK_SECONDS = 5.0


class ConversationsScreen(Pruning, Repairing, CountedList):
    """All conversations, newest activity first."""

    HELP = """
Every conversation in the database, archived ones too, newest activity first. Below them, marked "on disk",
stand sessions whose transcript lies in the sessions folder but which the database does not know.

"summaries" counts by depth: L leaves, 1 2 3 condensed summaries of that depth. "context" is the number of
items that the model sees, "ctx tok" their stored tokens. "bad" counts summaries that carry one of the
engine's failure markers or are empty; H leads to them and to whatever else the checks find. Columns that cost
a scan fill in while you look (…). – means: this version of the engine did not record it. Type / to filter
over all columns; words are combined. Where a narrow screen has no room for all columns, › stands at the end
of the heading: l shows the others, h goes back. S sorts by the next column that is shown.

t copies what the selected conversation remembers to the front of another one's context. V makes a session
that a rollover split one conversation again. space marks conversations: K archives the marked (every row
stays), X exports them to files and deletes them; without marks the selected one is meant. All of this shows
a preview first and can be undone (U); only what is forgotten, a choice of the deletion's preview, cannot.
R lists the broken summaries, of one conversation or of the whole file, and has them written again. i previews
importing a session that only the disk knows.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "context", "summaries", "health", "repair", "compact", "transplant", "mark", "history"),
            *("files", "search", "sort", "briefs", "merge", "archive", "delete", "backfill", "turn"),
        )
    )

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self._disk: Collection[DiskSession] = ()  #: all sessions in the folder, known to the database or not
        self._disk_index: SessionIndex | None = None
        self._not_read = False  #: OpenClaw keeps sessions in its own database
        self._listed = False

    def on_mount(self) -> None:
        """Follow what changes without a change of the list."""
        self.set_interval(LOOK_SECONDS, self._look_again)

    def first_painted(self) -> None:
        """Look for sessions on disk, too."""
        super().first_painted()
        self.work_on("sessions", self._find_sessions)

    def where(self) -> str:
        """The first place."""
        return "Conversations"

    # -- data --------------------------------------------------------------------------------------------

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
        self.keep_marks([entry.conversation.conversation_id for entry in data])
        self._listed = True
        self.relist(changed=False)
        self.table.redraw(changed)
        self.table.mark_fresh([*fresh, *changed])
        self.count_again(changed)

    def _add_sessions(self) -> None:
        """Put what the database does not know below what it does."""
        listed = {key: row for key, row in self._rows.items() if row.entry is not None}
        self._rows = listed
        if not self._disk:
            return
        from lcm_core.ingest.sessions import KnownSession, unknown_to

        told = [
            KnownSession(row.conversation.session_id, row.conversation.session_key)
            for row in listed.values()
            if row.conversation is not None
        ]
        self._rows.update((str(found.path), Row(None, found)) for found in unknown_to(self._disk, told))

    async def _find_sessions(self) -> None:
        """Sessions on disk; only files that changed since the last look are opened."""
        from lcm_core.ingest.sessions import find_sessions

        folder = self.session.settings.sessions.value
        listing = await asyncio.to_thread(find_sessions, folder, self._disk_index)
        self._disk_index = listing.index
        not_read = bool(listing.databases)
        if (listing.sessions, not_read) != (self._disk, self._not_read):
            self._disk, self._not_read = listing.sessions, not_read
            if self._listed:
                self._add_sessions()
                self.relist()

    def _look_again(self) -> None:
        """Follow what changes without a change of the list, for as long as it is seen."""
        if self.app.screen is self:
            self.work_on("sessions", self._find_sessions)
            self.want_sums()

    def action_reload(self) -> None:
        """Read everything again now."""
        self.work_on("sessions", self._find_sessions)
        super().action_reload()

    # -- what is listed ----------------------------------------------------------------------------------

    def cells(self, key: RowKey) -> dict[str, Span]:
        """What is known so far."""
        return cells_of(self._rows[key], self.session.zone, marked=key in self.marks)

    def why_empty(self) -> str:
        """Nothing passes the filter, or there is nothing."""
        if self._rows:
            return "No conversation matches."
        elsewhere = f"; {SESSIONS_IN_HOST_DATABASE}" if self._not_read else ""
        return f"This database holds no conversation{elsewhere}."

    def note(self) -> str:
        """How many the database knows and how many more the disk, by what they are sorted, and the marks."""
        known = sum(row.entry is not None for row in self._rows.values())
        more = len(self._rows) - known
        said = self.counted(f"{known:,} and {more:,} on disk" if more else f"{known:,}")
        if self._sort != "activity" or self._turned:
            title = next(column.title for column in COLUMNS if column.name == self._sort)
            said += f"  by {title} {'↓' if ORDERS[self._sort][1] != self._turned else '↑'}"
        if self._not_read:
            said += f"  {SESSIONS_IN_HOST_DATABASE}"
        return f"{said}  {self.marked_text()}".rstrip()

    def action_sort(self) -> None:
        """Sort by the next column that is shown."""
        names = [column.name for column in self._layout(self.table.scrollable_content_region.width).columns]
        at = names.index(self._sort) if self._sort in names else -1
        self._sort_by(names[(at + 1) % len(names)])

    def action_turn(self) -> None:
        """Turn the order round."""
        self._turned = not self._turned
        self.relist()

    def _sort_by(self, name: str) -> None:
        self._turned = self._sort == name and not self._turned
        self._sort = name
        self.relist()
        self.want_counts()

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
        if command in {"archive", "delete"} and self.marks:
            return None
        if command == "backfill" and (row is None or row.session is None):
            return "only a session that stands on the disk alone, not in the database, can be imported here"
        if command in _OF_ONE:
            if row is None:
                return "no conversation is selected"
            if row.conversation is None and command != "open":
                return "the database does not know this session; enter shows its transcript"
        return None

    @on(Heading.Clicked)
    def _heading_clicked(self, event: Heading.Clicked) -> None:
        self._sort_by(event.column)

    def action_open(self) -> None:
        """Show the messages."""
        row = self._selected()
        if row is None:
            return
        if row.conversation is None:
            if row.session is not None:
                self.open(places.DiskSessionText(row.session))
            return
        self.open(places.Messages(row.conversation))

    def action_context(self) -> None:
        """Show what the model sees."""
        self.open(places.Context(self._conversation()))

    def action_summaries(self) -> None:
        """Show the summary DAG."""
        self.open(places.Summaries(self._conversation()))

    def action_files(self) -> None:
        """Show the large files."""
        self.open(places.Files(self._conversation()))

    def action_history(self) -> None:
        """Show what was changed in this database."""
        row = self._selected()
        self.open(places.History(row.conversation if row is not None else None))

    def action_health(self) -> None:
        """Show the health of the database, standing on what is wrong with the selected conversation."""
        row = self._selected()
        self.open(places.Health(row.conversation if row is not None else None))

    def action_backfill(self) -> None:
        """Preview the import of a session on disk."""
        row = self._selected()
        if row is not None and row.session is not None:
            self.open(places.Import(row.session))

    def action_transplant(self) -> None:
        """Choose where to copy what this conversation remembers."""
        self.open(places.TransplantTarget(self._conversation(), self._stand_on_conversation))

    def action_compact(self) -> None:
        """Show what would be compacted."""
        self.open(places.Compaction(self._conversation()))

    def action_merge(self) -> None:
        """Preview making one conversation of the session again, if a rollover split it."""
        from lcm_tui.changes.merge import merging

        self.open(
            places.Preview(merging(self._conversation(), self.session.budget, self._stand_on_conversation))
        )

    def repaired(self) -> Conversation | None:
        """The selected conversation, if the database knows it."""
        row = self._selected()
        return None if row is None else row.conversation

    def markable(self) -> ConversationId | None:
        """The selected conversation; what only the disk knows cannot be marked."""
        row = self._selected()
        return row.conversation.conversation_id if row is not None and row.conversation is not None else None

    def marks_changed(self, conversations: Sequence[ConversationId]) -> None:
        """Draw marks that were set or taken away."""
        self.table.redraw([one for one in conversations if one in self._rows])
        self.say_note()

    def _stand_on_conversation(self, conversation_id: ConversationId) -> None:
        self.table.select(conversation_id)

    def action_briefs(self) -> None:
        """Show the focus briefs."""
        self.open(places.Briefs(self._conversation()))

    def _selected(self) -> Row | None:
        key = self.table.selected
        return self._rows.get(key) if key is not None else None

    def _conversation(self) -> Conversation:
        row = self._selected()
        assert row is not None  # why_not has made sure
        assert row.conversation is not None
        return row.conversation
