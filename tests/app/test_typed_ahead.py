"""Keys that are typed faster than screens open: none crashes, none is lost, none decides what nobody saw."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from lcm_core.base.records import SummaryId, SummaryText
from lcm_core.store.database import Reader
from lcm_core.store.summaries import get_summary
from textual import events
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.flows.drafts import Wanted
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.terminal import TOO_EARLY
from lcm_tui.screens.context import ContextScreen
from lcm_tui.screens.drafting import DraftingScreen
from lcm_tui.screens.editor import EditScreen
from lcm_tui.screens.frame import CommandScreen, all_keys
from lcm_tui.screens.preview import PlanScreen
from tests.app.support import (
    NARROW,
    at,
    go_to,
    open_app,
    said,
    settled,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import dump
from tests.conftest import DatabaseFactory
from tests.support import sampled


def typed(pilot: Pilot[int], *keys: str, at: float | None = None) -> None:
    """Put keys into the app's queue all at once, as a terminal does; *at* is when they were pressed."""
    for key in keys:
        event = events.Key(key, key if len(key) == 1 else {"space": " "}.get(key))
        if at is not None:
            event.time = at
        event.set_sender(pilot.app)
        pilot.app.post_message(event)


@pytest.mark.long
async def test_a_key_waits_for_the_screen_that_the_one_before_opens(database_copy: DatabaseFactory):
    """`d` right after `c` previews dissolving what the context selects first."""
    async with open_app(database_copy("0.15.3")) as pilot:
        pilot.app.screen.list.table.select(1)
        typed(pilot, "c", "d")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        assert [type(one) for one in pilot.app.screen_stack[-2:]] == [ContextScreen, PlanScreen]


async def test_keys_act_in_the_order_in_which_they_were_typed(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        listed = pilot.app.screen
        listed.list.table.select(1)
        typed(pilot, "c", "escape", "s", "escape", "slash", *"main", "enter")
        await wait_for(pilot, lambda: listed.list.filter.needle == "main")
        assert len(pilot.app.screen_stack) == 2
        typed(pilot, "slash", "x", "ctrl+j")  # enter, as a terminal writes it before the app has begun
        await wait_for(pilot, lambda: listed.list.filter.needle == "x" and not listed.asking)


async def test_what_is_typed_while_the_palette_opens_is_searched(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3")) as pilot:
        typed(pilot, "colon", *"theme", "space", *"nord", "enter")
        await wait_for(pilot, lambda: pilot.app.theme == "nord")


@pytest.mark.long
async def test_what_is_typed_behind_the_key_of_the_editor_is_text(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    async def slow(reader: Reader, summary_id: SummaryId) -> SummaryText:
        await asyncio.sleep(0.3)
        return await get_summary(reader, summary_id)

    monkeypatch.setattr("lcm_core.store.summaries.get_summary", slow)
    async with open_app(database_copy("0.15.3")) as pilot:
        pilot.app.screen.list.table.select(1)
        typed(pilot, "s", "e", *"XYZ")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, EditScreen))
        await wait_for(pilot, lambda: pilot.app.screen.text.startswith("XYZ"), "the letters")
        typed(pilot, "ctrl+s", "a")
        await wait_until_said(pilot, "Too early: a again.")
        assert at(pilot.app.screen, "Review ")


async def test_each_key_counts_that_goes_to_what_is_broken(database_copy: DatabaseFactory):
    """They come before it is known what is broken."""
    bang = "exclamation_mark"
    places = []
    async with open_app(database_copy("0.15.3")) as pilot:
        for keys in (["s", bang, bang, "n"], ["s", bang, bang], ["s", bang]):
            pilot.app.screen.list.table.select(1)
            typed(pilot, *keys)
            await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
            await settled(pilot)
            dag = pilot.app.screen
            assert dag.lines.summary in dag.lines.known.wrong
            places.append(dag.lines.summary)
            await pilot.press("escape")
            await wait_for(pilot, lambda: at(pilot.app.screen, "Conversations"))
            pilot.app.session.left.clear()
    assert len({*places}) == 3, places


async def test_a_fix_waits_for_the_first_finding(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        typed(pilot, "H", "x")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen) or said(pilot))
        assert not any("No finding is selected" in one for one in said(pilot))


@pytest.mark.parametrize("size", sampled([NARROW, (60, 15)], [NARROW]))
async def test_what_was_typed_before_a_preview_was_shown_does_not_apply_it_nor_hide_its_choices(
    database_copy: DatabaseFactory, size: tuple[int, int]
):
    path = database_copy("0.15.3")
    before = dump(path)
    async with open_app(path, size=size) as pilot:
        pilot.app.screen.list.table.select(1)
        typed(pilot, "c", "d", "a", "a")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        await settled(pilot)
        assert isinstance(pilot.app.screen, PlanScreen)
        await wait_for_text(pilot, "Too early: a again.")
        assert shown_lines(pilot)[1].startswith(" (1) "), shown_lines(pilot)[:3]
    assert dump(path) == before


@pytest.mark.long
async def test_a_question_is_not_answered_by_what_was_typed_before_it(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        answers: list[str | None] = []
        early = time.monotonic()
        pilot.app.push_screen(Question("Sure?", (), (("a", "yes"),)), answers.append)
        typed(pilot, "a", "enter", at=early)
        await wait_until_said(pilot, TOO_EARLY)
        await settled(pilot)
        assert isinstance(pilot.app.screen, ModalScreen)
        typed(pilot, "enter")
        await wait_for(pilot, lambda: bool(answers))
        assert answers == ["a"]


@pytest.mark.long
async def test_what_is_typed_behind_the_start_of_drafts_waits_for_its_question(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    async def slow(screen: DraftingScreen) -> None:
        await asyncio.sleep(0.3)
        await begin(screen)

    begin = DraftingScreen._begin
    monkeypatch.setattr(DraftingScreen, "_begin", slow)
    async with open_app(database_copy("0.15.3-damaged")) as pilot:
        screen = await go_to(pilot, DraftingScreen(Wanted("repair", 2), "Repair"))
        await wait_for(pilot, lambda: screen.preparation.forecast is not None, "the estimate")
        marked = len(screen.preparation.marks)
        typed(pilot, "P", "space", "a")
        await wait_until_said(pilot, TOO_EARLY)
        assert isinstance(pilot.app.screen, Question)
        assert len(screen.preparation.marks) == marked, "space is no key of the list behind it"
        assert screen.work is None
        typed(pilot, "a")
        await wait_for(pilot, lambda: screen.work is not None, "the batch")


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(8), range(3)))
async def test_no_burst_of_keys_ends_the_app(database_copy: DatabaseFactory, seed: int):
    """Any keys at once, on screens that are just being opened or left; what decides is left out."""
    dice = random.Random(seed)
    deciding = {"a", "A", "u", "X", "K", "enter"} if seed % 2 else set()
    keys = [*"csHURftdbMpiVCxFTwmZzSInN/?yDoBQ", "enter", "escape", "escape", "up", "down", "tab", *"aAuX"]
    path = database_copy("0.15.3")
    before = dump(path)
    async with open_app(path) as pilot:
        for _ in range(4):
            typed(pilot, *(key for key in dice.choices(keys, k=14) if key not in deciding))
            for _ in range(200):
                if pilot.app.return_code is not None or (
                    pilot.app._typed.resting and pilot.app.screen.is_mounted
                ):
                    break
                await pilot.pause(0.01)
            assert pilot.app._exception is None
        assert pilot.app.failure is None
    assert dump(path) == before


def test_what_decides_is_known():
    assert {name for name, one in all_keys().items() if one.decides} == {
        "apply",
        "accept-rest",
        "apply-next",
        "undo",
        "delete",
        "vacuum",
        "remove-strays",
    }
    assert CommandScreen.decided_on
