"""``dissolve``: condensed summaries of a context give way to what they were made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, command
from lcm_tui.cli.kinds import WholeNumber

if TYPE_CHECKING:
    from lcm_core.change.plan import Plan
    from lcm_core.store.database import Reader

    from lcm_tui.cli.answer import Answer, Run

Keep: TypeAlias = Annotated[
    bool, Option("--keep", "Keep the summary in the database; only the context changes.")
]
Levels: TypeAlias = Annotated[
    int, Option("--levels", "Also dissolve condensed sources, N levels down.", WholeNumber(1), "N")
]


@command("dissolve", examples=("dissolve sum_4c4b", "dissolve 3 --summary sum_4c4b --levels 2 --apply"))
def dissolve(
    run: Run,
    *,
    target: options.SummaryOptions,
    keep: Keep = False,
    levels: Levels = 1,
    budget: options.Budget = None,
    flags: options.SqlFlags,
) -> Answer:
    """Replace a condensed summary in the context with its sources (previews unless --apply)."""
    from lcm_core.operations.dissolve import plan_dissolve

    from lcm_tui.cli.changing import run_change
    from lcm_tui.cli.selecting import owner_of, summary_beginning
    from lcm_tui.session import budget_for

    named = target.selector("dissolve", needed=True)
    if not target.summaries:
        raise UsageError("dissolve needs --summary ID.", details={"option": "summary"})

    async def plan(reader: Reader) -> Plan:
        ids = [await summary_beginning(reader, one) for one in target.summaries]
        owner = await owner_of(reader, named, ids)
        against = budget_for(run.settings, budget)
        return await plan_dissolve(reader, owner, ids, levels=levels, keep=keep, budget=against)

    return run_change(run, "dissolve", plan, flags, budget=budget)
