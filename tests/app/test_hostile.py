"""Text of the database is data: on no screen is it obeyed, hidden, or allowed to shift a column."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from tests.app import hostile
from tests.app.screens import WAYS, leave, open_screen
from tests.app.support import at, open_app, resize, said, settled, strips, wait_for
from tests.support import sampled, unpack_database

#: Control, format and surrogate characters, line and paragraph separators, noncharacters.
FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"}
#: What is visible or harmless but has no agreed width: variation selectors, skin tones, fillers.
SHIFTING = re.compile(
    "[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef\U0001f3fb-\U0001f3ff\u3164\uffa0\u115f\u1160]"
)
#: A format character by its category, but a visible sign: it spans the digits after it.
VISIBLE_FORMAT = "\u0600"


def unsafe_in(text: str) -> set[str]:
    """The characters of a drawn text that a terminal would obey, hide, or draw with a width of its own."""
    found = {sign for sign in text if unicodedata.category(sign) in FORBIDDEN and sign not in VISIBLE_FORMAT}
    return found | set(SHIFTING.findall(text))


def check(pilot: Pilot[int]) -> str:
    """The whole screen, which is harmless, and every line of it exactly as wide as the screen."""
    assert pilot.app._exception is None
    width, height = pilot.app.size
    lines = [strip.text for strip in strips(pilot)]
    assert len(lines) == height
    for number, line in enumerate(lines):
        assert not unsafe_in(line), f"line {number}: {line!r}"
        assert cell_len(line) == width, f"line {number}: {line!r}"
    return "\n".join(lines)


@pytest.fixture(scope="module")
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """State folders that are read by all tests of this module: one kind of harm each."""

    def home(kind: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"hostile-{kind}"
        if not folder.exists():
            (folder / "agents" / "main" / "sessions").mkdir(parents=True)
            path = unpack_database("0.15.3", folder / "lcm.db")
            hostile.history(path)
            (hostile.sprinkled if kind == "sprinkled" else hostile.flooded)(path)
            hostile.file(folder)
            hostile.transcript(folder / "agents" / "main" / "sessions" / "feedface-0000-4000-8000-1.jsonl")
        return folder

    return home


#: Names of tables alone; a summary whose text the flood left as it was.
QUIET = frozenset({"DiskScreen", "TraceScreen"})


async def walk(pilot: Pilot[int], screen, rows: int) -> str:
    """Go over the rows of a screen, unfold what can be, and go to the end of its texts: all it showed."""
    seen = []
    for _ in range(rows):
        await pilot.press("down")
        seen.append(check(pilot))
    await settled(pilot)  # what belongs to the selected row has been read by then
    seen.append(check(pilot))
    other = "" if type(screen).__name__ == "SentScreen" else "m"  # there it opens the stored item
    keys = ("right", "Z", "pagedown", "right", "end", "w", other, "tab", "end", "tab", "home")
    for key in filter(None, keys):
        await pilot.press(key)
        seen.append(check(pilot))
    await settled(pilot)
    assert pilot.app.screen is screen
    return "\n".join([*seen, check(pilot)])


@pytest.mark.long
async def test_every_screen_opens_on_harm_and_obeys_none(hostile_home: Callable[[str], Path]):
    """All screens in one session; the next test goes over the rows and through the sizes as well."""
    home = hostile_home("flooded")
    async with open_app(home / "lcm.db", state_dir=home, size=(120, 40)) as pilot:
        harmless = set()
        for name in WAYS:
            await open_screen(pilot, name)
            if not re.search("␛|‹U[+]|‹0x", check(pilot)):
                harmless.add(name)
            await leave(pilot)
        assert harmless <= {"ItemScreen", "HealthScreen", *QUIET}, "the harm is there to be seen"


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", sampled(["flooded", "sprinkled"], ["flooded"]))
@pytest.mark.parametrize("name", sampled(WAYS, ["ItemScreen", "HistoryScreen"]))
async def test_no_screen_obeys_the_text_that_it_shows(
    hostile_home: Callable[[str], Path], name: str, kind: str
):
    home = hostile_home(kind)
    async with open_app(home / "lcm.db", state_dir=home, size=(120, 40)) as pilot:
        screen = await open_screen(pilot, name)
        check(pilot)
        seen = await walk(pilot, screen, rows=8)
        assert kind == "sprinkled" or name in QUIET or re.search("␛|‹U[+]|‹0x", seen), (
            "the harm is there to be seen"
        )
        for size in ((80, 24), (41, 12)):
            await resize(pilot, *size)
            check(pilot)
        if isinstance(pilot.app.focused, Input):
            await pilot.press("tab")
        await pilot.press("y", "y")
        await wait_for(pilot, lambda: said(pilot), "a word about the id")
        await pilot.pause()
        check(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        check(pilot)


@pytest.mark.long
async def test_every_hostile_id_can_be_copied_and_pastes_as_one_line(hostile_home: Callable[[str], Path]):
    """Lone surrogates and line breaks in an id: whichever of the operations is selected."""
    home = hostile_home("flooded")
    async with open_app(home / "lcm.db", state_dir=home, size=(120, 40)) as pilot:
        screen = await open_screen(pilot, "HistoryScreen")
        assert at(screen, "History")
        copied = []
        for key in screen.list.table.keys:
            screen.list.table.select(key)
            await pilot.press("y", "y")
            await settled(pilot)
            copied.append(pilot.app.clipboard)
        await settled(pilot)
        check(pilot)
    assert len(set(copied)) > len(hostile.SAMPLES)
    assert not [text for text in copied if unsafe_in(text)]


@pytest.mark.long
async def test_texts_of_twelve_million_characters_stop_no_screen(tmp_path: Path):
    """Lists draw their beginning, and of a text no more is laid out than is seen."""
    path = hostile.enormous(unpack_database("0.15.3", tmp_path / "lcm.db"))
    async with open_app(path, state_dir=tmp_path, size=(80, 24)) as pilot:
        for name in ("ConversationScreen", "DagScreen", "ContextScreen", "ItemScreen"):
            screen = await open_screen(pilot, name)
            for key in ("end", "home"):
                await pilot.press(key)
                await settled(pilot)
                check(pilot)
            assert pilot.app.screen is screen
            await leave(pilot)
