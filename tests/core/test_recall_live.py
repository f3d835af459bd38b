"""A search that hands out hits while it goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.store.search import Filter
from lcm_recall.search import search_live
from lcm_recall.terms import Mode, parse

from tests.core.recalling import settings_in
from tests.databases import building, new_database


def indexed(path: Path, *texts: str) -> Path:
    """A file of messages whose own search table knows them."""
    new_database(path)
    with building(path) as rows:
        owner = rows.conversation()
        numbers = [rows.message(owner, text) for text in texts]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM messages_fts")
        connection.executemany(
            "INSERT INTO messages_fts (rowid, content) VALUES (?, ?)", list(zip(numbers, texts, strict=True))
        )
    return path


async def live(path: Path, query, heard):
    async with await Database.open(path) as database:
        return await search_live(database, query, Filter(), settings_in(path.parent), heard)


async def test_what_the_search_table_knows_is_told_before_the_scan_finds_the_rest(tmp_path: Path) -> None:
    path = indexed(tmp_path / "lcm.db", "subleases abound", "the lease is over")
    heard = []
    found = await live(path, parse("lease"), heard.append)
    assert [hit.id for hit in heard[0].found.hits] == ["2"]
    assert heard[0].share == 0
    assert not heard[0].found.coverage.full
    assert [hit.id for hit in found.hits] == ["2", "1"]
    assert found.coverage.full


@pytest.mark.parametrize("damage", ["DROP TABLE messages_fts", "UPDATE messages SET content = 'nothing'"])
async def test_a_stale_or_missing_search_table_shows_nothing_wrong(tmp_path: Path, damage: str) -> None:
    path = indexed(tmp_path / "lcm.db", "the lease is over")
    with building(path) as rows:
        rows.message(1, "another lease")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
        connection.execute("UPDATE messages SET content = 'another lease' WHERE message_id = 2")
    heard = []
    found = await live(path, parse("another"), heard.append)
    assert [hit.id for hit in found.hits] == ["2"]
    assert all(hit.id == "2" for progress in heard for hit in progress.found.hits)


async def test_a_pattern_is_told_with_its_first_hit(tmp_path: Path) -> None:
    path = indexed(tmp_path / "lcm.db", "lease 1", "lease 22")
    heard = []
    await live(path, parse(r"lease \d+", Mode.REGEX), heard.append)
    assert any(progress.found.total for progress in heard)


async def test_a_search_that_is_cancelled_is_heard_of_no_more(tmp_path: Path) -> None:
    path = indexed(tmp_path / "lcm.db", *["lease"] * 10)
    heard = []

    def first(progress) -> None:
        heard.append(progress)
        searching.cancel()

    searching = asyncio.create_task(live(path, parse("lease"), first))
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert len(heard) == 1
