"""How every screen looks, on the demonstration: 80x24, 120x35 and 160x50, dark, light and without colours.

Pictures that changed on purpose are taken again with
``pytest tests/app/test_snapshots.py --snapshot-update -m "long or not long"``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Options, resolve
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from lcm_tui.app import SCREENS, LcmApp
from lcm_tui.cli.demo import keep_snapshots, unpack_demo
from lcm_tui.flows.drafts import Asked
from lcm_tui.kit import dialog, dialogs
from lcm_tui.kit.dialogs import Question, WholeScreen
from lcm_tui.kit.spans import Block, heading
from lcm_tui.screens import checking as examining
from lcm_tui.screens import context_items as items
from lcm_tui.screens import conversation_panel as outlook
from lcm_tui.screens import engine as reads
from lcm_tui.screens import questions
from lcm_tui.screens.questions import AskAgain, BackupOffer, TwoTexts
from lcm_tui.tables import search as hits
from tests.app.screens import EVERY, walk_to
from tests.app.support import MIDDLING, NARROW, WIDE, at, settled, wait_for
from tests.cli.support import run as command
from tests.conftest import WRITTEN
from tests.databases import run
from tests.support import sampled

Compare = Callable[..., bool]


class FrozenTime(datetime):
    """The clock that ages are told by."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> FrozenTime:
        return cls(2026, 3, 6, 12, 0, tzinfo=tz or UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Paths in a home are shown from ``~`` on, so the pictures do not depend on where tests run.
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    demo = unpack_demo(tmp_path)
    os.utime(demo.database, (WRITTEN, WRITTEN))
    return demo


def dissolve(demo) -> None:
    """A change and its undoing, as the history keeps them."""
    for words in (("dissolve", 1, "--summary", "sum_4c4bd5"), ("history", "undo", "last")):
        assert command(*words, "--db", demo.database, "--apply", "--yes").code == 0
    run(
        demo.database,
        "UPDATE lcm_tui_operations SET undone_by = 'op_' || (rowid + 1) WHERE undone_by IS NOT NULL",
        "UPDATE lcm_tui_operations SET undoes = 'op_' || (rowid - 1) WHERE undoes IS NOT NULL",
        "UPDATE lcm_tui_operations SET id = 'op_' || rowid",
        "UPDATE lcm_tui_operations SET created_at = '2026-03-06T11:4' || rowid || ':00.000Z'",
    )


def remember(demo) -> None:
    """What was sent at a few turns."""
    keep_snapshots(demo)
    run(demo.database, "UPDATE lcm_tui_assemblies SET id = 'asm_' || rowid")


#: What a screen shows that the demonstration does not hold.
NEEDS = {
    "HistoryScreen": dissolve,
    "OperationScreen": dissolve,
    "SnapshotsScreen": remember,
    "SnapshotScreen": remember,
}


#: The conversation of which snapshots were kept.
OF: Mapping[str, int] = {"SnapshotsScreen": 1}
#: What is pressed on a screen that would else show that there is nothing to do.
PRESSED: Mapping[str, Sequence[str]] = {"CompactingScreen": ("number_sign", "2", "enter")}


def app_on(home, colours: str, monkeypatch: pytest.MonkeyPatch) -> LcmApp:
    if colours == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app = LcmApp(resolve(Options(openclaw_dir=home.state_dir), os.environ, home=Path.home()))
    if colours == "light":
        app.theme = "textual-light"
    return app


def ways_to(name: str) -> Callable[[Pilot[int]], object]:
    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        screen = await walk_to(pilot, name, of=OF.get(name))
        if name in PRESSED:
            await pilot.press(*PRESSED[name])
            await settled(pilot)
        if at(screen, "Conversations"):
            await wait_for(pilot, lambda: screen.outlooker.outlook.verdict, "the verdict of the checks")
            await settled(pilot)
        if at(screen, "Search"):  # whether a taller account was drawn on the way is chance
            screen._tallest = 1
            screen.account.again()
            await settled(pilot)

    return walk


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "datetime", FrozenTime)
    monkeypatch.setattr(reads, "datetime", FrozenTime)
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(examining, "taken_text", lambda *_: "0.5 s, 12:00:00")
    monkeypatch.setattr(hits, "took_text", lambda _: "0.5 s")
    monkeypatch.setattr("lcm_tui.screens.search.QueryInput.cursor_blink", False)


SIZES = (
    pytest.param(NARROW, id="80x24"),
    pytest.param(MIDDLING, id="120x35", marks=pytest.mark.long),
    pytest.param(WIDE, id="160x50", marks=pytest.mark.long),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EVERY)
def test_screen(
    name: str, size: tuple[int, int], home, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS:
        NEEDS[name](home)
    app = app_on(home, "dark", monkeypatch)
    assert snap_compare(app, terminal_size=size, run_before=ways_to(name))


def test_every_screen_that_is_registered_has_its_pictures() -> None:
    registered = {name.partition(".")[2] for name in SCREENS.values()}
    assert registered | {"CompareScreen", "ConversationsScreen"} == set(EVERY)


@pytest.mark.cases(1)
@pytest.mark.parametrize("colours", ["light", "no colour"])
@pytest.mark.parametrize(
    "name",
    sampled(["ConversationsScreen", "ConversationScreen", "DagScreen", "ContextScreen"], ["ContextScreen"]),
)
def test_colours(
    name: str, colours: str, home, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(home, colours, monkeypatch)
    assert snap_compare(app, terminal_size=NARROW, run_before=ways_to(name))


@pytest.mark.parametrize("size", SIZES)
def test_help(size: tuple[int, int], home, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        await settled(pilot)
        await pilot.press("question_mark")
        await settled(pilot)
        for written in pilot.app.screen.query(Input):
            written.cursor_blink = False
        await settled(pilot)

    assert snap_compare(app_on(home, "dark", monkeypatch), terminal_size=size, run_before=walk)


TEXT = (heading("What is there"), Block("A text over a few lines. " * 12))
#: Every dialog but the help, as some screen opens it; the help of a dialog lies over one.
DIALOGS: Mapping[str, Callable[[], Screen[Any]]] = {
    "AskAgain": lambda: AskAgain("Draft again", "extractive", Asked()),
    "BackupOffer": lambda: BackupOffer(Path("/srv/agents/lcm.db"), 3_800_000),
    "Question": lambda: Question("Write 4 drafts?", TEXT, (("enter", "yes"), ("m", "choose a model"))),
    "TwoTexts": lambda: TwoTexts(TEXT, TEXT, str),
    "WholeScreen": lambda: WholeScreen(TEXT),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DIALOGS)
def test_dialog(
    name: str, size: tuple[int, int], home, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 3600.0)  # the screen below stays as it is
    monkeypatch.setattr(questions, "default_target", lambda path: path.with_suffix(".backup"))

    async def walk(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: len(pilot.app.screen_stack) > 1)
        await settled(pilot)
        await pilot.app.push_screen(DIALOGS[name]())
        for written in pilot.app.screen.query(Input):
            written.cursor_blink = False
        await settled(pilot)

    assert snap_compare(app_on(home, "dark", monkeypatch), terminal_size=size, run_before=walk)


def test_every_dialog_has_its_pictures() -> None:
    named: set[str] = set()
    for module in (dialog, dialogs, questions):
        named |= {
            one.__name__
            for one in vars(module).values()
            if isinstance(one, type) and issubclass(one, ModalScreen) and one.__module__ == module.__name__
        }
    assert named == {*DIALOGS, "Dialog", "HelpScreen"}
