"""A pass as a plan: the summary, its links, its place in the context, and what an old engine notes of it.

Also what an engine notes beside a conversation, and what it notes while it compacts one itself.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from lcm_core.change.errors import Moved, StalePlanError
from lcm_core.change.place import Listing, moves_from_zero, splice_at
from lcm_core.change.plan import (
    Cell,
    Cells,
    Edit,
    Plan,
    RowChange,
    Symbol,
    SymbolKind,
    insertion,
    renumbering,
)
from lcm_core.checks.texts import file_ids
from lcm_core.engine_rules import CompactionRules, SourceRules
from lcm_core.errors import RefusedError
from lcm_core.operations.compaction.reading import Chunk, read_source
from lcm_core.operations.rows import context_item, recorded_files, update
from lcm_core.records import ConversationId, Timestamp
from lcm_core.store import conversations as conversation_store
from lcm_core.store.context import CompactionRow, compaction_rows, context_refs, context_rows
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.schema import Schema
from lcm_core.store.state import MAINTENANCE, TELEMETRY
from lcm_core.store.typed import GREATEST, LEAST, number
from lcm_core.summarize.escalate import Escalated, Level
from lcm_core.summarize.source import Rendering, SummarySource, uncut_message_text
from lcm_core.thresholds import NotedThreshold
from lcm_core.times import engine_moment, iso_z, parse_utc, sql_utc
from lcm_core.tokens import estimate


@dataclass(frozen=True, slots=True)
class PassDraft:
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
    kind = "message" if chunk.due.is_leaf else "summary"
    return f"{kind} {chunk.refs[0]} to {chunk.refs[-1]}"


def _title(draft: PassDraft) -> str:
    chunk, count = draft.chunk, len(draft.chunk.refs)
    what = ("message" if count == 1 else "messages") if chunk.due.is_leaf else "summaries"
    into = "a leaf" if chunk.due.is_leaf else f"a summary of depth {chunk.due.depth}"
    level = "" if draft.text.way == Level.NORMAL else f" ({draft.text.way})"
    return f"Compact {count} {what} ({chunk.tokens:,} tokens) into {into} of {draft.text.tokens:,}{level}"


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

    docs/engine/compaction.md, "Running total".
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

    Those of a message are looked for before injected elements are removed (docs/engine/texts.md).
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

    docs/engine/compaction.md, "A pass".
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
    """The message that records a pass, which no context holds (docs/format.md, "Records of passes")."""
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


# -- what the engine notes beside a conversation --------------------------------------------------------


async def plan_state(
    reader: Reader,
    conversation_id: ConversationId,
    rules: CompactionRules,
    tokens: int,
    *,
    now: datetime,
    leaves: bool,
    batch: str | None = None,
    noted_holds: Callable[[NotedThreshold], bool] = lambda _: True,
) -> Plan:
    """What is to be noted after passes that left *tokens* in the context; empty when nothing is.

    Rows that are there are updated; none is made: an engine that has not noted anything has nothing to
    correct. Source: docs/engine/compaction.md, "What is noted beside a conversation".

    Telemetry counts from here when *leaves* were made. A debt that is pending, and not being worked on, is
    paid when the context is at or below its threshold; else its counts are corrected. *noted_holds* says
    whether the threshold that it has noted still counts (docs/engine/thresholds.md, "Debt").
    """
    edits: list[RowChange] = []
    if leaves:
        edits += [
            update(TELEMETRY, row, _telemetry(now))
            for row in await rows_by(reader, TELEMETRY, "conversation_id", [conversation_id])
        ]
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if row.get("pending") and not row.get("running"):
            edits.append(update(MAINTENANCE, row, _debt(row, rules, tokens, now, noted_holds)))
    return Plan(
        kind="compact",
        title="Note the compaction beside the conversation",
        conversation_id=conversation_id,
        edits=tuple(edit for edit in edits if edit.row.columns),
        batch=batch,
    )


def _telemetry(now: datetime) -> Mapping[str, Cell]:
    return {
        "last_leaf_compaction_at": iso_z(now),
        "turns_since_leaf_compaction": 0,
        "tokens_accumulated_since_leaf_compaction": 0,
        "updated_at": sql_utc(now),
    }


def _debt(
    row: StoredRow,
    rules: CompactionRules,
    tokens: int,
    now: datetime,
    noted_holds: Callable[[NotedThreshold], bool],
) -> Mapping[str, Cell]:
    revision = row.get("maintenance_revision")
    changed: dict[str, Cell] = {
        "current_token_count": tokens,
        "projected_token_count": tokens,
        "maintenance_revision": revision + 1 if isinstance(revision, int) else revision,
        "updated_at": sql_utc(now),
    }
    if tokens <= _threshold(row, rules, noted_holds):
        changed |= {
            "pending": 0,
            "last_finished_at": iso_z(now),
            "last_failure_summary": None,
            "retry_attempts": 0,
            "next_attempt_after": None,
        }
    return changed


def _threshold(row: StoredRow, rules: CompactionRules, noted_holds: Callable[[NotedThreshold], bool]) -> int:
    """Tokens above which the debt was made, by what it noted, unless that is stale."""
    budget, share = row.get("token_budget"), row.get("context_threshold")
    if not isinstance(budget, int):
        return -1
    noted = NotedThreshold(
        share if isinstance(share, float | int) else None,
        _text_of(row, "context_threshold_source"),
        number(row.get("context_fresh_tail_count")),
        number(row.get("context_leaf_chunk_tokens")),
    )
    use_noted = noted.share is not None and (noted.source is None or noted_holds(noted))
    return int(budget * (noted.share if use_noted and noted.share is not None else rules.context_threshold))


def _text_of(row: StoredRow, column: str) -> str | None:
    value = row.get(column)
    return value if isinstance(value, str) else None


# -- whether the host compacts just now -----------------------------------------------------------------


#: A note that is older stayed behind when the host died: no compaction of the engine takes longer than 300 s.
STUCK: Final = timedelta(minutes=10)


class HostCompactsError(RefusedError):
    """The host compacts the conversation: two at once could take messages out of the context.

    An engine up to 0.15 remembers the ordinals of a chunk, asks its model, and then takes out whatever is at
    those ordinals. A pass of ours in between moves them. It notes that it has begun, so we wait for it.
    Source: docs/engine/compaction.md, "Two that compact at once".
    """

    def __init__(self, conversation_id: int, since: str) -> None:
        super().__init__(
            f"The host compacts conversation {conversation_id} itself, since {since}; two compactions at "
            "once could remove messages from its context. Nothing more was changed: wait until the host has "
            "finished, or stop it.",
            code="HOST_COMPACTS",
        )


async def host_since(reader: Reader, conversation_id: ConversationId, now: datetime) -> str | None:
    """Since when the host compacts a conversation, as it noted; None when it does not, or died over it."""
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        since = row.get("last_started_at")
        moment = parse_utc(since) if isinstance(since, str) else None
        if row.get("running") and moment is not None and abs(now - moment) < STUCK:
            return str(since)
    return None


async def still_resting(reader: Reader, conversation_id: ConversationId, now: datetime) -> list[RowChange]:
    """What a plan holds so that it is stale, and not committed, when the host begins before it is.

    Raises:
        StalePlanError: it has begun since somebody looked.
    """
    if await host_since(reader, conversation_id, now) is not None:
        raise StalePlanError(
            [Moved(f"conversation {conversation_id}", "left alone", "compacted by the host")]
        )
    return [
        RowChange(MAINTENANCE, Cells.of({"conversation_id": conversation_id}), resting, resting)
        for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id])
        if row.get("running") == 0
        for resting in (Cells.of({"running": 0}),)
    ]
