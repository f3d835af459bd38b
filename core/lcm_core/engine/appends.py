"""What an `Engine` stores for its host: planned, committed without the journal, and again when outrun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from lcm_core.change.errors import StalePlanError
from lcm_core.engine_rules import IngestRules
from lcm_core.ingest.stored import StoredMessage
from lcm_core.operations.appending import (
    Adoption,
    Append,
    Session,
    TranscriptCheckpoint,
    commit_append,
    plan_adoption,
    plan_append,
    plan_fork_mark,
    plan_heartbeat_pruning,
    plan_rollover_archive,
)
from lcm_core.operations.cache_telemetry import CacheSnapshot, plan_telemetry
from lcm_core.operations.compaction.reading import load_for_compaction
from lcm_core.operations.compaction.selection import raw_tokens, tail_start
from lcm_core.operations.new_session import plan_new_session, plan_reset, plan_session_end
from lcm_core.store.database import Database, Reader
from lcm_core.store.ingested import find_holding
from lcm_core.summarize.source import Rendering
from lcm_core.thresholds import RuntimeModel

P = ParamSpec("P")
A = TypeVar("A", bound=Append | None)

#: How often a plan that another writer has outrun is made again.
ATTEMPTS: Final = 8
#: How long a call waits for the lock of the file, in seconds; the engine's own (docs/engine/versions.md,
#: "Locks").
WAIT_SECONDS: Final = 30.0


class Appender:
    """Puts messages behind what a conversation holds."""

    def __init__(self, database: Database, large_files: Path, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._large_files = large_files
        self._clock = clock

    async def append(
        self, session: Session, messages: Sequence[StoredMessage], checkpoint: TranscriptCheckpoint | None
    ) -> Append:
        """Plan and commit, again when somebody else appended in between.

        Raises:
            StalePlanError: others keep appending.
            LcmError: the database or the large-files folder cannot be written.
        """
        return await self._committed(self._plan, session, messages, checkpoint)

    async def adopt(self, session: Session, adoptions: Sequence[Adoption]) -> None:
        """Give stored rows the ids of the transcript's entries that they are. Raises as `append`."""
        await self._committed(plan_adoption, session, adoptions)

    async def prune(self, session: Session, after: int, rules: IngestRules) -> None:
        """Delete the host's idle turns that end behind the seq *after*. Raises as `append`."""
        await self._committed(plan_heartbeat_pruning, session, after, polls=rules.preserve_heartbeat_poll)

    async def archive(self, session: Session) -> None:
        """Put the conversation of a session's key aside. Raises as `append`."""
        await self._committed(plan_rollover_archive, session, self._clock())

    async def mark_fork(self, session: Session) -> None:
        """Note that a conversation was begun from a fork. Raises as `append`."""
        await self._committed(plan_fork_mark, session)

    async def end(self, session: Session, reason: str, following: Session | None) -> Append | None:
        """Do what the end of a session does to its conversation. Raises as `append`."""
        return await self._committed(plan_session_end, session, reason, following, now=self._clock())

    async def reset(self, session: Session) -> Append | None:
        """Put a conversation aside and begin another one. Raises as `append`."""
        return await self._committed(plan_reset, session, now=self._clock())

    async def note_cache(
        self, session: Session, snapshot: CacheSnapshot, rendering: Rendering, model: RuntimeModel
    ) -> None:
        """Note what a turn saw of the provider's cache. Raises as `append`."""
        await self._committed(self._plan_telemetry, session, snapshot, rendering, model)

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
        context = (await load_for_compaction(reader, owner, rendering)).context
        tail = rendering.rules.tail
        raw = raw_tokens(context, tail_start(context, tail.fresh_tail_count, tail))
        return await plan_telemetry(reader, owner, snapshot, raw, now=self._clock(), model=model)

    async def prune_context(self, session: Session, retain_depth: int) -> None:
        """Prune the context of a session as `/new` does. Raises as `append`."""
        await self._committed(self._plan_pruning, session, retain_depth)

    async def _plan_pruning(self, reader: Reader, session: Session, retain_depth: int) -> Append | None:
        holding = await find_holding(reader, session.session_id, session.session_key)
        if holding is None:
            return None
        plan = await plan_new_session(reader, holding.conversation_id, retain_depth, now=self._clock())
        return Append(plan, holding.conversation_id, (), 0, 0)

    async def _committed(
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

    async def _plan(
        self,
        reader: Reader,
        session: Session,
        messages: Sequence[StoredMessage],
        checkpoint: TranscriptCheckpoint | None,
    ) -> Append:
        return await plan_append(
            reader,
            session,
            messages,
            now=self._clock(),
            large_files=self._large_files,
            checkpoint=checkpoint,
            whole_rows=False,
        )

    async def _commit(self, append: Append) -> None:
        """Commit in a thread; it runs to its end also when the caller is cancelled."""
        work = asyncio.ensure_future(
            asyncio.to_thread(
                commit_append,
                self._database.path,
                append,
                self._large_files,
                journal=False,
                wait=WAIT_SECONDS,
            )
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait((work,))
            raise
        await self._database.refresh()
