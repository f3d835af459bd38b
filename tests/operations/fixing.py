"""What tests of fixes share: the doctor before and after, the plan between, and taking it back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_core.api import Confidence, Database, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.reindex import resync
from lcm_core.checks.check import Limits
from lcm_core.checks.running import run_checks
from lcm_core.operations.fix import Keep
from lcm_core.operations.fixing import plan_fixes

from tests.change.support import dump

NOW = datetime(2026, 3, 20, tzinfo=UTC)
LIMITS = Limits(NOW)

#: A finding without the numbers in its sentence: check, conversation, first row, confidence.
Key = tuple[object, ...]


def key_of(finding) -> Key:
    row = finding.rows[0] if finding.rows else None
    return finding.check, finding.conversation_id, row, finding.confidence


async def findings_of(path: Path, *, whole_file: bool = True):
    async with await Database.open(path) as database:
        report = await run_checks(database, limits=LIMITS, whole_file=whole_file)
        return list(report.findings())


async def fixes_of(path: Path, findings, keep: Keep = Keep.SUMMARIES):
    async with await Database.open(path) as database:
        return await database.read(plan_fixes, findings, limits=LIMITS, keep=keep, now=NOW)


@dataclass(frozen=True)
class Fixed:
    fixes: Any
    committed: Any
    before: Any
    after: Any

    @property
    def gone(self) -> set[Key]:
        return {key_of(one) for one in self.before} - {key_of(one) for one in self.after}

    @property
    def new(self):
        """What the doctor says only now, but for what is by design."""
        known = {(one.check, one.conversation_id) for one in self.before}
        rows = {(one.check, row) for one in self.before for row in one.rows}
        return [
            one
            for one in self.after
            if one.confidence is not Confidence.BY_DESIGN
            and not (
                (one.check, one.conversation_id) in known
                # Ordinals change; everything else keeps its key.
                and all((one.check, row) in rows or row.table == "context_items" for row in one.rows)
            )
        ]


async def fix(path: Path, wanted, keep: Keep = Keep.SUMMARIES) -> Fixed:
    """Fix what the doctor finds and a test wants; the rows come back by undo and go again by redo."""
    before = await findings_of(path)
    fixes = await fixes_of(path, [one for one in before if wanted(one)], keep)
    rows = dump(path)
    committed = None
    if fixes.plan:
        committed = commit(path, fixes.plan)
        fixed = dump(path)
        async with await Database.open(path) as database:
            undo = await database.read(plan_undo, committed.id)
        undone = commit(path, undo)
        assert dump(path) == rows, "undo gives the same rows back"
        async with await Database.open(path) as database:
            redo = await database.read(plan_undo, undone.id)
        commit(path, redo)
        assert dump(path) == fixed
    if fixes.search:
        resync(path, fixes.search)
    return Fixed(fixes, committed, before, await findings_of(path))
