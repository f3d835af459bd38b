"""Search tables follow every commit; a broken one holds nothing up, and is rebuilt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import RefusedError, plan_dissolve, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.plan import Symbol, SymbolKind, insertion
from lcm_core.change.reindex import indexed_text, reindex
from lcm_core.engine.rules import engine_rules
from lcm_core.store.schema import Schema

from tests.change.support import (
    REAL,
    SEARCH,
    delete,
    dissolvable,
    dump,
    plan_of,
    planned,
    rows_of,
    search_faults,
    update,
)
from tests.databases import column, connect, run, value

NOT_UPDATED = "search index not updated: run `lcm-tui reindex`"


def dissolve(path: Path, number: int = 0):
    conversation, summary = dissolvable(path)[number]
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary], levels=3))
    return summary, commit(path, plan)


def tables(path: Path) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
    return column(path, sql)


@pytest.mark.parametrize("version", REAL)
def test_the_recorded_databases_are_in_step(database_copy, version):
    """The measure of these tests, against what the real engine wrote."""
    assert search_faults(database_copy(version)) == []


@pytest.mark.cases(3)
@pytest.mark.parametrize("version", REAL)
def test_messages_are_indexed_as_their_engine_does(database_copy, version):
    """Blank ones before 0.8 only."""
    path = database_copy(version)
    before = column(path, "SELECT rowid FROM messages_fts")
    template = rows_of(path, "SELECT * FROM messages WHERE conversation_id = 2 LIMIT 1")[0]
    plain = {
        name: None
        for name in ("identity_hash", "transcript_entry_id", "stable_event_key")
        if name in template
    }
    edits = [
        insertion(
            "messages",
            template.but(
                message_id=Symbol(f"new:{text!r}", SymbolKind.ID),
                seq=Symbol(f"seq:{text!r}", SymbolKind.SEQ),
                content=text,
                **plain,
            ),
        )
        for text in ("words to find", "", " \t\u00a0\n")
    ]
    done = commit(path, plan_of(*edits))
    new = rows_of(path, "SELECT * FROM messages ORDER BY message_id DESC LIMIT 3")[::-1]
    wanted = [row["message_id"] for row in new][: 3 if version in ("0.1.2", "0.3.0") else 1]
    assert sorted(set(column(path, "SELECT rowid FROM messages_fts")) - set(before)) == wanted
    found = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'words find'"
    assert new[0]["message_id"] in column(path, found)
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert column(path, "SELECT rowid FROM messages_fts") == before


def test_a_text_that_becomes_blank_leaves_the_index_and_comes_back(database_copy):
    path = database_copy("0.15.3")
    message = value(path, "SELECT message_id FROM messages WHERE content <> ''")
    done = commit(path, plan_of(update(path, "messages", "message_id", message, content=" ")))
    assert value(path, "SELECT count(*) FROM messages_fts WHERE rowid = ?", message) == 0
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert search_faults(path) == []


def test_a_column_that_is_not_indexed_touches_no_search_table(database_copy):
    path = database_copy("0.15.3")
    run(path, "DROP TABLE summaries_fts_data")
    summary = value(path, "SELECT summary_id FROM summaries")
    done = commit(path, plan_of(update(path, "summaries", "summary_id", summary, model="other")))
    assert done.search is None


OLD, NEW = Schema({"messages": frozenset()}), Schema({"conversation_bootstrap_state": frozenset()})
REFERENCES = Schema(
    {
        "conversations": frozenset({"active"}),
        "messages": frozenset({"large_content"}),
        "conversation_bootstrap_state": frozenset(),
    }
)
EXPLORED = "Exploration Summary:\nit holds"
FILE = "[LCM Tool Output: file_0123456789abcdef | tool=read | 91,002 bytes]"


@pytest.mark.parametrize(
    ("schema", "content", "indexed"),
    [
        (OLD, "", ""),
        (NEW, "", None),
        (NEW, "\ufeff\u2028", None),
        (NEW, "x", "x"),
        (OLD, b"bytes", None),
        (OLD, 5, "5"),
        (
            NEW,
            f"{FILE}\nbulk\nExploration Summary:\nit holds",
            f"{FILE}\nbulk\nExploration Summary:\nit holds",
        ),
        (
            REFERENCES,
            f"{FILE}\nbulk\n\nExploration Summary:\nit holds",
            f"{FILE}\nExploration Summary:\nit holds",
        ),
        (REFERENCES, f"{FILE}\nbulk", FILE),
        (REFERENCES, f"See\n{FILE}\nbulk", f"See\n{FILE}\nbulk"),
    ],
)
def test_what_is_indexed_of_a_message(schema, content, indexed):
    assert indexed_text(content, engine_rules(schema).search) == indexed


def test_every_copy_of_a_summary_in_the_index_goes(database_copy):
    path = database_copy("0.15.3")
    _, summary = dissolvable(path)[0]
    run(path, f"INSERT INTO summaries_fts (summary_id, content) VALUES ('{summary}', 'a stray copy')")
    gone, done = dissolve(path)
    assert (gone, done.search) == (summary, None)
    assert search_faults(path) == []


# -- broken ----------------------------------------------------------------------------------------------

BREAKING = {
    "a table of its own is gone": "DROP TABLE {table}_data",
    "its contents are gone": "DROP TABLE {table}_content",
    "its structure is no structure": "UPDATE {table}_data SET block = x'00' WHERE id = 10",
    "its pages are no pages": "UPDATE {table}_data SET block = x'ff00ff' WHERE id > 10",
}


@pytest.mark.long
@pytest.mark.parametrize("table", ["summaries_fts", "summaries_fts_cjk"])
@pytest.mark.parametrize("breaking", BREAKING)
def test_a_broken_table_holds_no_commit_up_and_is_rebuilt(database_copy, table, breaking):
    path = database_copy("0.15.3")
    run(path, BREAKING[breaking].format(table=table))
    before = dump(path)
    other = next(name for name in ("summaries_fts", "summaries_fts_cjk") if name != table)
    summary, done = dissolve(path)
    assert done.search == NOT_UPDATED or breaking == "its pages are no pages"
    assert value(path, "SELECT count(*) FROM summaries WHERE summary_id = ?", summary) == 0
    assert value(path, f"SELECT count(*) FROM {other} WHERE summary_id = ?", summary) == 0
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before
    rebuilt = reindex(path)
    assert [one.table for one in rebuilt] == list(SEARCH)
    assert search_faults(path) == []
    assert value(path, "PRAGMA integrity_check") == "ok"


def test_messages_are_deleted_beside_a_broken_table(database_copy):
    path = database_copy("0.15.3")
    run(path, "DROP TABLE messages_fts_idx")
    message = value(
        path,
        """SELECT message_id FROM messages WHERE content <> '' AND message_id NOT IN
        (SELECT message_id FROM summary_messages) AND message_id NOT IN
        (SELECT message_id FROM context_items WHERE message_id NOT NULL)""",
    )
    edits = [
        *delete(path, "message_parts", message_id=message),
        *delete(path, "messages", message_id=message),
    ]
    assert commit(path, plan_of(*edits)).search == NOT_UPDATED
    [rebuilt] = reindex(path, ["messages_fts"])
    assert rebuilt.rows == value(path, "SELECT count(*) FROM messages WHERE trim(content) <> ''")
    assert search_faults(path) == []


@pytest.mark.long
def test_a_row_of_the_index_that_has_moved_since_it_was_looked_up_is_told(database_copy):
    """The host rebuilds its search table right before the lock is ours."""
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))

    def rebuild(step: str) -> None:
        if step == "looked up":
            with connect(path) as connection:
                rows = connection.execute("SELECT summary_id, content FROM summaries_fts ORDER BY rowid DESC")
                kept = rows.fetchall()
                connection.execute("DELETE FROM summaries_fts")
                connection.executemany("INSERT INTO summaries_fts (summary_id, content) VALUES (?, ?)", kept)

    done = commit(path, plan, fault=rebuild)
    assert done.search == NOT_UPDATED
    assert value(path, "SELECT count(*) FROM summaries_fts_cjk WHERE summary_id = ?", summary) == 0
    reindex(path)
    assert search_faults(path) == []


# -- rebuilding ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_rebuilt_tables_hold_what_the_engine_wrote(database_copy, version):
    path = database_copy(version)
    held = {table: column(path, f"SELECT content FROM {table} ORDER BY rowid") for table in tables(path)}
    before = dump(path)
    for table in tables(path):
        run(path, f"DELETE FROM {table} WHERE rowid % 3 = 0", f"UPDATE {table} SET content = 'stale'")
    rebuilt = reindex(path)
    assert {one.table: one.rows for one in rebuilt} == {table: len(rows) for table, rows in held.items()}
    assert {table: column(path, f"SELECT content FROM {table} ORDER BY rowid") for table in held} == held
    assert search_faults(path) == []
    assert dump(path) == before
    assert value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'") == 0


def test_one_table_is_rebuilt_alone(database_copy):
    path = database_copy("0.15.3")
    run(path, "DELETE FROM summaries_fts", "DELETE FROM messages_fts")
    reindex(path, ["summaries_fts"])
    assert value(path, "SELECT count(*) FROM messages_fts") == 0
    assert value(path, "SELECT count(*) FROM summaries_fts") == value(path, "SELECT count(*) FROM summaries")


def test_a_table_that_the_file_does_not_have_is_refused(database_copy):
    path = database_copy("0.1.2")
    with pytest.raises(RefusedError, match="no search table summaries_fts_cjk"):
        reindex(path, ["summaries_fts_cjk"])


def test_text_that_is_no_utf8_is_indexed_as_it_stands(database_copy):
    path = database_copy("0.15.3")
    run(path, "UPDATE messages SET content = CAST(x'666f6fff20626172' AS TEXT) WHERE message_id = 5")
    reindex(path, ["messages_fts"])
    assert column(path, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'bar' AND rowid = 5") == [5]
    assert value(path, "SELECT hex(content) FROM messages_fts WHERE rowid = 5") == "666F6FFF20626172"
