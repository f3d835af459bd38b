"""``merge``: sessions that a rollover split, listed, and made one conversation again."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.plan import Plan
from lcm_core.errors import UsageError
from lcm_core.operations.merge import SplitSession, plan_merge, split_sessions
from lcm_core.records import ConversationId
from lcm_core.store.conversations import SessionMember
from lcm_core.store.database import Reader

from lcm_tui.cli import changing
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import SqlFlags
from lcm_tui.session import budget_for
from lcm_tui.views.blocks import Block, Cell, Column, Note, Table


def merge(
    run: Run,
    conversations: Sequence[ConversationId],
    flags: SqlFlags,
    *,
    assume_rollover: bool,
    budget: int | None,
) -> Answer:
    """List what is split, show what a merge would do, or do it."""
    if not conversations:
        if flags.apply:
            raise UsageError(
                "merge --apply needs a conversation; without one, merge lists split sessions.",
                details={"option": "apply"},
            )
        found = run.read(split_sessions)
        return run.answer("merge", {"items": [_document(one) for one in found]}, _listed(found))

    async def plan(reader: Reader) -> Plan:
        against = budget_for(run.settings, budget)
        return await plan_merge(reader, conversations, assume_rollover=assume_rollover, budget=against)

    return changing.run_change(run, "merge", plan, flags, budget=budget)


def _document(split: SplitSession) -> Document:
    return {
        "sessionKey": split.session_key,
        "conversationId": split.active.id,
        "certainty": split.certainty.value,
        "reason": split.reason,
        "older": [_member(one) for one in split.older],
        "active": _member(split.active),
    }


def _member(one: SessionMember) -> Document:
    return {
        "conversationId": one.id,
        "archiveCause": one.conversation.archive_cause,
        "archivedAt": one.conversation.archived_at,
        "messageCount": one.messages,
        "summaryCount": one.summaries,
        "contextItems": one.context_items,
        "earliestMessageAt": one.first_at,
        "latestMessageAt": one.last_at,
    }


def _listed(found: list[SplitSession]) -> list[Block]:
    rows: list[tuple[Cell, ...]] = [
        (
            split.active.id,
            ", ".join(str(one.id) for one in split.older),
            sum(one.messages for one in split.older),
            sum(one.summaries for one in split.older),
            split.certainty.value,
            split.reason,
            split.session_key,
        )
        for split in found
    ]
    columns = (
        Column("Conversation", right=True),
        Column("Split from"),
        Column("Messages", right=True),
        Column("Summaries", right=True),
        Column("Merge"),
        Column("Why", grows=True),
        Column("Session", grows=True, spare=1),
    )
    table = Table(columns, rows, empty="No session is split.")
    return (
        [table, Note("Show what a merge would do with: lcm-tui merge CONVERSATION_ID")] if found else [table]
    )
