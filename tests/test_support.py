import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import VERSIONS, packed_database, recorded


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_database_is_whole(database_file: Callable[[str], Path], version: str):
    database = sqlite3.connect(f"{database_file(version).as_uri()}?immutable=1", uri=True)
    assert database.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    assert database.execute("SELECT count(*) FROM messages").fetchone()[0] > 200
    database.close()


def test_the_damaged_database_differs_from_the_healthy_one_where_it_is_said_to(
    database_file: Callable[[str], Path],
):
    changes = recorded("lcm-0.15.3-damaged.changes.json")
    changed = {entry["summary_id"] for entry in changes if "summary_id" in entry}
    contents = []
    for version in ("0.15.3", "0.15.3-damaged"):
        database = sqlite3.connect(f"{database_file(version).as_uri()}?immutable=1", uri=True)
        contents.append(dict(database.execute("SELECT summary_id, content FROM summaries")))
        database.close()
    healthy, damaged = contents
    different = {key for key in healthy if key in damaged and healthy[key] != damaged[key]}
    assert different == changed


def test_an_unknown_version_names_the_known_ones():
    with pytest.raises(ValueError, match=r"0\.1\.2, 0\.3\.0"):
        packed_database("9.9")


def test_copies_are_private_and_lie_alone(database_copy: Callable[[str], Path]):
    one, two = database_copy("0.1.2"), database_copy("0.1.2")
    one.write_bytes(b"")
    assert two.stat().st_size > 0
    assert list(two.parent.iterdir()) == [two]


def test_the_environment_is_clean():
    assert time.tzname[0] == "UTC"
    assert list(Path.home().iterdir()) == []
    assert not [name for name in os.environ if name.startswith(("LCM_", "ANTHROPIC_", "XDG_", "TEXTUAL_C"))]


@pytest.mark.parametrize("run", [1, 2])
def test_what_a_test_sets_is_gone_in_the_next(run: int):
    assert "LCM_DATABASE_PATH" not in os.environ
    os.environ["LCM_DATABASE_PATH"] = f"left over from {run}"
