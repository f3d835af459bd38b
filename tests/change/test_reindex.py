"""Search tables mended row by row: what is wrong and nothing else, on every version."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core.change.errors import BusyError
from lcm_core.change.reindex import resync

from tests.change.support import REAL, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, run, value

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
