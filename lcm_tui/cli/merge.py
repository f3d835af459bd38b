"""``merge`` rejoins split sessions; ``transplant`` copies one conversation's summaries to another."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.values import replace
from lcm_core.change.plan import Plan
from lcm_core.operations.merge import SplitSession, plan_merge, split_sessions
from lcm_core.operations.transplant import Duplicate, DuplicatesError, plan_transplant
from lcm_core.store.conversations import SessionMember
from lcm_core.store.database import Reader

from lcm_tui.cli import changing
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import SqlFlags
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Cell, Note, OutputBlock, OutputColumn, Table


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


def _listed(found: list[SplitSession]) -> list[OutputBlock]:
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
        OutputColumn("Conversation", right=True),
        OutputColumn("Split from"),
        OutputColumn("Messages", right=True),
        OutputColumn("Summaries", right=True),
        OutputColumn("Merge"),
        OutputColumn("Why", grows=True),
        OutputColumn("Session", grows=True, spare=1),
    )
    table = Table(columns, rows, empty="No session is split.")
    return (
        [table, Note("Show what a merge would do with: lcm-tui merge CONVERSATION_ID")] if found else [table]
    )


# -- transplant ------------------------------------------------------------------------------------------
# The summaries of one conversation are copied to the front of another one's context.


def transplant(
    run: Run,
    source: ConversationId,
    target: ConversationId,
    flags: SqlFlags,
    *,
    skip_duplicates: bool,
    budget: int | None,
) -> Answer:
    """Show what would be copied, or copy it."""

    async def plan(reader: Reader) -> Plan:
        against = budget_for(run.settings, budget)
        return await plan_transplant(reader, source, target, skip_duplicates=skip_duplicates, budget=against)

    try:
        return changing.run_change(run, "transplant", plan, flags, budget=budget)
    except DuplicatesError as error:
        found = error.duplicates
        told = run.answer(
            "transplant",
            {"duplicates": [_transplant_document(one) for one in found]},
            _transplant_listed(found),
        )
        return replace(told, exit_code=error.exit_code, failed=error)


def _transplant_document(one: Duplicate) -> dict[str, str | bool]:
    return {"summaryId": one.summary_id, "presentId": one.present_id, "inContext": one.in_context}


def _transplant_listed(found: Sequence[Duplicate]) -> list[OutputBlock]:
    rows = [
        (one.summary_id, one.present_id, "in the context" if one.in_context else "below") for one in found
    ]
    columns = (OutputColumn("Of the source"), OutputColumn("In the target as"), OutputColumn("Stands"))
    return [
        Table(columns, rows, title="The same text in both"),
        Note("Nothing was changed. --skip-duplicates skips those in the context."),
    ]
