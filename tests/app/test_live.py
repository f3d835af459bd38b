"""Following a database that another process writes to, replaces and takes away."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lcm_core.store.opening import Access
from textual.pilot import Pilot

from lcm_tui.kit import lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.session import until_calm
from lcm_tui.screens.reading import LONGEST_REST, rest_after
from tests.app.host import Host
from tests.app.screens import WAYS, leave, open_screen
from tests.app.support import NARROW, WIDE, open_app, said, settled, shown_lines, wait_for, wait_for_text
from tests.conftest import DatabaseFactory
from tests.databases import connect


def title(pilot: Pilot[int]) -> str:
    return shown_lines(pilot)[0]


def texts(pilot: Pilot[int]) -> list[str]:
    """The lines between the head and the keys, without the scroll bar."""
    return [line[: WIDE[0] - 2].rstrip() for line in shown_lines(pilot)[4:-1]]


def listed(screen) -> LineView:
    view = screen.main_widget()
    assert isinstance(view, LineView)
    return view


def folder(path: Path) -> dict[str, tuple[int, int]]:
    """What lies in a folder, with sizes and times."""
    return {
        str(found.relative_to(path)): (found.stat().st_size, found.stat().st_mtime_ns)
        for found in path.rglob("*")
        if found.is_file()
    }


async def marked(pilot: Pilot[int], screen) -> None:
    """Wait until some rows are marked as new."""
    await wait_for(pilot, lambda: listed(screen)._fresh, "rows marked as new")


async def test_a_process_that_only_reads_changes_nothing_in_the_title(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        await wait_for_text(pilot, "idle")
        session = pilot.app.session
        with connect(path) as other:
            other.execute("SELECT count(*) FROM messages").fetchone()
            await wait_for(pilot, lambda: session.file_state and session.file_state.wal_inode, "its WAL")
        await session.database.refresh()  # the WAL is gone, unless the app was reading just then
        await settled(pilot)
        assert "idle" in title(pilot)


async def test_messages_appear_below_while_the_selection_stays(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lines, "NEW_SECONDS", 1_000_000)
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            assert "idle" in title(pilot)
            screen = await open_screen(pilot, "ConversationScreen")
            messages = listed(screen)
            await pilot.press("end", "k", "k")
            selected, last = screen.selected_id(), messages.keys[-1]
            before = texts(pilot)
            host.say(3, "the host is here")
            await marked(pilot, screen)
            assert set(messages._fresh) == {last + 1}
            assert messages.keys[-1] == last + 1
            assert screen.selected_id() == selected
            assert texts(pilot) == before
            assert "changed" in title(pilot)
            assert "idle" not in title(pilot)
            assert "WAL" in title(pilot)
            await pilot.press("end")
            await wait_for_text(pilot, "the host is here")


@pytest.mark.long
async def test_a_screen_follows_the_file_also_while_keys_come_without_a_pause(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "ConversationScreen")
            pilot.app.session.key_at = float("inf")
            host.say(3, "the host is here")
            await wait_for(pilot, lambda: "the host is here" in str(screen.messages.views.values()))


@pytest.mark.parametrize(
    ("since", "wait"), [(0.0, 0.025), (0.02, 0.005), (0.03, 0.0), (0.06, 0.09), (0.2, 0.0)]
)
def test_other_work_begins_right_behind_a_key_or_in_a_rest(since: float, wait: float):
    assert until_calm(since) == pytest.approx(wait)


def test_what_a_host_causes_is_a_small_part_of_the_time():
    assert rest_after(0.0) == 0.0
    assert 0.5 < rest_after(0.015) < 1.0
    assert rest_after(60.0) == LONGEST_REST


async def test_the_list_of_conversations_counts_and_grows(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = pilot.app.screen
            screen.list.table.select(3)
            await settled(pilot)
            assert " 136 " in next(line for line in shown_lines(pilot) if line.startswith("    3 "))
            host.say(3, "one more")
            await wait_for(pilot, lambda: any(" 137 " in line for line in shown_lines(pilot)))
            assert screen.list.table.keys[0] == 3, "the newest activity comes first"
            host.write(
                ("INSERT INTO conversations (session_id, session_key) VALUES ('s9', 'agent:new:x')", [])
            )
            await wait_for(pilot, lambda: 9 in screen.list.table.keys)
            await wait_for_text(pilot, "Conversations  9")
            assert screen.list.table.selected == 3


@pytest.mark.long
async def test_the_context_grows_and_is_compacted_around_the_selection(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "ContextScreen")
            await pilot.press("j")
            selected, count = screen.selected_id(), len(listed(screen).keys)
            host.say(3, "another one")
            await wait_for(pilot, lambda: len(listed(screen).keys) == count + 1)
            await pilot.press("end")
            await wait_for_text(pilot, "another one")
            await pilot.press("home", "j")
            assert screen.selected_id() == selected
            host.write(
                ("DELETE FROM context_items WHERE conversation_id = 3 AND ordinal = 0", []),
                ("UPDATE context_items SET ordinal = -ordinal WHERE conversation_id = 3", []),
                ("UPDATE context_items SET ordinal = -ordinal - 1 WHERE conversation_id = 3", []),
            )
            await wait_for(pilot, lambda: listed(screen).cursor == 0)
            assert screen.selected_id() == selected


@pytest.mark.long
async def test_a_new_summary_appears_in_the_tree(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "DagScreen")
            await pilot.press("j")
            selected = screen.selected_id()
            host.write(
                (
                    """INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count)
                    VALUES ('sum_feedfacefeedface', 3, 'leaf', 0, 'what the host made', 5)""",
                    [],
                ),
                (
                    """INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)
                    SELECT 3, max(ordinal) + 1, 'summary', 'sum_feedfacefeedface' FROM context_items
                    WHERE conversation_id = 3""",
                    [],
                ),
            )
            await wait_for_text(pilot, "sum_feed")
            assert screen.selected_id() == selected


@pytest.mark.long
async def test_a_new_file_appears_in_the_list(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "FilesScreen")
            selected = screen.selected_id()
            host.write(
                (
                    """INSERT INTO large_files (file_id, conversation_id, file_name, storage_uri)
                    VALUES ('file_feedfacefeedface', 3, 'new.txt', '/nowhere/new.txt')""",
                    [],
                )
            )
            await wait_for_text(pilot, "new.txt")
            assert screen.selected_id() == selected
            await wait_for(
                pilot, lambda: "unknown" in next(at for at in shown_lines(pilot) if "new.txt" in at)
            )


@pytest.mark.long
async def test_a_screen_behind_others_is_true_again_when_it_comes_back(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "ConversationScreen")
            await pilot.press("f")
            await wait_for(pilot, lambda: pilot.app.screen is not screen)
            count = len(listed(screen).keys)
            host.say(3, "said meanwhile")
            await wait_for(pilot, lambda: "idle" not in title(pilot))
            await pilot.press("escape")
            await wait_for(pilot, lambda: len(listed(screen).keys) == count + 1)


@pytest.mark.long
async def test_keys_are_answered_while_the_host_commits_without_a_pause(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with Host(path) as host:
        async with open_app(path) as pilot:
            screen = await open_screen(pilot, "ConversationScreen")
            await pilot.press("home")
            await settled(pilot)
            view = listed(screen)
            first = view.keys[0]
            places = []
            for number in range(15):
                host.say(3, f"burst {number}")
                await pilot.press("pagedown" if number % 2 else "pageup")
                places.append(view.selected)
            assert first in places
            assert len(set(places[1:])) == 2, "the same two keys lead to the same two places"
            await pilot.press("end")
            await wait_for_text(pilot, "burst 14")
            assert not said(pilot)


# -- ways in -------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_host_that_comes_and_goes_is_followed_both_times(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path) as pilot:
        screen = await open_screen(pilot, "ConversationScreen")
        database = pilot.app.session.database
        assert database.access is Access.IMMUTABLE
        await pilot.press("end", "k")
        selected, count = screen.selected_id(), len(listed(screen).keys)
        with Host(path) as host:
            host.say(3, "with a WAL")
            await wait_for(pilot, lambda: database.access is Access.READ_ONLY)
            await wait_for(pilot, lambda: len(listed(screen).keys) == count + 1)
            await pilot.press("end")
            await wait_for_text(pilot, "with a WAL", "WAL")
            await pilot.press("k", "k")
            assert screen.selected_id() == selected
        with Host(path) as host:
            host.say(3, "again with one")
            await wait_for(pilot, lambda: len(listed(screen).keys) == count + 2)
            await pilot.press("end")
            await wait_for_text(pilot, "again with one")
        assert not said(pilot)
    # The host cannot take its WAL with it while somebody else has the file open; the next one does.
    Host(path).close()
    assert os.listdir(path.parent) == ["lcm.db"]


@pytest.mark.long
async def test_a_file_that_was_replaced_is_read_anew(database_copy: DatabaseFactory, tmp_path: Path):
    path, other = database_copy("0.15.3"), database_copy("0.15.3")
    with Host(other) as host:
        host.say(3, "from the backup")
    async with open_app(path) as pilot:
        screen = await open_screen(pilot, "ConversationScreen")
        await pilot.press("end", "k")
        selected, count = screen.selected_id(), len(listed(screen).keys)
        other.replace(path)
        await wait_for(pilot, lambda: len(listed(screen).keys) == count + 1)
        await pilot.press("end")
        await wait_for_text(pilot, "from the backup")
        await pilot.press("k", "k")
        assert screen.selected_id() == selected
        assert not said(pilot)


@pytest.mark.long
async def test_a_file_that_is_gone_is_said_to_be_gone_and_stays_on_the_screen(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    kept = path.with_name("kept")
    shutil.copyfile(path, kept)
    async with open_app(path, size=NARROW) as pilot:
        screen = await open_screen(pilot, "FilesScreen")
        lines = shown_lines(pilot)[1:]
        path.unlink()
        await wait_for(pilot, lambda: "file is missing" in title(pilot))
        await settled(pilot)
        assert shown_lines(pilot)[1:6] == lines[:5]
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        assert "file is missing" in title(pilot)
        assert len(pilot.app.screen.list.table.keys) == 8
        assert not path.exists(), "nothing was created in its place"
        kept.rename(path)
        await wait_for(pilot, lambda: "live" in title(pilot), "the file that came back")
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        assert pilot.app._exception is None


# -- traces --------------------------------------------------------------------------------------------------


#: One screen of each way of reading: pages, texts, a whole graph, files, scans, sums, transcripts.
SOME = ("DagScreen", "SentScreen", "FileScreen", "PlanScreen", "HealthScreen", "DiskSessionScreen")


@pytest.mark.long
@pytest.mark.parametrize(
    "live",
    [pytest.param(False, id="no host"), pytest.param(True, id="a live host", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    "names", [SOME, pytest.param(tuple(WAYS), marks=pytest.mark.long)], ids=["some", "all"]
)
async def test_walking_over_the_screens_leaves_no_trace(
    openclaw_home: Path, live: bool, names: tuple[str, ...]
):
    path = openclaw_home / "lcm.db"
    host = Host(path) if live else None
    if host is not None:
        host.say(3, "so that there is a WAL")
    before = folder(openclaw_home)
    assert ("lcm.db-wal" in before) is live
    async with open_app(path, state_dir=openclaw_home) as pilot:
        for name in names:
            await open_screen(pilot, name)
            await pilot.press("down", "end", "home", "ctrl+r")
            await settled(pilot)
            await leave(pilot)
    after = folder(openclaw_home)
    if host is None:
        assert after == before
    else:
        del before["lcm.db-shm"], after["lcm.db-shm"]  # readers of a live WAL take their turn in it
        assert after == before
        host.close()
    assert (os.listdir(openclaw_home).count("lcm.db-shm"), os.listdir(openclaw_home).count("lcm.db-wal")) == (
        0,
        0,
    )
