"""Every screen of the app and the keys that lead to it from the list of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from lcm_tui.screens.frame import CommandScreen
from tests.app.support import at, settled, wait_for

#: Class of the screen, the conversation it is opened on, and what to press from the list of conversations.
#: Keys in one string, with blanks between them, lead to one screen.
#: A None in place of the conversation stands for the first session that only the disk knows.
WAYS: Mapping[str, tuple[int | None, tuple[str, ...]]] = MappingProxyType(
    {
        "ConversationsScreen": (3, ()),
        "ConversationScreen": (3, ("enter",)),
        "DagScreen": (3, ("s",)),
        "ExpansionScreen": (6, ("s", "greater_than_sign")),
        "ContextScreen": (3, ("c",)),
        "ItemScreen": (3, ("c", "enter")),
        "SentScreen": (3, ("c", "m enter")),
        "SnapshotsScreen": (3, ("c", "at")),
        "CompareScreen": (3, ("c", "D # 2 enter")),
        "PreviousScreen": (6, ("s", "slash a 8 e 1 9 enter p")),
        "TraceScreen": (6, ("s", "L")),
        "FilesScreen": (3, ("f",)),
        "FileScreen": (3, ("f", "enter")),
        "BriefsScreen": (3, ("b",)),
        "BriefDraftScreen": (3, ("b", "ctrl+n q enter")),
        "PlanScreen": (3, ("c", "d")),
        "CompactingScreen": (3, ("C",)),
        "HealthScreen": (3, ("H",)),
        "HistoryScreen": (3, ("U",)),
        "EngineScreen": (3, ("Y",)),
        "DiskScreen": (3, ("&",)),
        "SearchScreen": (3, ("F r e d",)),
        "DraftingScreen": (3, ("R", "enter")),  # before a draft waits, which R would offer first
        "ReviewScreen": (6, ("s", "r")),
        "DiskSessionScreen": (None, ("enter",)),
    }
)

#: Further screens, which need something that the recorded database does not hold or are texts alone.
FURTHER: Mapping[str, tuple[int | None, tuple[str, ...]]] = MappingProxyType(
    {
        "TargetScreen": (3, ("t",)),
        "OperationScreen": (1, ("U", "enter")),
        "SnapshotScreen": (1, ("c", "at", "enter")),
        "SourceScreen": (6, ("s", "r", "tab end enter")),
        "MessageTraceScreen": (6, ("enter", "home L")),
        "EditScreen": (6, ("s", "r", "e")),
    }
)
EVERY: Mapping[str, tuple[int | None, tuple[str, ...]]] = MappingProxyType({**WAYS, **FURTHER})


async def open_screen(pilot: Pilot[int], name: str) -> CommandScreen:
    """Walk to a screen with commands."""
    screen = await walk_to(pilot, name)
    assert isinstance(screen, CommandScreen)
    return screen


async def walk_to(pilot: Pilot[int], name: str, *, of: int | None = None) -> Screen[Any]:
    """Press the keys that lead to a screen, each when the screen before it has shown its data.

    *of*: another conversation than usual.
    """
    conversation_id, keys = EVERY[name]
    conversation_id = of or conversation_id
    first = pilot.app.screen
    assert at(first, "Conversations")
    await settled(pilot)
    place = conversation_id or next(key for key in first.list.table.keys if isinstance(key, str))
    assert first.list.table.select(place)
    for key in keys:
        before = pilot.app.screen
        await settled(pilot)
        await pilot.press(*key.split())
        await wait_for(pilot, lambda before=before: pilot.app.screen is not before, f"a screen after {key}")
    await settled(pilot)
    screen = pilot.app.screen
    assert type(screen).__name__ == name
    return screen


async def history(pilot: Pilot[int]) -> Screen[Any]:
    """Go to the history of all conversations from wherever this is."""
    await leave(pilot)
    return await walk_to(pilot, "HistoryScreen")


async def leave(pilot: Pilot[int]) -> None:
    """Go back to the list of conversations."""
    while not at(pilot.app.screen, "Conversations"):
        await pilot.press("escape")
        await settled(pilot)
