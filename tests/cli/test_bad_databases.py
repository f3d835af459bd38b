"""A path at which there is no readable LCM database: one sentence, an exit code, and nothing written."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lcm_tui.cli import answer
from tests.cli.support import run
from tests.conftest import DatabaseFactory

Make = Callable[[Path, bytes], None]


def truncated(path: Path, good: bytes) -> None:
    path.write_bytes(good[: len(good) // 2])


def cut_in_the_first_page(path: Path, good: bytes) -> None:
    path.write_bytes(good[:1000])


def encrypted(path: Path, good: bytes) -> None:
    path.write_bytes(random.Random(7).randbytes(len(good)))


def of_another_program(path: Path, good: bytes) -> None:
    database = sqlite3.connect(path)
    database.executescript("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x')")
    database.close()


def with_similar_tables(path: Path, good: bytes) -> None:
    database = sqlite3.connect(path)
    database.executescript("CREATE TABLE conversations (id); CREATE TABLE messages (id)")
    database.close()


def torn(path: Path, good: bytes) -> None:
    path.write_bytes(good[:8192] + b"\xa5" * (len(good) - 8192))


BAD: dict[str, tuple[Make, str]] = {
    "missing": (lambda path, good: None, "There is no database at"),
    "directory": (lambda path, good: path.mkdir(), "is a folder"),
    "text file": (lambda path, good: path.write_text("Dear diary,\n" * 50) and None, "not a SQLite database"),
    "empty file": (lambda path, good: path.touch(), "is empty"),
    "truncated": (truncated, "is truncated"),
    "cut in the first page": (cut_in_the_first_page, "is truncated"),
    "encrypted": (encrypted, "encrypted"),
    "another program": (of_another_program, "not an LCM one"),
    "similar tables": (with_similar_tables, "not an LCM database"),
    "torn": (torn, "damaged"),
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("command", [["status"], ["conversations", "list"], ["context", "1"]], ids=" ".join)
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_database_is_named_in_one_sentence(
    kind: str, command: list[str], tmp_path: Path, database_file: DatabaseFactory
):
    make, words = BAD[kind]
    path = tmp_path / "lcm.db"
    make(path, database_file("0.15.3").read_bytes())
    before = sorted(os.listdir(tmp_path))
    plain, as_json = run(*command, "--db", path), run(*command, "--db", path, "--json")
    code = 3 if kind == "missing" else 5
    assert (plain.code, plain.out, as_json.code) == (code, "", code)
    assert words in plain.err
    assert str(path) in plain.err
    assert plain.err.count("\n") == 1
    assert "Traceback" not in plain.err
    assert as_json.error["message"] == plain.err.rstrip("\n")
    assert as_json.error["code"].startswith("DATABASE_")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_missing_database_has_the_code_of_the_engine(tmp_path: Path):
    error = run("status", "--db", tmp_path / "no.db", "--json").error
    assert error["code"] == "DATABASE_NOT_FOUND"
    assert error["details"] == {"path": str(tmp_path / "no.db")}


def test_a_locked_database_is_busy(database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answer, "BUSY_SECONDS", 0.05)
    path = database_copy("0.15.3")
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("PRAGMA journal_mode = DELETE")
    host.execute("BEGIN EXCLUSIVE")
    result = run("status", "--db", path)
    host.close()
    assert result.code == 8
    assert "is locked by another process" in result.err


def test_a_host_that_is_writing_is_no_obstacle(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("PRAGMA journal_mode = WAL")
    host.execute("INSERT INTO conversations (session_id) VALUES ('new')")
    host.execute("BEGIN IMMEDIATE")
    host.execute("INSERT INTO conversations (session_id) VALUES ('not yet')")
    status = run("status", "--db", path, "--json").data["status"]
    host.close()
    assert status["conversations"]["total"] == 9


@pytest.mark.long
def test_the_database_is_found_where_the_engine_finds_it(
    openclaw_home: Path, database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    def path_of(*arguments: object) -> str:
        return run("status", "--json", *arguments).document["meta"]["databasePath"]

    assert path_of("--openclaw-dir", openclaw_home) == str(openclaw_home / "lcm.db")
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(openclaw_home))
    assert path_of() == str(openclaw_home / "lcm.db")
    monkeypatch.setenv("LCM_DATABASE_PATH", str(database_file("0.3.0")))
    assert path_of() == str(database_file("0.3.0"))
    assert path_of("--db", database_file("0.8.2")) == str(database_file("0.8.2"))
