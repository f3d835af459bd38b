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
A merge rejoins a session that a rollover split into several conversations: messages, summaries and context of
the older ones are put before those of the active one; the older conversations remain, empty. A session that
was reset or ended on purpose is never merged. Where no cause is recorded, only you can know: 1 treats it as a
rollover.
"""


def merging(conversation: Conversation, budget: int, done: Callable[[ConversationId], object]) -> Change:
    """Merge the session of a conversation; *done* gets the conversation that is left. *budget* in tokens."""
    assume = Choice.switch("treat as a rollover when the cause was not recorded")
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

    title = f"Merge the session of conversation {conversation.called}"
    return Change(plan, title, ABOUT, (assume,), then)
