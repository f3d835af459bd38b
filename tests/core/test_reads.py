"""What is asked of one conversation reads no more where it, or the file around it, is larger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.checks import running
from lcm_core.checks.check import Limits
from lcm_core.checks.running import run_checks
from lcm_core.store.listing import Window, message_page
from lcm_core.store.messages import newest_page
from lcm_core.store.search import DocumentKind, Filter
from lcm_core.store.state import transcripts
from lcm_core.store.statistics import growth_of, growth_of_all, history_of, statistics_of
from lcm_core.store.summaries import whole_tree
from lcm_recall import search as recall
from lcm_recall.search import search
from lcm_recall.terms import parse

from tests.core.recalling import settings_in
from tests.databases import Work, building, connect, new_database, query, run

FULL_TEXT_LACKS = "tool calls, tool results and parts of words, since the engine's full text was searched"
WINDOW = 2000

OWNER = 1
LARGE = 20_000


def filled(path: Path, messages: int) -> Path:
    """A conversation of so many messages, one each minute; the hashes are in no order."""
    new_database(path)
    with connect(path) as connection:
        connection.execute("INSERT INTO conversations (conversation_id, session_id) VALUES (1, 's')")
        connection.execute(
            """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at, identity_hash)
            SELECT 1, i, CASE i % 2 WHEN 0 THEN 'assistant' ELSE 'user' END, 'said ' || i, i % 7,
            datetime('2026-01-01', i || ' minutes'), printf('%08x', i * 2654435761 % 4294967296) FROM n""",
            (messages,),
        )
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation of 20,000 messages."""
    return filled(tmp_path_factory.mktemp("large") / "large.db", LARGE)


async def pages(path: Path, limit: int):
    """All messages by id, page by page."""
    found = []
    async with await Database.open(path) as database:
        window = Window(limit)
        while True:
            page = await database.read(message_page, OWNER, window)
            found += [one.message_id for one in page.items]
            if page.next is None:
                return found
            window = Window(limit, page.next)


def by_time(path: Path):
    """All messages by id, the newest first."""
    sql = "SELECT message_id FROM messages ORDER BY julianday(created_at) DESC, message_id DESC"
    return [row[0] for row in query(path, sql)]


@pytest.mark.long
async def test_a_page_reads_as_much_of_a_large_conversation_as_of_a_small_one(large: Path, tmp_path: Path):
    for roles in ((), ("user",)):
        found = []
        for path in (filled(tmp_path / f"{len(roles)}.db", 2_000), large):
            work = Work()
            async with await Database.open(path, arrange=work.count) as database:
                page = await database.read(message_page, OWNER, Window(20), roles=roles)
                assert len(page.items) == 20
                await database.read(message_page, OWNER, Window(20, page.next), roles=roles)
            assert work.scans(path, "messages") == []
            found.append((len(work.selects), work.steps))
        [few, many] = found
        assert few[0] == many[0] <= 7
        assert many[1] == pytest.approx(few[1], rel=0.05)


@pytest.mark.long
async def test_the_pages_of_a_large_conversation_are_the_list_by_time(large: Path):
    assert await pages(large, 900) == by_time(large)


@pytest.mark.long
@pytest.mark.parametrize("seq", [1, 5_000, LARGE - 1_200, LARGE - 800, LARGE])
async def test_one_time_that_is_out_of_order_loses_no_message_and_repeats_none(
    seq: int, large: Path, tmp_path: Path
):
    path = tmp_path / "odd.db"
    path.write_bytes(large.read_bytes())
    run(path, f"UPDATE messages SET created_at = '2025-06-01 00:00:00' WHERE seq = {seq}")
    found = await pages(path, 500)
    assert sorted(found) == sorted(by_time(path))
    run(path, f"UPDATE messages SET created_at = '2026-06-01 00:00:00' WHERE seq = {seq}")
    found = await pages(path, 500)
    assert sorted(found) == sorted(by_time(path))
    if seq > LARGE - 1_000:  # it is seen, and the list is by time
        assert found == by_time(path)


@pytest.mark.long
async def test_copies_at_the_front_stand_where_their_times_say(large: Path, tmp_path: Path):
    path = tmp_path / "copies.db"
    path.write_bytes(large.read_bytes())
    run(path, "UPDATE messages SET seq = -1, created_at = '2026-06-01 00:00:00' WHERE seq = 3")
    assert await pages(path, 900) == by_time(path)


@pytest.mark.long
async def test_a_cursor_of_a_message_that_changed_is_gone_on_from_by_its_time(large: Path, tmp_path: Path):
    path = tmp_path / "moved.db"
    path.write_bytes(large.read_bytes())
    async with await Database.open(path) as database:
        end = (await database.read(message_page, OWNER, Window(20))).next
    assert end is not None
    run(path, f"DELETE FROM messages WHERE message_id = {end.id}")
    async with await Database.open(path) as database:
        page = await database.read(message_page, OWNER, Window(20, end))
    assert [one.message_id for one in page.items] == by_time(path)[19:39]


async def test_what_was_ever_said_is_summed_in_the_order_in_which_it_lies(large: Path):
    work = Work()
    async with await Database.open(large, arrange=work.count) as database:
        tokens = sum(one % 7 for one in range(1, LARGE + 1))
        assert (await database.read(history_of, OWNER)).tokens == tokens
        assert (await database.read(statistics_of, OWNER)).messages.tokens == tokens
    for sql in (one for one in work.selects if "token_count AS tokens" in one and "FROM messages" in one):
        assert "messages_conv_seq_idx" in "".join(row[3] for row in query(large, f"EXPLAIN QUERY PLAN {sql}"))


@pytest.mark.long
async def test_small_conversations_are_checked_in_few_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They are read together, and what is found is what is found in each alone."""
    path = new_database(tmp_path / "small.db")
    with building(path) as rows:
        for number in range(1, 201):
            rows.conversation(number)
            rows.message(number, "[]" if number % 7 else "", token_count=number % 5)
    reports, counts = [], []
    for rows_ahead in (running._ROWS_AHEAD, 0):
        monkeypatch.setattr(running, "_ROWS_AHEAD", rows_ahead)
        work = Work()
        async with await Database.open(path, arrange=work.count) as database:
            reports.append(await run_checks(database, limits=Limits(datetime(2026, 7, 1, tzinfo=UTC))))
        counts.append(work.statements.count("BEGIN"))
    assert reports[0].results == reports[1].results
    assert any(result.findings for result in reports[0].results)
    assert counts[0] < 100 < 2 * 200 < counts[1]


@pytest.mark.long
async def test_a_conversation_that_cannot_be_read_leaves_the_others_to_be_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = new_database(tmp_path / "odd.db")
    with building(path) as rows:
        for number in range(1, 21):
            rows.conversation(number)
            rows.message(number, "said")
    load, asked = running.load_structure, []

    async def failing(reader, conversation_id, **how):
        asked.append(conversation_id)
        if conversation_id == 7:
            raise ValueError("odd")
        return await load(reader, conversation_id, **how)

    monkeypatch.setattr(running, "load_structure", failing)
    monkeypatch.setattr(running, "_LONG_ENOUGH", 60.0)  # all are read together, however busy the machine is
    async with await Database.open(path) as database:
        report = await run_checks(database)
    assert asked == [*range(1, 8), *range(1, 21)]
    stopped = [result.reason for result in report.results if result.check.id == "A1"]
    assert stopped == [
        "it stopped in conversation 7 at a value that it does not know how to read (ValueError)"
    ]


async def test_the_graph_of_one_conversation_is_told_from_its_own_edges(tmp_path: Path):
    path = new_database(tmp_path / "graphs.db")
    with building(path) as rows:
        for number in range(1, 41):
            rows.conversation(number)
            for name in "abc":
                rows.summary(number, f"sum_{number}_{name}")
            rows.summary(
                number, f"sum_{number}_d", kind="condensed", sources=[f"sum_{number}_{one}" for one in "abc"]
            )
    work = Work()
    async with await Database.open(path, arrange=work.count) as database:
        first = await database.read(whole_tree, OWNER)
        assert work.scans(path, "summary_parents", "summaries", "messages") == []
        run(path, "DELETE FROM summary_parents WHERE summary_id = 'sum_9_d'")
        assert await database.read(whole_tree, OWNER) == first
        run(path, "DELETE FROM summary_parents WHERE parent_summary_id = 'sum_1_b'")
        assert await database.read(whole_tree, OWNER) != first


async def test_what_opens_a_conversation_takes_as_much_of_a_large_one_as_of_a_small_one(
    large: Path, tmp_path: Path
):
    loads = (
        lambda reader: newest_page(reader, OWNER, 100),
        lambda reader: growth_of(reader, OWNER),
        growth_of_all,
        lambda reader: transcripts(reader, OWNER),
    )
    for load in loads:
        found = []
        for path in (filled(tmp_path / f"{loads.index(load)}.db", 2_000), large):
            work = Work()
            async with await Database.open(path, arrange=work.count) as database:
                await database.read(load)
            found.append((len(work.selects), work.steps))
        [few, many] = found
        assert few[0] == many[0]
        assert many[1] <= few[1] * 1.1 + 100
        assert work.scans(large, "messages", "conversation_bootstrap_state") == []


def with_full_text(path: Path) -> Path:
    """A copy whose search tables hold every message and summary."""
    run(
        path,
        "INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages",
        "INSERT INTO summaries_fts (summary_id, content) SELECT summary_id, content FROM summaries",
    )
    return path


async def looked_for(path: Path, query: str, work: Work | None = None):
    """What a command finds in a large file without a private index."""
    work = work or Work()
    asked, settings = parse(query), settings_in(path.parent)
    async with await Database.open(path, arrange=work.count) as database:

        async def load(reader):
            schema = reader.schema
            return await reader.run(
                lambda rows: search(rows, schema, asked, Filter(), settings, full_text=True)
            )

        return await database.read(load)


@pytest.mark.long
async def test_a_word_that_is_nowhere_is_looked_up_and_not_read_for(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "lcm.db"
    path.write_bytes(large.read_bytes())
    with_full_text(path)
    counts = []
    for messages in (LARGE, LARGE - 1):  # read, looked up
        monkeypatch.setattr(recall, "READ", messages)
        work = Work()
        found = await looked_for(path, "reticulate", work)
        assert found.total == 0
        assert found.coverage.searched[DocumentKind.MESSAGE] == LARGE
        assert (FULL_TEXT_LACKS in found.coverage.not_searched) == (messages < LARGE)
        counts.append(len([sql for sql in work.selects if "FROM messages AS t" in sql and " LIKE " in sql]))
    assert counts == [LARGE // WINDOW, 0]


async def test_full_text_finds_whole_words_and_reading_finds_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.conversation(1)
        said = [
            rows.message(1, one) for one in ("a lease", "two leases", "release", "café", "", "修改 lease")
        ]
        rows.part(rows.message(1, ""), "tool", None, tool_name="exec", tool_input="lease")
        rows.summary(1, "sum_a", content="the lease was kept")
    with_full_text(path)
    run(path, f"DELETE FROM messages_fts WHERE rowid = {said[4]}")  # engines do not index a blank one
    monkeypatch.setattr(recall, "READ", 0)

    async def ids(query: str) -> set[str]:
        return {hit.id for hit in (await looked_for(path, query)).hits}

    assert await ids("lease") == {*map(str, (said[0], said[1], said[5])), "sum_a"}
    assert await ids("cafe") == {str(said[3])}
    everything = {*map(str, (*said[:3], said[5], said[5] + 1)), "sum_a"}
    assert await ids("lease*") == everything, "a beginning is read for"
    assert await ids("改") == {str(said[5])}
    run(path, f"DELETE FROM messages_fts WHERE rowid = {said[0]}")
    assert await ids("lease") == {*everything}, "a table that lacks a message is not gone by"
