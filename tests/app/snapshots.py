"""Snapshots of contexts, as an engine that ran left them, for tests of the app."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lcm_core.api import Database, EngineSettings
from lcm_core.change.snapshots import keep_snapshot, snapshot_of
from lcm_core.operations.assembly import assemble_context, settings_for

FIRST = datetime(2026, 3, 4, 12, 11, tzinfo=UTC)


async def keep(path: Path, number: int, budgets: Sequence[int]) -> list[str]:
    """Keep a snapshot of a conversation for each budget, an hour apart; their ids, the newest first."""
    kept: list[str] = []
    async with await Database.open(path) as database:
        for at, budget in enumerate(budgets):
            settings = settings_for(EngineSettings(), budget)
            owner = number
            made = await database.read(assemble_context, owner, settings, zone=UTC, now=FIRST)
            one = snapshot_of(made, owner, settings, zone=None, now=FIRST + timedelta(hours=at))
            keep_snapshot(path, one)
            kept.insert(0, one.id)
    return kept
