"""What is done until a screen stands and a letter is listed: paints, layouts, reads and sorts are counted."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from lcm_core.api import Database
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from benchmarks.screen import Screen as Terminal
from lcm_tui.app import LcmApp
from lcm_tui.kit.dialog import Prompt
from lcm_tui.kit.lines import LineView
from lcm_tui.screens import conversation_list as pane
from lcm_tui.screens import reading
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.conversation import ConversationScreen
from lcm_tui.screens.dag import DagScreen
from tests.app.support import NARROW, at, open_app, settled, shown, wait_for
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


OPENED = (("enter", ConversationScreen), ("s", DagScreen), ("c", ContextScreen))


@pytest.mark.cases(1)
@pytest.mark.parametrize(("key", "screen"), OPENED)
async def test_a_screen_is_painted_first_with_what_it_has_read(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch, key: str, screen: type[Screen[object]]
):
    monkeypatch.setattr(reading, "FIRST_PAINT_SECONDS", 60.0)
    async with open_app(database_copy("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        painted = noted_paints(monkeypatch)
        await pilot.press(key)
        await wait_for(pilot, lambda: any(one is screen for one, _ in painted))
        assert next(rows for one, rows in painted if one is screen)


@pytest.mark.long
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


@pytest.mark.long
async def test_behind_another_screen_the_list_reads_nothing_that_costs(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        counting = screen.counting
        await settled(pilot)
        assert not counting._wanted
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        counting.sum_again()
        counting.want_sums()
        await settled(pilot)
        assert counting._sum_wanted
        await pilot.press("q")
        await wait_for(pilot, lambda: not counting._wanted)


@pytest.mark.long
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
        assert at(screen, "Conversations")
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


@pytest.mark.long
@pytest.mark.parametrize(("key", "screen"), OPENED)
async def test_an_opening_styles_each_widget_once_and_makes_no_prompt(
    database_copy: DatabaseFactory,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    screen,
):
    styled, applying = Counter[Widget](), Stylesheet.apply

    def noted(stylesheet: Stylesheet, node: DOMNode, **more: object) -> None:
        if isinstance(node, Widget) and not isinstance(node, ScrollBar):
            styled[node] += 1
        applying(stylesheet, node, **more)  # type: ignore[arg-type]

    async with open_app(database_copy("0.15.3")) as pilot:
        await settled(pilot)
        painted = noted_paints(monkeypatch)
        monkeypatch.setattr(Stylesheet, "apply", noted)
        await pilot.press(key)
        await wait_for(pilot, lambda: any(one is screen for one, _ in painted))
        opened = pilot.app.screen
        again = {widget for widget, times in styled.items() if times > 1 and widget.screen is opened}
        assert again <= {opened.focused}  # which looks otherwise with the keys
        assert not any(isinstance(widget, Prompt) for widget in styled)
        assert 5 <= len(styled) <= 15
        await pilot.press("slash", "x")
        await wait_for(pilot, lambda: opened.query_one(Prompt).value == "x")


async def test_the_context_is_read_in_few_pieces(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    done, read = Counter[str](), Database.read

    async def noted(database: Database, load: object, *args: object, **more: object) -> object:
        done[getattr(load, "__name__", "")] += 1
        return await read(database, load, *args, **more)  # type: ignore[arg-type]

    async with open_app(database_copy("0.15.3")) as pilot:
        await settled(pilot)
        monkeypatch.setattr(Database, "read", noted)
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Context ")
        in_sight = sum(key[0] != "gap" for key in screen.items.visible_keys)
        assert in_sight > 15
        assert 1 <= done["checked_tokens"] <= 3  # what is in sight may have moved meanwhile
        assert sum(done.values()) <= 12, done


@pytest.mark.long
async def test_what_is_painted_in_parts_is_what_a_whole_paint_shows(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    width, height = 120, 35
    seen, painting = Terminal(height, width), LcmApp._display

    def painted(app: LcmApp, screen: Screen[object], update: ChopsUpdate | LayoutUpdate | None) -> None:
        if update is not None and not app._batch_count:
            seen.feed(update.render_segments(app.console).encode())
        painting(app, screen, update)

    def as_a_whole() -> object:
        whole = Terminal(height, width)
        update = pilot.app.screen._compositor.render_full_update()
        whole.feed(update.render_segments(pilot.app.console).encode())
        return whole.state()

    monkeypatch.setattr(LcmApp, "_display", painted)
    async with open_app(database_copy("0.15.3"), size=(width, height)) as pilot:
        for keys in ("j j pagedown", "slash a g x backspace enter", "escape end", "c", "j j tab pagedown",
                     "plus", "q s", "Z j j", "m", "q enter", "home space"):  # fmt: skip
            await pilot.press(*keys.split())
            await settled(pilot)
            await wait_for(pilot, lambda: seen.state() == as_a_whole(), f"the whole screen after {keys}")


@pytest.mark.long
async def test_work_without_keys_waits_for_the_rows_in_front_or_until_their_screen_is_left(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    gate, fetch = asyncio.Event(), DagScreen.fetch

    async def late(reading: DagScreen) -> object:
        await gate.wait()
        return await fetch(reading)

    monkeypatch.setattr(DagScreen, "fetch", late)
    async with open_app(database_copy("0.15.3")) as pilot:
        app = pilot.app
        assert isinstance(app, LcmApp)
        await settled(pilot)

        async def work_during_an_opening() -> asyncio.Task[None]:
            await pilot.press("s")
            await wait_for(pilot, lambda: at(app.screen, "Summary DAG") and app.screen.is_mounted)
            work = asyncio.create_task(app._warm_up._without_keys(0))
            await pilot.pause(0.1)
            assert not work.done()
            return work

        work = await work_during_an_opening()
        await pilot.press("escape")
        await wait_for(pilot, work.done, "the screen is left")
        work = await work_during_an_opening()
        gate.set()
        await wait_for(pilot, work.done, "its rows are there")
