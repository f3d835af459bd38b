"""[ and ] step through the operations that changed a conversation; the past is read-only, and compared."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.operations.past_point import Point

from lcm_tui.kit import places
from lcm_tui.screens.context import ContextScreen
from tests.app.support import (
    NARROW,
    at,
    conversation,
    open_app,
    said,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
)
from tests.app.test_history import changed
from tests.app.test_plan_screen import NODE, OTHER
from tests.change.support import dump
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory
from tests.databases import connect

OWNER = 1


@pytest.fixture
async def dissolved(database_copy: DatabaseFactory) -> tuple[Path, str]:
    """A database with one operation, which dissolved a summary of a conversation."""
    path = database_copy("0.15.3")
    [operation] = await changed(path, (OWNER, NODE))
    return path, operation


def items_of(screen: ContextScreen) -> list[int | str | None]:
    return list(screen.items.view.items.refs)


@pytest.mark.long
async def test_the_context_steps_back_and_forth(dissolved: tuple[Path, str]):
    path, _ = dissolved
    rows = dump(path)
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.open_place(places.Context(conversation(pilot, OWNER)))
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Context ")
        now = items_of(screen)
        assert NODE not in now
        assert screen.why_not("hunk-next") == "this is the present"
        screen.steps.press(1)
        assert screen.why_not("hunk-next") is None, "a step forward counts while one back is being read"
        screen.steps.press(-1)
        await wait_for(pilot, lambda: not screen.moving, "the present")
        assert items_of(screen) == now
        await pilot.press("[")
        await wait_for_text(pilot, "as it was before 20", ": Dissolve ", "past, read-only", NODE[:12])
        assert NODE in items_of(screen)
        assert not screen.items.new_below, "what was there before has not come now"
        assert "cannot be changed" in (screen.why_not("dissolve") or "")
        assert not {"dissolve", "compact"} & set(screen.in_key_bar()), "what the past can never do"
        await settled(pilot)
        assert screen.assembly.ledger is not None
        assert NODE in {one.origin.summary_id for one in screen.assembly.ledger.assembled.messages}
        await pilot.press("[")
        await wait_for_text(pilot, "as it was before the compaction of 2026-03-04 11:59:24", "[ ] 2 of ")
        await wait_for(pilot, lambda: not screen.moving, "the other moment")
        assert "host compacted into" in " ".join(screen.explained().split())
        await pilot.press(*"[" * 8)
        await wait_for_text(pilot, "10 of 10 moments back")
        await pilot.press("[")
        await wait_for(pilot, lambda: any("before the oldest change" in one for one in said(pilot)))
        await wait_for(pilot, lambda: not screen.moving, "the other moment")
        assert not any(isinstance(one, str) for one in items_of(screen))
        await pilot.press(*"]" * 12)
        await wait_for(pilot, lambda: items_of(screen) == now, "the present")
        await wait_for(pilot, lambda: not screen.query("#past"), "no bar")
        await wait_for(pilot, lambda: screen.why_not("hunk-next") == "this is the present")
    assert dump(path) == rows


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [(60, 15), NARROW])
async def test_what_is_not_known_of_a_moment_has_room_in_a_line(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        await settled(pilot)
        await pilot.press("[")
        await wait_for_text(pilot, " ! What the host compacted later is shown as its sources.")
        doubts = [line for line in shown_lines(pilot) if line.startswith(" ! ")]
        assert len(doubts) == 2
        assert not any(line.rstrip().endswith("…") for line in doubts)
        assert " · ? details" in shown(pilot)
        assert "sum_bb692ab9b90b6a49" in pilot.app.screen.explained(), "the help names them"


@pytest.mark.long
async def test_no_press_is_lost(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    await changed(path, (1, NODE), (1, OTHER))
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.open_place(places.Summaries(conversation(pilot, OWNER)))
        await settled(pilot)
        screen = pilot.app.screen
        assert at(screen, "Summary DAG")
        await pilot.press("[", "[")
        await wait_for_text(pilot, "[ ] 2 of ", ": Dissolve ", NODE[:8])
        await settled(pilot)
        assert NODE in screen.lines.known.ids
        await pilot.press("]")
        await wait_for_text(pilot, "[ ] 1 of ", ": Dissolve ")
        await settled(pilot)
        assert NODE not in screen.lines.known.ids
        await pilot.press("]", "]", "]")
        await wait_for(pilot, lambda: not screen.query("#past"), "no bar")
        assert OTHER not in screen.lines.known.ids


@pytest.mark.long
@pytest.mark.parametrize("place", [places.Context, places.Summaries])
async def test_esc_leads_to_the_present_then_to_the_screen_before(
    dissolved: tuple[Path, str], place: type[places.Context | places.Summaries]
):
    path, operation = dissolved
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        first = pilot.app.screen
        screen = pilot.app.open_place(place(conversation(pilot, OWNER)))
        await settled(pilot)
        assert "esc Present" not in shown(pilot)
        await pilot.press("[", "[")
        await wait_for_text(pilot, "[ ] 2 of ", "esc Present")
        await pilot.press("escape")
        await wait_for(pilot, lambda: not screen.query("#past"), "the present")
        assert "esc Present" not in shown(pilot)
        await pilot.press("[")
        await wait_for_text(pilot, "[ ] 1 of ")
        await pilot.press("]")
        await wait_for(pilot, lambda: not screen.query("#past"), "the present")
        await settled(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is first, "the screen before")
        pilot.app.open_place(places.Earlier(place(conversation(pilot, OWNER)), Point(operation)))
        await wait_for_text(pilot, "as it was before")
        await settled(pilot)
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen is first, "where the past was opened")


@pytest.mark.long
async def test_what_is_opened_from_the_past_is_of_the_past(dissolved: tuple[Path, str]):
    path, operation = dissolved
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("U")
        await wait_for(pilot, lambda: at(pilot.app.screen, "History"), "the history")
        await settled(pilot)
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"), "the DAG")
        await wait_for_text(pilot, ": Dissolve ", NODE[:8])
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        await wait_for_text(pilot, ": Dissolve ", NODE[:8])
        await settled(pilot)
        await pilot.press("D", "enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "), "the comparison")
        await wait_for_text(pilot, f"- before {operation} (", "1 only in the first")
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context "), "the context")
        context = pilot.app.screen
        assert at(context, "Context ")
        about, _, past = context.explained().partition("This is the past, as it was before")
        assert about.startswith(context.HELP)
        assert past


async def test_what_nobody_knows_stands_above_the_rows(dissolved: tuple[Path, str]):
    path, operation = dissolved
    with connect(path) as connection:
        connection.execute(
            "DELETE FROM context_items WHERE conversation_id = ? AND summary_id IN "
            "(SELECT parent_summary_id FROM summary_parents)",
            (OWNER,),
        )
        connection.execute(
            "DELETE FROM context_items WHERE conversation_id = ? AND summary_id NOT NULL", (OWNER,)
        )
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.open_place(places.Context(conversation(pilot, OWNER)))
        await settled(pilot)
        await pilot.press("[")
        await wait_for_text(pilot, "! The context is not as operation")
        assert operation in " ".join(pilot.app.screen.explained().split())


async def test_without_a_history_there_is_no_past(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.open_place(places.Summaries(conversation(pilot, 7)))
        await settled(pilot)
        await pilot.press("[")
        await wait_for(pilot, lambda: any("No change by lcm-tui" in one for one in said(pilot)))


@pytest.mark.long
async def test_a_change_waits_until_the_other_moment_is_shown(
    dissolved: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
):
    path, _ = dissolved
    rows = dump(path)
    may_go_on = asyncio.Event()
    fetch = ContextScreen.fetch

    async def held_up(screen: ContextScreen) -> object:
        await may_go_on.wait()
        return await fetch(screen)

    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.open_place(places.Context(conversation(pilot, OWNER)))
        await settled(pilot)
        screen = pilot.app.screen
        monkeypatch.setattr(ContextScreen, "fetch", held_up)
        for there in (True, False):  # to the past, and back
            may_go_on.clear()
            await pilot.press("[" if there else "]", "d")
            await wait_for(pilot, lambda: any("nother moment is being read" in one for one in said(pilot)))
            assert pilot.app.screen is screen
            may_go_on.set()
            await wait_for(pilot, lambda: not screen.moving, "the other moment")
            pilot.app.notices.clear()
            await wait_for(pilot, lambda there=there: ("as it was before" in shown(pilot)) is there)
        assert "another moment" not in (screen.why_not("dissolve") or "")
    assert dump(path) == rows


@pytest.mark.long
async def test_a_compaction_of_ours_is_one_step_and_the_first_to_compare_with(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    path = database_copy("0.15.3")
    passes = ("--until-under", "2k", "--model", "extractive", "--apply", "--yes")
    done = await asyncio.to_thread(command, "compact", OWNER, *passes, "--db", path)
    assert done.code == 0, done.err
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context 1"), "the context")
        await settled(pilot)
        screen = pilot.app.screen
        after = items_of(screen)
        await pilot.press("[")
        await wait_for_text(
            pilot, ": Compact 10 messages", "[ ] 1 of ", " · then to now: items -10 +1, summaries +1, "
        )
        assert len(items_of(screen)) == len(after) + 9
        await pilot.press("[")
        await wait_for_text(pilot, "as it was before the compaction of 2026-03-04 11:59:24", "[ ] 2 of ")
        await pilot.press("]", "]")
        await wait_for(pilot, lambda: items_of(screen) == after, "the present")
        await wait_for(pilot, lambda: not screen.moving, "the present")
        await pilot.press("D")
        await wait_for_text(pilot, "  1 summary made")
        offered = [one.title for one in screen.prompt.list.keys]
        assert not any("Note the compaction" in one for one in offered)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Compare "), "the comparison")
        await wait_for_text(pilot, "- before the compaction of ", "only in the first")
