"""What a focus brief is made from and covers, and whether that is still so. Pure.

Source: docs/engine/focus.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lcm_core.records import FocusBrief, SummaryId, Timestamp
from lcm_core.times import parse_utc


@dataclass(frozen=True, slots=True)
class FocusSource:
    """A summary in a context, as a brief is made from it."""

    ordinal: int
    summary_id: SummaryId
    kind: str
    depth: int
    tokens: int
    latest_at: Timestamp | None  #: as it is stored
    created_at: Timestamp
    #: seq of the newest message that it was itself made from; None for a condensed summary
    own_last_seq: int | None


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a brief reaches: over the summaries that it is made from, and all below them."""

    latest_at: Timestamp | None  #: the greatest as text, as the engine takes it
    message_seq: int | None


NOTHING_COVERED = Watermark(None, None)


@dataclass(frozen=True, slots=True)
class FocusInput:
    """What the brief of a conversation is made from at one moment."""

    sources: tuple[FocusSource, ...]  #: the summaries of the context, in order
    watermark: Watermark

    @property
    def digest(self) -> str:
        """What ``source_context_hash`` records of it."""
        return context_hash(self.sources)

    @property
    def ids(self) -> tuple[SummaryId, ...]:
        """The summaries, in order."""
        return tuple(one.summary_id for one in self.sources)


def context_hash(sources: Iterable[FocusSource]) -> str:
    """SHA-256 over a line for each summary: ordinal, id, tokens and latest time, with NUL between them."""
    lines = (f"{one.ordinal}\0{one.summary_id}\0{one.tokens}\0{one.latest_at or ''}\n" for one in sources)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def newer_sources(brief: FocusBrief, sources: Sequence[FocusSource]) -> tuple[FocusSource, ...]:
    """The summaries that came since a brief: by messages where both know them, else by time, else all."""
    return tuple(one for one in sources if _is_newer(brief, one))


def _is_newer(brief: FocusBrief, source: FocusSource) -> bool:
    if brief.covered_message_seq is not None and source.own_last_seq is not None:
        return source.own_last_seq > brief.covered_message_seq
    reach = source.latest_at or source.created_at
    limit = brief.covered_latest_at
    if not reach or not limit:
        return True
    then, until = parse_utc(reach), parse_utc(limit)
    return reach > limit if then is None or until is None else then > until


class StaleReason(StrEnum):
    """Why a brief says less than the conversation holds by now."""

    CONTEXT = "the summaries it was made from are no longer those of the context"
    MESSAGES = "newer messages"
    SUMMARIES = "newer summaries"


@dataclass(frozen=True, slots=True)
class BriefState:
    """What came since a brief was written, as the engine reports it; it never decides what is sent."""

    messages: int  #: behind the newest message that it covers; 0 where that is not known
    summaries: int  #: newer than what it covers
    tokens: int | None  #: of both; None: not asked for
    context_changed: bool  #: its hash is that of another context
    truncated: bool  #: whoever wrote it said that something was left out

    @property
    def reasons(self) -> tuple[StaleReason, ...]:
        """Why it is stale; empty: it is not."""
        known = (
            (StaleReason.CONTEXT, self.context_changed),
            (StaleReason.MESSAGES, self.messages > 0),
            (StaleReason.SUMMARIES, self.summaries > 0),
        )
        return tuple(reason for reason, holds in known if holds)

    @property
    def stale(self) -> bool:
        """Whether something came since."""
        return bool(self.reasons)

    @property
    def outdated(self) -> bool:
        """Whether another brief would say more: newer messages alone are sent as they are, whatever it says.

        Ours; the engine has `stale` (docs/focus.md, "Stale").
        """
        return self.context_changed or self.summaries > 0 or (self.truncated and self.stale)


def hash_differs(recorded: str, present: str) -> bool:
    """Whether a brief was made from another context; an empty hash says nothing."""
    return bool(recorded and present) and recorded != present
