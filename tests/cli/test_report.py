"""A report for a bug tells what helps and nothing of what anybody said, called something, or keeps secret."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from lcm_core import __version__
from lcm_core.operations.report import log_entries

from lcm_tui.kit import logfile
from tests.cli.support import run
from tests.conftest import DatabaseFactory

MARK = "XyZZy"
#: Columns that lead to rows; all other texts are marked.
_KEYS = {"summary_id", "parent_summary_id", "file_id", "brief_id", "part_id"}


def marked(path: Path) -> Path:
    """A file with the mark in every text that is no key, and in names of its schema."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
            database.execute(f"PRAGMA {pragma}")
        tables = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%_fts%'"
            " AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        for (table,) in tables:
            for name, kind in database.execute(
                "SELECT name, type FROM pragma_table_info(?)", (table,)
            ).fetchall():
                if kind == "TEXT" and name not in _KEYS:
                    sql = f"UPDATE OR IGNORE {table} SET {name} = '{MARK}' || rowid"
                    database.execute(sql if name != "content" else f"{sql} || ' ' || {name}")
        database.execute(f"CREATE TABLE {MARK}_secret ({MARK}_column TEXT)")
        database.execute(f"ALTER TABLE messages ADD COLUMN {MARK}_more TEXT DEFAULT '{MARK}'")
        database.execute(f"CREATE INDEX {MARK}_index ON messages (role)")
    return path


LOG = f"""2026-03-01 10:00:00,123 42 ERROR lcm_tui.cli.main: unexpected {MARK}
Traceback (most recent call last):
  File "{logfile.__file__}", line 12, in install
    secret = "{MARK}"
  File "/home/{MARK}/project/{MARK}.py", line 3, in {MARK}
    fails()
  File "{logfile.__file__}", line 13, in {MARK}
    fails()
  File "{Path(logfile.__file__).parent / MARK}.py", line 14, in install
sqlite3.OperationalError: no such column: {MARK}
{MARK}: {MARK}
{MARK}Error: sk-ant-{MARK}
lcm_core.base.errors.DatabaseError: /home/{MARK}/lcm.db {MARK}
2026-03-01 10:00:01,123 42 WARNING {MARK}: sk-{MARK}
"""


@pytest.fixture
def report(
    database_copy: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, object]]:
    path = marked(database_copy("0.15.3"))
    home = tmp_path / f"home-{MARK}"
    home.mkdir()
    moved = home / f"{MARK}.db"
    path.rename(moved)
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "LCM_SUMMARY_MODEL",
        "LCM_SUMMARY_PROVIDER",
        "TZ_NAME",
    ):
        monkeypatch.setenv(name, f"sk-{MARK}")
    monkeypatch.setenv("LCM_CUSTOM_INSTRUCTIONS", f"say {MARK}")
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "12345")
    monkeypatch.setenv(f"LCM_{MARK}", MARK)
    config = home / "openclaw.json"
    config.write_text(
        json.dumps({"plugins": {"entries": {"lossless-claw": {"config": {MARK: MARK}}}}, MARK: MARK})
    )
    log = logfile.log_path()
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    target = tmp_path / "report.json"
    result = run("status", "--report", "--db", moved, "--config", config, "--to", target)
    assert result.code == 0, result.err
    return target, json.loads(target.read_bytes())


@pytest.mark.long
def test_nothing_of_the_content_is_in_it(report: tuple[Path, dict[str, object]]):
    target, _ = report
    said = target.read_bytes().lower()
    assert MARK.lower().encode() not in said
    assert b"sk-" not in said
    assert str(target.parent).encode().lower() not in said
    assert b"/home" not in said
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.long
def test_what_helps_is_in_it(report: tuple[Path, dict[str, object]]):
    _, found = report
    machine, settings, database, log = (found[name] for name in ("machine", "settings", "database", "log"))
    assert machine["lcm-tui"] == __version__
    assert machine["sqlite"] == sqlite3.sqlite_version
    assert "ANTHROPIC_API_KEY" in machine["variables"]
    assert settings["values"]["leafChunkTokens"] == {"value": 12345, "from": "environment"}
    assert settings["values"]["customInstructions"] == {"value": "(a text)", "from": "environment"}
    assert database["engine"].startswith("0.15")
    assert database["rows"]["messages"] == 865
    assert database["otherTables"] >= 1
    assert database["doctor"]["findings"]
    first, second = log
    assert first["at"] == "2026-03-01 10:00:00"
    assert first["errors"] == ["OperationalError", "(another error)", "(another error)", "DatabaseError"]
    assert first["places"] == ["lcm_tui/kit/logfile.py:12 install", "lcm_tui/kit/logfile.py:13 ?"]
    assert (second["level"], second["errors"]) == ("WARNING", [])


@pytest.mark.long
def test_it_never_writes_over_a_file(report: tuple[Path, dict[str, object]], database_file: DatabaseFactory):
    target, _ = report
    before = target.read_bytes()
    result = run("status", "--report", "--db", database_file("0.15.3"), "--to", target)
    assert result.code == 9
    assert target.read_bytes() == before


@pytest.mark.long
def test_where_nothing_can_be_written_it_names_the_option(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def refused(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.chdir(tmp_path)
    database = database_file("0.15.3")
    monkeypatch.setattr("lcm_core.base.files._create", refused)
    result = run("status", "--report", "--db", database)
    assert (result.code, result.out) == (9, "")
    assert "(Read-only file system); name a file elsewhere with --to." in result.err
    assert "--to" not in run("status", "--report", "--db", database, "--to", "x.json").err


@pytest.mark.parametrize("kind", ["missing", "no database"])
def test_without_a_database_it_says_why_and_no_path(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / f"{MARK}.db"
    if kind != "missing":
        path.write_bytes(b"no database" * 100)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = run("status", "--report", "--db", path, "--json")
    written = Path(result.data["path"])
    assert os.listdir(tmp_path / "here") == [written.name]
    assert MARK.encode() not in written.read_bytes()
    code, exits = ("DATABASE_NOT_FOUND", 3) if kind == "missing" else ("DATABASE_OPEN_FAILED", 5)
    assert json.loads(written.read_bytes())["database"] == {"failed": code, "exitCode": exits}


def test_a_log_that_is_no_file_is_not_read(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("fifo", "link", "missing"):
        assert log_entries(tmp_path / name) == []
