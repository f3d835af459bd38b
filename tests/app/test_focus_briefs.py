"""Focus briefs from the app: swept for, written by hand or by a model, put in force, cleared, deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database, plan_undo_batch
from lcm_core.base.files import drafts_folder
from lcm_core.change.commit import commit
from lcm_core.change.journal import operations
from textual.pilot import Pilot
from textual.screen import ModalScreen

from lcm_tui.screens.preview import PlanScreen
from tests.app.support import (
    NARROW,
    at,
    open_app,
    settled,
    shown,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.change.support import dump, reading, undo
from tests.cli.test_focus_command import BRIEF, EVIDENCE, KEY, SUMMARY, statuses
from tests.conftest import DatabaseFactory
from tests.databases import value
from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import Fail

QUESTION = "The lease?"


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody is asked about backups."""
    own = tmp_path / "own.toml"
    own.write_text("backup_offer_mb = 0\n")
    monkeypatch.setenv("LCM_TUI_CONFIG", str(own))
    return own


def ask(own: Path, server: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings name a model."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    model = f'[summary]\nprovider = "anthropic"\nmodel = "test-1"\nbase_url = "{server.url}"\n'
    own.write_text(f"backup_offer_mb = 0\n{model}")


async def briefs_of(pilot: Pilot[int], owner: int) -> Any:
    first = pilot.app.screen
    assert at(first, "Conversations")
    await settled(pilot)
    assert first.list.table.select(owner)
    await pilot.press("b")
    screen = await in_front(pilot, "Focus briefs")
    await settled(pilot)
    return screen


async def in_front(pilot: Pilot[int], place: str) -> Any:
    await wait_for(pilot, lambda: at(pilot.app.screen, place), place)
    await settled(pilot)
    return pilot.app.screen


async def preview(pilot: Pilot[int]) -> None:
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, PlanScreen), "a preview")
    await settled(pilot)


async def new_brief(pilot: Pilot[int]) -> Any:
    await pilot.press("ctrl+n", *QUESTION, "enter")
    return await in_front(pilot, "Focus brief ")


async def undone(path: Path, batch: str) -> None:
    async with await Database.open(path) as database:
        plans = await database.read(plan_undo_batch, batch)
    for plan in plans:
        commit(path, plan)


@pytest.mark.long
async def test_a_text_of_ones_own_goes_through_the_preview(path: Path):
    before = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        screen = await briefs_of(pilot, 1)
        assert screen.why_not("rewrite") == "no focus brief is active"
        draft = await new_brief(pilot)
        await wait_for_text(pilot, "nothing to compact", "4 summaries, 965 tokens", "There is no text yet.")
        await wait_for_text(pilot, "No model is configured", "a Write ")
        assert "no model is configured" in (draft.why_not("rewrite") or "")
        await pilot.press("a")
        await wait_for_text(pilot, " Edit ")
        await settled(pilot)
        await pilot.press(*"45 s", "ctrl+s")
        await in_front(pilot, "Focus brief ")
        await wait_for_text(pilot, "1 token", "964 saved", "you (manual)")
        await pilot.press("a")
        await preview(pilot)
        await wait_for_text(pilot, "replace 4", "focus_brief_sources +4; focus_briefs +1", "[Brief]", " 45 s")
        assert shown(pilot).count("Ordinals do not change.") == 1
        assert dump(path) == before
        await pilot.press("a")
        await in_front(pilot, "Focus briefs")
        assert screen.list.selected is not None
        assert (screen.list.selected.brief.content, screen.list.selected.is_active) == ("45 s", True)
    assert statuses(path, 1) == ["active"]
    [done] = await reading(path, lambda reader: reader.run(operations, limit=1))
    await asyncio.to_thread(undo, path, done.id)
    assert dump(path) == before


@pytest.mark.long
async def test_sweep_text_and_brief_are_one_batch(
    path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
):
    before = dump(path)
    with MessagesApi(SUMMARY, EVIDENCE, BRIEF) as server:
        ask(settings, server, monkeypatch)
        async with open_app(path, size=NARROW) as pilot:
            await briefs_of(pilot, 2)
            draft = await new_brief(pilot)
            await wait_for_text(pilot, "1 pass, 2,235 →", "2 calls")
            assert "sweep comes first" in (draft.why_not("edit") or "")
            assert not server.received
            await pilot.press("a")
            passes = await in_front(pilot, "Compact ")
            await pilot.press("A")
            await wait_for(pilot, lambda: passes.compaction.made and not passes.compaction.running)
            await pilot.press("escape")
            await in_front(pilot, "Focus brief ")
            await wait_for_text(pilot, "nothing to compact")
            await pilot.press("a")
            await wait_for(pilot, lambda: draft.work.draft is not None and not draft.work.busy)
            await settled(pilot)
            await wait_for_text(pilot, "names kept; invented:", "The lease is 45 s ")
            assert len(list(drafts_folder().glob("brief_*"))) == 1
            await pilot.press("a")
            await preview(pilot)
            await pilot.press("a")
            await in_front(pilot, "Focus briefs")
            await settled(pilot)
        assert len(server.received) == 3
    assert list(drafts_folder().glob("brief_*")) == []
    assert statuses(path, 2) == ["superseded", "failed", "superseded", "active"]
    done = await reading(path, lambda reader: reader.run(operations, limit=9))
    assert len({one.batch for one in done}) == 1
    await undone(path, done[0].batch)
    assert dump(path) == before


@pytest.mark.long
async def test_a_call_that_fails_writes_nothing_and_a_paid_draft_is_found_again(
    path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
):
    before = dump(path)
    with MessagesApi(Fail(400, message="no such thing"), EVIDENCE, BRIEF) as server:
        ask(settings, server, monkeypatch)
        async with open_app(path, size=NARROW) as pilot:
            await briefs_of(pilot, 2)
            draft = await new_brief(pilot)
            await pilot.press("1")
            await wait_for_text(pilot, "skipped; the engine would sweep first")
            await pilot.press("a")
            await wait_for_text(pilot, "no such thing")
            await pilot.press("a")
            await wait_for(pilot, lambda: draft.work.draft is not None and not draft.work.busy)
            await pilot.press("escape")
            await in_front(pilot, "Focus briefs")
            again = await new_brief(pilot)
            assert again.work.draft is not None
            await wait_for_text(pilot, "The lease is 45 s ")
        assert len(server.received) == 3
    assert dump(path) == before


@pytest.mark.long
async def test_cleared_activated_and_deleted_each_by_its_preview(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    async with open_app(path, size=NARROW) as pilot:
        screen = await briefs_of(pilot, 2)
        assert screen.why_not("activate") == "this brief is active"
        await wait_for_text(pilot, "stale: newer: 71 messages, 4 summaries", "208 saved")
        await pilot.press("K")
        await preview(pilot)
        await wait_for_text(pilot, "The engine then sweeps: 1 pass")
        await pilot.press("a")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await wait_for_text(pilot, "1 pass, 2,235 → ~1,245 tokens, cost nothing")
        await pilot.press("a")
        passes = await in_front(pilot, "Compact ")
        [cleared] = await reading(path, lambda reader: reader.run(operations, limit=1))
        assert passes.compaction.batch == cleared.batch
        await pilot.press("escape")
        await in_front(pilot, "Focus briefs")
        assert statuses(path, 2) == ["superseded", "failed", "inactive"]
        await pilot.press("j")
        assert screen.why_not("activate") == "this brief has no text"
        await pilot.press("j", "asterisk")
        await preview(pilot)
        await pilot.press("a")
        await in_front(pilot, "Focus briefs")
        assert statuses(path, 2) == ["active", "failed", "inactive"]
        await pilot.press("r")
        await in_front(pilot, "Focus brief ")
        await pilot.press("escape")
        await in_front(pilot, "Focus briefs")
        await pilot.press("X")
        await preview(pilot)
        await wait_for_text(pilot, "It is active")
        await pilot.press("a")
        await in_front(pilot, "Focus briefs")
    assert statuses(path, 2) == ["failed", "inactive"]


async def test_an_engine_without_briefs_says_so(database_copy: DatabaseFactory):
    async with open_app(database_copy("0.8.2"), size=NARROW) as pilot:
        screen = await briefs_of(pilot, 1)
        for command in ("new-brief", "rewrite", "archive"):
            assert "has no focus briefs" in (screen.why_not(command) or "")
        await pilot.press("ctrl+n")
        await wait_until_said(pilot, "has no focus briefs")


async def test_a_hostile_question_is_drawn_as_text(path: Path):
    async with open_app(path, size=NARROW) as pilot:
        await briefs_of(pilot, 1)
        await pilot.press("ctrl+n", *"[bold]{{x}}", "enter")
        draft = await in_front(pilot, "Focus brief ")
        await wait_for_text(pilot, "[bold]{{x}}")
        await draft.session.read(draft.work.take, "\x1b]0;owned\x07 \u202e [red]text")
        await wait_for_text(pilot, "[red]text")
    assert value(path, "SELECT count(*) FROM focus_briefs WHERE conversation_id = 1") == 0


@pytest.mark.long
async def test_a_failed_call_can_be_recorded_as_the_engine_does(
    path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
):
    before = dump(path)
    with MessagesApi(Fail(401, "authentication_error")) as server:
        ask(settings, server, monkeypatch)
        async with open_app(path, size=NARROW) as pilot:
            await briefs_of(pilot, 1)
            draft = await new_brief(pilot)
            assert draft.why_not("choice-2") == "no call has failed"
            await pilot.press("1")
            await settled(pilot)
            await pilot.press("a")
            await wait_for(pilot, lambda: draft.work.failed is not None and not draft.work.busy)
            await wait_for_text(pilot, "2: record the failed call as a failed brief")
            assert dump(path) == before
            await pilot.press("2")
            await preview(pilot)
            await wait_for_text(pilot, "focus_brief_sources +4; focus_briefs +1")
            await pilot.press("a")
            await in_front(pilot, "Focus brief ")
            await wait_for_text(pilot, "The failed call is recorded.")
            assert draft.why_not("choice-2") == "no call has failed"
    assert statuses(path, 1) == ["failed"]
    [done] = await reading(path, lambda reader: reader.run(operations, limit=1))
    await asyncio.to_thread(undo, path, done.id)
    assert dump(path) == before
