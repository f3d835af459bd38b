"""Replacing condensed summaries with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.change.plan import Plan
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.records import Conversation, SummaryId
from lcm_core.store.database import Reader

from lcm_tui.changes.change import Change, Choice, Then

ABOUT: Final = """
Dissolving a condensed summary puts its sources back in its place in the context. The summary is deleted, with
its links and search rows, unless 1 keeps it in the database; 2 also dissolves condensed sources, that many
levels down. Where something else needs the summary, dissolving is refused with the reason.
"""
#: What can be chosen for the levels, and what it stands for.
LEVELS: Final = {"1": 1, "2": 2, "3": 3, "all": 1_000}


def dissolving(
    conversation: Conversation, chosen: Sequence[SummaryId], budget: int, then: Then | None = None
) -> Change:
    """Dissolve the *chosen* summaries of a conversation. *budget* in tokens."""
    keep = Choice.switch("keep the dissolved summary in the database")
    levels = Choice("levels", tuple(LEVELS))
    owner = conversation.conversation_id

    async def plan(reader: Reader) -> Plan:
        return await plan_dissolve(
            reader, owner, chosen, levels=LEVELS[levels.value], keep=keep.on, budget=budget
        )

    title = f"Dissolve, conversation {conversation.called}"
    return Change(plan, title, ABOUT, (keep, levels), then)
