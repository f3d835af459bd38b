"""The private index: what it finds is what a scan finds, it follows its file, and it can be forgotten."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.files import forget_cache
from lcm_core.store.search import DocumentKind, Filter
from lcm_recall.search import index_of, make_index, recent, remember, search
from lcm_recall.terms import Mode, parse

from tests.core.recalling import settings_in
from tests.databases import building, new_database

WORDS = [
    "lease",
    "Leases",
    "retry_policy",
    "a\x00hidden",
    "修改youer服务",
    "GrößeX",
    "src/main.py",
    "x9",
    "КОТ",
]
QUERIES = [
    "lease",
    "ret",
    "try_pol",
    "youer",
    "修改",
    "改y",
    "größe",
    "main.py",
    "hidden",
    "кот",
    "nowhere",
    "9",
]
EVERYTHING = Filter()


async def searched(
    path: Path,
    query: str,
    *,
    by_index: bool,
    mode: Mode = Mode.WORDS,
    wanted: Filter = EVERYTHING,
    **more: int,
):
    index = index_of(path, path.parent / "cache") if by_index else None
    known = settings_in(path.parent)
    asked, more = parse(query, mode), {"limit": 99} | more

    async def load(reader):
        return await reader.run(search, reader.schema, asked, wanted, known, index=index, **more)

    async with await Database.open(path) as database:
        return await database.read(load)


async def made(path: Path) -> bool:
    async with await Database.open(path) as database:
        return await make_index(database, folder=path.parent / "cache")


def messages_in(path: Path, *texts: str) -> Path:
    new_database(path)
    with building(path) as rows:
        owner = rows.conversation()
        for text in texts:
            rows.part(rows.message(owner, text), "tool", None, tool_name="exec", tool_input=f"in {text}")
    return path


@pytest.mark.long
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), min_size=1, max_size=6))
@settings(max_examples=15)
def test_by_index_is_found_what_a_scan_finds(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = messages_in(Path(folder) / "lcm.db", *texts)
        assert asyncio.run(made(path))
        for query in QUERIES:
            for mode in (Mode.WORDS, Mode.SUBSTRING):
                found = asyncio.run(searched(path, query, by_index=True, mode=mode))
                assert found.hits == asyncio.run(searched(path, query, by_index=False, mode=mode)).hits
                assert found.coverage.full


async def test_it_follows_its_file(tmp_path: Path) -> None:
    path = messages_in(tmp_path / "lcm.db", "the first lease", "another")
    assert await made(path)
    with building(path) as rows:
        rows.message(1, "a newer lease")
    found = await searched(path, "lease", by_index=True)
    assert {hit.id for hit in found.hits} == {"1", "3"}
    assert found.coverage.not_searched == ("older messages that changed after the index was built",)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET content = 'now a lease' WHERE message_id = 2")
        connection.execute("UPDATE messages SET content = 'no more' WHERE message_id = 1")
        connection.execute("DELETE FROM message_parts")
    assert await made(path)
    found = await searched(path, "lease", by_index=True)
    assert {hit.id for hit in found.hits} == {"2", "3"}
    assert found.coverage.full


async def test_one_that_is_broken_of_another_file_or_full_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = messages_in(tmp_path / "lcm.db", "the first lease")
    with monkeypatch.context() as full:
        full.setattr("lcm_recall.search.MAX_INDEX_BYTES", 1)
        assert not await made(path)
    assert (await searched(path, "lease", by_index=True)).total == 1
    assert await made(path)
    path.unlink()
    messages_in(path, "nothing", "a lease")
    assert [hit.id for hit in (await searched(path, "lease", by_index=True)).hits] == ["2"]
    index_of(path, tmp_path / "cache").path.write_bytes(b"no database" * 100)
    assert [hit.id for hit in (await searched(path, "lease", by_index=True)).hits] == ["2"]
    assert await made(path)


async def test_one_that_another_process_writes_is_no_error_to_a_search(tmp_path: Path) -> None:
    path = messages_in(tmp_path / "lcm.db", "the first lease")
    assert await made(path)
    with building(path) as rows:
        rows.message(1, "a newer lease")
    with closing(sqlite3.connect(index_of(path, tmp_path / "cache").path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert (await searched(path, "lease", by_index=True)).total == 2
        with pytest.raises(OSError, match="cannot be"):
            await made(path)


async def test_what_is_forgotten_is_nowhere_in_the_cache(tmp_path: Path) -> None:
    path = messages_in(tmp_path / "lcm.db", "zanzibar")
    cache = tmp_path / "cache"
    await made(path)
    remember(path, "quetzalcoatl", cache)
    remember(path, "other", cache)
    assert recent(path, cache) == ["other", "quetzalcoatl"]
    kept = [one for one in cache.rglob("*") if one.is_file()]
    assert {one.stat().st_mode & 0o777 for one in kept} == {0o600}
    stored = b"".join(one.read_bytes() for one in kept)
    assert b"zanzibar" in stored
    assert b"quetzalcoatl" in stored
    assert forget_cache(path, cache) == 2
    left = b"".join(one.read_bytes() for one in cache.rglob("*") if one.is_file())
    assert b"zanzibar" not in left
    assert b"quetzalcoatl" not in left


async def test_of_many_hits_whole_words_come_first_and_then_the_newest_and_all_are_counted(
    tmp_path: Path,
) -> None:
    texts = ["the old lease", *(f"sublease {number}" for number in range(60))]
    path = messages_in(tmp_path / "lcm.db", *texts)
    assert await made(path)
    found = await searched(path, "lease", by_index=True, limit=1, ranked=5)
    assert [hit.id for hit in found.hits] == ["1"]  # of the others the newest are ranked
    assert (found.total, found.at_least) == (61, False)
    assert found.coverage.not_ranked == ("41 more messages that were found",)
    assert found.coverage.searched[DocumentKind.MESSAGE] == 20
    everything = await searched(path, "lease", by_index=True)
    assert everything.coverage.full
    assert {hit.id for hit in everything.hits} == set(map(str, range(1, 62)))


async def test_what_cannot_be_counted_by_index_is_at_least(tmp_path: Path) -> None:
    path = messages_in(tmp_path / "lcm.db", *(f"retry_policy {number}" for number in range(60)))
    assert await made(path)
    phrase = await searched(path, "retry_policy", by_index=True, limit=1, ranked=5)
    assert (phrase.total, phrase.at_least) == (20, True)
    narrowed = Filter(roles=("user",))
    assert (await searched(path, "retry", by_index=True, limit=1, ranked=5, wanted=narrowed)).at_least
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET content = 'nothing' WHERE message_id = 60")
        connection.execute("DELETE FROM message_parts WHERE message_id = 60")
    assert await made(path)
    changed = await searched(path, "retry", by_index=True, limit=1, ranked=5)
    assert changed.at_least  # the index remembers what message 60 said
    assert all(hit.id != "60" for hit in changed.hits)


async def test_by_index_only_the_conversations_that_are_wanted_are_counted(tmp_path: Path) -> None:
    path = messages_in(tmp_path / "lcm.db", *(f"lease {number}" for number in range(60)))
    with building(path) as rows:
        other = rows.conversation(session_id="other")
        number = rows.message(other, "a lease of another")
    assert await made(path)
    found = await searched(path, "lease", by_index=True, wanted=Filter(conversations=(other,)), ranked=5)
    assert ([hit.id for hit in found.hits], found.total) == ([str(number)], 1)
    assert found.coverage.full
