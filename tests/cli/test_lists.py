"""Pages by key: however a list is cut, its pages are the list."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import UsageError, conversations, open_sync
from lcm_core.store.listing import Position

from lcm_tui.cli import cursors
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.support import sampled

#: Each list, the id of its rows, and how many rows the database of 0.15.3 has.
LISTS = {
    "conversations": (["conversations", "list"], "conversationId", 8),
    "messages": (["messages", "list", "7"], "messageId", 19),
    "summaries": (["summaries", "list"], "summaryId", 116),
    "files": (["files"], "fileId", 11),
}


def walk(arguments: list[str], path: Path, limit: int) -> list[dict[str, Any]]:
    """All rows of a list, page by page."""
    rows: list[dict[str, Any]] = []
    cursor: list[str] = []
    while True:
        document = run(*arguments, "--limit", limit, *cursor, "--db", path, "--json").document
        pages, items = document["pagination"], document["data"]["items"]
        assert pages["limit"] == limit
        assert pages["returned"] == len(items) <= limit
        assert pages["hasMore"] is (pages["nextCursor"] is not None)
        rows += items
        assert len(rows) < 2000, "the walk does not end"
        if not pages["hasMore"]:
            return rows
        cursor = ["--cursor", pages["nextCursor"]]


@pytest.mark.long
@pytest.mark.parametrize("limit", sampled([1, 2, 3, 7, 19, 20, 115, 116, 117, 500], (1, 20, 116)))
@pytest.mark.parametrize("name", LISTS)
def test_pages_are_the_list(name: str, limit: int, database_file: DatabaseFactory):
    arguments, key, count = LISTS[name]
    if count / limit > 30:
        arguments, count = ["summaries", "list", "2"], 13
    path = database_file("0.15.3")
    whole = run(*arguments, "--limit", "500", "--db", path, "--json").data["items"]
    assert len({row[key] for row in whole}) == len(whole) == count
    assert walk(arguments, path, limit) == whole


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3-damaged"])
def test_pages_of_filtered_lists_are_the_list_on_every_version(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    for arguments in (
        ["messages", "list", "1", "--role", "user", "--role", "tool"],
        ["summaries", "list", "1", "--kind", "leaf"],
        ["summaries", "list", "--depth", "1"],
    ):
        whole = run(*arguments, "--limit", "500", "--db", path, "--json").data["items"]
        assert whole
        assert walk(arguments, path, 17) == whole


@pytest.mark.long
def test_times_that_are_none_break_no_walk(database_copy: DatabaseFactory):
    """``now`` would be read as the present, and a list that holds it would never end."""
    path = database_copy("0.15.3")
    database = sqlite3.connect(path)
    for seq, time in enumerate(("now", "", "2460000", "2026-02-30 99:99:99", "2026-03-02T15:15:00+05:30"), 1):
        database.execute(
            "UPDATE messages SET created_at = ? WHERE conversation_id = 7 AND seq = ?", (time, seq)
        )
    database.execute(
        "UPDATE messages SET created_at = CAST(x'fffe' AS TEXT) WHERE conversation_id = 7 AND seq = 6"
    )
    database.commit()
    database.close()
    rows = walk(["messages", "list", "7"], path, 1)
    assert sorted(row["seq"] for row in rows) == list(range(1, 20))
    assert {row["seq"] for row in rows[-5:]} == {1, 2, 3, 4, 6}
    assert rows[-6]["seq"] == 5  # 09:45 UTC


@pytest.mark.long
def test_filters_are_those_of_plain_queries(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    database = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
    expected = [
        row[0]
        for row in database.execute(
            """SELECT message_id FROM messages WHERE conversation_id = 1 AND role IN ('user', 'tool')
            AND julianday(created_at) >= julianday('2026-03-02T09:00:00Z')
            AND julianday(created_at) < julianday('2026-03-02T10:08:00Z')
            ORDER BY created_at DESC, message_id DESC"""
        )
    ]
    database.close()
    roles = ("--role", "user", "--role", "tool", "--role", "user")
    base = ("messages", "list", "1", *roles, "--limit", "500", "--db", path, "--json")
    start, end = "2026-03-02T09:00:00Z", "2026-03-02T10:08:00Z"
    between = run(*base, "--between", f"{start}..{end}").data["items"]
    assert [item["messageId"] for item in between] == expected
    assert run(*base, "--after", start, "--before", end).data["items"] == between
    assert (
        run(*base, "--after", "2026-03-02T09:00Z", "--before", "2026-03-02T11:08:00+01:00").data["items"]
        == between
    )
    for unit in "smhdw":
        for typed in (f"1{unit}", f"1{unit.upper()}"):  # the unit may be a capital
            assert run(*base, "--recency", typed).data["items"] == []
    assert len(run(*base, "--recency", "9999w").data["items"]) > len(between)


def test_after_is_inclusive_and_before_exclusive(database_file: DatabaseFactory):
    base = ("messages", "list", "1", "--limit", "500", "--db", database_file("0.15.3"), "--json")
    time, given = "2026-03-02 10:07:36", "2026-03-02T10:07:36Z"
    assert run(*base, "--after", given).data["items"][-1]["createdAt"] == time
    assert run(*base, "--before", given).data["items"][0]["createdAt"] < time


@pytest.mark.cases(2)
@pytest.mark.parametrize("form", [("--json",), ("--format", "table"), ("--format", "csv"), ()])
@pytest.mark.parametrize(
    "given",
    [
        *(("--after", time) for time in ("2026-03-02", "2026-03-02 09:00:00Z", "2026-03-02T09:00:00+0100")),
        ("--between", "2026-03-02..2026-03-03T00:00:00Z"),
        ("--recency", "last 3h"),
    ],
)
def test_a_program_names_the_zone_and_a_person_need_not(
    form: tuple[str, ...], given: tuple[str, ...], database_file: DatabaseFactory
):
    path = database_file("0.15.3")
    for words in (("conversations", "list"), ("messages", "list", "1"), ("summaries", "list")):
        result = run(*words, *given, *form, "--db", path)
        if form in ((), ("--format", "csv")):
            assert result.code == 0
        else:
            assert (result.code, result.error["code"]) == (2, "INVALID_TIME_FILTER")
            assert result.error["details"]["value"] == given[1].partition("..")[0]


ids = st.integers(-(2**63) + 1, 2**63 - 1)
times = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40))


@pytest.mark.long
@given(times, ids)
def test_a_cursor_says_where_a_page_ended(timestamp: str | None, row_id: int):
    for resource in ("conversations", "messages"):
        assert cursors.decode(resource, cursors.encode(resource, Position(timestamp, row_id))) == Position(
            timestamp, row_id
        )
    position = Position(timestamp, f"sum_{row_id}")
    assert cursors.decode("summaries", cursors.encode("summaries", position)) == position


@pytest.mark.long
@given(st.text(max_size=60))
def test_junk_is_no_cursor(text: str):
    with pytest.raises(UsageError) as refusal:
        cursors.decode("messages", text)
    assert refusal.value.code == "INVALID_CURSOR"


@pytest.mark.parametrize(
    "content",
    [
        {"v": 2, "resource": "messages", "timestamp": "2026-03-02 09:00:00", "id": 1},
        {"v": 1, "resource": "summaries", "timestamp": "2026-03-02 09:00:00", "id": "sum_1"},
        {"v": 1, "resource": "messages", "timestamp": 7, "id": 1},
        {"v": 1, "resource": "messages", "timestamp": "2026-03-02 09:00:00", "id": "1"},
        {"v": 1, "resource": "messages", "timestamp": "2026-03-02 09:00:00", "id": True},
        {"v": 1, "resource": "messages", "timestamp": "2026-03-02 09:00:00", "id": 2**63},
        {"v": 1, "resource": "messages", "timestamp": "2026-03-02 09:00:00"},
        [],
        None,
    ],
)
def test_a_cursor_of_another_list_is_refused(content: object, database_file: DatabaseFactory):
    cursor = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
    result = run("messages", "list", "1", "--cursor", cursor, "--db", database_file("0.15.3"), "--json")
    assert (result.code, result.error["code"]) == (2, "INVALID_CURSOR")


def test_previous_context_by_the_rules_of_another_engine(database_file: DatabaseFactory):
    def given(*options: str) -> Any:
        at = ("--db", database_file("0.1.2"), "--json")
        return run("summaries", "show", "--previous", "sum_13178e4ecc66d9f4", *options, *at).data["asGiven"][
            "nodes"
        ]

    assert given() == given("--rules", "0.1") != []
    assert given("--rules", "0.15") == []
    refused = run(
        "summaries", "show", "--previous", "sum_1", "--rules", "9", "--db", database_file("0.1.2"), "--json"
    )
    assert (refused.code, refused.error["details"]["option"]) == (2, "rules")


def test_people_get_conversations_by_their_newest_message(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    with open_sync(path) as memory:
        expected = [one.conversation_id for one in memory(conversations)]
    cursor: list[str] = []
    found: list[int] = []
    while len(found) < len(expected):
        out = run("conversations", "list", "--limit", "3", *cursor, "--db", path).out
        first = [line.split()[0] for line in out.splitlines() if line.strip()]
        found += [int(word) for word in first if word.isdigit()]
        cursor = ["--cursor", out.rpartition("--cursor ")[2].strip()]
    assert found == expected
    of_programs = run("conversations", "list", "--limit", "1", "--db", path, "--json").document["pagination"]
    refused = run("conversations", "list", "--cursor", of_programs["nextCursor"], "--db", path)
    assert (refused.code, "belongs to another list" in refused.err) == (2, True)
