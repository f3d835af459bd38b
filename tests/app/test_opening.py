"""What is done until a screen stands and a letter is listed: paints, layouts, reads and sorts are counted."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from textual._compositor import Compositor
from textual.screen import Screen

from lcm_tui import frame
from lcm_tui.app import LcmApp
from lcm_tui.panes import conversations as pane
from lcm_tui.screens.context.screen import ContextScreen
from lcm_tui.screens.conversation.screen import ConversationScreen
from lcm_tui.screens.conversations.screen import ConversationsScreen
from lcm_tui.screens.dag.screen import DagScreen
from lcm_tui.widgets.lines import LineView
from tests.app.support import NARROW, open_app, settled, shown, wait_for
from tests.conftest import DatabaseFactory


def noted_paints(monkeypatch: pytest.MonkeyPatch) -> list[tuple[type[Screen[object]], bool]]:
    """The screens that are painted from now on, each with whether its list has rows."""
    painted: list[tuple[type[Screen[object]], bool]] = []
    painting = LcmApp._display

    def noted(app: LcmApp, screen: Screen[object], update: object) -> None:
        if not app._batch_count and update is not None:
            painted.append((type(screen), any(view.keys for view in screen.query(LineView))))
        painting(app, screen, update)

    monkeypatch.setattr(LcmApp, "_display", noted)
    return painted


@pytest.mark.parametrize(
    ("key", "screen"), [("enter", ConversationScreen), ("s", DagScreen), ("c", ContextScreen)]
)
async def test_a_screen_is_painted_first_with_what_it_has_read(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, key: str, screen: type[Screen[object]]
):
    monkeypatch.setattr(frame, "FIRST_PAINT_SECONDS", 60.0)
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        painted = noted_paints(monkeypatch)
        await pilot.press(key)
        await wait_for(pilot, lambda: any(one is screen for one, _ in painted))
        assert next(rows for one, rows in painted if one is screen)


async def test_a_screen_whose_rows_are_late_is_painted_without(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    gate, fetch = asyncio.Event(), DagScreen.fetch

    async def late(screen: DagScreen) -> object:
        await gate.wait()
        return await fetch(screen)

    monkeypatch.setattr(DagScreen, "fetch", late)
    async with open_app(database_copy("0.15.3")) as pilot:
        await settled(pilot)
        painted = noted_paints(monkeypatch)
        await pilot.press("s")
        await wait_for(pilot, lambda: (DagScreen, False) in painted)
        assert "Reading …" in shown(pilot)
        gate.set()
        await wait_for(pilot, lambda: (DagScreen, True) in painted)


async def test_behind_another_screen_the_list_reads_nothing_that_costs(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ConversationsScreen)
        counting = screen.counting
        await settled(pilot)
        assert not counting._wanted
        await pilot.press("s")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, DagScreen))
        counting.sum_again()
        counting.want_sums()
        await settled(pilot)
        assert counting._sum_wanted
        await pilot.press("q")
        await wait_for(pilot, lambda: not counting._wanted)


async def test_a_letter_of_the_filter_lays_out_and_sorts_nothing(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    done: Counter[str] = Counter()
    reflow, ordered = Compositor.reflow, pane.ordered

    def laid_out(*args: object) -> object:
        done["layouts"] += 1
        return reflow(*args)

    def sorted_anew(*args: object, **more: bool) -> object:
        done["sorts"] += 1
        return ordered(*args, **more)

    async with open_app(database_copy("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ConversationsScreen)
        await settled(pilot)
        await pilot.press("slash", "a")  # with its first letter the prompt gets another style
        await wait_for(pilot, lambda: screen.list.filter.needle == "a")
        screen.counting.leave()
        await pilot.pause(0.1)
        monkeypatch.setattr(Compositor, "reflow", laid_out)
        monkeypatch.setattr(pane, "ordered", sorted_anew)
        before = list(screen.list.table.keys)
        await pilot.press("g", "e", "n", "t", "x")
        await wait_for(pilot, lambda: screen.list.filter.needle == "agentx")
        assert list(screen.list.table.keys) != before
        assert done == {}
        screen.list.sort_by("messages")
        assert done["sorts"] == 1
