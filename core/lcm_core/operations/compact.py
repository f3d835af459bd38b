"""Compaction of a live database: forecast, and carried out pass by pass, each a plan of its own."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final, Generic, TypeVar

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.javascript import well_formed
from lcm_core.base.records import ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.text import counted
from lcm_core.base.times import engine_moment, iso_z, sql_utc
from lcm_core.base.tokens import Estimator, as_engine_read, estimate
from lcm_core.base.values import Record, Struct, replace
from lcm_core.change.commit import Committed, commit_plan
from lcm_core.change.connection import check_whole
from lcm_core.change.journal import new_batch_id
from lcm_core.change.place import Listing, moves_from_zero, splice_at
from lcm_core.change.plan import (
    Cell,
    Cells,
    Edit,
    Moved,
    Plan,
    StalePlanError,
    Symbol,
    SymbolKind,
    insertion,
    renumbering,
)
from lcm_core.change.preview import STOP_THE_HOST, changed_since, rehearse
from lcm_core.checks.check import tool_part
from lcm_core.checks.summaries import file_ids
from lcm_core.engine.previous import joined
from lcm_core.engine.rules import SourceRules, configured, engine_rules
from lcm_core.engine.sessions import (
    UNKNOWN_MODEL,
    NotedThreshold,
    RuntimeModel,
    settings_for_session,
)
from lcm_core.operations.debt import HostCompactsError, holds_for, host_since, plan_state, still_resting
from lcm_core.operations.engine_work import engine_work
from lcm_core.operations.rows import context_item, new_summary_id, recorded_files
from lcm_core.operations.selection import (
    Bounds,
    Compaction,
    Outcome,
    Pass,
    PassMade,
    PassMoved,
    PassRefused,
    PassSkipped,
    TurnMessage,
    WeighedContext,
    WeighedItem,
    compact_ordinals,
    newest_user,
)
from lcm_core.store import conversations as conversation_store
from lcm_core.store import summaries as summary_store
from lcm_core.store.context import CompactionRow, compaction_rows, context_refs, context_rows
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.engine_work import engine_rows
from lcm_core.store.messages import RowOfTool, contents_of, tool_rows
from lcm_core.store.rows import rows_by
from lcm_core.store.schema import GREATEST, LEAST, Schema
from lcm_core.store.state import MAINTENANCE, active_batches
from lcm_core.writers.acceptance import Escalated, Level, escalate, target_tokens
from lcm_core.writers.request import ProviderAuthError, Summarizer, SummarizerError, Usage
from lcm_core.writers.source import (
    Rendering,
    SummarySource,
    previous_rules,
    source_of_messages,
    source_of_summaries,
    speaker_label,
    summary_source_text,
    uncut_message_text,
)

# -- reading a context -----------------------------------------------------------------------------------
# What selection needs, and what the chunk of a pass is made from.


class Chunk(Record, frozen=True):
    """What one pass is made from: everything that a summariser is given."""

    due: Pass
    refs: tuple[int | str, ...]  #: message ids or summary ids, in order
    tokens: int  #: that the pass takes out of the running total
    source: SummarySource
    previous: str | None  #: None: nothing is given; at 0.1 an empty summary is handed on as an empty text


async def load_for_compaction(
    reader: Reader, conversation_id: ConversationId, rendering: Rendering
) -> WeighedContext:
    """The whole context with what selection needs to know (docs/spec/compaction.md, "Weights").

    Raises:
        DatabaseError: the file lacks tables without which nothing can be compacted.
    """
    check_whole(reader.schema)
    rows = await compaction_rows(reader, conversation_id)
    if not rows:
        return WeighedContext.of([])
    # Column by column: of a long context, what is done for each item is felt.
    ordinals, messages, summaries, owners, tokens, users, depths, senders = zip(*rows, strict=True)
    refs = [summary or message for summary, message in zip(summaries, messages, strict=True)]
    copies = Counter(refs)
    texts = await _texts(reader, summaries, tokens, rendering)
    blank: set[str] = set()
    if rendering.rules.compaction.meaningful_fanout:
        blank = {one for one, text in texts.items() if not summary_source_text(text, rendering.rules.source)}
    sound = [owner == conversation_id and copies[ref] == 1 for owner, ref in zip(owners, refs, strict=True)]
    says_nothing = list(map(blank.__contains__, summaries))
    weights = list(tokens)
    await _weigh_uncounted(reader, weights, refs, texts, rendering)
    if rendering.rules.source.names_sender:
        estimator = rendering.rules.estimator
        for at, sender in enumerate(senders):
            if sender is not None:
                weights[at] += _sender_tokens(sender, estimator)
    context = WeighedContext(
        refs,
        weights,
        list(map(bool, users)),
        list(depths),
        sound,
        says_nothing,
        list(tokens),
        compact_ordinals(ordinals),
    )
    user = newest_user(context) if rendering.rules.compaction.compacts_current_turn else None
    if user is not None:
        behind = [MessageId(ref) for ref in refs[user + 1 :] if isinstance(ref, int)]
        context.turn = _turn(await tool_rows(reader, behind))
    return context


def _turn(rows: Iterable[RowOfTool]) -> dict[int, TurnMessage]:
    """What messages have to do with tools, by id."""
    found: dict[int, TurnMessage] = {}
    for message_id, role, part_type, call_id, metadata in rows:
        ids = found[message_id].ids if message_id in found else ()
        tool = None if part_type is None else tool_part(role, part_type, call_id, metadata)
        if role == "assistant" and part_type in ("tool", "agent"):
            ids += ("" if tool is None else tool.call_id,)
        elif role == "tool" and tool is not None:
            ids += (tool.call_id,)
        found[message_id] = TurnMessage(role, ids)
    return found


async def _texts(
    reader: Reader, summaries: Sequence[str | None], tokens: Sequence[int], rendering: Rendering
) -> dict[str, str]:
    """The texts of the summaries that must be looked into."""
    all_of_them = rendering.rules.compaction.meaningful_fanout
    wanted = [
        SummaryId(one)
        for one, stored in zip(summaries, tokens, strict=True)
        if one and (all_of_them or not stored)
    ]
    return {one.summary.summary_id: one.content for one in await summary_store.texts_of(reader, wanted)}


async def _weigh_uncounted(
    reader: Reader,
    weights: list[int],
    refs: Sequence[int | str | None],
    texts: Mapping[str, str],
    rendering: Rendering,
) -> None:
    """Give what has no stored count the estimate of its content."""
    uncounted = [at for at, tokens in enumerate(weights) if not tokens]
    ids = [MessageId(ref) for at in uncounted if isinstance(ref := refs[at], int)]
    contents = await contents_of(reader, ids)
    for at in uncounted:
        ref = refs[at]
        text = texts.get(ref) if isinstance(ref, str) else contents.get(MessageId(ref or 0))
        weights[at] = estimate(as_engine_read(text or ""), rendering.rules.estimator)


@lru_cache(maxsize=1024)  # a few people say all there is
def _sender_tokens(recorded: str, estimator: Estimator) -> int:
    """What the label of a sender adds to the weight of a message."""
    label = speaker_label(recorded)
    return estimate(label, estimator) if label else 0


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


async def read_chunk(reader: Reader, context: WeighedContext, due: Pass, rendering: Rendering) -> Chunk:
    """What a pass on this context is made from."""
    run = slice(due.run.start, due.run.stop)
    refs = tuple(ref for ref in context.refs[run] if ref is not None)
    source = await read_source(reader, refs, rendering)
    previous = due.given if due.given is not None else await _previous(reader, due, rendering)
    return Chunk(due, refs, context.removed(due.run, is_leaf=due.is_leaf), source, previous)


async def read_source(reader: Reader, refs: Iterable[int | str], rendering: Rendering) -> SummarySource:
    """The source text of messages, or of summaries."""
    wanted = list(refs)
    summaries = [SummaryId(ref) for ref in wanted if isinstance(ref, str)]
    if summaries:
        return await source_of_summaries(reader, summaries, rendering)
    return await source_of_messages(
        reader, [MessageId(ref) for ref in wanted if isinstance(ref, int)], rendering
    )


async def _previous(reader: Reader, due: Pass, rendering: Rendering) -> str | None:
    """The previous context as the engine joins it (docs/spec/texts.md, "Previous context")."""
    texts = await summary_store.texts_of(reader, [SummaryId(one) for one in due.previous])
    if due.handed_on:
        return texts[0].content if texts else None
    reading = previous_rules(rendering.rules).reading
    return joined(reading(one.content) for one in texts) or None


# -- a pass as a plan ------------------------------------------------------------------------------------
# The summary, its links, its place in the context, and what an old engine notes of it.


class PassDraft(Record, frozen=True):
    """A summary that a pass would store."""

    summary_id: str
    chunk: Chunk
    text: Escalated
    model: str  #: what ``summaries.model`` records


async def plan_pass(
    reader: Reader,
    conversation_id: ConversationId,
    draft: PassDraft,
    rendering: Rendering,
    *,
    now: datetime,
    batch: str | None = None,
) -> Plan:
    """The plan of one pass whose summary has been drafted.

    Raises:
        StalePlanError: the chunk is no longer in the context as one run, or its text has changed since the
            draft was made from it.
    """
    chunk = draft.chunk
    items = await context_refs(reader, conversation_id)
    start = _place(items, chunk)
    source = await read_source(reader, chunk.refs, rendering)
    if source.text != chunk.source.text:
        raise StalePlanError([Moved(_named(chunk), "the text that was summarised", "another one")])
    stamp = sql_utc(now)
    edits: list[Edit] = [
        insertion(
            "summaries",
            _whole(
                reader.schema,
                "summaries",
                _summary(conversation_id, draft, source, rendering.rules.source, stamp),
            ),
        )
    ]
    edits += _links(draft)
    edits += await still_resting(reader, conversation_id, now)
    edits += await _splice(reader, conversation_id, items, start, draft, stamp)
    if rendering.rules.compaction.writes_events:
        rows = await compaction_rows(reader, conversation_id)
        edits += await _event(reader, conversation_id, draft, rows, rendering, stamp)
    return Plan(
        kind="compact",
        title=_title(draft),
        conversation_id=conversation_id,
        edits=tuple(edits),
        batch=batch,
        select=draft.summary_id,
    )


def _place(items: list[tuple[int, int | str | None]], chunk: Chunk) -> int:
    """The index at which the chunk is one run."""
    refs = [ref for _, ref in items]
    try:
        start = refs.index(chunk.refs[0])
    except ValueError:
        start = -1
    if start < 0 or tuple(refs[start : start + len(chunk.refs)]) != chunk.refs:
        raise StalePlanError([Moved(_named(chunk), "one run of the context", "not any more")])
    return start


def _named(chunk: Chunk) -> str:
    kind, sign = ("message", "m") if chunk.due.is_leaf else ("summary", "")
    return f"{kind} {sign}{chunk.refs[0]} to {sign}{chunk.refs[-1]}"


def _title(draft: PassDraft) -> str:
    chunk = draft.chunk
    into = "a leaf" if chunk.due.is_leaf else f"a summary of depth {chunk.due.depth}"
    level = "" if draft.text.way == Level.NORMAL else f" ({draft.text.way})"
    what = counted(len(chunk.refs), "message" if chunk.due.is_leaf else "summary")
    return f"Compact {what} ({chunk.tokens:,} tokens) into {into} of {draft.text.tokens:,}{level}"


# -- rows ------------------------------------------------------------------------------------------------


def _whole(schema: Schema, table: str, values: Mapping[str, Cell]) -> Cells:
    """A row with every column that this file has; those that nothing is known of are NULL."""
    return Cells.of({column: values.get(column) for column in schema.tables[table]})


def _summary(
    conversation_id: ConversationId, draft: PassDraft, source: SummarySource, rules: SourceRules, stamp: str
) -> dict[str, Cell]:
    below, is_leaf = source.summaries, draft.chunk.due.is_leaf
    earliest, latest = _range(source)
    inherited = sum(one.summary.source_message_tokens or 0 for one in below)
    row: dict[str, Cell] = {
        "summary_id": draft.summary_id,
        "conversation_id": conversation_id,
        "kind": "leaf" if is_leaf else "condensed",
        "depth": draft.chunk.due.depth,
        "content": draft.text.content,
        "token_count": draft.text.tokens,
        "earliest_at": earliest,
        "latest_at": latest,
        "descendant_count": sum((one.summary.descendant_count or 0) + 1 for one in below),
        "descendant_token_count": sum(
            one.summary.tokens + (one.summary.descendant_tokens or 0) for one in below
        ),
        "source_message_token_count": draft.chunk.tokens if is_leaf else inherited,
        "created_at": stamp,
        "file_ids": json.dumps(files_of_source(source, rules), separators=(",", ":")),
        "model": draft.model,
    }
    # Counts that no engine wrote may add up to what no column holds.
    return {
        name: max(LEAST, min(value, GREATEST)) if isinstance(value, int) else value
        for name, value in row.items()
    }


def _range(source: SummarySource) -> tuple[str | None, str | None]:
    """The times that a summary covers, as the engine stores them; none where one cannot be read.

    docs/spec/compaction.md, "Running total".
    """
    starts: list[Timestamp | None] = [one.message.created_at for one in source.messages]
    ends = list(starts)
    for one in source.summaries:
        starts.append(one.summary.earliest_at or one.summary.created_at)
        ends.append(one.summary.latest_at or one.summary.created_at)
    first, last = [list(map(engine_moment, stamps)) for stamps in (starts, ends)]
    if not first or None in first or None in last:
        return None, None
    return iso_z(min(filter(None, first))), iso_z(max(filter(None, last)))


def files_of_source(source: SummarySource, rules: SourceRules) -> list[str]:
    """The files that a summary's sources name, each once, in order.

    Those of a message are looked for before injected elements are removed (docs/spec/texts.md).
    """
    found: dict[str, None] = {}
    for message in source.messages:
        found.update(dict.fromkeys(file_ids(uncut_message_text(message, rules))))
    for summary in source.summaries:
        found.update(dict.fromkeys(recorded_files(summary.summary.file_ids)))
        found.update(dict.fromkeys(file_ids(summary.content)))
    return list(found)


def _links(draft: PassDraft) -> list[Edit]:
    table, column = (
        ("summary_messages", "message_id")
        if draft.chunk.due.is_leaf
        else ("summary_parents", "parent_summary_id")
    )
    return [
        insertion(table, Cells.of({"summary_id": draft.summary_id, column: ref, "ordinal": ordinal}))
        for ordinal, ref in enumerate(draft.chunk.refs)
    ]


async def _splice(
    reader: Reader,
    conversation_id: ConversationId,
    items: list[tuple[int, int | str | None]],
    start: int,
    draft: PassDraft,
    stamp: str,
) -> list[Edit]:
    """The summary in place of the run, and the whole context numbered from 0, as the engine leaves it.

    docs/spec/compaction.md, "A pass".
    """
    listing = Listing.of(items)
    end = start + len(draft.chunk.refs)
    removed = await context_rows(reader, conversation_id, items[start][0], items[end - 1][0])
    item = context_item(conversation_id, draft.summary_id, stamp)
    splice = splice_at(listing, conversation_id, start, [Cells.of(row) for row in removed], [item])
    in_order = all(left < right for left, right in pairwise(listing.ordinals))
    moves = tuple(moves_from_zero(listing)) if in_order else ()
    return [splice, renumbering(conversation_id, moves)] if moves else [splice]


# -- what an engine up to 0.6.0 notes of a pass ----------------------------------------------------------


async def _event(
    reader: Reader,
    conversation_id: ConversationId,
    draft: PassDraft,
    rows: Sequence[CompactionRow],
    rendering: Rendering,
    stamp: str,
) -> list[Edit]:
    """The message that records a pass, which no context holds (docs/spec/format.md, "Records of passes")."""
    conversation = await conversation_store.get_conversation(reader, conversation_id)
    stored = {row[2] or row[1]: row[4] for row in rows}
    before = sum(row[4] for row in rows)
    after = before - sum(stored[ref] for ref in draft.chunk.refs) + draft.text.tokens
    kind = "leaf" if draft.chunk.due.is_leaf else "condensed"
    text = f"LCM compaction {kind} pass ({draft.text.level}): {before} -> {after}"
    message = Symbol("event", SymbolKind.ID)
    metadata: dict[str, int | str | bool | list[str]] = {
        "conversationId": conversation_id,
        "pass": kind,
        "level": str(draft.text.level),
        "tokensBefore": before,
        "tokensAfter": after,
        "createdSummaryId": draft.summary_id,
        "createdSummaryIds": [draft.summary_id],
        "condensedPassOccurred": kind == "condensed",
    }
    row: dict[str, Cell] = {
        "message_id": message,
        "conversation_id": conversation_id,
        "seq": Symbol("event seq", SymbolKind.SEQ),
        "role": "system",
        "content": text,
        "token_count": estimate(text, rendering.rules.estimator),
        "created_at": stamp,
    }
    edits: list[Edit] = [insertion("messages", _whole(reader.schema, "messages", row))]
    if reader.schema.has("message_parts"):
        part: dict[str, Cell] = {
            "part_id": str(uuid.uuid4()),
            "message_id": message,
            "session_id": conversation.session_id,
            "part_type": "compaction",
            "ordinal": 0,
            "text_content": text,
            "metadata": json.dumps(metadata, separators=(",", ":"), ensure_ascii=False),
        }
        edits.append(insertion("message_parts", _whole(reader.schema, "message_parts", part)))
    return edits


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
Write = Callable[[Plan], Awaitable[Committed]]


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
        f"No model gave a text shorter than {_named(draft.chunk)} ({draft.chunk.tokens:,} tokens), and "
        "truncating is switched off. Earlier passes stay."
    )


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
