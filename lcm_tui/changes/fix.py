"""Fixing what the checks found, without a model: rows by a plan, and search tables after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lcm_core.change.commit import Committed
from lcm_core.change.plan import Plan
from lcm_core.change.reindex import resync
from lcm_core.checks import Limits
from lcm_core.errors import LcmError, RefusedError
from lcm_core.findings import Finding, FixId
from lcm_core.operations.fix import Fixes, Keep, plan_fixes
from lcm_core.store.database import Database, Reader

from lcm_tui.changes.change import Change, Choice, Notice, Surroundings, Then

#: Checks whose fix can take out the one side or the other.
TWO_SIDED: Final = frozenset({"A6", "A7", "B21"})
KEEP_WORDS: Final = ("the summary", "its sources")
#: How long a search table may be waited for (seconds).
WAIT_SECONDS: Final = 5.0


class _SearchTables(Surroundings):
    """The search tables that the rows of a fix are found by: they are in no plan."""

    def __init__(self) -> None:
        self.tables: tuple[str, ...] = ()  #: those that the last plan asks for

    async def applied(self, database: Database, done: Sequence[Committed]) -> Sequence[Notice]:
        """Bring them in step with the rows that were committed."""
        del done
        return (await bring_in_step(database, self.tables),) if self.tables else ()


async def bring_in_step(database: Database, tables: Sequence[str]) -> Notice:
    """Write what is missing, stale or too many in some search tables; what came of it."""
    try:
        done = await asyncio.to_thread(resync, database.path, tuple(tables), wait=WAIT_SECONDS)
    except LcmError as error:
        return Notice("Search tables", error.message, warns=True)
    finally:
        await database.refresh()
    rows = ", ".join(f"{one.table} {one.rows:,}" for one in done)
    return Notice("Search tables updated", f"Rows written: {rows}")


def fixing(findings: Sequence[Finding], limits: Limits, then: Then | None = None) -> Change:
    """Fix some findings by one plan; *limits* as the checks had them."""
    keep = Choice("if the context contains both a summary and everything it covers, keep", KEEP_WORDS)
    around = _SearchTables()
    wanted = tuple(findings)

    async def plan(reader: Reader) -> Plan:
        side = Keep.SOURCES if keep.on else Keep.SUMMARIES
        fixes = await plan_fixes(reader, wanted, keep=side, limits=limits)
        around.tables = fixes.search
        if not fixes.plan:
            raise RefusedError("No row has to change any more: go back and run the checks again.")
        return _with_search(fixes)

    number = len(wanted)
    title = f"Fix {wanted[0].check}" if number == 1 else f"Fix {number:,} findings"
    choices = (keep,) if any(one.check in TWO_SIDED for one in wanted) else ()
    return Change(plan, title, about_fixes(wanted), choices, then, around)


def about_fixes(findings: Sequence[Finding]) -> str:
    """What the fixes of some findings do."""
    checks: dict[FixId, dict[str, None]] = {}
    for one in findings:
        if one.fix is not None:
            checks.setdefault(one.fix, {})[one.check] = None
    said = [f"{', '.join(found)}: {fix.effect}" for fix, found in checks.items()]
    return "\n\n".join(
        ["One plan fixes everything that was selected, without a model and without guessing.", *said]
    )


def _with_search(fixes: Fixes) -> Plan:
    """The plan, which says what is done after it."""
    if not fixes.search:
        return fixes.plan
    tables = ", ".join(fixes.search)
    said = f"{tables}: updated afterwards; search tables are not part of the plan and need no undo"
    return replace(fixes.plan, warnings=(*fixes.plan.warnings, said))
