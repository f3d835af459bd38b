"""Reads a context for selection, and what the chunk of a pass is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from lcm_core.change.guard import check_whole
from lcm_core.change.prepared import changed_since
from lcm_core.change.preview import STOP_THE_HOST
from lcm_core.checks.tools import tool_part
from lcm_core.dag.previous import joined
from lcm_core.engine_rules import engine_rules
from lcm_core.engine_work import engine_work
from lcm_core.operations.compaction.selection import (
    TurnMessage,
    WeighedContext,
    compact_ordinals,
    newest_user,
)
from lcm_core.operations.compaction.sweep import Pass
from lcm_core.records import ConversationId, MessageId, SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.context import compaction_rows
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import engine_rows
from lcm_core.store.messages import RowOfTool, contents_of, tool_rows
from lcm_core.store.rows import rows_by
from lcm_core.store.state import MAINTENANCE, active_batches, cache_telemetry
from lcm_core.summarize.source import (
    Rendering,
    SummarySource,
    previous_rules,
    source_of_messages,
    source_of_summaries,
    speaker_label,
    summary_source_text,
)
from lcm_core.thresholds import UNKNOWN_MODEL, RuntimeModel
from lcm_core.tokens import Estimator, as_engine_read, estimate
from lcm_core.wording import counted


@dataclass(frozen=True, slots=True)
class LoadedContext:
    """A context as it is in the database."""

    conversation_id: ConversationId
    context: WeighedContext


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one pass is made from: everything that a summariser is given."""

    due: Pass
    refs: tuple[int | str, ...]  #: message ids or summary ids, in order
    tokens: int  #: that the pass takes out of the running total
    source: SummarySource
    previous: str | None  #: None: nothing is given; at 0.1 an empty summary is handed on as an empty text


async def load_for_compaction(
    reader: Reader, conversation_id: ConversationId, rendering: Rendering
) -> LoadedContext:
    """The whole context with what selection needs to know (docs/engine/compaction.md, "Weights").

    Raises:
        DatabaseError: the file lacks tables without which nothing can be compacted.
    """
    check_whole(reader.schema)
    rows = await compaction_rows(reader, conversation_id)
    if not rows:
        return LoadedContext(conversation_id, WeighedContext.of([]))
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
    return LoadedContext(conversation_id, context)


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
    """What speaks against compacting a conversation now; each without a full stop."""
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
    """What the engine would do first, without a call (docs/engine/compaction.md, "What is answered")."""
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


async def noted_model(reader: Reader, conversation_id: ConversationId) -> RuntimeModel:
    """The model of the last call that the engine noted: what its next compaction most likely goes by."""
    noted = await cache_telemetry(reader, conversation_id)
    return UNKNOWN_MODEL if noted is None else RuntimeModel(noted.provider, noted.model)


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
    """The previous context as the engine joins it (docs/engine/texts.md, "Previous context")."""
    texts = await summary_store.texts_of(reader, [SummaryId(one) for one in due.previous])
    if due.handed_on:
        return texts[0].content if texts else None
    reading = previous_rules(rendering.rules).reading
    return joined(reading(one.content) for one in texts) or None
