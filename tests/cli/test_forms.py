"""CSV of lists, also with hostile texts, and what the doctor's exit code says."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from lcm_tui.tables.machine import json_text
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import run as change_behind


@pytest.mark.cases(1)
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "--format", "csv"], "--format csv is not supported by status: it has json, table."),
        (
            ["doctor", "--format", "csv"],
            "--format csv is not supported by doctor: it has json, table.",
        ),
    ],
)
def test_a_form_that_a_command_does_not_have_is_refused(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out, result.err) == (2, "", f"{words}\n")


def test_two_forms_are_refused(database_file: DatabaseFactory) -> None:
    result = run("files", "--json", "--format", "csv", "--db", database_file("0.15.3"))
    said = "--json and --format csv exclude each other: give one of them.\n"
    assert (result.code, result.out, result.err) == (2, "", said)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "words",
    [
        ("conversations", "list"),
        ("messages", "list", "2", "--include-content"),
        ("summaries", "list", "--limit", "500"),
        ("files",),
        ("focus", "list", "2"),
        ("context", "1"),
        ("context", "1", "--assembled"),
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


LISTS = (
    *(f"{name}.list" for name in ("conversations", "messages", "summaries", "history", "focus")),
    *("files", "sessions", "context"),
)


@pytest.mark.cases(1)
@pytest.mark.parametrize("command", LISTS)
def test_csv_of_an_empty_list_has_the_names_of_a_full_one(
    command: str, database_file: DatabaseFactory, openclaw_home: Path
) -> None:
    path, words = database_file("0.15.3"), command.split(".")
    owner = ["8"] if command in ("messages.list", "context", "focus.list") else []
    nothing = {
        "conversations.list": ["--after", "2099-01-01T00:00:00Z"],
        "messages.list": ["--after", "2099-01-01T00:00:00Z"],
        "summaries.list": ["--after", "2099-01-01T00:00:00Z"],
        "files": ["--since", "2099-01-01T00:00:00Z"],
        "sessions": ["--since", "2099-01-01T00:00:00Z"],
        "context": ["--snapshots"],
    }.get(command, [])
    whole = [*words, *owner, "--db", path, "--openclaw-dir", openclaw_home]
    result = run(*whole, *nothing, "--format", "csv")
    names = result.out.strip().split(",")
    assert result.code == 0
    assert result.out.count("\n") == 1
    assert "createdAt" in names or "newestAt" in names
    if command != "context" and (items := run(*whole, "--json").data["items"]):  # history has none here
        assert list(items[0]) == names


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
