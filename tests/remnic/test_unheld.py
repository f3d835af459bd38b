"""What Remnic cannot hold of a damaged database: each row that does not come back is listed, no other is."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.remnic.records import Report, Why

from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database, query
from tests.remnic.store import new_remnic
from tests.remnic.support import differences, exported, imported, previewed
from tests.remnic.test_round_trip import _conversations, _fill

#: How a row of each table is named in the list, in plain SQL.
NAMES = {
    "messages": "SELECT CAST(message_id AS TEXT) FROM messages",
    "summaries": "SELECT CAST(summary_id AS TEXT) FROM summaries WHERE summary_id IS NOT NULL",
    "message_parts": "SELECT part_id || ' of message ' || message_id FROM message_parts",
    "summary_messages": "SELECT summary_id || ' to ' || message_id FROM summary_messages",
    "summary_parents": "SELECT summary_id || ' to ' || parent_summary_id FROM summary_parents",
    "context_items": """SELECT coalesce(summary_id, message_id, 'NULL') || ' at ordinal '
        || ordinal || ' of conversation ' || conversation_id FROM context_items""",
}
DAMAGES = (
    "DELETE FROM messages WHERE message_id = (SELECT message_id FROM messages {})",
    "DELETE FROM summaries WHERE summary_id = (SELECT summary_id FROM summaries {})",
    "DELETE FROM conversations WHERE conversation_id = (SELECT conversation_id FROM conversations {})",
    "DELETE FROM summary_messages WHERE summary_id = (SELECT summary_id FROM summaries {})",
    "DELETE FROM summary_parents WHERE summary_id = (SELECT summary_id FROM summaries {})",
    "UPDATE messages SET seq = 'x' || seq WHERE message_id = (SELECT message_id FROM messages {})",
    "UPDATE messages SET conversation_id = 1 + conversation_id % 2, seq = seq + 100 "
    "WHERE message_id = (SELECT message_id FROM messages {})",
    "UPDATE summaries SET conversation_id = 1 + conversation_id % 2 "
    "WHERE summary_id = (SELECT summary_id FROM summaries {})",
    "UPDATE OR IGNORE summary_parents SET parent_summary_id = 'sum_gone' WHERE rowid = "
    "(SELECT rowid FROM summary_parents {})",
    "UPDATE context_items SET summary_id = 'sum_gone', message_id = NULL, item_type = 'summary' "
    "WHERE rowid = (SELECT rowid FROM context_items {})",
    "UPDATE context_items SET message_id = NULL, summary_id = NULL WHERE rowid = "
    "(SELECT rowid FROM context_items {})",
)
SOME = "ORDER BY rowid LIMIT 1 OFFSET {}"


def lost(source: Path, back: Path) -> dict[str, list[str]]:
    """The rows that did not come back, by table."""
    found = {}
    for table, sql in NAMES.items():
        there = {name for (name,) in query(back, sql)}
        found[table] = sorted(name for (name,) in query(source, sql) if name not in there)
    return found


def listed(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {table: [] for table in NAMES}
    for (table, why), rows in report.unheld.items():
        if why is not Why.WRONG_TYPE:
            found[table] += rows.rows
    return {table: sorted(rows) for table, rows in found.items()}


def judge(source: Path, folder: Path) -> Report:
    """Import, export, and compare what was lost with what was listed."""
    remnic, back = new_remnic(folder / "lcm.sqlite"), folder / "back.db"
    expected = previewed(source, remnic)
    report = imported(source, remnic)
    assert report == expected
    assert [one for one in differences(source, remnic) if one.kind != "extra"] == []
    exported(remnic, back)
    assert lost(source, back) == listed(report)
    return report


@pytest.mark.long
def test_each_row_of_the_damaged_database_is_named(database_file: DatabaseFactory, tmp_path: Path):
    source = database_file("0.15.3-damaged")
    report = judge(source, tmp_path)
    assert {table: len(rows) for table, rows in listed(report).items()} == {
        "messages": 0,
        "summaries": 1,
        "message_parts": 1,
        "summary_messages": 0,
        "summary_parents": 1,
        "context_items": 1,
    }
    words = ("--src", source, "--remnic", tmp_path / "lcm.sqlite")
    for line in (("import", *words), ("verify", *words), ("import", *words, "--dry-run")):
        said = command("remnic", *line).out
        assert "1 row of message_parts cannot be held (the message is missing or skipped)" in said
        assert "286 at ordinal 13 of conversation 4" in said
        held = command("remnic", *line, "--json").data["notHeld"]
        assert {one["table"]: one["count"] for one in held}["context_items"] == 1
    again = ("export", "--remnic", tmp_path / "lcm.sqlite", "--db", tmp_path / "new.db", "--create")
    assert "1 context item is skipped: the message or summary is missing" in command("remnic", *again).out


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
        ("messages", Why.WRONG_TYPE): [str(said)],
        ("summaries", Why.NO_ID): ["row 2"],
        ("message_parts", Why.NO_MESSAGE): [f"part-{said}-0 of message 999"],
    }
    told = command("remnic", "import", "--src", source, "--remnic", tmp_path / "lcm.sqlite").out
    assert 'no place for 1 focus briefs, 1 large files and 1 table of "others"' in told


def damaged(described: list[dict[str, Any]], seed: int, number: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        source = new_database(Path(folder) / "lcm.db")
        with building(source, checks=False) as rows:
            _fill(rows, described)
            for sql in chance.choices(DAMAGES, k=number):
                rows.execute(sql.format(SOME.format(chance.randint(0, 4))))
        judge(source, Path(folder))


@pytest.mark.long
@settings(max_examples=6)
@given(st.lists(_conversations(), min_size=2, max_size=3), st.integers(0, 10**6), st.integers(1, 6))
def test_what_does_not_come_back_is_listed(described: list[dict[str, Any]], seed: int, number: int):
    damaged(described, seed, number)


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(_conversations(), min_size=2, max_size=4), st.integers(0, 10**6), st.integers(1, 12))
def test_what_does_not_come_back_is_listed_many_times(
    described: list[dict[str, Any]], seed: int, number: int
):
    damaged(described, seed, number)
