"""Copying what one conversation remembers to the front of another one's context."""

from __future__ import annotations

from typing import Final

from lcm_core.change.plan import Plan
from lcm_core.operations.transplant import plan_transplant
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader

from lcm_tui.changes.change import Change, Choice, Then

ABOUT: Final = """
A transplant copies the summaries of one context, with every summary, message, part and large file below them,
to the front of another context, under new ids and in time order. The source conversation does not change, and
the host's newest message stays where the host left it. Summaries the target already has are listed and
refused; 1 skips them.
"""


def transplanting(
    source: ConversationId, target: ConversationId, budget: int, then: Then | None = None
) -> Change:
    """Copy the summaries, messages and files of *source* into *target*. *budget* in tokens."""
    skip = Choice.switch("skip duplicates")

    async def plan(reader: Reader) -> Plan:
        return await plan_transplant(reader, source, target, skip_duplicates=skip.on, budget=budget)

    return Change(plan, f"Transplant {source} → {target}", ABOUT, (skip,), then)
