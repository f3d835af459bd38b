"""The screen of previous contexts, on databases that the real engine wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lcm_tui.screens.previous import PreviousScreen
from tests.app.support import (
    NARROW,
    WIDE,
    at,
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

#: A leaf of conversation 1 made by a later pass of a sweep, and the leaf of the pass before it.
IN_SWEEP, PASS_BEFORE = "sum_9b0d9711f58502c7", "sum_afbaa0d9045b3dd1"
#: The first leaf of a sweep: given nothing, unless it was a pass of its own.
SWEEP_START = "sum_0cd3967375db5c86"
#: Its pass before made a truncation; the sound one before that would serve a rewrite.
AFTER_BROKEN, BROKEN, SOUND = "sum_df412986c06c25a8", "sum_499ea0821f77ace8", "sum_5454487b105f1bda"
D2 = "sum_bb692ab9b90b6a49"


def content_of(path: Path, summary_id: str) -> str:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        row = database.execute("SELECT content FROM summaries WHERE summary_id = ?", (summary_id,)).fetchone()
    return str(row[0])


@asynccontextmanager
async def previous_of(
    path: Path, summary_id: str, *, size: tuple[int, int] = WIDE
) -> AsyncIterator[tuple[Pilot[int], PreviousScreen]]:
    async with open_app(path, size=size) as pilot:
        screen = await go_to(pilot, PreviousScreen(conversation(pilot, 1), summary_id))
        await wait_for(pilot, lambda: screen.list.table.keys or screen.text.document, "the previous context")
        yield pilot, screen


async def test_a_leaf_of_a_sweep_was_given_the_leaf_of_the_pass_before(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with previous_of(path, IN_SWEEP) as (pilot, screen):
        await wait_for_text(pilot, IN_SWEEP, "as given (reconstructed): 1 summary, 246 tokens")
        rows = {line.split()[1]: line for line in shown_lines(pilot) if line.startswith(("given", "–"))}
        assert "made by the previous pass" in rows.pop(PASS_BEFORE)
        assert "2026-03-03 20:25→20:47" in rows["sum_76fb6da21a83c92e"]
        assert all("not from the previous pass" in row for row in rows.values())
        assert len(rows) >= 4
        shown_text = " ".join(screen.text.text.split())  # its lines are wrapped
        for line in content_of(path, PASS_BEFORE).splitlines():
            assert " ".join(line.split()) in shown_text


@pytest.mark.long
async def test_a_summary_without_text_is_not_counted_and_an_alternative_is_no_fact(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE summaries SET content = '' WHERE summary_id = ?", (PASS_BEFORE,))
    async with previous_of(path, IN_SWEEP) as (pilot, _):
        await wait_for_text(pilot, "as given (reconstructed): nothing (1 summary without text)")
        await wait_for_text(pilot, "No text: the model was given only what says nothing.")
        await pilot.press("w", "w")
        await wait_for_text(pilot, "The text that the model may have been given")


@pytest.mark.long
async def test_the_selected_summary_is_shown_whole_and_its_id_is_copied(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with previous_of(path, IN_SWEEP, size=NARROW) as (pilot, screen):
        await pilot.press("j", "j")
        await wait_for_text(pilot, "Skipped: not from the previous pass", "claude-haiku-4-5")
        selected = screen.list.table.selected
        assert selected == "sum_f7d606aefc7c5da3"
        assert content_of(path, selected).splitlines()[0] in shown(pilot)
        await pilot.press("y", "y")
        await wait_for(pilot, lambda: pilot.app.clipboard)
        assert pilot.app.clipboard == selected


@pytest.mark.long
async def test_w_shows_what_a_rewrite_would_be_given_without_broken_summaries(
    database_file: DatabaseFactory,
):
    async with previous_of(database_file("0.15.3"), AFTER_BROKEN) as (pilot, screen):
        await wait_for_text(pilot, "as given (reconstructed): 1 summary")
        broken = next(line for line in shown_lines(pilot) if BROKEN in line and line.startswith("given"))
        assert "broken (truncated)" in broken
        await pilot.press("w")
        await wait_for_text(pilot, "for a rewrite: 1 summary")
        assert any(SOUND in line and line.startswith("taken") for line in shown_lines(pilot))
        assert any(
            BROKEN in line and "is broken (truncated)" in line and line.startswith("–")
            for line in shown_lines(pilot)
        )
        await pilot.press("w")
        await wait_for_text(pilot, "possible alternative (reconstructed)")
        for _ in range(len(screen.data.views) - 2):
            await pilot.press("w")
        await wait_for_text(pilot, "as given (reconstructed): 1 summary")


async def test_nothing_was_given_to_the_first_pass_of_a_sweep_and_the_alternative_is_named(
    database_file: DatabaseFactory,
):
    async with previous_of(database_file("0.15.3"), SWEEP_START, size=NARROW) as (pilot, _):
        await wait_for_text(pilot, "as given (reconstructed): nothing", "first pass of a sweep: none")
        await wait_for_text(pilot, "the model was given no previous context", "If it was a single leaf pass")


async def test_a_condensed_summary_has_none_and_says_why(database_file: DatabaseFactory):
    async with previous_of(database_file("0.15.3"), D2, size=NARROW) as (pilot, _):
        await wait_for_text(
            pilot, "A condensed summary is made without previous context", "No previous context."
        )
        await pilot.press("w")
        await wait_for(pilot, lambda: said(pilot), "the reason why not")
        await wait_for(pilot, lambda: said(pilot) == ["There is no previous context here."])


@pytest.mark.long
async def test_searching_marks_and_walks_through_the_matches(database_file: DatabaseFactory):
    async with previous_of(database_file("0.15.3"), IN_SWEEP, size=(80, 16)) as (pilot, screen):
        await pilot.press("slash", *"DECISION", "enter")
        await wait_for(pilot, lambda: screen.text.scroll_offset.y > 0)
        first = screen.text.scroll_offset.y
        await pilot.press("n")
        assert screen.text.scroll_offset.y > first
        await pilot.press("N")
        assert screen.text.scroll_offset.y == first
        await pilot.press("slash", *"no such word", "enter")
        await wait_for(pilot, lambda: said(pilot))
        assert "no such word" in said(pilot)[0]


@pytest.mark.long
async def test_keys_lead_into_the_text_to_another_summary_and_back(database_file: DatabaseFactory):
    async with previous_of(database_file("0.15.3"), IN_SWEEP) as (pilot, screen):
        await pilot.press("enter")
        await wait_for(pilot, lambda: screen.text.has_focus)
        await pilot.press("escape")
        await wait_for(pilot, lambda: screen.list.table.has_focus)
        assert pilot.app.screen is screen
        await pilot.press("p")
        await wait_for(pilot, lambda: said(pilot), "why the whole text has no previous context")
        await pilot.press("j", "p")
        await wait_for(pilot, lambda: pilot.app.screen is not screen)
        await wait_for_text(pilot, f"Previous context of {PASS_BEFORE}")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        assert screen.list.table.selected == PASS_BEFORE


@pytest.mark.long
async def test_s_goes_to_the_selected_summary_in_the_tree(database_file: DatabaseFactory):
    async with previous_of(database_file("0.15.3"), IN_SWEEP) as (pilot, screen):
        await pilot.press("j", "s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await wait_for(pilot, lambda: pilot.app.screen.selected_id() == PASS_BEFORE, "the way to the summary")
        await pilot.press("p")
        await wait_for_text(pilot, f"Previous context of {PASS_BEFORE}")
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)


@pytest.mark.long
async def test_a_summary_deleted_by_the_host_stays_readable_and_is_said_to_be_gone(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    async with previous_of(path, IN_SWEEP) as (pilot, screen):
        await pilot.press("j")
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(
                "UPDATE summaries SET content = 'written anew' WHERE summary_id = ?", (PASS_BEFORE,)
            )
        await wait_for_text(pilot, "anew")
        assert screen.list.table.selected == PASS_BEFORE
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DELETE FROM summaries WHERE summary_id = ?", (IN_SWEEP,))
        await wait_for_text(pilot, "this summary is no longer in the database")
        assert "anew" in shown(pilot)
        assert not said(pilot)


@pytest.mark.long
async def test_what_the_first_version_did_not_record_is_said_so(database_file: DatabaseFactory):
    async with previous_of(database_file("0.1.2"), "sum_2b83f72988f3e63d") as (pilot, screen):
        await wait_for_text(pilot, "as given (reconstructed): 2 summaries")
        await pilot.press("j")
        await wait_for(
            pilot, lambda: "model not recorded by this version" in " ".join(screen.text.text.split())
        )


async def test_the_summary_of_another_database_is_not_there(database_file: DatabaseFactory):
    async with previous_of(database_file("0.15.3"), "sum_0000000000000000") as (pilot, _):
        await wait_for_text(pilot, "This summary is not in the database")
