"""Importing a session that only the disk knows: its preview, and its files with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.engine_rules import configured, engine_rules
from lcm_core.errors import RefusedError
from lcm_core.ingest.host_file import read_host_file
from lcm_core.ingest.sessions import DiskSession, SessionState
from lcm_core.operations.backfill import Backfill, BackfillFiles, plan_backfill, session_of
from lcm_core.settings import Settings
from lcm_core.store.database import Reader

from lcm_tui.changes.change import Change
from lcm_tui.screens.plan import PlanScreen


class BackfillScreen(PlanScreen):
    """What the import of one session would store; `a` does it."""

    def __init__(self, disk: DiskSession, settings: Settings) -> None:
        title = f"Import session {disk.session_key or disk.stem}"
        super().__init__(Change(self._plan, title, then=self._imported))
        self._disk = disk
        self._settings = settings
        self._files = BackfillFiles(settings.large_files_dir.value)

    async def _plan(self, reader: Reader) -> Sequence[Plan]:
        """What is left to import.

        Raises:
            RefusedError: nothing is, or nothing says where it belongs.
        """
        transcript = await asyncio.to_thread(read_host_file, self._disk.path)
        shown = await plan_backfill(
            reader,
            session_of(self._disk),
            transcript,
            configured(engine_rules(reader.schema), self._settings.engine).ingest,
            large_files=self._files.folder,
            archived=self._disk.state is not SessionState.LIVE,
        )
        if reason := _refusal(shown):
            raise RefusedError(reason)
        self._files.expect(shown.appends)
        first, *others = (append.plan for append in shown.appends)
        return [replace(first, warnings=(*first.warnings, *shown.warnings)), *others]

    async def before_commit(self, plan: Plan) -> None:
        """Write the payloads of a part."""
        await asyncio.to_thread(self._files.write, plan)

    async def on_unmount(self) -> None:
        """Take back the files whose rows were not committed."""
        await self._files.take_back(self.session.database)

    def _imported(self, done: tuple[Committed, ...]) -> None:
        """Say where it is now."""
        numbers = {one.operation.conversation_id for one in done if one.operation is not None}
        for number in numbers:
            self.app.notify(f"The session is conversation {number} now.")


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
