"""Reads a context for selection, and what the chunk of a pass is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lcm_core.change.preview import STOP_THE_HOST
from lcm_core.javascript import BLANKS
from lcm_core.operations.compaction.selection import Context
from lcm_core.operations.compaction.sweep import Pass
from lcm_core.records import ConversationId, MessageId, SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.rows import rows_by
from lcm_core.store.standing import standing_rows
from lcm_core.store.state import MAINTENANCE
from lcm_core.summarize.reading import Rendering, Source, source_of_messages, source_of_summaries
from lcm_core.summarize.source import said_by, tidied


@dataclass(frozen=True, slots=True)
class Loaded:
    """A context as it stands in the database."""

    conversation_id: ConversationId
    context: Context
    ordinals: tuple[int, ...]  #: of the items


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one pass is made from: everything that a summariser is given."""

    due: Pass
    refs: tuple[int | str, ...]  #: message ids or summary ids, in order
    tokens: int  #: stored estimates of them
    source: Source
    previous: str | None  #: None: nothing is given; at 0.1 an empty summary is handed on as an empty text


async def load_context(reader: Reader, conversation_id: ConversationId, rendering: Rendering) -> Loaded:
    """The whole context with what selection needs to know."""
    rows = await standing_rows(reader, conversation_id)
    if not rows:
        return Loaded(conversation_id, Context.of([]), ())
    # Column by column: of a long context, what is done for each item is felt.
    ordinals, messages, summaries, owners, tokens, users, depths = zip(*rows, strict=True)
    refs = [summary or message for summary, message in zip(summaries, messages, strict=True)]
    copies = Counter(refs)
    blank: set[str] = set()
    if rendering.rules.sweep.meaningful_fanout:
        standing = zip(summaries, depths, strict=True)
        leaves = [SummaryId(one) for one, depth in standing if one and depth == 0]
        blank = await _blank(reader, leaves, rendering)
    sound = [owner == conversation_id and copies[ref] == 1 for owner, ref in zip(owners, refs, strict=True)]
    says_nothing = list(map(blank.__contains__, summaries))
    context = Context(refs, list(tokens), list(map(bool, users)), list(depths), sound, says_nothing)
    return Loaded(conversation_id, context, ordinals)


async def warnings_of(reader: Reader, conversation_id: ConversationId) -> tuple[str, ...]:
    """What speaks against compacting a conversation now; each without a full stop."""
    found: list[str] = []
    if not reader.schema.is_beta and not reader.schema.has("conversation_bootstrap_state"):
        found.append(STOP_THE_HOST)
    elif not reader.schema.is_beta and not reader.schema.has(MAINTENANCE):
        found.append(
            "The engine of this file does not note when it compacts: stop the host first, for what it has "
            "begun would take out messages that no summary covers"
        )
    if (await get_conversation(reader, conversation_id)).active is False:
        found.append("This conversation is archived: its engine does not go on with it")
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if row.get("running"):
            since = row.get("last_started_at")
            when = f", since {since}" if isinstance(since, str) else ""
            found.append(f"The host noted that it compacts this conversation itself{when}")
    batches = await rows_by(reader, "pending_compaction_batches", "conversation_id", [conversation_id])
    if any(row.get("status") in ("planning", "ready", "publishing") for row in batches):
        found.append("The host has planned a compaction of this conversation itself: stop the host first")
    return tuple(found)


async def _blank(reader: Reader, leaves: list[SummaryId], rendering: Rendering) -> set[str]:
    """The leaves that say nothing."""
    texts = await summary_store.texts_of(reader, leaves)
    rules, tags = rendering.rules.source, rendering.tags
    return {one.summary.summary_id for one in texts if not said_by(one.content, rules, tags)}


async def read_chunk(reader: Reader, context: Context, due: Pass, rendering: Rendering) -> Chunk:
    """What a pass on this context is made from."""
    run = slice(due.run.start, due.run.stop)
    refs = tuple(ref for ref in context.refs[run] if ref is not None)
    source = await read_source(reader, refs, rendering)
    previous = due.given if due.given is not None else await _previous(reader, due, rendering)
    return Chunk(due, refs, sum(context.weights[run]), source, previous)


async def read_source(reader: Reader, refs: Iterable[int | str], rendering: Rendering) -> Source:
    """The source text of messages, or of summaries."""
    wanted = list(refs)
    summaries = [SummaryId(ref) for ref in wanted if isinstance(ref, str)]
    if summaries:
        return await source_of_summaries(reader, summaries, rendering)
    return await source_of_messages(
        reader, [MessageId(ref) for ref in wanted if isinstance(ref, int)], rendering
    )


async def _previous(reader: Reader, due: Pass, rendering: Rendering) -> str | None:
    """The previous context as the engine joins it: a sweep hands a summary on word for word."""
    texts = await summary_store.texts_of(reader, [SummaryId(one) for one in due.previous])
    if due.handed_on:
        return texts[0].content if texts else None
    tidy = tidied if rendering.rules.sweep.tidy_previous else _stripped
    return "\n\n".join(filter(None, (tidy(one.content) for one in texts))) or None


def _stripped(text: str) -> str:
    return text.strip(BLANKS)
