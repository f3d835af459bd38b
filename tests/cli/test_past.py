"""``--at``: a context, a list of summaries, a map and a comparison as they were before an operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import run
from tests.databases import column, value


@pytest.fixture
def changed(database_copy) -> tuple[Path, str, str]:
    """A database in which a summary of conversation 3 was dissolved, the operation, and the summary."""
    path = database_copy("0.15.3")
    [summary, *_] = column(
        path,
        """SELECT summary_id FROM context_items JOIN summaries USING (summary_id)
        WHERE context_items.conversation_id = 3 AND kind = 'condensed' ORDER BY ordinal""",
    )
    assert run("dissolve", summary, "--apply", "--yes", "--db", path).code == 0
    return path, value(path, "SELECT id FROM lcm_tui_operations"), summary


def data(*words: object):
    told = run(*words, "--json")
    assert told.code == 0, told.err
    return told.data


@pytest.mark.long
def test_everything_is_shown_as_it_was(changed, database_copy):
    path, operation, _ = changed
    original = database_copy("0.15.3")
    for words in (
        ("context", 3),
        ("context", 3, "--assembled", "--budget", "4k"),
        ("summaries", "list", 3, "--include-content"),
        ("summaries", "list", 3, "--map"),
    ):
        was = data(*words, "--db", original)
        then = data(*words, "--db", path, "--at", operation[:8])
        told, _ = then.pop("past"), then.pop("since", None)
        assert then == was, words
        assert told["operationId"] == operation
        assert told["reversed"] == [operation]
        assert told["statements"] == []
        now = data(*words, "--db", path)
        assert now != was
        after = data(*words, "--db", path, "--at", f"after:{operation}")
        assert {name: value for name, value in after.items() if name not in ("past", "since")} == now


def test_a_context_before_an_operation_is_shown_with_what_changed_since(changed):
    path, operation, summary = changed
    found = data("context", 3, "--at", f"before:{operation}", "--db", path)
    assert summary in [item["summaryId"] for item in found["items"]]
    assert data("context", 3, "--at", "before:last", "--db", path) == found
    since = found["since"]
    assert since["leftContext"] == since["summariesGone"] == [summary]
    assert len(since["joinedContext"]) > 1
    assert since["tokens"]["then"] == found["totals"]["tokens"] != since["tokens"]["now"]
    said = run("context", 3, "--at", f"before:{operation}", "--db", path).out
    assert f"Left the context    1: {summary}" in said


@pytest.mark.long
def test_two_points_are_compared(changed):
    path, operation, summary = changed
    found = data(
        "context",
        3,
        "--at",
        f"before:{operation}",
        "--compare",
        f"at=after:{operation}",
        "--db",
        path,
    )
    assert [one["summaryId"] for one in found["messages"]["onlyFirst"]] == [summary]
    assert found["first"]["past"]["point"] == f"before:{operation}"
    assert found["second"]["past"]["reversed"] == []
    same = data("context", 3, "--at", f"after:{operation}", "--compare", "at=now", "--db", path)
    assert same["lines"] == {"removed": 0, "added": 0}
    assert same["second"]["past"] is None


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("context", 3, "--at", "yesterday"), 2),
        (("context", 3, "--at", ""), 2),
        (("context", 3, "--at", "before:"), 2),
        (("context", 3, "--at", "before:op_none"), 3),
        (("context", 1, "--at", "OPERATION"), 3),
        (("context", 999, "--at", "2026-03-02"), 3),
        (("summaries", "list", "--at", "2026-03-02"), 2),
        (("context", 3, "--compare", "at=soon"), 2),
        (("context", 3, "--at", "asm_1", "--budget", "4k"), 2),
    ],
)
def test_what_is_no_point_is_refused_in_one_sentence(changed, words, code):
    path, operation, _ = changed
    told = run(*(operation if word == "OPERATION" else word for word in words), "--db", path)
    assert told.code == code
    assert len(told.err.strip().splitlines()) == 1
    assert told.out == ""
