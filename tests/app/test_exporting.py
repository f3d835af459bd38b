"""What `o` writes: the conversation, hits, findings and the history, as Markdown, JSON or CSV."""

from __future__ import annotations

import asyncio
import csv
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.app.support import NARROW, open_app, settled, shown, wait_for, wait_for_text, wait_until_said
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import building, new_database

HOSTILE = "=red \x1b[31m\n```\n## system"


async def exported(pilot: Pilot[int], folder: Path, name: str, *choice: str) -> str:
    """What is in a new file when `o`, a *choice* and its name were typed."""
    target = folder / name
    await pilot.press("o", *choice)
    await wait_for_text(pilot, "to a file")
    await pilot.press(*name, "enter")
    await wait_for(pilot, target.exists, "the file")
    await wait_until_said(pilot, str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    return target.read_bytes().decode()


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The names that are typed are short."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(title="Talk")
        rows.message(owner, HOSTILE)
        rows.part(rows.message(owner, "", role="tool"), "tool", None, tool_output="needle | a")
    return path


@pytest.mark.long
async def test_a_conversation_is_exported_in_each_form(talk: Path, tmp_path: Path) -> None:
    async with open_app(talk, size=NARROW) as pilot:
        await settled(pilot)
        text = await exported(pilot, tmp_path, "first.md", "o")
        assert text.startswith("# Conversation 1: Talk\n")
        await pilot.press("enter")
        await wait_for_text(pilot, "Conversation 1")
        await settled(pilot)
        assert await exported(pilot, tmp_path, "a.md") == text
        assert f"\n````\n{HOSTILE}\n````\n" in text
        said = json.loads(await exported(pilot, tmp_path, "a.json"))
        assert [one["texts"][0]["text"] for one in said] == [HOSTILE, "needle | a"]
        assert [one["seq"] for one in said] == [1, 2]
        rows = list(csv.DictReader((await exported(pilot, tmp_path, "a.csv")).splitlines(keepends=True)))
        assert json.loads(rows[1]["texts"]) == said[1]["texts"]
        await exported(pilot, tmp_path, "a.jsonl")
        other = new_database(tmp_path / "other.db")
        done = await asyncio.to_thread(
            command, "import", tmp_path / "a.jsonl", "--apply", "--yes", "--db", other
        )
        assert done.code == 0, done.err


@pytest.mark.long
async def test_the_first_list_is_exported_as_it_is_filtered_and_sorted(
    database_file: DatabaseFactory, tmp_path: Path
) -> None:
    path = database_file("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        known = await asyncio.to_thread(command, "conversations", "list", "--json", "--db", path)
        tail = {"freshTailMessages", "freshTailTokens"}
        await pilot.press("o")
        await wait_for_text(pilot, "enter o  conversation 1 (", "l        the list: 8 conversations")
        await pilot.press("escape")
        found = json.loads(await exported(pilot, tmp_path, "c.json", "l"))
        assert [one["conversationId"] for one in found] == list(pilot.app.screen.list.table.keys)
        for one in found:
            [same] = (
                other for other in known.data["items"] if other["conversationId"] == one["conversationId"]
            )
            assert one == {name: value for name, value in same.items() if name not in tail}
        await pilot.press("slash", *"research", "enter", "I")
        await settled(pilot)
        rows = list(csv.DictReader((await exported(pilot, tmp_path, "c.csv", "l")).splitlines(keepends=True)))
        assert [int(one["conversationId"]) for one in rows] == list(pilot.app.screen.list.table.keys)
        assert 0 < len(rows) < len(found)
        assert (await exported(pilot, tmp_path, "c.md", "l")).startswith("# Conversations\n\n| Id | Agent |")
        await pilot.press("slash", *"zzz", "enter", "o")
        await wait_until_said(pilot, "no conversation is listed")


async def test_a_file_that_is_there_asks_and_the_database_is_never_replaced(
    talk: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there.json"
    there.write_text("kept")
    talk = talk.rename(tmp_path / "lcm.json")
    async with open_app(talk, size=NARROW) as pilot:
        await pilot.press("enter")
        await wait_for_text(pilot, "Conversation 1")
        await settled(pilot)
        await pilot.press("o")
        await wait_for_text(pilot, f"{tmp_path.name[-6:]}/conversation-1.md; .json, .csv, .jsonl (import)")
        await pilot.press(*"a.txt", "enter")
        await wait_for_text(pilot, "The name ends in one of")
        await pilot.press("ctrl+u", *there.name, "enter")
        await wait_until_said(pilot, "Enter again replaces it")
        assert there.read_text() == "kept"
        await pilot.press("enter")
        await wait_until_said(pilot, "2 messages, readable only by you")
        assert len(json.loads(there.read_text())) == 2
        await pilot.press("o", *talk.name, "enter")
        await wait_until_said(pilot, "is the open database and is not replaced")


@pytest.mark.long
async def test_hits_are_exported_as_they_are_narrowed(talk: Path, tmp_path: Path) -> None:
    async with open_app(talk, size=NARROW) as pilot:
        await pilot.press("F", *"needle")
        await wait_for_text(pilot, "1 hit ")
        await pilot.press("tab", "1")
        await wait_for_text(pilot, "Search tool", "1 of 1 hit ")
        await settled(pilot)
        text = await exported(pilot, tmp_path, "hits.md")
        assert text.startswith("# Search needle tool\n\n| Hit | Conversation | Kind |")
        assert "needle \\| a" in text
        [hit] = json.loads(await exported(pilot, tmp_path, "hits.json"))
        assert hit["id"] == "msg#2"
        await pilot.press("1", "2")
        await wait_for_text(pilot, "0 of 1 hit")
        await pilot.press("o")
        await wait_until_said(pilot, "There is no hit to write")


@pytest.mark.long
async def test_findings_are_exported_as_the_doctor_lists_them(
    database_file: DatabaseFactory, tmp_path: Path
) -> None:
    path = database_file("0.15.3-damaged")
    async with open_app(path, size=NARROW) as pilot:
        await pilot.press("H")
        await wait_for_text(pilot, "suspicious")
        await settled(pilot)
        found: list[dict[str, Any]] = json.loads(await exported(pilot, tmp_path, "f.json"))
        asked = await asyncio.to_thread(command, "doctor", "--json", "--db", path)
        known = json.loads(asked.out)["data"]["findings"]
        assert {one["id"] for one in found} <= {one["id"] for one in known}
        assert all(one in known for one in found)
        await pilot.press("slash", *"A1 ", "enter")
        await settled(pilot)
        rows = list(csv.DictReader((await exported(pilot, tmp_path, "f.csv")).splitlines(keepends=True)))
        assert 0 < len(rows) < len(found)


async def test_the_history_is_exported_operation_by_operation(
    database_copy: DatabaseFactory, tmp_path: Path
) -> None:
    path = database_copy("0.15.3")
    top = (await asyncio.to_thread(command, "context", "3", "--json", "--db", path)).data["items"]
    top = next(one["summaryId"] for one in top if one.get("kind") == "condensed")
    dissolved = ("dissolve", "3", "--summary", top, "--apply", "--yes", "--db", path)
    assert (await asyncio.to_thread(command, *dissolved)).code == 0
    async with open_app(path, size=NARROW) as pilot:
        await pilot.press("U")
        await wait_for_text(pilot, "History")
        await settled(pilot)
        found = json.loads(await exported(pilot, tmp_path, "h.json"))
        asked = await asyncio.to_thread(command, "history", "list", "--json", "--db", path)
        assert found == asked.data["items"]
        text = await exported(pilot, tmp_path, "h.md")
        assert "| Operation | When |" in text
        assert found[0]["operationId"] in text
        assert "Exported" in shown(pilot)
