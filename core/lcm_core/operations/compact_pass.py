"""One pass of a compaction: the context it is selected in, what it is made from, and its plan."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from lcm_core.base.records import ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.text import counted
from lcm_core.base.times import engine_moment, iso_z, sql_utc
from lcm_core.base.tokens import Estimator, as_engine_read, estimate
from lcm_core.base.values import Record
from lcm_core.change.guard import check_whole
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
from lcm_core.checks.check import tool_part
from lcm_core.checks.summaries import file_ids
from lcm_core.engine.previous import joined
from lcm_core.engine.rules import SourceRules
from lcm_core.operations.debt import still_resting
from lcm_core.operations.rows import context_item, recorded_files
from lcm_core.operations.selection import Pass, TurnMessage, WeighedContext, compact_ordinals, newest_user
from lcm_core.store import summaries as summary_store
from lcm_core.store.context import CompactionRow, compaction_rows, context_refs, context_rows
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.messages import RowOfTool, contents_of, tool_rows
from lcm_core.store.schema import GREATEST, LEAST, Schema
from lcm_core.writers.acceptance import Escalated, Level
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

# -- what it is made from --------------------------------------------------------------------------------


class Chunk(Record, frozen=True):
    """What one pass is made from: everything that a summariser is given."""

    due: Pass
    refs: tuple[int | str, ...]  #: message ids or summary ids, in order
    tokens: int  #: that the pass takes out of the running total
    source: SummarySource
    previous: str | None  #: None: nothing is given; at 0.1 an empty summary is handed on as an empty text

    @property
    def named(self) -> str:
        """Its sources, from the first to the last."""
        kind, sign = ("message", "m") if self.due.is_leaf else ("summary", "")
        return f"{kind} {sign}{self.refs[0]} to {sign}{self.refs[-1]}"


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


async def read_chunk(reader: Reader, context: WeighedContext, due: Pass, rendering: Rendering) -> Chunk:
    """What a pass on this context is made from."""
    run = slice(due.run.start, due.run.stop)
    refs = tuple(ref for ref in context.refs[run] if ref is not None)
    source = await read_source(reader, refs, rendering)
    previous = due.given if due.given is not None else await _previous(reader, due, rendering)
    return Chunk(due, refs, context.removed(due.run, is_leaf=due.is_leaf), source, previous)


async def read_source(reader: Reader, refs: Sequence[int | str], rendering: Rendering) -> SummarySource:
    """The source text of messages, or of summaries."""
    summaries = [SummaryId(ref) for ref in refs if isinstance(ref, str)]
    if summaries:
        return await source_of_summaries(reader, summaries, rendering)
    messages = [MessageId(ref) for ref in refs if isinstance(ref, int)]
    return await source_of_messages(reader, messages, rendering)


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
        raise StalePlanError([Moved(chunk.named, "the text that was summarised", "another one")])
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
    start = refs.index(chunk.refs[0]) if chunk.refs[0] in refs else -1
    if start < 0 or tuple(refs[start : start + len(chunk.refs)]) != chunk.refs:
        raise StalePlanError([Moved(chunk.named, "one run of the context", "not any more")])
    return start


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
    conversation = await get_conversation(reader, conversation_id)
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
