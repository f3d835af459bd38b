"""Dialogs: what is seen beside them, their keys, their help; and the help where something is typed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from lcm_tui.flows.drafts import Asked
from lcm_tui.kit.dialog import Prompt
from lcm_tui.kit.dialogs import Question, WholeScreen
from lcm_tui.kit.spans import Block, heading
from lcm_tui.kit.text import TextView
from lcm_tui.screens.editor import EditScreen
from lcm_tui.screens.questions import AskAgain, BackupOffer, TwoTexts
from tests.app.support import (
    NARROW,
    WIDE,
    open_app,
    settled,
    shown_lines,
    wait_for,
    wait_for_text,
)
from tests.conftest import DatabaseFactory

TEXT = (Block("A text over a few lines. " * 12),)
#: How each is opened, the key of its help, and what its help says.
DIALOGS = {
    "AskAgain": (lambda: AskAgain("Draft again", "extractive", Asked()), "f1", "Next field"),
    "BackupOffer": (lambda: BackupOffer(Path("/srv/lcm.db"), 3_800_000), "question_mark", "No backup"),
    "Question": (
        lambda: Question("Write 4?", TEXT, (("m", "choose a model"),)),
        "question_mark",
        "Choose a model.",
    ),
    "TwoTexts": (lambda: TwoTexts(TEXT, TEXT, str), "question_mark", "Divider back"),
    "WholeScreen": (lambda: WholeScreen(TEXT), "f1", "Scroll by a line."),
}


def evidence(count: int):
    """Some passages, as a question to the memory shows them."""
    blocks = [(Block(), Block(f"  {one} msg#{one}"), Block("words " * 60)) for one in range(1, count + 1)]
    return (heading("Evidence"), *chain.from_iterable(blocks))


async def put(pilot: Pilot[int], dialog: Screen[Any]) -> None:
    await settled(pilot)
    await pilot.app.push_screen(dialog)
    await wait_for(pilot, lambda: pilot.app.screen is dialog and dialog.is_mounted)
    await settled(pilot)


async def help_opens(pilot: Pilot[int], key: str, *said: str) -> None:
    below = pilot.app.screen
    await pilot.press(key)
    await wait_for(
        pilot, lambda: isinstance(pilot.app.screen, ModalScreen) and pilot.app.screen is not below, "the help"
    )
    view = pilot.app.screen.query_one(TextView)
    await wait_for(pilot, lambda: all(one in view.text for one in said), f"{said} in the help")
    await pilot.press("escape")
    await wait_for(pilot, lambda: pilot.app.screen is below)


@pytest.mark.long
async def test_arrows_select_every_passage_and_the_answer_takes_the_lines_that_it_needs(
    database_file: DatabaseFactory,
):
    opened: list[int] = []
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        texts = TwoTexts((Block("Short."),), evidence(12), opened.append)
        await put(pilot, texts)
        assert texts.first.size.height <= 4
        for keys, selected in ((["down"] * 4, 5), (["G"], 12), (["down"], 12), (["up"] * 4, 8)):
            await pilot.press(*keys, "enter")
            await settled(pilot)
            assert opened.pop() == texts.second.selected == selected
            assert sum(line.count("▌") for line in shown_lines(pilot)) > 2, "it is seen which one"
        await pilot.press("4")
        await texts.show((Block("line\n" * 60),), evidence(3))
        await pilot.press("9")
        await wait_for_text(pilot, "There is no passage 9: the evidence has 3 passages.")
        assert opened == [4]
        assert texts.first.size.height > texts.second.size.height
        await pilot.press("escape")
        await wait_for(pilot, lambda: not any("no passage 9" in line for line in shown_lines(pilot)))


@pytest.mark.long
@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_nothing_of_the_screen_below_is_seen_beside_a_dialog_and_its_keys_are_its_own(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        for name, (make, key, said) in DIALOGS.items():
            dialog = make()
            await put(pilot, dialog)
            box = dialog.query_one(".box").region
            lines = shown_lines(pilot)
            beside = [line[: box.x] + line.ljust(size[0])[box.right :] for line in lines[box.y : box.bottom]]
            assert len(beside) == box.height > 2
            assert not "".join(beside).strip(), name
            bar = lines[-1]
            assert ("F1 Help" if name == "AskAgain" else "? Help") in bar, name
            assert "esc" in bar
            assert "Context" not in bar, "keys of the screen below do nothing meanwhile"
            assert lines[0].startswith(" Conversations"), "the title stays in sight"
            await help_opens(pilot, key, "Keys of this dialog", said)
            assert pilot.app.screen is dialog
            await pilot.press("escape")
            await wait_for(pilot, lambda dialog=dialog: pilot.app.screen is not dialog)


async def test_the_help_of_a_question_begins_with_its_answers_which_no_other_row_has(
    database_file: DatabaseFactory,
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        question = Question("Leave it?", TEXT, (("k", "keep it"), ("q", "quit"), ("g", "go on")))
        await put(pilot, question)
        await pilot.press("f1")
        await wait_for(pilot, lambda: pilot.app.screen is not question, "the help")
        lines = pilot.app.screen.query_one(TextView).text.splitlines()
        rows = [line.split() for line in lines[lines.index("Keys of this dialog") + 1 :]]
        assert [row[:3] for row in rows[:3]] == [["enter", "k", "Keep"], ["q", "Quit."], ["g", "Go", "on."]]
        assert rows[3][:3] == ["?", "F1", "Help"]
        later = [word for row in rows[3:] for word in row]
        assert not {"k", "q", "g"} & {*later}
        assert ["↑", "↓", "j", "Scroll"] in [row[:4] for row in rows]


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [(50, 12), (60, 15)])
async def test_the_answers_of_a_question_are_in_sight_and_its_text_scrolls(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    answers = (("a", "apply it, and go on with the next"), ("w", "choose another writer …"), ("n", "not now"))
    dialogs = {
        ("enter a", "w ", "n ", "esc "): Question("Write 40?", TEXT * 4, answers),
        ("enter a", "n ", "esc "): BackupOffer(Path("/srv/a/long/name" * 20), 3_800_000),
    }
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        for keys, dialog in dialogs.items():
            await put(pilot, dialog)
            assert all(any(line.startswith(f"│ {key}") for line in boxed(pilot)) for key in keys)
            before = boxed(pilot)
            await pilot.press("down")
            await settled(pilot)
            after = boxed(pilot)
            assert before != after
            assert before[-len(keys) :] == after[-len(keys) :]
            await pilot.press("escape")
            await wait_for(pilot, lambda dialog=dialog: not dialog.is_attached)


def boxed(pilot: Pilot[int]) -> list[str]:
    """The lines of the box."""
    return [line.strip() for line in shown_lines(pilot) if line.strip().startswith("│")]


async def test_a_question_that_was_answered_takes_no_more_words(database_file: DatabaseFactory):
    """What it waits for may still be measured when its answer comes."""
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        question = Question("Leave it?", TEXT, (("q", "quit"),))
        question.say(TEXT)
        await put(pilot, question)
        question.say((Block("So far 3."),))
        assert "So far 3." in question.query_one(TextView).text
        await pilot.press("q")
        await wait_for(pilot, lambda: not question.is_attached, "the question gone")
        question.say((Block("So far 4."),))


@pytest.mark.long
async def test_without_colours_the_screen_below_is_dim(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        dialog = Question("Quit?", TEXT, (("q", "quit"),))
        await put(pilot, dialog)
        box = dialog.query_one(".box").region
        strips = dialog._compositor.render_strips()
        above = [segment for strip in strips[: box.y] for segment in strip if segment.text.strip()]
        assert above
        assert all(
            one.style and one.style.dim and not one.style.bold and not one.style.reverse for one in above
        )


@pytest.mark.long
async def test_what_was_typed_is_there_after_the_help(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        form = AskAgain("Draft again", "extractive", Asked())
        await put(pilot, form)
        await pilot.press(*"openai?", "tab", *"http")
        await help_opens(pilot, "f1", "Writer", "Server address")
        assert form.query_one("#whom", Input).value == "openai?"
        assert form.query_one("#address", Input).value == "http"
        assert form.focused is form.query_one("#address", Input)
        await pilot.press("escape")
        await settled(pilot)
        await pilot.press("slash", *"fer?")  # a filter
        await wait_for_text(pilot, " enter Keep  F1 Help  esc Clear")
        await help_opens(pilot, "f1", "Keys while you type", "only the rows that contain every word")
        assert pilot.app.screen.query_one(Prompt).value == "fer?"
        assert pilot.app.screen.asking
        await pilot.press("escape", "c")
        await settled(pilot)
        await pilot.press("B", *"6?")  # a value
        await wait_for_text(pilot, " enter Done  F1 Help  esc Cancel")
        await help_opens(pilot, "f1", "e.g. 64k", "the line stays")
        assert pilot.app.screen.query_one(Prompt).value == "6?"
        await pilot.press("escape", "colon", *"why?")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await wait_for_text(pilot, "F1 Help")
        await help_opens(pilot, "f1", "in your own words")
        assert pilot.app.screen.query_one(Input).value == "why?"
        await pilot.press("escape")
        await settled(pilot)
        edited = EditScreen("sum_1", "one", lambda _: None)
        await put(pilot, edited)
        await pilot.press("question_mark")
        await help_opens(pilot, "f1", "Keys of the editor", "Undo, redo")
        assert edited.text == "?one"


@pytest.mark.long
@pytest.mark.parametrize("size", [(40, 10), (20, 5)])
async def test_a_dialog_fits_a_tiny_terminal(database_file: DatabaseFactory, size: tuple[int, int]):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        for make, _, _ in DIALOGS.values():
            dialog = make()
            await put(pilot, dialog)
            lines = dialog._compositor.render_strips()
            assert {line.cell_length for line in lines} == {size[0]}
            await pilot.press("escape")
            await wait_for(pilot, lambda dialog=dialog: pilot.app.screen is not dialog)
