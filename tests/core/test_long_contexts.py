"""Contexts of very many items: what is shown of the end, what is added up, and how much is read for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database
from lcm_core.change.commit import commit
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Cells, Splice, Symbol, SymbolKind
from lcm_host.appending import plan_new_session

from lcm_tui.cli import context as shown
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import building, connect, new_database

ONE = 1


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["0.1.2", "0.8.2", "0.15.3"])
def test_people_read_the_same_of_the_end_as_of_the_whole(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, version: str
):
    path = database_copy(version)
    whole = run("context", 1, "--db", path).out
    monkeypatch.setattr(shown, "MOST_LISTED", 3)
    end = run("context", 1, "--db", path).out
    head = [line for line in end.split("\n\n")[0].splitlines() if "older items" not in line]
    assert whole.startswith("\n".join(head))


def long_context(path: Path, items: int) -> Path:
    """One conversation of nothing but messages."""
    with building(new_database(path)) as rows:
        rows.conversation(1)
    with connect(path) as connection:
        connection.execute(
            """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            SELECT 1, i, iif(i % 2, 'user', 'assistant'), 'note ' || i, 3, '2026-03-02 10:00:00' FROM n""",
            (items,),
        )
        connection.execute(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
            SELECT 1, seq - 1, 'message', message_id, created_at FROM messages"""
        )
    return path


@pytest.mark.long
def test_removing_many_items_takes_a_few_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    execute = Writer.execute

    def counted(self: Writer, sql: str, parameters: Any = ()) -> Any:
        asked.append(sql)
        return execute(self, sql, parameters)

    monkeypatch.setattr(Writer, "execute", counted)
    numbers = []
    for items in (400, 4_000):
        path = long_context(tmp_path / f"{items}.db", items)
        asked.clear()
        assert run("conversations", "prune", 1, "--apply", "--yes", "--db", path).code == 0
        numbers.append(len(asked))
    assert numbers[1] < numbers[0] + 40


@pytest.mark.parametrize(
    ("planned", "now", "same"),
    [
        (1, 1, True),
        ("é", "é", True),
        (None, None, True),
        (b"a", b"a", True),
        (1, 1.0, False),
        (1, True, False),
        ("a", b"a", False),
        (0.0, -0.0, False),
        (1, Symbol("new:1", SymbolKind.ID), False),
        (2**63 - 1, 2**63 - 2, False),
    ],
)
def test_a_row_is_the_planned_one_only_with_the_same_types(planned, now, same: bool):
    assert Cells(("a", "b"), ("x", planned)).is_exactly(Cells(("a", "b"), ("x", now))) is same
    assert not Cells(("a",), (planned,)).is_exactly(Cells(("b",), (planned,)))


def test_a_commit_keeps_the_rows_of_a_long_run_once(tmp_path: Path):
    path = long_context(tmp_path / "lcm.db", 1_300)

    async def planned(reader):
        return await plan_new_session(reader, ONE, 2, now=datetime.now(UTC))

    async def plan():
        async with await Database.open(path) as database:
            return await database.read(planned)

    made = asyncio.run(plan())
    [before], [after] = made.edits, commit(path, made).edits
    assert isinstance(before, Splice)
    assert isinstance(after, Splice)
    assert len(after.removed) == 1_300
    assert all(one is other for one, other in zip(before.removed, after.removed, strict=True))
    assert len({id(row["created_at"]) for row in before.removed}) == 1
