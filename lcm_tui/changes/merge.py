"""Making one conversation again of a split session, with what only the operator can know as a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.operations.merge import plan_merge
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.database import Reader

from lcm_tui.changes.change import Change, Choice

ABOUT: Final = """
A merge makes one conversation again of a session that a rollover split: messages, summaries and context of
the older ones come before those of the active one, and the older ones stay, empty. What somebody ended on
purpose is never merged. Where no cause is recorded only you can know: 1 says that it was a rollover.
"""


def merging(conversation: Conversation, budget: int, done: Callable[[ConversationId], object]) -> Change:
    """Merge the session of a conversation; *done* gets the conversation that is left. *budget* in tokens."""
    assume = Choice.switch("assume a rollover where no cause is recorded")
    into = [conversation.conversation_id]

    async def plan(reader: Reader) -> Plan:
        made = await plan_merge(
            reader, [conversation.conversation_id], assume_rollover=assume.on, budget=budget
        )
        if made.conversation_id is not None:
            into[:] = [ConversationId(made.conversation_id)]
        return made

    def then(_: tuple[Committed, ...]) -> None:
        done(into[0])

    title = f"Merge the session of conversation {conversation.conversation_id}  {conversation.lane}"
    return Change(plan, title, ABOUT, (assume,), then)
