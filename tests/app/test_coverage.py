"""The coverage map over the tree: each leads the other, folding, moving, zooming, where blocks lead to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database
from lcm_core.engine.coverage import State
from lcm_core.engine.rules import TailRules
from lcm_core.store.coverage import read_coverage
from textual.pilot import Pilot

from lcm_tui.kit.session import read_looks, remembered_path
from lcm_tui.screens.dag import DagScreen
from lcm_tui.screens.preview import PlanScreen
from lcm_tui.tables import coverage as views
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    conversation,
    go_to,
    open_app,
    resize,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_last_said,
)
from tests.app.test_history import changed
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database, run
from tests.support import sampled

GUTTER = 12
#: High enough for the map to be there from the start.
HIGH = (80, 40)

#: Conversation 1 of 0.15.3: the newest root, a source of another root, and a leaf below it.
NEWEST, D1, LEAF = "sum_bb692ab9b90b6a49", "sum_18ef3ddbebbf8c2e", "sum_afbaa0d9045b3dd1"


@asynccontextmanager
async def map_of(
    path: Path, number: int = 1, *, select: str | None = None, size: tuple[int, int] = HIGH
) -> AsyncIterator[tuple[Pilot[int], DagScreen]]:
    """The DAG with the keys at the map."""
    async with open_app(path, size=size) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, number), select=select))
        await settled(pilot)
        await press(pilot, "shift+tab" if screen.map.display else "m")
        assert screen.map.rows.has_focus
        yield pilot, screen


def chosen(screen: DagScreen) -> str | None:
    """What both the map and the tree stand on."""
    block = screen.map.rows.chosen
    in_map = None if block is None else block.summary_id
    assert screen.lines.left_as().summary == in_map
    return in_map


def mapped(screen: DagScreen) -> Collection[str]:
    """The summaries that the map shows."""
    assert screen.map.rows.coverage is not None
    return screen.map.rows.coverage.blocks


def standing(pilot: Pilot[int]) -> str:
    """What the foot says of the selected block."""
    return next(line.strip() for line in shown_lines(pilot) if re.match(r" (leaf|D\d+) [\d,]+ of ", line))


async def press(pilot: Pilot[int], *keys: str) -> None:
    await pilot.press(*keys)
    await settled(pilot)


@pytest.mark.long
async def test_the_map_and_the_tree_lead_each_other(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=HIGH) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, 1), select=D1))
        await settled(pilot)
        assert chosen(screen) == D1
        assert f"{D1} under another · #327-#340 · 14 messages" in standing(pilot)
        await press(pilot, "right", "right")
        assert chosen(screen) == screen.lines.summary != D1, "a move in the tree shows in the map"
        assert standing(pilot).startswith("leaf ")
        await press(pilot, "shift+tab", "up")
        assert chosen(screen) == D1, "and one in the map in the tree"
        await press(pilot, "down")
        assert screen.lines.summary == chosen(screen) == LEAF
        assert LEAF in shown(pilot)
        await press(pilot, "enter")
        assert screen.lines.has_focus
        await press(pilot, "right", "right")
        assert screen.lines.message is not None
        assert chosen(screen) == LEAF, "a message has no block: its leaf is marked"
        await press(pilot, "end")
        await press(pilot, *"GK")
        await press(pilot, "tab", "tab")
        assert screen.map.rows.has_focus
        await press(pilot, "escape")
        assert screen.lines.has_focus


@pytest.mark.long
@pytest.mark.parametrize("size", sampled([NARROW, (60, 15), HIGH, WIDE], [NARROW]), ids=str)
async def test_m_folds_the_map_away_and_that_is_remembered(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    high = size[1] >= 30
    for expected in (high, not high):
        async with open_app(database_file("0.15.3"), size=size) as pilot:
            screen = await go_to(pilot, DagScreen(conversation(pilot, 1)))
            await settled(pilot)
            assert screen.map.display is expected
            assert ("\ncontext " in shown(pilot)) is expected
            assert f" m {'Fold map' if expected else 'Map'} " in shown(pilot)
            assert screen.lines.size.height >= 3
            if expected is high:
                await press(pilot, "m")
                assert screen.map.display is not high
                assert ("\ncontext " in shown(pilot)) is not high
                assert f" m {'Map' if expected else 'Fold map'} " in shown(pilot)
                assert screen.lines.size.height >= 3
                assert screen.map.size.height <= size[1] // 2
                assert screen.focused is (screen.lines if high else screen.map.rows)
            if size == NARROW and screen.map.display:
                await press(pilot, "tab")  # to the tree, which needs the rows of the legend
                await wait_for_text(pilot, " · X broken 4 · Ccc selected")
    shares, _ = read_looks(remembered_path())
    assert shares == {f"dag map{'' if high else ' low'}": 0.1 if high else 0.9}


async def test_a_map_that_is_folded_away_is_not_read(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: Any) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("lcm_tui.screens.coverage.read_coverage", fail)
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await go_to(pilot, DagScreen(conversation(pilot, 1)))
        await settled(pilot)
        assert screen.why_not("zoom-in") == "the map is folded away: m shows it"


@pytest.mark.long
@pytest.mark.parametrize(
    "further", sampled([(), ("right", "down")], [("right", "down")]), ids=["a leaf", "a message"]
)
async def test_the_tree_is_as_it_was_left(database_file: DatabaseFactory, further: tuple[str, ...]):
    """What is unfolded, the cursor and its line on the screen."""
    async with open_app(database_file("0.15.3")) as pilot:
        tree = await go_to(pilot, DagScreen(conversation(pilot, 1)))
        await wait_for(pilot, tree.lines.surveyed.is_set, "the whole graph")
        await press(pilot, "down", "right", "down", "right", "down", "right", "down", "down")
        await press(pilot, *further)
        before, stood = shown_lines(pilot)[1:], tree.lines.selected
        assert stood is not None
        assert stood.level == 4 + len(further) // 2
        for keys in (("escape", "s"), ("c", "escape")):
            for key in keys:
                await press(pilot, key)
            back = pilot.app.screen
            assert at(back, "Summary DAG")
            await wait_for(pilot, lambda back=back: back.lines.selected is stood, "where the cursor stood")
            await wait_for(pilot, lambda: shown_lines(pilot)[1:] == before, "the same screen")


@pytest.mark.long
async def test_arrows_zoom_and_the_mouse_choose_a_block(database_file: DatabaseFactory):
    async with map_of(database_file("0.15.3"), select=D1) as (pilot, screen):
        rows = screen.map.rows
        await press(pilot, "up")
        assert chosen(screen) == NEWEST
        assert shown_lines(pilot)[2].startswith("D2        6 ")
        await press(pilot, "home")
        assert standing(pilot).startswith("D2 1 of 6")
        await press(pilot, "right", "right", "left")
        assert standing(pilot).startswith("D2 2 of 6")
        assert rows.scale is not None
        whole = rows.scale
        await press(pilot, "plus", "plus")
        assert rows.scale.messages == whole.messages // 4
        assert rows.scale.cells_of((rows.chosen.first, rows.chosen.end))
        await press(pilot, "end")
        assert rows.scale.end == whole.end or rows.chosen.end <= rows.scale.end
        await press(pilot, *["minus"] * 2)
        assert rows.scale == whole
        assert screen.why_not("zoom-out") == "all messages are shown"
        await press(pilot, *["plus"] * 9)
        assert rows.scale.messages == 8
        assert screen.why_not("zoom-in") is not None
        await press(pilot, *["minus"] * 9)
        await pilot.click("#rows", offset=(GUTTER, len(rows.coverage.levels) - 1))
        await settled(pilot)
        assert standing(pilot).startswith("leaf 1 of ")
        await pilot.click("#foot", offset=(GUTTER + 1, 0))
        await settled(pilot)
        assert standing(pilot).startswith("D3 1 of 2")
        assert chosen(screen) == screen.lines.summary


@pytest.mark.long
async def test_a_block_is_dissolved_and_followed_to_its_messages(database_file: DatabaseFactory):
    async with map_of(database_file("0.15.3"), select=NEWEST) as (pilot, screen):
        await press(pilot, "M")
        messages = pilot.app.screen
        assert at(messages, "Conversation ")
        await press(pilot, "escape", "d")
        assert isinstance(pilot.app.screen, PlanScreen)
        await press(pilot, "escape")
        assert pilot.app.screen is screen
        assert chosen(screen) == NEWEST
        assert screen.map.rows.has_focus


@pytest.mark.long
async def test_words_are_found_in_the_summaries(database_file: DatabaseFactory):
    async with map_of(database_file("0.15.3"), select=NEWEST) as (pilot, screen):
        await press(pilot, "/", *LEAF[4:12], "enter")
        await wait_for(pilot, lambda: chosen(screen) == LEAF, "the leaf of that id")
        assert screen.map.rows.has_focus


@pytest.mark.long
async def test_the_map_steps_through_the_past(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    await changed(path, (1, NEWEST))
    async with map_of(path) as (pilot, screen):
        await press(pilot, "[")
        await wait_for_text(pilot, "past, read-only", "[ ] 1 of ")
        await wait_for(pilot, lambda: NEWEST in mapped(screen), "the summary of then")
        await press(pilot, "]")
        await wait_for(pilot, lambda: "past, read-only" not in shown(pilot), "the present")
        assert NEWEST not in mapped(screen)


@pytest.mark.long
async def test_a_change_of_the_file_keeps_the_block_and_what_is_in_sight(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with map_of(path, select=D1) as (pilot, screen):
        await press(pilot, "plus")
        before = screen.map.rows.scale
        assert f"{D1} broken" not in standing(pilot)
        run(path, f"UPDATE summaries SET content = '' WHERE summary_id = '{D1}'")
        screen.load()
        await wait_for(pilot, lambda: f"{D1} broken" in standing(pilot), "the broken summary")
        await settled(pilot)
        assert screen.map.rows.scale == before
        assert chosen(screen) == D1
        run(path, f"DELETE FROM summaries WHERE summary_id = '{D1}'")
        screen.load()
        await wait_for(pilot, lambda: D1 not in mapped(screen), "the map without it")
        await settled(pilot)
        assert screen.map.rows.chosen is None  # its row in the tree stays: a summary is still linked to it
        assert screen.lines.left_as().summary == D1


@pytest.mark.long
async def test_no_more_is_read_or_drawn_for_many_summaries_than_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn: list[int] = []
    cells_of = views.cells_of

    def counted(level, scale):
        cells = cells_of(level, scale)
        drawn.append(len(cells))
        return cells

    monkeypatch.setattr(views, "cells_of", counted)
    found = []
    for number in (3, 600):
        path = new_database(tmp_path / f"{number}.db")
        with building(path) as rows:
            rows.conversation(1)
            for at in range(number):
                said_there = [rows.message(1, f"{at} {each}", in_context=False) for each in range(2)]
                rows.summary(1, f"sum_{at}", messages=said_there, in_context=True)
        async with open_app(path, size=HIGH) as pilot:
            await settled(pilot)
            drawn.clear()
            screen = await go_to(pilot, DagScreen(conversation(pilot, 1)))
            await settled(pilot)
            await press(pilot, "shift+tab")
            assert screen.map.rows.coverage is not None
            assert screen.map.rows.coverage.counts[State.IN_CONTEXT] == number
            assert set(drawn) == {screen.map.rows.cells}
            drawn.clear()
            await press(pilot, "left")
            assert len(drawn) <= 4
        # The screen reads a file again that was written a moment before: statements are counted without it.
        async with await Database.open(path) as database:
            await database.read(read_coverage, 1, TailRules(8, None, keeps_turn_whole=True))
            found.append(database.statements)
    assert found[0] == found[1] <= 15


async def test_the_rows_and_their_counts_are_there_before_the_blocks(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    may_go_on = asyncio.Event()

    async def held_up(*given: Any):
        await may_go_on.wait()
        return await read_coverage(*given)

    monkeypatch.setattr("lcm_tui.screens.coverage.read_coverage", held_up)
    monkeypatch.setattr("lcm_tui.screens.dag.MANY", 10)
    async with open_app(database_file("0.15.3"), size=HIGH) as pilot:
        await settled(pilot)
        screen = DagScreen(conversation(pilot, 1))
        await pilot.app.push_screen(screen)
        await wait_for_text(pilot, "leaf     43", "Reading")
        assert screen.map.rows.coverage is None
        may_go_on.set()
        await wait_for_text(pilot, "context", "in the context")


async def test_without_colours_states_are_letters(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with map_of(database_file("0.15.3-damaged")) as (pilot, screen):
        lines = shown_lines(pilot)
        cells = len(screen.map.rows.coverage.levels)
        assert set("".join(line[GUTTER:] for line in lines[1 : cells + 1])) <= set("CcUuBbOoSs& ")
        assert "o orphan 6" in shown(pilot)
        assert "! not in the context 39" in shown(pilot)


@pytest.mark.long
async def test_what_has_no_block_and_an_empty_conversation_have_none(tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.conversation(1)
        rows.message(1, "alone")
        rows.summary(1, "sum_nothing")
        rows.conversation(2)
    async with map_of(path, select="sum_nothing") as (pilot, screen):
        assert screen.map.rows.chosen is None
        assert screen.lines.summary == "sum_nothing"
        assert "1 without messages" in shown(pilot)
        await press(pilot, "left", "up", "plus", "pagedown", "M")
        await wait_until_last_said(pilot, "It covers no message of this conversation.")
        assert pilot.app.screen is screen
        await resize(pilot, 60, 12)
    async with map_of(path, 2) as (pilot, screen):
        assert "This conversation has no messages." in shown(pilot)
        await press(pilot, "right", "minus", "home")
        assert screen.map.rows.chosen is None
