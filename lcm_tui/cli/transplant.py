"""``transplant``: what one conversation remembers, copied to the front of another one's context."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lcm_core.change.plan import Plan
from lcm_core.operations.transplant import Duplicate, DuplicatesError, plan_transplant
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader

from lcm_tui.cli import changing
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.options import SqlFlags
from lcm_tui.session import budget_for
from lcm_tui.views.blocks import Block, Column, Note, Table


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
        told = run.answer("transplant", {"duplicates": [_document(one) for one in found]}, _listed(found))
        return dataclasses.replace(told, exit_code=error.exit_code, failed=error)


def _document(one: Duplicate) -> dict[str, str | bool]:
    return {"summaryId": one.summary_id, "presentId": one.present_id, "inContext": one.in_context}


def _listed(found: Sequence[Duplicate]) -> list[Block]:
    rows = [
        (one.summary_id, one.present_id, "in the context" if one.in_context else "below") for one in found
    ]
    columns = (Column("Of the source"), Column("In the target as"), Column("Stands"))
    return [
        Table(columns, rows, title="The same text in both"),
        Note("Nothing was changed. --skip-duplicates skips those in the context."),
    ]
