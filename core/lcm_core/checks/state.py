"""The checks of conversations beside each other, and of what is noted about them (G1 to G11, G18, E23)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Final

from lcm_core.base.findings import Check, Confidence, FixId, RowRef
from lcm_core.base.paths import SESSIONS_IN_HOST_DATABASE, StoredFileState, resolve_transcript
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import agree, counted, phrase
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Folders,
    Hit,
    Limits,
    ReadingRule,
    Rule,
    Run,
    conversation_row,
    days_of,
    hit,
)
from lcm_core.store.conversations import CONVERSATIONS, moment
from lcm_core.store.database import Reader
from lcm_core.store.rows import of_conversation, records
from lcm_core.store.schema import Schema
from lcm_core.store.state import BOOTSTRAP, MAINTENANCE, keeps_checkpoints

#: Messages that two conversations share by more than chance, and their share of the smaller one.
_MIN_SHARED: Final = 20
_MIN_SHARE: Final = 0.5
#: A text that is in more conversations than this shows nothing about any two of them.
_MOST_OWNERS: Final = 8
#: Rows of an index that one transaction groups.
_STEP: Final = 100_000
_DIGITS: Final = "0123456789abcdef"
#: Entries of transcripts that two conversations share by more than chance: ids are short.
_MIN_SHARED_ENTRIES: Final = 5
#: An archived conversation with so many messages, or with a summary, is worth keeping.
_RICH: Final = 20
_HOUR: Final = 1 / 24
_MOST_RETRIES: Final = 3
#: Causes that somebody or something meant (docs/spec/doctor.md, "Rollover splits"); a rollover is none.
_MEANT: Final = frozenset({"session-deleted", "cron-rotation"})
_RESET: Final = "manual-reset"
_ROLLOVER: Final = "rollover-fallback"


class Checkpoint(Record, frozen=True):
    """How far a transcript was read. Source: table ``conversation_bootstrap_state``."""

    path: str
    seen: int  #: bytes of the transcript
    offset: int  #: bytes that were processed
    forked: bool
    size: int | None = None  #: bytes of the transcript on this machine; None when it was not looked for
    gone: bool = False  #: looked for and not found


class ConversationState(Record, frozen=True):
    """A conversation and what is noted about it."""

    conversation: Conversation
    messages: int
    summaries: int
    checkpoint: Checkpoint | None
    has_copies: bool  #: it holds messages with a seq below 0, where a transplant puts them

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id


class State(Record, frozen=True):
    """All conversations and what is noted about them."""

    conversations: Sequence[ConversationState]
    records_checkpoints: bool
    migrated: float | None = None  #: when an engine that notes it first migrated the file, in days
    in_host_database: bool = False  #: the host keeps its sessions in a database, not in transcripts


def _several_active(
    confidence: Confidence, key: Callable[[Conversation], str | None]
) -> Callable[[State, Limits], Iterator[Hit]]:
    def find(state: State, limits: Limits) -> Iterator[Hit]:
        groups: dict[str, list[ConversationId]] = {}
        for one in state.conversations:
            name = key(one.conversation)
            if name is not None and one.conversation.active:
                groups.setdefault(name, []).append(one.id)
        for ids in groups.values():
            if len(ids) > 1:
                yield hit(
                    confidence,
                    f"Conversations {', '.join(map(str, ids[:10]))} belong to one session and are all "
                    "active: the host may write to either.",
                    *map(conversation_row, ids[: limits.rows]),
                )

    return find


def _contradicting(state: State, limits: Limits) -> Iterator[Hit]:
    for one in state.conversations:
        conversation = one.conversation
        if conversation.active is None or conversation.active != bool(conversation.archived_at):
            continue
        what = (
            "is active but has a time of archiving" if conversation.active else "is archived without a time"
        )
        yield hit(SUSPICIOUS, f"Conversation {one.id} {what}.", conversation_row(one.id), owner=one.id)


def _rollover_splits(state: State, limits: Limits) -> Iterator[Hit]:
    families: dict[str, list[ConversationState]] = {}
    for one in state.conversations:
        if one.conversation.session_key:
            families.setdefault(one.conversation.session_key, []).append(one)
    for family in families.values():
        active = [one for one in family if one.conversation.active]
        if len(active) != 1:
            continue
        reset = max((one.id for one in family if one.conversation.archive_cause == _RESET), default=-1)
        lost = [
            one
            for one in family
            if one.conversation.active is False
            and reset < one.id < active[0].id  # what a reset forgot, it forgot with all before it
            and (one.summaries or one.messages >= _RICH)
        ]
        if not lost:
            continue
        causes = {one.conversation.archive_cause for one in lost}
        confidence, why = SUSPICIOUS, "and why is not recorded"
        if causes <= _MEANT:
            confidence, why = BY_DESIGN, "on purpose"
        elif _ROLLOVER in causes:
            confidence, why = BROKEN, "by a rollover"
        yield hit(
            confidence,
            f"The session of conversation {active[0].id} was split from {counted(len(lost), 'older one')} "
            f"({', '.join(str(one.id) for one in lost[:5])}) {why}: the model does not see "
            f"{counted(sum(one.messages for one in lost), 'message')}.",
            *(conversation_row(one.id) for one in (*lost[: limits.rows], active[0])),
            fix=None if confidence is BY_DESIGN else FixId.MERGE_SPLIT,
            owner=active[0].id,
        )


def _of_conversations(
    limits: Limits,
    ids: Iterable[ConversationId],
    confidence: Confidence,
    noun: str,
    words: str,
    table: str = "conversations",
) -> Iterator[Hit]:
    """The hit about some conversations; it belongs to the one when it is about one only."""
    rows = FaultRows(limits, table, ids)
    if rows:
        key = rows.rows[0].key[0]
        only = ConversationId(key) if rows.count == 1 and isinstance(key, int) else None
        yield rows.hit(confidence, phrase(rows.count, noun, None, words), owner=only)


def _empty(state: State, limits: Limits) -> Iterator[Hit]:
    empty = (one.id for one in state.conversations if not one.messages)
    return _of_conversations(limits, empty, BY_DESIGN, "conversation", "have no messages.")


def _orphan_keys(state: State, limits: Limits) -> Iterator[Hit]:
    gone = (one.id for one in state.conversations if _is_orphan(one))
    noun, words = "sub-agent or cron conversation", "are active although the transcript is missing."
    return _of_conversations(limits, gone, BY_DESIGN, noun, words)


def _is_orphan(one: ConversationState) -> bool:
    lane = one.conversation.lane if one.conversation.session_key else ""
    gone = one.checkpoint is not None and one.checkpoint.gone
    return bool(one.conversation.active) and gone and lane.startswith(("subagent:", "cron:"))


def _frozen(state: State, limits: Limits) -> Iterator[Hit]:
    for one in state.conversations:
        checkpoint = one.checkpoint
        if checkpoint is None or checkpoint.size is None or one.conversation.active is False:
            continue
        if checkpoint.size > checkpoint.offset:
            yield hit(
                SUSPICIOUS,
                f"The transcript of conversation {one.id} is {checkpoint.size - checkpoint.offset:,} bytes "
                "longer than what was read of it: a turn is running, or the conversation is frozen.",
                RowRef(BOOTSTRAP, (one.id,)),
                owner=one.id,
            )


def _bad_checkpoints(state: State, limits: Limits) -> Iterator[Hit]:
    placeholders: list[ConversationId] = []
    lacking: list[ConversationId] = []
    before: list[ConversationId] = []
    gone: list[ConversationId] = []
    for one in state.conversations:
        checkpoint = one.checkpoint
        if checkpoint is None:
            if one.conversation.bootstrapped_at and state.records_checkpoints and one.messages:
                imported = parse_utc(one.conversation.bootstrapped_at)
                early = imported is not None and days_of(imported) < (state.migrated or 0.0)
                (before if early else lacking).append(one.id)
            continue
        if checkpoint.gone:
            gone.append(one.id)
        what, row = f"The transcript of conversation {one.id}", RowRef(BOOTSTRAP, (one.id,))
        if checkpoint.seen == checkpoint.offset == 0:
            placeholders.append(one.id)
        elif checkpoint.offset > checkpoint.seen or checkpoint.offset < 0:
            yield hit(BROKEN, f"{what} was processed beyond its end.", row, owner=one.id)
        elif checkpoint.size is not None and checkpoint.size < checkpoint.offset:
            why = "is shorter than what was read of it: it was replaced or rotated"
            yield hit(SUSPICIOUS, f"{what} {why}.", row, owner=one.id)
    for ids, confidence, words, table in (
        (
            lacking,
            BY_DESIGN if state.in_host_database else SUSPICIOUS,
            "were imported without a checkpoint.",
            "conversations",
        ),
        (before, BY_DESIGN, "were imported before the file kept checkpoints.", "conversations"),
        (placeholders, BY_DESIGN, "have a checkpoint that stores only the position.", BOOTSTRAP),
        (gone, BY_DESIGN, "have a missing transcript.", BOOTSTRAP),
    ):
        yield from _of_conversations(limits, ids, confidence, "conversation", words, table)


async def _stuck(reader: Reader, limits: Limits) -> list[Hit]:
    has = reader.schema.has
    retries = "CAST(m.retry_attempts AS INTEGER)" if has(MAINTENANCE, "retry_attempts") else "0"
    found = []
    for row in await reader.rows(
        f"""SELECT m.conversation_id AS id, m.pending, m.running, {moment("m.last_started_at")} AS started,
        {retries} AS retries, {"c.active" if has("conversations", "active") else "NULL"} AS active
        FROM {MAINTENANCE} AS m JOIN conversations AS c USING (conversation_id) ORDER BY 1"""
    ):
        reasons = []
        if row["running"] and (row["started"] or 0.0) < limits.today - _HOUR:
            reasons.append("has been running for more than an hour")
        if row["pending"] and (row["retries"] or 0) >= _MOST_RETRIES:
            reasons.append(f"failed {row['retries']:,} times")
        if row["pending"] and row["active"] is not None and not row["active"]:
            reasons.append("waits although the conversation is archived")
        if reasons:
            what = f"The compaction debt of conversation {row['id']} {' and '.join(reasons)}."
            found.append(hit(SUSPICIOUS, what, RowRef(MAINTENANCE, (row["id"],)), owner=row["id"]))
    return found


async def _briefs(reader: Reader, limits: Limits) -> list[Hit]:
    active: dict[ConversationId, list[str]] = {}
    beyond: dict[ConversationId, list[str]] = {}
    for row in await reader.rows(
        """SELECT b.brief_id, b.conversation_id AS owner, b.status = 'active' AS active,
        b.covered_message_seq >
            (SELECT max(m.seq) FROM messages AS m WHERE m.conversation_id = b.conversation_id) AS beyond
        FROM focus_briefs AS b JOIN conversations USING (conversation_id)"""
    ):
        for briefs, applies in ((active, row["active"]), (beyond, row["beyond"])):
            if applies:
                briefs.setdefault(row["owner"], []).append(row["brief_id"])
    lost: dict[ConversationId, FaultRows] = {}
    if reader.schema.has("summaries"):
        for row in await reader.rows(
            """SELECT s.brief_id, s.summary_id, s.role, b.conversation_id AS owner
            FROM focus_brief_sources AS s JOIN focus_briefs AS b ON b.brief_id = s.brief_id
            JOIN conversations USING (conversation_id)
            WHERE NOT EXISTS (SELECT 1 FROM summaries AS one WHERE one.summary_id = s.summary_id)"""
        ):
            key = (row["brief_id"], row["summary_id"], row["role"])
            lost.setdefault(row["owner"], FaultRows(limits)).add("focus_brief_sources", *key)
    found: list[Hit] = []
    for owner in sorted({*active, *beyond, *lost}):
        if len(several := active.get(owner, [])) > 1:
            what = f"{len(several):,} focus briefs of conversation {owner} are active; the engine uses one."
            rows = (RowRef("focus_briefs", (brief,)) for brief in several[: limits.rows])
            found.append(hit(BROKEN, what, *rows, owner=owner))
        found += FaultRows(limits, "focus_briefs", beyond.get(owner, ())).hits(
            SUSPICIOUS, "focus brief", owner, "cover more messages than exist."
        )
        fix = FixId.DELETE_ORPHAN_LINKS
        if owner in lost:
            found += lost[owner].hits(BROKEN, "source of a focus brief", owner, "are missing.", fix)
    return found


class Shared(Record, frozen=True):
    """How much two conversations share."""

    one: ConversationState
    other: ConversationState
    count: int
    of: int  #: messages of the smaller one

    @property
    def expected(self) -> bool:
        """Whether the two have reason to share messages: forks, copies and sessions of one key do."""
        pair = (self.one, self.other)
        if any(one.has_copies or (one.checkpoint is not None and one.checkpoint.forked) for one in pair):
            return True
        key = self.one.conversation.session_key
        return key is not None and key == self.other.conversation.session_key

    def hit(self, sentence: str) -> Hit:
        """A hit about both."""
        rows = (conversation_row(self.one.id), conversation_row(self.other.id))
        return hit(BY_DESIGN if self.expected else SUSPICIOUS, sentence, *rows)


class Entries(Record, frozen=True):
    """Entries of transcripts that name more than one message."""

    #: by conversation and column, messages that claim the same entry, or the same event
    collisions: Sequence[tuple[ConversationId, str, Sequence[int]]]
    shared: Sequence[Shared]


def _entries_twice(seen: Entries, limits: Limits) -> Iterator[Hit]:
    """Within a conversation only a missing index makes it possible."""
    for owner, column, message_ids in seen.collisions:
        words = f"have one and the same {column}."
        yield from FaultRows(limits, "messages", message_ids).hits(BROKEN, "message", owner, words)
    for pair in seen.shared:
        where = f"in conversation {pair.one.id} and in {pair.other.id}"
        yield pair.hit(
            f"{counted(pair.count, 'entry')} of a transcript {agree(pair.count, 'are')} stored {where}."
        )


def _alike(seen: Sequence[Shared], limits: Limits) -> Iterator[Hit]:
    for pair in seen:
        what = (
            f"Conversations {pair.one.id} and {pair.other.id} share {pair.count:,} of "
            f"{counted(pair.of, 'message')}."
        )
        yield pair.hit(what)


# fmt: off
CHECKS: Final[tuple[Rule[State], ...]] = (
    Rule("G1", ERROR, "session active twice", "Are several conversations of one session key active?",
         why="One conversation of a session key is active. With two, the host may write to one and read the "
         "other.", needs=("conversations.session_key", "conversations.active"),
         find=_several_active(BROKEN, lambda one: one.session_key)),
    Rule("G2", WARNING, "session without key active twice",
         "Are several conversations of one session without a key active?",
         why="Without a key, one conversation of a session id is active.",
         needs=("conversations.session_key", "conversations.active"),
         find=_several_active(SUSPICIOUS, lambda one: None if one.session_key else one.session_id)),
    Rule("G3", WARNING, "archived or not", "Do the flag and the time of archiving contradict each other?",
         why="A conversation that is not active has the time of archiving, and only such a one.",
         needs=("conversations.active", "conversations.archived_at"), find=_contradicting),
    Rule("G4", ERROR, "rollover split", "Was a session split, so that the model lost what came before?",
         why="When the host starts a new transcript, the engine continues the same conversation. Where it "
         "began a new one without a reset by the user, the model has lost what came before.",
         needs=("conversations.session_key", "conversations.active"), find=_rollover_splits),
    Rule("G5", INFO, "empty conversation", "Is there a conversation without messages?",
         why="A conversation without messages is harmless; failed starts create them.", find=_empty),
    Rule("G6", INFO, "transcript gone", "Is the transcript of an active sub-agent or cron session missing?",
         why="Sub-agents and timers end and their transcripts are deleted; the conversation stays active "
         "without use.", needs=("conversation_bootstrap_state",), find=_orphan_keys),
    Rule("G7", ERROR, "frozen conversation", "Has the transcript grown past what was read of it?",
         why="The engine continues reading a transcript where it stopped. If the transcript is far longer, "
         "the engine no longer stores it.", needs=("conversation_bootstrap_state",), find=_frozen),
    Rule("G8", WARNING, "bad checkpoint", "Is the checkpoint of the transcript impossible?",
         why="The checkpoint is a place in the transcript. Beyond its end, the engine reads from the wrong "
         "place or not at all. A session in the host's database has no checkpoint.",
         needs=("conversation_bootstrap_state",), find=_bad_checkpoints),
)
NOTED: Final[tuple[ReadingRule, ...]] = (
    ReadingRule("G9", WARNING, "stuck maintenance", "Is compaction debt stuck?",
                why="Due compaction finishes or is given up. If it is marked as running for long, it blocks "
                "all other compaction.", needs=("conversation_compaction_maintenance",),
                unfixed="No automatic fix. Of a conversation that has ended, x in Y or lcm-tui engine "
                "CONVERSATION --close-debt closes it; else C or lcm-tui compact does what is due.",
                unanswered="Whether recorded token counts are stale: they include what the host adds.",
                find=_stuck),
    ReadingRule("G11", WARNING, "focus briefs",
                "Are several briefs active, or do briefs cover what does not exist?",
                why="One focus brief of a conversation is active, and what it covers is stored.",
                needs=("focus_briefs", "focus_brief_sources"),
                unanswered="Whether a brief is stale: the screen of briefs and `focus list` say it.",
                find=_briefs),
)
ENTRIES: Final[tuple[Rule[Entries], ...]] = (
    Rule("E23", WARNING, "transcript entry stored twice",
         "Is an entry of a transcript stored as several messages?",
         why="An entry of a transcript is stored as one message, in one conversation.",
         needs=("messages.transcript_entry_id",), find=_entries_twice),
)
ALIKE: Final[tuple[Rule[Sequence[Shared]], ...]] = (
    Rule("G18", INFO, "conversations alike", "Do two conversations share most of their messages?",
         why="Two conversations with the same messages are a fork, a double import, or a copy.",
         needs=("messages.identity_hash",), find=_alike),
)
# fmt: on


async def read_state(run: Run) -> None:
    """G1 to G11, then E23 and G18, which read indexes of messages."""
    state = await run.database.read(_load_state)
    if run.wants(("G6", "G7", "G8")):
        state = await asyncio.to_thread(_with_transcripts, state, run.folders)
    run.ask(CHECKS, state)
    await run.ask_reading(NOTED)
    if run.wants(("E23",)):
        collisions = await run.database.read(_load_collisions, run.conversation_id)
        run.ask(ENTRIES, Entries(collisions, await _shared_entries(run, state)))
    if run.wants(("G18",)):
        run.ask(ALIKE, await _shared_messages(run, state))


def why_not(check: Check, schema: Schema, folders: Folders) -> str:
    """Why G6 and G7, which look for transcripts, cannot be asked."""
    if check.id not in ("G6", "G7"):
        return ""
    return SESSIONS_IN_HOST_DATABASE if folders.in_host_database else folders.no_sessions


async def _load_state(reader: Reader) -> State:
    """All conversations and what is noted about them; the transcripts are not looked for."""
    messages = await _counts(reader, "messages")
    summaries = await _counts(reader, "summaries") if reader.schema.has("summaries") else {}
    checkpoints = await _checkpoints(reader)
    copies = await _with_copies(reader)
    found = []
    for conversation in await records(reader, CONVERSATIONS, "ORDER BY t.conversation_id"):
        key = conversation.conversation_id
        counts = messages.get(key, 0), summaries.get(key, 0)
        found.append(ConversationState(conversation, *counts, checkpoints.get(key), key in copies))
    return State(found, keeps_checkpoints(reader.schema), await _migrated(reader))


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
    if not keeps_checkpoints(reader.schema):
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


def _with_transcripts(state: State, folders: Folders) -> State:
    """The same state, with the sizes of the transcripts that are there. Blocks: for a thread."""
    if folders.sessions is None:
        return state
    home = folders.sessions.parent if folders.state is None else folders.state
    found = []
    for one in state.conversations:
        checkpoint = one.checkpoint
        if checkpoint is not None and checkpoint.path:
            stored = resolve_transcript(checkpoint.path, sessions=folders.sessions, state_dir=home)
            gone = stored.state is StoredFileState.MISSING
            checkpoint = replace(checkpoint, size=stored.size, gone=gone)
        found.append(replace(one, checkpoint=checkpoint))
    return replace(state, conversations=found, in_host_database=folders.in_host_database)


async def _shared_messages(run: Run, state: State) -> list[Shared]:
    """Pairs of conversations that share most messages; hashes by first digits, so that no read takes long."""
    pairs: Counter[tuple[int, int]] = Counter()
    ranges = _ranges(state)
    for step, (low, high) in enumerate(ranges, 1):
        for _, owners in await run.database.read(_owners, "identity_hash", low, high):
            pairs.update(combinations(owners, 2))
        run.progress(step + len(ranges), len(ranges) * 2)
    known = {int(one.id): one for one in state.conversations}
    found = []
    for (one, other), count in sorted(pairs.items()):
        if one in known and other in known:
            smaller = min(known[one].messages, known[other].messages)
            if count >= _MIN_SHARED and count >= smaller * _MIN_SHARE:
                found.append(Shared(known[one], known[other], min(count, smaller), smaller))
    return found


async def _shared_entries(run: Run, state: State) -> list[Shared]:
    """Pairs of conversations in which entries of one transcript name the same message."""
    entries: dict[tuple[int, int], list[str]] = {}
    ranges = _ranges(state)
    for step, (low, high) in enumerate(ranges, 1):
        for entry, owners in await run.database.read(_owners, "transcript_entry_id", low, high):
            for pair in combinations(owners, 2):
                entries.setdefault(pair, []).append(entry)
        run.progress(step, len(ranges) * 2)
    known = {int(one.id): one for one in state.conversations}
    found = []
    for pair, shared in sorted(entries.items()):
        one, other = (known.get(owner) for owner in pair)
        if len(shared) < _MIN_SHARED_ENTRIES or one is None or other is None:
            continue
        # Ids are short, so some are equal by chance: only those count that name the same text.
        count = await run.database.read(_same_texts, pair, shared)
        if count >= _MIN_SHARED_ENTRIES:
            found.append(Shared(one, other, count, min(one.messages, other.messages)))
    return found


def _ranges(state: State) -> list[tuple[str, str]]:
    """Bounds of hexadecimal texts that divide the messages into parts that are read quickly."""
    rows = sum(one.messages for one in state.conversations)
    parts = next((number for number in (1, 2, 4, 8) if rows <= number * _STEP), 16)
    return list(pairwise([*_DIGITS[:: 16 // parts], "g"]))


async def _owners(reader: Reader, column: str, low: str, high: str) -> list[tuple[str, list[int]]]:
    """The values of an indexed column that a few conversations have, with these, ascending."""
    rows = await reader.rows(
        f"""SELECT value, json_group_array(owner) AS owners FROM (
            SELECT DISTINCT m.{column} AS value, c.conversation_id AS owner
            FROM conversations AS c CROSS JOIN messages AS m ON m.conversation_id = c.conversation_id
            AND m.{column} >= ? AND m.{column} < ? WHERE typeof(c.conversation_id) = 'integer')
        GROUP BY value HAVING count(*) BETWEEN 2 AND {_MOST_OWNERS}""",
        low,
        high,
    )
    return [(str(row["value"]), sorted(json.loads(row["owners"]), key=str)) for row in rows]


async def _same_texts(reader: Reader, pair: tuple[int, int], entries: list[str]) -> int:
    """How many entries name messages with the same identity in both conversations."""
    rows = await reader.rows_in(
        """SELECT count(*) AS n FROM messages AS one JOIN messages AS other
        ON other.transcript_entry_id = one.transcript_entry_id AND other.identity_hash = one.identity_hash
        WHERE one.conversation_id = ? AND other.conversation_id = ? AND one.transcript_entry_id IN (?*)""",
        entries,
        *pair,
    )
    return sum(row["n"] for row in rows)


async def _load_collisions(
    reader: Reader, conversation_id: ConversationId | None
) -> list[tuple[ConversationId, str, Sequence[int]]]:
    """Messages of one conversation that claim the same entry of the transcript, or the same event."""
    only, keys = of_conversation("conversation_id", conversation_id)
    found: list[tuple[ConversationId, str, Sequence[int]]] = []
    for column in ("transcript_entry_id", "stable_event_key"):
        if not reader.schema.has("messages", column):
            continue
        rows = await reader.rows(
            f"""SELECT owner, json_group_array(m.message_id) AS ids FROM (
                SELECT conversation_id AS owner, {column} AS value FROM messages
                WHERE {column} IS NOT NULL AND typeof(conversation_id) = 'integer'
                AND typeof(message_id) = 'integer' AND {only} GROUP BY conversation_id, {column}
                HAVING count(*) > 1 LIMIT 1000)
            JOIN messages AS m ON m.conversation_id = owner AND m.{column} = value
            WHERE typeof(m.message_id) = 'integer' GROUP BY owner, value""",
            *keys,
        )
        found += [(row["owner"], column, sorted(json.loads(row["ids"]))) for row in rows]
    return found
