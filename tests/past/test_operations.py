"""Whatever an operation changes: read at the moment before it, every table has the rows that it had."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.change.commit import commit
from lcm_core.operations.past import operations_on
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import Point

from tests.databases import column, connect
from tests.operations.test_every_operation import OPERATIONS, path
from tests.past.states import state_now, state_then
from tests.support import sampled

__all__ = ["path"]  # a fixture


def tables_of(path: Path) -> list[str]:
    with connect(path) as connection:
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return [
        name
        for name, sql in listed
        if "VIRTUAL" not in str(sql).upper()
        and not name.startswith(("sqlite_", "lcm_tui_"))
        and "_fts" not in name
    ]


async def rows_in(reader, tables: list[str], owner: int) -> dict[str, list[str]]:
    """All rows, but of contexts and messages those of one conversation: the past is of one."""
    mine = f"WHERE conversation_id = {owner}"
    parts = f"WHERE message_id IN (SELECT message_id FROM messages {mine})"
    few = {"context_items": mine, "messages": mine, "message_parts": parts}
    found = {}
    for table in tables:
        only = few.get(table, "")
        rows = [dict(row) for row in await reader.stored(f"SELECT * FROM {table} {only}")]
        for row in rows:
            row.pop("rowid", None)
        found[table] = sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in rows)
    return found


async def read(path: Path, owner: int, past: Past | None = None) -> dict[str, list[str]]:
    opening = Database.open if past is None else past.open
    async with await opening(path) as database:
        return await database.read(rows_in, tables_of(path), owner)


@pytest.mark.cases(1)
@pytest.mark.parametrize("make", sampled(OPERATIONS, OPERATIONS[::3]), ids=lambda make: make.__name__)
def test_all_rows_are_those_of_then(path: Path, make):
    owners = column(path, "SELECT conversation_id FROM conversations")
    before = {owner: asyncio.run(read(path, owner)) for owner in [*owners, max(owners) + 1]}
    states = {owner: state_now(path, owner) for owner in owners}
    done = commit(path, make(path)).id

    async def touched() -> list[int]:
        async with await Database.open(path) as database:

            async def load(reader) -> list[int]:
                everybody = {*owners, *column(path, "SELECT conversation_id FROM conversations")}
                return [one for one in sorted(everybody) if await reader.run(operations_on, one, {})]

            return await database.read(load)

    concerned = asyncio.run(touched())
    assert concerned
    for owner in concerned:
        past = Past(owner, Point(done))
        then = asyncio.run(read(path, owner, past))
        others = {name for name in then if then[name] != before[owner][name]}
        assert others == set(), owner
        if owner in states:
            [(state, statements)] = state_then(path, owner, Point(done))
            assert [name for name in state if state[name] != states[owner][name]] == []
            assert statements == ()
