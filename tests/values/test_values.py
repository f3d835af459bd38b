"""A value that its column does not promise takes no command down: an answer, or one sentence and its code.

The short form puts some kinds of values into every column of a table, each in a row of its own, of one
recorded database; the long one all kinds into all of them, and then column by column.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.conftest import WRITTEN, DatabaseFactory
from tests.databases import connect
from tests.support import VERSIONS
from tests.values.commands import Case, cases, faults
from tests.values.planting import VALUES, Place, fullest, places, plant, sprinkle

#: What the short form asks, of each file another part.
SHORT = 5


def prepared(path: Path) -> Path:
    """A file with something in its history."""
    with connect(path) as database:
        top = database.execute(
            "SELECT summary_id FROM summaries WHERE conversation_id = ? AND depth > 0 ORDER BY depth DESC",
            (fullest(path),),
        ).fetchone()
    if top is not None:
        made = run("dissolve", fullest(path), "--summary", top[0], "--apply", "--yes", "--db", path)
        assert made.code == 0, made.err
    return path


def copied(base: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return Path(shutil.copyfile(base, folder / "lcm.db"))


def told(path: Path, asked: list[Case], what: str, numbers: Iterator[int]) -> list[str]:
    os.utime(path, (WRITTEN, WRITTEN))
    return [f"{what}: {fault}" for case in asked for fault in faults(path, case, json=next(numbers) % 3 == 0)]


@pytest.mark.long
def test_one_wrong_value_takes_nothing_down(database_copy: DatabaseFactory, tmp_path: Path):
    base = prepared(database_copy("0.15.3"))
    asked, numbers = cases(base), iter(range(10**9))
    tables = sorted({place.table for place in places(base)})
    jobs = [(table, name) for table in tables for name in VALUES]
    chosen = random.Random(20261122).sample(jobs, 10)
    found: list[str] = []
    for number, (table, name) in enumerate(chosen):
        path = copied(base, tmp_path / "run")
        sprinkle(path, table, VALUES[name])
        found += told(path, asked[number % SHORT :: SHORT], f"{name} in {table}", numbers)
    assert not found, "\n\n".join(found[:20])


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_no_value_of_any_table_takes_anything_down(
    version: str, database_copy: DatabaseFactory, tmp_path: Path
):
    base = prepared(database_copy(version))
    asked, numbers = cases(base), iter(range(10**9))
    found: list[str] = []
    for table in sorted({place.table for place in places(base)}):
        for name, value in VALUES.items():
            path = copied(base, tmp_path / "run")
            if sprinkle(path, table, value):
                found += told(path, asked, f"{name} in {table}", numbers)
    assert not found, "\n\n".join(found[:20])


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_no_value_of_any_column_takes_anything_down(
    version: str, database_copy: DatabaseFactory, tmp_path: Path
):
    base = prepared(database_copy(version))
    asked, numbers = cases(base), iter(range(10**9))
    found: list[str] = []
    for number, place in enumerate(places(base)):
        for name in list(VALUES)[number % 4 :: 4]:
            path = copied(base, tmp_path / "run")
            if plant(path, place, VALUES[name]):
                found += told(
                    path, asked[number % 3 :: 3], f"{name} in {place.table}.{place.column}", numbers
                )
    assert not found, "\n\n".join(found[:20])


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (Place("messages", "seq"), "infinite below"),  # the previous context went round in a circle
        pytest.param(Place("messages", "seq"), "text", marks=pytest.mark.long),
        pytest.param(Place("context_items", "ordinal"), "null", marks=pytest.mark.long),
        (Place("summaries", "summary_id"), "blob"),
        pytest.param(Place("summary_messages", "message_id"), "null", marks=pytest.mark.long),
        pytest.param(Place("messages", "identity_hash"), "negative", marks=pytest.mark.long),
        # The doctor counted up to it.
        pytest.param(Place("message_parts", "message_id"), "greatest", marks=pytest.mark.long),
        pytest.param(Place("message_parts", "ordinal"), "null", marks=pytest.mark.long),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.table}.{value.column}",
)
def test_what_once_took_commands_down(
    place: Place, value: str, database_copy: DatabaseFactory, tmp_path: Path
):
    path = database_copy("0.15.3")
    asked = [one for one in cases(path) if one.words[0] in ("doctor", "context", "summaries", "messages")]
    assert plant(path, place, VALUES[value])
    found = told(path, asked, value, iter(range(10**9)))
    assert not found, "\n\n".join(found)
