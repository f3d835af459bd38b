"""What an `Engine` does behind the host's calls: a connection kept open, and snapshots of what was sent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from datetime import datetime, tzinfo
from pathlib import Path

from lcm_core.base.errors import LcmError
from lcm_core.base.records import ConversationId
from lcm_core.change.connection import check_beside
from lcm_core.change.snapshots import note_assembly
from lcm_core.engine.assembly import Assembled, AssemblySettings
from lcm_core.operations.assembly import add_history
from lcm_core.store.database import Database
from lcm_core.store.opening import connect_writing, real_path, undisturbed


class OpenConnection:
    """Is kept as long as a host runs, and with it the WAL: readers take SQLite's locks and see whole states.

    Else each commit would be the last to close the file, and write its pages under those who read without a
    lock (`lcm_core.store.opening.Access.IMMUTABLE`).
    """

    def __init__(self, path: Path) -> None:
        self._path = real_path(path)
        self._connection: sqlite3.Connection | None = None
        self._ended = False
        self._turn = threading.Lock()  #: `end` may be called while `begin` runs, or before it does

    def begin(self) -> None:
        """Open the file if it is a WAL file that can be written; blocks. Never raises: a commit says why.

        Of a file that it may not write SQLite would leave a WAL that its owner cannot write.
        """
        if not os.access(self._path, os.W_OK):
            return
        try:
            check_beside(self._path)
        except LcmError:
            return
        with undisturbed(self._path), self._turn, contextlib.suppress(sqlite3.Error):
            if self._ended:
                return
            self._connection = connect_writing(self._path, 5.0, any_thread=True)
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if self._connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                self._close()

    def end(self) -> None:
        """Close it; the last to do so writes the WAL into the file and removes it."""
        with self._turn:
            self._ended = True
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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
                whole = await self._database.read(add_history, conversation_id, assembled)
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
