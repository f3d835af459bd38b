"""Every check finds the damage that it is for, names exactly its rows, and says nothing of it otherwise."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.checks import CHECKS, Limits, run_checks
from lcm_core.findings import Finding
from lcm_core.store.database import Database

from tests.core.checks import plants_graph, plants_rows, plants_text
from tests.core.checks.planting import PLANTS, Plant

FILLED_BY = (plants_graph, plants_rows, plants_text)  # importing them fills PLANTS

#: After the recorded conversations; the clock of the machine does not matter.
NOW = datetime(2026, 3, 20, tzinfo=UTC)

_healthy: dict[bool, frozenset[Finding]] = {}


async def findings(path: Path, *, whole_file: bool) -> list[Finding]:
    async with await Database.open(path) as database:
        report = await run_checks(database, whole_file=whole_file, limits=Limits(NOW))
    return list(report.findings())


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: Callable[[str], Path], database_file: Callable[[str], Path]
) -> None:
    whole = plant.check in {"F1", "F2", "F3", "F4", "F5", "F6", "G13"}
    if whole not in _healthy:
        _healthy[whole] = frozenset(await findings(database_file("0.15.3"), whole_file=whole))
    path = database_copy("0.15.3")
    connection = sqlite3.connect(path)
    rows = plant.make(connection)
    connection.commit()
    connection.close()

    fresh = [one for one in await findings(path, whole_file=whole) if one not in _healthy[whole]]

    mine = [one for one in fresh if (one.check, one.confidence) == (plant.check, plant.confidence)]
    assert len(mine) == 1, [(one.check, one.confidence, one.sentence) for one in fresh]
    if rows is not None:
        assert list(mine[0].rows) == rows
        assert mine[0].row_count == len(rows)
    assert {one.check for one in fresh} == {plant.check, *plant.also}


def test_every_check_has_damage_that_it_finds() -> None:
    """Those of files and transcripts are held by `test_recorded.py`, that of space by `test_rules.py`."""
    elsewhere = {"E16", "E17", "E19", "G6", "G7", "G14"}
    assert {plant.check for plant in PLANTS} | elsewhere == set(CHECKS)
