"""The engine's state on the screen: what needs a look first, prepared texts apart, closing debt."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import Options, resolve
from lcm_core.operations.engine_work import Need, read_work
from textual.pilot import Pilot

from lcm_tui.app import LcmApp
from lcm_tui.cli.demo import unpack_demo
from lcm_tui.screens import engine as reads
from lcm_tui.screens.compacting import CompactingScreen
from lcm_tui.screens.engine import EngineScreen
from lcm_tui.screens.preview import PlanScreen
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    go_to,
    open_app,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_last_said,
)
from tests.conftest import DatabaseFactory
from tests.databases import column, value

NOW = datetime(2026, 9, 20, 13, 57, 35, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _at_the_recorded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "clock", lambda: NOW)


async def engine(pilot: Pilot[int]) -> EngineScreen:
    screen = await go_to(pilot, EngineScreen())
    await settled(pilot)
    return screen


@pytest.mark.long
async def test_prepared_texts_are_read_apart_and_never_beside_the_state(
    database_file: DatabaseFactory,
) -> None:
    path = database_file("1.0-next")
    texts = column(path, "SELECT content FROM pending_summary_nodes WHERE conversation_id = 2")
    async with open_app(path, size=NARROW) as pilot:
        screen = await engine(pilot)
        assert list(screen.list.table.keys)[:5] == [1, 9, 4, 3, 2]
        await pilot.press("j", "j", "j", "j")
        assert "complete, waits for the threshold" in " ".join(screen.text.text.split())
        assert not any(text[:20] in screen.text.text for text in texts)
        await pilot.press("enter")
        await wait_for(pilot, lambda: all(text[:20] in screen.text.text for text in texts))
        assert screen.text.text.count("not part of the conversation") == len(texts)
        await pilot.press("escape")
        await wait_for(pilot, lambda: "waits for the" in screen.text.text, "the state")
        assert screen.list.table.select(10)
        await wait_for_text(pilot, "enter Compact")
        await pilot.press("enter")
        await wait_for_text(pilot, "Compact 10")


@pytest.mark.long
async def test_debt_of_what_has_ended_is_closed_behind_a_backup(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    async with open_app(path) as pilot:
        screen = await engine(pilot)
        await pilot.press("g", "x")
        await wait_until_last_said(pilot, "this conversation owes no compaction")
        assert screen.list.table.select(3)
        await pilot.press("x")
        await wait_until_last_said(pilot, "this conversation is active: its host pays the debt")
        assert screen.list.table.select(4)
        await pilot.press("x")
        await wait_until_last_said(pilot, "it is active: once what failed works again, compact it")
        assert screen.list.table.select(7)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
        await settled(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the state again")
        await wait_for(pilot, lambda: "closed by the operator" in screen.text.text, "the debt to be closed")
    row = "SELECT pending + running FROM conversation_compaction_maintenance WHERE conversation_id = 7"
    assert value(path, row) == 0
    [copy] = path.parent.glob("*.before-close-debt.backup")
    assert value(copy, row) == 1


@pytest.mark.long
async def test_an_older_file_says_what_it_does_not_record(database_file: DatabaseFactory) -> None:
    async with open_app(database_file("0.8.2"), size=NARROW) as pilot:
        screen = await engine(pilot)
        assert screen.text.text.count("not recorded by this version") == 5
        assert "prepares nothing" in screen.text.text
        assert "Engine  " in shown(pilot)


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [NARROW, (120, 35), WIDE], ids=["80x24", "120x35", "160x50"])
def test_how_it_looks(
    size: tuple[int, int],
    database_file: DatabaseFactory,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = database_file("1.0-next")
    app = LcmApp(resolve(Options(db=path), {**os.environ, "TZ": "UTC"}, home=Path.home()))

    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        await settled(pilot)
        await engine(pilot)

    assert snap_compare(app, terminal_size=size, run_before=walk)


@pytest.mark.long
async def test_engine_and_compact_say_one_thing_of_debt_below_its_threshold(tmp_path: Path) -> None:
    said = "noted as due 2026-03-02 23:26:47Z, below the threshold now (2,235 of 96,000 tokens)"
    async with open_app(unpack_demo(tmp_path / "home").database, size=WIDE) as pilot:
        screen = await engine(pilot)
        assert screen.list.table.select(2)
        await wait_for(pilot, lambda: said in " ".join(screen.text.text.split()), "the debt")
        assert screen.list.selected is not None
        assert screen.list.selected.need is Need.NOTHING
        await go_to(pilot, CompactingScreen(screen.list.selected.conversation))
        await wait_for_text(pilot, f"debt    {said}")


async def test_the_first_screen_says_how_many_conversations_need_a_look_and_leads_to_them(
    database_file: DatabaseFactory,
) -> None:
    async with open_app(database_file("1.0-next"), size=WIDE) as pilot:
        screen = pilot.app.screen
        assert at(screen, "Conversations")
        await wait_for_text(pilot, "5 conversations: a worker died ")
        needs = screen.outlooker.outlook.engine_needs
        session = screen.session
        found = await session.read(read_work, session.settings.engine, datetime.now(UTC))
        stuck = Counter(one.need for one in found.conversations if one.need is not Need.NOTHING)
        assert [number for _, number in needs] == [stuck[need] for need in sorted(stuck)]
        await pilot.press("Y")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Engine"), "the screen of the engine")
