"""``transplant``: the summaries of one conversation copied to the front of another one's context."""

from __future__ import annotations

from typing import Final

from lcm_core.base.values import replace
from lcm_core.change.plan import Plan
from lcm_core.operations.transplant import Duplicate, DuplicatesError, plan_transplant
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag
from lcm_tui.cli.kinds import ConversationArgument, ConversationName
from lcm_tui.cli.options import SqlFlags
from lcm_tui.cli.selecting import numbers_of
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import ListColumn, Note, json_of, list_table

# fmt: off
DUPLICATES: Final[tuple[ListColumn[Duplicate, None], ...]] = (
    ListColumn("source", heading="Of the source", json="summaryId", value="summary_id"),
    ListColumn("target", heading="In the target as", json="presentId", value="present_id"),
    ListColumn("place", heading="Stands", json="inContext", value="in_context",
               text=lambda inside: "in the context" if inside else "below"),
)
# fmt: on


@command("transplant", examples=("transplant 5 8 --skip-duplicates",))
@argument("source", ConversationArgument(), "SOURCE", "The conversation to copy from; it does not change.")
@argument("target", ConversationArgument(), "TARGET", "The conversation to copy into.")
@flag("--skip-duplicates", "Skip summaries whose text the target already has.")
@options.budget
@options.sql_flags()
def transplant(
    run: Run,
    *,
    source: ConversationName,
    target: ConversationName,
    skip_duplicates: bool,
    budget: int | None,
    flags: SqlFlags,
) -> Answer:
    """Copy the summaries of a context to the front of another context (previews unless --apply)."""

    async def plan(reader: Reader) -> Plan:
        against = budget_for(run.settings, budget)
        first, second = await numbers_of(reader, (source, target))
        return await plan_transplant(reader, first, second, skip_duplicates=skip_duplicates, budget=against)

    try:
        return changing.run_change(run, "transplant", plan, flags, budget=budget)
    except DuplicatesError as error:
        found = error.duplicates
        blocks = (
            list_table(DUPLICATES, found, run.time, title="The same text in both"),
            Note("Nothing was changed. --skip-duplicates skips those in the context."),
        )
        told = run.answer("transplant", {"duplicates": [json_of(DUPLICATES, one) for one in found]}, blocks)
        return replace(told, exit_code=error.exit_code, failed=error)
