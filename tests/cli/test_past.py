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


def test_everything_is_shown_as_it_was(changed, database_copy):
    path, operation, _ = changed
    original = database_copy("0.15.3")
    for words in (
        ("context", "show", 3),
        ("context", "show", 3, "--assembled", "--budget", "4k"),
        ("summaries", "list", 3, "--include-content"),
        ("summaries", "list", 3, "--map"),
    ):
        was = data(*words, "--db", original)
        then = data(*words, "--db", path, "--at", operation[:8])
        told = then.pop("past")
        assert then == was, words
        assert told["operationId"] == operation
        assert told["reversed"] == [operation]
        assert told["statements"] == []
        now = data(*words, "--db", path)
        assert now != was
        assert {**data(*words, "--db", path, "--at", f"after:{operation}"), "past": None} == {
            **now,
            "past": None,
        }


def test_an_operation_shows_the_context_before_it_and_what_changed(changed):
    path, operation, summary = changed
    found = data("show", operation, "--context-before", "--db", path)
    assert summary in [item["summaryId"] for item in found["context"]["items"]]
    since = found["since"]
    assert since["leftContext"] == since["summariesGone"] == [summary]
    assert len(since["joinedContext"]) > 1
    assert since["tokens"]["then"] == found["context"]["totals"]["tokens"] != since["tokens"]["now"]
    said = run("show", operation, "--context-before", "--db", path).out
    assert f"Left the context    1: {summary}" in said


def test_two_points_are_compared(changed):
    path, operation, summary = changed
    found = data(
        "context",
        "compare",
        3,
        "--at",
        f"before:{operation}",
        "--other",
        f"at=after:{operation}",
        "--db",
        path,
    )
    assert [one["summaryId"] for one in found["messages"]["onlyFirst"]] == [summary]
    assert found["first"]["past"]["point"] == f"before:{operation}"
    assert found["second"]["past"]["reversed"] == []
    same = data("context", "compare", 3, "--at", f"after:{operation}", "--db", path)
    assert same["lines"] == {"removed": 0, "added": 0}
    assert same["second"]["past"] is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("context", "show", 3, "--at", "yesterday"), 2),
        (("context", "show", 3, "--at", ""), 2),
        (("context", "show", 3, "--at", "before:"), 2),
        (("context", "show", 3, "--at", "before:op_none"), 3),
        (("context", "show", 1, "--at", "OPERATION"), 3),
        (("context", "show", 999, "--at", "2026-03-02"), 3),
        (("summaries", "list", "--at", "2026-03-02"), 2),
        (("context", "compare", 3, "--other", "at=soon"), 2),
        (("context", "compare", 3, "--at", "2026-03-02", "--snapshot", "asm_1"), 2),
    ],
)
def test_what_is_no_point_is_refused_in_one_sentence(changed, words, code):
    path, operation, _ = changed
    told = run(*(operation if word == "OPERATION" else word for word in words), "--db", path)
    assert told.code == code
    assert len(told.err.strip().splitlines()) == 1
    assert told.out == ""
