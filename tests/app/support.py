"""What tests of the app share: opening it on a database, waiting for conditions, reading the screen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from lcm_core.api import Options, resolve
from lcm_core.base.text import sentence
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

from lcm_tui.app import LcmApp
from lcm_tui.kit.dialog import PromptLine
from lcm_tui.kit.terminal import Decision
from lcm_tui.screens.conversations import ConversationsScreen
from lcm_tui.screens.frame import CommandScreen

S = TypeVar("S", bound=Screen[Any])

WIDE = (160, 50)
MIDDLING = (120, 35)
NARROW = (80, 24)

#: Where the notices of an app are kept for `said`, by a fixture of every test of the app.
NOTED = "noted_by_tests"
#: When a condition has not come true by then, something hangs. No test measures time with it.
PATIENCE_SECONDS = 60.0
#: How often a condition is looked at; ``pilot.pause`` would send every widget a message each time.
LOOK_SECONDS = 0.01


@asynccontextmanager
async def open_app(
    path: Path,
    *,
    size: tuple[int, int] = WIDE,
    sessions: Path | None = None,
    state_dir: Path | None = None,
    budget: int | None = None,
) -> AsyncIterator[Pilot[int]]:
    """The app on a database, with tooltips, its first list loaded.

    ``pilot.app`` is the `LcmApp`. The settings are resolved from the environment as the command line does
    it, so a test sets variables before it opens the app.
    """
    options = Options(db=path, sessions=sessions, openclaw_dir=state_dir, budget=budget)
    app = LcmApp(resolve(options, os.environ, home=Path.home()))
    async with app.run_test(size=size, tooltips=True) as pilot:
        await wait_for(pilot, lambda: app.failure is not None or isinstance(app.screen, ConversationsScreen))
        if app.failure is None:
            table = first_screen(pilot).list.table
            await wait_for(pilot, lambda: bool(table.keys) or "contains no" in table.empty)
        _press_what_is_seen(pilot)
        yield pilot


def _press_what_is_seen(pilot: Pilot[int]) -> None:
    """Let ``pilot.press`` wait, as a person does, until what a key decides on has been painted."""
    press = pilot.press

    async def when_seen(*keys: str) -> None:
        for key in keys:
            await wait_for(pilot, lambda: _seen(pilot), "the screen to be painted")
            await press(key)

    vars(pilot)["press"] = when_seen


def _seen(pilot: Pilot[int]) -> bool:
    stack = pilot.app.screen_stack
    front = stack[-1] if stack else None
    if isinstance(front, Decision):
        return front.painted_at is not None
    return not isinstance(front, CommandScreen) or front._decidable[0] == front.decided_on()


def at(screen: Screen[Any], *places: str) -> bool:
    """Whether what its title bar says of a screen begins with one of *places*."""
    return getattr(screen, "where", str)().startswith(places)


async def wait_for(pilot: Pilot[int], condition: Callable[[], object], what: str = "") -> None:
    """Let the app work until *condition* is true, and what is under way then; a failure shows the screen."""
    deadline, waited = time.monotonic() + PATIENCE_SECONDS, False
    while not condition():
        if pilot.app._exception is not None:
            raise pilot.app._exception
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what or 'a condition'}; the screen:\n{shown(pilot)}")
        waited = True
        await asyncio.sleep(LOOK_SECONDS)
    if waited:
        await pilot._wait_for_screen()


async def wait_for_text(pilot: Pilot[int], *texts: str) -> None:
    """Let the app work until all of *texts* stand on the screen, each within a line."""
    await wait_for(pilot, lambda: all(text in shown(pilot) for text in texts), f"{texts!r} on the screen")


async def wait_until_refused(pilot: Pilot[int], text: str) -> None:
    """Let the app work until the prompt says *text* of what was typed, and stays open."""
    line = pilot.app.screen.query_one(PromptLine)
    await wait_for(pilot, lambda: text in line.problem, f"{text!r} above the prompt")
    assert line.display


async def settled(pilot: Pilot[int]) -> None:
    """Let the app work until every key has acted, no screen reads any more and what was read is shown."""
    for _ in range(2):
        await wait_for(pilot, lambda: not working(pilot), "the end of all reading")
        await pilot.pause()


def working(pilot: Pilot[int]) -> bool:
    """Whether a key has not acted yet, or a screen reads."""
    return not pilot.app._typed.resting or any(
        not worker.is_finished and worker.group != "watch" for worker in pilot.app.workers
    )


async def go_to(pilot: Pilot[int], screen: S) -> S:
    """Put a screen in front of the others and wait until it is there; its data may still be on its way."""
    await pilot.app.push_screen(screen)
    await wait_for(pilot, lambda: pilot.app.screen is screen and screen.is_mounted)
    return screen


async def resize(pilot: Pilot[int], width: int, height: int) -> None:
    """Give the terminal another size and wait until the whole screen is drawn in it and nothing reads."""

    def drawn() -> bool:
        lines = strips(pilot)
        return len(lines) == height and all(line.cell_length == width for line in lines)

    await pilot.resize_terminal(width, height)
    await wait_for(pilot, drawn, f"{width} by {height} cells")
    await settled(pilot)


def first_screen(pilot: Pilot[int]) -> ConversationsScreen:
    """The list of conversations, which must be in front."""
    screen = pilot.app.screen
    assert isinstance(screen, ConversationsScreen)
    return screen


def conversation(pilot: Pilot[int], conversation_id: int):
    """A conversation as the first screen, which must still be on the stack, has read it."""
    first = next(screen for screen in pilot.app.screen_stack if isinstance(screen, ConversationsScreen))
    found = first.list.rows[conversation_id].conversation
    assert found is not None
    return found


def strips(pilot: Pilot[int]) -> list[Strip]:
    """The lines of the whole screen as the terminal would get them."""
    return pilot.app.screen._compositor.render_strips()


def shown_lines(pilot: Pilot[int]) -> list[str]:
    """The text of the whole screen, line by line, trailing spaces left out."""
    return [strip.text.rstrip() for strip in strips(pilot)]


def shown(pilot: Pilot[int]) -> str:
    """The text of the whole screen."""
    return "\n".join(shown_lines(pilot))


def said(pilot: Pilot[int]) -> list[str]:
    """The notices so far, made safe; those too whose time is over."""
    assert isinstance(pilot.app, LcmApp)
    return [note.read_on(pilot.app.screen).text for note in vars(pilot.app.notices).get(NOTED, ())]


async def wait_until_said(pilot: Pilot[int], text: str) -> None:
    """Let the app work until a notice has said *text*, in capitals or not; it stands for some seconds."""
    await wait_for(
        pilot, lambda: any(text.lower() in note.lower() for note in said(pilot)), f"{text!r} to be said"
    )


async def wait_until_last_said(pilot: Pilot[int], text: str) -> None:
    """Let the app work until its newest notification is *text*."""
    await wait_for(pilot, lambda: said(pilot)[-1:] == [sentence(text)], f"{text!r} to be said last")


async def dag_on(pilot: Pilot[int], summary_id: str) -> None:
    """Open a summary in its DAG as an operator who knows its id does."""
    await pilot.press("colon", *summary_id)
    await wait_for_text(pilot, f"Summary {summary_id}")
    await pilot.press("enter")
    await wait_for_text(pilot, "Summary DAG", f"{summary_id} ·")
    await settled(pilot)
