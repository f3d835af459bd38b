"""A session that only the disk knows: its transcript, read-only, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.ingest.sessions import DiskSession
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.links import to
from lcm_tui.actions.messages import message_actions
from lcm_tui.commands import Action, bindings
from lcm_tui.frame import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.messages import MessageList
from lcm_tui.screens.disk_session.panes import Run, TranscriptPane
from lcm_tui.views.units import size_text
from lcm_tui.widgets.bars import TitleBar

#: How often the transcript is looked at while it is in front.
LOOK_SECONDS: Final = 0.5


class DiskSessionScreen(DataScreen[Run]):
    """The transcript of one session; an entry's number is its position on the path."""

    HELP = """
A session as its host wrote it to disk. The database does not hold it, so it has no tokens, summaries or
context here. What is shown is the branch that the host sees; entries on abandoned branches and lines that
could not be read are counted in the title. Nothing is ever written to a transcript. i previews importing it
into the database, as its engine would have stored it.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings("open", "backfill", "history", "fold-all"))

    def __init__(self, disk: DiskSession) -> None:
        super().__init__()
        self.disk = disk
        self.pane = TranscriptPane(self, self._say_place, disk)

    def compose_body(self) -> ComposeResult:
        """The entries."""
        yield self.pane

    def on_mount(self) -> None:
        """Follow the transcript."""
        self.set_interval(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if self.app.screen is self:
            self.load()

    def actions(self) -> Sequence[Action]:
        """Opening entries, importing the session, and where an import is taken back."""
        return (
            *message_actions(self, self.pane),
            to(self, "backfill", places.Import(self.disk)),
            to(self, "history", places.History(None)),
        )

    def where(self) -> str:
        """Whose transcript this is."""
        return f"Session on disk  {self.disk.session_key or self.disk.session_id}"

    @property
    def messages(self) -> MessageList:
        """The list."""
        return self.pane.list

    def main_widget(self) -> MessageList:
        """The list."""
        return self.pane.list

    def finder(self) -> Finder:
        """The search in all entries."""
        return self.pane.finder

    def selected_id(self) -> str | None:
        """The entry's id."""
        run, place = self.pane.run_shown, self.messages.selected
        return None if run is None or place is None else run.entries[place - run.start].entry_id

    async def fetch(self) -> Run:
        """The entries in sight, with what was appended."""
        return await self.pane.fetch()

    def show(self, data: Run) -> None:
        """Show them, unless one has moved away while they were read."""
        if not self.pane.show(data):
            self.load()

    def _say_place(self) -> None:
        """How much there is, and what of it is not shown; or what is being searched for."""
        if self.pane.searching:
            self.query_one(TitleBar).note = f"searching for {self.pane.searching} …"
        elif self.pane.run_shown is not None:
            index = self.pane.run_shown.index
            one, bad = len(index) == 1, index.bad_lines
            said = [f"{len(index):,} {'entry' if one else 'entries'}", size_text(index.stamp.size)]
            said += [f"{index.abandoned:,} on abandoned branches"] if index.abandoned else []
            said += [f"{bad:,} unreadable {'line' if bad == 1 else 'lines'}"] if bad else []
            self.query_one(TitleBar).note = ", ".join(said)
