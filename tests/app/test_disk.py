"""The screen of the disk: what takes space, and what is given back by its keys."""

from __future__ import annotations

import re

from tests.app.support import NARROW, open_app, settled, shown, wait_for, wait_for_text, wait_until_said
from tests.cli.test_disk import a_host_on, with_space
from tests.conftest import DatabaseFactory
from tests.databases import run as change_behind


async def test_a_narrow_screen_shows_the_sizes_before_the_folder(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=(60, 15), state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(
            pilot, "Disk  0 bytes of 3.7 MB can be given back.", "what ", "size ", "share", " %"
        )


async def test_a_column_in_which_no_row_says_anything_is_not_there(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=(160, 24), state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "what ", "size ", "share", "message_parts", "indexes")
        assert all(column.name not in ("files", "folder") for column in pilot.app.screen.list.columns())


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
        await wait_until_said(pilot, "now take")
        await wait_for(pilot, lambda: path.stat().st_size < size)
        await settled(pilot)
        await pilot.press("x")
        await wait_for_text(pilot, "Remove 1 large file", "3/file_00112233aabbccdd.json")
        await pilot.press("a")
        await wait_until_said(pilot, "5.0 KB are free again")
        await settled(pilot)
        assert "large files without a row" not in shown(pilot)
        with a_host_on(path):
            change_behind(path, "DELETE FROM message_parts")
            await wait_for(pilot, lambda: "626.7 KB" in shown(pilot))
            await pilot.press("v")
            await wait_until_said(pilot, "is open in")


async def test_enter_lists_the_files_beside_the_database_and_says_what_may_be_deleted(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    names = [f"{path.name}.2026112{day}T101112Z.backup" for day in (6, 7)]
    for name in names:
        (path.parent / name).write_bytes(path.read_bytes())
    async with open_app(path, size=NARROW, state_dir=path.parent) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "enter ", "backups")
        assert pilot.app.screen.selected_id() == "backups", "the largest row is the first"
        assert "free pages" not in shown(pilot)
        assert "v Give back" not in shown(pilot)
        assert "x Remove strays" not in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "Backups: 2 files", "Delete by hand", "changed (UTC)")
        await wait_for(pilot, lambda: all(name in re.sub(r"[│\s]", "", shown(pilot)) for name in names))
        await pilot.press("escape", "y", "y")
        await wait_until_said(pilot, "Copied ")
        assert pilot.app.clipboard.split() == [str(path.parent / name) for name in names]
        await pilot.press("down", "enter")
        await wait_for_text(pilot, "inside the database file", "indexes 1")
        await pilot.press("escape", "y", "t")
        await wait_until_said(pilot, "Copied the text")
        assert re.match(r"message_parts, [0-9,]+ bytes, ", pilot.app.clipboard)


async def test_the_conversations_are_a_key_away_the_largest_on_top(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        home = pilot.app.screen
        await pilot.press("&")
        await wait_for_text(pilot, "X Delete…")
        await pilot.press("X")
        await wait_for(pilot, lambda: pilot.app.screen is home and home.list.sorted_by == "bytes")
        await settled(pilot)
        sizes = [home.list.rows[key].sums.bytes for key in home.list.table.keys]
        assert sizes == sorted(sizes, reverse=True)
        assert home.list.table.selected == home.list.table.keys[0]
        await pilot.press("X")
        await wait_for_text(pilot, "Delete conversation")
