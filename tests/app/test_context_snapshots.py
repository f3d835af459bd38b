"""The snapshots of a context on the screen: listed, shown as they were, compared."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.app.screens import walk_to
from tests.app.snapshots import keep
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    open_app,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_last_said,
    wait_until_said,
)
from tests.app.test_context import changed, open_sound_app
from tests.app.test_context_assembled import assembled
from tests.conftest import DatabaseFactory


async def listed(pilot: Pilot[int], number: int = 1):
    """The snapshots of a conversation, read."""
    await settled(pilot)
    screen = await walk_to(pilot, "SnapshotsScreen", of=number)
    await settled(pilot)
    return screen


async def compared(pilot: Pilot[int]):
    """The comparison that a key has opened."""
    await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "))
    screen = pilot.app.screen
    assert at(screen, "Compare ")
    await wait_for(pilot, lambda: screen._data is not None)
    await settled(pilot)
    return screen


@pytest.mark.long
async def test_where_no_engine_of_ours_ran_the_list_says_why_it_is_empty(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await listed(pilot)
        await wait_for_text(pilot, "No snapshots of this context.", "lcm_core's Python engine save snapshots")
        assert screen.why_not("open") == screen.why_not("compare") == "no snapshot is selected"


@pytest.mark.long
async def test_they_are_listed_and_one_is_shown_as_it_was(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, _ = await keep(path, 1, [6_000, 3_500])
    with changed(path) as connection:
        connection.execute("UPDATE summaries SET created_at = 'of old'")
    async with open_sound_app(path, size=NARROW) as pilot:
        await assembled(pilot, 1)
        await pilot.press("left_square_bracket")
        await wait_until_said(pilot, "No change by lcm-tui, and no compaction. @ lists 2 contexts as sent.")
        await pilot.press("at")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Snapshots "))
        await wait_for_text(pilot, newest)
        first, second = shown_lines(pilot)[2:4]
        assert first.split()[2:5] == ["3,500", "2,813", "17"]
        assert second.split()[2:5] == ["6,000", "4,430", "22"]
        assert "5 items, 4 of them by the hard limit" in shown(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "This is exactly what was sent: the hash is the same.", "m848")
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        assert "message  1 of 17" in shown(pilot)
        await pilot.press("escape", "slash", *"김민준", "enter")
        screen = pilot.app.screen
        assert at(screen, "Snapshot ")
        await wait_for(pilot, lambda: screen.selected_id() == "859")


@pytest.mark.long
async def test_one_that_is_kept_meanwhile_comes_on_top_and_the_cursor_stays(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, _ = await keep(path, 1, [6_000, 3_500])
    async with open_sound_app(path, size=NARROW) as pilot:
        screen = await listed(pilot)
        assert screen.selected_id() == newest
        [later] = await keep(path, 1, [5_000])
        await wait_for_text(pilot, later)
        assert screen.list.table.keys[0] == later
        assert screen.selected_id() == newest


@pytest.mark.long
async def test_a_damaged_one_is_said_and_the_others_stay(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, damaged, oldest = await keep(path, 1, [6_000, 5_000, 3_500])
    with changed(path) as connection:
        connection.execute("UPDATE lcm_tui_assemblies SET items = x'00' WHERE id = ?", (damaged,))
    async with open_app(path, size=NARROW) as pilot:
        screen = await listed(pilot)
        await wait_for_text(pilot, newest, "damaged", oldest)
        assert list(screen.list.table.keys) == [newest, damaged, oldest]
        await pilot.press("j")
        await wait_for_text(pilot, f"Snapshot {damaged} of conversation 1 is damaged")
        for command in ("open", "mark", "compare"):
            assert screen.why_not(command) == "this snapshot is damaged"
        await pilot.press("k", "space", "j", "j", "space", "k")
        assert screen.why_not("compare") is None, "the two that are marked are sound"
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Snapshot "))


@pytest.mark.long
async def test_what_does_not_stand_any_more_is_told(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    await keep(path, 1, [6_000])
    with changed(path) as connection:
        connection.execute("DELETE FROM summaries WHERE summary_id = 'sum_07742015d971b59d'")
    async with open_sound_app(path, size=WIDE) as pilot:
        await listed(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "This is only part of what was sent: 1 row")
        [line] = [line for line in shown_lines(pilot) if "✗" in line]
        assert line.split()[:4] == ["✗", "2", "?", "sum_07742015d971b59d"]
        await pilot.press("j", "j", "j")
        await wait_for_text(pilot, "Its row was deleted from the database")
        await pilot.press("D")
        await compared(pilot)
        assert "1 missing" in shown_lines(pilot)[1]


@pytest.mark.long
async def test_a_snapshot_against_now_and_two_against_each_other(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, oldest = await keep(path, 1, [6_000, 3_500])
    with changed(path) as connection:
        connection.execute("UPDATE summaries SET content = 'short' WHERE summary_id = 'sum_4c4bd5292abfa225'")
    async with open_sound_app(path, size=NARROW) as pilot:
        screen = await listed(pilot)
        await pilot.press("j", "D")
        await compared(pilot)
        lines = shown_lines(pilot)
        assert lines[1].startswith(f" - {oldest} · 22 messages, 4,430 of 6,000 tokens")
        assert lines[2].startswith(" + now · 22 messages, 4,147 of 6,000 tokens")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("space", "k", "space", "D")
        await compared(pilot)
        lines = shown_lines(pilot)
        assert lines[1].startswith(f" - {oldest}")
        assert lines[2].startswith(f" + {newest}")
        assert "messages: 5 only in the first" in lines[3]


@pytest.mark.long
async def test_the_context_is_compared_with_a_snapshot_by_its_id(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, _ = await keep(path, 1, [6_000, 3_500])
    async with open_app(path, size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        await pilot.press("D", *newest[:14], "enter")
        await compared(pilot)
        assert shown_lines(pilot)[1].startswith(f" - {newest} · 17 messages, 2,813 of 3,500 tokens")
        assert shown_lines(pilot)[2].startswith(" + now · 22 messages, 4,430 of 128,000 tokens")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("D", *"asm_none", "enter")
        await wait_until_said(pilot, "There is no snapshot asm_none")


@pytest.mark.long
async def test_what_a_prompt_keeps_and_what_it_drops(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "4")
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        await pilot.press("Q", *"lease table", "enter")
        await wait_for_text(pilot, "prompt “lease table”: no effect, everything fits the budget")
        await pilot.press("B", *"2k", "enter")
        await wait_for_text(pilot, "prompt “lease table”: kept 1 for it (*), dropped 8")
        [line] = [line for line in shown_lines(pilot) if line.startswith("*")]
        assert line.split()[1:4] == ["13", "assistant", "m857"]
        await pilot.press("percent_sign")
        await wait_for_text(pilot, "kept 3 for it (*), dropped 8 · without the hard limit", "8 not sent")
        await pilot.press("D", "enter")
        await compared(pilot)
        assert shown_lines(pilot)[1].startswith(" - no prompt · 15 messages, 2,643 of 2,000 tokens")
        assert shown_lines(pilot)[2].startswith(" + now · “lease table” · 14 messages, 2,572 of 2,000 tokens")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("percent_sign", "Q", "backspace", "enter")
        await wait_for_text(pilot, "cut: budget", "14 not sent")
        assert "prompt" not in shown(pilot).casefold().replace("q test prompt", "")
        assert screen.head.size.height == 5  # with the reason of the selected item


@pytest.mark.long
async def test_beside_the_list_stands_how_much_of_it_the_prompt_names(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "4")
    async with open_sound_app(database_file("0.15.3"), size=WIDE, budget=2_000) as pilot:
        screen = await assembled(pilot, 1)
        await pilot.press("Q", *"lease table", "enter")
        await wait_for(pilot, lambda: "not sent prompt: the prompt names" in screen.text.text)
        assert "not kept" in screen.text.text


@pytest.mark.long
async def test_rules_that_cut_nothing_say_so(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.1.2"), size=NARROW) as pilot:
        screen = await assembled(pilot, 1)
        await pilot.press("percent_sign")
        await wait_until_last_said(pilot, "an engine with these rules (0.1) has no hard limit")
        await pilot.press("B", *"1500", "enter", "Q", *"lease", "enter")
        await wait_for_text(pilot, "no effect, it names no word, or the rules 0.1 choose by none")
        assert at(pilot.app.screen, "Context ")
        assert screen.assembly.prompt == "lease"
