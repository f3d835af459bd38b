"""A session that only the disk knows: its transcript, whatever its size, damage or growth."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from lcm_host.sessions import list_sessions, path_of
from textual.pilot import Pilot

from lcm_tui.screens.disk_session import DiskSessionScreen
from tests.app.support import (
    NARROW,
    go_to,
    open_app,
    said,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory

WINDOW = 420

TOTAL = 900


def entry(number: int, text: object, **others: object) -> dict[str, object]:
    return {
        "type": "message",
        "id": f"e{number}",
        "parentId": f"e{number - 1}" if number else None,
        "timestamp": f"2026-03-01T00:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "message": {"role": "user" if number % 2 else "assistant", "content": text},
        **others,
    }


def write(path: Path, entries: Iterable[object]):
    header = {"type": "session", "version": 3, "id": "the-session", "timestamp": "2026-03-01T00:00:00.000Z"}
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *entries)))
    [session] = list_sessions(path.parent).sessions
    return session


def append(session, *entries: object) -> None:
    with path_of(session).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def long_session(folder: Path):
    return write(folder / "long.jsonl", (entry(number, f"entry {number}") for number in range(TOTAL)))


async def open_session(pilot: Pilot[int], session) -> DiskSessionScreen:
    screen = await go_to(pilot, DiskSessionScreen(session))
    await wait_for(pilot, lambda: screen.messages.keys or "no entries" in screen.messages.empty)
    return screen


def held(screen: DiskSessionScreen) -> list[int]:
    keys = list(screen.messages.keys)
    assert len(keys) <= WINDOW
    assert keys == list(range(keys[0], keys[-1] + 1))
    return keys


@pytest.mark.long
async def test_the_newest_entry_comes_first_and_the_others_by_paging(
    long_session, database_file: DatabaseFactory
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_session(pilot, long_session)
        assert screen.messages.selected == TOTAL - 1
        await wait_for_text(pilot, f"entry {TOTAL - 1}", "Session on disk  the-session")
        await wait_for_text(pilot, f"{TOTAL} entries")
        seen: set[int] = set()
        while screen.messages.selected != 0:
            await wait_for(pilot, lambda: not screen.pane.extending)
            held(screen)
            seen |= set(screen.messages.visible_keys)
            await pilot.press("pageup")
        assert seen | set(screen.messages.visible_keys) == set(range(TOTAL))
        await pilot.press("G")
        await wait_for(pilot, lambda: screen.messages.selected == TOTAL - 1)
        await pilot.press("g")
        await wait_for(pilot, lambda: screen.messages.selected == 0)
        assert screen.selected_id() == "e0"


@pytest.mark.long
async def test_what_a_host_appends_is_followed(long_session, database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = await open_session(pilot, long_session)
        append(long_session, entry(TOTAL, "something new"))
        await wait_for_text(pilot, "something new", f"{TOTAL + 1} entries")
        assert screen.messages.selected == TOTAL - 1
        assert TOTAL in screen.messages._fresh
        for number in range(TOTAL + 1, TOTAL + 1000):
            append(long_session, entry(number, f"more {number}"))
        await wait_for_text(pilot, f"{TOTAL + 1000:,} entries")
        held(screen)
        assert screen.messages.selected == TOTAL - 1
        await pilot.press("g")
        await wait_for(pilot, lambda: screen.messages.selected == 0)
        before = shown(pilot).split("\n")[1:]
        append(long_session, entry(TOTAL + 1000, "unseen"))
        await wait_for_text(pilot, f"{TOTAL + 1001:,} entries")
        assert shown(pilot).split("\n")[1:] == before


@pytest.mark.long
async def test_a_transcript_that_is_rewritten_or_goes_is_told(long_session, database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = await open_session(pilot, long_session)
        write(path_of(long_session), (entry(number, f"another {number}") for number in range(5)))
        await wait_for_text(pilot, "another 4")
        await wait_until_said(pilot, "was rewritten")
        assert screen.title_bar.note.startswith("5 entries")
        assert held(screen) == [0, 1, 2, 3, 4]
        path_of(long_session).unlink()
        await wait_for(pilot, lambda: any("no session file" in note for note in said(pilot)))
        await settled(pilot)
        assert "another 4" in shown(pilot)
        assert sum("no session file" in note for note in said(pilot)) == 1


@pytest.mark.long
async def test_opened_entries_are_whole_and_stay_so(folder: Path, database_file: DatabaseFactory):
    session = write(
        folder / "a.jsonl",
        [
            entry(0, "x" * 3_000 + " THE END"),
            entry(1, [{"type": "thinking", "thinking": "because"}, {"type": "text", "text": "so"}]),
            entry(2, [{"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a.py"}}]),
            entry(3, "") | {"message": {"role": "toolResult", "toolCallId": "c", "content": "text"}},
            entry(4, [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]),
        ],
    )
    async with open_app(database_file("0.15.3")) as pilot:
        screen = await open_session(pilot, session)
        await wait_for_text(pilot, "▸ reasoning: because", "→ #3", "← #2", "▣ image · image/png · 3 bytes")
        await pilot.press("g", "enter")
        await wait_for_text(pilot, "THE END")
        append(session, entry(5, "news"))
        await wait_for(pilot, lambda: 5 in screen.messages.keys)
        await settled(pilot)
        await wait_for_text(pilot, "THE END")
        assert "reading the rest" not in shown(pilot)
        await pilot.press("enter")
        assert "THE END" not in shown(pilot)
        await pilot.press("l")
        assert screen.messages.opened == {0}
        await pilot.press("z")
        assert not screen.messages.opened


@pytest.mark.long
async def test_a_search_reads_all_entries(long_session, database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        screen = await open_session(pilot, long_session)
        await pilot.press("slash", *"ENTRY", "space", *"12", "enter")
        met = []
        for _ in range(11):
            await settled(pilot)
            met.append(screen.messages.selected)
            await pilot.press("n")
        assert met == [*range(129, 119, -1), 12]
        await wait_until_said(pilot, "Continued from the newest message.")
        assert screen.messages.selected == 129
        await pilot.press("N")
        await wait_for(pilot, lambda: screen.messages.selected == 12)
        held(screen)


async def test_damage_is_counted_and_shown_in_its_place(folder: Path, database_file: DatabaseFactory):
    session = write(folder / "a.jsonl", [entry(0, "first")])
    with path_of(session).open("ab") as file:
        file.write(b"{broken\n\xff\xfe not json\n")
    append(session, entry(1, "second \x1b[31m [red]x[/] \u202e"), entry(2, "left", parentId="e0"))
    async with open_app(database_file("0.15.3")) as pilot:
        await open_session(pilot, session)
        await wait_for_text(pilot, "2 unreadable lines", "1 on abandoned branches", "left")
        assert "second" not in shown(pilot)


@pytest.mark.long
async def test_an_empty_transcript_says_so(folder: Path, database_file: DatabaseFactory):
    session = write(folder / "a.jsonl", [])
    async with open_app(database_file("0.15.3")) as pilot:
        screen = await open_session(pilot, session)
        await wait_for_text(pilot, "This session has no entries.")
        await pilot.press("enter", "y", "g", "G", "down", "n", "slash", "x", "enter")
        await settled(pilot)
        assert screen.selected_id() is None
        append(session, entry(0, "a beginning"))
        await wait_for_text(pilot, "a beginning")


@pytest.mark.long
async def test_the_keys_lead_back_and_say_what_they_cannot_do(long_session, database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        first = pilot.app.screen
        screen = await open_session(pilot, long_session)
        await pilot.press("n")
        await wait_until_said(pilot, "search first: / finds text")
        await pilot.press("y")
        await wait_until_said(pilot, f"Copied e{TOTAL - 1}")
        await pilot.press("slash", "x", "escape")
        assert pilot.app.screen is screen
        await pilot.press("escape")
        assert pilot.app.screen is first


@pytest.mark.long
async def test_browsing_a_transcript_changes_nothing_in_its_folder(
    long_session, database_file: DatabaseFactory
):
    def traces() -> list[tuple[str, int, int]]:
        return [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns)
            for path in (path_of(long_session).parent, path_of(long_session))
        ]

    before = traces()
    async with open_app(database_file("0.15.3")) as pilot:
        await open_session(pilot, long_session)
        await pilot.press("g", "enter", "G")
        await settled(pilot)
    assert traces() == before
