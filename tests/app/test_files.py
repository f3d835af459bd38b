"""The screens of large files: what the database says of them, and what lies on the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lcm_tui.screens.files import FileScreen, FilesScreen
from tests.app.support import (
    NARROW,
    WIDE,
    conversation,
    go_to,
    open_app,
    said,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
)
from tests.conftest import DatabaseFactory

PAGE = 200
SHOWN_BYTES = 256_000

JSON, JSON_NAME = "file_0d4e9cd9791444c6", "export-dcdd.json"  #: of conversation 3, as is the code
CODE = "file_93dff824c8404670"


@asynccontextmanager
async def files_of(
    home: Path, conversation_id: int | None, *, path: Path | None = None, size: tuple[int, int] = WIDE
) -> AsyncIterator[tuple[Pilot[int], FilesScreen]]:
    async with open_app(path or home / "lcm.db", state_dir=home, size=size) as pilot:
        chosen = None if conversation_id is None else conversation(pilot, conversation_id)
        screen = await go_to(pilot, FilesScreen(chosen))
        await wait_for(pilot, lambda: screen.list.table.keys or "no large files" in screen.list.table.empty)
        await wait_for(pilot, lambda: not screen.list.unsure & set(screen.list.table.visible_keys), "states")
        yield pilot, screen


def stored_as(home: Path, file_id: str) -> Path:
    return next((home / "lcm-files").glob(f"*/{file_id}.*"))


def row_of(pilot: Pilot[int], file_id: str) -> str:
    left = [line.split("│")[0] for line in shown_lines(pilot)]
    return next(line for line in left if file_id in line and not line.startswith(("file ", "name ")))


@pytest.mark.long
async def test_all_files_of_a_conversation_with_what_is_recorded_of_them(openclaw_home: Path):
    async with files_of(openclaw_home, 3) as (pilot, screen):
        await wait_for_text(pilot, "Files of conversation 3")
        assert len(screen.list.table.keys) == 6
        row = row_of(pilot, JSON).split()
        assert row == [JSON_NAME, "found", "20.1", "KB", "726", "2026-03-02", "11:26", JSON]
        assert screen.list.table.keys[0] == CODE, "the newest comes first"
        await pilot.press("G")
        await wait_for_text(
            pilot, "20,061 bytes", "application/json", "Structured summary (JSON):", "Top-level"
        )
        await wait_for_text(pilot, "named in message m")
        await pilot.press("y", "y")
        await wait_for(pilot, lambda: pilot.app.clipboard)
        assert pilot.app.clipboard == JSON


@pytest.mark.long
async def test_a_path_of_another_machine_is_found_here_and_opens(openclaw_home: Path):
    async with files_of(openclaw_home, 3, size=NARROW) as (pilot, screen):
        await pilot.press("G")
        await wait_for_text(pilot, JSON, "20,061 bytes")
        await pilot.press("enter")
        await wait_for_text(pilot, JSON_NAME, "20.1 KB")
        text = stored_as(openclaw_home, JSON).read_text()
        assert text[:60] in shown(pilot)
        await pilot.press("slash", *"rows", "enter")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert screen.list.table.selected == JSON


async def test_an_image_is_described_and_not_dumped(openclaw_home: Path):
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4)
    stored_as(openclaw_home, "file_56fa58c1f51044ba").write_bytes(header.ljust(1234, b"\0"))
    async with files_of(openclaw_home, 2, size=NARROW) as (pilot, _):
        await wait_for_text(pilot, "user-image.png", "49 B", "The file has 1,234 bytes, which is not")
        await pilot.press("enter")
        await wait_for_text(
            pilot, "PNG image, 640 x 480, 1,234 bytes", "This file is not text and is not shown"
        )
        assert "IHDR" not in shown(pilot)


@pytest.mark.long
async def test_of_a_large_file_the_beginning_is_shown_and_how_much_it_is(openclaw_home: Path):
    stored_as(openclaw_home, JSON).write_text("first line\n" + "0123456789\n" * SHOWN_BYTES + "last line\n")
    async with files_of(openclaw_home, 3, size=NARROW) as (pilot, _screen):
        await pilot.press("G")
        await wait_for_text(pilot, "which is not the recorded size")
        await pilot.press("enter")
        await wait_for_text(pilot, "first line", "the first 256.0 KB of 2.8 MB")
        await pilot.press("G")
        await wait_for_text(pilot, "0123456789")
        assert "last line" not in shown(pilot)


@pytest.mark.long
async def test_a_file_that_is_missing_or_cannot_be_read_or_lies_outside_does_not_open(
    openclaw_home: Path, tmp_path: Path
):
    secret = tmp_path / "secret.json"
    secret.write_text("not for you")
    stored_as(openclaw_home, CODE).unlink()
    link = stored_as(openclaw_home, JSON)
    link.unlink()
    link.symlink_to(secret)
    folder = stored_as(openclaw_home, "file_b7b54f0887584669")
    folder.unlink()
    folder.mkdir()
    async with files_of(openclaw_home, 3) as (pilot, screen):
        assert " missing " in row_of(pilot, CODE)
        assert " outside " in row_of(pilot, JSON)
        assert " unreadable " in row_of(pilot, "file_b7b54f0887584669")
        await pilot.press("enter")
        await wait_for(pilot, lambda: said(pilot), "why it does not open")
        assert "The file is not on this machine; expected below" in said(pilot)[0]
        await pilot.press("G", "enter")
        await wait_for(pilot, lambda: len(said(pilot)) == 2, "why it does not open")
        assert "outside" in said(pilot)[1]
        assert pilot.app.screen is screen
        assert "not for you" not in shown(pilot)


@pytest.mark.long
async def test_a_stored_path_that_leads_elsewhere_is_not_followed(openclaw_home: Path, tmp_path: Path):
    secret = tmp_path / "id_rsa"
    secret.write_text("not for you")
    with closing(sqlite3.connect(openclaw_home / "lcm.db")) as database, database:
        database.execute("UPDATE large_files SET storage_uri = ? WHERE file_id = ?", (str(secret), CODE))
    async with files_of(openclaw_home, 3) as (pilot, screen):
        assert " outside " in row_of(pilot, CODE)
        await wait_for_text(pilot, "The file is outside", "stored as")  # what follows is as long as a path
        await pilot.press("enter")
        await wait_for(pilot, lambda: said(pilot))
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_a_file_that_goes_away_after_it_was_found_is_said_to_be_gone(openclaw_home: Path):
    async with files_of(openclaw_home, 3, size=NARROW) as (pilot, screen):
        stored_as(openclaw_home, CODE).unlink()
        await pilot.press("enter")
        await wait_for_text(pilot, "cannot be shown", "The file is not on this machine")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: " missing " in row_of(pilot, CODE), "the new state")


@pytest.mark.long
async def test_an_empty_file_says_so_and_a_changed_one_is_read_again(openclaw_home: Path):
    file = stored_as(openclaw_home, CODE)
    file.write_text("")
    async with files_of(openclaw_home, 3, size=NARROW) as (pilot, _):
        await pilot.press("enter")
        await wait_for_text(pilot, "This file is empty.")
        file.write_text("hello \x1b[31m[red]world[/]")
        await pilot.press("ctrl+r")
        await wait_for_text(pilot, "hello ␛[31m[red]world[/]")
        assert isinstance(pilot.app.screen, FileScreen)


@pytest.mark.long
async def test_words_filter_the_list_and_escape_takes_the_filter_away(openclaw_home: Path):
    async with files_of(openclaw_home, 3) as (pilot, screen):
        await pilot.press("slash", *"python PRESIDENT")
        await wait_for_text(pilot, "No file matches “python PRESIDENT”.", "0 of 6")
        for _ in range(len("PRESIDENT")):
            await pilot.press("backspace")
        await wait_for_text(pilot, "2 of 6 /python")
        assert all("scheduler.py" in row_of(pilot, key) for key in screen.list.table.keys)
        await pilot.press("enter", "j", "escape")
        await wait_for(pilot, lambda: len(screen.list.table.keys) == 6)
        assert pilot.app.screen is screen
        assert screen.list.table.selected == "file_9bcd3a4617dc4952"
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)


@pytest.mark.long
async def test_in_the_text_at_the_side_the_same_key_searches(openclaw_home: Path):
    async with files_of(openclaw_home, 3, size=NARROW) as (pilot, screen):
        await pilot.press("tab")
        await wait_for(pilot, lambda: screen.text.has_focus)
        await pilot.press("slash", *"TOP-LEVEL", "enter")
        await wait_for(pilot, lambda: screen.text.scroll_offset.y > 0)
        assert screen.text.has_focus
        assert len(screen.list.table.keys) == 6
        await pilot.press("escape")
        await wait_for(pilot, lambda: screen.list.table.has_focus)


async def test_the_files_of_all_conversations_name_theirs(openclaw_home: Path):
    async with files_of(openclaw_home, None) as (pilot, screen):
        await wait_for_text(pilot, "Files of all conversations  11")
        assert row_of(pilot, "file_56fa58c1f51044ba").split()[:2] == ["2", "user-image.png"]
        assert len(screen.list.table.keys) == 11


@pytest.mark.long
async def test_no_files_and_what_the_first_version_did_not_record_are_said_in_words(
    openclaw_home: Path, database_file: DatabaseFactory
):
    async with files_of(openclaw_home, 7, size=NARROW) as (pilot, _):
        await wait_for_text(pilot, "This conversation has no large files.")
        await pilot.press("enter")
        await wait_for(pilot, lambda: said(pilot))
        await wait_for(pilot, lambda: said(pilot) == ["No file is selected."])
    async with files_of(openclaw_home, 3, path=database_file("0.1.2")) as (pilot, _):
        await wait_for_text(pilot, "lines         not recorded by this version", " missing ")


@pytest.mark.long
async def test_files_are_read_by_the_page_and_only_those_in_sight_are_looked_for(openclaw_home: Path):
    with closing(sqlite3.connect(openclaw_home / "lcm.db")) as database, database:
        rows = [(f"file_{n:016x}", 3, f"n{n}.txt", f"/nowhere/{n}.txt") for n in range(PAGE + 50)]
        database.executemany(
            "INSERT INTO large_files (file_id, conversation_id, file_name, storage_uri) VALUES (?, ?, ?, ?)",
            rows,
        )
    async with files_of(openclaw_home, 3) as (pilot, screen):
        await wait_for_text(pilot, "Files of conversation 3  ", f"{PAGE}+")
        assert len(screen.list.table.keys) == PAGE
        assert len(screen.list.states) < 100
        await pilot.press("G")
        await wait_for_text(pilot, f"{PAGE + 56} ")
        assert screen.list.table.selected == screen.list.table.keys[PAGE - 1], "the cursor stays on its file"
        assert not screen.list.table._fresh, "older files are no news"
        await pilot.press("G")
        await wait_for(pilot, lambda: JSON in screen.list.states)
        assert len(screen.list.states) < 200


@pytest.mark.long
async def test_a_filter_goes_over_the_files_that_were_not_read_yet(openclaw_home: Path):
    with closing(sqlite3.connect(openclaw_home / "lcm.db")) as database, database:
        rows = [(f"file_{n:016x}", 3, f"n{n}.txt", "") for n in range(PAGE)]
        database.executemany(
            "INSERT INTO large_files (file_id, conversation_id, file_name, storage_uri) VALUES (?, ?, ?, ?)",
            rows,
        )
    async with files_of(openclaw_home, 3) as (pilot, screen):
        await pilot.press("slash", *JSON_NAME)
        await wait_for_text(pilot, f"1 of {PAGE + 6} /{JSON_NAME}")
        assert list(screen.list.table.keys) == [JSON]
        await pilot.press("enter", "escape")
        await wait_for(pilot, lambda: len(screen.list.table.keys) > 1)
        assert screen.list.table.selected == JSON
