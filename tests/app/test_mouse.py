"""What a person would click: the title, bars, ids, answers; and notes that go with their screen."""

from __future__ import annotations

from textual.pilot import Pilot
from textual.widget import Widget

from lcm_tui.dialogs.question import Question
from lcm_tui.screens.context.screen import ContextScreen
from lcm_tui.screens.conversations.screen import ConversationsScreen
from lcm_tui.screens.dag.screen import DagScreen
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.composition import CompositionBar
from lcm_tui.widgets.text import Block, TextView
from tests.app.screens import open_screen
from tests.app.support import NARROW, open_app, settled, shown, shown_lines, wait_for, wait_for_text
from tests.conftest import DatabaseFactory


async def click_text(pilot: Pilot[int], text: str, within: type[Widget] | str) -> None:
    """Click the middle of *text*, which stands on the screen within a widget."""
    region = pilot.app.screen.query_one(within).region
    lines = shown_lines(pilot)
    for y in range(region.y, region.bottom):
        at = lines[y].find(text)
        if at >= 0:
            await pilot.click(offset=(at + len(text) // 2, y))
            return
    raise AssertionError(f"{text!r} is not in {within}:\n{shown(pilot)}")


async def test_the_position_leads_to_the_end_of_the_list(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ContextScreen")
        assert isinstance(screen, ContextScreen)
        await pilot.press("g")
        await wait_for_text(pilot, "1 of 28")
        await click_text(pilot, "1 of 28", TitleBar)
        await wait_for_text(pilot, "28 of 28")


async def test_a_part_of_the_bar_leads_to_its_first_item(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        screen = await open_screen(pilot, "ContextScreen")
        assert isinstance(screen, ContextScreen)
        await pilot.press("G")
        await pilot.click(CompositionBar, offset=(0, 0))
        await wait_for(pilot, lambda: isinstance(screen.item(), str), "the first summary")
        await pilot.click(CompositionBar, offset=(79, 0))
        await wait_for(pilot, lambda: isinstance(screen.item(), int), "the messages of the last part")
        assert "tool" in shown_lines(pilot)[0] or screen.items.ordinal is not None


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
        await wait_for_text(pilot, "sum_0000000000000000 is not a summary of this database.")
        assert pilot.app.screen is screen
        await click_text(pilot, "sum_e3abe9b12886b92b", "#text")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, DagScreen))
        await settled(pilot)
        assert pilot.app.screen.selected_id() == "sum_e3abe9b12886b92b"


async def test_a_click_on_an_answer_gives_it(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        answers: list[str | None] = []
        for words in ("delete the file", "keep it", "Sure?"):
            question = Question(
                "Sure?", (), (("1", "delete the file"), ("2", "something else")), leave="keep it"
            )
            await pilot.app.push_screen(question, answers.append)
            await pilot.pause()
            await click_text(pilot, words, TextView)
            await pilot.pause()
        assert answers == ["1", ""]
        assert pilot.app.screen is question


async def test_what_a_screen_said_in_passing_goes_with_it(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await open_screen(pilot, "FilesScreen")
        pilot.app.notify("A summary was rewritten.", timeout=12)
        await pilot.press("left_curly_bracket", "d")
        await wait_for_text(pilot, "is not a key here", "A summary was rewritten.")
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ConversationsScreen))
        await wait_for(pilot, lambda: "is not a key here" not in shown(pilot), "the note to go")
        assert "A summary was rewritten." in shown(pilot)
