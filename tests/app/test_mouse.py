"""What a person would click: the title, bars, ids, answers; and notes that go with their screen."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from lcm_tui.kit.bars import TitleBar
from lcm_tui.kit.dialog import Answers
from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.places import is_id_of
from lcm_tui.kit.spans import Block
from lcm_tui.kit.text import TextView
from lcm_tui.screens.message_pane import MessageList
from lcm_tui.screens.preview import PlanScreen
from tests.app.screens import leave, open_screen, walk_to
from tests.app.support import (
    NARROW,
    WIDE,
    at,
    open_app,
    settled,
    shown,
    shown_lines,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.cli.support import run as command
from tests.conftest import DatabaseFactory


async def click_text(pilot: Pilot[int], text: str, within: type[Widget] | str, *, last: bool = False) -> None:
    """Click the middle of *text*, which is on the screen within a widget, the first or the *last*."""
    region = pilot.app.screen.query(within).first().region
    lines = shown_lines(pilot)
    rows = range(region.y, region.bottom)
    for y in reversed(rows) if last else rows:
        at = lines[y].rfind(text) if last else lines[y].find(text)
        if at >= 0:
            await pilot.click(offset=(at + len(text) // 2, y))
            return
    raise AssertionError(f"{text!r} is not in {within}:\n{shown(pilot)}")


async def test_the_position_leads_to_the_end_of_the_list(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ContextScreen")
        assert at(screen, "Context ")
        await pilot.press("g")
        await wait_for_text(pilot, "1 of 28")
        await click_text(pilot, "1 of 28", TitleBar)
        await wait_for_text(pilot, "28 of 28")


async def test_one_click_on_the_mark_unfolds_and_one_folds(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await open_screen(pilot, "ConversationScreen")
        await pilot.press("end")
        await settled(pilot)
        assert "message_id" not in shown(pilot)
        await click_text(pilot, "▸ ", MessageList)
        await wait_for_text(pilot, "▾ ", "message_id ")
        await asyncio.sleep(0.6)  # else it is a double click
        await click_text(pilot, "▾ ", MessageList)
        await wait_for(pilot, lambda: "message_id" not in shown(pilot))


async def test_the_other_half_of_a_call_is_gone_to_where_it_is_named(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ConversationScreen")
        await pilot.press("end")
        await settled(pilot)
        await click_text(pilot, "→ #135", MessageList)
        await wait_for(pilot, lambda: screen.pane.list.selected == 135, "the result")
        await click_text(pilot, "← #134", MessageList)
        await wait_for(pilot, lambda: screen.pane.list.selected == 134, "the call")


async def test_enter_on_a_short_message_shows_its_columns(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ConversationScreen")
        await pilot.press("end")
        await settled(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, f"message_id {screen.selected_id()} · seq ", "token_count ")


@pytest.mark.long
async def test_a_part_of_the_head_leads_to_its_first_item(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ContextScreen")
        assert at(screen, "Context ")
        await pilot.press("G")
        await settled(pilot)
        line = shown_lines(pilot)[2]
        await pilot.click("#head", offset=(line.index("summaries") + 3, 1))
        await wait_for(pilot, lambda: isinstance(screen.item(), str), "the first summary")
        await pilot.click("#head", offset=(line.index("fresh tail") + len("fresh tail 2"), 1))
        await wait_for(pilot, lambda: isinstance(screen.item(), int), "the first message of the tail")
        assert screen.items.ordinal == screen.items.view.tail.first_ordinal


@pytest.mark.long
async def test_an_id_in_a_text_leads_to_the_summary(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "PreviousScreen")
        text = screen.query_one("#text", TextView)
        text.show(
            (
                Block("as sum_e3abe9b12886b92b says"),
                Block("and sum_0000000000000000"),
            )
        )
        await pilot.pause()
        await click_text(pilot, "as ", "#text")
        await click_text(pilot, "sum_0000000000000000", "#text")
        await wait_until_said(pilot, "Nothing in this database is called sum_0000000000000000.")
        assert pilot.app.screen is screen
        await click_text(pilot, "sum_e3abe9b12886b92b", "#text")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await settled(pilot)
        assert pilot.app.screen.selected_id() == "sum_e3abe9b12886b92b"


@pytest.mark.long
async def test_a_click_on_an_answer_gives_it(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        answers: list[str | None] = []
        for words in ("delete the file", "keep it", "Sure?"):
            question = Question(
                "Sure?", (), (("1", "delete the file"), ("2", "something else")), leave="keep it"
            )
            await pilot.app.push_screen(question, answers.append)
            await pilot.pause()
            await click_text(pilot, words, TextView if words == "Sure?" else Answers)
            await pilot.pause()
        assert answers == ["1", ""]
        assert pilot.app.screen is question


@pytest.mark.long
async def test_an_id_in_a_row_opens_what_it_names_and_that_of_the_row_the_row(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    done = await asyncio.to_thread(
        command, "dissolve", 1, "--summary", "sum_4c4bd5", "--db", path, "--apply", "--yes"
    )
    assert done.code == 0
    async with open_app(path, size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("U")
        await wait_for_text(pilot, "Dissolve summary sum_4c4bd5292abfa225")
        history = pilot.app.screen
        await click_text(pilot, str(history.query_one(LineView).selected), LineView)
        await wait_for(pilot, lambda: at(pilot.app.screen, "Operation "))
        await settled(pilot)
        # Of the dissolved summary there is no row any more; one that came in its place is in the DAG.
        name = next(row.ref for row in pilot.app.screen.view.ordinals.keys if row.old is None)  # type: ignore[attr-defined]
        await pilot.press("m")
        await wait_for_text(pilot, f"context of 1: {name}")
        await click_text(pilot, f"context of 1: {name}"[-8:], "#diff")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await settled(pilot)
        assert pilot.app.screen.selected_id() == name
        await click_text(pilot, "Summary DAG", TitleBar)  # the title goes back
        await wait_for(pilot, lambda: at(pilot.app.screen, "Operation "))


@pytest.mark.parametrize(
    ("name", "own", "same"),
    [
        ("m47", "47", True),
        ("m47", "4711", False),
        ("msg#47", "msg#47@1f3a", True),
        ("msg#47", "msg#471@1f3a", False),
        ("sum_4c4b…", "sum_4c4bd5292abfa225", True),
        ("sum_4c4bd5292abfa225", "sum_4c4bd5292abfa225", True),
        ("sum_4c4b", "m4711", False),
    ],
)
def test_a_name_in_a_row_is_that_of_the_row_or_of_another(name: str, own: str, same: bool):
    assert is_id_of(name, own) is same


@pytest.mark.long
async def test_each_conversation_of_a_card_opens_itself(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=(80, 20)) as pilot:
        home = pilot.app.screen
        assert at(home, "Conversations")
        await wait_for(pilot, lambda: len(home.outlooker.outlook.nearest) > 1, "the fullest contexts")
        await settled(pilot)
        first, second, *_ = home.outlooker.outlook.nearest
        for one in (second, first):
            await click_text(pilot, " % of", "#panel", last=one is second)
            await wait_for(pilot, lambda: at(pilot.app.screen, "Context "))
            assert pilot.app.screen.conversation.conversation_id == one.conversation_id  # type: ignore[attr-defined]
            await pilot.press("escape")
            await wait_for(pilot, lambda: pilot.app.screen is home)
            await settled(pilot)


@pytest.mark.long
async def test_keys_and_bars_of_a_preview_and_the_hint_of_an_empty_list(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        screen = await walk_to(pilot, "PlanScreen")
        assert isinstance(screen, PlanScreen)
        await wait_for_text(pilot, "keep the dissolved summary in the database: no")
        await click_text(pilot, "keep the", "#head")  # beside the key: nothing
        await pilot.click("#head", offset=(2, 0))
        await wait_for_text(pilot, "keep the dissolved summary in the database: yes")
        await pilot.click("#head", offset=(2, 0))
        await wait_for_text(pilot, "keep the dissolved summary in the database: no", "after ")
        lines = shown_lines(pilot)
        y = next(y for y, line in enumerate(lines) if line.startswith(" after"))
        await pilot.click(offset=(lines[y].rindex("█"), y))
        await wait_for(pilot, lambda: screen.view.ordinals.cursor == 4, "the first tool message")
        await pilot.click(offset=(lines[y].index("█"), y))
        await wait_for(pilot, lambda: screen.view.ordinals.cursor == 3, "the first D2 that stays")
        await leave(pilot)
        await settled(pilot)
        history = await walk_to(pilot, "HistoryScreen", of=3)
        await pilot.press("T")
        await wait_for_text(pilot, "No changes in this conversation yet. T shows all conversations.")
        await click_text(pilot, " T ", LineView)
        await wait_for(pilot, lambda: not history.list.narrowed)
