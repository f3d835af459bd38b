"""A later start shows what earlier ones have found out, and reads what came since."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.base.files import cache_folder
from lcm_core.store import statistics
from lcm_core.store.remembered import mark_of
from lcm_core.store.statistics import sums_of
from textual.pilot import Pilot

from lcm_tui.screens import conversation_figures, conversation_panel
from tests.app.host import Host
from tests.app.support import NARROW, first_screen, open_app, settled, wait_for, wait_for_text
from tests.conftest import DatabaseFactory
from tests.databases import building, connect, run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a conversation was read whole, and from what was known of it on."""
    done: Counter[str] = Counter()
    whole, since = statistics.sums_of, statistics.sums_since

    async def read_whole(reader, key: int):
        done["whole"] += 1
        return await whole(reader, key)

    async def read_since(reader, known, *, others):
        done["since"] += 1
        return await since(reader, known, others=others)

    monkeypatch.setattr(statistics, "sums_of", read_whole)
    monkeypatch.setattr(statistics, "sums_since", read_since)
    return done


async def rows_of(pilot: Pilot[int]):
    await settled(pilot)
    return dict(first_screen(pilot).list.rows)


async def started(path: Path):
    """What the list shows once nothing is read any more."""
    while mark_of(path) is None:
        pass
    async with open_app(path) as pilot:
        return await rows_of(pilot)


async def test_a_start_on_an_unchanged_file_reads_the_list_and_nothing_else(
    database_copy: DatabaseFactory, asked: Counter[str]
):
    path = database_copy("0.15.3")
    first = await started(path)
    assert asked == {"whole": len(first)}
    asked.clear()
    async with open_app(path, size=NARROW) as pilot:
        assert await rows_of(pilot) == first
        assert not asked
        assert pilot.app.session.database.statements <= 2  # the list, and the journal


@pytest.mark.long
async def test_a_start_on_a_file_that_grew_reads_what_came(
    database_copy: DatabaseFactory, asked: Counter[str]
):
    path = database_copy("0.15.3")
    first = await started(path)
    with building(path) as rows:
        rows.message(1, "something new", seq=9000, token_count=77, in_context=False)
    asked.clear()
    second = await started(path)
    assert asked == {"since": len(first)}
    before, after = first[1].sums, second[1].sums
    assert before is not None
    assert after is not None
    assert after.message_tokens == before.message_tokens + 77
    for key, row in second.items():
        assert isinstance(key, int)
        async with Database.open(path) as database:
            assert row.sums == await database.read(sums_of, row.sums.conversation_id)  # type: ignore[union-attr]


@pytest.mark.long
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET content = 'mended', model = 'm' WHERE conversation_id = 1",
        "DELETE FROM messages WHERE conversation_id = 1 AND seq > 5",
        "UPDATE context_items SET message_id = 1 WHERE conversation_id = 1 AND message_id IS NOT NULL",
        "DELETE FROM summaries WHERE conversation_id = 1",
    ],
)
async def test_what_was_changed_in_place_is_not_shown_as_before(
    database_copy: DatabaseFactory, statement: str
):
    path = database_copy("0.15.3")
    await started(path)
    with connect(path) as host:
        host.execute("PRAGMA foreign_keys = OFF")
        host.execute(statement)
    shown = (await started(path))[1].sums
    assert shown is not None
    async with Database.open(path) as database:
        assert shown == await database.read(sums_of, shown.conversation_id)


@pytest.mark.long
async def test_messages_in_sight_that_somebody_rewrote_in_place_are_read_again(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    await started(path)
    run(path, "UPDATE messages SET token_count = 1000000 WHERE message_id = 1")
    async with open_app(path) as pilot:
        await settled(pilot)
        first_screen(pilot)._look_again()
        await settled(pilot)
        shown = first_screen(pilot).list.rows[1].sums
    assert shown is not None
    async with Database.open(path) as database:
        assert shown == await database.read(sums_of, shown.conversation_id)


@pytest.mark.long
@pytest.mark.parametrize("damage", [b"", b"{", b'{"shares": {}}'])
async def test_a_damaged_file_of_ours_is_read_over(
    database_copy: DatabaseFactory, asked: Counter[str], damage: bytes
):
    path = database_copy("0.15.3")
    first = await started(path)
    [kept] = cache_folder().iterdir()
    kept.write_bytes(damage)
    asked.clear()
    assert await started(path) == first
    assert asked == {"whole": len(first)}
    asked.clear()
    assert await started(path) == first
    assert not asked


async def test_nothing_is_kept_where_it_is_turned_off(
    database_copy: DatabaseFactory, monkeypatch, tmp_path: Path
):
    own = tmp_path / "own.toml"
    own.write_text("search_cache = false\n")
    monkeypatch.setenv("LCM_TUI_CONFIG", str(own))
    await started(database_copy("0.15.3"))
    assert not cache_folder().exists()


@pytest.mark.long
async def test_the_verdict_is_shown_with_its_time_until_the_file_changes(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conversation_panel, "FIRST_SECONDS", 0.001)
    ran: list[str] = []
    verdict_of = conversation_panel.verdict_of
    monkeypatch.setattr(
        conversation_panel, "verdict_of", lambda results: (ran.append(""), verdict_of(results))[1]
    )
    path = database_copy("0.15.3")
    while mark_of(path) is None:
        pass
    async with open_app(path) as pilot:
        await wait_for_text(pilot, "✓ structure sound")
        await settled(pilot)
    async with open_app(path) as pilot:
        await wait_for(pilot, lambda: first_screen(pilot).outlooker.outlook.verdict)
        outlook = first_screen(pilot).outlooker.outlook
        assert outlook.verdict is not None
        assert outlook.verdict.at
        assert not outlook.verdict.outdated
        await settled(pilot)
    assert len(ran) == 1
    with building(path) as rows:
        rows.message(1, "something new", seq=9000, in_context=False)
    monkeypatch.setattr(conversation_panel, "SHARE_OF_CHECKS", 10_000)
    async with open_app(path) as pilot:
        await wait_for(pilot, lambda: first_screen(pilot).outlooker.outlook.verdict)
        verdict = first_screen(pilot).outlooker.outlook.verdict
        assert verdict is not None
        assert verdict.outdated
    assert len(ran) == 1  # it is not asked again so soon


async def test_a_screen_in_front_stops_what_is_read_for_the_list(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    begun: list[bool] = []

    async def endless(reader, asked: object):
        begun.append(True)
        await reader.value(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )
        raise AssertionError(asked)

    read = conversation_figures._summed
    monkeypatch.setattr(conversation_figures, "_summed", endless)
    async with open_app(database_copy("0.15.3")) as pilot:
        await wait_for(pilot, lambda: begun)
        monkeypatch.setattr(conversation_figures, "_summed", read)
        screen = first_screen(pilot)
        await pilot.press("s")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        await settled(pilot)
        assert screen.counting._sum_wanted
        await pilot.press("q")
        await wait_for(pilot, lambda: screen.list.rows[1].sums)


async def statements_for_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[object]]:
    """How many statements the list runs for a message of a host, and which conversations it counts."""
    counted: list[object] = []
    count = conversation_figures._counted

    async def noted(reader, batch, nameless):
        counted.extend(batch)
        return await count(reader, batch, nameless)

    monkeypatch.setattr("lcm_tui.screens.conversations.SHARE", 1e9)
    with Host(path) as host:
        async with open_app(path, size=NARROW) as pilot:
            screen, database = first_screen(pilot), pilot.app.session.database
            await settled(pilot)
            host.say(1, "the first one: all are listed again")
            await wait_for(pilot, lambda: screen.counting.place is not None and screen._list_at > 1e6)
            await settled(pilot)
            monkeypatch.setattr(conversation_figures, "_counted", noted)
            before, known = database.statements, screen.list.rows[1].sums
            assert known is not None
            host.say(1, "one more")
            await wait_for(pilot, lambda: screen.list.rows[1].sums != known)
            await settled(pilot)
            monkeypatch.setattr(conversation_figures, "_counted", count)
            shown = screen.list.rows[1].sums
            assert shown is not None
            assert shown == await database.read(sums_of, shown.conversation_id)
            return database.statements - before, counted


@pytest.mark.long
async def test_a_commit_beside_the_list_costs_as_much_however_many_conversations_there_are(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    few, counted = await statements_for_a_commit(path, monkeypatch)
    assert counted == [1]
    run(
        path,
        """WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        INSERT INTO conversations (conversation_id, session_id, updated_at)
        SELECT i, 'session ' || i, '2020-01-01 00:00:00' FROM n""",
    )
    many, counted = await statements_for_a_commit(path, monkeypatch)
    assert counted == [1]
    assert abs(many - few) < 20  # a look more or less, as the file is written in the same moment
