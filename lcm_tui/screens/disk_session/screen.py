"""A session that only the host knows: its transcript, read-only, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from lcm_core.errors import LcmError
from lcm_core.host.listing import HostSession
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.links import to
from lcm_tui.actions.messages import message_actions
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.messages import MessageList
from lcm_tui.screens.disk_session.panes import Run, TranscriptPane
from lcm_tui.views.host_session import session_state
from lcm_tui.views.units import size_text

#: How often the transcript is looked at while it is in front.
LOOK_SECONDS: Final = 0.5


class DiskSessionScreen(DataScreen[Run]):
    """The transcript of one session; an entry's number is its position on the path."""

    HELP = """
A session as its host wrote it: to a file ("on disk"), to its own database ("living"; "earlier" when its key
continues in a newer session), or to an archive ("cold", "deleted", "archived"). The session is not in the
database, so it has no tokens, summaries or context here. The list shows the branch that the host sees; the
title counts entries on abandoned branches and unreadable lines. lcm-tui never writes to a session. i previews
importing it into the database, as its engine would have stored it.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "backfill", "history", "fold-all", *STEPPED)
    )

    def __init__(self, session: HostSession) -> None:
        super().__init__()
        self.shown = session
        self.pane = TranscriptPane(self, self._say_place, session)

    def compose_body(self) -> ComposeResult:
        """The entries."""
        yield self.pane

    def on_mount(self) -> None:
        """Follow the transcript."""
        self.set_interval(LOOK_SECONDS, self._look)

    def on_unmount(self) -> None:
        """Remove what was unpacked for it."""
        self.pane.close()

    def _look(self) -> None:
        # What could not be opened is not tried again by itself: unpacking it may take its time.
        if self.app.screen is self and self.pane.run_shown is not None:
            self.load()

    def actions(self) -> Sequence[Action]:
        """Opening entries, importing the session, and where an import is taken back."""
        return (
            *message_actions(self, self.pane),
            to(self, "backfill", places.Import(self.shown)),
            to(self, "history", places.History(None)),
        )

    def in_key_bar(self) -> list[str]:
        """Importing comes right behind opening: it is what this screen is for."""
        opens, *others = super().in_key_bar()
        return [opens, "backfill", *others]

    def where(self) -> str:
        """Whose transcript this is."""
        return f"Session {session_state(self.shown)}  {self.shown.session_key or self.shown.session_id}"

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
        """The entries in sight, with what was appended; why there are none is said in their place."""
        try:
            return await self.pane.fetch()
        except LcmError as error:
            if self.pane.run_shown is None:
                self.messages.empty = error.message
            raise

    def show(self, data: Run) -> None:
        """Show them, unless one has moved away while they were read."""
        if not self.pane.show(data) or self.pane.is_glimpse:
            self.load()

    def _say_place(self) -> None:
        """How much there is, and what of it is not shown; or what is being searched for."""
        if self.pane.searching:
            self.title_bar.note = f"searching for {self.pane.searching} …"
        elif self.pane.is_glimpse:
            self.title_bar.note = "the newest entries; reading the others …"
        elif self.pane.run_shown is not None:
            text = self.pane.run_shown.text
            one, bad = len(text) == 1, text.bad
            said = [f"{len(text):,} {'entry' if one else 'entries'}"]
            said += [size_text(text.size)] if text.size is not None else []
            said += [f"{text.abandoned:,} on abandoned branches"] if text.abandoned else []
            said += [f"{bad:,} unreadable {'line' if bad == 1 else 'lines'}"] if bad else []
            said += text.remarks[:1]
            self.title_bar.note = ", ".join(said)
