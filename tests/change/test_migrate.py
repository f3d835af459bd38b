"""Migration: any old database gets the present schema, and what was not recorded is worked out."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import RefusedError, migrate
from lcm_core.change.migrate import plan_migration
from lcm_core.change.schema import create_database

from tests.change.support import dump, reading, rows_of, search_faults
from tests.cli.support import run
from tests.databases import column, connect, value
from tests.databases import run as change_behind
from tests.operations.test_engine import shape

OLD = ("0.1.2", "0.3.0", "0.8.2")


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """A shape without the order of columns, the tables of ours, and what was made under another name."""
    return {
        name: facts
        for name, facts in found.items()
        if not name.startswith(("lcm_tui_", "messages_fts_", "summaries_fts_")) and name != "sqlite_sequence"
    }


@pytest.mark.long
@pytest.mark.parametrize("version", OLD)
def test_it_has_the_present_schema_and_all_its_rows(
    version: str, database_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    path, new = database_copy(version), tmp_path / "new.db"
    create_database(new)
    before = {table: rows_of(path, f"SELECT * FROM {table}") for table in ("messages", "summaries")}
    parts = value(path, "SELECT count(*) FROM message_parts")
    done = migrate(path)
    assert done.migration.version.startswith({"0.1.2": "0.1.2", "0.3.0": "0.3.0", "0.8.2": "0.8.1"}[version])
    ours, theirs = plain(shape(path)), plain(shape(new))
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} == set()
    for table, rows in before.items():
        key = "message_id" if table == "messages" else "summary_id"
        after = {row[key]: row for row in rows_of(path, f"SELECT * FROM {table}")}
        assert len(after) == len(rows)
        for row in rows:
            assert after[row[key]].as_dict() | row.as_dict() == after[row[key]].as_dict()
    assert value(path, "SELECT count(*) FROM message_parts") == parts
    assert value(path, "PRAGMA integrity_check") == "ok"
    assert column(path, "PRAGMA foreign_key_check") == []
    assert value(path, "SELECT count(*) FROM summaries_fts_cjk") == len(before["summaries"])
    with pytest.raises(RefusedError, match="nothing to do"):
        migrate(path)


def test_what_0_1_never_recorded_is_what_0_3_recorded(database_copy: Callable[[str], Path]) -> None:
    """Both databases were made of the same sessions: only the counters differ, and 0.3 wrote them."""
    old, newer = database_copy("0.1.2"), database_copy("0.3.0")
    migrate(old)
    told = """SELECT s.summary_id, s.descendant_count, s.descendant_token_count, s.source_message_token_count
        FROM summaries AS s ORDER BY s.summary_id"""
    with connect(old) as ours, connect(newer) as theirs:
        mine = {row[0]: row[1:] for row in ours.execute(told)}
        known = {row[0]: row[1:] for row in theirs.execute(told)}
    both = mine.keys() & known.keys()
    assert len(both) > 60
    leaves = column(old, "SELECT summary_id FROM summaries WHERE kind = 'leaf'")
    same = [one for one in leaves if one in both]
    assert all(mine[one] == known[one] for one in same)
    assert value(old, "SELECT count(*) FROM summaries WHERE source_message_token_count = 0") <= 1
    condensed = "SELECT count(*) FROM summaries WHERE kind = 'condensed' AND descendant_token_count = 0"
    assert value(old, condensed) == 0
    # A leaf reaches from its first message to its last, to the millisecond.
    with connect(old) as ours:
        ranges = ours.execute(
            """SELECT julianday(s.earliest_at) - min(julianday(m.created_at)),
            julianday(s.latest_at) - max(julianday(m.created_at)) FROM summaries AS s
            JOIN summary_messages USING (summary_id) JOIN messages AS m USING (message_id)
            WHERE s.kind = 'leaf' GROUP BY s.summary_id"""
        ).fetchall()
    assert len(ranges) > 60
    assert all(apart is not None and abs(apart) < 1e-7 for both in ranges for apart in both)


def test_calls_of_0_1_get_their_columns(database_copy: Callable[[str], Path]) -> None:
    path = database_copy("0.1.2")
    migrate(path)
    lacking = """SELECT count(*) FROM message_parts WHERE part_type = 'agent'
        AND (tool_call_id IS NULL OR tool_name IS NULL OR tool_input IS NULL)"""
    assert value(path, lacking) == 0
    assert value(path, "SELECT count(*) FROM messages WHERE identity_hash IS NULL") == 0


def test_a_value_that_stands_is_left(database_copy: Callable[[str], Path]) -> None:
    path = database_copy("0.8.2")
    one = value(path, "SELECT summary_id FROM summaries WHERE kind = 'condensed' LIMIT 1")
    change_behind(
        path, f"UPDATE summaries SET descendant_count = 77, earliest_at = 'x' WHERE summary_id = '{one}'"
    )
    migrate(path)
    [row] = rows_of(path, "SELECT * FROM summaries WHERE summary_id = ?", one)
    assert (row["descendant_count"], row["earliest_at"]) == (77, "x")


def test_cycles_and_gaps_stop_nothing(database_copy: Callable[[str], Path]) -> None:
    path = database_copy("0.1.2")
    one = value(path, "SELECT summary_id FROM summary_parents LIMIT 1")
    change_behind(
        path,
        f"INSERT INTO summary_parents VALUES ('{one}', '{one}', 90)",
        "INSERT INTO summary_parents VALUES ('sum_gone', 'sum_gone too', 0)",
        "UPDATE message_parts SET metadata = '{' WHERE rowid % 7 = 0",
        "UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE message_id = 3",
    )
    migrate(path)
    assert search_faults(path) != []  # the text that was changed behind everybody's back, and nothing else
    assert value(path, "SELECT length(identity_hash) FROM messages WHERE message_id = 3") == 64


def test_rows_that_the_present_schema_forbids_are_refused(database_copy: Callable[[str], Path]) -> None:
    path = database_copy("0.8.2")
    change_behind(
        path,
        "DROP INDEX conversations_active_session_key_idx",
        "UPDATE conversations SET session_key = 'same', active = 1",
    )
    before = dump(path)
    with pytest.raises(RefusedError, match="are the same in session_key"):
        migrate(path)
    assert dump(path) == before


async def test_the_present_and_the_beta_are_left_alone(database_copy: Callable[[str], Path]) -> None:
    present, beta = database_copy("0.15.3"), database_copy("0.8.2")
    assert not await reading(present, plan_migration)
    change_behind(beta, "CREATE TABLE message_transcript_anchor_trust (message_id INTEGER PRIMARY KEY)")
    with pytest.raises(RefusedError, match=r"^LCM 1\.0\.0-beta wrote this file: the 1\.x line"):
        await reading(beta, plan_migration)
    with pytest.raises(RefusedError, match=r"^LCM 1\.1\.1 or later, with transcript cursors and gaps wrote"):
        await reading(database_copy("1.1-later"), plan_migration)


@pytest.mark.long
@pytest.mark.parametrize("version", OLD)
def test_on_the_command_line_with_a_backup(version: str, database_copy: Callable[[str], Path]) -> None:
    path = database_copy(version)
    content = path.read_bytes()
    shown = run("migrate", "--db", path, "--json").data
    assert (shown["applied"], "messages.identity_hash" in shown["columns"]) == (False, True)
    assert [one.name for one in path.parent.iterdir()] == ["lcm.db"]
    assert path.read_bytes() == content
    assert run("migrate", "--db", path, "--apply").code == 9  # nobody can be asked
    done = run("migrate", "--db", path, "--apply", "--yes", "--json").data
    assert done["rows"]["identity hashes of messages"] > 800
    with sqlite3.connect(done["backup"]) as backup:
        assert "identity_hash" not in {row[1] for row in backup.execute("PRAGMA table_info(messages)")}
    backup.close()
    again = run("migrate", "--db", path, "--apply", "--yes")
    assert (again.code, "nothing to do" in again.out) == (0, True)
    assert run("restore", done["backup"], "--db", path, "--apply", "--yes").code == 0
    assert value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_migration_state'") == (
        1 if version == "0.8.2" else 0
    )


@pytest.mark.long
def test_the_backup_goes_where_it_is_told_and_comes_back_to_the_same_file(
    database_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    path, target = database_copy("0.1.2"), tmp_path / "other disk" / "before.db"
    target.parent.mkdir()
    assert run("migrate", "--db", path, "--to", "", "--apply", "--yes").code == 2
    done = run("migrate", "--db", path, "--to", target, "--apply", "--yes")
    assert (done.code, target.exists()) == (0, True), done.err
    assert f"lcm-tui restore '{target}' --apply --db {path}" in done.out
    assert [one.name for one in path.parent.iterdir() if "backup" in one.name] == []


def test_nothing_is_copied_for_a_file_that_cannot_be_written(
    database_copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, allowed = database_copy("0.1.2"), os.access
    monkeypatch.setattr(os, "access", lambda one, mode: Path(one) != path and allowed(one, mode))
    refused = run("migrate", "--db", path, "--apply", "--yes")
    assert (refused.code, "cannot be written" in refused.err) == (5, True)
    assert [one.name for one in path.parent.iterdir()] == ["lcm.db"]
