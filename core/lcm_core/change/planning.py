"""Planning for somebody who looks at it: a plan that is checked again and again, and anew when it is stale.

One plan or a batch of them. A batch is previewed as one plan, which is exact, since edits see what edits
before them do; it is committed plan by plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lcm_core.change.connection import check_writable
from lcm_core.change.errors import Moved, StalePlanError, listed
from lcm_core.change.guard import check_whole
from lcm_core.change.plan import Edit, Plan, Symbol, map_symbols, row_counts, title_of_several
from lcm_core.change.preview import Preview, preview_plan
from lcm_core.errors import RefusedError
from lcm_core.store.database import Database, Reader


@dataclass(frozen=True, slots=True)
class Batch:
    """Plans that belong together, and whether the planner makes others once these were committed."""

    plans: tuple[Plan, ...]
    more: bool = False


#: Reads what an operation needs and returns its plan, or the plans of a batch.
Planner = Callable[[Reader], Awaitable[Plan | Sequence[Plan] | Batch]]


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be done, against the database as it was when this was made."""

    plans: tuple[Plan, ...]
    preview: Preview  #: of all of them
    moved: tuple[Moved, ...] = ()  #: why it had to be planned anew; empty when it had not
    more: bool = False  #: the rest is planned when these were committed


async def plan_for(
    reader: Reader, planner: Planner, held: Planned | None = None, moved: tuple[Moved, ...] = ()
) -> Planned:
    """Check the plans that are *held* against the database; plan when there are none or they are stale.

    *moved* is why the ones before were given up.

    Raises:
        LcmError: the operation is refused.
    """
    if held is not None:
        try:
            return replace(held, preview=await preview_plan(reader, as_one_plan(held.plans)))
        except StalePlanError as error:
            moved = error.moved
    batch = await batch_of(reader, planner)
    if not batch.plans:
        raise RefusedError("There is nothing to change.")
    return Planned(batch.plans, await first_preview(reader, batch.plans), moved, batch.more)


async def rehearse(database: Database, planner: Callable[[Reader], Awaitable[Plan]]) -> None:
    """Refuse what would be refused when a plan like this one is committed: before its text is paid for.

    Raises:
        DatabaseMissingError, ReadOnlyError: the file cannot be written.
        StalePlanError, RefusedError: as the preview of the plan.
    """
    await asyncio.to_thread(check_writable, database.path)

    async def look(reader: Reader) -> None:
        await preview_plan(reader, await planner(reader))

    await database.read(look)


async def batch_of(reader: Reader, planner: Planner) -> Batch:
    """What a planner makes, whatever it returns.

    Raises:
        LcmError: the operation is refused, or the file lacks tables without which nothing is changed.
    """
    check_whole(reader.schema)
    made = await planner(reader)
    if isinstance(made, Batch):
        return made
    return Batch((made,) if isinstance(made, Plan) else tuple(made))


async def first_preview(reader: Reader, plans: Sequence[Plan]) -> Preview:
    """The preview of plans that were made within the same transaction of *reader*.

    Raises:
        RefusedError: they do not fit what is stored.
    """
    try:
        return await preview_plan(reader, as_one_plan(plans))
    except StalePlanError as error:
        # Nothing moved, for both were read in one transaction: what is stored is not what it is taken for.
        raise RefusedError(
            "The contents of the database prevent this change: "
            f"{listed(one.text for one in error.moved)}. Nothing was changed; "
            "`lcm-tui doctor` checks the database."
        ) from error


def as_one_plan(plans: Sequence[Plan]) -> Plan:
    """Several plans as one, in their order; one is itself."""
    first = plans[0]
    if len(plans) == 1:
        return first
    conversations = {plan.conversation_id for plan in plans}
    rows = row_counts(edit for plan in plans for edit in plan.edits)
    return Plan(
        kind=first.kind,
        title=title_of_several(first.kind, len(plans), conversations, rows),
        conversation_id=first.conversation_id if len(conversations) == 1 else None,
        edits=tuple(edit for number, plan in enumerate(plans) for edit in _renamed(plan.edits, number)),
        warnings=tuple(dict.fromkeys(warning for plan in plans for warning in plan.warnings)),
        batch=first.batch,
        allows=frozenset(key for plan in plans for key in plan.allows),
        select=first.select,
        parts=tuple(len(plan.edits) for plan in plans),
    )


def titles_of(plans: Sequence[Plan]) -> tuple[str, ...]:
    """What several plans do. The pieces of one deletion are one line, without the counts of the first."""
    if len(plans) == 1:
        return (plans[0].title,)
    found = (plan.title.rpartition(": ")[0] if plan.whole else plan.title for plan in plans)
    return tuple(dict.fromkeys(found))


# -- symbols are unique within a plan ----------------------------------------------------------------------


def _renamed(edits: Iterable[Edit], number: int) -> Iterable[Edit]:
    """The edits with symbols that no other plan of the batch has."""
    return (
        map_symbols(edit, lambda symbol: Symbol(f"{number}.{symbol.name}", symbol.kind)) for edit in edits
    )
