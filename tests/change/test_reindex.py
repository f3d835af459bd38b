"""Search tables mended row by row: what is wrong and nothing else, on every version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.change.plan import BusyError
from lcm_core.change.reindex import resync, resync_sql

from tests.change.support import REAL, reading, search_faults
from tests.cli.support import run as run_command
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, query, run, value

TABLES = ("messages_fts", "summaries_fts", "summaries_fts_cjk")


def damage(path: Path) -> None:
    """Rows that are missing, stale, extra and twice there."""
    run(
        path,
        "DELETE FROM messages_fts WHERE rowid IN (1, 2)",
        "UPDATE messages_fts SET content = 'another text' WHERE rowid = 3",
        "INSERT INTO messages_fts (rowid, content) VALUES (999999, 'gone')",
    )
    for table in TABLES[1:]:
        if value(path, "SELECT count(*) FROM sqlite_master WHERE name = ?", table):
            run(
                path,
                f"DELETE FROM {table} WHERE rowid = 1",
                f"UPDATE {table} SET content = 'another text' WHERE rowid = 2",
                f"INSERT INTO {table} (summary_id, content) SELECT summary_id, content FROM {table} "
                "WHERE rowid = 3",
                f"INSERT INTO {table} (summary_id, content) VALUES ('sum_gone', 'gone')",
            )


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REAL)
def test_what_is_wrong_is_mended_and_nothing_else_is_written(version: str, database_copy: DatabaseFactory):
    path = database_copy(version)
    damage(path)
    assert search_faults(path)
    done = {one.table: one.rows for one in resync(path, TABLES)}
    assert done == dict.fromkeys(done, 4)
    assert set(done) == {table for table in TABLES if column(path, f"PRAGMA table_info({table})")}
    assert not search_faults(path)
    assert {one.rows for one in resync(path, TABLES)} == {0}


def test_a_table_that_does_not_work_is_written_anew(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "DROP TABLE summaries_fts_cjk", "DELETE FROM messages_fts_data")
    done = {one.table: one.rows for one in resync(path, TABLES)}
    assert done["messages_fts"] > 700
    assert done["summaries_fts"] == 0
    assert "summaries_fts_cjk" not in done
    assert not search_faults(path)


def test_what_the_engine_shortened_stays_as_it_is(database_copy: DatabaseFactory):
    """Of a reference to a file only the head is searched: that is no stale row."""
    path = database_copy("0.15.3")
    with connect(path) as connection:
        message = value(path, "SELECT min(message_id) FROM messages WHERE conversation_id = 7")
        text = "[LCM File: file_0123456789abcdef | a.txt | text/plain | 20 bytes]\nFirst.\nSecond."
        connection.execute("UPDATE messages SET content = ? WHERE message_id = ?", (text, message))
        head = text.split("\n")[0]
        connection.execute("UPDATE messages_fts SET content = ? WHERE rowid = ?", (head, message))
    assert [one.rows for one in resync(path, ["messages_fts"])] == [0]


def test_a_lock_is_waited_for_no_longer_than_asked(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    damage(path)
    with connect(path) as host:
        host.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            resync(path, TABLES, wait=0.05)
        host.execute("ROLLBACK")
    assert search_faults(path)


FAULTS = {
    "rows are missing": (
        "DELETE FROM messages_fts WHERE rowid % 7 = 0",
        "DELETE FROM summaries_fts WHERE rowid < 9",
    ),
    "rows are stale": ("UPDATE messages SET content = content || ' and more' WHERE message_id % 11 = 0",),
    "rows of nobody": (
        "INSERT INTO messages_fts (rowid, content) VALUES (9999, 'x')",
        "INSERT INTO summaries_fts (summary_id, content) VALUES ('sum_nobody', 'x')",
    ),
    "a row is there twice": (
        "INSERT INTO summaries_fts_cjk SELECT summary_id, content FROM summaries LIMIT 2",
    ),
    "a table behind one is gone": ("DROP TABLE summaries_fts_data",),
    "the words are gone": ("DELETE FROM messages_fts_data",),
    "a file is referred to": (
        "UPDATE messages SET content = '[LCM File: file_1 | a | b | 2 bytes]' || char(10) || 'First''s' "
        "WHERE message_id = 5",
        "DELETE FROM messages_fts WHERE rowid IN (5, 6)",
    ),
    "nothing is wrong": (),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("statements", FAULTS.values(), ids=list(FAULTS))
def test_the_script_leaves_the_rows_that_resync_leaves(database_copy: DatabaseFactory, statements):
    path, other = database_copy("0.15.3"), database_copy("0.15.3")
    for one in (path, other):
        run(one, *statements)
    resync(path, TABLES)

    async def script_for(reader) -> list[str]:
        return await reader.run(lambda rows: list(resync_sql(rows, reader.schema, TABLES)))

    script = asyncio.run(reading(other, script_for))
    assert bool(script) is bool(statements)
    with connect(other) as connection:
        connection.executescript("\n".join(script))
    assert search_faults(other) == search_faults(path)
    for table in TABLES:
        key = "rowid" if table == "messages_fts" else "summary_id"
        sql = f"SELECT {key}, content FROM {table} ORDER BY 1, 2"
        assert query(other, sql) == query(path, sql)


@pytest.mark.long
def test_a_doctor_says_the_search_tables_in_its_script(database_copy: DatabaseFactory):
    path, other = database_copy("0.15.3"), database_copy("0.15.3")
    for one in (path, other):
        damage(one)
        run(one, "DELETE FROM summary_parents WHERE rowid = 1")
    script = run_command("doctor", "--fix", "all", "--sql", "--db", other)
    assert script.code == 0, script.err
    with connect(other) as connection:
        connection.executescript(script.out)
    assert search_faults(other) == []
    assert run_command("doctor", "--fix", "all", "--apply", "--yes", "--db", path).code == 0
    assert search_faults(path) == []


#: What a host with another SQLite leaves, by the tables that this one can still make.
ELSEWHERE = {
    "one tokenizer": ("replace(sql, 'trigram', 'simple')", "simple", TABLES[:2]),
    "words of another language": ("replace(sql, 'porter unicode61', 'jieba')", "jieba", TABLES[2:]),
    "all tokenizers": ("replace(replace(sql, 'trigram', 'icu'), 'porter unicode61', 'icu')", "icu", ()),
    "the module": ("replace(sql, 'fts5', 'fts9')", "fts9", ()),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize(("edit", "name", "able"), ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_what_the_preview_says_of_search_tables_is_done(database_copy: DatabaseFactory, edit, name, able):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_master SET sql = {edit} WHERE sql LIKE 'CREATE VIRTUAL%'")
    shown = run_command("reindex", "--db", path, "--json")
    done = run_command("reindex", "--apply", "--yes", "--db", path, "--json")
    if not able:
        assert (shown.code, done.code) == (5, 5)
        assert shown.error["message"].count(name) == done.error["message"].count(name) == 3
        return
    found = {one["table"]: one["problem"] for one in shown.data["tables"]}
    assert {table for table in found if not found[table]} == set(able)
    assert all(name in problem for problem in found.values() if problem)
    assert {one["table"] for one in done.data["tables"] if one["rebuilt"]} == set(able)
    assert done.data["applied"]
    for words in ((), ("--apply", "--yes")):
        assert f": {name})" in run_command("reindex", *words, "--db", path).out
        lacking = next(table for table in TABLES if table not in able)
        assert run_command("reindex", lacking, *words, "--db", path).code == 5


def test_a_trigger_is_named_before_tables_are_rebuilt(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "CREATE TRIGGER rider AFTER INSERT ON messages_fts_data BEGIN DELETE FROM messages; END")
    for words in ((), ("--apply", "--yes")):
        result = run_command("reindex", *words, "--db", path)
        assert result.code == 9
        assert "rider" in result.err
    assert value(path, "SELECT count(*) FROM messages")
