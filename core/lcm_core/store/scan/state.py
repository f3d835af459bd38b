"""Reads what is noted about conversations, and which of them are alike (families G and E23)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from itertools import combinations, pairwise

from lcm_core.dag.checks.facts import Limits
from lcm_core.dag.checks.state import (
    Briefs,
    Checkpoint,
    ConversationState,
    Likeness,
    Maintenance,
    State,
)
from lcm_core.dag.checks.whole import MIN_SHARED_ENTRIES, Collision, SharedEntries
from lcm_core.paths import FileState, resolve_transcript
from lcm_core.records import ConversationId
from lcm_core.store.conversations import COLUMNS, conversation_of
from lcm_core.store.database import Database, Reader
from lcm_core.store.moments import moment
from lcm_core.store.scan.files import Folders
from lcm_core.store.state import BOOTSTRAP, MAINTENANCE, TELEMETRY

#: Messages that two conversations share by more than chance, and their share of the smaller one.
_MIN_SHARED = 20
_MIN_SHARE = 0.5
#: A text that stands in more conversations than this tells nothing about any two of them.
_MOST_OWNERS = 8
#: Rows of an index that one transaction groups.
_STEP = 100_000
_DIGITS = "0123456789abcdef"
_NUMBERS = (
    "last_observed_cache_read",
    "last_observed_cache_write",
    "last_observed_prompt_token_count",
    "consecutive_cold_observations",
    "turns_since_leaf_compaction",
    "tokens_accumulated_since_leaf_compaction",
)
_TIMES = (
    "last_observed_cache_hit_at",
    "last_observed_cache_break_at",
    "last_leaf_compaction_at",
    "last_api_call_at",
    "last_cache_touch_at",
)


async def load_state(reader: Reader, limits: Limits) -> State:
    """All conversations and what is noted about them; the transcripts are not looked for."""
    messages = await _counts(reader, "messages")
    summaries = await _counts(reader, "summaries") if reader.schema.has("summaries") else {}
    checkpoints = await _checkpoints(reader)
    debts = await _debts(reader)
    negative, future = await _telemetry(reader, limits)
    briefs = await _briefs(reader)
    copies = await _with_copies(reader)
    rows = await reader.rows(
        f"SELECT {reader.schema.select('conversations', COLUMNS, 'c')} FROM conversations AS c ORDER BY "
        "conversation_id"
    )
    found = []
    for row in rows:
        conversation = conversation_of(row)
        key = conversation.conversation_id
        found.append(
            ConversationState(
                conversation,
                messages.get(key, 0),
                summaries.get(key, 0),
                checkpoints.get(key),
                debts.get(key),
                key in negative,
                key in future,
                briefs.get(key),
                key in copies,
            )
        )
    has = reader.schema.has
    return State(found, has("conversations", "archive_cause"), has(BOOTSTRAP), await _migrated(reader))


async def _migrated(reader: Reader) -> float | None:
    if not reader.schema.has("lcm_migration_state"):
        return None
    found: float | None = await reader.value(
        f"SELECT min({moment('completed_at')}) FROM lcm_migration_state WHERE {moment('completed_at')} > 0"
    )
    return found


async def _counts(reader: Reader, table: str) -> dict[int, int]:
    rows = await reader.rows(
        f"SELECT conversation_id AS id, count(*) AS n FROM {table} GROUP BY conversation_id"
    )
    return {row["id"]: row["n"] for row in rows}


async def _with_copies(reader: Reader) -> set[int]:
    """The conversations with a seq below 0: the engine begins at 1, the Go tool at 0."""
    rows = await reader.rows(
        """SELECT c.conversation_id AS id FROM conversations AS c WHERE EXISTS (
        SELECT 1 FROM messages AS m WHERE m.conversation_id = c.conversation_id AND m.seq < 0)"""
    )
    return {row["id"] for row in rows}


async def _checkpoints(reader: Reader) -> dict[int, Checkpoint]:
    if not reader.schema.has(BOOTSTRAP):
        return {}
    columns = reader.schema.select(BOOTSTRAP, ("fork_bounded", "fork_source_message_count"), "b")
    rows = await reader.rows(
        f"""SELECT b.conversation_id, CAST(b.session_file_path AS TEXT) AS path,
        CAST(b.last_seen_size AS INTEGER) AS seen, CAST(b.last_processed_offset AS INTEGER) AS done, {columns}
        FROM {BOOTSTRAP} AS b"""
    )
    return {
        row["conversation_id"]: Checkpoint(
            row["path"] or "",
            row["seen"] or 0,
            row["done"] or 0,
            bool(row["fork_bounded"]) or bool(row["fork_source_message_count"]),
        )
        for row in rows
    }


async def _debts(reader: Reader) -> dict[int, Maintenance]:
    if not reader.schema.has(MAINTENANCE):
        return {}
    retries = "CAST(retry_attempts AS INTEGER)" if reader.schema.has(MAINTENANCE, "retry_attempts") else "0"
    rows = await reader.rows(
        f"""SELECT conversation_id, pending, running, {moment("last_started_at")} AS started,
        {retries} AS retries FROM {MAINTENANCE}"""
    )
    return {
        row["conversation_id"]: Maintenance(
            bool(row["pending"]), bool(row["running"]), row["started"] or None, row["retries"] or 0
        )
        for row in rows
    }


async def _telemetry(reader: Reader, limits: Limits) -> tuple[set[int], set[int]]:
    """The conversations whose telemetry is below zero, and those where it lies in the future."""
    numbers = [name for name in _NUMBERS if reader.schema.has(TELEMETRY, name)]
    times = [name for name in _TIMES if reader.schema.has(TELEMETRY, name)]
    if not numbers or not times:
        return set(), set()
    rows = await reader.rows(
        f"""SELECT conversation_id, {" OR ".join(f"{name} < 0" for name in numbers)} AS negative,
        {" OR ".join(f"({moment(name)}) > :latest" for name in times)} AS future FROM {TELEMETRY}""".replace(
            ":latest", repr(limits.today + 1.0)
        )
    )
    return (
        {row["conversation_id"] for row in rows if row["negative"]},
        {row["conversation_id"] for row in rows if row["future"]},
    )


async def _briefs(reader: Reader) -> Mapping[int, Briefs]:
    if not (reader.schema.has("focus_briefs") and reader.schema.has("focus_brief_sources")):
        return {}
    active: dict[int, list[str]] = {}
    beyond: dict[int, list[str]] = {}
    dangling: dict[int, list[tuple[str, str, str]]] = {}
    for row in await reader.rows(
        """SELECT b.brief_id, b.conversation_id AS owner, b.status = 'active' AS active,
        b.covered_message_seq >
            (SELECT max(m.seq) FROM messages AS m WHERE m.conversation_id = b.conversation_id) AS beyond
        FROM focus_briefs AS b"""
    ):
        if row["active"]:
            active.setdefault(row["owner"], []).append(row["brief_id"])
        if row["beyond"]:
            beyond.setdefault(row["owner"], []).append(row["brief_id"])
    if reader.schema.has("summaries"):
        for row in await reader.rows(
            """SELECT s.brief_id, s.summary_id, s.role, ifnull(b.conversation_id, 0) AS owner
            FROM focus_brief_sources AS s LEFT JOIN focus_briefs AS b ON b.brief_id = s.brief_id
            WHERE b.brief_id IS NULL
               OR NOT EXISTS (SELECT 1 FROM summaries AS one WHERE one.summary_id = s.summary_id)"""
        ):
            dangling.setdefault(row["owner"], []).append((row["brief_id"], row["summary_id"], row["role"]))
    return {
        owner: Briefs(
            tuple(active.get(owner, ())), tuple(beyond.get(owner, ())), tuple(dangling.get(owner, ()))
        )
        for owner in {*active, *beyond, *dangling}
    }


def with_transcripts(state: State, folders: Folders) -> State:
    """The same state, with the sizes of the transcripts that are there. Blocks: for a thread."""
    if folders.sessions is None:
        return state
    home = folders.sessions.parent if folders.state is None else folders.state
    found = []
    for one in state.conversations:
        checkpoint = one.checkpoint
        if checkpoint is not None and checkpoint.path:
            stored = resolve_transcript(checkpoint.path, sessions=folders.sessions, state_dir=home)
            checkpoint = Checkpoint(
                checkpoint.path,
                checkpoint.seen,
                checkpoint.offset,
                checkpoint.forked,
                stored.size,
                stored.state is FileState.MISSING,
            )
        found.append(
            ConversationState(
                one.conversation,
                one.messages,
                one.summaries,
                checkpoint,
                one.maintenance,
                one.telemetry_negative,
                one.telemetry_future,
                one.briefs,
                one.has_copies,
            )
        )
    return replace(state, conversations=found)


async def shared_messages(database: Database, state: State) -> AsyncIterator[tuple[list[Likeness], int, int]]:
    """Pairs of conversations that share most messages; hashes by first digits, so that no read takes long."""
    sizes = {int(one.id): one.messages for one in state.conversations}
    pairs: Counter[tuple[int, int]] = Counter()
    ranges = _ranges(sum(sizes.values()))
    for step, (low, high) in enumerate(ranges, 1):
        for _, owners in await database.read(_shared, "identity_hash", low, high):
            pairs.update(combinations(owners, 2))
        yield [], step, len(ranges)
    found = []
    for (one, other), shared in sorted(pairs.items()):
        smaller = min(sizes.get(one, 0), sizes.get(other, 0))
        if shared >= _MIN_SHARED and shared >= smaller * _MIN_SHARE:
            found.append(Likeness(ConversationId(one), ConversationId(other), min(shared, smaller), smaller))
    yield found, 1, 1


async def shared_entries(
    database: Database, state: State
) -> AsyncIterator[tuple[list[SharedEntries], int, int]]:
    """Pairs of conversations in which entries of one transcript stand for the same message."""
    entries: dict[tuple[int, int], list[str]] = {}
    ranges = _ranges(sum(one.messages for one in state.conversations))
    for step, (low, high) in enumerate(ranges, 1):
        for entry, owners in await database.read(_shared, "transcript_entry_id", low, high):
            for pair in combinations(owners, 2):
                entries.setdefault(pair, []).append(entry)
        yield [], step, len(ranges)
    found = []
    for pair, shared in sorted(entries.items()):
        # Ids are short, so some are equal by chance: only those count that stand for the same text.
        count = await database.read(_same_texts, pair, shared) if len(shared) >= MIN_SHARED_ENTRIES else 0
        found.append(SharedEntries(ConversationId(pair[0]), ConversationId(pair[1]), count))
    yield found, 1, 1


def _ranges(rows: int) -> list[tuple[str, str]]:
    """Bounds of hexadecimal texts that divide so many rows into parts that are read quickly."""
    parts = next((number for number in (1, 2, 4, 8) if rows <= number * _STEP), 16)
    bounds = [*_DIGITS[:: 16 // parts], "g"]
    return list(pairwise(bounds))


async def _shared(reader: Reader, column: str, low: str, high: str) -> list[tuple[str, list[int]]]:
    """The values of an indexed column that stand in a few conversations, with these, ascending."""
    rows = await reader.rows(
        f"""SELECT value, json_group_array(owner) AS owners FROM (
            SELECT DISTINCT {column} AS value, conversation_id AS owner FROM messages
            WHERE {column} >= ? AND {column} < ?)
        GROUP BY value HAVING count(*) BETWEEN 2 AND {_MOST_OWNERS}""",
        low,
        high,
    )
    return [(str(row["value"]), sorted(json.loads(row["owners"]), key=str)) for row in rows]


async def _same_texts(reader: Reader, pair: tuple[int, int], entries: list[str]) -> int:
    """How many entries stand for messages with the same identity in both conversations."""
    rows = await reader.rows_in(
        """SELECT count(*) AS n FROM messages AS one JOIN messages AS other
        ON other.transcript_entry_id = one.transcript_entry_id AND other.identity_hash = one.identity_hash
        WHERE one.conversation_id = ? AND other.conversation_id = ? AND one.transcript_entry_id IN (?*)""",
        entries,
        *pair,
    )
    return sum(row["n"] for row in rows)


async def load_collisions(reader: Reader, conversation_id: ConversationId | None) -> list[Collision]:
    """Messages of one conversation that claim the same entry of the transcript, or the same event."""
    only, keys = ("", ()) if conversation_id is None else ("AND conversation_id = ?", (conversation_id,))
    found = []
    for column in ("transcript_entry_id", "stable_event_key"):
        if not reader.schema.has("messages", column):
            continue
        rows = await reader.rows(
            f"""SELECT conversation_id AS owner, json_group_array(message_id) AS ids FROM messages
            WHERE {column} IS NOT NULL {only} GROUP BY conversation_id, {column}
            HAVING count(*) > 1 LIMIT 1000""",
            *keys,
        )
        found += [Collision(row["owner"], column, sorted(json.loads(row["ids"]))) for row in rows]
    return found
