"""A commit writes the rows of its plan, their search rows and one row of the journal; nothing rides along."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lcm_core.api import ExitCode, RefusedError, migrate, plan_dissolve, plan_redo, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.connection import open_writer
from lcm_core.change.guard import OWN_TABLES
from lcm_core.change.migrate import plan_migration
from lcm_core.change.reindex import reindex, resync
from lcm_core.change.undo import forget_history, prune_history
from lcm_core.operations.prune import plan_delete

from tests.change.support import (
    Rows,
    delete,
    dissolvable,
    dump,
    plan_of,
    planned,
    previewed,
    search_faults,
    update,
)
from tests.databases import connect, run, value
from tests.support import sampled

ASSEMBLIES = "lcm_tui_assemblies"
TABLE = "lcm_tui_operations"

#: What another program's trigger may do besides, by what it is called.
BODIES = {
    "overwrite every message": "UPDATE messages SET content = 'gone'",
    "delete every message": "DELETE FROM messages",
    "delete the other summaries": "DELETE FROM summaries WHERE kind = 'leaf'",
    "make rows": "INSERT INTO summary_parents SELECT summary_id, hex(randomblob(8)), 9 FROM summaries",
    "do nothing at all": "SELECT 1",
    "leave the row out": "SELECT RAISE(IGNORE)",
    "refuse the row": "SELECT RAISE(ABORT, 'no')",
}
SHADOWS = ("data", "idx", "content", "docsize", "config")


def text_plan(path: Path):
    """A new text of a summary and of a message: what all search tables follow."""
    summary = value(path, "SELECT summary_id FROM summaries ORDER BY rowid LIMIT 1")
    message = value(path, "SELECT min(message_id) FROM messages")
    return plan_of(
        update(path, "summaries", "summary_id", summary, content="another text"),
        update(path, "messages", "message_id", message, content="another text"),
    )


def context_plan(path: Path):
    conversation, summary = dissolvable(path)[0]
    return asyncio.run(planned(path, plan_dissolve, conversation, [summary]))


PLANS = {"text": text_plan, "context": context_plan}


def state(path: Path) -> tuple[Rows, list[tuple[object, ...]]]:
    with connect(path) as connection:
        there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        kept = connection.execute(f"SELECT * FROM {TABLE}").fetchall() if there else []
    return dump(path), kept


def check_refused(path: Path, work: Callable[[], object], *named: str) -> RefusedError:
    """The work is refused with exit code 9, names what is in the way, and leaves everything as it was."""
    before = state(path)
    with pytest.raises(RefusedError) as caught:
        work()
    assert caught.value.exit_code is ExitCode.REFUSED
    assert "\n" not in caught.value.message
    assert "Nothing was changed" in caught.value.message
    for name in named:
        assert name in caught.value.message
    assert state(path) == before
    assert value(path, "PRAGMA integrity_check") == "ok"
    return caught.value


def make_journal(path: Path) -> None:
    run(path, OWN_TABLES[TABLE])


@pytest.mark.cases(1)
@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize("moment", ["BEFORE INSERT", "AFTER INSERT"])
def test_a_trigger_on_the_journal_stops_every_change(database_copy, moment, body):
    path = database_copy("0.15.3")
    plan = context_plan(path)
    make_journal(path)
    run(path, f"CREATE TRIGGER rider {moment} ON {TABLE} BEGIN {body}; END")
    check_refused(path, lambda: previewed(path, plan), "rider", TABLE)
    check_refused(path, lambda: commit(path, plan), "rider", TABLE)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(["0.15.3", "0.1.2"], ["0.15.3"]))
@pytest.mark.parametrize("shadow", SHADOWS)
def test_a_trigger_behind_a_search_table_stops_what_the_table_follows(database_copy, version, shadow):
    for number, search in enumerate(("messages_fts", "summaries_fts")):
        for event in ("INSERT", "UPDATE", "DELETE"):
            path = database_copy(version)
            plan = text_plan(path)
            body = list(BODIES.values())[number]
            run(path, f"CREATE TRIGGER rider AFTER {event} ON {search}_{shadow} BEGIN {body}; END")
            check_refused(path, lambda at=path, one=plan: previewed(at, one), "rider")
            check_refused(path, lambda at=path, one=plan: commit(at, one), "rider")
            shutil.rmtree(path.parent)


def test_a_trigger_behind_a_search_table_does_not_stop_what_leaves_that_alone(database_copy):
    path = database_copy("0.15.3")
    run(path, "CREATE TRIGGER rider AFTER INSERT ON messages_fts_data BEGIN DELETE FROM messages; END")
    assert commit(path, context_plan(path)).id


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("table", "event", "kind"),
    [
        ("context_items", "DELETE", "context"),
        ("CONTEXT_ITEMS", "INSERT", "context"),
        ("Messages", "UPDATE OF content", "text"),
        ("summaries", "UPDATE", "text"),
    ],
)
@pytest.mark.parametrize("body", list(BODIES.values())[-3:], ids=list(BODIES)[-3:])
def test_a_trigger_on_the_engines_own_tables_is_named_in_the_preview(database_copy, table, event, kind, body):
    path = database_copy("0.15.3")
    plan = PLANS[kind](path)
    run(path, f'CREATE TRIGGER "a rider" BEFORE {event} ON {table} BEGIN {body}; END')
    check_refused(path, lambda: previewed(path, plan), "a rider", table)
    check_refused(path, lambda: commit(path, plan), "a rider", table)


def test_triggers_on_tables_of_others_are_theirs(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
        "CREATE TRIGGER of_theirs AFTER INSERT ON notes BEGIN DELETE FROM notes WHERE id < new.id - 9; END",
        "CREATE VIEW seen AS SELECT content FROM messages",
        "CREATE TRIGGER through_a_view INSTEAD OF INSERT ON seen BEGIN SELECT 1; END",
    )
    assert commit(path, context_plan(path)).id
    assert commit(path, text_plan(path)).id


ODD_JOURNALS = {
    "a view": "CREATE VIEW {0} AS SELECT 1 AS id",
    "another table": "CREATE TABLE {0} (id TEXT, title TEXT)",
    "that replaces its rows": OWN_TABLES[TABLE].replace("PRIMARY KEY", "PRIMARY KEY ON CONFLICT REPLACE"),
    "that leaves rows out": OWN_TABLES[TABLE].replace(
        "tokens INTEGER NOT NULL", "tokens CHECK (1) NOT NULL ON CONFLICT IGNORE"
    ),
    "with a column that is worked out": OWN_TABLES[TABLE].replace(
        "undone_by TEXT", "undone_by TEXT, more TEXT AS (id)"
    ),
    "without row numbers": OWN_TABLES[TABLE] + " WITHOUT ROWID",
    "a full-text table": "CREATE VIRTUAL TABLE {0} USING fts5(id, title)",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("sql", ODD_JOURNALS.values(), ids=list(ODD_JOURNALS))
def test_a_journal_that_another_program_made_is_refused(database_copy, sql):
    path = database_copy("0.15.3")
    plan = context_plan(path)
    with connect(path) as connection:
        connection.execute(sql.format(TABLE))
    before = dump(path)
    for work in (previewed, commit):
        with pytest.raises(RefusedError, match=TABLE):
            work(path, plan)
    assert dump(path) == before


def test_a_journal_that_was_written_out_and_read_back_is_ours(database_copy):
    path = database_copy("0.15.3")
    first = commit(path, context_plan(path)).id
    with connect(path) as connection:
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()[0]
        connection.execute(f"ALTER TABLE {TABLE} RENAME TO aside")
        connection.execute(
            sql.replace(TABLE, f'"{TABLE}"').replace("\n", " \t\n").replace("CREATE", "create")
        )
        connection.execute(f"INSERT INTO {TABLE} SELECT * FROM aside")
        connection.execute("DROP TABLE aside")
    assert commit(path, asyncio.run(planned(path, plan_undo, first))).id


def test_an_index_on_the_journal_cannot_keep_its_row_out_unseen(database_copy):
    path = database_copy("0.15.3")
    plan = context_plan(path)
    make_journal(path)
    run(path, f"CREATE UNIQUE INDEX one_only ON {TABLE} (tool_version)")
    first = commit(path, plan).id
    again = asyncio.run(planned(path, plan_undo, first))
    assert TABLE in check_refused(path, lambda: commit(path, again)).message


@pytest.mark.cases(1)
@pytest.mark.parametrize("redo", [False, True], ids=["undo", "redo"])
def test_an_undo_is_held_to_the_same(database_copy, redo):
    path = database_copy("0.15.3")
    operation = commit(path, context_plan(path)).id
    if redo:
        commit(path, asyncio.run(planned(path, plan_undo, operation)))
    plan = asyncio.run(planned(path, plan_redo if redo else plan_undo, operation))
    run(path, f"CREATE TRIGGER rider AFTER UPDATE ON {TABLE} BEGIN DELETE FROM messages; END")
    check_refused(path, lambda: previewed(path, plan), "rider")
    check_refused(path, lambda: commit(path, plan), "rider")


def test_what_a_deleted_conversation_leaves_behind_is_held_to_the_same(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        "INSERT INTO conversations (conversation_id, session_id) VALUES (99, 'x')",
        OWN_TABLES[ASSEMBLIES],
        f"CREATE TRIGGER rider AFTER DELETE ON {ASSEMBLIES} BEGIN DELETE FROM messages; END",
    )
    plan = plan_of(*delete(path, "conversations", conversation_id=99))
    check_refused(path, lambda: commit(path, plan), "rider")


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "work",
    [
        lambda path: reindex(path, ["messages_fts"]),
        lambda path: resync(path, ["messages_fts"]),
    ],
    ids=["rebuilt", "brought in step"],
)
@pytest.mark.parametrize("shadow", SHADOWS)
def test_search_tables_are_rebuilt_without_triggers(database_copy, work, shadow):
    path = database_copy("0.15.3")
    run(
        path,
        "DELETE FROM messages_fts WHERE rowid IN (SELECT rowid FROM messages_fts LIMIT 3)",
        f"CREATE TRIGGER rider AFTER INSERT ON messages_fts_{shadow} BEGIN DELETE FROM summaries; END",
    )
    check_refused(path, lambda: work(path), "rider")
    run(path, "DROP TRIGGER rider")
    work(path)
    assert search_faults(path) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "work",
    [lambda path: prune_history(path, keep=0), lambda path: forget_history(path, 3)],
    ids=["shortened", "forgotten"],
)
def test_a_history_is_shortened_without_triggers(database_copy, work):
    path = database_copy("0.15.3")
    commit(path, context_plan(path))
    run(path, f"CREATE TRIGGER rider BEFORE DELETE ON {TABLE} BEGIN DELETE FROM messages; END")
    check_refused(path, lambda: work(path), "rider")


def test_a_migration_is_done_without_triggers(database_copy):
    path = database_copy("0.1.2")
    run(path, "CREATE TRIGGER rider AFTER UPDATE ON messages BEGIN DELETE FROM summaries; END")
    check_refused(path, lambda: asyncio.run(planned(path, plan_migration)), "rider")
    check_refused(path, lambda: migrate(path), "rider")


def test_a_statement_that_no_plan_shows_is_not_even_compiled(database_copy):
    path = database_copy("0.15.3")
    make_journal(path)
    for table in ("messages", "summaries_fts_content"):
        with open_writer(path, 1.0) as writer:
            writer.begin()
            writer.write_only(["context_items", TABLE])
            with pytest.raises(RefusedError, match=table):
                writer.execute(f"DELETE FROM {table}")
            writer.rollback()
            writer.begin()
            writer.rows(f"WITH wanted AS (SELECT 1) SELECT * FROM wanted, {TABLE}")
    assert value(path, "SELECT count(*) FROM messages")


@pytest.mark.long
def test_a_conversation_is_deleted_and_its_search_rows_with_it(database_copy):
    path = database_copy("0.15.3")
    for plan in asyncio.run(planned(path, plan_delete, [3])).plans:
        commit(path, plan)
    assert search_faults(path) == []
