"""What docs/spec/format.md and docs/spec/search.md call recorded, counted in the engine's own files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.databases import reading

HEALTHY = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "1.0-next")
SQL_FORM = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
ISO_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: docs/spec/format.md, "Times": columns of the ISO form; all others that end so hold the SQL form.
ISO_COLUMNS = frozenset(
    {
        *("earliest_at", "latest_at", "covered_latest_at", "verified_at", "frontier_created_at", "ready_at"),
        *("lease_expires_at", "next_attempt_after", "requested_at", "last_started_at", "last_finished_at"),
        *("resolved_at", "last_observed_cache_hit_at", "last_observed_cache_break_at", "last_api_call_at"),
        *("last_leaf_compaction_at", "last_cache_touch_at"),
    }
)


@pytest.fixture(params=HEALTHY)
def recorded(
    request: pytest.FixtureRequest, database_file: Callable[[str], Path]
) -> Iterator[sqlite3.Connection]:
    with reading(database_file(request.param)) as connection:
        yield connection


def tables(connection: sqlite3.Connection) -> list[str]:
    return [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if "_fts" not in name and not name.startswith("sqlite_")
    ]


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def count(connection: sqlite3.Connection, sql: str) -> int:
    [(number,)] = connection.execute(sql)
    return int(number)


def test_the_file_has_neither_numbers_nor_triggers_nor_views(recorded: sqlite3.Connection) -> None:
    assert count(recorded, "PRAGMA user_version") == count(recorded, "PRAGMA application_id") == 0
    assert count(recorded, "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')") == 0
    assert recorded.execute("PRAGMA foreign_key_check").fetchall() == []


def test_every_column_of_times_holds_one_form(recorded: sqlite3.Connection) -> None:
    for table in tables(recorded):
        for column in columns(recorded, table):
            if column.endswith(("_at", "_after")):
                form = ISO_FORM if column in ISO_COLUMNS else SQL_FORM
                values = recorded.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
                assert all(form.fullmatch(value) for (value,) in values), (table, column)


def test_numbers_begin_where_they_are_said_to(recorded: sqlite3.Connection) -> None:
    gaps = "SELECT min(ordinal), max(ordinal) + 1 - count(*) FROM"
    for owner, table in (
        ("conversation_id", "context_items"),
        ("summary_id", "summary_messages"),
        ("summary_id", "summary_parents"),
        ("message_id", "message_parts"),
    ):
        assert {(0, 0)} >= set(recorded.execute(f"{gaps} {table} GROUP BY {owner}")), table
    firsts = {
        first for (first,) in recorded.execute("SELECT min(seq) FROM messages GROUP BY conversation_id")
    }
    assert firsts == ({0, 1} if "turn_advancements" in tables(recorded) else {1})


def test_sources_are_less_deep_than_their_consumers(recorded: sqlite3.Connection) -> None:
    edges = """SELECT {} FROM summary_parents AS edge
        JOIN summaries AS consumer ON consumer.summary_id = edge.summary_id
        JOIN summaries AS source ON source.summary_id = edge.parent_summary_id"""
    assert count(recorded, edges.format("count(*)")) > 0
    assert count(recorded, edges.format("coalesce(sum(source.depth >= consumer.depth), 0)")) == 0


def test_ids_have_their_form(recorded: sqlite3.Connection) -> None:
    for table, column, form in (
        ("summaries", "summary_id", r"sum_[0-9a-f]{16}"),
        ("large_files", "file_id", r"file_[0-9a-f]{16}"),
        ("message_parts", "part_id", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
    ):
        assert all(
            re.fullmatch(form, value) for (value,) in recorded.execute(f"SELECT {column} FROM {table}")
        )


@pytest.mark.parametrize(
    ("version", "blank", "indexed", "events", "calls"),
    [
        ("0.1.2", 105, 105, 123, "agent"),
        ("0.3.0", 105, 105, 123, "tool"),
        ("0.8.2", 55, 0, 0, "tool"),
        ("0.15.3", 104, 0, 0, "tool"),
    ],
)
def test_what_only_some_versions_do(
    version: str, blank: int, indexed: int, events: int, calls: str, database_file: Callable[[str], Path]
) -> None:
    with reading(database_file(version)) as recorded:
        said_nothing = "FROM messages AS m {} WHERE trim(m.content, char(9, 10, 13, 32)) = ''"
        join = "JOIN messages_fts_content AS f ON f.id = m.message_id"
        assert count(recorded, f"SELECT count(*) {said_nothing.format('')}") == blank
        assert count(recorded, f"SELECT count(*) {said_nothing.format(join)}") == indexed
        assert count(recorded, f"SELECT count(*) FROM messages AS m {join} WHERE f.c0 IS NOT m.content") == 0
        assert events == count(recorded, "SELECT count(*) FROM message_parts WHERE part_type = 'compaction'")
        assert events in (0, count(recorded, "SELECT count(*) FROM summaries"))
        types = {kind for (kind,) in recorded.execute("SELECT DISTINCT part_type FROM message_parts")}
        assert types & {"agent", "tool"} == {calls}


def test_hashes_and_large_content_of_the_present_engine(database_file: Callable[[str], Path]) -> None:
    with reading(database_file("0.15.3")) as recorded:
        rows = recorded.execute("SELECT role, content, identity_hash, large_content FROM messages").fetchall()
    assert len(rows) == 865
    assert all(
        sha256(f"{role}\0{content}".encode()).hexdigest() == digest for role, content, digest, _ in rows
    )
    assert {large for *_, large in rows} == {None}


def test_columns_of_the_1_0_line_are_on_the_page(database_file: Callable[[str], Path]) -> None:
    page = Path(__file__).parents[2] / "docs/spec/prepared.md"
    section = page.read_text(encoding="utf-8").partition("## Columns")[2].partition("## ")[0]
    rows = {cells[1].strip(): cells[2] for line in section.splitlines() if len(cells := line.split("|")) > 3}
    with reading(database_file("1.0-next")) as recorded:
        later = [
            table
            for table in tables(recorded)
            if table.startswith(("pending_", "turn_")) or "transcript" in table
        ]
        assert len(later) == 7
        for table in later:
            assert set(columns(recorded, table)) <= set(re.findall(r"\w+", rows[table])), table
