"""Transplant and merge from the list of conversations: a target, the preview, and where one stands after."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from lcm_tui.screens.preview import PlanScreen
from tests.app.support import (
    NARROW,
    at,
    open_app,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import context_of, dump
from tests.conftest import DatabaseFactory
from tests.databases import run, value

pytestmark = pytest.mark.usefixtures("no_offer")


async def on_conversation(pilot: Pilot[int], conversation_id: int):
    await settled(pilot)
    screen = pilot.app.screen
    assert at(screen, "Conversations")
    assert screen.list.table.select(conversation_id)
    return screen


async def choosing(pilot: Pilot[int], source: int, words: str = ""):
    """The list of targets, filtered."""
    await on_conversation(pilot, source)
    await pilot.press("t")
    await wait_for(pilot, lambda: at(pilot.app.screen, "Choose the target"))
    screen = pilot.app.screen
    assert at(screen, "Choose the target")
    await wait_for(pilot, lambda: bool(screen.list.table.keys))
    if words:
        await pilot.press("slash", *("space" if letter == " " else letter for letter in words), "enter")
    await settled(pilot)
    return screen


async def previewed(pilot: Pilot[int]) -> PlanScreen:
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
    await settled(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, PlanScreen)
    return screen


@pytest.mark.long
async def test_a_target_is_chosen_previewed_and_applied(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        targets = await choosing(pilot, 5, "ops-room active")
        assert targets.list.table.keys == [8]
        assert "Choose the target for 5" in shown(pilot)
        await pilot.press("enter")
        await previewed(pilot)
        await wait_for_text(pilot, "Transplant 5 → 8", "51 messages below", "skip duplicates: no")
        before = dump(path)
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await settled(pilot)
        assert dump(path) != before
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        assert screen.list.table.selected == 8
        await wait_until_said(pilot, "To undo it: u.")
    assert len(context_of(path, 8)) == 16


@pytest.mark.long
async def test_the_source_is_no_target_and_leaving_changes_nothing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = dump(path)
    async with open_app(path) as pilot:
        targets = await choosing(pilot, 5)
        assert sorted(key for key in targets.list.table.keys if isinstance(key, int)) == [1, 2, 3, 4, 6, 7, 8]
        (heading,) = (line for line in shown_lines(pilot) if "id conversation" in line)
        assert not any(column in heading for column in ("ctx tokens", "bytes"))
        assert targets.list.table.select(3)
        await pilot.press("enter")
        await previewed(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is targets)
        assert targets.list.table.selected == 3
        assert targets.selected_id() == "3"
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
    assert dump(path) == before


@pytest.mark.long
async def test_duplicates_are_refused_until_they_are_to_be_skipped(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    root = value(
        path, "SELECT summary_id FROM context_items WHERE conversation_id = 8 AND summary_id IS NOT NULL"
    )
    text = """UPDATE summaries SET content = (SELECT content FROM summaries AS s JOIN context_items AS c
        USING (summary_id) WHERE c.conversation_id = 5 ORDER BY c.ordinal LIMIT 1) WHERE summary_id = '{}'"""
    run(path, text.format(root))
    async with open_app(path) as pilot:
        targets = await choosing(pilot, 5)
        assert targets.list.table.select(8)
        await pilot.press("enter")
        screen = await previewed(pilot)
        await wait_for_text(pilot, "already, by text or messages")
        assert screen.why_not("apply")
        await pilot.press("1")
        await wait_for_text(pilot, "skip duplicates: yes", "1 summary is skipped")
        assert screen.why_not("apply") is None


@pytest.mark.long
async def test_a_split_session_is_merged_from_the_list(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5")
    async with open_app(path) as pilot:
        await on_conversation(pilot, 5)
        await pilot.press("V")
        await previewed(pilot)
        await wait_for_text(pilot, "Merge conversation 5 into 8", "61 messages and 6 summaries")
        await pilot.press("a")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        assert screen.list.table.selected == 8
    assert value(path, "SELECT count(*) FROM messages WHERE conversation_id = 8") == 101


async def test_what_may_have_been_a_reset_needs_a_word(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.8.2")) as pilot:
        await on_conversation(pilot, 8)
        await pilot.press("V")
        screen = await previewed(pilot)
        await wait_for_text(pilot, "it may have been reset")
        assert screen.why_not("apply")
        await pilot.press("1")
        await wait_for_text(pilot, "You assumed that a rollover")
        assert screen.why_not("apply") is None


async def test_a_session_that_only_the_disk_knows_has_nothing_to_copy(openclaw_home: Path):
    async with open_app(openclaw_home / "lcm.db", sessions=openclaw_home / "agents") as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        await wait_for(pilot, lambda: any(isinstance(key, str) for key in screen.list.table.keys))
        assert screen.list.table.select(next(key for key in screen.list.table.keys if isinstance(key, str)))
        for key in ("t", "V"):
            await pilot.press(key)
            await pilot.pause()
        assert pilot.app.screen is screen
        await wait_until_said(pilot, "this session is not in the database")
        assert any("i imports it" in text for text in said(pilot))
        assert screen.in_key_bar()[:2] == ["open", "backfill"], "what can be done with it comes first"


@pytest.mark.long
async def test_with_many_warnings_the_numbers_stay_on_a_small_screen(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.3.0"), size=NARROW) as pilot:
        targets = await choosing(pilot, 5)
        targets.list.table.select(1)
        await pilot.press("enter")
        await previewed(pilot)
        await wait_for_text(pilot, "which does not wait for a", "(+600), budget 128,000")
        await wait_for_text(pilot, " rows    context_items +3;", "[Ordinals 73]")


async def test_warnings_are_painted_when_their_pane_first_shows(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=(60, 10)) as pilot:
        targets = await choosing(pilot, 1)
        targets.list.table.select(4)
        await pilot.press("enter")
        screen = await previewed(pilot)
        await wait_for_text(pilot, "! 18 raw messages")
        await pilot.press("tab")
        await settled(pilot)
        # What was painted, not what would be now: reading the screen here draws it again.
        painted = [strip.text for _, (_, strip) in sorted(screen.view.warnings._painted.items())]
        assert any(line.startswith(" ! ") for line in painted), painted
