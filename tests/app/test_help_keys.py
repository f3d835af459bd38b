"""Each key that the help of a screen names does something there, or says the reason that the help gives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.base.text import sentence
from textual.pilot import Pilot
from textual.widgets import Input

from lcm_tui.kit.dialogs import bound_keys
from lcm_tui.kit.lines import LineView, Scroller
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import CommandScreen
from tests.app.screens import EVERY, walk_to
from tests.app.support import NARROW, open_app, said, shown
from tests.support import sampled

#: What may change nothing that is seen: it is so already, or another program would be started.
UNSEEN = frozenset(
    {"reload", "fold-all", "unfold-all", "elsewhere", "edit-outside", "pane", "mark-by-cleaner"}
)
#: How often it is looked what a key did, a hundredth of a second each.
LOOKS = 100
#: Those that the database of the test has something for.
SCREENS = [name for name in EVERY if name not in {"OperationScreen", "SnapshotScreen"}]
#: What leaves the screen; their tests are elsewhere.
LEAVING = frozenset({"back", "quit"})


def state(pilot: Pilot[int], screen: CommandScreen) -> tuple[object, ...]:
    """What an operator would see to have changed."""
    selected = [view.selected for view in screen.query(LineView)]
    tops = [view.scroll_offset.y for view in screen.query(Scroller)]
    focus = screen.focused
    return pilot.app.screen, shown(pilot), len(said(pilot)), selected, tops, focus, screen.asking


async def changed(pilot: Pilot[int], screen: CommandScreen, before: tuple[object, ...]) -> bool:
    """Whether something changes, at once or soon; a prompt or a question that waits is a change, too."""
    for _ in range(LOOKS):
        await pilot.pause()
        if pilot.app._typed.resting and state(pilot, screen) != before:
            return True
        await asyncio.sleep(0.01)
    return False


async def again(pilot: Pilot[int], screen: CommandScreen, name: str) -> CommandScreen:
    """Back on the screen; it is opened again when it was left."""
    for _ in range(4):
        if pilot.app.screen is screen and not screen.asking:
            return screen
        if screen not in pilot.app.screen_stack:
            break
        before = state(pilot, screen)
        await pilot.press("escape")
        await changed(pilot, screen, before)
    while len(pilot.app.screen_stack) > 2:
        before = state(pilot, screen)
        await pilot.press("escape")
        await changed(pilot, screen, before)
    found = await walk_to(pilot, name)
    assert isinstance(found, CommandScreen)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(SCREENS, ["BriefsScreen"]))
async def test_each_key_of_a_screen_does_something_or_says_why_not(openclaw_home: Path, name: str):
    silent: list[str] = []
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home, size=NARROW) as pilot:
        screen = await walk_to(pilot, name)
        if not isinstance(screen, CommandScreen):
            return
        for command in screen.commands:
            if command in LEAVING | UNSEEN:
                continue
            if isinstance(screen.focused, Input):  # where letters are text
                await pilot.press("tab")
            reason, key = screen.why_not(command), screen.told(command).key.split(",")[0]
            pilot.app.notices.clear()
            before = state(pilot, screen)
            noted = len(said(pilot))
            await pilot.press(key)
            if not await changed(pilot, screen, before):
                silent.append(command)
            words = said(pilot)[noted:]
            if command == "search":  # says it where one types: what is typed then is no command
                words.append(screen.prompt.line.problem)
            if reason is not None:
                assert reason in words or sentence(reason) in words, (command, words)
            assert not [one for one in words if "is not a key here" in one], command
            screen = await again(pilot, screen, name)
    # The text that a review leads to holds what it shows once: there is no other match.
    assert silent == (["next", "previous-match"] if name == "SourceScreen" else [])


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(SCREENS, ["BriefsScreen"]))
async def test_each_moving_key_of_a_help_moves(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home, size=NARROW) as pilot:
        screen = await walk_to(pilot, name)
        if not isinstance(screen, CommandScreen):
            return
        first = screen.moved_in()[0]
        moves = getattr(first, "moves", ())
        assert moves, "the help has nothing to say of the pane in front"
        if isinstance(first, TextView) and first.virtual_size.height <= first.size.height:
            moves = ()  # all of it is in sight
        if isinstance(first, LineView) and len(first.keys) < 2:
            moves = ()
        still: list[str] = []
        for ids, what in moves:
            keys = [bound_keys(first)[one].split(",")[0] for one in ids]
            moved = False
            # A short message has nothing to fold.
            rows = first.keys[:8] if isinstance(first, LineView) and ids == ("fold", "unfold") else []
            for row in rows or [None]:
                if isinstance(first, LineView) and row is not None:
                    first.select(row)
                before = state(pilot, screen)
                for key in (*reversed(keys), *keys):
                    if not moved:
                        await pilot.press(key)
                        moved = await changed(pilot, screen, before)
            if not moved:
                still.append(what)
        assert not still
