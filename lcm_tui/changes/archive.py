"""Archiving conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.change.plan import Plan
from lcm_core.errors import RefusedError
from lcm_core.operations.prune import plan_archive
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader

from lcm_tui.changes.change import Change, Then

ABOUT: Final = """
Archiving marks conversations as ended, as the host does at a reset. No data is deleted; the host starts a new
conversation at the session's next message.
"""


def archiving(conversations: Sequence[ConversationId], then: Then | None = None) -> Change:
    """Archive those of *conversations* that are not yet."""
    wanted = tuple(conversations)

    async def plan(reader: Reader) -> Plan:
        made = await plan_archive(reader, wanted)
        if not made:
            raise RefusedError("All of them are already archived.")
        return made

    return Change(plan, f"Archive {named(wanted)}", ABOUT, then=then)


def named(conversations: Sequence[ConversationId]) -> str:
    """Which conversations, in a title."""
    if len(conversations) == 1:
        return f"conversation {conversations[0]}"
    return f"{len(conversations):,} conversations"
