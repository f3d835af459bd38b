"""Pages of messages against plain SQL: in both directions, whatever the size, the seqs and the schema."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database, NotFoundError
from lcm_core.base.times import parse_utc
from lcm_core.store import messages as store
from lcm_core.store.messages import MessagePage
from msgspec.structs import astuple

from tests.conftest import DatabaseFactory
from tests.databases import connect, reading, run
from tests.support import VERSIONS, sampled

HEAD = 2000

MAIN = 1


@pytest.fixture
async def opened(database_file: DatabaseFactory) -> AsyncIterator[Database]:
    async with await Database.open(database_file("0.15.3")) as database:
        yield database


@pytest.fixture
def plain(database_file: DatabaseFactory) -> Iterator[sqlite3.Connection]:
    with reading(database_file("0.15.3")) as connection:
        yield connection


def seqs(page: MessagePage) -> list[int]:
    return [entry.message.seq for entry in page.entries]


def all_seqs(plain: sqlite3.Connection, conversation_id: int = MAIN) -> list[int]:
    rows = plain.execute(
        "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", (conversation_id,)
    )
    return [seq for (seq,) in rows]


# -- pages -------------------------------------------------------------------------------------------------


#: Conversations up to so many messages are also read in pages of one; longer ones show nothing else by it.
ONE_BY_ONE = 100


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2", "0.15.3-damaged")))
async def test_pages_are_the_whole_conversation_in_both_directions(
    database_file: DatabaseFactory, version: str
):
    path = database_file(version)
    with reading(path) as plain:
        ids = [found for (found,) in plain.execute("SELECT conversation_id FROM conversations")]
        wanted = {found: all_seqs(plain, found) for found in ids}
    async with await Database.open(path) as database:
        for conversation_id, expected in wanted.items():
            for limit in (1, 7, 100, 1000) if len(expected) <= ONE_BY_ONE else (7, 100, 1000):
                assert await walk(database, conversation_id, limit, older=True) == expected
                assert await walk(database, conversation_id, limit, older=False) == expected


async def walk(database: Database, conversation_id: int, limit: int, *, older: bool) -> list[int]:
    """All seqs, read page by page; the flags must say at each step what really lies beyond."""
    key = conversation_id
    read = store.newest_page if older else store.oldest_page
    page = await database.read(read, key, limit)
    found = seqs(page)
    assert not (page.has_newer if older else page.has_older)
    while page.has_older if older else page.has_newer:
        if older:
            page = await database.read(store.page_before, key, found[0], limit)
            found = [*seqs(page), *found]
        else:
            page = await database.read(store.page_from, key, found[-1] + 1, limit)
            found += seqs(page)
        assert page.entries
        assert page.has_newer if older else page.has_older
    return found


@pytest.mark.long
@given(limits=st.lists(st.integers(1, 90), min_size=1, max_size=8), older=st.booleans())
async def test_pages_of_any_limits_join(limits: list[int], older: bool):
    path = _SHARED[0]
    async with await Database.open(path) as database:
        key = MAIN
        page = await database.read(store.newest_page if older else store.oldest_page, key, limits[0])
        found = seqs(page)
        for limit in limits[1:]:
            if older:
                found = [*seqs(await database.read(store.page_before, key, found[0], limit)), *found]
            else:
                found += seqs(await database.read(store.page_from, key, found[-1] + 1, limit))
        expected = list(range(1, 385))
        size = min(sum(limits), 384)
        assert found == (expected[-size:] if older else expected[:size])


_SHARED: list[Path] = []


@pytest.fixture(autouse=True)
def _shared(database_file: DatabaseFactory) -> None:
    _SHARED[:] = [database_file("0.15.3")]


async def test_flags_tell_what_lies_beyond_and_not_where_one_came_from(opened: Database):
    for seq, older, newer in ((1, False, True), (-5, False, True), (384, True, False), (200, True, True)):
        page = await opened.read(store.page_from, MAIN, seq, 10)
        assert (page.has_older, page.has_newer) == (older, newer)
    before = await opened.read(store.page_before, MAIN, 385, 10)
    assert (before.has_older, before.has_newer) == (True, False)
    nothing = await opened.read(store.page_from, MAIN, 1000, 10)
    assert (nothing.entries, nothing.has_older, nothing.has_newer) == ((), True, False)


@pytest.mark.parametrize("seq", [1, 2, 200, 384, 1000, -7])
async def test_a_page_around_a_seq_holds_it_and_its_neighbours(opened: Database, seq: int):
    page = await opened.read(store.page_around, MAIN, seq, 20)
    there = range(1, 385)
    expected = [found for found in there if found < seq][-10:] + [found for found in there if found >= seq][
        :10
    ]
    assert seqs(page) == expected
    assert (page.has_older, page.has_newer) == (expected[0] > 1, expected[-1] < 384)


async def test_a_conversation_without_messages_has_an_empty_page(opened: Database):
    for read in (store.newest_page, store.oldest_page):
        page = await opened.read(read, 999, 10)
        assert page == MessagePage((), False, False)


async def test_seqs_may_be_negative_far_apart_and_huge(database_copy: DatabaseFactory):
    path = run(
        database_copy("0.15.3"),
        "UPDATE messages SET seq = -seq * 1000000000000 WHERE conversation_id = 2",
        "UPDATE messages SET seq = seq - 3 WHERE conversation_id = 3",
    )
    async with await Database.open(path) as database:
        for conversation_id in (2, 3):
            page = await database.read(store.oldest_page, conversation_id, 100_000)
            everything = seqs(page)
            assert everything == sorted(everything)
            assert everything[0] < 0
            assert await walk(database, conversation_id, 13, older=True) == everything
            assert await walk(database, conversation_id, 13, older=False) == everything


async def test_a_page_takes_as_many_statements_whatever_its_size(opened: Database):
    counts = {}
    for limit in (1, 50, 400):
        before = opened.statements
        await opened.read(store.newest_page, MAIN, limit)
        await opened.read(store.page_before, MAIN, 300, limit)
        counts[limit] = opened.statements - before
    assert counts[1] == counts[50] == counts[400] <= 9


# -- what stands beside a message --------------------------------------------------------------------------


async def test_entries_are_what_plain_sql_says(opened: Database, plain: sqlite3.Connection):
    page = await opened.read(store.oldest_page, MAIN, 1000)
    for entry in page.entries:
        key = (entry.message.message_id,)
        columns = "seq, role, content, token_count, created_at, large_content, openclaw_sender_metadata"
        [row] = plain.execute(f"SELECT {columns} FROM messages WHERE message_id = ?", key)
        message = entry.message
        assert row == (
            message.seq,
            message.role,
            message.content if entry.complete else row[2],
            message.tokens,
            message.created_at,
            message.large_content,
            message.sender,
        )
        covering = plain.execute("SELECT summary_id FROM summary_messages WHERE message_id = ?", key)
        assert sorted(entry.covered_by) == sorted(found for (found,) in covering)
        held = plain.execute("SELECT count(*) FROM context_items WHERE message_id = ?", key).fetchone()
        assert entry.in_context == (held != (0,))
        parts = plain.execute(
            "SELECT part_type, ordinal FROM message_parts WHERE message_id = ? ORDER BY ordinal", key
        )
        assert [(part.part_type, part.ordinal) for part in entry.parts] == parts.fetchall()


async def test_long_texts_are_cut_in_lists_and_whole_alone(database_copy: DatabaseFactory):
    path = run(
        database_copy("0.15.3"),
        "UPDATE messages SET content = printf('%.*c', 5000, 'm') WHERE message_id = 1",
        "UPDATE message_parts SET text_content = printf('%.*c', 6000, 'p') WHERE message_id = 1",
        "UPDATE message_parts SET metadata = printf('%.*c', 100000, 'x') WHERE message_id = 2",
        "UPDATE messages SET content = printf('%.*c', 1999, 'm') WHERE message_id = 3",
        "DELETE FROM message_parts WHERE message_id = 3",
    )
    async with await Database.open(path) as database:
        page = await database.read(store.oldest_page, MAIN, 3)
        first, second, _ = page.entries
        assert len(first.message.content) == HEAD
        assert {len(part.text or "") for part in first.parts} == {HEAD}
        assert [entry.complete for entry in page.entries] == [False, False, True]
        assert max(len(part.metadata or "") for part in second.parts) == store.METADATA_HEAD
        whole = await database.read(store.get_message, first.message.message_id)
        assert whole.complete
        assert whole.message.content == "m" * 5000
        assert whole.parts[0].text == "p" * 6000


async def test_a_message_that_is_not_there_is_named(opened: Database):
    with pytest.raises(NotFoundError, match="12345678"):
        await opened.read(store.get_message, 12345678)


async def test_text_that_is_not_utf8_is_read(database_copy: DatabaseFactory):
    path = run(
        database_copy("0.15.3"), "UPDATE messages SET content = CAST(x'41ff42' AS TEXT) WHERE message_id = 1"
    )
    async with await Database.open(path) as database:
        page = await database.read(store.oldest_page, MAIN, 1)
        assert page.entries[0].message.content == "A\udcffB"


# -- finding -----------------------------------------------------------------------------------------------


async def test_the_seq_of_a_message_is_that_of_its_conversation_only(
    opened: Database, plain: sqlite3.Connection
):
    (message_id,) = plain.execute(
        "SELECT message_id FROM messages WHERE conversation_id = 1 AND seq = 77"
    ).fetchone()
    assert await opened.read(store.seq_of_message, MAIN, message_id) == 77
    assert await opened.read(store.seq_of_message, 2, message_id) is None


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS[:4])
async def test_the_first_message_from_a_time_on_is_found(database_file: DatabaseFactory, version: str):
    path = database_file(version)
    with reading(path) as plain:
        times = [
            (seq, parse_utc(said))
            for seq, said in plain.execute(
                "SELECT seq, created_at FROM messages WHERE conversation_id = 1 ORDER BY seq"
            )
        ]
    async with await Database.open(path) as database:
        for seq, moment in times[::17]:
            assert moment is not None
            first = next(found for found, at in times if at is not None and at >= moment)
            assert first <= seq
            for written in (moment.strftime("%Y-%m-%d %H:%M:%S.%f"), moment.isoformat()):
                assert await database.read(store.seq_at_time, MAIN, written) == first
        assert await database.read(store.seq_at_time, MAIN, "1970-01-01") == times[0][0]
        assert await database.read(store.seq_at_time, MAIN, "2999-01-01") == times[-1][0]
        assert await database.read(store.seq_at_time, MAIN, "no time") is None
        assert await database.read(store.seq_at_time, 999, "2026-01-01") is None


async def test_a_time_is_found_in_mixed_formats_with_gaps_and_unreadable_stamps(
    database_copy: DatabaseFactory,
):
    path = run(
        database_copy("0.15.3"),
        "DELETE FROM messages WHERE conversation_id = 1 AND seq BETWEEN 50 AND 300",
        "UPDATE messages SET created_at = '2026-05-01T00:00:00.000Z' WHERE conversation_id = 1 AND seq = 310",
        "UPDATE messages SET created_at = '2026-05-01 00:00:01' WHERE conversation_id = 1 AND seq > 310",
        "UPDATE messages SET created_at = 'rubbish' WHERE conversation_id = 1 AND seq = 2",
    )
    async with await Database.open(path) as database:
        assert await database.read(store.seq_at_time, MAIN, "2026-05-01") == 310
        assert await database.read(store.seq_at_time, MAIN, "2026-05-01T00:00:00.500Z") == 311


NEEDLES = [
    "100%",
    "a_b",
    "back\\slash",
    "%",
    "_",
    "\\",
    "x'; DROP TABLE messages; --",
    "ÄÖ日本",
    "\U0001f600",
]


@pytest.mark.cases(4)
@pytest.mark.parametrize("needle", NEEDLES)
async def test_what_is_searched_is_taken_as_it_is_written(database_copy: DatabaseFactory, needle: str):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("UPDATE messages SET content = 'nothing' WHERE conversation_id = 1")
        connection.execute("DELETE FROM message_parts")
        for seq in (20, 40):
            connection.execute(
                "UPDATE messages SET content = ? WHERE conversation_id = 1 AND seq = ?",
                (f"before{needle}after", seq),
            )
    async with await Database.open(path) as database:

        async def find(start: int, *, forward: bool) -> int | None:
            return await database.read(store.find_text, MAIN, needle, start=start, forward=forward)

        assert await find(0, forward=True) == 20
        assert await find(20, forward=True) == 40
        assert await find(40, forward=True) is None
        assert await find(41, forward=False) == 40
        assert await find(40, forward=False) == 20
        assert await find(20, forward=False) is None


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", VERSIONS[:4])
async def test_tool_calls_are_found_wherever_a_version_keeps_them(
    database_file: DatabaseFactory, version: str
):
    path = database_file(version)
    async with await Database.open(path) as database:
        page = await database.read(store.oldest_page, MAIN, 1000)
        calls = [one for one in page.entries if any("rg -n" in str(astuple(part)) for part in one.parts)]
        assert calls
        found, start = [], 0
        while seq := await database.read(store.find_text, MAIN, "RG -N", start=start, forward=True):
            found.append(seq)
            start = seq
        assert set(found) >= {entry.message.seq for entry in calls}
        if version == "0.1.2":  # its metadata says so of every message, which is no text of any
            assert await database.read(store.find_text, MAIN, "originalRole", start=0, forward=True) is None
