"""Keys of a type that no engine writes: every check judges the rest, and the row is named."""

from __future__ import annotations

import math
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.base.findings import RowRef
from lcm_core.base.values import replace
from lcm_host.checks import run_checks

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import LIMITS
from tests.databases import Value, connect

VALUES: dict[str, Value] = {
    "bytes": b"\xff\x00\x01",
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a real": 1.5,
    "text": "12abc",
    "nothing": "",
    "null": None,
    "below zero": -5,
    "large": 2**63 - 1,
}


async def checked(path: Path):
    async with await Database.open(path) as opened:
        return await run_checks(opened)


def stopped(report) -> dict[str, str]:
    return {one.check.id: one.reason for one in report.results if "stopped" in one.reason}


def key_columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Every column that names a row, a place or an owner, of every table with rows."""
    found = []
    for (table,) in connection.execute(
        """SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
        AND name NOT LIKE '%fts%' AND sql NOT LIKE 'CREATE VIRTUAL%'"""
    ).fetchall():
        if connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]:
            found += [
                (table, name)
                for _, name, _, _, _, key in connection.execute(f'PRAGMA table_info("{table}")')
                if key or name.endswith(("_id", "_key", "_hash")) or name in ("seq", "ordinal")
            ]
    return found


@pytest.mark.cases(1)
@pytest.mark.parametrize("odd", VALUES)
@pytest.mark.parametrize("version", [pytest.param("0.15.3", marks=pytest.mark.long), "1.0-next"])
async def test_no_check_stops_at_a_key_of_another_type(
    database_copy: DatabaseFactory, version: str, odd: str
):
    path = database_copy(version)
    planted = 0
    with connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for number, (table, column) in enumerate(key_columns(connection)):
            with suppress(sqlite3.Error):  # a column that does not take it
                connection.execute(
                    f"""UPDATE "{table}" SET "{column}" = ? WHERE rowid = (
                    SELECT rowid FROM "{table}" ORDER BY rowid DESC LIMIT 1 OFFSET {number % 5})""",
                    (VALUES[odd],),
                )
                planted += 1
        # Entries that several conversations share, one with an owner of another type.
        connection.execute(
            """UPDATE messages SET transcript_entry_id = 'abc' WHERE message_id IN (
            SELECT max(message_id) FROM messages WHERE typeof(conversation_id) = 'integer'
            GROUP BY conversation_id)"""
        )
    assert planted > 15
    assert stopped(await checked(path)) == {}


@pytest.mark.cases(1)
@pytest.mark.parametrize("column", ["conversation_id", "seq"])
async def test_the_rows_are_named(database_copy: DatabaseFactory, column: str):
    """The last messages of a conversation; one shares an entry with another conversation."""
    path = database_copy("0.15.3")
    odd = [each for each in VALUES.values() if each is not None]
    with connect(path) as connection:
        named = [
            row[0]
            for row in connection.execute(
                "SELECT message_id FROM messages WHERE conversation_id = 1 ORDER BY seq DESC LIMIT ?",
                (len(odd),),
            )
        ]
        for message_id, each in zip(named, odd, strict=True):
            connection.execute(f"UPDATE messages SET {column} = ? WHERE message_id = ?", (each, message_id))
        connection.execute(
            """UPDATE messages SET transcript_entry_id = 'abc' WHERE message_id IN (?,
            (SELECT min(message_id) FROM messages WHERE conversation_id = 2))""",
            (named[0],),
        )
    async with await Database.open(path) as opened:
        report = await run_checks(opened, limits=replace(LIMITS, rows=1000))
    rows = {row for one in report.findings() for row in one.rows}
    assert {each for each in named if RowRef("messages", (each,)) not in rows} == set()
    assert stopped(report) == {}


@pytest.mark.long
async def test_texts_are_read_in_batches_whatever_the_places_are(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("UPDATE messages SET seq = 'x' || seq WHERE conversation_id = 1 AND seq % 7 = 0")
        connection.execute("UPDATE messages SET seq = seq + 0.5 WHERE conversation_id = 1 AND seq % 7 = 1")
    report = await checked(path)
    assert not [one.reason for one in report.results if "did not read" in one.reason]
