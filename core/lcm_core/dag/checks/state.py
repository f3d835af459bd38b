"""Family G: conversations beside each other, and what the engine notes about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.dag.checks.facts import Limits, Tally, counted, days_of, found, told
from lcm_core.findings import Confidence, Finding, FixId, RowRef
from lcm_core.records import Conversation, ConversationId
from lcm_core.times import parse_utc

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: An archived conversation with so many messages, or with a summary, is worth keeping.
_RICH: Final = 20
_DAY: Final = 1.0
_HOUR: Final = 1 / 24
_MOST_RETRIES: Final = 3
#: Causes that somebody or something meant (docs/engine/doctor.md, "Rollover splits"); a rollover is none.
_MEANT: Final = frozenset({"session-deleted", "cron-rotation"})
_RESET: Final = "manual-reset"
_ROLLOVER: Final = "rollover-fallback"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a transcript was read. Source: table ``conversation_bootstrap_state``."""

    path: str
    seen: int  #: bytes of the transcript
    offset: int  #: bytes that were processed
    forked: bool
    size: int | None = None  #: bytes of the transcript on this machine; None when it was not looked for
    gone: bool = False  #: looked for and not found


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Compaction debt. Source: table ``conversation_compaction_maintenance``; times in days."""

    pending: bool
    running: bool
    started: float | None
    retries: int


@dataclass(frozen=True, slots=True)
class Briefs:
    """The focus briefs of a conversation."""

    active: tuple[str, ...]
    covering_too_much: tuple[str, ...]  #: briefs whose covered seq is beyond the last message
    dangling: tuple[tuple[str, str, str], ...]  #: keys of sources whose brief or summary is gone


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A conversation and what is noted about it."""

    conversation: Conversation
    messages: int
    summaries: int
    checkpoint: Checkpoint | None
    maintenance: Maintenance | None
    telemetry_negative: bool
    telemetry_future: bool
    briefs: Briefs | None
    has_copies: bool = False  #: it holds messages with a seq below 0, where a transplant puts them

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id


@dataclass(frozen=True, slots=True)
class Likeness:
    """Messages that two conversations share."""

    one: ConversationId
    other: ConversationId
    shared: int
    of: int  #: messages of the smaller one


@dataclass(frozen=True, slots=True)
class State:
    """All conversations and what is noted about them."""

    conversations: Sequence[ConversationState]
    records_cause: bool  #: whether this version records why a conversation was archived
    records_checkpoints: bool
    migrated: float | None = None  #: when an engine that notes it first migrated the file, in days


StateRule = Callable[[State, Limits], Iterable[Finding]]


def conversation_row(conversation_id: int) -> RowRef:
    """A row of ``conversations``."""
    return RowRef("conversations", (conversation_id,))


def _several_active(
    check: str, confidence: Confidence, key: Callable[[Conversation], str | None]
) -> StateRule:
    def rule(state: State, limits: Limits) -> Iterator[Finding]:
        groups: dict[str, list[ConversationId]] = {}
        for one in state.conversations:
            name = key(one.conversation)
            if name is not None and one.conversation.active:
                groups.setdefault(name, []).append(one.id)
        for ids in groups.values():
            if len(ids) > 1:
                yield found(
                    check,
                    confidence,
                    None,
                    [conversation_row(one) for one in ids[: limits.rows]],
                    f"Conversations {', '.join(map(str, ids[:10]))} belong to one session and are all "
                    "active: the "
                    "host may write to either.",
                )

    return rule


def _contradicting(state: State, limits: Limits) -> Iterator[Finding]:
    for one in state.conversations:
        conversation = one.conversation
        if conversation.active is None or conversation.active != bool(conversation.archived_at):
            continue
        what = (
            "is active but has a time of archiving" if conversation.active else "is archived without a time"
        )
        yield found("G3", _SUSPICIOUS, one.id, [conversation_row(one.id)], f"Conversation {one.id} {what}.")


def _rollover_splits(state: State, limits: Limits) -> Iterator[Finding]:
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
        confidence = _SUSPICIOUS
        if causes <= _MEANT:
            confidence = _BY_DESIGN
        elif _ROLLOVER in causes:
            confidence = _BROKEN
        why = {_BROKEN: "by a rollover", _BY_DESIGN: "on purpose"}.get(confidence, "and why is not recorded")
        yield found(
            "G4",
            confidence,
            active[0].id,
            [conversation_row(one.id) for one in (*lost[: limits.rows], active[0])],
            f"The session of conversation {active[0].id} was split from {counted(len(lost), 'older one')} "
            f"({', '.join(str(one.id) for one in lost[:5])}) {why}: the model knows nothing of "
            f"{counted(sum(one.messages for one in lost), 'message')}.",
            None if confidence is _BY_DESIGN else FixId.MERGE_SPLIT,
        )


def _empty(state: State, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for one in state.conversations:
        if not one.messages:
            rows.add("conversations", one.id)
    if rows:
        yield rows.finding(
            "G5",
            _BY_DESIGN,
            _only(rows),
            told(rows.count, "conversation", None, "have not a single message."),
        )


def _only(rows: Tally) -> ConversationId | None:
    """The conversation of a finding about one row."""
    key = rows.rows[0].key[0]
    return ConversationId(key) if rows.count == 1 and isinstance(key, int) else None


def _orphan_keys(state: State, limits: Limits) -> Iterator[Finding]:
    rows = Tally(limits)
    for one in state.conversations:
        lane = one.conversation.lane if one.conversation.session_key else ""
        if (
            one.conversation.active
            and lane.startswith(("subagent:", "cron:"))
            and one.checkpoint
            and one.checkpoint.gone
        ):
            rows.add("conversations", one.id)
    if rows:
        yield rows.finding(
            "G6",
            _BY_DESIGN,
            _only(rows),
            told(
                rows.count,
                "sub-agent or cron conversation",
                None,
                "are active although the transcript is gone.",
            ),
        )


def _frozen(state: State, limits: Limits) -> Iterator[Finding]:
    for one in state.conversations:
        checkpoint = one.checkpoint
        if checkpoint is None or checkpoint.size is None or one.conversation.active is False:
            continue
        if checkpoint.size > checkpoint.offset:
            yield found(
                "G7",
                _SUSPICIOUS,
                one.id,
                [RowRef("conversation_bootstrap_state", (one.id,))],
                f"The transcript of conversation {one.id} is {checkpoint.size - checkpoint.offset:,} bytes "
                "longer than "
                "what was read of it: a turn that is running, or the conversation is frozen.",
            )


def _bad_checkpoints(state: State, limits: Limits) -> Iterator[Finding]:
    placeholders, lacking, before, gone = (Tally(limits) for _ in range(4))
    for one in state.conversations:
        checkpoint = one.checkpoint
        row = RowRef("conversation_bootstrap_state", (one.id,))
        if checkpoint is None:
            if one.conversation.bootstrapped_at and state.records_checkpoints and one.messages:
                imported = parse_utc(one.conversation.bootstrapped_at)
                early = imported is not None and days_of(imported) < (state.migrated or 0.0)
                (before if early else lacking).add("conversations", one.id)
            continue
        if checkpoint.gone:
            gone.add(row.table, one.id)
        if checkpoint.seen == checkpoint.offset == 0:
            placeholders.add(row.table, one.id)
        elif checkpoint.offset > checkpoint.seen or checkpoint.offset < 0:
            what = "was processed further than it was ever long"
            yield found("G8", _BROKEN, one.id, [row], f"The transcript of conversation {one.id} {what}.")
        elif checkpoint.size is not None and checkpoint.size < checkpoint.offset:
            what = "is shorter than what was read of it: it was replaced or rotated"
            yield found("G8", _SUSPICIOUS, one.id, [row], f"The transcript of conversation {one.id} {what}.")
    for rows, confidence, words in (
        (lacking, _SUSPICIOUS, "were imported without a checkpoint"),
        (before, _BY_DESIGN, "were imported before the file kept checkpoints"),
        (placeholders, _BY_DESIGN, "have a checkpoint that only keeps the place"),
        (gone, _BY_DESIGN, "have a transcript that is no longer there"),
    ):
        if rows:
            sentence = told(rows.count, "conversation", None, f"{words}.")
            yield rows.finding("G8", confidence, _only(rows), sentence)


def _stuck(state: State, limits: Limits) -> Iterator[Finding]:
    for one in state.conversations:
        debt = one.maintenance
        if debt is None:
            continue
        reasons = []
        if debt.running and (debt.started or 0.0) < limits.today - _HOUR:
            reasons.append("has been running for more than an hour")
        if debt.pending and debt.retries >= _MOST_RETRIES:
            reasons.append(f"failed {debt.retries:,} times")
        if debt.pending and one.conversation.active is False:
            reasons.append("waits although the conversation is archived")
        if reasons:
            yield found(
                "G9",
                _SUSPICIOUS,
                one.id,
                [RowRef("conversation_compaction_maintenance", (one.id,))],
                f"The compaction debt of conversation {one.id} {' and '.join(reasons)}.",
            )


def _impossible_telemetry(state: State, limits: Limits) -> Iterator[Finding]:
    for one in state.conversations:
        if one.telemetry_negative or one.telemetry_future:
            yield found(
                "G10",
                _BROKEN if one.telemetry_negative else _SUSPICIOUS,
                one.id,
                [RowRef("conversation_compaction_telemetry", (one.id,))],
                f"The telemetry of conversation {one.id} holds "
                + (
                    "values below zero." if one.telemetry_negative else "times more than a day in the future."
                ),
            )


def _briefs(state: State, limits: Limits) -> Iterator[Finding]:
    for one in state.conversations:
        briefs = one.briefs
        if briefs is None:
            continue
        if len(briefs.active) > 1:
            yield found(
                "G11",
                _BROKEN,
                one.id,
                [RowRef("focus_briefs", (brief,)) for brief in briefs.active[: limits.rows]],
                f"{len(briefs.active):,} focus briefs of conversation {one.id} are active; the engine uses "
                "one.",
            )
        if briefs.covering_too_much:
            yield found(
                "G11",
                _SUSPICIOUS,
                one.id,
                [RowRef("focus_briefs", (brief,)) for brief in briefs.covering_too_much[: limits.rows]],
                told(
                    len(briefs.covering_too_much),
                    "focus brief",
                    one.id,
                    "cover more messages than there are.",
                ),
            )
        if briefs.dangling:
            rows = Tally(limits)
            for key in briefs.dangling:
                rows.add("focus_brief_sources", *key)
            yield rows.finding(
                "G11",
                _BROKEN,
                one.id,
                told(rows.count, "source of a focus brief", one.id, "are gone."),
                FixId.DELETE_ORPHAN_LINKS,
            )


def alike(likenesses: Iterable[Likeness], state: State) -> Iterator[Finding]:
    """G18: conversations that share most messages; forks, copies and sessions of one key do by design."""
    known = {one.id: one for one in state.conversations}
    for pair in likenesses:
        one, other = known.get(pair.one), known.get(pair.other)
        if one is None or other is None:
            continue
        yield found(
            "G18",
            _BY_DESIGN if related(one, other) else _SUSPICIOUS,
            None,
            [conversation_row(pair.one), conversation_row(pair.other)],
            f"Conversations {pair.one} and {pair.other} share {pair.shared:,} of {pair.of:,} messages.",
        )


def related(one: ConversationState, other: ConversationState) -> bool:
    """Whether two conversations have reason to share messages."""
    if any(state.checkpoint is not None and state.checkpoint.forked for state in (one, other)):
        return True
    if one.has_copies or other.has_copies:
        return True
    return (
        one.conversation.session_key is not None
        and one.conversation.session_key == other.conversation.session_key
    )


RULES: Final[Mapping[str, StateRule]] = {
    "G1": _several_active("G1", _BROKEN, lambda one: one.session_key),
    "G2": _several_active("G2", _SUSPICIOUS, lambda one: None if one.session_key else one.session_id),
    "G3": _contradicting,
    "G4": _rollover_splits,
    "G5": _empty,
    "G6": _orphan_keys,
    "G7": _frozen,
    "G8": _bad_checkpoints,
    "G9": _stuck,
    "G10": _impossible_telemetry,
    "G11": _briefs,
}
