"""Importing a session that only the disk knows: its rows, and its files with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.engine_rules import configured, engine_rules
from lcm_core.errors import RefusedError
from lcm_core.ingest.host_file import read_host_file
from lcm_core.ingest.sessions import DiskSession, SessionState
from lcm_core.operations.backfill import Backfill, BackfillFiles, plan_backfill, session_of
from lcm_core.settings import Settings
from lcm_core.store.database import Database, Reader

from lcm_tui.changes.change import Change, Notice, Surroundings


class _Importing(Surroundings):
    """The payloads of a session, which lie beside the database."""

    def __init__(self, files: BackfillFiles) -> None:
        self._files = files

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


def importing(disk: DiskSession, settings: Settings) -> Change:
    """Import what is left of a session on disk."""
    files = BackfillFiles(settings.large_files_dir.value)

    async def plan(reader: Reader) -> Sequence[Plan]:
        transcript = await asyncio.to_thread(read_host_file, disk.path)
        shown = await plan_backfill(
            reader,
            session_of(disk),
            transcript,
            configured(engine_rules(reader.schema), settings.engine).ingest,
            large_files=files.folder,
            archived=disk.state is not SessionState.LIVE,
        )
        if reason := _refusal(shown):
            raise RefusedError(reason)
        files.expect(shown.appends)
        first, *others = (append.plan for append in shown.appends)
        return [replace(first, warnings=(*first.warnings, *shown.warnings)), *others]

    title = f"Import session {disk.session_key or disk.stem}"
    return Change(plan, title, around=_Importing(files))


def _refusal(shown: Backfill) -> str:
    """Why there is nothing to preview; empty when there is."""
    if shown.doubtful:
        return (
            f"Conversation {shown.conversation_id} holds other messages than this transcript: nothing says "
            "where they would belong."
        )
    if shown.appends:
        return ""
    if shown.is_new:
        return "The transcript holds no message that is stored: there is nothing to import."
    return f"Conversation {shown.conversation_id} has all of it: there is nothing to import."
