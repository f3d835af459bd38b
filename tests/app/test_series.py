"""`[` and `]` where a screen shows one of a series, and `m`, the other view of the same."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from textual.pilot import Pilot

from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.previous import PreviousScreen
from tests.app.screens import open_screen, walk_to
from tests.app.snapshots import keep
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    conversation,
    go_to,
    open_app,
    said,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.app.test_typed_ahead import typed
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory

BACK, ON = "left_square_bracket", "right_square_bracket"


async def stepped(pilot: Pilot[int], *keys: str) -> CommandScreen:
    """The screen that the keys have put in the place of the one in front."""
    before, deep = pilot.app.screen, len(pilot.app.screen_stack)
    await pilot.press(*keys)
    await wait_for(pilot, lambda: pilot.app.screen is not before, f"another screen after {keys}")
    await settled(pilot)
    assert len(pilot.app.screen_stack) == deep
    assert isinstance(pilot.app.screen, CommandScreen)
    return pilot.app.screen


@pytest.mark.long
async def test_operations_are_stepped_through_in_time_and_stay_a_diff(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    for words in (("dissolve", 1, "--summary", "sum_4c4bd5"), ("history", "undo", "last")):
        done = await asyncio.to_thread(command, *words, "--db", path, "--apply", "--yes")
        assert done.code == 0
    async with open_app(path, size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("U")
        await wait_for_text(pilot, "Undo", "Dissolve")
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Operation "))
        await settled(pilot)
        await wait_for_text(pilot, " [ ] Operation ")
        await pilot.press(ON)
        await wait_until_said(pilot, "This is the newest operation.")
        newest = pilot.app.screen
        assert at(newest, "Operation ")
        await pilot.press("m")
        await wait_for_text(pilot, "== summaries sum_4c4bd5292abfa225", "[Diff]", "m Ordinals")
        older = await stepped(pilot, BACK)
        await wait_for_text(pilot, "- == summaries sum_4c4bd5292abfa225", "[Diff]")
        assert older.where() != newest.where()
        await pilot.press(BACK)
        await wait_until_said(pilot, "This is the oldest operation.")
        await pilot.press("m")
        await wait_for_text(pilot, "[Ordinals", "m Diff")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen.selected_id() == older._operation.id)  # type: ignore[attr-defined]


@pytest.mark.long
async def test_items_of_a_context_are_stepped_through_as_sent(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen: Any = await open_screen(pilot, "ItemScreen")
        assert at(screen, "Context ")
        await pilot.press("m")
        await wait_for_text(pilot, "as the model receives it")
        first = screen.item
        screen = await stepped(pilot, ON)
        assert at(screen, "Context ")
        assert screen.item != first
        await wait_for_text(pilot, "as the model receives it")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen.selected_id() == str(screen.item))
        await pilot.press("G", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        await pilot.press(ON)
        await wait_until_said(pilot, "This is the last item.")


async def test_conversations_and_what_is_opened_from_elsewhere(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        home = pilot.app.screen
        assert at(home, "Conversations")
        first = await walk_to(pilot, "ConversationScreen")
        place = home.list.table.cursor
        following: Any = await stepped(pilot, ON)
        assert at(following, "Conversation ")
        assert following.conversation.conversation_id == home.list.table.keys[place + 1]
        assert following.conversation != first.conversation  # type: ignore[attr-defined]
        # What is no part of a list has no such keys, and says so as for any other key.
        alone = await go_to(pilot, ConversationScreen(conversation(pilot, 1)))
        await settled(pilot)
        assert not {"hunk-next", "hunk-previous"} & {*alone.commands, *alone.in_key_bar()}
        await pilot.press(ON)
        await wait_until_said(pilot, "] (Next change) is not a key here; : lists all.")


@pytest.mark.long
async def test_hits_and_findings_lead_on_to_the_next_one(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        search: Any = await walk_to(pilot, "SearchScreen")
        assert at(search, "Search")
        await wait_for(pilot, lambda: not search._searching and search.hits.hit is not None)
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not search)
        await settled(pilot)
        shown_first = search.hits.hit
        await stepped(pilot, ON)
        assert search.hits.hit != shown_first
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await settled(pilot)
        health: Any = await walk_to(pilot, "HealthScreen")
        assert at(health, "Health of")
        await wait_for(pilot, lambda: not health.examiner.running)
        await pilot.press("tab", ON)  # from the text, too
        assert health.text.has_focus
        assert health.list.finding_key is None, "the findings of a check are one line"
        await pilot.press("escape", "enter", "down", "down")
        finding = str(health.list.finding_key)
        assert finding.startswith("C3:")
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen is not health)
        await settled(pilot)
        assert isinstance(await stepped(pilot, ON), CommandScreen)
        assert health.list.finding_key not in (None, finding)
        for before in ("C3:", "C3:", "C1:"):  # which is folded
            await stepped(pilot, BACK)
            assert str(health.list.finding_key).startswith(before)


@pytest.mark.long
async def test_a_snapshot_leads_to_the_older_one(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    newest, older = await keep(path, 1, [6_000, 3_500])
    async with open_app(path, size=NARROW) as pilot:
        await walk_to(pilot, "SnapshotScreen")
        await wait_for_text(pilot, "under 3,500 tokens")
        screen = await stepped(pilot, BACK)
        assert at(screen, "Snapshot ")
        assert {newest, older} >= {screen.one.id}
        await wait_for_text(pilot, "under 6,000 tokens")
        await pilot.press(BACK)
        await wait_until_said(pilot, "This is the oldest snapshot.")


@pytest.mark.long
async def test_previous_contexts_leaf_by_leaf_as_text_and_compared(database_file: DatabaseFactory):
    after_broken = "sum_df412986c06c25a8"
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await go_to(pilot, PreviousScreen(conversation(pilot, 1), after_broken))
        await settled(pilot)
        await pilot.press("w", "m")
        await wait_for_text(pilot, "For a rewrite", "m As list")
        assert not screen.list.table.display or not screen.list.table.region.height
        following: Any = await stepped(pilot, ON)
        assert at(following, "Previous context")
        await wait_for_text(pilot, "m As list")
        assert following.place == 1
        screen = await stepped(pilot, BACK)  # type: ignore[assignment]
        assert screen.selected_id() == after_broken
        await pilot.press("escape")  # takes back the other view first
        await wait_for_text(pilot, "m As text")
        await pilot.press("D")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "))
        await wait_for_text(pilot, "- as given (reconstructed)", "+ for a rewrite, now")
        await settled(pilot)
        compared: Any = pilot.app.screen
        beside = compared.table.side_by_side
        await pilot.press("m")
        await wait_for(pilot, lambda: compared.table.side_by_side is not beside, "the other layout")
        await settled(pilot)
        assert "both are the same" not in shown(pilot)
        assert not said(pilot)


async def test_the_first_leaf_and_what_is_no_leaf(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await go_to(pilot, PreviousScreen(conversation(pilot, 1), "sum_bb692ab9b90b6a49"))
        await wait_for_text(pilot, "only leaves are given")
        await pilot.press("m")
        await wait_until_said(pilot, "there is no previous context here")
        assert at(await stepped(pilot, BACK), "Previous context")
        with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
            wanted = "SELECT summary_id FROM summaries WHERE conversation_id = 1 AND kind = 'leaf' LIMIT 1"
            [(first,)] = database.execute(wanted)
        await go_to(pilot, PreviousScreen(conversation(pilot, 1), first))
        await settled(pilot)
        await pilot.press(BACK)
        await wait_until_said(pilot, "This is the first leaf of the conversation.")


@pytest.mark.long
async def test_a_burst_of_steps_ends_where_the_presses_one_by_one_would(database_file: DatabaseFactory):
    """Presses behind an end count from there; the end is said."""
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        home = pilot.app.screen
        assert at(home, "Conversations")
        await walk_to(pilot, "ConversationScreen")
        rows, begins = home.list.table.keys, home.list.table.cursor
        assert 3 < len(rows) < 16
        typed(pilot, *[ON] * 16, *[BACK] * 2)
        await wait_for(pilot, lambda: home.list.table.cursor == len(rows) - 3 and pilot.app._typed.resting)
        assert begins != len(rows) - 3
        await wait_for(pilot, lambda: any(one.startswith("This is the last ") for one in said(pilot)))
        await wait_for(pilot, lambda: shows(pilot) == rows[-3], "the conversation two before the last")
        typed(pilot, *[ON] * 16, *[BACK] * 20)
        await wait_for(pilot, lambda: shows(pilot) == rows[0], "the first conversation")
        await wait_for(pilot, lambda: any(one.startswith("This is the first ") for one in said(pilot)))


@pytest.mark.long
async def test_a_burst_of_steps_through_previous_contexts(database_file: DatabaseFactory):
    """Each press counts, while screens are still being read."""
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await go_to(pilot, PreviousScreen(conversation(pilot, 1), "sum_df412986c06c25a8"))
        await settled(pilot)
        deep = len(pilot.app.screen_stack)
        typed(pilot, *[ON] * 6, *[BACK] * 6)
        await wait_for(pilot, lambda: pilot.app._typed.resting, "all of them")
        await settled(pilot)
        assert pilot.app.screen is not screen
        assert pilot.app.screen.where() == screen.where()  # type: ignore[attr-defined]
        typed(pilot, *[ON] * 2, *[BACK] * 40)
        await wait_until_said(pilot, "This is the first leaf of the conversation.")
        await wait_for(pilot, lambda: pilot.app._typed.resting, "all of them")
        assert len(pilot.app.screen_stack) == deep


def shows(pilot: Pilot[int]) -> object:
    """The conversation whose messages are in front."""
    front = pilot.app.screen
    return front.conversation.conversation_id if at(front, "Conversation ") else None
