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
under new ids to the front of another one, in order of time. The conversation that is copied from stays as it
is, and the host finds its own newest message where it left it. What the target holds already is listed and
refused; 1 leaves it out.
"""


def transplanting(
    source: ConversationId, target: ConversationId, budget: int, then: Then | None = None
) -> Change:
    """Copy the summaries, messages and files of *source* into *target*. *budget* in tokens."""
    skip = Choice.switch("skip duplicates")

    async def plan(reader: Reader) -> Plan:
        return await plan_transplant(reader, source, target, skip_duplicates=skip.on, budget=budget)

    return Change(plan, f"Transplant {source} → {target}", ABOUT, (skip,), then)
