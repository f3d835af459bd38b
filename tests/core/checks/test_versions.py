"""The same damage is found in the databases of all versions, and arbitrary damage stops no run."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Confidence, Database
from lcm_core.checks.check import Limits
from lcm_host.checks import CHECKS, run_checks

from tests.databases import Builder, building, connect
from tests.support import sampled, unpack_database

LIMITS = Limits(datetime(2026, 3, 20, tzinfo=UTC))
BROKEN = Confidence.BROKEN

#: Damage that needs no column which came later than 0.1.2: the check, and the statement.
_ROOT = (
    "(SELECT max(summary_id) FROM context_items WHERE summary_id IN (SELECT summary_id FROM summary_parents))"
)
DAMAGE = {
    "A1": "DELETE FROM messages WHERE message_id = (SELECT max(message_id) FROM context_items)",
    "A2": "DELETE FROM summaries WHERE summary_id = (SELECT max(summary_id) FROM context_items)",
    "A4": """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT conversation_id, 900, item_type, message_id FROM context_items
        WHERE message_id IS NOT NULL LIMIT 1""",
    "A6": """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT c.conversation_id, 900, 'message', l.message_id
        FROM context_items AS c JOIN summary_messages AS l ON l.summary_id = c.summary_id LIMIT 1""",
    "A9": "UPDATE context_items SET ordinal = ordinal + 10000000 WHERE conversation_id = 1 AND ordinal = 5",
    "B1": "DELETE FROM summary_messages WHERE summary_id = (SELECT max(summary_id) FROM summary_messages)",
    "B3": """INSERT INTO summary_messages
        SELECT summary_id, 999999, 99 FROM summaries WHERE kind = 'leaf' LIMIT 1""",
    "B5": "INSERT INTO summary_parents SELECT summary_id, summary_id, 99 FROM summary_parents LIMIT 1",
    "B10": f"UPDATE summaries SET depth = 7 WHERE summary_id = {_ROOT}",
    "D2": f"UPDATE summaries SET descendant_count = 99 WHERE summary_id = {_ROOT}",
    "E13": """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal)
        VALUES ('x', 0, 's', 'text', 0)""",
    "F1": "DELETE FROM messages_fts WHERE rowid = 1",
    "F3": "DELETE FROM summaries_fts WHERE rowid = 1",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", sampled(["0.1.2", "0.3.0", "0.8.2"], ["0.1.2", "0.8.2"]))
@pytest.mark.parametrize("check", DAMAGE)
async def test_damage_is_found_in_every_version(
    check: str,
    version: str,
    database_copy: Callable[[str], Path],
    database_file: Callable[[str], Path],
) -> None:
    async with await Database.open(database_file(version)) as database:
        before = await run_checks(database, only={check}, limits=LIMITS)
    assert not list(before.findings(BROKEN))
    path = database_copy(version)
    with connect(path) as connection:
        assert connection.execute(DAMAGE[check]).rowcount
    async with await Database.open(path) as database:
        after = await run_checks(database, only={check}, limits=LIMITS)
    assert [one.confidence for one in after.findings()].count(BROKEN) == 1


VALUES = st.one_of(
    st.none(),
    st.integers(-5, 2_000),
    st.text(max_size=6),
    st.binary(max_size=3),
    st.floats(allow_nan=False),
    st.just("[]"),
)
TABLES = (
    "conversations",
    "messages",
    "message_parts",
    "summaries",
    "summary_messages",
    "summary_parents",
    "context_items",
    "large_files",
    "focus_briefs",
    "focus_brief_sources",
    "conversation_bootstrap_state",
    "conversation_compaction_maintenance",
    "conversation_compaction_telemetry",
    "lcm_migration_state",
    "sqlite_sequence",
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(TABLES),
        st.integers(0, 40),
        st.integers(2, 9),
        st.integers(0, 8),
        VALUES,
        st.booleans(),
    ),
    min_size=4,
    max_size=25,
)


@pytest.mark.long
@settings(max_examples=6)  # tests of fixes make sixty more of them
@given(STEPS)
def test_no_damage_to_rows_stops_a_run(steps: list[tuple[str, int, int, int, object, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = unpack_database("0.15.3", Path(folder) / "lcm.db")
        with building(path, checks=False) as rows:
            _damage(rows, steps)
        report = asyncio.run(_report(path))
    assert not [result.reason for result in report.not_run if "halfway" in result.reason]
    assert {result.check.id for result in report.results} == set(CHECKS)


def _damage(rows: Builder, steps: list[tuple[str, int, int, int, object, bool]]) -> None:
    for table, column, every, offset, cell, delete in steps:
        names = [found[1] for found in rows.execute(f"PRAGMA table_info({table})")]
        change, values = f"UPDATE OR IGNORE {table} SET {names[column % len(names)]} = ?", (cell,)
        if delete:
            change, values = f"DELETE FROM {table}", ()
        with contextlib.suppress(sqlite3.IntegrityError):  # a key that takes no such value
            rows.execute(f"{change} WHERE rowid % {every} = {offset % every}", *values)


async def _report(path: Path):
    async with await Database.open(path) as database:
        return await run_checks(database, limits=LIMITS)
