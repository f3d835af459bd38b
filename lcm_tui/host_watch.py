"""The sessions of the host, looked at behind the screens, and how far the engine is with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lcm_tui.importing import imported

if TYPE_CHECKING:  # no start pays for it
    from lcm_core.host.ingestion import Ingestion
    from lcm_core.host.listing import HostListing, HostSession
    from lcm_core.records import Conversation
    from lcm_core.settings import Settings
    from lcm_core.store.database import Database


class HostWatch:
    """What was found at the last look; only what was written since is opened by the next."""

    def __init__(self, settings: Settings) -> None:
        self.listing: HostListing | None = None
        self._settings = settings
        self._looking = asyncio.Lock()

    async def look(self) -> HostListing:
        """The sessions of the host as they are now; the same value when nothing changed."""
        await imported("lcm_core.host.listing")
        from lcm_core.host.listing import list_sessions

        def find(before: HostListing | None) -> HostListing:
            found = list_sessions(self._settings.sessions.value, before)
            return before if before is not None and found == before else found

        async with self._looking:
            self.listing = await asyncio.to_thread(find, self.listing)
            return self.listing

    async def compare(self, database: Database) -> list[Ingestion]:
        """How far the engine is with every session of the host's databases."""
        listing = self.listing or await self.look()
        return await self._compared(database, listing.sessions)

    async def of_conversation(self, database: Database, conversation: Conversation) -> Ingestion | None:
        """The same for the session that a conversation goes on with; None: the databases have none."""
        listing = await self.look()
        sessions = [
            one
            for one in listing.sessions
            if one.session_id == conversation.session_id
            or (one.current and one.session_key is not None and one.session_key == conversation.session_key)
        ]
        found = await self._compared(database, sessions)
        own = [one for one in found if one.conversation_id == conversation.conversation_id]
        return max(own, key=lambda one: one.session.current, default=None)

    async def _compared(self, database: Database, sessions: Sequence[HostSession]) -> list[Ingestion]:
        if not sessions:
            return []
        await imported("lcm_core.host.ingestion")
        from lcm_core.host.ingestion import ingestions

        return await database.read(ingestions, sessions, self._settings.engine)
