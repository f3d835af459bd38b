"""Make one conversation again of a session that a rollover split (docs/spec/doctor.md, "Rollover splits").

When the host's session rolled over, the engine archived the conversation and began a new one that knows
nothing of it. What was archived on purpose (a reset, a deleted session, a cron run) is never
merged, nor is anything from before it. Where the cause is not recorded, the operator must say it.

Messages are numbered from 1 over the merged set, context items from 0; summaries, files and focus briefs
move too; what the engine notes about an older conversation is deleted, and compaction of the merged one is
requested.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain, pairwise
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ConversationId, MessageId
from lcm_core.base.text import counted, phrase
from lcm_core.base.times import iso_z, parse_utc, sql_utc
from lcm_core.base.values import Record
from lcm_core.change.place import moves_from_zero, splice_at
from lcm_core.change.plan import (
    KEYS,
    Cells,
    Edit,
    Plan,
    RowChange,
    deletion,
    fault_key,
    insertion,
    ref_of,
    renumbering,
)
from lcm_core.operations.rows import in_context_order, listing_of, over_budget, update
from lcm_core.store import context as context_store
from lcm_core.store.conversations import SessionMember, get_conversation, records_archiving, shared_sessions
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_brief
from lcm_core.store.opening import SqlValue
from lcm_core.store.ownership import (
    UNIQUE_COLUMNS,
    UNIQUE_ENTRIES,
    entries_noted,
    message_seqs,
    unique_values,
)
from lcm_core.store.rows import owned_keys, owning_tables, rows_by
from lcm_core.store.state import CURSORS, MAINTENANCE

#: Why a conversation is archived by a rollover (docs/spec/format.md, "conversations").
ROLLOVER: Final = "rollover-fallback"
#: Causes that are a decision.
MEANT: Final = frozenset({"manual-reset", "session-deleted", "cron-rotation"})


class Certainty(StrEnum):
    """Whether a split may be merged; the value is the word to show."""

    SAFE = "safe"  #: a rollover, as recorded
    UNSURE = "unsure"  #: why it was archived is not recorded, or says nothing of a rollover
    NEVER = "never"  #: it cannot be merged


class SplitSession(Record, frozen=True):
    """A session with an active conversation and older ones with something in them."""

    session_key: str
    active: SessionMember
    older: tuple[SessionMember, ...]  #: what would come before it, oldest first
    certainty: Certainty
    reason: str  #: one sentence


async def split_sessions(reader: Reader) -> list[SplitSession]:
    """The sessions that seem to be split, whether they may be merged or not; none that was meant to be so."""
    found = (_judged(key, members) for key, members in (await shared_sessions(reader)).items())
    return [one for one in found if one is not None]


async def plan_merge(
    reader: Reader,
    conversations: Sequence[ConversationId],
    *,
    assume_rollover: bool = False,
    budget: int | None = None,
    now: datetime | None = None,
) -> Plan:
    """Merge the sessions of some conversations, each named by any of its conversations.

    *assume_rollover* is the operator's word that no reset split them where no cause is recorded. A *budget*
    (tokens) adds a warning when a context would exceed it. The older conversations' rows stay, empty.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: its session is not split, was split on purpose, or the cause is not known.
    """
    if not conversations:
        raise RefusedError("Nothing to merge: name a conversation.")
    for conversation_id in conversations:
        await get_conversation(reader, conversation_id)
    if not records_archiving(reader):
        raise RefusedError(
            "This database was written by an engine before 0.6, which archives no conversation: no session "
            "in it is split."
        )
    splits = await split_sessions(reader)
    chosen: dict[str, SplitSession] = {}
    for conversation_id in conversations:
        split = _split_of(conversation_id, splits)
        _check(split, assume_rollover)
        chosen[split.session_key] = split
    edits, allows, warnings = [], set[str](), []
    for split in chosen.values():
        merging = await _MergeEdits.begin(
            reader, [one.id for one in split.older], split.active.id, now or datetime.now(UTC)
        )
        edits += await merging.edits(reader)
        allows |= merging.allows()
        warnings += [*_unsure(split), *merging.warnings(), *await _cursors(reader, split)]
        warnings += await _seen(reader, split, budget)
    first = next(iter(chosen.values()))
    return Plan(
        kind="merge",
        title="; ".join(_title(split) for split in chosen.values()),
        conversation_id=first.active.id if len(chosen) == 1 else None,
        edits=tuple(edits),
        warnings=tuple(warnings),
        allows=frozenset(allows),
    )


def _title(split: SplitSession) -> str:
    older = ", ".join(str(one.id) for one in split.older)
    messages = counted(sum(one.messages for one in split.older), "message")
    summaries = counted(sum(one.summaries for one in split.older), "summary")
    return (
        f"Merge conversation {older} into {split.active.id}, of one session: {messages} and {summaries} "
        "are placed before its own"
    )


# -- judging ---------------------------------------------------------------------------------------------


def _judged(session_key: str, members: Sequence[SessionMember]) -> SplitSession | None:
    """What to make of one session; None: it was parted on purpose, or nothing is lost."""
    active = [one for one in members if one.conversation.active]
    if not active:
        return None
    newest = active[-1]
    older: list[SessionMember] = []
    for one in members:
        if one.conversation.active or one.id > newest.id:
            continue
        if one.conversation.archive_cause in MEANT:
            older.clear()  # what came before was meant to be forgotten with it
        elif not one.empty:
            older.append(one)
    if not older:
        return None
    certainty, reason = _certainty(active, older)
    return SplitSession(session_key, newest, tuple(older), certainty, reason)


def _certainty(active: Sequence[SessionMember], older: Sequence[SessionMember]) -> tuple[Certainty, str]:
    if len(active) > 1:
        ids = " and ".join(str(one.id) for one in active)
        return Certainty.NEVER, f"Conversations {ids} of this session are both active."
    for one, following in pairwise([*older, active[0]]):
        ended, began = parse_utc(one.last_at), parse_utc(following.first_at)
        if ended is not None and began is not None and began < ended:
            return Certainty.NEVER, (
                f"Conversation {following.id} began before {one.id} ended: they do not follow each other."
            )
    causes = {one.conversation.archive_cause for one in older}
    if causes == {ROLLOVER}:
        return Certainty.SAFE, "The session was split by a rollover."
    if causes == {None}:
        return Certainty.UNSURE, "Why the session was split is not recorded; it may have been reset."
    other = ", ".join(sorted(str(cause) for cause in causes - {ROLLOVER, None})) or "not recorded"
    return Certainty.UNSURE, f"The cause of the split may not be a rollover ({other})."


def _split_of(conversation_id: ConversationId, splits: Sequence[SplitSession]) -> SplitSession:
    for split in splits:
        if conversation_id in {split.active.id, *(one.id for one in split.older)}:
            return split
    raise RefusedError(
        f"Conversation {conversation_id} is not part of a split session: it has no older non-empty "
        "conversation, or it was reset or ended on purpose, and such a session is never merged."
    )


def _check(split: SplitSession, assume_rollover: bool) -> None:
    if split.certainty is Certainty.NEVER:
        raise RefusedError(f"Session {split.session_key} cannot be merged. {split.reason}")
    if split.certainty is Certainty.UNSURE and not assume_rollover:
        older = ", ".join(str(one.id) for one in split.older)
        raise RefusedError(
            f"Session {split.session_key} is not merged. {split.reason} If you know that it was not reset "
            f"after conversation {older}, use --force, or 1 in the app."
        )


# -- warnings --------------------------------------------------------------------------------------------


def _unsure(split: SplitSession) -> list[str]:
    if split.certainty is Certainty.SAFE:
        return []
    return [
        f"You assumed that a rollover split conversation {split.active.id} from the older ones: "
        "no cause is recorded"
    ]


async def _cursors(reader: Reader, split: SplitSession) -> list[str]:
    """How far the engine has read the transcripts of the older conversations is lost with them."""
    older = await rows_by(reader, CURSORS, "conversation_id", [one.id for one in split.older])
    if not older:
        return []
    words = f"go with the older conversation; conversation {split.active.id} keeps its own place"
    return [phrase(len(older), "transcript cursor", None, words)]


async def _seen(reader: Reader, split: SplitSession, budget: int | None) -> list[str]:
    """What of the merged context the model would not see."""
    brief = await active_brief(reader, split.active.id)
    found = []
    if brief is not None:
        found.append(
            f"Focus brief {brief.brief_id} of conversation {split.active.id} hides everything before its own "
            "summaries until you remove it (/lossless unfocus)"
        )
    items = [await context_store.context_items(reader, one.id) for one in (*split.older, split.active)]
    refs = [ref for one in items for ref in one.refs]
    return found + await over_budget(reader, refs, budget, more=" until it has compacted")


# -- the edits ------------------------------------------------------------------------------------------


#: What the engine's own repair notes as the reason of the compaction that it asks for.
REASON: Final = "doctor-rollover-split-repair"
#: Dealt with by name; for all other tables with a conversation_id their key decides.
_NAMED: Final = ("context_items", "conversations", "focus_briefs", "messages")

_Numbers = Sequence[tuple[MessageId, int]]


class _MergeEdits(Record, frozen=True):
    """What is merged, and the numbers that messages get."""

    older: tuple[ConversationId, ...]
    target: ConversationId
    now: datetime
    numbers: Mapping[ConversationId, _Numbers]  #: messages and their present seq
    offsets: Mapping[ConversationId, int]  #: messages before those of a conversation
    losing: Mapping[MessageId, Mapping[str, str]]  #: values that a newer message claims, by column
    contexts: Mapping[ConversationId, Sequence[Cells]]  #: rows by ordinal

    @classmethod
    async def begin(
        cls, reader: Reader, older: Iterable[ConversationId], target: ConversationId, now: datetime
    ) -> _MergeEdits:
        """Read ids and numbers; no texts."""
        ids = (*older, target)
        numbers = {one: await message_seqs(reader, one) for one in ids}
        offsets, before = {}, 0
        for one in ids:
            offsets[one], before = before, before + len(numbers[one])
        losing = await _losing(reader, ids)
        contexts = {
            one: in_context_order(await rows_by(reader, "context_items", "conversation_id", [one]))
            for one in ids
        }
        return cls(ids[:-1], target, now, numbers, offsets, losing, contexts)

    async def edits(self, reader: Reader) -> list[Edit]:
        """Every row that changes; what leaves a place comes before what takes it."""
        found: list[Edit] = await asyncio.to_thread(list, chain(self._own_messages(), self._other_messages()))
        for table in owning_tables(reader):
            if table not in _NAMED:
                found += await self._rows_of(reader, table)
        found += await self._briefs(reader)
        found += await self._maintenance(reader)
        return found + await asyncio.to_thread(list, self._context_edits())

    # -- messages ----------------------------------------------------------------------------------------

    def _new_numbers(self, owner: ConversationId) -> Iterator[tuple[MessageId, int, int]]:
        for place, (message, seq) in enumerate(self.numbers[owner], self.offsets[owner] + 1):
            yield message, seq, place

    def _own_messages(self) -> Iterator[Edit]:
        """The target's: those that move down from below, then those that move up from above."""
        moves = [move for move in self._new_numbers(self.target) if move[1] != move[2]]
        down = [move for move in moves if move[2] < move[1]]
        for message, seq, new in (*down, *reversed([move for move in moves if move[2] > move[1]])):
            yield _update("messages", message, {"seq": seq}, {"seq": new})

    def _other_messages(self) -> Iterator[Edit]:
        for owner in self.older:
            for message, seq, new in self._new_numbers(owner):
                lost = self.losing.get(message, {})
                yield _update(
                    "messages",
                    message,
                    {"conversation_id": owner, "seq": seq, **lost},
                    {"conversation_id": self.target, "seq": new, **dict.fromkeys(lost)},
                )

    # -- rows that belong to a conversation --------------------------------------------------------------

    async def _rows_of(self, reader: Reader, table: str) -> list[Edit]:
        """A note about a conversation is deleted with it; any other row moves to the target."""
        if table in UNIQUE_ENTRIES:
            return await self._entries_of(reader, table)
        key = KEYS.get(table, ())
        moved = {"conversation_id": self.target}
        found: list[Edit] = []
        for owner in self.older:
            here = {"conversation_id": owner}
            if len(key) == 1 and key != ("conversation_id",):
                keys = await owned_keys(reader, table, key[0], owner)
                found += (_update(table, one, here, moved) for one in keys)
                continue
            for row in map(Cells.of, await rows_by(reader, table, "conversation_id", [owner])):
                if key:
                    found.append(deletion(table, row))
                else:
                    found.append(RowChange(table, row, Cells.of(here), Cells.of(moved)))
        return found

    async def _entries_of(self, reader: Reader, table: str) -> list[Edit]:
        """What is noted of entries moves with them; what a newer conversation has noted too stays."""
        known = set(await entries_noted(reader, self.target, table))
        found: list[Edit] = []
        for owner in reversed(self.older):
            rows = await entries_noted(reader, owner, table)
            for entries, row in rows.items():
                moved = update(table, row, {"conversation_id": self.target})
                found.append(deletion(table, Cells.of(row)) if entries in known else moved)
            known.update(rows)
        return found

    async def _briefs(self, reader: Reader) -> list[Edit]:
        """Focus briefs cover the same messages by their new numbers; the newest active one stays active."""
        found: list[Edit] = []
        active = False
        stamp = sql_utc(self.now)
        for owner in (self.target, *reversed(self.older)):
            rows = await rows_by(reader, "focus_briefs", "conversation_id", [owner])
            for row in reversed(rows):
                after: dict[str, SqlValue] = {"conversation_id": self.target}
                covered = row.get("covered_message_seq")
                if isinstance(covered, int):
                    after["covered_message_seq"] = self._number_of(owner, covered)
                if row["status"] == "active" and active:
                    after |= {"status": "superseded", "superseded_at": stamp}
                active = active or row["status"] == "active"
                changed = update("focus_briefs", row, after)
                if changed.row.columns:
                    found.append(changed)
        return found

    def _number_of(self, owner: ConversationId, seq: int) -> int:
        """The new number of a conversation's last message up to *seq*."""
        return self.offsets[owner] + bisect_right(self.numbers[owner], seq, key=lambda one: one[1])

    async def _maintenance(self, reader: Reader) -> list[Edit]:
        """Ask the engine to compact what has become one."""
        if not reader.schema.has(MAINTENANCE):
            return []
        columns = reader.schema.tables[MAINTENANCE]
        asked: dict[str, SqlValue] = {
            "pending": 1,
            "requested_at": iso_z(self.now),
            "reason": REASON,
            "updated_at": sql_utc(self.now),
        }
        asked = {name: value for name, value in asked.items() if name in columns}
        rows = await rows_by(reader, MAINTENANCE, "conversation_id", [self.target])
        if not rows:
            zeros = {"running": 0, "retry_attempts": 0, "maintenance_revision": 0}
            row = {**dict.fromkeys(columns), **{n: v for n, v in zeros.items() if n in columns}, **asked}
            return [insertion(MAINTENANCE, Cells.of({**row, "conversation_id": self.target}))]
        return [update(MAINTENANCE, rows[0], asked)]

    # -- contexts ----------------------------------------------------------------------------------------

    def _context_edits(self) -> Iterator[Edit]:
        coming: list[Cells] = []
        for owner in self.older:
            rows = self.contexts[owner]
            if rows:
                yield splice_at(listing_of(rows), owner, 0, rows, [])
                coming += (row.but(conversation_id=self.target) for row in rows)
        listing = listing_of(self.contexts[self.target])
        if coming:
            yield splice_at(listing, self.target, 0, [], coming)
        moves = tuple(moves_from_zero(listing))
        if moves:
            yield renumbering(self.target, moves)

    def allows(self) -> frozenset[str]:
        """What looks lost from an older context is in the merged one."""
        return frozenset(
            fault_key("B13" if isinstance(ref, str) else "A11", owner, ref)
            for owner in self.older
            for row in self.contexts[owner]
            if isinstance(ref := ref_of(row), int | str)
        )

    def warnings(self) -> Iterator[str]:
        """What becomes of more than its place."""
        own = sum(seq != new for _, seq, new in self._new_numbers(self.target))
        if own:
            words = "get a new number (seq); the host may be running: best when the session is idle"
            yield phrase(own, "message", self.target, words)
        for column in UNIQUE_COLUMNS:
            count = sum(column in lost for lost in self.losing.values())
            if count:
                yield phrase(
                    count, "older message", None, f"lose the {column}, because a newer one has the same"
                )


async def _losing(reader: Reader, ids: Sequence[ConversationId]) -> dict[MessageId, dict[str, str]]:
    """Values that must be unique in a conversation and would not be: the newer message keeps its own."""
    found: dict[MessageId, dict[str, str]] = {}
    for column in UNIQUE_COLUMNS:
        claimed: set[str] = set()
        for owner in reversed(ids):
            held = await unique_values(reader, owner, column)
            for message, value in held:
                if value in claimed:
                    found.setdefault(message, {})[column] = value
            claimed.update(value for _, value in held)
    return found


def _update(
    table: str, key: SqlValue, before: Mapping[str, SqlValue], after: Mapping[str, SqlValue]
) -> RowChange:
    return RowChange(table, Cells.of({KEYS[table][0]: key}), Cells.of(before), Cells.of(after))
