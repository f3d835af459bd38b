"""Contexts of very many items: what is shown of the end, what is added up, and how much is read for it."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.records import ContextItems, ConversationId
from lcm_core.change.commit import commit
from lcm_core.change.connection import Writer
from lcm_core.change.plan import Cell, Cells, Plan, Splice, Symbol, SymbolKind
from lcm_core.store.context import (
    context_entries,
    context_items,
    context_pages,
    context_sums,
    newest_items,
    newest_messages,
)
from lcm_core.store.context_view import findings_at, gap_text, totals_from, totals_of
from lcm_core.store.database import Database, Reader
from lcm_host.appending import plan_new_session

from lcm_tui.cli import context as shown
from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import building, connect, new_database

ONE = ConversationId(1)


def damaged(path: Path, seed: int, items: int = 60) -> Path:
    """A context with repeats, gaps, rows that are gone or another's, and odd ordinals, types and counts."""
    chance = random.Random(seed)
    with building(new_database(path), checks=False) as rows:
        for owner in (1, 2):
            rows.conversation(owner)
        messages = [rows.message(chance.choice((1, 1, 1, 2)), f"text {n}") for n in range(items)]
        summaries = [rows.summary(1, f"sum_{n}", messages=messages[:2]) for n in range(6)]
        refs: list[int | str] = [*messages, *summaries, *chance.choices(messages, k=9), 99_999, "sum_gone"]
        chance.shuffle(refs)
        rows.execute("DELETE FROM context_items")
        ordinal = chance.choice((-3, 0, 4))
        for ref in refs:
            rows.item(1, ref, ordinal)
            ordinal += chance.choice((1, 1, 1, 1, 3))
    with connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE messages SET role = 'tool' WHERE message_id % 5 = 0")
        connection.execute("UPDATE messages SET token_count = -7 WHERE message_id % 11 = 0")
        connection.execute("UPDATE summaries SET depth = 2 WHERE summary_id > 'sum_3'")
        connection.execute("UPDATE context_items SET item_type = 'summary' WHERE ordinal % 13 = 0")
    return path


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [1, 7, 40, 1_000])
async def test_the_end_of_a_context_has_the_faults_that_the_whole_has(tmp_path: Path, seed: int, most: int):
    async with await Database.open(damaged(tmp_path / "lcm.db", seed)) as database:
        whole = await database.read(context_items, ONE)
        end, first = await database.read(newest_items, ONE, most)
        entries = await database.read(context_entries, list(whole))
    listed = range(first, len(end))
    assert len(listed) == min(most, len(whole))
    before = len(whole) - len(listed)
    gaps = [{gap.place: gap_text(gap) for gap in items.gaps} for items in (whole, end)]
    for at, place in enumerate(range(before, len(whole)), first):
        assert end.item(at) == whole.item(place)
        weight = entries[place].weight
        assert findings_at(end, at, weight, ONE) == findings_at(whole, place, weight, ONE)
        assert gaps[1].get(at) == gaps[0].get(place)


@pytest.mark.parametrize("seed", range(5))
async def test_sums_are_those_of_all_items(tmp_path: Path, seed: int):
    async with await Database.open(damaged(tmp_path / "lcm.db", seed)) as database:
        whole = await database.read(context_items, ONE)
        weights = {
            entry.item.summary_id or entry.item.message_id: entry.weight
            for entry in await database.read(context_entries, list(whole))
        }
        sums = await database.read(context_sums, ONE)
        raw = await database.read(newest_messages, ONE, 10)
    found = totals_from(sums, ())
    wanted = totals_of(whole, weights, None, ONE)
    assert wanted is not None
    assert (found.items, found.messages, found.summaries, found.tokens, found.dangling) == (
        wanted.items,
        wanted.messages,
        wanted.summaries,
        wanted.tokens,
        wanted.dangling,
    )
    assert found.groups == wanted.groups
    named = [(one.message_id, one.ordinal) for one in raw]
    there = [
        (item.message_id, item.ordinal)
        for item in whole
        if item.summary_id is None and weights[item.message_id] is not None
    ]
    assert named == there[-10:]


@pytest.mark.parametrize("version", ["0.1.2", "0.8.2", "0.15.3"])
def test_people_read_the_same_of_the_end_as_of_the_whole(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, version: str
):
    path = database_copy(version)
    whole = run("context", "show", 1, "--db", path).out
    monkeypatch.setattr(shown, "MOST_LISTED", 3)
    end = run("context", "show", 1, "--db", path).out
    head = [line for line in end.split("\n\n")[0].splitlines() if "older items" not in line]
    assert whole.startswith("\n".join(head))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 7, 40, 1_000])
async def test_pages_have_the_items_and_faults_that_the_whole_has(tmp_path: Path, seed: int, size: int):
    async with await Database.open(damaged(tmp_path / "lcm.db", seed)) as database:
        whole = await database.read(context_items, ONE)
        entries = await database.read(context_entries, list(whole))
        pages = await database.read(all_pages, size)
    place = 0
    for page, first in pages:
        for at in range(first, len(page)):
            assert page.item(at) == whole.item(place)
            weight = entries[place].weight
            found, wanted = findings_at(page, at, weight, ONE), findings_at(whole, place, weight, ONE)
            assert [one.finding for one in found] == [one.finding for one in wanted]
            place += 1
    assert place == len(whole)


async def all_pages(reader: Reader, size: int) -> list[tuple[ContextItems, int]]:
    return [page async for page in context_pages(reader, ONE, size)]


async def test_items_at_the_same_ordinal_are_on_one_page(tmp_path: Path):
    path = damaged(tmp_path / "lcm.db", 1)
    with connect(path) as connection:
        connection.execute("CREATE TABLE loose AS SELECT * FROM context_items")
        connection.execute("UPDATE loose SET ordinal = ordinal / 4")
        connection.execute("DROP TABLE context_items")
        connection.execute("ALTER TABLE loose RENAME TO context_items")
    async with await Database.open(path) as database:
        whole = await database.read(context_items, ONE)
        for size in (1, 3, 4, 60):
            pages = await database.read(all_pages, size)
            listed = [page.item(at) for page, first in pages for at in range(first, len(page))]
            assert sorted(listed, key=repr) == sorted(whole, key=repr)


@pytest.mark.parametrize(
    "form", [("--json",), ("--json", "--pretty"), ("--format", "csv"), ("--format", "table")]
)
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3", "0.15.3-damaged"])
def test_programs_read_the_same_page_by_page(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, version: str, form: tuple[str, ...]
):
    path = database_copy(version)
    whole = run("context", "show", 1, *form, "--db", path).out
    monkeypatch.setattr(shown, "PAGE", 3)
    assert run("context", "show", 1, *form, "--db", path).out == whole


def test_the_items_for_programs_are_never_all_held_as_objects(tmp_path: Path):
    peaks = []
    for items in (1_000, 8_000):
        path = long_context(tmp_path / f"{items}.db", items)
        tracemalloc.start()
        assert run("context", "show", 1, "--json", "--db", path).out.count('"ordinal"') == items
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # What the test itself holds of the output is about 220 bytes an item, once or twice.
    assert peaks[1] - peaks[0] < 7_000 * 700


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


def test_what_is_read_does_not_grow_with_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []
    rows = Reader.rows

    async def counted(self: Reader, sql: str, *parameters: object) -> list[Any]:
        found = await rows(self, sql, *parameters)
        read.append(len(found))
        return found

    monkeypatch.setattr(Reader, "rows", counted)
    amounts = []
    for items in (5_000, 12_000):
        read.clear()
        out = run(
            "context", "show", 1, "--budget", 1000, "--db", long_context(tmp_path / f"{items}.db", items)
        ).out
        assert f"The {items - shown.MOST_LISTED:,} older items are not listed" in out
        amounts.append((len(read), sum(read)))
    assert amounts[0] == amounts[1]


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
        assert run("prune", 1, "--new-session", "--apply", "--yes", "--db", path).code == 0
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
def test_a_row_is_the_planned_one_only_with_the_same_types(planned: Cell, now: Cell, same: bool):
    assert Cells(("a", "b"), ("x", planned)).is_exactly(Cells(("a", "b"), ("x", now))) is same
    assert not Cells(("a",), (planned,)).is_exactly(Cells(("b",), (planned,)))


def test_a_commit_keeps_the_rows_of_a_long_run_once(tmp_path: Path):
    path = long_context(tmp_path / "lcm.db", 1_300)

    async def planned(reader: Reader) -> Plan:
        return await plan_new_session(reader, ONE, 2, now=datetime.now(UTC))

    async def plan() -> Plan:
        async with await Database.open(path) as database:
            return await database.read(planned)

    made = asyncio.run(plan())
    [before], [after] = made.edits, commit(path, made).edits
    assert isinstance(before, Splice)
    assert isinstance(after, Splice)
    assert len(after.removed) == 1_300
    assert all(one is other for one, other in zip(before.removed, after.removed, strict=True))
    assert len({id(row["created_at"]) for row in before.removed}) == 1
