"""Make one conversation again of a session that a rollover split (docs/engine/doctor.md, "Rollover splits").

When the host's session rolled over, the engine archived the conversation and began a new one that knows
nothing of it. What was archived because somebody meant it (a reset, a deleted session, a cron run) is never
merged, nor is anything from before it. Where the cause is not recorded nobody can tell, so the operator must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from lcm_core.change.plan import Plan
from lcm_core.errors import RefusedError
from lcm_core.operations.merging import Merging
from lcm_core.records import ConversationId
from lcm_core.store import context as context_store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.families import Member, families, records_archiving
from lcm_core.store.occupied import active_briefs
from lcm_core.times import parse_utc
from lcm_core.wording import counted

#: Why a conversation is archived by a rollover (docs/format.md, "conversations").
ROLLOVER: Final = "rollover-fallback"
#: Causes that somebody meant.
MEANT: Final = frozenset({"manual-reset", "session-deleted", "cron-rotation"})


class Certainty(StrEnum):
    """Whether a split may be merged; the value is the word to show."""

    SAFE = "safe"  #: a rollover, as recorded
    UNSURE = "unsure"  #: why it was archived is not recorded, or says nothing of a rollover
    NEVER = "never"  #: it cannot be merged


@dataclass(frozen=True, slots=True)
class SplitSession:
    """A session with an active conversation and older ones with something in them."""

    session_key: str
    active: Member
    older: tuple[Member, ...]  #: what would come before it, oldest first
    certainty: Certainty
    reason: str  #: one sentence


async def split_sessions(reader: Reader) -> list[SplitSession]:
    """The sessions that seem to be split, whether they may be merged or not; none that was meant to be so."""
    found = (_judged(key, members) for key, members in (await families(reader)).items())
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
        RefusedError: its session is not split, was split on purpose, or nobody can tell.
    """
    if not conversations:
        raise RefusedError("There is nothing to merge: name a conversation.")
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
        merging = await Merging.begin(
            reader, [one.id for one in split.older], split.active.id, now or datetime.now(UTC)
        )
        edits += await merging.edits(reader)
        allows |= merging.allows()
        warnings += [*_unsure(split), *merging.warnings(), *await _seen(reader, split, budget)]
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
        f"Merge conversation {older} into {split.active.id}, of one session: {messages} and {summaries} come "
        "before its own"
    )


# -- judging ---------------------------------------------------------------------------------------------


def _judged(session_key: str, members: Sequence[Member]) -> SplitSession | None:
    """What to make of one session; None: it was parted on purpose, or nothing is lost."""
    active = [one for one in members if one.conversation.active]
    if not active:
        return None
    newest = active[-1]
    older: list[Member] = []
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


def _certainty(active: Sequence[Member], older: Sequence[Member]) -> tuple[Certainty, str]:
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
    return Certainty.UNSURE, f"The cause of the split is no rollover for certain ({other})."


def _split_of(conversation_id: ConversationId, splits: Sequence[SplitSession]) -> SplitSession:
    for split in splits:
        if conversation_id in {split.active.id, *(one.id for one in split.older)}:
            return split
    raise RefusedError(
        f"Conversation {conversation_id} is no part of a split session: it has no older conversation with "
        "anything in it, or the session was reset or ended on purpose, which is never merged."
    )


def _check(split: SplitSession, assume_rollover: bool) -> None:
    if split.certainty is Certainty.NEVER:
        raise RefusedError(f"Session {split.session_key} cannot be merged. {split.reason}")
    if split.certainty is Certainty.UNSURE and not assume_rollover:
        older = ", ".join(str(one.id) for one in split.older)
        raise RefusedError(
            f"Session {split.session_key} is not merged. {split.reason} When you know that nobody reset it "
            f"after conversation {older}, say so: --assume-rollover, or 1 in the app."
        )


# -- warnings --------------------------------------------------------------------------------------------


def _unsure(split: SplitSession) -> list[str]:
    if split.certainty is Certainty.SAFE:
        return []
    return [f"That a rollover split conversation {split.active.id} from the older ones is your word"]


async def _seen(reader: Reader, split: SplitSession, budget: int | None) -> list[str]:
    """What of the merged context the model would not see."""
    found = [
        f"Focus brief {brief} stands over the context of conversation {split.active.id} and hides what comes "
        "before its own summaries until it is taken away (/lossless unfocus)"
        for brief in (await active_briefs(reader, split.active.id))[:1]
    ]
    total = 0
    for member in (*split.older, split.active):
        items = await context_store.context_items(reader, member.id)
        total += await context_store.tokens_of(reader, items.refs)
    if budget is not None and total > budget:
        found.append(
            f"The context would hold {total:,} tokens and exceed the budget of {budget:,}: the engine would "
            "leave the oldest items out until it has compacted"
        )
    return found
