"""How every screen looks, on the demonstration database: 80x24 and 160x50, dark, light and without colours.

Pictures that changed on purpose are taken again with
``pytest tests/app/test_snapshots.py --snapshot-update -m "long or not long"``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest
from lcm_core.settings import Options, resolve
from textual.pilot import Pilot

from lcm_tui.app import LcmApp
from lcm_tui.screens.context import items
from lcm_tui.screens.conversations import outlook
from lcm_tui.screens.conversations.screen import ConversationsScreen
from lcm_tui.screens.engine import reads
from lcm_tui.screens.health import examining
from tests.app.screens import WAYS, open_screen
from tests.app.support import NARROW, WIDE, settled, wait_for
from tests.support import sampled

Compare = Callable[..., bool]


class FrozenTime(datetime):
    """The clock that ages are told by."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> FrozenTime:
        return cls(2026, 3, 6, 12, 0, tzinfo=tz or UTC)


@pytest.fixture
def home(openclaw_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Paths in a home are shown from ``~`` on, so the pictures do not depend on where tests run.
    monkeypatch.setenv("HOME", str(openclaw_home.parent.resolve()))
    return openclaw_home


def app_on(home: Path, colours: str, monkeypatch: pytest.MonkeyPatch) -> LcmApp:
    if colours == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app = LcmApp(resolve(Options(openclaw_dir=home), os.environ, home=Path.home()))
    if colours == "light":
        app.theme = "textual-light"
    return app


def ways_to(name: str) -> Callable[[Pilot[int]], object]:
    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        screen = await open_screen(pilot, name)
        if isinstance(screen, ConversationsScreen):
            await wait_for(pilot, lambda: screen.outlooker.outlook.verdict, "the verdict of the checks")
            await settled(pilot)

    return walk


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "datetime", FrozenTime)
    monkeypatch.setattr(reads, "datetime", FrozenTime)
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(examining, "taken_text", lambda *_: "0.5 s, 12:00:00")


@pytest.mark.parametrize(
    "size", [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x50", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", WAYS)
def test_screen(
    name: str, size: tuple[int, int], home: Path, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(home, "dark", monkeypatch)
    assert snap_compare(app, terminal_size=size, run_before=ways_to(name))


def test_the_first_screen_of_a_middling_terminal(
    home: Path, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(home, "dark", monkeypatch)
    assert snap_compare(app, terminal_size=(120, 35), run_before=ways_to("ConversationsScreen"))


@pytest.mark.parametrize("colours", ["light", "no colour"])
@pytest.mark.parametrize(
    "name",
    sampled(["ConversationsScreen", "ConversationScreen", "DagScreen", "ContextScreen"], ["ContextScreen"]),
)
def test_colours(
    name: str, colours: str, home: Path, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(home, colours, monkeypatch)
    assert snap_compare(app, terminal_size=NARROW, run_before=ways_to(name))


def test_help(home: Path, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        await settled(pilot)
        await pilot.press("question_mark")
        await settled(pilot)

    assert snap_compare(app_on(home, "dark", monkeypatch), terminal_size=NARROW, run_before=walk)
