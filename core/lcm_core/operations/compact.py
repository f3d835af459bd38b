"""Compaction of a live database: forecast, and carried out pass by pass, each a plan of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final, Generic, TypeVar

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.javascript import well_formed
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted
from lcm_core.base.values import Record, Struct, replace
from lcm_core.change.commit import Committed, commit_plan
from lcm_core.change.journal import new_batch_id
from lcm_core.change.plan import Plan, StalePlanError
from lcm_core.change.preview import STOP_THE_HOST, changed_since, rehearse
from lcm_core.engine.rules import configured, engine_rules
from lcm_core.engine.sessions import UNKNOWN_MODEL, NotedThreshold, RuntimeModel, settings_for_session
from lcm_core.operations.compact_pass import Chunk, PassDraft, load_for_compaction, plan_pass, read_chunk
from lcm_core.operations.debt import HostCompactsError, holds_for, host_since, plan_state
from lcm_core.operations.engine_work import engine_work
from lcm_core.operations.rows import new_summary_id
from lcm_core.operations.selection import (
    Bounds,
    Compaction,
    Outcome,
    Pass,
    PassMade,
    PassMoved,
    PassRefused,
    PassSkipped,
    WeighedContext,
    WeighedItem,
)
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.engine_work import engine_rows
from lcm_core.store.rows import rows_by
from lcm_core.store.schema import Schema
from lcm_core.store.state import MAINTENANCE, active_batches
from lcm_core.writers.acceptance import Escalated, Level, escalate, target_tokens
from lcm_core.writers.request import ProviderAuthError, Summarizer, SummarizerError, Usage
from lcm_core.writers.source import Rendering

# -- a run -----------------------------------------------------------------------------------------------
# Read, draft without a lock, commit, and again.
#
# Each pass is committed with compare and set; what a host appends meanwhile does no harm, and a chunk that
# changed is selected again. All passes of an operation are one batch of the history.

T = TypeVar("T")

#: How often in a row a chunk may change under our hands before the operation gives up.
RETRIES = 5
#: How long a pass waits for the lock, as the engine does (docs/spec/decisions.md, "Locks"): its text has been
#: paid for.
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

    def compaction(self, context: WeighedContext, clock: Callable[[], int]) -> Compaction:
        """The passes on a context that has been read."""
        rules, bounds = self.rendering.rules, self.bounds()
        return Compaction(context, rules, self.budget, clock, bounds, current_turn=self.takes_current_turn)


class PassDone(Record, frozen=True):
    """One pass that has been dealt with."""

    chunk: Chunk
    outcome: Outcome
    draft: PassDraft | None = None  #: None: nothing was made
    operation_id: str | None = None  #: of the history
    search: str | None = None  #: why the search index did not follow
    is_kept: bool = False  #: the draft was not taken; it waits until this pass is made again

    @property
    def is_made(self) -> bool:
        """Whether a summary was stored."""
        return isinstance(self.outcome, PassMade)


Operation = Callable[[Compaction], Generator[Pass, Outcome, T]]
Accept = Callable[[PassDraft], Awaitable[PassDraft | None]]


def milliseconds() -> int:
    """The clock by which deadlines are kept."""
    return int(time.monotonic() * 1000)


def utc_now() -> datetime:
    """The time that rows are stamped with."""
    return datetime.now(UTC)


class Runner(Struct, Generic[T]):
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
                compaction.context.adopt(await self._load())
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
            context = await self._load()
            plan = await self.database.read(
                plan_state,
                self.conversation_id,
                self.setting.rendering.rules.compaction,
                context.tokens,
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

    async def _load(self) -> WeighedContext:
        return await self.database.read(load_for_compaction, self.conversation_id, self.setting.rendering)

    async def _make(self, compaction: Compaction, due: Pass) -> PassDone:
        rendering = self.setting.rendering
        chunk = await self.database.read(read_chunk, compaction.context, due, rendering)
        chunk = self._handed_on(chunk)
        rules = rendering.rules
        if not chunk.source.text and rules.compaction.skips_empty:
            return PassDone(chunk, PassSkipped())
        with suppress(StalePlanError):  # the host goes on meanwhile, and is waited for when it is committed
            await rehearse(self.database, partial(self.plan, draft=_rehearsed(chunk)))
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
        made = PassDraft(new_summary_id(), chunk, text, text.model)
        draft = made if self.accept is None else await self.accept(made)
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

    async def plan(self, reader: Reader, draft: PassDraft) -> Plan:
        """What storing a draft changes.

        Raises:
            StalePlanError: as `plan_pass`.
        """
        return await plan_pass(
            reader, self.conversation_id, draft, self.setting.rendering, now=self.now(), batch=self.batch
        )

    async def _commit(self, draft: PassDraft) -> PassDone:
        await self._wait_for_host(WAIT_SECONDS)
        try:
            plan = await self.database.read(self.plan, draft)
            committed = await commit_plan(self.database, plan, wait=WAIT_SECONDS)
        except StalePlanError as error:
            self.stale = error
            return PassDone(draft.chunk, PassMoved(), draft)
        saved = draft.chunk.tokens - draft.text.tokens
        self.made += 1
        self.last = draft
        self.leaves += draft.chunk.due.is_leaf
        made = PassMade(draft.summary_id, draft.text.level, saved)
        return PassDone(draft.chunk, made, draft, committed.id or None, committed.search)


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
    holds, *session_key* and *model* decide (docs/spec/thresholds.md).
    """
    wanted = settings_for_session(engine, session_key, model)
    found = configured(engine_rules(schema, rules), wanted)
    if tail is not None:
        found = replace(found, tail=replace(found.tail, fresh_tail_count=tail))
    if chunk is not None:
        found = replace(found, compaction=replace(found.compaction, leaf_chunk_tokens=chunk))
    holds = holds_for(engine, session_key, model)
    return CompactionSetting(Rendering(found, zone), budget, noted_holds=holds)


async def refuse_fallback(draft: PassDraft) -> PassDraft:
    """The rule for drafts that lets nothing pass that no model wrote.

    Raises:
        SummarizerError: no model gave a text that is shorter than its source.
    """
    if not draft.text.is_cut:
        return draft
    raise SummarizerError(
        f"No model gave a text shorter than {draft.chunk.named} ({draft.chunk.tokens:,} tokens), and "
        "truncating is switched off. Earlier passes stay."
    )


# -- before it begins ------------------------------------------------------------------------------------


async def warnings_of(reader: Reader, conversation_id: ConversationId) -> tuple[str, ...]:
    """What speaks against compacting a conversation now, if anything is to be; each without a full stop."""
    found: list[str] = []
    locks = engine_rules(reader.schema).locks
    if not locks.waits:
        found.append(STOP_THE_HOST)
    elif not locks.notes_compactions:
        found.append(
            "This engine version does not record when it compacts: stop the host first; a compaction it has "
            "started could remove messages that no summary covers"
        )
    if (await get_conversation(reader, conversation_id)).active is False:
        found.append("This conversation is archived: its engine no longer uses it")
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if row.get("running"):
            since = row.get("last_started_at")
            when = f", since {since}" if isinstance(since, str) else ""
            found.append(f"The host is compacting this conversation itself{when}")
    lost = await changed_since(reader)
    batches = await reader.run(active_batches, reader.schema, conversation_id)
    waiting = [batch for batch in batches if batch.batch_id not in lost]
    found += (
        "The engine is preparing a compaction of this conversation itself and will discard it where this one "
        f"replaces or moves what it is made from: {batch.worth}"
        for batch in waiting
    )
    if any(batch.ready for batch in waiting):
        found += await _published_first(reader, conversation_id, lost)
    return tuple(found)


async def _published_first(
    reader: Reader, conversation_id: ConversationId, lost: Mapping[str, str]
) -> list[str]:
    """What the engine would do first, without a call (docs/spec/compaction.md, "What is answered")."""
    rows = replace(await engine_rows(reader, conversation_id), changed_by=lost)
    [work] = engine_work(rows, datetime.now(UTC)).conversations
    steps = [] if work.batch is None else [step for step in work.batch.publishable if step.node is not None]
    if not steps:
        return []
    ready = counted(len(steps), "prepared summary", "prepared summaries")
    tokens = counted(sum(step.node.tokens or 0 for step in steps if step.node is not None), "token")
    place = f"ordinals {steps[0].start:,} to {steps[-1].end:,}"
    return [
        f"The engine would first publish {ready} ({tokens}, {place}) "
        "without a call; lcm-tui publishes nothing and makes every summary with a call of its own"
    ]


# -- the forecast ----------------------------------------------------------------------------------------
# What a compaction would do, pass by pass, before any call.
#
# The chunks of the first pass, and of the leaf passes of a sweep as long as each saves something, are
# exact; what later passes condense depends on how long the answers turn out. Only stored counts are read.

#: Passes that are forecast at most; a context of 46,000 messages makes some 300.
MOST_PASSES = 5_000
#: The part of a context that a compaction worth its calls saves at least.
WORTH: Final = 0.02


class ForecastPass(Record, frozen=True):
    """One pass that would be made."""

    number: int  #: from 1
    depth: int  #: of the summary
    refs: tuple[int | str, ...]  #: message ids, summary ids, or ``pass N`` for what pass N would make
    source_tokens: int  #: what the sources weigh, with assumed weights for what is yet to be made
    assumed_tokens: int  #: size of the answer that is reckoned with
    is_exact: bool  #: the chunk does not depend on what earlier passes make

    @property
    def is_leaf(self) -> bool:
        """Whether it summarises messages."""
        return self.depth == 0


class CompactionForecast(Record, Generic[T], frozen=True):
    """All passes of an operation, and what would be left."""

    passes: tuple[ForecastPass, ...]
    tokens_before: int
    tokens_after: int  #: assumed
    tail_from: int | None  #: ordinal at which the fresh tail begins; None: nothing is protected
    tail_tokens: int
    tail_messages: int
    messages: int  #: in the context, of which the tail has the newest
    damaged: int  #: items that no pass may touch: their row is gone, foreign, or there twice
    result: T | None  #: None: there are more passes than are forecast

    @property
    def saves_little(self) -> bool:
        """Whether the context hardly becomes smaller."""
        return self.tokens_before - self.tokens_after < self.tokens_before * WORTH

    @property
    def calls(self) -> int:
        """Calls of a summariser, when each first answer is good."""
        return len(self.passes)

    @property
    def input_tokens(self) -> int:
        """Tokens of all sources, without prompts."""
        return sum(one.source_tokens for one in self.passes)

    @property
    def output_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(one.assumed_tokens for one in self.passes)


def forecast_passes(
    loaded: WeighedContext,
    setting: CompactionSetting,
    operation: Callable[[Compaction], Generator[Pass, Outcome, T]],
) -> CompactionForecast[T]:
    """Go through an operation with answers of the size that is asked for. Pure; *loaded* stays as it is."""
    context = loaded.copy()
    before = context.tokens
    compaction = setting.compaction(context, lambda: 0)
    tail = compaction.tail_start()
    passes: list[ForecastPass] = []
    running = operation(compaction)
    result: T | None = None
    try:
        due = next(running)
        while len(passes) < MOST_PASSES:
            seen = _forecast_pass(context, due, setting, len(passes) + 1)
            passes.append(seen)
            name = f"pass {seen.number}"
            saved = context.removed(due.run, is_leaf=due.is_leaf) - seen.assumed_tokens
            context.replace(due.run, WeighedItem(name, seen.assumed_tokens, depth=due.depth))
            due = running.send(PassMade(name, Level.NORMAL, saved))
    except StopIteration as ended:
        result = ended.value
    return CompactionForecast(
        tuple(passes),
        before,
        context.tokens,
        loaded.ordinals[tail] if tail < len(loaded) else None,
        sum(loaded.weights[tail:]),
        sum(isinstance(ref, int) for ref in loaded.refs[tail:]),
        sum(isinstance(ref, int) for ref in loaded.refs),
        loaded.sound.count(False),
        result,
    )


def _forecast_pass(
    context: WeighedContext, due: Pass, setting: CompactionSetting, number: int
) -> ForecastPass:
    run = slice(due.run.start, due.run.stop)
    tokens = sum(context.weights[run])
    target = target_tokens(due.depth, tokens, aggressive=False, rules=setting.rendering.rules)
    refs = tuple(ref for ref in context.refs[run] if ref is not None)
    made = any(isinstance(ref, str) and ref.startswith("pass ") for ref in refs)
    return ForecastPass(number, due.depth, refs, tokens, min(target, max(tokens - 1, 0)), not made)
