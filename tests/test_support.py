import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.checks.running import run_checks

from tests.conftest import pytest_collection_modifyitems
from tests.databases import building, column, new_database, query, value
from tests.support import VERSIONS, packed_database, recorded


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_database_is_whole(database_file: Callable[[str], Path], version: str):
    path = database_file(version)
    assert value(path, "PRAGMA quick_check") == "ok"
    assert value(path, "SELECT count(*) FROM messages") > 200


def test_the_damaged_database_differs_from_the_healthy_one_where_it_is_said_to(
    database_file: Callable[[str], Path],
):
    changes = recorded("lcm-0.15.3-damaged.changes.json")
    changed = {entry["summary_id"] for entry in changes if "summary_id" in entry}
    healthy, damaged = (
        dict(query(database_file(version), "SELECT summary_id, content FROM summaries"))
        for version in ("0.15.3", "0.15.3-damaged")
    )
    different = {key for key in healthy if key in damaged and healthy[key] != damaged[key]}
    assert different == changed


def test_an_unknown_version_says_where_the_known_ones_are():
    with pytest.raises(ValueError, match="see VERSIONS and VERSIONS_1_1"):
        packed_database("9.9")


class Case:
    """As much of a collected test as the choice of cases looks at."""

    def __init__(self, nodeid: str, **marks: pytest.Mark):
        self.nodeid = nodeid
        self.marks = marks

    def get_closest_marker(self, name: str):
        return self.marks.get(name)

    def add_marker(self, mark: pytest.MarkDecorator):
        self.marks[mark.name] = mark.mark


def test_the_short_form_runs_some_cases_spread_over_all_and_every_other_test():
    few, long = pytest.mark.cases(3).mark, pytest.mark.long.mark
    cases = [Case(f"f.py::test[{number}]", cases=few) for number in range(7)]
    others = [Case("f.py::other"), Case("f.py::one", cases=few), Case("f.py::test[7]", cases=few, long=long)]
    pytest_collection_modifyitems([*cases, *others])
    short = [case.nodeid for case in (*cases, *others) if "long" not in case.marks]
    assert short == ["f.py::test[0]", "f.py::test[2]", "f.py::test[4]", "f.py::other", "f.py::one"]


def test_copies_are_private_and_lie_alone(database_copy: Callable[[str], Path]):
    one, two = database_copy("0.1.2"), database_copy("0.1.2")
    one.write_bytes(b"")
    assert two.stat().st_size > 0
    assert list(two.parent.iterdir()) == [two]


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3", None])
async def test_what_the_builder_adds_has_the_structure_of_the_engine(
    version: str | None, database_copy: Callable[[str], Path], tmp_path: Path
):
    path = new_database(tmp_path / "lcm.db") if version is None else database_copy(version)
    with building(path) as rows:
        number = rows.conversation(session_id="built")
        said = [rows.message(number, f"Message {one}.", in_context=False) for one in range(8)]
        for message in said:
            rows.part(message)
        for leaf, made_from in (("sum_000000000000000a", said[:3]), ("sum_000000000000000b", said[3:6])):
            rows.summary(number, leaf, messages=made_from)
        rows.summary(
            number,
            "sum_000000000000000c",
            sources=["sum_000000000000000a", "sum_000000000000000b"],
            in_context=True,
            descendant_count=2,
        )
        for message in said[6:]:
            rows.item(number, message)
        rows.part(rows.message(number, "The last one."))
    assert column(path, "SELECT ordinal FROM context_items WHERE conversation_id = ?", number) == [0, 1, 2, 3]
    async with await Database.open(path) as database:
        report = await run_checks(database)
    structure = {"A", "B", "E"}  # context, lineage and messages; counters and times are the test's own matter
    found = [one for one in report.findings() if one.conversation_id == number and one.check[0] in structure]
    assert [one.sentence for one in found] == []


def test_the_environment_is_clean():
    assert time.tzname[0] == "UTC"
    assert list(Path.home().iterdir()) == []
    assert not [name for name in os.environ if name.startswith(("LCM_", "ANTHROPIC_", "XDG_", "TEXTUAL_C"))]


@pytest.mark.parametrize("run", [1, 2])
def test_what_a_test_sets_is_gone_in_the_next(run: int):
    assert "LCM_DATABASE_PATH" not in os.environ
    os.environ["LCM_DATABASE_PATH"] = f"left over from {run}"
