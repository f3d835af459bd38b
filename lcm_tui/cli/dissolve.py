"""``dissolve``: condensed summaries of a context give way to what they were made from."""

from __future__ import annotations

from lcm_core.base.errors import UsageError
from lcm_core.change.plan import Plan
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.store.database import Reader

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.changing import run_change
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.kinds import WholeNumber
from lcm_tui.cli.options import SqlFlags, SummaryOptions
from lcm_tui.cli.selecting import owner_of, summary_beginning
from lcm_tui.kit.session import budget_for


@command("dissolve", examples=("dissolve sum_4c4b", "dissolve 1 --summary sum_4c4b --levels 2 --apply"))
@options.summary_options
@flag("--keep", "Keep the summary in the database; only the context changes.")
@option("--levels", WholeNumber(1), "N", "Also dissolve condensed sources, N levels down.", default=1)
@options.budget
@options.sql_flags()
def dissolve(
    run: Run,
    *,
    target: SummaryOptions,
    keep: bool,
    levels: int,
    budget: int | None,
    flags: SqlFlags,
) -> Answer:
    """Replace a condensed summary in the context with its sources (previews unless --apply)."""
    target.check("dissolve")
    if not target.summaries:
        raise UsageError("dissolve needs --summary ID.", details={"option": "summary"})

    async def plan(reader: Reader) -> Plan:
        ids = [await summary_beginning(reader, one) for one in target.summaries]
        owner = await owner_of(reader, target.named, ids)
        against = budget_for(run.settings, budget)
        return await plan_dissolve(reader, owner, ids, levels=levels, keep=keep, budget=against)

    return run_change(run, "dissolve", plan, flags, budget=budget)
