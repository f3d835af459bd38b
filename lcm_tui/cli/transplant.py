"""``transplant``: what one conversation remembers, copied to the front of another one's context."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer
from lcm_core.change.plan import Plan
from lcm_core.operations.transplant import Duplicate, DuplicatesError, plan_transplant
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.change_flags import SqlFlags
from lcm_tui.cli.readable import Block, Column, Note, Table
from lcm_tui.cli.registry import command
from lcm_tui.session import budget_for

SourceArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The conversation to copy from; it stays as it is.")
]
TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TARGET", help="The conversation to copy into.")
]
SkipDuplicates: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-duplicates", metavar="", help="Leave out summaries whose text the target has already."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "transplant")(transplant)


def transplant(
    run: Run,
    *,
    source: SourceArgument,
    target: TargetArgument,
    skip_duplicates: SkipDuplicates = False,
    budget: options.Budget = None,
    flags: SqlFlags,
) -> Answer:
    """Copy what a context remembers to the front of another one; shown only, without --apply."""
    ends = [
        ConversationId(options.whole_number(name, given, 1))
        for name, given in (("SOURCE", source), ("TARGET", target))
    ]
    asked = None if budget is None else options.budget_of(budget)

    async def plan(reader: Reader) -> Plan:
        against = budget_for(run.settings, asked)
        return await plan_transplant(reader, *ends, skip_duplicates=skip_duplicates, budget=against)

    try:
        return changing.run_change(run, "transplant", plan, flags, budget=asked)
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
        Note("Nothing was changed. --skip-duplicates leaves out those in the context."),
    ]
