"""What a user added to the schema: known before the preview, and what commits can be undone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import RefusedError, plan_dissolve, plan_transplant, plan_undo
from lcm_core.change.commit import commit
from lcm_core.operations.prune import plan_delete

from tests.change.support import Rows, dissolvable, dump, planned, previewed
from tests.databases import connect, run, value

ALL = ("conversations", "messages", "summaries", "context_items", "summary_messages", "message_parts")


def dissolving(path: Path):
    conversation, summary = dissolvable(path)[0]
    return [asyncio.run(planned(path, plan_dissolve, conversation, [summary]))]


def deleting(path: Path):
    return list(asyncio.run(planned(path, plan_delete, [8])).plans)


def copying(path: Path):
    return [asyncio.run(planned(path, plan_transplant, 2, 3))]


KINDS = {"dissolve": dissolving, "delete": deleting, "transplant": copying}


def stored(path: Path) -> Rows:
    """The rows, with what SQLite works out of them."""
    return dump(path)


def make(path: Path, *statements: str) -> Path:
    """Change the schema as another program does, which has a function and an order of texts of its own."""
    with connect(path) as connection:
        connection.create_function("fold", 1, lambda text: str(text).casefold(), deterministic=True)
        connection.create_collation("german", lambda a, b: (a > b) - (a < b))
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.long
@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("operation", list(KINDS))
def test_columns_that_sqlite_works_out_are_left_to_it(database_copy, kind, operation):
    path = database_copy("0.15.3")
    for table in ALL:
        with_worked_out_column(path, table, kind)
    before = stored(path)
    operations = []
    for plan in KINDS[operation](path):
        previewed(path, plan)
        operations.append(commit(path, plan).id)
    assert stored(path) != before
    for one in reversed(operations):
        commit(path, asyncio.run(planned(path, plan_undo, one)))
    assert stored(path) == before


def with_worked_out_column(path: Path, table: str, kind: str) -> None:
    """Add a column that SQLite works out of the first one; a stored one only a new table can have."""
    with connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA legacy_alter_table = ON")
        [name, *_] = columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = f"\"worked out\" TEXT AS (coalesce({name}, 0) || 'x') {kind}"
        if kind == "VIRTUAL":
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            return
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        connection.execute(f"ALTER TABLE {table} RENAME TO aside")
        connection.execute(sql.replace("(", f"({column}, ", 1))
        names = ", ".join(columns)
        connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM aside")
        connection.execute("DROP TABLE aside")


@pytest.mark.cases(1)
@pytest.mark.parametrize("table", ["context_items", "Context_Items"])
@pytest.mark.parametrize("name", ["rowid", "ROWID"])
def test_a_column_that_hides_the_numbers_of_rows_is_named(database_copy, table, name):
    path = database_copy("0.15.3")
    plans = dissolving(path)
    run(path, f"ALTER TABLE {table} ADD COLUMN {name} INTEGER DEFAULT 1")
    before = stored(path)
    for work in (previewed, commit):
        with pytest.raises(RefusedError, match=r"context_items .* column named rowid"):
            work(path, plans[0])
    assert stored(path) == before


PARTS = {
    "an index": "CREATE INDEX theirs ON {} (fold({}))",
    "a part of an index": "CREATE INDEX theirs ON {0} ({1}) WHERE fold({1}) > 1",
    "an order of texts": "CREATE INDEX theirs ON {0} ({1} COLLATE german)",
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("sql", PARTS.values(), ids=list(PARTS))
@pytest.mark.parametrize(("table", "operation"), [("context_items", "dissolve"), ("messages", "transplant")])
def test_what_only_another_program_has_is_named_before_the_preview(database_copy, sql, table, operation):
    path = database_copy("0.15.3")
    plans = KINDS[operation](path)
    make(path, sql.format(table, "created_at" if table == "messages" else "item_type"))
    before = stored(path)
    for work in (previewed, commit):
        with pytest.raises(RefusedError, match=table) as caught:
            work(path, plans[0])
        assert "fold" in caught.value.message or "german" in caught.value.message
        assert "recover" not in caught.value.message
    assert stored(path) == before


def test_a_constraint_with_a_function_of_another_program_is_refused_before_the_lock(database_copy):
    path = database_copy("0.15.3")
    plans = dissolving(path)
    make(
        path,
        "ALTER TABLE context_items ADD COLUMN theirs TEXT NOT NULL DEFAULT 'x' CHECK (fold(theirs) > '')",
    )
    with pytest.raises(RefusedError, match=r"context_items .* fold\(\)"):
        commit(path, plans[0])


@pytest.mark.long
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX theirs ON messages (json_extract(large_content, '$.a'))",
        "CREATE INDEX theirs ON context_items (json_valid(item_type))",
        "CREATE INDEX theirs ON summaries (file_ids) WHERE json_array_length(file_ids) > 0",
        "ALTER TABLE messages ADD COLUMN size INTEGER AS (json_array(content)) VIRTUAL",
    ],
)
def test_an_index_over_json_is_kept_up(database_copy, sql):
    path = run(database_copy("0.15.3"), sql)
    before = stored(path)
    operations = [commit(path, plan).id for kind in KINDS for plan in KINDS[kind](path)]
    for one in reversed(operations):
        commit(path, asyncio.run(planned(path, plan_undo, one)))
    assert stored(path) == before
    assert value(path, "PRAGMA integrity_check") == "ok"
