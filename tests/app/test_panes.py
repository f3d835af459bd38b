"""Dividers between two panes: dragged, moved by keys, remembered, and never out of bounds."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from lcm_tui.kit.lines import LineView
from lcm_tui.kit.panes import Divider, TwoPanes
from lcm_tui.kit.session import Remembered, read_looks, remembered_path
from tests.app.screens import open_screen
from tests.app.support import MIDDLING, NARROW, WIDE, open_app, said, settled, shown, strips, wait_for
from tests.conftest import DatabaseFactory
from tests.support import sampled

LEAST = ((24, 4), (24, 3))


def panes_of(pilot: Pilot[int]) -> TwoPanes:
    return pilot.app.screen.query_one(TwoPanes)


async def drag(pilot: Pilot[int], x: int, y: int) -> None:
    """Drag the divider of the screen by so many cells and lines."""
    at = pilot.app.screen.query_one(Divider).region
    await pilot.mouse_down(offset=(at.x, at.y))
    await pilot.hover(offset=(at.x + x // 2, at.y + y // 2))
    await pilot.hover(offset=(at.x + x, at.y + y))
    await pilot.mouse_up(offset=(at.x + x, at.y + y))
    await pilot.pause()


@pytest.mark.long
async def test_a_divider_is_dragged_and_stays_there_another_day_in_another_terminal(
    database_file: DatabaseFactory,
):
    path = remembered_path()
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        await open_screen(pilot, "DagScreen")
        first = panes_of(pilot).first
        before = first.outer_size.width
        await drag(pilot, -30, 0)
        await wait_for(
            pilot, lambda: first.outer_size.width == before - 30, "the divider to follow the mouse"
        )
        await pilot.press("right_curly_bracket")
        await wait_for(pilot, lambda: first.outer_size.width == before - 26, "the divider to follow the key")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    share = (before - 26) / (WIDE[0] - 1)
    assert read_looks(path)[0] == {"dag beside": pytest.approx(share, abs=0.001)}
    async with open_app(database_file("0.15.3"), size=MIDDLING) as pilot:
        await open_screen(pilot, "DagScreen")
        assert panes_of(pilot).first.outer_size.width == pytest.approx(share * (MIDDLING[0] - 1), abs=1)
        await pilot.click(Divider, times=2)
        await wait_for(
            pilot, lambda: panes_of(pilot).first.outer_size.width > 70, "the divider to be put back"
        )
    assert read_looks(path)[0] == {}


PANED = ["DagScreen", "HealthScreen", "PreviousScreen", "BriefsScreen"]


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(PANED, ["PreviousScreen"]))
async def test_no_pane_is_lost_in_a_small_terminal(name: str, database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await open_screen(pilot, name)
        panes = panes_of(pilot)
        for key, pane, least in (
            ("left_curly_bracket", panes.first, LEAST[0][1]),
            ("right_curly_bracket", panes.second, LEAST[1][1]),
        ):
            await pilot.press(*[key] * 20)
            await wait_for(
                pilot, lambda pane=pane, least=least: pane.outer_size.height == least, f"{key} to end"
            )
        lines = panes.first.outer_size.height + panes.second.outer_size.height
        assert lines + 1 == panes.size.height
    assert set(read_looks(remembered_path())[0]) == {f"{name.removesuffix('Screen').lower()} below"}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["ContextScreen", "DagScreen", "HealthScreen", "FilesScreen"])
async def test_esc_leads_from_the_text_to_the_list_before_it_leaves(
    name: str, database_file: DatabaseFactory
):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen: Any = await open_screen(pilot, name)
        screen.text.focus()
        await settled(pilot)
        await pilot.press("escape")
        await settled(pilot)
        assert pilot.app.screen is screen
        assert screen.main_widget().has_focus


async def test_a_screen_that_cannot_be_divided_says_so_and_browsing_writes_nothing(
    database_file: DatabaseFactory,
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await pilot.press("left_curly_bracket")
        await wait_for(pilot, lambda: "This screen has one pane." in said(pilot))
        await open_screen(pilot, "ContextScreen")
        await pilot.press("left_curly_bracket")
        await wait_for(pilot, lambda: "A wider terminal shows two panes here." in said(pilot))
    assert not remembered_path().exists()


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\xff\xfe",
        b"[" * 10_000,
        b"[]",
        b'{"shares": 3}',
        b'{"shares": {"dag beside": 7.0, "dag below": NaN, "a": "0.5", "b": null, "c": true, "d": -0.5}}',
        b'{"shares": {"dag beside": 0.5}}' + b" " * 100_000,
    ],
    ids=["empty", "bytes", "deep", "list", "number", "wrong", "large"],
)
def test_a_file_that_says_nothing_sensible_is_ignored_and_replaced(written: bytes, tmp_path: Path):
    path = tmp_path / "panes.json"
    path.write_bytes(written)
    assert read_looks(path)[0] == {}
    mine = Remembered(path, {})
    mine.keep("dag beside", 0.25)
    mine.write()
    assert read_looks(path)[0] == {"dag beside": 0.25}


def test_what_another_app_remembered_meanwhile_stays(tmp_path: Path):
    path = tmp_path / "panes.json"
    mine, other = Remembered(path, {}), Remembered(path, {})
    mine.keep("dag beside", 0.25)
    other.keep("health below", 0.5)
    mine.write()
    other.write()
    assert read_looks(path)[0] == {"dag beside": 0.25, "health below": 0.5}


def test_where_nothing_can_be_written_nothing_is_said(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    mine = Remembered(blocked / "panes.json", {})
    mine.keep("dag beside", 0.25)
    mine.write()
    assert mine.share("dag beside") == 0.25


@pytest.mark.cases(1)
@pytest.mark.parametrize(("size", "mark"), [(NARROW, "━▼━"), (WIDE, "▶")])
async def test_the_divider_points_at_the_second_pane_while_it_has_the_keys(
    size: tuple[int, int], mark: str, database_file: DatabaseFactory
):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        await open_screen(pilot, "BriefsScreen")
        await wait_for(pilot, lambda: "focus_" in shown(pilot))
        assert mark not in shown(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: mark in shown(pilot), "a mark at the pane with the keys")
        listed = pilot.app.screen.query(LineView).first()
        cursors = {listed.style_of(name).bgcolor for name in ("cursor", "cursor-blur")}
        [marked] = [one.style for strip in strips(pilot) for one in strip if mark in one.text]
        assert marked.bgcolor not in cursors, "it is no cursor"
        assert not marked.reverse
        await pilot.press("escape")
        await wait_for(pilot, lambda: mark not in shown(pilot), "the list to have the keys again")
