"""A file of which a table or a column is gone: a change does what its preview says, or is not even shown."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from lcm_core.store.schema import BASE, FEATURES

from tests.change.support import dump
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.support import sampled

Part = tuple[str, str | None]

STRUCTURE = ("summaries", "summary_messages", "summary_parents", "context_items")
TABLES: list[Part] = [
    *((table, None) for table in BASE if table not in ("conversations", "messages")),
    *((table, None) for _, table, column in FEATURES if column is None),
]
COLUMNS: list[Part] = [
    *((table, column) for table in STRUCTURE for column in BASE[table]),
    *((table, column) for _, table, column in FEATURES if column is not None),
]
OPERATIONS: list[tuple[str, ...]] = [
    ("dissolve", "sum_f6b6d7017e1f2ae2"),
    ("transplant", "2", "3"),
    ("merge", "1"),
    ("conversations", "delete", "1"),
    ("conversations", "archive", "4"),
    ("conversations", "prune", "1"),
    ("doctor", "--fix", "all"),
    ("compact", "1", "--leaf", "--set", "freshTailCount=2", "--set", "leafChunkTokens=300"),
    ("compact", "2", "--budget", "2k", "--set", "freshTailCount=4"),
    ("rewrite", "sum_f92ec8d6a6a08b5f", "--accept", "every"),
    ("rewrite", "--broken", "--all", "--accept", "every", "--limit", "1"),
    ("focus", "clear", "1", "--no-sweep"),
    ("reindex",),
]


def without(path: Path, part: Part) -> None:
    """Take a table or a column away (or its name), as a migration that ended in the middle leaves it."""
    table, column = part
    with connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA legacy_alter_table = ON")
        if column is None:
            connection.execute(f"DROP TABLE {table}")
            return
        sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql LIKE ?"
        for (index,) in connection.execute(sql, (table, f"%{column}%")).fetchall():
            connection.execute(f"DROP INDEX {index}")
        try:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        except sqlite3.OperationalError:  # it is part of a key
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO {column}_before")


def check(start: Path, part: Part, words: tuple[str, ...], folder: Path) -> None:
    """Preview it, make it, and take it back."""
    path = Path(shutil.copyfile(start, folder / "lcm.db"))
    before = dump(path)
    shown = run(*words, "--db", path, "--json")
    assert shown.code != 1, (part, words, shown.err)
    assert dump(path) == before
    done = run(*words, "--apply", "--yes", "--db", path, "--json")
    assert done.code != 1, (part, words, done.err)
    if shown.code:
        assert done.code == shown.code, (part, words, done.err)
        assert dump(path) == before
    else:
        assert done.code == 0, (part, words, done.err)
    if "forget" not in words and words[0] != "reindex":
        while run("history", "undo", "last", "--apply", "--yes", "--db", path).code == 0:
            pass
        assert dump(path) == before, (part, words)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "part",
    sampled(
        [*TABLES, *COLUMNS],
        [
            *((table, None) for table in STRUCTURE),
            ("summary_parents", "ordinal"),
            ("context_items", "ordinal"),
        ],
    ),
    ids=lambda part: f"{part[0]}.{part[1]}" if part[1] else part[0],
)
@pytest.mark.parametrize("words", sampled(OPERATIONS, [*OPERATIONS[3:5], OPERATIONS[8]]), ids=" ".join)
def test_what_is_previewed_is_made_or_refused_before(
    database_file: DatabaseFactory, tmp_path: Path, part: Part, words: tuple[str, ...]
):
    start = Path(shutil.copyfile(database_file("0.15.3"), tmp_path / "start.db"))
    start.chmod(0o644)
    without(start, part)
    check(start, part, words, tmp_path)
