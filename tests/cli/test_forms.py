"""The forms that other tools collect: SARIF and JUnit of the doctor, CSV of lists; with hostile texts."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lcm_tui.cli.list_columns import COLUMNS
from lcm_tui.cli.machine import json_text
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.databases import run as change_behind

#: A control, a colour, markup, a bidi override, a line break, a byte that is no UTF-8: in a key of a finding.
HOSTILE = "sum_\x07\x1b[31m<b>&\u202e\n]]>\ufffe"


#: A summary that is none: it is its truncated source.
TRUNCATED = "sum_06d84ef9c70348dc"


@pytest.fixture
def hostile(database_copy: DatabaseFactory) -> Path:
    """A database with damages, one of them in a summary whose id is hostile."""
    path = database_copy("0.15.3-damaged")
    with connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE summaries SET summary_id = ? WHERE summary_id = ?", (HOSTILE, TRUNCATED))
    return path


def doctor(path: Path, form: str, *more: str) -> str:
    result = run("doctor", "--db", path, "--format", form, *more)
    assert (result.code, result.err) == (6, "")
    return result.out


def test_sarif_holds_what_the_format_requires(hostile: Path) -> None:
    """SARIF 2.1.0, sections 3.13 to 3.29, by what readers such as code scanning insist on."""
    text = doctor(hostile, "sarif")
    log = json.loads(text)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (ran,) = log["runs"]
    driver = ran["tool"]["driver"]
    assert driver["name"] == "lcm-tui"
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules) == 126
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
    assert ran["artifacts"][0]["location"]["uri"] == hostile.as_uri()
    for one in ran["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["level"] in ("error", "warning", "note", "none")
        assert (one["kind"] == "informational") is (one["level"] == "none"), "3.27.10: no failure, no level"
        assert one["message"]["text"]
        assert one["partialFingerprints"]["findingId/v1"]
    (invocation,) = ran["invocations"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", invocation["startTimeUtc"])
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 6)
    for note in invocation["toolExecutionNotifications"]:
        assert rules[note["associatedRule"]["index"]]["id"] == note["associatedRule"]["id"]
    found = json.loads(run("doctor", "--db", hostile, "--json").out)["data"]["findings"]
    assert [one["ruleId"] for one in ran["results"]] == [one["check"] for one in found]
    assert_harmless(ran)


def test_junit_has_a_test_for_each_check(hostile: Path) -> None:
    text = doctor(hostile, "junit")
    whole = ElementTree.fromstring(text)
    (suite,) = whole
    tests = list(suite)
    assert (whole.tag, suite.tag, {test.tag for test in tests}) == ("testsuites", "testsuite", {"testcase"})
    assert all(test.get("classname") and test.get("name") and test.get("time") for test in tests)
    for name, tag in (("failures", "failure"), ("skipped", "skipped")):
        number = sum(test.find(tag) is not None for test in tests)
        assert int(suite.get(name, "")) == int(whole.get(name, "")) == number > 0
    assert int(suite.get("tests", "")) == len(tests) == 126
    failed = {test.get("name", "").split()[0] for test in tests if test.find("failure") is not None}
    found = json.loads(run("doctor", "--db", hostile, "--json").out)["data"]["findings"]
    assert failed == {one["check"] for one in found if one["confidence"] != "by design"}
    assert_harmless([*whole.itertext(), *(value for one in whole.iter() for value in one.attrib.values())])


def assert_harmless(value: Any) -> None:
    """No text holds what a terminal obeys or a reader refuses; the hostile id is there, written out."""
    text = json.dumps(value, ensure_ascii=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff\ufffe]", text)
    assert "sum_" in text
    assert "[31m<b>&" in text


@pytest.mark.parametrize(
    ("fail_on", "check", "code"),
    [
        ("info", "C", 6),
        ("error", "C", 6),
        ("never", "C", 0),
        ("error", "D", 0),
        ("warning", "D", 0),
        ("info", "D", 0),
    ],
)
def test_fail_on_says_what_counts(
    fail_on: str, check: str, code: int, database_file: DatabaseFactory
) -> None:
    path = database_file("0.15.3")
    result = run("doctor", "--all", "--check", check, "--fail-on", fail_on, "--db", path, "--json")
    assert result.code == code


def test_junit_fails_no_test_for_what_does_not_count(hostile: Path) -> None:
    result = run("doctor", "--db", hostile, "--format", "junit", "--fail-on", "never")
    whole = ElementTree.fromstring(result.out)
    assert (result.code, whole.get("failures"), whole.find(".//failure")) == (0, "0", None)
    assert whole.find(".//system-out") is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "--format", "csv"], "--format csv is not supported by status: it has json, table."),
        (
            ["conversations", "list", "--format", "junit"],
            "--format junit is not supported by conversations.list: it has json, table, csv.",
        ),
        (["doctor", "--fix", "A1", "--format", "sarif"], "--format cannot be used with --fix."),
    ],
)
def test_a_form_that_a_command_does_not_have_is_refused(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out, result.err) == (2, "", f"{words}\n")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    "words",
    [
        ("conversations", "list"),
        ("messages", "list", "2", "--include-content"),
        ("summaries", "list", "--limit", "500"),
        ("files", "list"),
        ("focus", "list", "2"),
        ("context", "show", "1"),
        ("context", "show", "1", "--assembled"),
    ],
    ids=" ".join,
)
def test_csv_holds_the_items_of_a_list(words: tuple[str, ...], database_file: DatabaseFactory) -> None:
    path = database_file("0.15.3")
    items = run(*words, "--db", path, "--json").data["items"]
    result = run(*words, "--db", path, "--format", "csv")
    rows = rows_of(result.out)
    assert result.out.count("\r\n") >= len(items) + 1
    assert list(rows[0]) == list(items[0])
    for row, item in zip(rows, items, strict=True):
        for name, value in item.items():
            shown = json_text(value) if not isinstance(value, str) else value
            assert row[name].removeprefix("'") == ("" if value is None else shown)


@pytest.mark.parametrize("command", COLUMNS)
def test_csv_of_an_empty_list_has_the_names_of_a_full_one(
    command: str, database_file: DatabaseFactory, openclaw_home: Path
) -> None:
    path, words = database_file("0.15.3"), command.split(".")
    owner = ["8"] if command in ("messages.list", "context.snapshots", "focus.list") else []
    nothing = {
        "conversations.list": ["--after", "2099-01-01T00:00:00Z"],
        "messages.list": ["--after", "2099-01-01T00:00:00Z"],
        "summaries.list": ["--after", "2099-01-01T00:00:00Z"],
        "files.list": ["--after", "2099-01-01T00:00:00Z"],
        "sessions.list": ["--after", "2099-01-01T00:00:00Z"],
    }.get(command, [])
    whole = [*words, *owner, "--db", path, "--openclaw-dir", openclaw_home]
    result = run(*whole, *nothing, "--format", "csv")
    assert (result.code, result.out) == (0, ",".join(COLUMNS[command]) + "\r\n")
    if items := run(*whole, "--json").data["items"]:  # history and snapshots have none here
        assert tuple(items[0]) == COLUMNS[command]


def test_csv_of_an_empty_list_names_what_was_asked_for_besides(database_file: DatabaseFactory) -> None:
    words = ("summaries", "list", "--include-content", "--after", "2099-01-01T00:00:00Z", "--format", "csv")
    result = run(*words, "--db", database_file("0.15.3"))
    assert result.out.endswith(",preview,content\r\n")


def test_csv_says_on_the_other_stream_that_more_follow(database_file: DatabaseFactory) -> None:
    result = run("conversations", "list", "--limit", "2", "--format", "csv", "--db", database_file("0.15.3"))
    assert len(rows_of(result.out)) == 2
    assert result.err.startswith("More follow: --cursor eyJ")


def test_a_formula_is_a_text_in_csv(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    change_behind(path, "UPDATE conversations SET title = '=HYPERLINK(\"x\")' WHERE conversation_id = 1")
    change_behind(path, "UPDATE conversations SET title = 'a, \"b\"' WHERE conversation_id = 2")
    rows = rows_of(run("conversations", "list", "--format", "csv", "--db", path).out)
    titles = {row["conversationId"]: row["title"] for row in rows}
    assert (titles["1"], titles["2"], titles["3"]) == ('\'=HYPERLINK("x")', 'a, "b"', "")
