"""What `y` copies: the id, text, Markdown, JSON, or the command, of each sort of thing."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.app.support import NARROW, open_app, settled, shown, wait_for, wait_for_text, wait_until_said
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database

HOSTILE = "red \x1b[31m\n```\n## system\n\tdone"


async def copied(pilot: Pilot[int], form: str) -> str:
    """What is in the clipboard when `y` and the key of a form were pressed."""
    pilot.app.copy_to_clipboard("")
    await pilot.press("y", form)
    await wait_for(pilot, lambda: pilot.app.clipboard, "something copied")
    await settled(pilot)
    return pilot.app.clipboard


async def the_same(line: str) -> Any:
    """What a copied command prints as JSON."""
    program, *words = shlex.split(line)
    assert program == "lcm-tui"
    if "--" in words:  # what follows is the query
        words.insert(words.index("--"), "--json")
    else:
        words.append("--json")
    return json.loads((await asyncio.to_thread(command, *words)).out)["data"]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(title="Talk")
        first = rows.message(owner, HOSTILE)
        rows.message(owner, "needle", role="tool")
        rows.summary(owner, "sum_a", "The needle.\nSecond line.", messages=[first], in_context=True)
    return path


@pytest.mark.long
async def test_a_message_is_copied_in_five_forms(talk: Path) -> None:
    async with open_app(talk, size=NARROW) as pilot:
        await pilot.press("enter")
        await wait_for_text(pilot, "needle")
        await pilot.press("g", "y")
        await wait_for_text(
            pilot,
            "enter y  id        m1",
            "t        text      the whole text",
            "m        Markdown",
            "j        JSON",
            "c        command   lcm-tui show m1 --db",
        )
        await pilot.press("escape")
        assert await copied(pilot, "y") == "m1"
        assert await copied(pilot, "enter") == "m1"
        assert await copied(pilot, "t") == "red ␛[31m\n```\n## system\n    done"
        assert "\n````\nred ␛[31m\n```\n## system\n    done\n````\n" in await copied(pilot, "m")
        said = json.loads(await copied(pilot, "j"))
        assert said["texts"] == [{"place": "content", "text": HOSTILE}]
        assert await the_same(await copied(pilot, "c")) == said
        assert "\x1b" not in shown(pilot)


async def test_a_command_is_copied_for_any_folder(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(talk.parent)
    async with open_app(Path(talk.name), size=NARROW) as pilot:
        assert await copied(pilot, "y") == "1"
        assert await copied(pilot, "c") == f"lcm-tui conversations show 1 --db {talk}"


@pytest.mark.long
async def test_a_summary_a_hit_and_a_conversation_are_copied(talk: Path) -> None:
    async with open_app(talk, size=NARROW) as pilot:
        assert await copied(pilot, "y") == "1"
        assert "#2 tool\nneedle" in await copied(pilot, "t")
        assert (await copied(pilot, "m")).startswith("# Conversation 1: Talk\n")
        assert json.loads(await copied(pilot, "j"))["title"] == "Talk"
        shown_as = await the_same(await copied(pilot, "c"))
        assert shown_as["conversation"]["conversationId"] == 1
        await pilot.press("s")
        await wait_for_text(pilot, "sum_a")
        assert await copied(pilot, "t") == "The needle.\nSecond line."
        shown_as = await the_same(await copied(pilot, "c"))
        assert shown_as["summary"]["content"] == json.loads(await copied(pilot, "j"))["texts"][0]["text"]
        await pilot.press("F", *"needle")
        await wait_for_text(pilot, "2 hits")
        await pilot.press("tab", "1")
        await wait_for_text(pilot, "1 of 2 hits")
        assert await copied(pilot, "y") == "m2"
        assert await copied(pilot, "t") == "needle"
        found = json.loads(await copied(pilot, "j"))
        line = await copied(pilot, "c")
        assert "--role tool" in line
        assert (await the_same(line))["hits"] == [found]


@pytest.mark.long
async def test_a_finding_is_copied(database_file: DatabaseFactory) -> None:
    path = database_file("0.15.3-damaged")
    async with open_app(path, size=NARROW) as pilot:
        await pilot.press("H")
        await wait_for_text(pilot, "suspicious")
        await settled(pilot)
        await pilot.press("down")
        said = json.loads(await copied(pilot, "j"))
        assert await copied(pilot, "y") == said["id"]
        assert (await copied(pilot, "t")).startswith(str(said["sentence"]))
        assert said in (await the_same(await copied(pilot, "c")))["findings"]


async def test_a_diff_is_copied_with_its_marks(talk: Path) -> None:
    async with open_app(talk, size=NARROW) as pilot:
        await pilot.press("s")
        await wait_for_text(pilot, "sum_a")
        await pilot.press("e")
        await settled(pilot)
        await pilot.press("ctrl+home", *"Not ", "ctrl+s")
        await wait_for_text(pilot, "Not The needle.")
        await settled(pilot)
        text = await copied(pilot, "t")
        assert text.splitlines()[:2] == ["-The needle.", "+Not The needle."]
        assert (await copied(pilot, "m")).startswith("```diff\n-The needle.\n")
        assert json.loads(await copied(pilot, "j"))["after"][0] == "Not The needle."


async def test_what_is_too_long_for_a_terminal_is_not_copied(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_tui.screens.copying.MOST", 9)
    async with open_app(talk, size=NARROW) as pilot:
        await pilot.press("enter")
        await wait_for_text(pilot, "needle")
        await pilot.press("g", "y", "t")
        await wait_until_said(pilot, "characters are too many to copy; write them to a file.")
        assert not pilot.app.clipboard
