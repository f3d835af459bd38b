"""What Remnic cannot hold of a damaged database is listed, row by row."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database
from tests.remnic.store import new_remnic
from tests.remnic.support import differences, imported, previewed


def listed(report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for (table, why), rows in report.unheld.items():
        if why != "a value has another type than its column, and is converted":
            found[table] += rows.rows
    return {table: sorted(rows) for table, rows in found.items()}


@pytest.mark.long
def test_each_row_of_the_damaged_database_is_named(database_file: DatabaseFactory, tmp_path: Path):
    source = database_file("0.15.3-damaged")
    remnic = new_remnic(tmp_path / "lcm.sqlite")
    expected = previewed(source, remnic)
    report = imported(source, remnic)
    assert report == expected
    assert [one for one in differences(source, remnic) if one.kind != "extra"] == []
    assert {table: len(rows) for table, rows in listed(report).items()} == {
        "summaries": 1,
        "message_parts": 1,
        "summary_parents": 1,
        "context_items": 1,
    }
    words = ("--db", source, "--remnic", tmp_path / "lcm.sqlite")
    for line in (("import", *words), ("list", "--verify", *words)):
        said = command("remnic", *line).out
        assert "1 row of message_parts cannot be held (the message is missing or skipped)" in said
        assert "286 at ordinal 13 of conversation 4" in said
        held = command("remnic", *line, "--json").data["notHeld"]
        assert {one["table"]: one["count"] for one in held}["context_items"] == 1


def test_values_of_another_type_and_whole_tables_are_told(tmp_path: Path):
    source = new_database(tmp_path / "lcm.db")
    with building(source, checks=False) as rows:
        rows.conversation(1)
        said = rows.message(1, "x", token_count="many")
        rows.execute("UPDATE messages SET content = x'6162' WHERE message_id = ?", said)
        rows.summary(1, "sum_1", messages=[said])
        rows.summary(1, None, messages=())
        rows.file(1, "file_1", "/x")
        rows.part(said)
        rows.execute("UPDATE message_parts SET message_id = 999")
        rows.insert("focus_briefs", brief_id="b", conversation_id=1, prompt="", content="", status="draft")
        rows.execute('CREATE TABLE "table of ""others""" AS SELECT 1 AS conversation_id')
    report = previewed(source, new_remnic(tmp_path / "lcm.sqlite"))
    assert {key: one.rows for key, one in report.unheld.items()} == {
        ("messages", "a value has another type than its column, and is converted"): [str(said)],
        ("summaries", "the id is no text"): ["row 2"],
        ("message_parts", "the message is missing or skipped"): [f"part-{said}-0 of message 999"],
    }
    told = command("remnic", "import", "--db", source, "--remnic", tmp_path / "lcm.sqlite").out
    assert 'no place for 1 focus briefs, 1 large files and 1 table of "others"' in told
