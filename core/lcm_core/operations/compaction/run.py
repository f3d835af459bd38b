"""Carries compaction out on a live database: read, draft without a lock, commit, and again.

Each pass is a plan of its own, committed with compare and set; what a host appends meanwhile is fine, and a
chunk that changed is selected anew. All passes of an operation are one batch of the history.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Generic, TypeVar

from lcm_core.change.commit import Committed, commit_plan
from lcm_core.change.errors import StalePlanError
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan
from lcm_core.change.planning import rehearse
from lcm_core.engine_rules import configured, engine_rules
from lcm_core.javascript import well_formed
from lcm_core.operations.compaction.plans import (
    HostCompactsError,
    PassDraft,
    host_since,
    plan_pass,
    plan_state,
)
from lcm_core.operations.compaction.reading import Chunk, LoadedContext, load_for_compaction, read_chunk
from lcm_core.operations.compaction.selection import Bounds
from lcm_core.operations.compaction.sweep import (
    Compaction,
    Outcome,
    Pass,
    PassMade,
    PassMoved,
    PassRefused,
    PassSkipped,
)
from lcm_core.operations.rows import new_summary_id
from lcm_core.records import ConversationId
from lcm_core.settings.engine import EngineSettings
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.summarize.escalate import Escalated, Level, escalate
from lcm_core.summarize.request import ProviderAuthError, Summarizer, SummarizerError, Usage
from lcm_core.summarize.source import Rendering
from lcm_core.thresholds import (
    UNKNOWN_MODEL,
    NotedThreshold,
    RuntimeModel,
    settings_for_session,
    still_holds,
)

T = TypeVar("T")

#: How often in a row a chunk may change under our hands before the operation gives up.
RETRIES = 5
#: How long a pass waits for the lock, as the engine does (docs/decisions.md, "Locks"): its text has been paid
#: for.
WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CompactionSetting:
    """How a conversation is compacted."""

    rendering: Rendering
    budget: int  #: tokens
    fresh_tail_count: int | None = None  #: a caller's own; None or 0: that of the rules
    leaf_chunk_tokens: int | None = None  #: likewise
    #: whether the threshold that a debt has noted is still one that this configuration makes
    noted_holds: Callable[[NotedThreshold], bool] = field(default=lambda _: True, compare=False)
    #: finished tool calls of the current turn may go, as after an overflow, where the rules know that
    current_turn: bool = False

    @property
    def takes_current_turn(self) -> bool:
        """Whether they do."""
        return self.current_turn and self.rendering.rules.compaction.compacts_current_turn

    def bounds(self) -> Bounds:
        """The numbers by which chunks are selected."""
        own, rules = self.fresh_tail_count or 0, self.rendering.rules
        chunk = self.leaf_chunk_tokens or 0
        tail = own if own > 0 else rules.tail.fresh_tail_count
        return Bounds(
            max(1, tail) if self.takes_current_turn else tail,
            chunk if chunk > 0 else rules.compaction.leaf_chunk_tokens,
        )

    def compaction(self, loaded: LoadedContext, clock: Callable[[], int]) -> Compaction:
        """The passes on a context that has been read."""
        rules, bounds = self.rendering.rules, self.bounds()
        return Compaction(
            loaded.context, rules, self.budget, clock, bounds, current_turn=self.takes_current_turn
        )


@dataclass(frozen=True, slots=True)
class PassDone:
    """One pass that has been dealt with."""

    chunk: Chunk
    outcome: Outcome
    draft: PassDraft | None = None  #: None: nothing was made
    committed: Committed | None = None


Operation = Callable[[Compaction], Generator[Pass, Outcome, T]]
Accept = Callable[[PassDraft], Awaitable[PassDraft | None]]
Write = Callable[[Plan], Awaitable[Committed]]


def milliseconds() -> int:
    """The clock by which deadlines are kept."""
    return int(time.monotonic() * 1000)


def utc_now() -> datetime:
    """The time that rows are stamped with."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Runner(Generic[T]):
    """One operation on one conversation; `steps` carries it out pass by pass, `result` is what came of it."""

    database: Database
    conversation_id: ConversationId
    setting: CompactionSetting
    summarizer: Summarizer
    operation: Operation[T]
    accept: Accept | None = None  #: looks at each draft; None from it stops the operation
    clock: Callable[[], int] = milliseconds
    now: Callable[[], datetime] = utc_now
    batch: str = ""
    ends_at_refusal: bool = False  #: a refused key ends the operation, also where the engine continues
    result: T | None = None
    made: int = 0  #: passes that were committed
    leaves: int = 0  #: of them
    last: PassDraft | None = None  #: the last one that was committed
    failed: SummarizerError | None = None  #: what ended it after passes that stay
    stale: StalePlanError | None = None  #: why the last draft that moved was not committed

    async def steps(self) -> AsyncIterator[PassDone]:
        """Make pass after pass; the caller may stop after any of them.

        Raises:
            SummarizerError: no answer came back; what was committed stays.
            HostCompactsError: the host compacts the conversation itself, and does not end.
            StalePlanError: the context changes faster than it can be compacted.
            LcmError: the database cannot be written.
        """
        self.batch = self.batch or new_batch_id()
        loaded = await self._load()
        compaction = self.setting.compaction(loaded, self.clock)
        passes = self.operation(compaction)
        moved = 0
        try:
            due = next(passes)
            await self._wait_for_host(0.0)
            while True:
                step = await self._make(compaction, due)
                moved = moved + 1 if isinstance(step.outcome, PassMoved) else 0
                if moved > RETRIES and self.stale is not None:
                    raise self.stale
                yield step
                await self._wait_for_host(WAIT_SECONDS)
                compaction.context.adopt((await self._load()).context)
                due = passes.send(step.outcome)
        except StopIteration as ended:
            self.result = ended.value

    async def note(self) -> Committed | None:
        """Bring what the engine notes beside the conversation in step; None when nothing is to be noted.

        To be called when the passes have ended or were stopped. It is part of the batch.

        Raises:
            StalePlanError: the host keeps changing its notes.
        """
        if not self.made:
            return None
        for last in (False, False, True):
            loaded = await self._load()
            plan = await self.database.read(
                plan_state,
                self.conversation_id,
                self.setting.rendering.rules.compaction,
                loaded.context.tokens,
                now=self.now(),
                leaves=self.leaves > 0,
                batch=self.batch,
                noted_holds=self.setting.noted_holds,
            )
            try:
                return await commit_plan(self.database, plan, wait=WAIT_SECONDS) if plan else None
            except StalePlanError:
                if last:
                    raise
        return None

    async def _load(self) -> LoadedContext:
        return await self.database.read(load_for_compaction, self.conversation_id, self.setting.rendering)

    async def _make(self, compaction: Compaction, due: Pass) -> PassDone:
        rendering = self.setting.rendering
        chunk = await self.database.read(read_chunk, compaction.context, due, rendering)
        chunk = self._handed_on(chunk)
        rules = rendering.rules
        if not chunk.source.text and rules.compaction.skips_empty:
            return PassDone(chunk, PassSkipped())
        with suppress(StalePlanError):  # the host goes on meanwhile, and is waited for when it is committed
            await rehearse(self.database, partial(self._plan, draft=_rehearsed(chunk)))
        try:
            text = await escalate(
                self.summarizer,
                chunk.source.text,
                due.depth,
                previous=chunk.previous,
                rules=rules,
            )
        except ProviderAuthError:
            return PassDone(chunk, PassRefused(ends=self.ends_at_refusal))
        draft: PassDraft | None = PassDraft(new_summary_id(), chunk, text, text.model)
        if self.accept is not None and draft is not None:
            draft = await self.accept(draft)
        if draft is None:
            return PassDone(chunk, PassRefused(by_provider=False))
        return await self._commit(draft)

    def _handed_on(self, chunk: Chunk) -> Chunk:
        """A chunk with what the pass before made, as it was made: of that U+FFFD may be stored."""
        last, due = self.last, chunk.due
        if not due.handed_on or last is None or due.previous != (last.summary_id,):
            return chunk
        is_same = (
            well_formed(last.text.as_made) == last.text.content
        )  # whoever looked at it may have changed it
        return replace(chunk, previous=last.text.as_made) if is_same else chunk

    async def _wait_for_host(self, seconds: float) -> None:
        """Go on when the host does not compact the conversation itself (`HostCompactsError` says why not)."""
        deadline = time.monotonic() + seconds
        while True:
            await self.database.refresh()
            since = await self.database.read(host_since, self.conversation_id, self.now())
            if since is None:
                return
            if time.monotonic() >= deadline:
                raise HostCompactsError(self.conversation_id, since)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _plan(self, reader: Reader, draft: PassDraft) -> Plan:
        return await plan_pass(
            reader, self.conversation_id, draft, self.setting.rendering, now=self.now(), batch=self.batch
        )

    async def _commit(self, draft: PassDraft) -> PassDone:
        await self._wait_for_host(WAIT_SECONDS)
        try:
            plan = await self.database.read(self._plan, draft)
            committed = await commit_plan(self.database, plan, wait=WAIT_SECONDS)
        except StalePlanError as error:
            self.stale = error
            return PassDone(draft.chunk, PassMoved(), draft)
        saved = draft.chunk.tokens - draft.text.tokens
        self.made += 1
        self.last = draft
        self.leaves += draft.chunk.due.is_leaf
        made = PassMade(draft.summary_id, draft.text.level, saved)
        return PassDone(draft.chunk, made, draft, committed)


def _rehearsed(chunk: Chunk) -> PassDraft:
    """A draft of a chunk with any text."""
    text = Escalated("…", 1, chunk.tokens, Level.NORMAL, "", 0, Usage())
    return PassDraft(new_summary_id(), chunk, text, text.model)


# -- what an operator asks for --------------------------------------------------------------------------


def compaction_setting(
    schema: Schema,
    engine: EngineSettings,
    zone: tzinfo | None,
    budget: int,
    *,
    tail: int | None = None,
    chunk: int | None = None,
    rules: str | None = None,
    session_key: str | None = None,
    model: RuntimeModel = UNKNOWN_MODEL,
) -> CompactionSetting:
    """How a database of this schema is compacted under a *budget* of tokens.

    *tail* (messages) and *chunk* (tokens) take the place of what is configured; *rules* are those of an
    engine by name, None of the one that left the schema. Which of the operator's rules about thresholds
    holds, *session_key* and *model* decide (docs/engine/thresholds.md).
    """
    wanted = settings_for_session(engine, session_key, model)
    found = configured(engine_rules(schema, rules), wanted)
    if tail is not None:
        found = replace(found, tail=replace(found.tail, fresh_tail_count=tail))
    if chunk is not None:
        found = replace(found, compaction=replace(found.compaction, leaf_chunk_tokens=chunk))
    holds = partial(
        still_holds,
        configured=engine.context_threshold.value,
        rules=engine.context_threshold_overrides.value,
        session_key=session_key,
        model=model,
    )
    return CompactionSetting(Rendering(found, zone), budget, noted_holds=holds)


async def refuse_fallback(draft: PassDraft) -> PassDraft:
    """The rule for drafts that lets nothing pass that no model wrote.

    Raises:
        SummarizerError: no model gave a text that is shorter than its source.
    """
    if not draft.text.is_cut:
        return draft
    refs = draft.chunk.refs
    kind = "message" if draft.chunk.due.is_leaf else "summary"
    raise SummarizerError(
        f"No model gave a text shorter than {kind} {refs[0]} to {refs[-1]} ({draft.chunk.tokens:,} tokens), "
        "and truncating is switched off. Earlier passes stay."
    )
