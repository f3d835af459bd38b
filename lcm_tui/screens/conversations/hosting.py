"""The host's sessions in the first list, and how far the engine is with them; behind the first rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lcm_tui.frame import CommandScreen
from lcm_tui.panes.conversations import ConversationList
from lcm_tui.widgets.spans import Line

if TYPE_CHECKING:  # nothing of it is wanted before the first rows
    from lcm_core.host.listing import HostListing, HostSession
    from lcm_core.ingest.sessions import SessionProblem
    from lcm_core.records import ConversationId

    from lcm_tui.views.ingesting import Ingesting

#: Comparing takes at most this share of the time.
SHARE: Final = 20


class Hosting:
    """Follows the host: its sessions are listed, then compared with what the engine has stored."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        *,
        found: Callable[[], None],
        compared: Callable[[Line], None],
    ) -> None:
        """*found* is called when other sessions are listed, *compared* with what is said of the engine."""
        self.ingesting: Ingesting | None = None  #: None: not compared yet
        self._screen = screen
        self._list = listed
        self._found = found
        self._compared = compared
        self._shown: HostListing | None = None
        self._due = True  #: what was compared may be old
        self._looking = False
        self._not_before = 0.0  #: monotonic

    @property
    def unread(self) -> str:
        """How much of the host could not be read; empty: all could."""
        found = () if self._shown is None else _faults(self._shown)
        problems = [one for one in found if not one.is_remark]
        return f"{len(problems):,} unread" if problems else ""

    def lagging(self, conversation: ConversationId) -> HostSession | None:
        """The session of which the engine has not stored all in a conversation."""
        compared = () if self.ingesting is None else self.ingesting.lagging
        return next((one.session for one in compared if one.conversation_id == conversation), None)

    def changed(self) -> None:
        """The database was written."""
        self._due = True

    async def look(self) -> None:
        """List what the host has now, then compare it; only what was written since is opened."""
        if not self._looking:
            self._looking = True
            try:
                await self._look()
            finally:
                self._looking = False

    async def _look(self) -> None:
        listing = await self._screen.session.host.look()
        if listing is not self._shown:
            before, self._shown, self._due = self._shown, listing, True
            if before is None or before.sessions != listing.sessions or before.problems != listing.problems:
                self._list.show_sessions(listing.sessions)
                self._found()
        if self._due and time.monotonic() >= self._not_before:
            await self._compare(listing)

    async def _compare(self, listing: HostListing) -> None:
        from lcm_core.times import format_local

        from lcm_tui.views.ingesting import Ingesting, overview

        session, begun = self._screen.session, time.monotonic()
        self._due = False
        compared = await session.host.compare(session.database)
        self._not_before = time.monotonic() + SHARE * (time.monotonic() - begun)
        newer = {one.conversation_id: one.behind for one in compared if one.conversation_id is not None}
        self.ingesting = Ingesting(compared, _faults(listing))
        self._list.show_newer(newer)
        self._compared(
            overview(
                self.ingesting,
                lambda moment: "–" if moment is None else format_local(moment, session.zone)[5:16],
            )
        )


def _faults(listing: HostListing) -> list[SessionProblem]:
    """What could not be read; a machine without a host is no fault."""
    from lcm_core.ingest.sessions import NO_FOLDER

    return [one for one in listing.problems if one.reason != NO_FOLDER]
