"""The first screen: every conversation of the database, and sessions on disk that it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.paths import SESSIONS_IN_HOST_DATABASE
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import ConversationEntry, list_conversations
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.drafts import repair_action
from lcm_tui.actions.prune import prune_actions
from lcm_tui.commands import Action, bindings
from lcm_tui.frame import DataScreen
from lcm_tui.panes.conversations import ConversationList
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.marks import Marks
from lcm_tui.screens.conversations.counting import Counting
from lcm_tui.views.conversation_rows import RowKey
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.lines import LineView

if TYPE_CHECKING:  # sessions on disk are looked for behind the first rows
    from lcm_core.ingest.sessions import SessionListing

#: How often the sessions folder is looked at, and sums that may have changed are.
LOOK_SECONDS: Final = 5.0
NONE: Final = "This database holds no conversation"


class ConversationsScreen(DataScreen[list[ConversationEntry]]):
    """All conversations, newest activity first."""

    HELP = """
Every conversation in the database, archived ones too, newest activity first. Below them, marked "on disk",
stand sessions whose transcript lies in the sessions folder but which the database does not know.

"summaries" counts by depth: L leaves, 1 2 3 condensed summaries of that depth. "context" is the number of
items that the model sees, "tokens" their stored tokens. "bad" counts summaries that carry one of the
engine's failure markers or are empty; H leads to them and to whatever else the checks find. Columns that cost
a scan fill in while you look (…). – means: this version of the engine did not record it. Type / to filter
over all columns; words are combined. Where a narrow screen has no room for all columns, › stands at the end
of the heading: l shows the others, h goes back. S sorts by the next column that is shown.

t copies what the selected conversation remembers to the front of another one's context. V makes a session
that a rollover split one conversation again. space marks conversations: K archives the marked (every row
stays), X exports them to files and deletes them; without marks the selected one is meant. All of this shows
a preview first and can be undone (U); only what is forgotten, a choice of the deletion's preview, cannot.
R lists the broken summaries, of one conversation or of the whole file, and has them written again. i previews
importing a session that only the disk knows. Y shows what the engine prepares and owes.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings(
            *("open", "context", "summaries", "health", "repair", "compact", "transplant", "mark", "history"),
            *(
                "files",
                "search",
                "sort",
                "briefs",
                "merge",
                "archive",
                "delete",
                "backfill",
                "turn",
                "engine",
            ),
        )
    )

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self.marks = Marks[ConversationId](self._marks_changed)
        self.list = ConversationList(self._listed_otherwise, none=f"{NONE}.", marked=self.marks)
        self.counting = Counting(self, self.list, self._say_note)
        self._disk: SessionListing | None = None  #: what the last look at the sessions folder found

    def compose_body(self) -> ComposeResult:
        """The list alone."""
        yield self.list

    def on_mount(self) -> None:
        """Read nothing else before the first rows have been painted; follow what changes without them."""
        # The app mounts its first screen in one batch, in which Textual calls back before it has painted.
        self.app.call_later(self.call_after_refresh, self._first_painted)
        self.set_interval(LOOK_SECONDS, self._look_again)

    def _first_painted(self) -> None:
        self.counting.begin()
        self.work_on("sessions", self._find_sessions)

    def where(self) -> str:
        """The first place."""
        return "Conversations"

    def main_widget(self) -> LineView[RowKey]:
        """The list."""
        return self.list.table

    def finder(self) -> Finder:
        """The filter."""
        return self.list.filter

    def selected_id(self) -> str | None:
        """The conversation's id, or the session's."""
        if self.list.conversation is not None:
            return str(self.list.conversation.conversation_id)
        return self.list.session.session_id if self.list.session is not None else None

    def actions(self) -> Sequence[Action]:
        """The views of the selected conversation, what can be done with it, and the order of the list."""
        return (
            Action("open", self._open_messages, self.list.why_nothing),
            self._of_selected("context", places.Context),
            self._of_selected("summaries", places.Summaries),
            self._of_selected("files", places.Files),
            self._of_selected("briefs", places.Briefs),
            self._of_selected("compact", places.Compaction),
            self._of_selected("transplant", lambda one: places.TransplantTarget(one, self._select)),
            self._of_selected("merge", self._merged),
            Action("history", lambda: self.open(places.History(self.list.conversation))),
            Action("health", lambda: self.open(places.Health(self.list.conversation))),
            Action("engine", lambda: self.open(places.Engine(self.list.conversation))),
            Action("backfill", self._import_session, self._why_no_session),
            repair_action(self, lambda: self.list.conversation),
            *prune_actions(
                self, self.marks, selected=self._selected_number, why_none=self.list.why_no_conversation
            ),
            Action("sort", self.list.sort_by_next),
            Action("turn", self.list.turn),
            Action("reload", self._read_all),
        )

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> list[ConversationEntry]:
        """The conversations, without anything that costs a scan."""
        return await self.session.read(list_conversations)

    def show(self, data: list[ConversationEntry]) -> None:
        """Show the list; counts that may have changed are read again behind it."""
        self.list.zone = self.session.zone
        changed = self.list.show(data)
        self.marks.keep({entry.conversation.conversation_id for entry in data})
        self._say_note()
        self.counting.count_again(changed)

    async def _find_sessions(self) -> None:
        """Sessions on disk; only files that changed since the last look are opened."""
        from lcm_core.ingest.sessions import find_sessions

        before, folder = self._disk, self.session.settings.sessions.value
        index = before.index if before is not None else None
        found = self._disk = await asyncio.to_thread(find_sessions, folder, index)
        if before is None or (found.sessions, found.databases) != (before.sessions, before.databases):
            elsewhere = f"; {SESSIONS_IN_HOST_DATABASE}" if found.databases else ""
            self.list.none = f"{NONE}{elsewhere}."
            self.list.show_sessions(found.sessions)
            self._say_note()

    def _look_again(self) -> None:
        """Follow what changes without a change of the list, for as long as it is seen."""
        if self.app.screen is self:
            self.work_on("sessions", self._find_sessions)
            self.counting.want_sums()

    def _read_all(self) -> None:
        """Read everything again now."""
        self.work_on("sessions", self._find_sessions)
        self.counting.sum_again()
        self.load()

    def _listed_otherwise(self) -> None:
        self._say_note()
        self.counting.want_counts()

    def _say_note(self) -> None:
        """How many there are, in which order, where other sessions are, and how many are marked."""
        elsewhere = SESSIONS_IN_HOST_DATABASE if self._disk is not None and self._disk.databases else ""
        said = (self.list.count, self.list.order, elsewhere, self.marks.text)
        self.query_one(TitleBar).note = "  ".join(filter(None, said))

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self.counting.scrolled()

    # -- commands ----------------------------------------------------------------------------------------

    def _of_selected(self, command: str, place: Callable[[Conversation], places.Place]) -> Action:
        """A command that opens a place of the selected conversation."""

        def go() -> None:
            if self.list.conversation is not None:
                self.open(place(self.list.conversation))

        return Action(command, go, self.list.why_no_conversation)

    def _open_messages(self) -> None:
        """Show the messages, or the transcript of a session that only the disk knows."""
        if self.list.conversation is not None:
            self.open(places.Messages(self.list.conversation))
        elif self.list.session is not None:
            self.open(places.DiskSessionText(self.list.session))

    def _merged(self, conversation: Conversation) -> places.Place:
        """The preview of making one conversation of the session again, if a rollover split it."""
        from lcm_tui.changes.merge import merging

        return places.Preview(merging(conversation, self.session.budget, self._select))

    def _why_no_session(self) -> str | None:
        if self.list.session is not None:
            return None
        return "only a session that stands on the disk alone, not in the database, can be imported here"

    def _import_session(self) -> None:
        if self.list.session is not None:
            self.open(places.Import(self.list.session))

    def _selected_number(self) -> ConversationId | None:
        return self.list.conversation.conversation_id if self.list.conversation is not None else None

    def _marks_changed(self, conversations: Sequence[ConversationId]) -> None:
        self.list.table.redraw([one for one in conversations if one in self.list.rows])
        self._say_note()

    def _select(self, conversation_id: ConversationId) -> None:
        self.list.table.select(conversation_id)
