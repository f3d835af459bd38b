"""Importing a session that only the host knows: its rows, and its files with them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.change.planning import Batch
from lcm_core.engine_rules import ingest_rules
from lcm_core.errors import RefusedError
from lcm_core.host.listing import HostSession
from lcm_core.ingest.host_file import read_host_file
from lcm_core.ingest.sessions import SessionState
from lcm_core.operations.backfill import (
    Backfill,
    BackfillFiles,
    Backfilling,
    WrittenSession,
    plain_file,
    session_of,
    written_out,
)
from lcm_core.settings import Settings
from lcm_core.store.database import Database, Reader

from lcm_tui.changes.change import Change, Notice, Surroundings


class _Importing(Surroundings):
    """The payloads of a session, which lie beside the database, and what was written out of it."""

    def __init__(self, files: BackfillFiles, written: _WrittenOut) -> None:
        self._files = files
        self._written = written

    async def before(self, database: Database, plan: Plan, stopped: Callable[[], bool]) -> None:
        """Write the payloads of a part."""
        del database, stopped
        await asyncio.to_thread(self._files.write, plan)

    async def applied(self, database: Database, done: Sequence[Committed]) -> Sequence[Notice]:
        """Where it is now."""
        del database
        numbers = {one.operation.conversation_id for one in done if one.operation is not None}
        return [Notice("", f"The session is conversation {number} now.") for number in numbers]

    async def left(self, database: Database) -> None:
        """Take back the files whose rows were not committed."""
        await self._files.take_back(database)
        await asyncio.to_thread(self._written.remove)


class _WrittenOut:
    """A session that lies in no plain file, as one in a private folder; the preview takes it away again."""

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def write(self) -> WrittenSession:
        """The session as it is now; blocks."""
        disk = plain_file(self._session)
        if disk is not None:
            return WrittenSession(disk)
        self.remove()
        self._folder = tempfile.TemporaryDirectory(prefix="lcm-tui-")
        return written_out(self._session, Path(self._folder.name))

    def remove(self) -> None:
        """Remove what was written."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def importing(session: HostSession, settings: Settings) -> Change:
    """Import what is left of a session of the host."""
    files, written = BackfillFiles(settings.large_files_dir.value), _WrittenOut(session)
    is_noted = plain_file(session) is not None

    work: Backfilling | None = None

    async def plan(reader: Reader) -> Batch:
        nonlocal work
        if work is None or not await work.goes_on(reader):
            rules = ingest_rules(reader.schema, settings.engine)
            now = await asyncio.to_thread(written.write)
            work = Backfilling(
                session_of(now.disk),
                await asyncio.to_thread(read_host_file, now.disk.path, whole_records=True),
                rules,
                files.folder,
                archived=now.disk.state is not SessionState.LIVE,
                is_noted=is_noted,
                remarks=now.remarks,
            )
        shown = await work.plan(reader)
        if (reason := _refusal(shown)) and not shown.goes_on:
            raise RefusedError(reason)
        files.expect(shown.appends)
        plans = tuple(append.plan for append in shown.appends)
        if shown.goes_on:
            return Batch(plans, shown.more)
        warnings = (*shown.warnings, *_rest_of(shown))
        return Batch((replace(plans[0], warnings=(*plans[0].warnings, *warnings)), *plans[1:]), shown.more)

    title = f"Import session {session.session_key or session.session_id}"
    return Change(plan, title, around=_Importing(files, written))


def _rest_of(shown: Backfill) -> tuple[str, ...]:
    """What is said of a large session, of which only the first parts are planned here."""
    if not shown.more:
        return ()
    return (
        f"this shows the first {len(shown.appends):,} of {shown.parts:,} parts; all of them are applied: "
        f"{shown.tally.stored:,} messages, {shown.tally.tokens:,} tokens",
    )


def _refusal(shown: Backfill) -> str:
    """Why there is nothing to preview; empty when there is."""
    if shown.doubtful:
        return (
            f"Conversation {shown.conversation_id} does not match this transcript: where its messages "
            "belong is unknown."
        )
    if shown.appends:
        return ""
    if shown.is_new:
        return "The transcript has no messages to store: there is nothing to import."
    return f"Conversation {shown.conversation_id} already has all of it: there is nothing to import."
