"""The focus briefs of a conversation as they are shown: what each replaces, and whether it is stale.

Source: docs/engine/focus.md; docs/engine/assembly.md, "What is sent".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

from lcm_core.assemble.elements import SummaryReach, overlay
from lcm_core.dag.focus import BriefState, FocusSource
from lcm_core.javascript import BLANKS
from lcm_core.records import ConversationId, FocusBrief, SummaryId
from lcm_core.store.briefs import active_in, context_reaches, list_briefs
from lcm_core.store.database import Reader
from lcm_core.store.focus import context_sources, role_counts, states_of
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
    over = overlay(brief, reaches, UTC) if brief.content.strip(BLANKS) else None
    covered = [one for one in present if over is not None and one.summary_id in over.covered]
    return FocusEffect(
        tuple(one.summary_id for one in covered),
        sum(one.tokens for one in covered),
        brief.tokens,
        len(present) - len(covered),
    )


async def load_briefs(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    only: str | None = None,
    with_tokens: bool = False,
    reaches: Sequence[SummaryReach] | None = None,
) -> tuple[BriefEntry, ...]:
    """The briefs of a conversation, newest first; none where this version has no briefs. *only*: one, by id.

    *with_tokens* counts the tokens that came since too, which takes its time in a large file. *reaches* of
    the context, where they have been read already.
    """
    known = await list_briefs(reader, conversation_id)
    briefs = [one for one in known if only is None or one.brief_id == only]
    if not briefs:
        return ()
    active = active_in(known)
    present = await context_sources(reader, conversation_id)
    if reaches is None:
        reaches = await context_reaches(reader, conversation_id)
    states = await states_of(reader, conversation_id, briefs, present, with_tokens=with_tokens)
    roles = await role_counts(reader, conversation_id)
    return tuple(
        BriefEntry(
            one,
            one is active,
            states[one.brief_id],
            _effect(one, present, reaches),
            roles.get(one.brief_id, {}),
        )
        for one in briefs
    )
