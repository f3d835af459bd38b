"""Focus briefs put in force, taken out of it, and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lcm_core.change.plan import Plan
from lcm_core.operations.focus import plan_activate_brief, plan_clear_brief, plan_delete_brief
from lcm_core.records import Conversation
from lcm_core.store.database import Reader

from lcm_tui.briefing import BriefWork
from lcm_tui.changes.change import Change, Then

_ABOUT: Final = """
The brief becomes the active one: the model receives it instead of the summaries that it covers, which stay
where they are. Every brief that was active before is superseded and kept. No context changes.
"""
_FAILED: Final = """
The engine records a call that wrote no text as a failed brief with the error. No model receives it, and no
other brief changes.
"""
_CLEAR: Final = """
The active brief becomes inactive and is kept: the summaries that it covers are sent again. The engine then
sweeps the context; the passes are shown after this, and belong to the same batch.
"""
_DELETE: Final = """
The brief and the record of its sources are deleted. The engine itself deletes none. U, then u undoes it.
"""


def putting_in_force(work: BriefWork, then: Then) -> Change:
    """The text of *work* as the brief of its conversation; *then* gets what was committed."""
    owner = work.conversation.conversation_id
    return Change(work.plan, f"Focus brief, conversation {owner}", _ABOUT, then=then)


def recording_failure(work: BriefWork, then: Then) -> Change:
    """The failed call of *work* as the engine records it."""
    owner = work.conversation.conversation_id
    return Change(work.plan_failure, f"Failed focus brief, conversation {owner}", _FAILED, then=then)


def activating(conversation: Conversation, brief_id: str) -> Change:
    """An older brief in force again."""

    async def plan(reader: Reader) -> Plan:
        return await plan_activate_brief(reader, conversation.conversation_id, brief_id)

    return Change(plan, f"Activate {brief_id}", _ABOUT)


def clearing(conversation: Conversation, batch: str, notes: Sequence[str], then: Then) -> Change:
    """The active brief out of force, as a part of *batch*; *notes* say what follows, without full stops."""

    async def plan(reader: Reader) -> Plan:
        made = await plan_clear_brief(reader, conversation.conversation_id, batch=batch)
        return replace(made, warnings=(*made.warnings, *notes))

    return Change(
        plan, f"Clear the focus brief, conversation {conversation.conversation_id}", _CLEAR, then=then
    )


def deleting_brief(conversation: Conversation, brief_id: str) -> Change:
    """A brief deleted."""

    async def plan(reader: Reader) -> Plan:
        return await plan_delete_brief(reader, conversation.conversation_id, brief_id)

    return Change(plan, f"Delete {brief_id}", _DELETE)
