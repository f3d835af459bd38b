"""What an `Engine` stores for its host: planned, committed without the journal, and planned again when the
database has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Concatenate, Final, TypeVar

from lcm_core.base.errors import LcmError
from lcm_core.base.values import P
from lcm_core.change.commit import Committed, commit
from lcm_core.change.plan import StalePlanError
from lcm_core.engine.rules import IngestRules
from lcm_core.engine.sessions import RuntimeModel
from lcm_core.operations.compact_pass import load_for_compaction
from lcm_core.operations.selection import raw_tokens, tail_start
from lcm_core.store.database import Database, Reader
from lcm_core.store.ingested import find_holding
from lcm_core.writers.source import Rendering

from lcm_host.appending import (
    Append,
    CacheSnapshot,
    Session,
    TranscriptCheckpoint,
    plan_append,
    plan_heartbeat_pruning,
    plan_new_session,
    plan_telemetry,
)
from lcm_host.messages import StoredMessage
from lcm_host.payloads import remove_payloads, write_payloads

A = TypeVar("A", bound=Append | None)

#: How often a plan that another writer has outrun is made again.
ATTEMPTS: Final = 8
#: How long a call waits for the lock of the file, in seconds; the engine's own (docs/spec/versions.md,
#: "Locks").
WAIT_SECONDS: Final = 30.0


class Appender:
    """Puts messages behind what a conversation holds."""

    def __init__(self, database: Database, large_files: Path, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._large_files = large_files
        self.clock = clock

    async def append(
        self, session: Session, messages: Sequence[StoredMessage], checkpoint: TranscriptCheckpoint | None
    ) -> Append:
        """Plan and commit, again when somebody else appended in between.

        Raises:
            StalePlanError: others keep appending.
            LcmError: the database or the large-files folder cannot be written.
        """
        return await self.committed(
            plan_append,
            session,
            messages,
            now=self.clock(),
            large_files=self._large_files,
            checkpoint=checkpoint,
            whole_rows=False,
        )

    async def prune(self, session: Session, after: int, rules: IngestRules) -> None:
        """Delete the host's idle turns that end behind the seq *after*. Raises as `append`."""
        await self.committed(plan_heartbeat_pruning, session, after, polls=rules.preserve_heartbeat_poll)

    async def note_telemetry(
        self, session: Session, snapshot: CacheSnapshot, rendering: Rendering, model: RuntimeModel
    ) -> None:
        """Note what the host knows of the provider's cache after a turn. Raises as `append`."""
        await self.committed(self._plan_telemetry, session, snapshot, rendering, model)

    async def prune_context(self, session: Session, retain_depth: int) -> None:
        """Let the context of a session lose all that is not deep enough. Raises as `append`."""
        await self.committed(self._plan_pruning, session, retain_depth)

    async def _plan_telemetry(
        self,
        reader: Reader,
        session: Session,
        snapshot: CacheSnapshot,
        rendering: Rendering,
        model: RuntimeModel,
    ) -> Append | None:
        holding = await find_holding(reader, session.session_id, session.session_key)
        if holding is None:
            return None
        owner = holding.conversation_id
        context = await load_for_compaction(reader, owner, rendering)
        tail = rendering.rules.tail
        raw = raw_tokens(context, tail_start(context, tail.fresh_tail_count, tail))
        return await plan_telemetry(reader, owner, snapshot, raw, now=self.clock(), model=model)

    async def _plan_pruning(self, reader: Reader, session: Session, retain_depth: int) -> Append | None:
        holding = await find_holding(reader, session.session_id, session.session_key)
        if holding is None:
            return None
        plan = await plan_new_session(reader, holding.conversation_id, retain_depth, now=self.clock())
        return Append(plan, holding.conversation_id)

    async def committed(
        self, plan: Callable[Concatenate[Reader, P], Awaitable[A]], /, *given: P.args, **named: P.kwargs
    ) -> A:
        """Plan and commit, again while other writers are quicker.

        Raises:
            StalePlanError: they were quicker `ATTEMPTS` times.
        """
        for attempt in range(1, ATTEMPTS + 1):
            append = await self._database.read(plan, *given, **named)
            if append is None or not append.plan:
                return append
            try:
                await self._commit(append)
            except StalePlanError:
                if attempt == ATTEMPTS:
                    raise
                await self._database.refresh()
            else:
                return append
        raise AssertionError("unreachable")

    async def _commit(self, append: Append) -> None:
        """Commit in a thread; it runs to its end also when the caller is cancelled."""
        path, folder = self._database.path, self._large_files
        work = asyncio.ensure_future(
            asyncio.to_thread(commit_append, path, append, folder, wait=WAIT_SECONDS)
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait((work,))
            raise
        await self._database.refresh()


def commit_append(path: Path, append: Append, large_files: Path, *, wait: float) -> Committed:
    """Write the payloads, then commit without the journal; if that is refused or fails, the files go again.

    Raises:
        PayloadError: the large-files folder cannot be written.
        LcmError: as `lcm_core.change.commit.commit`.
    """
    written = write_payloads(large_files, append.conversation_id, append.payloads)
    try:
        return commit(path, append.plan, wait=wait, journal=False)
    except LcmError:
        remove_payloads(written)
        raise
