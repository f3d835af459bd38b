"""The list of conversations, and what is counted of each, against plain SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lcm_core.api import Database, NotFoundError
from lcm_core.base.times import parse_utc
from lcm_core.checks.running import run_checks
from lcm_core.operations.repair import find_repair
from lcm_core.store import conversations as store
from lcm_core.store.database import Reader
from lcm_core.store.search import Document, DocumentKind, Filter, SearchedRows
from lcm_core.store.statistics import sums_of, sums_since

from lcm_tui.tables.findings import is_broken_summary
from tests.conftest import DatabaseFactory
from tests.databases import building, query, run
from tests.support import VERSIONS


@pytest.fixture(params=VERSIONS)
def path(request: pytest.FixtureRequest, database_file: DatabaseFactory) -> Path:
    return database_file(request.param)


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[Database]:
    async with await Database.open(path) as database:
        yield database


async def test_every_conversation_is_listed_once_with_its_newest_message(path: Path, opened: Database):
    entries = await opened.read(store.list_conversations)
    ids = [entry.conversation.conversation_id for entry in entries]
    there = query(path, "SELECT conversation_id FROM conversations ORDER BY conversation_id")
    assert sorted(ids) == [found for (found,) in there]
    for entry in entries:
        said = query(
            path,
            "SELECT created_at FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT 1",
            entry.conversation.conversation_id,
        )
        assert entry.last_activity == (said[0][0] if said else None)


@pytest.mark.cases(3)
async def test_counts_are_those_of_plain_sql(path: Path, opened: Database):
    ids = [found for (found,) in query(path, "SELECT conversation_id FROM conversations")]
    for counts in await opened.read(store.count_rows, ids):
        key = counts.conversation_id
        one = "SELECT count(*) FROM {} WHERE conversation_id = ?"
        assert [(counts.messages,)] == query(path, one.format("messages"), key)
        assert [(counts.context_items,)] == query(path, one.format("context_items"), key)
        assert [(found.kind, found.depth, found.count) for found in counts.summaries] == query(
            path,
            """SELECT kind, depth, count(*) FROM summaries WHERE conversation_id = ?
            GROUP BY depth, kind ORDER BY depth""",
            key,
        )


async def _documents_of(reader: Reader, only: Filter) -> list[Document]:
    return await reader.run(
        lambda db: SearchedRows(db, reader.schema).within(DocumentKind.SUMMARY, (0, 2**62), only)
    )


@pytest.mark.long
async def test_sums_are_those_of_plain_sql_and_every_face_counts_the_same_as_broken(
    path: Path, opened: Database
):
    report = await run_checks(opened)
    for (key,) in query(path, "SELECT conversation_id FROM conversations"):
        sums = await opened.read(sums_of, key)
        [(messages, tokens)] = query(
            path, "SELECT count(*), ifnull(sum(token_count), 0) FROM messages WHERE conversation_id = ?", key
        )
        assert (sums.history.messages, sums.message_tokens) == (messages, tokens)
        [(context,)] = query(
            path,
            """SELECT ifnull(sum(ifnull(m.token_count, ifnull(s.token_count, 0))), 0)
            FROM context_items AS c LEFT JOIN messages AS m ON m.message_id = c.message_id
            LEFT JOIN summaries AS s ON s.summary_id = c.summary_id WHERE c.conversation_id = ?""",
            key,
        )
        assert sums.context_tokens == context
        broken = {one.summary.summary_id for one in (await opened.read(find_repair, key)).bad}
        assert sums.broken == len(broken)
        assert broken == {
            finding.rows[0].key[0]
            for finding in report.findings()
            if finding.conversation_id == key and is_broken_summary(finding)
        }
        found = await opened.read(_documents_of, Filter(conversations=(key,), broken=True))
        assert broken == {document.id for document in found}


async def test_the_newest_activity_comes_first_whatever_format_its_time_has(database_copy: DatabaseFactory):
    path = run(
        database_copy("0.15.3"),
        "DELETE FROM messages WHERE conversation_id NOT IN (1, 2, 3, 4)",
        "UPDATE messages SET created_at = '2026-05-01 10:00:00' WHERE conversation_id = 1",
        "UPDATE messages SET created_at = '2026-05-01T09:59:59.999Z' WHERE conversation_id = 2",
        "UPDATE messages SET created_at = '2026-05-01T10:00:00.001Z' WHERE conversation_id = 3",
        "UPDATE messages SET created_at = 'no time' WHERE conversation_id = 4",
        "UPDATE conversations SET updated_at = '2026-05-01 09:00:00'",
        "UPDATE conversations SET updated_at = '2026-06-01T00:00:00.000Z' WHERE conversation_id = 5",
        "UPDATE conversations SET active = 0, archived_at = '2026-05-01 00:00:00' WHERE conversation_id = 3",
    )
    async with await Database.open(path) as database:
        entries = await database.read(store.list_conversations)
    order = [entry.conversation.conversation_id for entry in entries]
    rest = [
        found
        for (found,) in query(
            path, "SELECT conversation_id FROM conversations WHERE conversation_id > 5 ORDER BY 1 DESC"
        )
    ]
    # 5 has no message: what is known of it is when it changed; 4 has one whose time nobody can read.
    assert order == [5, 3, 1, 2, *rest, 4]
    assert parse_utc(entries[-1].last_activity) is None


async def test_listing_takes_one_statement_and_counting_one_for_each(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        entries = await database.read(store.list_conversations)
        assert database.statements == 1
        ids = [entry.conversation.conversation_id for entry in entries]
        await database.read(store.count_rows, ids)
        assert database.statements == 1 + 2 + len(ids)


async def test_neither_listing_nor_counting_reads_the_messages_themselves(database_file: DatabaseFactory):
    """SQLite's own plan: indexes only, so that it costs nothing on 1 GB."""
    asked: list[tuple[str, tuple[object, ...]]] = []

    async with await Database.open(database_file("0.15.3")) as database:

        async def listen(reader: store.Reader) -> None:
            ask = reader.rows

            async def rows(sql: str, *parameters: object) -> list[store.Row]:
                asked.append((sql, parameters))
                return await ask(sql, *parameters)

            reader.rows = rows
            await store.count_rows(reader, [1])

        await database.read(listen)
        for sql, parameters in asked:
            if "FROM messages" in sql:

                async def plan(reader: store.Reader, sql: str = sql, of: object = parameters) -> list[str]:
                    rows = await reader.rows(f"EXPLAIN QUERY PLAN {sql}", *of)
                    return [row["detail"] for row in rows]

                assert all("COVERING INDEX" in step for step in await database.read(plan))


async def test_one_conversation_is_got_by_id_or_key(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        one = await database.read(store.get_conversation, 1)
        assert one.conversation_id == 1
        assert one.session_key is not None
        assert await database.read(store.find_by_session_key, one.session_key) == one
        for read, wanted in ((store.get_conversation, 999), (store.find_by_session_key, "agent:no:body")):
            with pytest.raises(NotFoundError, match=str(wanted)):
                await database.read(read, wanted)


@pytest.mark.parametrize("stored", [b"\xff", b"agent:caf\xe9:main", b"a\xf0\x9f ", b"what?\x80?1"])
async def test_a_key_that_is_no_utf8_is_got_by_its_bytes_with_blanks_around_it_or_without(
    stored: bytes, database_copy: DatabaseFactory
):
    path = run(
        database_copy("0.15.3"),
        f"UPDATE conversations SET session_key = CAST(x'{stored.hex()}' AS TEXT) WHERE conversation_id = 2",
    )
    key = stored.decode("utf-8", "surrogateescape")
    async with await Database.open(path) as database:
        for typed in (key, key if key.endswith(" ") else f"  {key}\t"):
            assert (await database.read(store.find_by_session_key, typed)).conversation_id == 2
        for other in ("\udcfe", "\ud800", f"x{key}"):
            with pytest.raises(NotFoundError):
                await database.read(store.find_by_session_key, other)


async def test_of_several_with_one_key_the_active_one_is_meant_then_the_newest(
    database_copy: DatabaseFactory,
):
    path = run(
        database_copy("0.15.3"),
        "DROP INDEX IF EXISTS conversations_active_session_key_idx",
        "UPDATE conversations SET session_key = 'k', active = 0, created_at = '2026-01-01 00:00:00'",
        "UPDATE conversations SET created_at = '2025-12-31T23:59:59.000Z' WHERE conversation_id = 2",
        "UPDATE conversations SET active = 1 WHERE conversation_id = 2",
        "UPDATE conversations SET created_at = '2026-01-01T00:00:00.001Z' WHERE conversation_id = 3",
    )
    async with await Database.open(path) as database:
        assert (await database.read(store.find_by_session_key, "k")).conversation_id == 2
    run(path, "UPDATE conversations SET active = 0")
    async with await Database.open(path) as database:
        assert (await database.read(store.find_by_session_key, "k")).conversation_id == 3


async def test_the_agent_and_its_lane_come_from_the_session_key():
    def named(key: str | None) -> tuple[str | None, str]:
        one = store.Conversation(1, "the-id", key, True, None, None, None, None, _NOW, _NOW)
        return one.agent, one.lane

    assert named("agent:main:discord:channel:x") == ("main", "discord:channel:x")
    assert named("agent::x") == (None, "x")
    assert named("something") == (None, "something")
    assert named(None) == (None, "the-id")


_NOW = "2026-01-01 00:00:00"


async def test_sums_are_brought_up_to_date_by_reading_what_was_appended(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    key = 1
    async with await Database.open(path) as database:
        known = await database.read(sums_of, key)
    with building(path) as rows:
        for conversation, seq, tokens in ((1, 9000, 50), (1, 9001, 7), (2, 9000, 1000)):
            rows.message(conversation, "x", seq=seq, token_count=tokens, in_context=False)
    async with await Database.open(path) as database:
        assert await database.read(sums_since, known) == await database.read(sums_of, key)
    run(path, "DELETE FROM messages WHERE seq = 9000 AND conversation_id = 1")
    async with await Database.open(path) as database:
        grown = await database.read(sums_since, known)
        assert grown == await database.read(sums_of, key)
        assert grown.message_tokens == known.message_tokens + 7
    run(path, "DELETE FROM messages WHERE conversation_id = 1 AND seq = 1")
    async with await Database.open(path) as database:
        assert await database.read(sums_since, grown) == await database.read(sums_of, key)


async def test_values_of_other_types_are_shown_as_what_they_should_be(database_copy: DatabaseFactory):
    path = run(
        database_copy("0.15.3"),
        "UPDATE conversations SET title = x'4142', archive_cause = 5 WHERE conversation_id = 1",
        "UPDATE conversations SET active = 'yes' WHERE conversation_id = 1",
        "UPDATE messages SET token_count = 'many', content = x'4142', created_at = 5 WHERE message_id = 1",
        "UPDATE summaries SET token_count = x'00', depth = '1' WHERE conversation_id = 1",
    )
    async with await Database.open(path) as database:
        one = await database.read(store.get_conversation, 1)
        assert (one.title, one.archive_cause, one.active) == ("AB", "5", False)
        counts = await database.read(store.count_rows, [1])
        assert {found.depth for found in counts[0].summaries} == {1}
        await database.read(store.list_conversations)
        await database.read(sums_of, 1)
