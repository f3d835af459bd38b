"""What an `Engine` sent is noted behind the host's back: kept in order, and never in its way."""

from __future__ import annotations

import asyncio
from datetime import datetime, tzinfo

from lcm_core.assemble.assembler import AssemblySettings
from lcm_core.assemble.result import Assembled
from lcm_core.assembly import with_history
from lcm_core.change.snapshots import note_assembly
from lcm_core.errors import LcmError
from lcm_core.records import ConversationId
from lcm_core.store.database import Database


class Snapshots:
    """The snapshots of one engine's assemblies; those of a conversation are in the order they were made."""

    def __init__(self, database: Database, newest: int) -> None:
        self._database = database
        self._newest = newest  #: kept of each conversation; 0: none is made
        self._running: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.problem: str | None = None  #: why the last one was not kept

    def keep(
        self,
        assembled: Assembled,
        conversation_id: ConversationId,
        settings: AssemblySettings,
        *,
        zone: tzinfo | None,
        now: datetime,
    ) -> None:
        """Begin to keep one; `settled` waits for it."""
        if self._newest > 0:
            note = asyncio.create_task(self._keep(assembled, conversation_id, settings, zone, now))
            self._running.add(note)
            note.add_done_callback(self._running.discard)

    async def settled(self) -> None:
        """Wait until all that were begun are kept, or `problem` says why not."""
        await asyncio.gather(*self._running)

    async def _keep(
        self,
        assembled: Assembled,
        conversation_id: ConversationId,
        settings: AssemblySettings,
        zone: tzinfo | None,
        now: datetime,
    ) -> None:
        """To count what was ever said takes its time, so it is done here and not in the assembly."""
        async with self._turn:
            try:
                whole = await self._database.read(with_history, conversation_id, assembled)
                self.problem = await asyncio.to_thread(
                    note_assembly,
                    self._database.path,
                    whole,
                    conversation_id,
                    settings,
                    newest=self._newest,
                    zone=zone,
                    now=now,
                )
                await self._database.refresh()
            except LcmError as error:
                self.problem = error.message
