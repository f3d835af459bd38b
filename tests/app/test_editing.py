"""Editing the present text of a summary where it is seen: review with its verdict, preview, commit, undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from tests.app.support import (
    NARROW,
    at,
    dag_on,
    open_app,
    resize,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import run, value

pytestmark = pytest.mark.usefixtures("no_offer")
SUMMARY = "sum_a8e198f2d073c00f"
TEXT = f"SELECT content FROM summaries WHERE summary_id = '{SUMMARY}'"


async def test_a_summary_is_edited_by_hand_in_four_keys_besides_the_typing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = value(path, TEXT)
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}")
        await resize(pilot, 30, 8)
        assert " ^s Keep " in shown(pilot).splitlines()[-1]
        await resize(pilot, *NARROW)
        await pilot.press(*"Zebra. ", "ctrl+s")
        await wait_for_text(pilot, f"Review {SUMMARY}", "+▌Zebra.", "Like the present text: keeps", "by hand")
        assert "target" not in shown(pilot)
        assert value(path, TEXT) == before
        await settled(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "a Apply", "[Diff]", "+▌Zebra.")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: value(path, TEXT) == f"Zebra. {before}")
        await settled(pilot)
        assert at(pilot.app.screen, "Summary DAG")


async def test_what_is_written_while_the_editor_is_open_is_not_overwritten_unseen(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    before = value(path, TEXT)
    theirs = f"UPDATE summaries SET content = content || ' theirs' WHERE summary_id = '{SUMMARY}'"
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}")
        run(path, theirs)
        await pilot.press(*"Zebra. ", "ctrl+s")
        await wait_for_text(pilot, f"Review {SUMMARY}", "The summary changed since this draft was made")
        await settled(pilot)
        await pilot.press("a")
        await wait_until_said(pilot, "The database changed: e, then ctrl+s keeps yours")
        assert value(path, TEXT) == f"{before} theirs"
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}", "Zebra.")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, f"Review {SUMMARY}", "draft 2 of 2")
        await settled(pilot)
        await pilot.press("a")
        await wait_for_text(pilot, "a Apply", "[Diff]", "-▌")
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: value(path, TEXT) == f"Zebra. {before}")


@pytest.mark.long
async def test_a_draft_that_waits_is_offered_by_e_and_by_r_where_its_summary_is(
    database_copy: DatabaseFactory,
):
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}")
        await pilot.press(*"Zebra. ", "ctrl+s")
        await wait_for_text(pilot, f"Review {SUMMARY}", "+▌Zebra.")
        await settled(pilot)
        for ways in (("e", "edit the stored text"), ("R", "continue with 1 draft that waits")):
            await pilot.press("escape")
            await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
            await settled(pilot)
            await pilot.press(ways[0])
            await wait_for_text(pilot, ways[1])
            await pilot.press("enter")
            await wait_for_text(pilot, f"Review {SUMMARY}", "+▌Zebra.")
            await settled(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await pilot.press("e")
        await wait_for_text(pilot, f"A draft of {SUMMARY} waits for review")
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}")
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await settled(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
        await settled(pilot)
        await pilot.press("home", "c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context"))
        await settled(pilot)
        await pilot.press("R")
        await wait_for_text(pilot, "Repair summaries", "only conversation ")
        assert "continue with" not in shown(pilot), "the draft is of another conversation"


@pytest.mark.long
async def test_what_was_not_changed_is_not_reviewed(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("e")
        await wait_for_text(pilot, f"Edit {SUMMARY}")
        await pilot.press("ctrl+s")
        await wait_until_said(pilot, "nothing to review")
        await pilot.press("colon", *"edit")
        await wait_for_text(pilot, "Edit (e)")


async def walk_to_summary(pilot: Pilot[int], where: str) -> None:
    """Select a summary in a list that the keys *where* lead to, of the damaged database."""
    await settled(pilot)
    for key in where.split():
        await pilot.press(key)
        await settled(pilot)
    if where == "H":
        await wait_for_text(pilot, "C4")
        await pilot.press("slash", *"C4", "enter", "down")
    if where == "F":
        await pilot.press(*"condensed memory")
        await settled(pilot)
        await pilot.press("tab")
    await settled(pilot)


@pytest.mark.cases(1)
@pytest.mark.parametrize("where", ["c", "c enter", "H", "F"])
async def test_a_summary_is_edited_wherever_it_is_listed(where: str, database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged"), size=NARROW) as pilot:
        await walk_to_summary(pilot, where)
        await pilot.press("e")
        await wait_for_text(pilot, "Edit sum_")
        await pilot.press(*"Zebra. ", "ctrl+s")
        await wait_for_text(pilot, "Review sum_", "+▌Zebra.")


@pytest.mark.long
async def test_in_a_review_all_changes_are_skipped_and_included(database_copy: DatabaseFactory):
    path: Path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("r")
        await wait_for_text(pilot, f"Review {SUMMARY}", "all included")
        await pilot.press("-")
        await wait_for_text(pilot, "0 included")
        await pilot.press("+")
        await wait_for_text(pilot, "all included")


@pytest.mark.long
async def test_in_a_review_the_present_text_is_edited_once_all_changes_are_skipped(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    present = value(path, TEXT)
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await dag_on(pilot, SUMMARY)
        await pilot.press("r")
        await wait_for_text(pilot, f"Review {SUMMARY}", "all included")
        await settled(pilot)
        await pilot.press("e")
        await wait_for_text(pilot, "^s Keep")
        assert pilot.app.screen.query_one(TextArea).text not in ("", present), "the draft"
        await pilot.press("escape")
        await wait_for_text(pilot, "all included")
        await pilot.press("-")
        await wait_for_text(pilot, "0 included")
        await pilot.press("e")
        await wait_for_text(pilot, "^s Keep")
        assert pilot.app.screen.query_one(TextArea).text == present
        await pilot.press(*"Zebra. ", "ctrl+s")
        await wait_for_text(pilot, f"Review {SUMMARY}", "+▌Zebra.", "sentences -1 +2", "by hand")
