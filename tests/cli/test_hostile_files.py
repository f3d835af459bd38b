"""Files that nobody wrote in good faith: a flipped bit, names of no UTF-8, paths that are no files."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.app.hostile import enormous
from tests.cli.support import run
from tests.conftest import WRITTEN, DatabaseFactory
from tests.support import unpack_database

#: The versions of the file format for writing and reading, sizes, counters: what SQLite looks at first.
HEADER = (*range(16, 28), 40, 44, 56, 92, 95)


@pytest.mark.long
def test_a_flipped_bit_in_the_header_leaves_nothing_beside_the_file(
    tmp_path: Path, database_file: DatabaseFactory
):
    good = database_file("0.15.3").read_bytes()
    assert good[18:20] == b"\x02\x02", "a file in WAL mode is what this is about"
    path = tmp_path / "lcm.db"
    for offset in HEADER:
        for bit in range(8):
            bad = bytearray(good)
            bad[offset] ^= 1 << bit
            path.write_bytes(bad)
            os.utime(path, (WRITTEN, WRITTEN))
            result = run("status", "--db", path)
            what = f"bit {bit} of byte {offset}: {result.err}"
            assert result.code in (0, 5, 8), what
            assert os.listdir(tmp_path) == [path.name], what
            assert path.read_bytes() == bytes(bad), what


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "words",
    [["status"], ["backup"], ["doctor"], ["history", "list"], ["migrate", "--apply", "--yes"], ["disk"]],
    ids=" ".join,
)
@pytest.mark.parametrize("path", ["/", "/dev/null", "/dev", "."])
def test_what_is_no_file_ends_in_a_sentence(words: list[str], path: str):
    result = run(*words, "--db", path)
    assert (result.code, result.out) == (5, "")
    assert result.err.count("\n") == 1
    assert "unexpected" not in result.err


SPOILT = {
    "an index": ("messages_conv_seq_idx", b"CREATE INDEX messages_conv_seq_idx ON messages (\xff\xfe)"),
    "a view": ("large_files", b"CREATE VIEW large_files AS SELECT \xff\xfe AS file_id FROM messages"),
    "a trigger": (
        "spoilt",
        b"CREATE TRIGGER spoilt UPDATE ON conversations BEGIN SELECT \xff\xfe; END",
    ),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", SPOILT)
@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["files"],
        ["doctor"],
        ["reindex", "--apply", "--yes"],
        ["backup"],
        ["conversations", "archive", "--until", "1d", "--apply", "--yes"],
    ],
    ids=" ".join,
)
def test_a_complaint_of_sqlite_that_is_not_utf8_ends_in_a_sentence(
    kind: str, words: list[str], database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    name, sql = SPOILT[kind]
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        if kind == "a view":
            database.execute("DROP TABLE large_files")
            database.execute("CREATE VIEW large_files AS SELECT 1 AS file_id")
        elif kind == "a trigger":
            database.execute("CREATE TRIGGER spoilt AFTER UPDATE ON conversations BEGIN SELECT 1; END")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = ?", (sql, name))
    result = run(*words, "--db", path)
    assert result.code in (0, 5, 6, 9), result.err
    assert "unexpected" not in result.err
    if result.code == 5:
        assert result.err.count("\n") == 1
        assert r"\xff\xfe" in result.err
    else:
        assert kind != "an index"


def test_a_copy_of_a_table_with_a_name_of_no_utf8_is_backed_up(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            """UPDATE sqlite_master SET sql = CAST(replace(sql, 'title TEXT',
            't' || CAST(x'ff' AS TEXT) || ' TEXT') AS TEXT) WHERE name = 'conversations'"""
        )
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "out").mkdir()
    assert run("backup", "--to", tmp_path / "out" / "copy.db", "--db", path).code == 0
    assert run("conversations", "list", "--db", path).code == 0


@pytest.mark.long
def test_texts_of_twelve_million_characters_are_no_obstacle(tmp_path: Path):
    """A message, a summary and a payload so long: lists show the beginning, checks say what they left out."""
    path = enormous(unpack_database("0.15.3", tmp_path / "lcm.db"))
    for words in ("conversations list", "conversations show 3", "messages list 3", "context 3"):
        for form in ([], ["--json"]):
            told = run(*words.split(), "--db", path, *form)
            assert (told.code, told.err) == (0, "")
            assert len(told.out) < 100_000
    assert run("context", "3", "--assembled", "--db", path).code == 0
    told = run("doctor", "3", "--db", path)
    assert (told.code, told.err) == (6, "")
    assert "it did not read 1 messages of conversation 3" in told.out
    assert "it did not read 1 summaries of conversation 3" in told.out
