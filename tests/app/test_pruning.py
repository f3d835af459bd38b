"""Conversations marked in the list, archived, deleted with an export, and brought back."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from lcm_core.change import commit as committing
from lcm_core.operations.disk import VacuumEstimate, estimate_vacuum
from lcm_core.operations.export import default_folder, read_conversation_file
from textual.pilot import Pilot

from lcm_tui.flows import prune as delete_module
from lcm_tui.screens import space
from lcm_tui.screens.preview import PlanScreen
from tests.app.host import Host
from tests.app.support import (
    NARROW,
    at,
    open_app,
    said,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import changed, dump
from tests.cli.support import run as command_line
from tests.cli.test_disk import a_host_on, with_space
from tests.cli.test_removing import host_appends
from tests.conftest import DatabaseFactory
from tests.databases import column, run, value

IDS = "SELECT conversation_id FROM conversations ORDER BY 1"


pytestmark = pytest.mark.usefixtures("no_offer")


async def marking(pilot: Pilot[int], *conversations: int):
    await settled(pilot)
    screen = pilot.app.screen
    assert at(screen, "Conversations")
    for one in conversations:
        assert screen.list.table.select(one)
        await pilot.press("space")
    await settled(pilot)
    return screen


async def previewed(pilot: Pilot[int], key: str) -> PlanScreen:
    await pilot.press(key)
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen))
    await settled(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, PlanScreen)
    return screen


@pytest.mark.long
async def test_marked_conversations_are_exported_deleted_and_brought_back(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before, ids = dump(path), column(path, IDS)
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, 7, 5)
        assert "● 2 marked" in shown(pilot)
        assert "●7" in shown(pilot)
        plan = await previewed(pilot, "X")
        assert "Delete 2 conversations" in shown(pilot)
        assert column(path, IDS) == ids
        await pilot.press("m")
        await wait_for_text(pilot, "[Diff]", "-▌== ")
        texts = plan.view.diff.diff
        assert (len(texts.new), texts.text(frozenset())) == (0, ""), "rows that only go leave no line behind"
        await pilot.press("a")
        await wait_for_text(pilot, "Give the space back?")
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
        await settled(pilot)
        assert 7 not in screen.list.table.keys
        assert "marked" not in shown(pilot)
        await wait_until_said(pilot, "conversation-7-")
    assert column(path, IDS) == [one for one in ids if one not in (5, 7)]
    assert len(column(path, "SELECT DISTINCT batch FROM lcm_tui_operations")) == 1
    files = sorted(default_folder().glob("*.jsonl"))
    assert {read_conversation_file(one).conversation_id for one in files} == {5, 7}
    for one in files:
        back = await asyncio.to_thread(command_line, "import", one, "--db", path, "--apply", "--yes")
        assert back.code == 0
    assert changed(before, dump(path)) == set()


async def test_a_refused_deletion_offers_no_other_mode_of_it(database_copy: DatabaseFactory):
    async with open_app(database_copy("1.0-next"), size=NARROW) as pilot:
        await marking(pilot, 1)
        await previewed(pilot, "X")
        await wait_for_text(pilot, "refused", "archive the conversation", "the worker died")
        assert "erase permanently" not in shown(pilot)
        assert "^r Preview again" in shown(pilot)


@pytest.mark.long
async def test_each_warning_of_a_deletion_is_whole_on_its_line(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await marking(pilot, 3)
        plan = await previewed(pilot, "X")
        lines = [line.strip() for line in shown(pilot).splitlines()]
        assert [line for line in lines if line.startswith("!")] == [
            "! File 3.7 MB, about 318.1 KB less after a VACUUM; 6 large files, 61.1 KB.",
            "! Large files stay on the disk, and no row names them any more.",
            "! Export 406.4 KB, undo 52.6 KB: both take disk space until you remove them.",
            "! Exported to ~/.local/share/lcm-tui/exports first.",
        ]
        await pilot.press("a")
        await wait_for(pilot, lambda: plan is not pilot.app.screen)
    [export] = default_folder().glob("*.jsonl")
    assert abs(export.stat().st_size - 406_400) < 1_000
    kept = (default_folder().parent / "operations").iterdir()
    assert 45_000 < sum(one.stat().st_size for one in kept) < 53_000


@pytest.mark.long
async def test_a_deletion_offers_the_space_and_the_large_files(database_copy: DatabaseFactory):
    path = with_space(database_copy("0.15.3"))
    other = value(path, "SELECT file_id FROM large_files WHERE conversation_id = 1")
    folder = path.parent / "lcm-files"
    (folder / "1").mkdir()
    (folder / "1" / f"{other}.txt").touch()
    async with open_app(path, size=NARROW, state_dir=path.parent) as pilot:
        screen = await marking(pilot, 3)
        await previewed(pilot, "X")
        [freed] = re.findall(r"about [0-9.]+ [KM]B less", shown(pilot))
        size = path.stat().st_size
        await pilot.press("a")
        await wait_for_text(pilot, "Give the space back?", "It takes about", "free on this disk", "not now")
        assert freed in " ".join(re.sub("│", "", shown(pilot)).split()), "the preview said the same"
        await pilot.press("a")
        await wait_for_text(pilot, "Remove 2 large files (10.0 KB)? This cannot be undone.", "not now")
        assert path.stat().st_size < size
        await pilot.press("a")
        await wait_for_text(pilot, "type how many they are to remove for good (2)")
        await pilot.press("2", "enter")
        await wait_until_said(pilot, "10.0 KB are free again.")
        assert pilot.app.screen is screen
    assert sorted(one.stem for one in folder.glob("[13]/*")) == sorted([other, "file_00112233aabbccde"])


@pytest.mark.long
async def test_the_space_is_not_offered_over_a_screen_that_was_opened_meanwhile(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path, measuring, go_on = database_copy("0.15.3"), threading.Event(), threading.Event()

    def estimated_slowly(of: Path) -> VacuumEstimate:
        measuring.set()
        go_on.wait()
        return estimate_vacuum(of)

    monkeypatch.setattr(space, "estimate_vacuum", estimated_slowly)
    async with open_app(path, size=NARROW) as pilot:
        await marking(pilot, 3)
        await previewed(pilot, "X")
        await pilot.press("a")
        await wait_for(pilot, measuring.is_set)
        await pilot.press("ampersand")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Disk"))
        go_on.set()
        await wait_until_said(pilot, "Disk (&) can give space back now.")
        assert at(pilot.app.screen, "Disk")


@pytest.mark.long
async def test_beside_a_host_a_deletion_says_why_no_space_is_given_back(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, 1)
        await previewed(pilot, "X")
        with a_host_on(path):
            await pilot.press("a")
            await wait_until_said(pilot, "Stop it first. The space was not given back.")
        assert pilot.app.screen is screen


@pytest.mark.long
async def test_what_a_cleaner_of_the_engine_selects_is_marked(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "UPDATE conversations SET active = 0 WHERE conversation_id = 4")
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, 7)
        await pilot.press("asterisk")
        await wait_for_text(pilot, "sub-agents: 1 conversation")
        await pilot.press("2")
        await settled(pilot)
        assert list(screen.marks.keys) == [7, 6]
        await pilot.press("asterisk")
        await wait_for_text(pilot, "every one of them: 2 conversations")
        await pilot.press("v")
        await settled(pilot)
        assert set(screen.marks.keys) == {7, 6, 4}


async def test_without_marks_the_selected_one_is_archived(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot)
        assert screen.list.table.select(7)
        await previewed(pilot, "K")
        await pilot.press("a")
        await wait_for(pilot, lambda: pilot.app.screen is screen)
    assert value(path, "SELECT active FROM conversations WHERE conversation_id = 7") == 0


@pytest.mark.long
async def test_what_is_forgotten_is_warned_of_typed_and_in_no_file(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    word = b"quagmirezwieback"
    run(path, f"UPDATE messages SET content = content || ' {word.decode()}' WHERE conversation_id = 7")
    for words in (("reindex",), ("conversations", "archive", 7), ("conversations", "archive", 1)):
        done = await asyncio.to_thread(command_line, *words, "--db", path, "--apply", "--yes")
        assert done.code == 0
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, 7)
        plan = await previewed(pilot, "X")
        await pilot.press("1")
        await wait_for_text(
            pilot, "Forget conversation 7", "erase permanently (NO UNDO)", "! This cannot be undone"
        )
        await settled(pilot)
        before = dump(path)
        for typed in ("8", "y"):
            await pilot.press("a")
            await wait_for(pilot, lambda: plan.asking, "the question")
            assert "type the number of the conversation" in shown(pilot)
            await pilot.press(typed, "enter")
            await wait_until_said(pilot, "The answer does not match; nothing was changed.")
        await pilot.press("a", "7", "escape")
        assert not plan.asking
        await pilot.press("slash", "7", "enter")
        await settled(pilot)
        assert pilot.app.screen is plan, "a search agrees to nothing"
        assert dump(path) == before
        await pilot.press("a", "7", "enter")
        await wait_for(pilot, lambda: pilot.app.screen is screen, "the list")
        await settled(pilot)
        assert 7 not in screen.list.table.keys
        assert "Erased: Operations removed from the history: 1. The file was rewritten (VACUUM)." in said(
            pilot
        )
    assert column(path, "SELECT conversation_id FROM lcm_tui_operations") == [1]
    assert not default_folder().exists()
    files = [*path.parent.rglob("*"), *Path.home().rglob("*")]
    assert not [one for one in files if one.is_file() and word in one.read_bytes()]


async def test_what_a_host_adds_to_a_deletion_of_many_parts_is_planned_before_any(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    of_it = "SELECT count(*) FROM messages WHERE conversation_id = 1"
    messages = value(path, of_it)
    with Host(path) as host:
        async with open_app(path, size=NARROW) as pilot:
            await marking(pilot, 1)
            plan = await previewed(pilot, "X")
            await pilot.press("1", "a")
            await wait_for(pilot, lambda: plan.asking, "the question")
            before = plan.view.shown
            host.say(1, "while it is typed")
            await wait_for(pilot, lambda: plan.view.shown is not before, "another plan")
            await pilot.press("1", "enter")
            await wait_until_said(pilot, "planned again while you typed")
            assert value(path, of_it) == messages + 1
            await pilot.press("1")  # an undo is kept again
            await wait_for_text(pilot, "delete with export and undo", "preview: not applied yet")
            await settled(pilot)
            held = plan.view.shown
            host.say(1, "while it is looked at")
            await wait_for(pilot, lambda: plan.view.shown is not held, "another plan")
            await settled(pilot)
            assert "The database changed, so this was planned again: what goes was" in shown(pilot)
            await pilot.press("a")
            await wait_for(pilot, lambda: pilot.app.screen is not plan, "the list")
    assert value(path, of_it) == 0
    [export] = default_folder().iterdir()
    assert len(read_conversation_file(export).rows["messages"]) == messages + 2


async def test_a_deletion_that_stops_on_its_way_says_what_is_done_of_it(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path = database_copy("0.15.3")
    messages = value(path, "SELECT count(*) FROM messages")
    real, calls = committing.commit, []

    def commit(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            host_appends(path, 1)
        return real(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", commit)
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, 1)
        await previewed(pilot, "X")
        await pilot.press("a")
        await wait_until_said(pilot, "and what they took comes back with an undo. The rest is still there.")
        await wait_for_text(pilot, " applied, the rest not yet")
        await settled(pilot)
        await pilot.press("escape")
        await settled(pilot)
        assert pilot.app.screen is screen, "no space is offered"
        await previewed(pilot, "u")
        await pilot.press("a")
        await wait_for(pilot, lambda: value(path, "SELECT count(*) FROM messages") == messages + 1)


async def test_a_refusal_is_shown_and_nothing_is_written(database_copy: DatabaseFactory):
    path = database_copy("0.3.0")
    before = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        await marking(pilot, 3)
        await previewed(pilot, "K")
        assert "before 0.6" in shown(pilot)
        await pilot.press("a", "escape")
    assert changed(before, dump(path)) == set()
    assert not default_folder().exists()


async def test_a_mark_goes_with_its_conversation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "INSERT INTO conversations (session_id) VALUES ('soon gone')")
    new = max(column(path, IDS))
    async with open_app(path, size=NARROW) as pilot:
        screen = await marking(pilot, new, 7)
        await pilot.press("space")
        assert list(screen.marks.keys) == [new]
        run(path, f"DELETE FROM conversations WHERE conversation_id = {new}")
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: new not in screen.list.table.keys)
        assert list(screen.marks.keys) == []


async def test_what_is_too_much_for_a_screen_is_said(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delete_module, "MOST_ROWS", 100)
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await marking(pilot, 1)
        await previewed(pilot, "X")
        assert "lcm-tui conversations delete 1" in " ".join(shown(pilot).split())


@pytest.mark.long
async def test_what_is_marked_is_named_when_it_is_not_what_is_selected(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        await pilot.press("space", "down", "K")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen), "the preview")
        await wait_until_said(pilot, "about the marked conversations (1), not the selected one")
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, PlanScreen), "the list")
        await pilot.press("escape")
        await settled(pilot)
        assert "marked" not in shown(pilot).splitlines()[0]
