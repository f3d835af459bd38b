"""How tests of recall ask the tools: over a recorded file, in one read, at a fixed time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from lcm_core.api import Database
from lcm_core.store.search import RecalledRows
from lcm_recall.queries import RecallSettings

T = TypeVar("T")

#: The clock of the recordings.
NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def settings_in(home: Path, **values: object) -> RecallSettings:
    """Settings with the files of a state folder, in UTC."""
    return RecallSettings(home / "lcm-files", home, ZoneInfo("UTC"), **values)


async def recall(path: Path, ask: Callable[[RecalledRows], T]) -> T:
    """What *ask* finds in one read transaction."""

    async def load(reader) -> T:
        return await reader.run(lambda rows: ask(RecalledRows(rows, reader.schema)))

    async with await Database.open(path) as database:
        return await database.read(load)
