"""The screen of the disk: what takes space, and what is given back by its keys."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import pytest
from lcm_core.operations.export import default_folder

from tests.app.support import NARROW, open_app, settled, shown, wait_for, wait_for_text, wait_until_said
from tests.cli.test_disk import a_host_on, with_space
from tests.conftest import DatabaseFactory
from tests.databases import column
from tests.databases import run as change_behind


async def test_a_narrow_screen_shows_the_sizes_before_the_folder(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=(60, 15), state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(
            pilot, "Disk  0 bytes of 3.7 MB can be given back.", "what ", "size ", "share", " %"
        )


async def test_the_columns_are_the_same_whatever_lies_beside_the_file(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=(160, 24), state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "size ", "share", "message_parts", "indexes", "files", "folder")


@pytest.mark.long
async def test_the_screen_gives_back_both(database_copy: DatabaseFactory):
    path = with_space(database_copy("0.15.3"))
    size = path.stat().st_size
    async with open_app(path, size=NARROW, state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "can be given back", "free pages of the file")
        await pilot.press("v")
        await wait_for_text(
            pilot, "Give the space back?", "It takes about", "free on this disk", "rewrite the file"
        )
        await pilot.press("a")
        await wait_until_said(pilot, "back: the file")
        await wait_for(pilot, lambda: path.stat().st_size < size)
        await settled(pilot)
        await pilot.press("x")
        await wait_for_text(pilot, "Remove 1 large file", "3/file_00112233aabbccdd.json")
        await pilot.press("a", "1", "enter")
        await wait_until_said(pilot, "5.0 KB are free again")
        await settled(pilot)
        assert "large files without a row" not in shown(pilot)
        with a_host_on(path):
            change_behind(path, "DELETE FROM message_parts")
            await wait_for(pilot, lambda: "626.7 KB" in shown(pilot))
            await pilot.press("v")
            await wait_until_said(pilot, "is open in")


@pytest.mark.long
async def test_enter_lists_backups_and_exports_and_removes_those_that_are_marked(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    names = [f"{path.name}.2026112{day}T101112Z.backup" for day in (6, 7, 8)]
    for day, name in enumerate(names, 26):
        (path.parent / name).write_bytes(path.read_bytes())
        at = datetime(2026, 11, day, 10, 11, tzinfo=UTC).timestamp()
        os.utime(path.parent / name, (at, at))
    default_folder().mkdir(parents=True)
    (default_folder() / "conversation-9-20261126T101112Z.jsonl").write_bytes(b"x" * 2_000)
    async with open_app(path, size=NARROW, state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "11.2 MB of 14.9 MB can be given back.", "exports of all databases")
        screen = pilot.app.screen
        assert screen.selected_id() == "backups", "the largest row is the first"
        assert "v Give back" not in shown(pilot)
        assert "x Remove strays" not in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "no undo needs one.", "2026-11-28 10:11", "3.7 MB")
        assert list(screen.list.table.keys) == names[::-1], "the newest first"
        await pilot.press("home", "y", "y")
        await wait_until_said(pilot, "Copied ")
        assert pilot.app.clipboard == str(path.parent / names[2])
        await pilot.press("down", "space", "down", "space", "X")
        await wait_for_text(pilot, "Remove 2 backups (7.5 MB)? This cannot be undone.", names[0], names[1])
        await pilot.press("a")
        await wait_for_text(pilot, "type how many they are to remove for good (2)")
        await pilot.press("a", "enter")
        await wait_until_said(pilot, "The answer does not match; nothing was changed.")
        assert all((path.parent / name).exists() for name in names), "a alone removes nothing"
        await pilot.press("X")
        await wait_for_text(pilot, "Remove 2 backups")
        await pilot.press("a", "2", "enter")
        await wait_until_said(pilot, "7.5 MB are free again.")
        await wait_for(pilot, lambda: list(screen.list.table.keys) == [names[2]])
        assert [one.name for one in path.parent.glob("*.backup")] == [names[2]]
        await pilot.press("escape")
        await wait_for(pilot, lambda: screen.selected_id() == "backups")
        assert screen.list.table.select("exports of all databases")
        await pilot.press("enter", "X")
        await wait_for_text(pilot, "Remove 1 export (2.0 KB)? This cannot be undone.")
        await pilot.press("a", "1", "enter")
        await wait_for(pilot, lambda: "message_parts" in shown(pilot))
        assert "exports of all databases" not in shown(pilot)
        assert not [*default_folder().iterdir()]
        assert screen.list.table.select("message_parts")
        await pilot.press("enter")
        await wait_for_text(pilot, "inside the database file", "indexes 1")
        await pilot.press("escape", "y", "t")
        await wait_until_said(pilot, "Copied the text")
        assert re.match(r"message_parts, [0-9,]+ bytes, ", pilot.app.clipboard)


@pytest.mark.long
async def test_a_conversation_is_picked_by_its_size_and_deleted(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        home = pilot.app.screen
        order = home.list.sort
        await pilot.press("&")
        await wait_for_text(pilot, "X Delete…")
        disk = pilot.app.screen
        await pilot.press("X")
        await wait_for_text(pilot, " KB in conversation 1  main  “Can you")
        largest, *others = [int(one.text) for one in disk.prompt.list.keys]
        assert sorted([largest, *others]) == sorted(home.list.table.keys)
        assert all(home.list.rows[largest].sums.bytes >= home.list.rows[one].sums.bytes for one in others)
        await pilot.press("enter")
        await wait_for_text(pilot, f"Delete conversation {largest}", "preview: not applied yet")
        await settled(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "Give the space back?")
        assert pilot.app.screen_stack[-2] is disk
        await pilot.press("enter")
        await wait_until_said(pilot, "back: the file")
        assert home.list.sort == order, "the first screen is sorted as before"
    assert largest not in column(path, "SELECT conversation_id FROM conversations")
