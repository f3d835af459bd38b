"""The app's screens open on files with values that no column promises."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.health import HealthScreen
from tests.app.support import conversation, go_to, open_app, settled
from tests.conftest import WRITTEN, DatabaseFactory
from tests.values.planting import VALUES, fullest, places, sprinkle


def jobs(path: Path) -> list[tuple[str, str]]:
    return [(table, name) for table in sorted({one.table for one in places(path)}) for name in VALUES]


async def walked(path: Path, number: int) -> None:
    """Open the screens of a conversation one after the other and go over some of their rows."""
    os.utime(path, (WRITTEN, WRITTEN))
    async with open_app(path) as pilot:
        chosen = conversation(pilot, number)
        for kind in (ConversationScreen, DagScreen, ContextScreen, HealthScreen):
            await go_to(pilot, kind(chosen))
            await settled(pilot)
            await pilot.press("end", "up", "up", "home", "down", "right", "down")
            await settled(pilot)
            assert pilot.app._exception is None
            pilot.app.pop_screen()
            await pilot.pause()


@pytest.mark.long
async def test_screens_open_on_wrong_values(database_file: DatabaseFactory, tmp_path: Path):
    base = database_file("0.15.3")
    for place, (table, name) in enumerate(random.Random(22).sample(jobs(base), 2)):
        path = Path(shutil.copyfile(base, tmp_path / f"{place}.db"))
        sprinkle(path, table, VALUES[name])
        await walked(path, fullest(path))


@pytest.mark.long
@pytest.mark.parametrize("name", VALUES)
async def test_screens_open_on_every_wrong_value(name: str, database_file: DatabaseFactory, tmp_path: Path):
    base = database_file("0.15.3")
    for table in sorted({one.table for one in places(base)}):
        path = Path(shutil.copyfile(base, tmp_path / f"{table}.db"))
        if sprinkle(path, table, VALUES[name]):
            await walked(path, fullest(path))
