"""``--from-drafts``: takes the drafts of a file that somebody has looked at."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lcm_core.change.backup import make_backup
from lcm_core.change.commit import commit_plan
from lcm_core.change.plan import Plan
from lcm_core.change.planning import as_one_plan
from lcm_core.change.preview import preview_plan
from lcm_core.errors import CancelledError, LcmError
from lcm_core.operations.drafting.batch import Batch, BatchOptions
from lcm_core.operations.drafting.draft import DraftSetting
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.operations.drafting.rules import AcceptanceRule
from lcm_core.operations.rewrite import plan_rewrite
from lcm_core.store.database import Database, Reader
from lcm_core.store.schema import Schema
from lcm_core.wording import counted

from lcm_tui.cli import answer as answers
from lcm_tui.cli import changing
from lcm_tui.cli import drafting_report as report
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.drafting_outcome import Outcome, Selection, answer_of, tell
from lcm_tui.cli.drafts_file import Reviewed, read_drafts
from lcm_tui.cli.options import SqlFlags
from lcm_tui.cli.working import ask_before_change, interruptible
from lcm_tui.views import drafts as drafts_view
from lcm_tui.views.blocks import Note
from lcm_tui.writing import Modelling

Settings = Callable[[Schema], DraftSetting]


@dataclass(frozen=True, slots=True)
class Taking:
    """Takes drafts from a file."""

    run: Run
    command: str
    path: Path
    rule: AcceptanceRule | None  #: takes drafts that nobody marked, too
    model: Modelling
    flags: SqlFlags

    def do(self, setting: Settings) -> Answer:
        """Show what would be taken, or take it."""
        reviewed = read_drafts(self.path, self.command)
        items = [
            replace(item, state=ItemState.REVIEW)
            for item in reviewed.items
            if item.summary_id in reviewed.taken or (self.rule is not None and item.draft is not None)
        ]
        if not items:
            note = Note(f"No draft in {self.path} is marked: set take to true, or use --accept RULE.")
            data: Document = {"items": [], "applied": False, "file": str(self.path)}
            return self.run.answer(self.command, data, [note])
        if self.flags.sql:
            with interruptible():
                script = asyncio.run(self._script(items, reviewed, setting))
            told = self._forecast(items, reviewed)
            data = {**told.data, "sql": list(script)}
            return replace(told, data=data, blocks=[*told.blocks, Note(changing.ABOUT_SQL)], script=script)
        if not self.flags.apply:
            return self._forecast(items, reviewed)
        ask_before_change(f"Apply {counted(len(items), 'draft')}?", yes=self.flags.yes)
        outcome = Outcome(data={"file": str(self.path)})
        with interruptible() as stopped:
            asyncio.run(self._take(items, reviewed, setting, outcome, stopped))
        return answer_of(self.run, self.command, Selection(items), outcome)

    def _forecast(self, items: Sequence[BatchItem], reviewed: Reviewed) -> Answer:
        documents = [
            {**report.outcome_document(one), "take": one.summary_id in reviewed.taken} for one in items
        ]
        data: Document = {"file": str(self.path), "applied": False, "items": documents}
        number = counted(len(items), "draft")
        note = Note(f"{number} would be applied; nothing was changed, --apply applies them.")
        return self.run.answer(self.command, data, [*drafts_view.taken_blocks(items), note])

    async def _script(
        self, items: Sequence[BatchItem], reviewed: Reviewed, setting: Settings
    ) -> tuple[str, ...]:
        """The SQL of the drafts that would be taken, as one transaction.

        Raises:
            LcmError: a summary is not what its draft was made from (docs/changes.md, "As SQL").
        """
        async with await Database.open(
            self.run.settings.database.value, busy_seconds=answers.BUSY_SECONDS
        ) as database:
            writer = self.model.open()
            how = setting(database.schema)
            batch = Batch(database, items, how, writer, BatchOptions(self.command), batch_id=reviewed.batch)
            try:
                taken = [
                    item
                    for item in batch.items
                    if item.draft is not None
                    and (
                        item.summary_id in reviewed.taken
                        or self.rule is None
                        or not await batch.objections(item.summary_id, self.rule)
                    )
                ]
                plans = await self._in_turn(database, taken, how)
                return await database.read(self._sql_of, plans)
            finally:
                await writer.aclose()

    async def _in_turn(
        self, database: Database, items: Sequence[BatchItem], setting: DraftSetting
    ) -> list[Plan]:
        """The plan of each draft, planned on what those before it leave.

        Several are made on a private copy of the file in which each is committed in its turn.
        """
        if len(items) < 2:
            return [await database.read(self._plan, item, setting) for item in items]
        plans: list[Plan] = []
        with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
            copy = Path(folder) / "copy.db"
            await asyncio.to_thread(make_backup, database.path, copy)
            async with await Database.open(copy) as after:
                for item in items:
                    plan = await after.read(self._plan, item, setting)
                    if plan:
                        await commit_plan(after, plan)
                        plans.append(plan)
        return plans

    async def _sql_of(self, reader: Reader, plans: Sequence[Plan]) -> tuple[str, ...]:
        """Their script: a batch is joined as for a preview, where edits see what edits before them do."""
        changing_something = [plan for plan in plans if plan]
        return (
            tuple((await preview_plan(reader, as_one_plan(changing_something))).sql())
            if changing_something
            else ()
        )

    async def _plan(self, reader: Reader, item: BatchItem, setting: DraftSetting) -> Plan:
        assert item.draft is not None
        return await plan_rewrite(
            reader,
            item.conversation_id,
            item.summary_id,
            item.draft.text,
            model=item.draft.model,
            rendering=setting.rendering,
            base=item.draft.base,
            kind=self.command,
        )

    async def _take(
        self,
        items: Sequence[BatchItem],
        reviewed: Reviewed,
        setting: Settings,
        outcome: Outcome,
        stopped: Callable[[], bool],
    ) -> None:
        path = self.run.settings.database.value
        async with await Database.open(path, busy_seconds=answers.BUSY_SECONDS) as database:
            writer = self.model.open()
            how = BatchOptions(self.command)
            batch = Batch(database, items, setting(database.schema), writer, how, batch_id=reviewed.batch)
            for item in batch.items:
                if stopped():
                    outcome.failed = CancelledError("Cancelled. Applied drafts stay.")
                    break
                await self._take_one(batch, item, marked=item.summary_id in reviewed.taken)
            await tell(self.run, self.command, batch, writer, self.model, self.rule, outcome)
            await writer.aclose()

    async def _take_one(self, batch: Batch, item: BatchItem, *, marked: bool) -> None:
        """Commit one draft; what is against it is said of the item, and the next one is tried."""
        if not marked and self.rule is not None:
            objections = await batch.objections(item.summary_id, self.rule)
            if objections:
                batch.skip(item.summary_id, " ".join(objections))
                return
        with contextlib.suppress(LcmError):
            await batch.take(item.summary_id)
