"""``transplant`` and ``merge`` on the command line: shown, done, listed, refused with the right code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.change.support import REAL, context_of, dump
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import run as change_behind
from tests.databases import value

ROLLED = "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5"


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """A database of its own."""
    return database_copy("0.15.3")


# -- transplant ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_it_is_shown_then_done_then_taken_back(database_copy: DatabaseFactory, version: str) -> None:
    path = database_copy(version)
    before, source = dump(path), context_of(path, 5)
    shown = run("transplant", 5, 7, "--db", path, "--json").data
    assert dump(path) == before
    copies = [ref for _, ref in source if isinstance(ref, str)]
    assert (shown["kind"], shown["conversationId"], shown["applied"]) == ("transplant", 7, False)
    assert shown["rows"]["context_items"] == {"insert": len(copies), "update": 0, "delete": 0}
    assert [one["to"] for one in shown["shift"] if one["from"] is None] == list(range(len(copies)))
    done = run("transplant", 5, 7, "--db", path, "--apply", "--yes", "--json").data
    assert done["applied"] is True
    assert len(context_of(path, 7)) == len(copies) + 19
    run("history", "undo", done["operationId"], "--db", path, "--apply", "--yes")
    assert dump(path) == before


def test_people_read_what_comes_and_what_stays_behind(path: Path) -> None:
    said = run("transplant", 5, 8, "--db", path, "--budget", "2500").out
    assert "Copy 2 summaries of the context of conversation 5 to the front of conversation 8" in said
    assert "with 4 summaries and 51 messages below" in said
    assert "14 items move by +2" in said
    assert "10 raw messages of conversation 5 are not copied" in said
    assert "exceed the budget of 2,500" in said


@pytest.mark.long
def test_duplicates_are_listed_and_refused(path: Path) -> None:
    run("transplant", 5, 8, "--db", path, "--apply", "--yes")
    before = dump(path)
    for options in ([], ["--apply", "--yes"]):
        refused = run("transplant", 5, 8, "--db", path, "--json", *options)
        assert refused.code == 9
        assert '"code":"DUPLICATES"' in refused.out
        assert refused.out.count('"presentId"') == 6
        assert refused.out.count('"inContext":true') == 2
    said = run("transplant", 5, 8, "--db", path)
    assert said.code == 9
    assert said.out.count("sum_") == 12
    assert "--skip-duplicates" in said.out
    skipped = run("transplant", 5, 8, "--db", path, "--skip-duplicates")
    assert skipped.code == 9
    assert "nothing left to transplant" in skipped.err
    assert dump(path) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((1, 1), 9),
        ((7, 1), 9),
        ((1, 999), 3),
        ((999, 1), 3),
        ((1, "no such title"), 3),
        ((1,), 2),
    ],
)
def test_refusals_have_their_codes(
    database_file: DatabaseFactory, arguments: tuple[object, ...], code: int
) -> None:
    refused = run("transplant", *arguments, "--db", database_file("0.15.3"))
    assert refused.code == code
    assert refused.err.strip()


# -- merge -----------------------------------------------------------------------------------------------


def test_without_a_name_it_lists_what_is_split(path: Path) -> None:
    assert run("merge", "--db", path, "--json").data == {"items": []}
    assert "No session is split." in run("merge", "--db", path).out
    change_behind(path, ROLLED)
    [found] = run("merge", "--db", path, "--json").data["items"]
    assert (found["conversationId"], found["certainty"]) == (8, "safe")
    assert [one["conversationId"] for one in found["older"]] == [5]
    assert found["older"][0]["archiveCause"] == "rollover-fallback"
    assert found["older"][0]["messageCount"] == value(
        path, "SELECT count(*) FROM messages WHERE conversation_id = 5"
    )
    assert "safe" in run("merge", "--db", path).out


@pytest.mark.long
def test_a_split_is_merged_and_parted_again(path: Path) -> None:
    change_behind(path, ROLLED)
    before = dump(path)
    shown = run("merge", 5, "--db", path, "--json").data
    assert (shown["kind"], shown["conversationId"]) == ("merge", 8)
    each = shown["tokens"]["contexts"]
    assert sum(one["before"] for one in each) == sum(one["after"] for one in each)
    assert shown["tokens"]["before"] < shown["tokens"]["after"]
    assert dump(path) == before
    done = run("merge", 8, "--db", path, "--apply", "--yes", "--json").data
    assert value(path, "SELECT count(*) FROM messages WHERE conversation_id = 8") == 101
    run("history", "undo", done["operationId"], "--db", path, "--apply", "--yes")
    assert dump(path) == before


def test_what_may_have_been_a_reset_needs_a_word(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.8.2")
    refused = run("merge", 8, "--db", path)
    assert refused.code == 9
    assert "--force" in refused.err
    assert run("merge", 8, "--db", path, "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"), [((5,), 9), ((99,), 3), (("no such title",), 3), (("--apply",), 2)]
)
def test_merges_are_refused_with_their_codes(
    database_file: DatabaseFactory, arguments: tuple[object, ...], code: int
) -> None:
    refused = run("merge", *arguments, "--db", database_file("0.15.3"))
    assert refused.code == code
    assert refused.err.strip()
