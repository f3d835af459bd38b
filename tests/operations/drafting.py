"""What tests of drafts share: settings, a writer that does as it is told, batches on copies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from lcm_core.api import Database, plan_undo_batch
from lcm_core.change.commit import commit_plan
from lcm_core.checks.running import run_checks
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.batch import Batch, BatchOptions
from lcm_core.operations.drafting import DraftSetting
from lcm_core.operations.repair import find_repair
from lcm_core.writers.request import SummaryReply, Usage
from lcm_core.writers.source import Rendering

CONVERSATION = 1
VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3")
#: What a change of a text must leave right.
NUMBERS = {"D1", "D2", "D3", "D4", "D7", "D11", "D12", "F3", "F5"}

Answer = SummaryReply | BaseException


def setting_of(schema) -> DraftSetting:
    """How a database is drafted for, by the defaults of its engine."""
    rules = engine_rules(schema)
    return DraftSetting(Rendering(rules, UTC))


def good(text: str = "Decided to keep the timeout.", **changed: Any) -> SummaryReply:
    """An answer that can stand as a draft."""
    reply = {"model": "test-model", "usage": Usage(100, 10, 0.01), **changed}
    return SummaryReply(f"{text}\nExpand for details about: the rest", **reply)


@dataclass(slots=True)
class Writer:
    """Answers by its script (the last step stands for all that follow), while something else happens."""

    script: list[Answer] = field(default_factory=list)
    meanwhile: Any = None
    calls: Any = field(default_factory=list)
    most: int = 0  #: calls in flight at once
    flying: int = 0

    async def __call__(self, request, /) -> SummaryReply:
        number = len(self.calls)
        self.calls.append(request)
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(0)
            if self.meanwhile is not None:
                await self.meanwhile(request)
        finally:
            self.flying -= 1
        answer = self.script[min(number, len(self.script) - 1)] if self.script else good(f"Text {number}.")
        if isinstance(answer, BaseException):
            raise answer
        return answer


def states(batch: Batch):
    """How far each item has come."""
    return {item.summary_id: item.state for item in batch.items}


async def repair_of(database: Database, conversation_id=CONVERSATION):
    """What there is to repair."""
    return await database.read(find_repair, conversation_id)


def batch_of(database: Database, items, writer: Any, *, keep: Any = None, **options: Any) -> Batch:
    """A batch with the settings of the file."""
    extra = {} if keep is None else {"keep": keep}
    return Batch(database, items, setting_of(database.schema), writer, BatchOptions(**options), **extra)


async def taken_back(database: Database, batch: str) -> None:
    """Undo all of a batch."""
    for plan in await database.read(plan_undo_batch, batch):
        await commit_plan(database, plan)


async def faults_of(path: Path) -> set[str]:
    """Sentences of the findings about numbers, lists of files and search tables."""
    async with await Database.open(path) as database:
        report = await run_checks(database, only=NUMBERS)
        return {f"{one.check} {one.sentence}" for one in report.findings()}


def bad_ids(repair):
    """The summaries that are to be repaired."""
    return [one.summary.summary_id for one in repair.bad]
