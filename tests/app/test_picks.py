"""Pick, don't type: what a prompt offers in the list below it."""

from __future__ import annotations

import pytest

from lcm_tui.kit.dialog import Prompt
from tests.app.support import (
    NARROW,
    at,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_refused,
)
from tests.app.test_context import open_sound_app, opened
from tests.app.test_conversation import open_conversation
from tests.app.test_history import changed
from tests.app.test_plan_screen import NODE
from tests.conftest import DatabaseFactory


@pytest.mark.long
async def test_a_budget_is_picked(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await opened(pilot, 1)
        await pilot.press("B")
        await wait_for_text(pilot, "128,000  as configured, set now")
        lines = shown_lines(pilot)
        at = next(place for place, line in enumerate(lines) if "128,000  as configured" in line)
        assert "What if the budget were" in lines[at - 2], "the field is on top"
        assert "4,000  a size to try" in lines[at + 1]
        await pilot.press("down", "down", "up", "enter")
        await wait_for_text(pilot, "what if: budget 4,000")
        await pilot.press("D")
        await wait_for_text(pilot, "as configured, 128,000 tokens")
        assert pilot.app.screen.prompt.list.keys[0].text == "128k"
        await pilot.press("escape")
        await pilot.press("B", "enter")
        await wait_for_text(pilot, " of 128,000 tokens")
        assert "what if" not in shown_lines(pilot)[0], "the first one is what an empty answer stands for"


@pytest.mark.long
async def test_what_is_typed_filters_or_is_taken_as_typed(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        await pilot.press("B", *"20")
        await wait_for_text(pilot, "20  as typed")
        lines = shown_lines(pilot)
        assert any("200,000  a size to try" in line for line in lines)
        assert not any("64,000  a size to try" in line for line in lines)
        await pilot.press("down", "enter")
        await wait_for_text(pilot, "what if: budget 200,000")
        await pilot.press("B", *"20k", "enter")
        await wait_for_text(pilot, "what if: budget 20,000")
        await pilot.press("B", *"config")
        await wait_for_text(pilot, "as configured")
        await pilot.press("enter")
        await wait_for_text(pilot, " of 128,000 tokens")
        await pilot.press("B", *"lots")
        await wait_for_text(pilot, "“lots” is not a number of tokens")
        assert not screen.query_one(Prompt).list.display
        await pilot.press("escape")
        assert not screen.asking


async def test_before_the_last_compaction_is_three_keys_away(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        await pilot.press("D", "enter")  # at once: enter waits for what can be picked
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "), "the comparison")
        await wait_for_text(
            pilot,
            "- before the compaction of 03-04 11:59 · 39 messages, 7,050 of 128,000 tokens",
            "! Some items are newer; what they replaced is not known.",
            "+ now · 22 messages, 4,430 of 128,000 tokens",
            "only in the first",
        )


@pytest.mark.long
async def test_what_a_context_can_be_compared_with(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        await pilot.press("D")
        await wait_for_text(
            pilot, "before the compaction of 03-04 11:59  5 summaries made", "under 200,000 tokens"
        )
        offered = [one.text for one in screen.prompt.list.keys]
        assert {"100k", "200k", "opened", "#3", "2026-03-04T11:59:23.000Z"} <= set(offered)
        await pilot.press(*"research")
        await wait_for_text(pilot, " conversation 3 ")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "), "the comparison")
        await wait_for_text(pilot, "1 with 3")


@pytest.mark.long
async def test_where_to_in_a_conversation_is_picked(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_conversation(pilot, 1)
        await pilot.press("J")
        await wait_for_text(
            pilot, "the first message  2026-03-02", "the compaction of 03-04 11:59  5 summaries made"
        )
        await pilot.press(*"first", "enter")
        await wait_for(pilot, lambda: screen.messages.selected == 1, "the first message")
        await pilot.press("J", *"11:59")
        await wait_for_text(pilot, "the compaction of 03-04 11:59")
        await pilot.press("enter")
        await wait_for(pilot, lambda: (screen.messages.selected or 0) > 300, "the message of then")


@pytest.mark.long
async def test_a_search_is_narrowed_to_what_is_picked(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("F", *"lease", "ctrl+t")
        await wait_for_text(pilot, " everything", " tool outputs", " in the context")
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: pilot.app.screen.narrowing.text == "tool", "tool outputs")
        await pilot.press("ctrl+t", *"research", "enter")
        await wait_for(pilot, lambda: pilot.app.screen.narrowing.text == "tool #3", "the conversation, too")


async def test_the_budget_of_a_compaction_is_picked(database_file: DatabaseFactory):
    async with open_sound_app(database_file("0.15.3"), size=NARROW) as pilot:
        await opened(pilot, 1)
        await pilot.press("C")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compact "), "compaction")
        await settled(pilot)
        await pilot.press("B")
        await wait_for_text(pilot, "128,000  as configured, set now")
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: pilot.app.screen.budget == 4_000, "the budget")


@pytest.mark.long
async def test_a_moment_of_the_past_is_picked_or_typed(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    await changed(path, (1, NODE))
    async with open_sound_app(path, size=NARROW) as pilot:
        screen = await opened(pilot, 1)
        await pilot.press("J")
        await wait_for_text(pilot, "as it was: a time", " before Dissolve summary ")
        titles = [one.title for one in screen.prompt.list.keys]
        assert titles[1] == "before the compaction of 03-04 11:59", "in the order of time, the newest first"
        assert "the present" not in titles, "which is what is shown"
        await pilot.press("enter")
        await wait_for_text(pilot, "as it was before 20", ": Dissolve ", "1 of ", " moments back")
        await pilot.press("J", *"11:59", "enter")
        await wait_for_text(pilot, "as it was before the compaction of 2026-03-04 11:59:24", "2 of ")
        await pilot.press("J", *"2026-03-03 10:00", "enter")
        await wait_for_text(pilot, "as it was at 2026-03-03 10:00")
        await pilot.press("J", *"yesterday", "enter")
        await wait_until_refused(pilot, "Pick a moment, or type a time (2026-03-02 10:00)")
        await pilot.press("escape", "J", *"2999-01-01", "enter")
        await wait_until_refused(pilot, "That time is still to come.")
        await pilot.press("escape", "J", *"op_nothing", "enter")
        await wait_until_refused(pilot, "No operation op_nothing in the history changed")
        await pilot.press("escape")
        assert "as it was at 2026-03-03 10:00" in shown(pilot), "what is shown stays"
        await pilot.press("J", "enter")
        await wait_for(pilot, lambda: screen.then is None and not screen.moving, "the present is the first")
