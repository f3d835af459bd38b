"""Importing a session from its screen: previewed, made with its files, refused when nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_host.sessions import list_sessions

from lcm_tui.screens.disk_session import DiskSessionScreen
from lcm_tui.screens.preview import PlanScreen
from tests.app.support import at, go_to, open_app, wait_for, wait_for_text
from tests.change.support import dump, rows_of
from tests.databases import value

pytestmark = pytest.mark.usefixtures("no_offer")


ODD = "ce98a067-e9e5-403f-a6d5-7ded87bb123a"


@pytest.mark.long
async def test_a_session_is_previewed_and_imported_with_its_files(openclaw_home: Path) -> None:
    path, files = openclaw_home / "lcm.db", openclaw_home / "lcm-files"
    before = dump(path)
    disk = next(one for one in list_sessions(openclaw_home / "agents").sessions if one.session_id == ODD)
    async with open_app(path, state_dir=openclaw_home) as pilot:
        screen = await go_to(pilot, DiskSessionScreen(disk))
        await wait_for(pilot, lambda: screen.messages.keys)
        await pilot.press("i")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        await wait_for_text(pilot, "Import 67 messages", "1 line of the file cannot be read")
        assert dump(path) == before
        assert not (files / "9").exists()
        await pilot.press("a")
        await wait_for(pilot, lambda: value(path, "SELECT count(*) FROM messages WHERE conversation_id = 9"))
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversation 9"))
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await go_to(pilot, DiskSessionScreen(disk))
        await pilot.press("i")
        await wait_for_text(pilot, "has all of it")
        assert at(pilot.app.screen, "Import session")
    stored = rows_of(path, "SELECT storage_uri FROM large_files WHERE conversation_id = 9")
    assert {Path(str(row["storage_uri"])) for row in stored} == set((files / "9").iterdir())


@pytest.mark.long
async def test_the_list_imports_what_only_the_disk_knows(openclaw_home: Path) -> None:
    path = openclaw_home / "lcm.db"
    async with open_app(path, state_dir=openclaw_home) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        await wait_for(pilot, lambda: any(ODD in str(key) for key in screen.list.table.keys))
        assert screen.list.table.select(1)
        await pilot.press("i")
        await wait_for_text(pilot, "Import session", "preview: not applied yet")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert screen.list.session is not None, "the first that is only on the disk"
        screen.list.table.select(next(key for key in screen.list.table.keys if ODD in str(key)))
        assert screen.why_not("backfill") is None
        await pilot.press("i")
        await wait_for_text(pilot, "Import 67 messages")
        await pilot.press("escape", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Session "))
        await pilot.press("U")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"))
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert ODD in str(screen.list.table.selected)
        await pilot.press("i")
        await wait_for_text(pilot, "Import 67 messages")
        await pilot.press("a")
        await wait_for(pilot, lambda: screen.list.table.selected == 9, "the conversation it became")
