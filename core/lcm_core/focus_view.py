"""The focus briefs of a conversation as they are shown: what each replaces, and whether it is stale.

Source: docs/engine/focus.md; docs/engine/assembly.md, "What is sent".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

from lcm_core.assemble.elements import FocusOverlay, SummaryReach, covered_by, overlay
from lcm_core.dag.focus import BriefState, FocusSource
from lcm_core.javascript import BLANKS
from lcm_core.records import ConversationId, FocusBrief, SummaryId
from lcm_core.store.briefs import active_in, context_reaches, list_briefs, read_reaches
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Reader
from lcm_core.store.focus import context_sources, read_role_counts, read_sources, read_states
from lcm_core.store.schema import Schema
from lcm_core.wording import counted


@dataclass(frozen=True, slots=True)
class FocusEffect:
    """What a brief does to a context: the summaries that are not sent, and what is sent for them."""

    covered: tuple[SummaryId, ...]  #: in the order of the context
    covered_tokens: int
    brief_tokens: int
    left: int  #: summaries of the context that it does not cover

    @property
    def saved(self) -> int:
        """Tokens; below 0 the brief is larger than what it replaces. 0 when it covers nothing."""
        return self.covered_tokens - self.brief_tokens if self.covered else 0

    @property
    def words(self) -> str:
        """The same as part of a sentence."""
        if not self.covered:
            return "no summary of the context is covered, so nothing is replaced"
        what = f"{counted(len(self.covered), 'summary')} ({self.covered_tokens:,} tokens)"
        saved = f"{self.saved:,} saved" if self.saved >= 0 else f"{-self.saved:,} more"
        return f"{self.brief_tokens:,} tokens replace {what}: {saved}"


@dataclass(frozen=True, slots=True)
class BriefEntry:
    """A brief with what is around it."""

    brief: FocusBrief
    is_active: bool  #: it is the one that the engine uses
    state: BriefState
    effect: FocusEffect  #: on the context as it is now; of one that is not active, what it would do
    roles: Mapping[str, int]  #: how many summaries are recorded as its sources, by role

    @property
    def why_stale(self) -> tuple[str, ...]:
        """What came since, in words; empty: nothing did."""
        state = self.state
        found = []
        if state.context_changed:
            found.append("source context changed")
        newer = ((state.messages, "message"), (state.summaries, "summary"))
        if any(number for number, _ in newer):
            found.append(f"newer: {', '.join(counted(number, noun) for number, noun in newer if number)}")
        return tuple(found)


async def effect_of(reader: Reader, brief: FocusBrief) -> FocusEffect:
    """What a brief does to the context as it is now, or would do if it were in force."""
    owner = brief.conversation_id
    return _effect(brief, await context_sources(reader, owner), await context_reaches(reader, owner))


def _effect(
    brief: FocusBrief, present: Sequence[FocusSource], reaches: Sequence[SummaryReach]
) -> FocusEffect:
    under = covered_by(brief, reaches) if brief.content.strip(BLANKS) else []
    ids = frozenset(one.summary_id for one in under)
    covered = [one for one in present if one.summary_id in ids] if ids else []
    return FocusEffect(
        tuple(one.summary_id for one in covered),
        sum(one.tokens for one in covered),
        brief.tokens,
        len(present) - len(covered),
    )


@dataclass(frozen=True, slots=True)
class MeasuredBriefs:
    """Briefs of a conversation with what is around them."""

    entries: tuple[BriefEntry, ...] = ()  #: newest first
    overlay: FocusOverlay | None = None  #: what the one in force does to the context; None: nothing


async def measure_briefs(
    reader: Reader,
    conversation_id: ConversationId,
    known: Sequence[FocusBrief],
    *,
    only: str | None = None,
    with_tokens: bool = False,
    zone: tzinfo | None = UTC,
) -> MeasuredBriefs:
    """What is around the briefs of a conversation, which are *known*, newest first. *only*: of one, by id.

    *with_tokens* counts the tokens that came since too, which takes its time in a large file. *zone* is that
    of the times in the overlay. It is one load, in a thread: a context may hold thousands of summaries.
    """
    return await reader.run(
        _read_measured, reader.schema, conversation_id, known, only=only, with_tokens=with_tokens, zone=zone
    )


def _read_measured(
    db: Rows,
    schema: Schema,
    conversation_id: ConversationId,
    known: Sequence[FocusBrief],
    *,
    only: str | None,
    with_tokens: bool,
    zone: tzinfo | None,
) -> MeasuredBriefs:
    briefs = [one for one in known if only is None or one.brief_id == only]
    if not briefs:
        return MeasuredBriefs()
    active = active_in(known)
    present = read_sources(db, schema, conversation_id)
    reaches = read_reaches(db, schema, conversation_id)
    states = read_states(db, schema, conversation_id, briefs, present, with_tokens=with_tokens)
    roles = read_role_counts(db, schema, conversation_id)
    entries = tuple(
        BriefEntry(
            one,
            one is active,
            states[one.brief_id],
            _effect(one, present, reaches),
            roles.get(one.brief_id, {}),
        )
        for one in briefs
    )
    return MeasuredBriefs(entries, None if active is None else overlay(active, reaches, zone))


async def load_briefs(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    only: str | None = None,
    with_tokens: bool = False,
) -> tuple[BriefEntry, ...]:
    """The briefs of a conversation, newest first; none where this version has no briefs.

    *only* and *with_tokens* are those of `measure_briefs`.
    """
    known = await list_briefs(reader, conversation_id)
    found = await measure_briefs(reader, conversation_id, known, only=only, with_tokens=with_tokens)
    return found.entries
