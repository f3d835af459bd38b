"""``merge``: sessions that a rollover split, listed, and made one conversation again."""

from __future__ import annotations

from typing import Final

from lcm_core.base.errors import UsageError
from lcm_core.change.plan import Plan
from lcm_core.operations.merge import SplitSession, plan_merge, split_sessions
from lcm_core.store.conversations import SessionMember
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import ConversationArgument, ConversationName
from lcm_tui.cli.options import SqlFlags
from lcm_tui.cli.selecting import numbers_of
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import ListColumn, Note, OutputBlock, json_of, list_table

# fmt: off
SPLIT: Final[tuple[ListColumn[SplitSession, None], ...]] = (
    ListColumn("conversation", heading="Conversation", right=True, json="conversationId", value="active.id"),
    ListColumn("from", heading="Split from",
               value=lambda split: ", ".join(str(one.id) for one in split.older)),
    ListColumn("messages", heading="Messages", right=True,
               value=lambda split: sum(one.messages for one in split.older)),
    ListColumn("summaries", heading="Summaries", right=True,
               value=lambda split: sum(one.summaries for one in split.older)),
    ListColumn("certainty", heading="Merge", json="certainty", value="certainty.value"),
    ListColumn("reason", heading="Why", grows=True, json="reason", value="reason"),
    ListColumn("session", heading="Session", grows=True, spare=1, json="sessionKey", value="session_key"),
    ListColumn("older", json="older", value=lambda split: [_member(one) for one in split.older]),
    ListColumn("active", json="active", value=lambda split: _member(split.active)),
)
# fmt: on


@command("merge", examples=("merge", "merge 10 --apply"))
@argument(
    "conversations",
    ConversationArgument(),
    "[CONVERSATION...]",
    "Any conversation of the session (its id, session key or a unique part of its title); several "
    "conversations merge several sessions. Without one: list split sessions.",
    nargs=-1,
    required=False,
)
@flag("--force", "Treat the split as a rollover when the cause was not recorded.")
@options.budget
@options.sql_flags()
def merge(
    run: Run,
    *,
    conversations: tuple[ConversationName, ...],
    force: bool,
    budget: int | None,
    flags: SqlFlags,
) -> Answer:
    """Rejoin a session that a rollover split into several conversations (previews unless --apply)."""
    if not conversations:
        if flags.apply:
            raise UsageError(
                "merge --apply needs a conversation; without one, merge lists split sessions.",
                details={"option": "apply"},
            )
        found = run.read(split_sessions)
        blocks: list[OutputBlock] = [list_table(SPLIT, found, run.time, empty="No session is split.")]
        if found:
            blocks.append(Note("Show what a merge would do with: lcm-tui merge CONVERSATION"))
        return run.answer("merge", {"items": [json_of(SPLIT, one) for one in found]}, blocks)

    async def plan(reader: Reader) -> Plan:
        against = budget_for(run.settings, budget)
        numbers = await numbers_of(reader, conversations)
        return await plan_merge(reader, numbers, assume_rollover=force, budget=against)

    return changing.run_change(run, "merge", plan, flags, budget=budget)


def _member(one: SessionMember) -> Document:
    return {
        **some_of(one.conversation, "conversation_id archive_cause archived_at"),
        **some_of(one, "messages summaries context_items first_at last_at"),
    }
