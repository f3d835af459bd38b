"""``context --compare``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.support import run
from tests.conftest import DatabaseFactory


def test_two_budgets_of_one_conversation(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    data = run("context", "1", "--budget", "3500", "--compare", "budget=128k", "--db", path, "--json").data
    assert (data["first"]["budget"], data["second"]["budget"]) == (3_500, 128_000)
    assert (data["first"]["messages"], data["second"]["messages"]) == (17, 22)
    assert data["messages"]["onlyFirst"] == data["messages"]["changed"] == []
    assert [one["ordinal"] for one in data["messages"]["onlySecond"]] == [0, 1, 2, 3, 21]
    assert data["messages"]["same"] == 17
    assert data["lines"]["removed"] == 0
    assert data["diff"][0].startswith("@@ -")
    assert sum(line.startswith("+") for line in data["diff"]) == data["lines"]["added"]


def test_a_backup_shows_how_it_was(database_file: DatabaseFactory, database_copy: DatabaseFactory):
    before, now = database_file("0.15.3"), database_copy("0.15.3")
    with closing(sqlite3.connect(now)) as connection:
        connection.execute("UPDATE summaries SET content = 'short' WHERE summary_id = 'sum_bb692ab9b90b6a49'")
        connection.commit()
    text = run("context", "1", "--db", before, "--compare", f"db={now}").out
    assert f"in {now}" in text
    assert "1 message: sum_bb692ab9b90b6a49" in text
    assert "+short" in text
    same = run("context", "2", "--db", before, "--compare", f"db={now}").out
    assert "Both send exactly the same." in same


def test_two_engines_of_one_conversation(database_file: DatabaseFactory):
    """The tools of the current turn are summarised: 1.1 sends that in the assistant's role."""
    asked = ("context", "7", "--db", database_file("1.1.0-shapes"), "--rules", "1.0", "--compare")
    text = run(*asked, "rules=1.1").out
    assert "conversation 7, rules 1.0, 128,000 tokens: 3 messages, 154 tokens" in text
    assert "conversation 7, rules 1.1, 128,000 tokens: 3 messages, 162 tokens" in text
    assert "-== user · sum_aaaaaaaaaaaaaaa2 d0\n+== assistant · sum_aaaaaaaaaaaaaaa2 d0" in text
    assert "rules" not in run(*asked, "rules=1.0").out


def test_what_is_not_there_or_makes_no_sense(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    for other in ("99", "no such title"):
        assert run("context", "1", "--compare", f"conversation={other}", "--db", path).code == 3
    refused = run("context", "1", "--compare", "budget=lots", "--db", path)
    assert (refused.code, refused.err) == (
        2,
        "--compare budget must be a number of tokens such as 128000 or 128k.\n",
    )
    assert run("context", "1", "--db", path, "--compare", f"db={path.with_name('none.db')}").code == 3


def test_a_rule_for_a_session_changes_its_tail_wherever_it_is_shown(
    database_file: DatabaseFactory, tmp_path: Path
) -> None:
    """docs/spec/thresholds.md, "Which rule applies"."""
    path, config = database_file("0.15.3"), tmp_path / "openclaw.json"
    rule = {"match": {"sessionPattern": "agent:main:main"}, "contextThreshold": 0.5, "freshTailCount": 2}
    plugin = {"lossless-claw": {"config": {"contextThresholdOverrides": [rule]}}}
    config.write_text(json.dumps({"plugins": {"entries": plugin}}))
    where = ("--db", path, "--config", config, "--json")
    assembled = run("context", "1", "--assembled", *where).data["metadata"]["freshTailCount"]
    compared = run("context", "1", "--compare", "at=now", *where).data["first"]["metadata"]["freshTailCount"]
    listed = run("messages", "tail", "1", *where).data["messages"]
    plain = run("messages", "tail", "1", "--db", path, "--json").data["messages"]
    assert assembled == compared == len(listed) == 8, "two at least, and their turn whole"
    assert len(plain) == 18
