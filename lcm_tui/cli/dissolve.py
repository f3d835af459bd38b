"""``dissolve``: condensed summaries of a context give way to what they were made from."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer
from lcm_core.change.plan import Plan
from lcm_core.errors import UsageError
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.change_flags import SqlFlags
from lcm_tui.cli.registry import command
from lcm_tui.cli.selecting import ConversationOptions, chosen, summary_beginning
from lcm_tui.session import budget_for

SummaryIds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--summary-id",
        metavar="ID",
        help="The summary, or the beginning of its id; may be given several times.",
    ),
]
Keep: TypeAlias = Annotated[
    bool, typer.Option("--keep", metavar="", help="Leave the node in the DAG; only the context changes.")
]
Levels: TypeAlias = Annotated[
    str | None, typer.Option("--levels", metavar="N", help="Dissolve condensed sources too, N levels down.")
]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "dissolve")(dissolve)


def dissolve(
    run: Run,
    *,
    conversation: ConversationOptions,
    summary_id: SummaryIds = None,
    keep: Keep = False,
    levels: Levels = None,
    budget: options.Budget = None,
    flags: SqlFlags,
) -> Answer:
    """Give a condensed summary's place in the context back to its sources; shown only, without --apply."""
    named = conversation.selector("dissolve")
    if not summary_id:
        raise UsageError("dissolve needs --summary-id ID.", details={"option": "summary-id"})
    wanted = [options.stored_text(one) for one in summary_id]
    depth = 1 if levels is None else options.whole_number("levels", levels, 1)
    asked = None if budget is None else options.budget_of(budget)

    async def plan(reader: Reader) -> Plan:
        owner = (await chosen(reader, named)).conversation_id
        ids = [await summary_beginning(reader, one) for one in wanted]
        against = budget_for(run.settings, asked)
        return await plan_dissolve(reader, owner, ids, levels=depth, keep=keep, budget=against)

    return changing.run_change(run, "dissolve", plan, flags, budget=asked)
