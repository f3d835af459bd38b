"""What is noted of compaction beside a conversation: a run of its host, telemetry, and debt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import RefusedError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.times import iso_z, parse_utc, sql_utc
from lcm_core.base.values import Record
from lcm_core.change.plan import Cell, Cells, Moved, Plan, RowChange, StalePlanError
from lcm_core.engine.rules import CompactionRules, configured, engine_rules
from lcm_core.engine.sessions import (
    UNKNOWN_MODEL,
    NotedThreshold,
    RuntimeModel,
    settings_for_session,
    still_holds,
)
from lcm_core.operations.rows import update
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.store.schema import number
from lcm_core.store.state import MAINTENANCE, REVISION, TELEMETRY, cache_telemetry
from lcm_core.store.statistics import context_tokens

# -- debt and its threshold ------------------------------------------------------------------------------


class BelowThreshold(Record, frozen=True):
    """A context that is not above the threshold of its pending debt."""

    tokens: int  #: stored, of the context
    threshold: int  #: tokens


async def debts_below(
    reader: Reader, engine: EngineSettings, conversations: Iterable[Conversation]
) -> dict[ConversationId, BelowThreshold]:
    """Those of some conversations whose context is not above the threshold that made their pending debt.

    It is the threshold by which `plan_state` pays (docs/spec/prepared.md, "Debt").
    """
    by_id = {one.conversation_id: one for one in conversations}
    found: dict[ConversationId, BelowThreshold] = {}
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", by_id):
        owner = ConversationId(number(row["conversation_id"]) or 0)
        if owner not in by_id or not row.get("pending") or row.get("running"):
            continue
        key, model = by_id[owner].session_key, await noted_model(reader, owner)
        rules = configured(engine_rules(reader.schema), settings_for_session(engine, key, model))
        threshold = _threshold(row, rules.compaction, holds_for(engine, key, model))
        if threshold >= 0 and (tokens := await context_tokens(reader, owner)) <= threshold:
            found[owner] = BelowThreshold(tokens, threshold)
    return found


def holds_for(
    engine: EngineSettings, session_key: str | None, model: RuntimeModel
) -> Callable[[NotedThreshold], bool]:
    """Whether the threshold that a debt has noted is still one that this configuration makes."""
    return partial(
        still_holds,
        configured=engine.context_threshold.value,
        rules=engine.context_threshold_overrides.value,
        session_key=session_key,
        model=model,
    )


async def noted_model(reader: Reader, conversation_id: ConversationId) -> RuntimeModel:
    """The model of the last call that the engine noted: what its next compaction most likely goes by."""
    noted = await cache_telemetry(reader, conversation_id)
    return UNKNOWN_MODEL if noted is None else RuntimeModel(noted.provider, noted.model)


def _threshold(row: StoredRow, rules: CompactionRules, noted_holds: Callable[[NotedThreshold], bool]) -> int:
    """Tokens above which the debt was made, by what it noted, unless that is stale."""
    budget, share, source = map(row.get, ("token_budget", "context_threshold", "context_threshold_source"))
    if not isinstance(budget, int):
        return -1
    noted = NotedThreshold(
        share if isinstance(share, float | int) and math.isfinite(share) else None,
        source if isinstance(source, str) else None,
        number(row.get("context_fresh_tail_count")),
        number(row.get("context_leaf_chunk_tokens")),
    )
    use_noted = noted.share is not None and (noted.source is None or noted_holds(noted))
    return int(budget * (noted.share if use_noted and noted.share is not None else rules.context_threshold))


# -- what the engine notes beside a conversation --------------------------------------------------------


async def plan_state(
    reader: Reader,
    conversation_id: ConversationId,
    rules: CompactionRules,
    tokens: int,
    *,
    now: datetime,
    leaves: bool,
    batch: str,
    noted_holds: Callable[[NotedThreshold], bool],
) -> Plan:
    """What is to be noted after passes that left *tokens* in the context; empty when nothing is.

    Rows that are there are updated; none is made: an engine that has not noted anything has nothing to
    correct. Source: docs/spec/compaction.md, "What is noted beside a conversation".

    Telemetry counts from here when *leaves* were made. A debt that is pending, and not being worked on, is
    paid when the context is at or below its threshold; else its counts are corrected. *noted_holds* says
    whether the threshold that it has noted still counts (docs/spec/thresholds.md, "Debt").
    """
    edits: list[RowChange] = []
    for row in await rows_by(reader, TELEMETRY, "conversation_id", [conversation_id] if leaves else ()):
        since_leaf: dict[str, Cell] = {
            "last_leaf_compaction_at": iso_z(now),
            "turns_since_leaf_compaction": 0,
            "tokens_accumulated_since_leaf_compaction": 0,
            "updated_at": sql_utc(now),
        }
        edits.append(update(TELEMETRY, row, since_leaf))
    for row in await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id]):
        if not row.get("pending") or row.get("running"):
            continue
        revision = row.get(REVISION)
        debt: dict[str, Cell] = {
            "current_token_count": tokens,
            "projected_token_count": tokens,
            REVISION: revision + 1 if isinstance(revision, int) else revision,
            "updated_at": sql_utc(now),
        }
        if tokens <= _threshold(row, rules, noted_holds):
            debt |= {
                "pending": 0,
                "last_finished_at": iso_z(now),
                "last_failure_summary": None,
                "retry_attempts": 0,
                "next_attempt_after": None,
            }
        edits.append(update(MAINTENANCE, row, debt))
    return Plan(
        kind="compact",
        title="Note the compaction beside the conversation",
        conversation_id=conversation_id,
        edits=tuple(edit for edit in edits if edit.row.columns),
        batch=batch,
    )


# -- whether the host is compacting ----------------------------------------------------------------------

#: A note that is older stayed behind when the host died: no compaction of the engine takes longer than 300 s.
STUCK: Final = timedelta(minutes=10)


class HostCompactsError(RefusedError):
    """The host compacts the conversation: two at once could take messages out of the context.

    An engine up to 0.15 remembers the ordinals of a chunk, asks its model, and then takes out whatever is at
    those ordinals. A pass of ours in between moves them. It notes that it has begun, so we wait for it.
    Source: docs/spec/compaction.md, "Two that compact at once".
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


# -- closing debt ----------------------------------------------------------------------------------------
# Source: docs/spec/prepared.md, "Closing debt".

#: What the engine notes when an operator closes debt; it writes no other reason.
RESOLUTION: Final = "operator-ignored"
#: What is in the name of the backup that is made before.
LABEL: Final = "before-close-debt"


async def plan_close_debt(
    reader: Reader, conversation_id: ConversationId, *, now: datetime | None = None
) -> Plan:
    """Mark the debt of a conversation that is not active as closed; nothing is compacted.

    The plan holds the revision that was read, so whatever the engine notes meanwhile makes it stale.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: it is active, it owes nothing, or this version of the engine records no closing.
    """
    conversation = await get_conversation(reader, conversation_id)
    if not reader.schema.has(MAINTENANCE, "resolution_reason"):
        raise RefusedError(
            "The engine that wrote this database cannot record that a debt is closed (columns "
            "resolution_reason and maintenance_revision are missing). Nothing was changed."
        )
    if conversation.active is not False:
        raise RefusedError(
            f"Conversation {conversation_id} is active: its host pays the debt, or `lcm-tui compact` does. "
            "Only the debt of an ended conversation can be closed. Nothing was changed."
        )
    rows = await rows_by(reader, MAINTENANCE, "conversation_id", [conversation_id])
    row = next((one for one in rows if one.get("pending")), None)
    if row is None:
        raise RefusedError(f"Conversation {conversation_id} has no compaction debt. Nothing was changed.")
    moment = now or datetime.now(UTC)
    revision = row.get(REVISION)
    closed: dict[str, Cell] = {
        "pending": 0,
        "running": 0,
        "resolution_reason": RESOLUTION,
        "resolved_at": iso_z(moment),
        REVISION: revision + 1 if isinstance(revision, int) else 1,
        "updated_at": sql_utc(moment),
    }
    return Plan(
        kind="close-debt",
        title=f"Close the compaction debt of conversation {conversation_id}",
        conversation_id=conversation_id,
        edits=(update(MAINTENANCE, row, closed),),
        warnings=("Nothing is compacted: only the debt record is closed, and new debt opens it again",),
    )
