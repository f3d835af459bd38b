"""``doctor``: what it says of the recorded databases, and what it mends."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from lcm_host.checks import CHECKS

from lcm_tui.flows import checks as check_settings
from tests.change.support import REAL, dump, search_faults
from tests.cli.support import Result, run
from tests.conftest import DatabaseFactory
from tests.databases import connect, damage_table
from tests.databases import run as change_behind

SOFT = {"C1", "C2", "C3", "C4", "C7", "C9"}
#: A finding that may be damage, and has a fix.
GAP = "UPDATE context_items SET ordinal = ordinal + 50 WHERE conversation_id = 4 AND ordinal >= 8"


def data(result: Result) -> Any:
    return json.loads(result.out)["data"]


def report(path: Path, *more: object) -> Any:
    return data(run("doctor", *more, "--db", path, "--json"))


def ids(document: Any, confidence: str = "broken") -> set[str]:
    return {one["check"] for one in document["findings"] if one["confidence"] == confidence}


@pytest.fixture
def damaged(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3-damaged")


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_a_healthy_database_has_bad_summaries_and_nothing_broken_besides(
    version: str, database_file: DatabaseFactory
):
    result = run("doctor", "--db", database_file(version), "--json")
    found = data(result)
    assert (result.code, result.err) == (6, "")
    assert ids(found) <= SOFT
    assert found["counts"]["broken"] == sum(one["confidence"] == "broken" for one in found["findings"])
    assert found["checks"] == len(CHECKS)
    assert (found["available"], found["databaseReadOnly"], found["clean"]) == (True, True, False)
    assert {one["check"] for one in found["notRun"]} >= {"E16", "G16", "G17"}


@pytest.mark.long
def test_what_is_by_design_is_no_reason_to_fail(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    result = run("doctor", "--all", "--check", "A,B", "--check", "D", "--db", path, "--json")
    found = data(result)
    assert result.code == 0
    assert found["clean"]
    assert found["counts"]["byDesign"] > 0
    assert {one["check"][0] for one in found["findings"]} <= set("ABD")


@pytest.mark.long
def test_findings_carry_rows_a_sentence_and_a_fix(damaged: Path):
    found = {one["check"]: one for one in report(damaged)["findings"] if one["confidence"] == "broken"}
    assert found["A1"] == {
        "id": "A1:4:context_items:4:13",
        "check": "A1",
        "title": "dangling message",
        "severity": "E",
        "confidence": "broken",
        "conversationId": 4,
        "sentence": "1 context item of conversation 4 refers to a missing message, which the engine skips.",
        "rowCount": 1,
        "rows": [{"table": "context_items", "key": [4, 13]}],
        "fix": "drop-dangling-items",
        "withoutFix": None,
    }
    assert {"A1", "A8", "A11", "B1", "B13", "D2", "D14", "E13", "F2", "F4", "F5", "G13"} <= set(found)


@pytest.mark.long
def test_a_file_that_cannot_be_read_in_part_is_said_first(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    damage_table(path, "message_parts")
    result, found = run("doctor", "--db", path), report(path)
    assert result.code == 6
    assert result.out.startswith("The file itself is damaged (G13). The database has ")
    assert found["message"].startswith("The file itself is damaged (G13). ")
    assert found["findings"][0]["check"] == "G13"
    assert "message_parts cannot be read in full (of conversation " in found["findings"][0]["sentence"]
    for chosen in (["1", "--check", "A"], ["--check", "B1"], ["1"]):
        result = run("doctor", *chosen, "--db", path)
        assert result.out.startswith("The file itself is damaged (G13). "), chosen
        assert result.code == 6


@pytest.mark.long
def test_people_read_groups_and_what_was_not_asked(damaged: Path):
    result = run("doctor", "--db", damaged)
    assert result.code == 6
    titles = [
        line for line in result.out.splitlines() if line.startswith(("Broken", "Suspicious", "Skipped"))
    ]
    assert [title.split(" (")[0] for title in titles] == ["Broken", "Suspicious", "Skipped"]
    assert "G16             this file has no table pending_compaction_batches" in result.out
    assert "--fix all previews a fix of 15 findings" in result.out
    assert "Conversation  First  Again" in result.out  # messages that were stored again


@pytest.mark.long
def test_one_conversation_and_large_files_are_not_read_whole(damaged: Path, monkeypatch: pytest.MonkeyPatch):
    one = report(damaged, 4)
    assert {one["conversationId"] for one in one["findings"]} == {4}
    assert {"F1", "F2", "F3", "F4", "F5", "F6", "G13"} <= {one["check"] for one in one["notRun"]}
    assert "F4" in ids(report(damaged, 1, "--all"))
    monkeypatch.setattr(check_settings, "WHOLE_BYTES", 1_000)
    assert "F4" not in ids(report(damaged))
    assert "F4" in ids(report(damaged, "--all"))


@pytest.mark.long
def test_replays_are_told_as_ranges_with_the_tokens_they_waste(database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    change_behind(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
        SELECT conversation_id, seq + 50, role, content, token_count, created_at FROM messages
        WHERE conversation_id = 7 AND seq <= 9 ORDER BY seq""",
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT 7, seq, 'message', message_id FROM messages WHERE conversation_id = 7 AND seq > 50""",
    )
    found = report(path, 7, "--check", "E3")
    [block] = found["repetitions"]
    assert (block["originalSeqs"], block["copySeqs"]) == ([1, 9], [51, 59])
    assert (block["copies"], block["inContext"], block["removable"], block["kind"]) == (9, 9, 9, "block")
    with connect(path) as held:
        wasted = "SELECT sum(token_count) FROM messages WHERE conversation_id = 7 AND seq > 50"
        assert block["tokens"] == held.execute(wasted).fetchone()[0]
    assert "seq 1-9 = 51-59" in run("doctor", 7, "--check", "E3", "--db", path).out
    assert run("doctor", "--fix", "E3", "--apply", "--yes", "--db", path).code == 0
    assert run("doctor", 7, "--check", "E3,A11", "--db", path).code == 0


# -- fixing ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_dry_run_shows_one_plan_and_leaves_no_trace(damaged: Path):
    damaged.chmod(0o400)
    before = {found.name: found.read_bytes() for found in damaged.parent.iterdir()}
    shown = data(run("doctor", "--fix", "all", "--db", damaged, "--json"))
    assert {found.name: found.read_bytes() for found in damaged.parent.iterdir()} == before
    assert (shown["kind"], shown["applied"], shown["left"]) == ("fix", False, [])
    assert shown["rows"]["summary_messages"] == {"insert": 8, "update": 0, "delete": 0}
    assert [one["table"] for one in shown["search"]] == ["messages_fts", "summaries_fts", "summaries_fts_cjk"]
    assert len(shown["findings"]) == 15


@pytest.mark.long
def test_all_that_is_broken_is_mended_at_once_and_taken_back(damaged: Path):
    rows = dump(damaged)
    done = data(run("doctor", "--fix", "all", "--apply", "--yes", "--db", damaged, "--json"))
    assert done["applied"]
    assert done["remaining"] == []
    assert {one["table"]: one["rows"] for one in done["search"]} == {
        "messages_fts": 1,
        "summaries_fts": 10,
        "summaries_fts_cjk": 10,
    }
    assert ids(report(damaged)) == {"C1", "C2", "C3", "C4", "C7"}
    assert not search_faults(damaged)
    assert run("history", "undo", done["operationId"], "--apply", "--yes", "--db", damaged).code == 0
    assert dump(damaged) == rows


@pytest.mark.long
def test_what_only_may_be_damage_is_mended_when_it_is_named(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    rows = dump(path)
    change_behind(path, GAP)
    [finding] = [one for one in report(path)["findings"] if one["check"] == "A8"]
    assert finding["confidence"] == "suspicious"
    assert "nothing to fix" in run("doctor", "--fix", "all", "--db", path).out.lower()
    assert run("doctor", "--fix", finding["id"], "--apply", "--yes", "--db", path).code == 0
    assert dump(path) == rows


def test_a_fix_tells_what_was_counted_wrong_from_the_sums_above(damaged: Path):
    shown = run("doctor", "--fix", "D1", "--db", damaged).out
    assert "Fix of conversation 1: correct 10 summaries, correct 7 sums above them" in shown


@pytest.mark.long
def test_search_tables_alone_make_no_operation(database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    change_behind(path, "DELETE FROM messages_fts WHERE rowid < 5")
    shown = run("doctor", "--fix", "F1", "--db", path)
    assert shown.code == 0
    assert "--apply updates the search tables" in shown.out
    done = data(run("doctor", "--fix", "F1", "--apply", "--yes", "--db", path, "--json"))
    assert done["search"] == [{"table": "messages_fts", "rows": 4}]
    assert done["remaining"] == []
    assert not search_faults(path)
    assert data(run("history", "list", "--db", path, "--json"))["items"] == []


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--fix", "Z9"], 2, "There is no check Z9"),
        (["--fix", "A1:4:context_items:99"], 3, "No finding has the id"),
        (["--fix", "C1"], 9, "has no fix"),
        (["--apply"], 2, "--apply requires --fix"),
        (["--keep-sources"], 2, "--keep-sources requires --fix"),
        (["99"], 3, "99"),
        (["--check", "A99"], 2, "There is no check A99"),
        (["--fix", "A1", "--apply"], 9, "Re-run with --yes"),
        (["--fix", ""], 2, "--fix needs the id"),
    ],
)
def test_what_is_refused_says_why(damaged: Path, arguments: list[str], code: int, words: str):
    before = dump(damaged)
    result = run("doctor", *arguments, "--db", damaged)
    assert result.code == code
    assert words in result.err
    assert result.err.count("\n") == 1
    assert dump(damaged) == before


def test_a_check_that_finds_nothing_has_nothing_to_fix(database_file: DatabaseFactory):
    result = run("doctor", "--fix", "A4", "--db", database_file("0.15.3"))
    assert (result.code, result.err) == (0, "")
    assert "There is nothing to fix." in result.out


def test_split_sessions_are_left_to_merge(database_file: DatabaseFactory):
    result = run("doctor", "--fix", "G4", "--db", database_file("0.8.2"))
    assert result.code == 9
    assert "lcm-tui merge" in result.err


@pytest.mark.long
def test_ids_of_the_database_reach_no_terminal_unsafe(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    change_behind(
        path,
        "UPDATE context_items SET summary_id = 'sum_' || char(27) || '[31m' WHERE summary_id IS NOT NULL",
    )
    assert "\x1b" not in run("doctor", "--db", path).out
    assert "\x1b" not in run("doctor", "--fix", "A2", "--db", path).out


@pytest.mark.long
def test_what_all_leaves_alone_is_counted(damaged: Path):
    shown = run("doctor", "--fix", "all", "--db", damaged).out
    assert "`all` fixes broken findings only; 2 suspicious findings have a fix too" in shown
    done = run("doctor", "--fix", "all", "--apply", "--yes", "--db", damaged).out
    assert "1 suspicious finding has a fix too: name a check (D1)" in done
    rest = run("doctor", "--fix", "D1", "--apply", "--yes", "--db", damaged).out
    assert "suspicious" not in rest


def test_what_a_fix_would_lose_is_left_and_said(damaged: Path):
    """Links of a summary that is gone and stands in a context: without them nobody knows what stood there."""
    with sqlite3.connect(damaged) as connection:
        connection.execute("DELETE FROM summaries WHERE summary_id = 'sum_595d3b77235f8e52'")
    connection.close()
    result = run("doctor", "--db", damaged, "--fix", "B4")
    assert result.code == 0
    assert "fix that (A2) first" in " ".join(result.out.split())
