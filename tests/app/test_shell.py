"""What holds for the app as a whole, whatever screen is in front."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from lcm_core.api import Database, plan_archive
from lcm_core.change.commit import commit
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input

from lcm_tui.kit import commands
from lcm_tui.kit.bars import DONE_SECONDS, KeyBar, Notice, Notices, TitleBar
from lcm_tui.kit.commands import key_problems, key_title, textual_keys
from lcm_tui.kit.dialog import Dialog
from lcm_tui.kit.dialogs import reflowed
from lcm_tui.kit.help import help_rows
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import text_of
from lcm_tui.kit.text import TextView
from lcm_tui.screens.anywhere import GoTo
from lcm_tui.screens.files import FilesScreen
from lcm_tui.screens.frame import EVERYWHERE, all_keys
from lcm_tui.tables.home import PAST
from tests.app.screens import WAYS, open_screen
from tests.app.support import (
    NARROW,
    at,
    conversation,
    go_to,
    open_app,
    resize,
    said,
    settled,
    shown,
    shown_lines,
    strips,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.conftest import DatabaseFactory
from tests.support import sampled

#: A table, lines of texts, a tree, a list beside its text, a plan.
OF_EACH_KIND = ("ConversationsScreen", "ConversationScreen", "DagScreen", "ItemScreen", "PlanScreen")


async def help_text(pilot: Pilot[int]) -> str:
    await pilot.press("question_mark")
    await wait_for_text(pilot, "All help")
    await pilot.press("tab")
    await wait_for_text(pilot, "Next part")
    view = pilot.app.screen.query_one(TextView)
    await wait_for(pilot, lambda: view.text)
    await pilot.press("escape", "escape")
    await wait_for(pilot, lambda: not isinstance(pilot.app.screen, ModalScreen))
    return view.text


def write_config(**tables: dict[str, str]) -> None:
    """A config file of the user, as the next app to be opened will read it."""
    path = Path(os.environ["HOME"]) / "lcm-tui.toml"
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f'{key} = "{value}"' for key, value in table.items())]
    path.write_text("\n".join(lines))
    os.environ["LCM_TUI_CONFIG"] = str(path)


def key_problems_of(given: dict[str, str]) -> list[str]:
    """What is wrong with keys of a config file."""
    return key_problems(given, all_keys().values())


# -- leaving -----------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_the_first_screen_is_left_with_the_app(database_file: DatabaseFactory, key: str):
    async with open_app(database_file("0.15.3")) as pilot:
        await pilot.press(key)
        await wait_for(pilot, lambda: pilot.app.return_code is not None, "the end")
    assert pilot.app.return_value == 0


@pytest.mark.long
async def test_escape_never_quits(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await pilot.press("escape", "escape")
        await wait_until_said(pilot, "This is the first screen; q quits.")
        assert pilot.app.return_code is None
        pilot.app.notify("This is the first screen; q quits.", timeout=11)
        await wait_for_text(pilot, "▌This is the first screen")
        await pilot.press("colon")  # what a screen says in passing is not shown over another
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, GoTo))
        await wait_for(pilot, lambda: pilot.app.notices.standing is None)


def test_what_one_key_finished_is_said_in_one_notice():
    notices = Notices(lambda: None)
    made, applied, copied = (
        "Backup made: ~/lcm.db.backup, 3 KB.",
        "Applied: Dissolve. To undo it: u.",
        "Copied.",
    )
    for text in (made, applied):
        notices.add(Notice(text, "information", DONE_SECONDS, None, time.monotonic()))
    assert notices.standing
    assert notices.standing.text == f"{applied} {made}"
    notices.note_key()
    notices.add(Notice(copied, "information", DONE_SECONDS, None, time.monotonic()))
    assert notices.standing.text == copied


def test_the_help_repeats_what_was_done_last_for_a_minute_and_other_notices_while_they_stand():
    notices, before = Notices(lambda: None), time.monotonic() - 20
    notices.add(Notice("Done.", "information", DONE_SECONDS, None, before))
    notices.add(Notice("Done again.", "information", DONE_SECONDS, None, before))
    assert [text_of(block.spans) for block in notices.latest(None)] == ["▌Done again."]
    notices.add(Notice("In passing.", "warning", 11, None, before))
    assert not notices.latest(None)
    notices.add(Notice("Done.", "information", DONE_SECONDS, "here", time.monotonic()))
    assert notices.latest("here")
    assert not notices.latest("there"), "it was said on another screen"


def test_a_notice_leaves_the_name_and_the_state_of_the_title_in_sight():
    bar = TitleBar()
    bar.set_reactive(TitleBar.where, "Context 2  main telegram:direct:4242")
    bar.set_reactive(TitleBar.live, (PAST,))
    bar.set_reactive(TitleBar.notice, Notice(LONG, "warning", 5, None, 0.0))
    said = text_of(bar.compose_line(80))
    assert (len(said), said[:11], said[-16:]) == (80, " Context…  ", "past, read-only ")
    assert "▌A sentence that says" in said
    bar.set_reactive(TitleBar.note, "preview: not applied yet")
    said = text_of(bar.compose_line(80))
    assert said.startswith(" Context…  preview: not applied yet  ▌A sentence")


async def test_a_key_that_only_another_screen_has_says_so(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await pilot.press("r")
        await wait_until_said(pilot, f"r ({commands.REWRITE.title}) is not a key here; : lists all.")
        count = len(said(pilot))
        await pilot.press("slash", "W", "tilde", "escape")  # text of the prompt
        await settled(pilot)
        assert len(said(pilot)) == count
        for key, words in (
            ("H", "H (Health) is this"),
            ("s", "s (Summaries) is this"),
            ("c", "c (Context) is this"),
        ):
            await pilot.press(key)
            await settled(pilot)
            await pilot.press(key)
            await wait_until_said(pilot, f"{words} screen already; : lists all.")
            await pilot.press("escape")


@pytest.mark.long
async def test_a_key_that_no_screen_has_says_so_once_in_a_run(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lcm_tui.kit.bars.READ_SECONDS", 1_000.0)
    monkeypatch.setattr("lcm_tui.screens.frame.all_keys", None)  # importing all screens takes half a second
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await pilot.press("tilde")
        await wait_until_said(pilot, "~ is not a key here; ? lists the keys.")
        count = len(said(pilot))
        await pilot.press("tilde", "f2", "f3", "down")
        await settled(pilot)
        assert len(said(pilot)) == count
        pilot.app.notices.clear()
        await pilot.press("f2")
        await wait_until_said(pilot, "F2 is not a key here; ? lists the keys.")


@pytest.mark.long
@pytest.mark.parametrize("key", ["q", "escape"])
async def test_other_screens_lead_back_one_by_one(database_file: DatabaseFactory, key: str):
    async with open_app(database_file("0.15.3")) as pilot:
        first = pilot.app.screen
        first.list.table.select(3)
        files = await go_to(pilot, FilesScreen(conversation(pilot, 3)))
        await settled(pilot)
        await go_to(pilot, FilesScreen(None))
        await pilot.press(key)
        await wait_for(pilot, lambda: pilot.app.screen is files)
        await pilot.press(key)
        await wait_for(pilot, lambda: pilot.app.screen is first)
        assert first.list.table.selected == 3
        assert pilot.app.return_code is None


@pytest.mark.long
async def test_a_click_on_a_key_is_the_key(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        first = pilot.app.screen
        for title, name in {"Context": "ContextScreen", "Summaries": "DagScreen"}.items():
            await pilot.click(KeyBar, offset=(shown_lines(pilot)[-1].index(title), 0))
            await wait_for(pilot, lambda name=name: type(pilot.app.screen).__name__ == name)
            await settled(pilot)
            await pilot.click(KeyBar, offset=(shown_lines(pilot)[-1].index("esc"), 0))
            await wait_for(pilot, lambda: pilot.app.screen is first)
        await pilot.click(KeyBar, offset=(shown_lines(pilot)[-1].index(" ? ") + 1, 0))
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        await pilot.click(offset=(20, 2))  # in the text of the help
        assert isinstance(pilot.app.screen, ModalScreen)
        await pilot.click(offset=(0, 0))  # beside it
        await wait_for(pilot, lambda: pilot.app.screen is first)


@pytest.mark.long
async def test_help_says_what_the_screen_is_and_tab_goes_through_its_parts(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await pilot.press("c")
        await settled(pilot)
        explained = pilot.app.screen.explained().split()
        await pilot.press("question_mark")
        await wait_for_text(pilot, " ".join(explained[:4]), "type to filter", "tab All help")
        await pilot.press("tab")
        await wait_for_text(pilot, "What this screen shows", " ".join(explained[:4]), "tab Next part")
        await pilot.press("tab")
        await wait_for_text(pilot, "Moving on this screen", "The mouse, on every screen")
        await pilot.press("tab")
        await wait_for_text(pilot, "What this screen shows", " ".join(explained[:4]))


@pytest.mark.long
async def test_a_letter_in_the_prompt_is_a_letter(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3")) as pilot:
        await pilot.press("slash", "q", "s", "colon", "question_mark")
        await wait_for_text(pilot, "No conversation matches")
        assert pilot.app.screen.query_one(Input).value == "qs:?"
        await pilot.press("escape")
        await wait_for(pilot, lambda: len(pilot.app.screen.list.table.keys) == 8)
        assert pilot.app.return_code is None


# -- help and palette --------------------------------------------------------------------------------------


def done_by(screen, command: str) -> bool:
    """Whether a screen says what a command does."""
    named = f"action_{command.replace('-', '_')}"
    return screen.ALL_KEYS[command].run is not None or callable(getattr(screen, named, None))


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(WAYS, OF_EACH_KIND))
async def test_every_screen_shows_its_keys_and_explains_all_its_commands(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        screen = await open_screen(pilot, name)
        if isinstance(screen.focused, Input):  # where letters are text
            await pilot.press("tab")
        assert not [command for command in screen.commands if not done_by(screen, command)]
        bar = f"{shown_lines(pilot)[-1]} "
        shown = {hint.command for _, hint in screen.query_one(KeyBar)._placed(160)}
        assert {"help", "quit" if screen.is_first else "back"} <= shown
        assert " : " in bar
        missing = [hint for hint in screen.key_hints() if hint.shown and hint.command not in shown]
        missing = [hint for hint in missing if hint.command != "palette"]
        room = 160 - len(bar.rstrip()) - 1  # a blank ends the last one
        assert [hint.title for hint in missing if len(hint.drawn) <= room] == [], bar
        text = await help_text(pilot)
        assert pilot.app.screen is screen
        assert len(screen.HELP.split()) > 20
        assert " ".join(reflowed(screen.HELP).split()[:8]) in " ".join(text.split())
        assert {one.id for one in EVERYWHERE} <= set(screen.commands)
        listed = {(row.key.split(", ")[0], row.title) for row in help_rows(screen)}
        assert listed == {(key_title(one.key), one.title) for one in map(screen.told, screen.commands)}


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(WAYS, OF_EACH_KIND))
async def test_every_screen_has_its_head_three_rows_and_whole_keys_at_60x15(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home, size=(60, 15)) as pilot:
        screen = await open_screen(pilot, name)
        lines, main = shown_lines(pilot), screen.main_widget()
        main = screen.query_one(LineView) if isinstance(main, Input) else main
        assert len(lines) == 15
        assert lines[0][1:].startswith(screen.title_bar.where[:6])
        bar = text_of(screen.query_one(KeyBar).compose_line(60))
        assert bar.strip() == lines[-1].strip(), "no key is cut"
        assert " : ? Help " in bar or " ^p F1 Help " in bar, "the way to the others"
        assert bar.split()[-1] in ("esc", "q", "Back", "Quit")
        rows = len(main.keys) if isinstance(main, LineView) else 3
        assert main.size.height >= min(3, rows)
        assert main.region.bottom < 15
        if screen.is_first:
            assert any(line.startswith(" on disk ") for line in lines[1:6]), "what can be imported"


@pytest.mark.long
@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_the_palette_runs_a_command(database_file: DatabaseFactory, key: str):
    async with open_app(database_file("0.15.3")) as pilot:
        pilot.app.screen.list.table.select(3)
        await pilot.press(key)
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
        await pilot.press(*"large files")
        await wait_for_text(pilot, "Files (f)", all_keys()["files"].help)
        await pilot.press("enter")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))
        await wait_for_text(pilot, "Files of conversation 3")


@pytest.mark.long
async def test_the_palette_goes_to_conversations_ids_changes_settings_and_themes(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        commit(path, await database.read(plan_archive, [7]))
    async with open_app(path, size=NARROW) as pilot:
        first = pilot.app.screen

        async def go(typed: str, seen: str) -> None:
            await pilot.press("colon")
            await wait_for(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
            await pilot.press(*("space" if one == " " else one for one in typed))
            await wait_for_text(pilot, seen)
            await pilot.press("enter")
            await wait_for(pilot, lambda: not isinstance(pilot.app.screen, CommandPalette))
            await settled(pilot)

        await go("nightly bakcup", "Conversation 6")
        assert at(pilot.app.screen, "Conversation ")
        assert pilot.app.screen.conversation.conversation_id == 6
        await go("3", "Conversation 3 ")  # before the message m3, and before what only holds a 3
        assert at(pilot.app.screen, "Conversation ")
        assert pilot.app.screen.conversation.conversation_id == 3
        await go("4c4bd5292a", "Summary sum_4c4bd5292abfa225")
        assert at(pilot.app.screen, "Summary DAG")
        assert pilot.app.screen.selected_id() == "sum_4c4bd5292abfa225"
        await go("m848", "Message m848 #367")
        assert at(pilot.app.screen, "Conversation ")
        await go("change archive", "Change: Archive")
        assert at(pilot.app.screen, "Operation ")
        await go("theme nord", "Dark.")
        assert pilot.app.theme == "nord"
        await go("setting contextThreshold", "Setting: contextThreshold")
        await wait_until_said(pilot, "contextThreshold: 0.75")
        await go("settings", "List all settings")
        await wait_for_text(pilot, "nothing here changes them")
        assert "False" not in " ".join(shown(pilot))
        await pilot.press("z")
        await wait_until_said(pilot, "z is not a key here: ?, esc, enter.")
        await pilot.press("escape")
        assert first in pilot.app.screen_stack


def text_in_frame(pilot: Pilot[int]) -> list[str]:
    return [line.split("│")[1].strip() for line in shown(pilot).splitlines() if line.count("│") > 1]


@pytest.mark.long
async def test_the_palette_names_the_reason_why_a_command_cannot_be_used(openclaw_home: Path):
    home = openclaw_home.parent / "[red]odd[/]\x1b[31m"
    home.parent.mkdir()
    openclaw_home.rename(home)
    for file in (home / "lcm-files").glob("3/*"):
        file.unlink()
    async with open_app(home / "lcm.db", state_dir=home) as pilot:
        await open_screen(pilot, "FilesScreen")
        await pilot.press("colon")
        await wait_for_text(pilot, "Not now: The file is not on this machine")
        # The palette lists anew with every command that it finds: the line may come and go.
        # A long path is wrapped anywhere.
        await wait_for(pilot, lambda: "[red]odd[/]␛[31m" in "".join(text_in_frame(pilot)))
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))


# -- keys of the user --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_remapped_key_takes_the_place_of_the_old_one_everywhere(database_file: DatabaseFactory):
    write_config(keys={"files": "F7", "back": "[", "down": "e"})
    async with open_app(database_file("0.15.3")) as pilot:
        first = pilot.app.screen
        await settled(pilot)
        pilot.app.notices.clear()  # 'e' was taken from another command
        await wait_for(pilot, lambda: " F7 Files " in shown_lines(pilot)[-1])
        await pilot.press("question_mark", *"large files")
        await wait_for(
            pilot, lambda: any(line.split()[2:4] == ["F7", "Files"] for line in shown_lines(pilot))
        )
        await pilot.press("escape", "f", "escape")
        await settled(pilot)
        assert pilot.app.screen is first
        assert pilot.app.return_code is None
        await pilot.press("e", "f7")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))
        assert first.list.table.cursor == 1
        await pilot.press("colon", *"back")
        await wait_for_text(pilot, "Back ([)")
        await pilot.press("escape")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: pilot.app.screen is first)


async def test_an_unknown_action_in_the_config_is_said_to_be_unknown(database_file: DatabaseFactory):
    write_config(keys={"fiels": "F9", "down": "F8", "copy-id": "Y"})
    async with open_app(database_file("0.15.3")) as pilot:
        await wait_for(pilot, lambda: said(pilot), "a word about the unknown action")
        assert len(said(pilot)) == 1
        assert "'fiels'" in said(pilot)[0]


async def test_a_theme_that_does_not_exist_is_told(database_file: DatabaseFactory):
    write_config()
    Path(os.environ["LCM_TUI_CONFIG"]).write_text('theme = "no[/]such"\n')
    async with open_app(database_file("0.15.3")) as pilot:
        await wait_for(pilot, lambda: any("There is no theme 'no[/]such'" in note for note in said(pilot)))
        assert pilot.app.theme == "textual-dark"


@pytest.mark.long
async def test_a_key_that_two_actions_would_have_is_said_to_be_taken(database_file: DatabaseFactory):
    write_config(keys={"files": "c", "copy-id": "f"})
    async with open_app(database_file("0.15.3")) as pilot:
        await wait_for(pilot, lambda: said(pilot), "a word about the key")
        assert len(said(pilot)) == 1
        assert "'c'" in said(pilot)[0]
        assert "'context'" in said(pilot)[0]
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Files of"))


# -- terminals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("F7", "f7"),
        ("[", "left_square_bracket"),
        ("Esc", "escape"),
        ("ctrl-X", "ctrl+x"),
        ("^r", "ctrl+r"),
        ("Ctrl+/", "ctrl+slash"),
        ("v, PgUp ,G", "v,pageup,G"),
        (",", "comma"),
        ("shift+tab", "shift+tab"),
    ],
)
def test_a_key_may_be_written_as_people_write_it(written: str, named: str):
    assert textual_keys(written) == named
    assert key_problems_of({"files": written}) == [
        problem for problem in key_problems_of({"files": written}) if "which is not a key" not in problem
    ]


def test_a_key_that_does_not_exist_and_one_given_twice_are_told():
    [problem] = key_problems_of({"files": "bogus"})
    assert problem.startswith("The config file gives 'bogus' to 'files', which is not a key; ")
    [problem] = key_problems_of({"files": "~", "briefs": "tilde"})
    assert problem == "The config file gives '~' to 'files' and to 'briefs'; give one of them another key."
    assert key_problems_of({"files": "Y", "engine": "f"}) == []  # they change places


@pytest.mark.long
async def test_the_help_names_the_moving_keys_as_they_are_mapped(database_file: DatabaseFactory):
    write_config(keys={"down": "&", "page-up": "F9"})
    async with open_app(database_file("0.15.3")) as pilot:
        await settled(pilot)
        told = await help_text(pilot)
        assert "↑ k & " in told
        assert "F9 PgDn ^f" in told


async def test_without_colours_nothing_is_coloured(database_file: DatabaseFactory, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await wait_for_text(pilot, "Conversations", "live")
        styles = [segment.style for strip in strips(pilot) for segment in strip if segment.style]
        colours = {colour for style in styles for colour in (style.color, style.bgcolor) if colour}
        assert all(colour.is_default for colour in colours)
        assert any(style.reverse for style in styles), "the cursor is seen without colours"


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(WAYS, OF_EACH_KIND))
async def test_resizing_keeps_the_selection(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home) as pilot:
        screen = await open_screen(pilot, name)
        await pilot.press("down", "down")
        await settled(pilot)
        selected = screen.selected_id()
        for size in ((80, 24), (40, 10), (20, 5), (160, 50)):
            await resize(pilot, *size)
            lines = strips(pilot)
            assert len(lines) == size[1]
            assert {line.cell_length for line in lines} == {size[0]}
            assert screen.selected_id() == selected
        assert pilot.app.screen is screen
        assert pilot.app._exception is None


async def test_a_notice_takes_no_row_and_is_there_once(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        before = shown_lines(pilot)
        for text in ("Copied sum_75db599221512f6c", "Nothing is selected.", "Nothing is selected."):
            pilot.app.notify(text)
        await wait_for_text(pilot, " Conversations  ▌Nothing is selected.  ")
        assert shown_lines(pilot)[0].endswith(" live"), "what is told of the file stays in sight"
        assert shown_lines(pilot)[1:] == before[1:], "list, head and keys are as they were"
        pilot.app.notices.clear()
        await wait_for(pilot, lambda: shown_lines(pilot) == before)
        long = "What has no room beside the name of a place has a second line, which moves nothing"
        pilot.app.notify(long, timeout=60)
        await wait_for_text(pilot, " Convers…  ▌What has no room beside the name of a place has", "F1 more")
        assert shown_lines(pilot)[1:] == before[1:], "what tells of no trouble covers nothing"
        pilot.app.notify(long, severity="warning", timeout=60)
        await wait_for_text(pilot, " Convers…  ▌What has no room", "which moves nothing.")
        assert shown_lines(pilot)[1].startswith(" ▌")
        assert shown_lines(pilot)[2:] == before[2:], "the list and the keys are as they were"
        pilot.app.notices.clear()
        await wait_for(pilot, lambda: shown_lines(pilot) == before)
        pilot.app.notify(long, severity="error", timeout=0.1)
        await wait_for_text(pilot, "▌What has no room", "F1 more")
        # Trouble stands until a key, but covers nothing for so long.
        await wait_for(pilot, lambda: shown_lines(pilot)[1:] == before[1:], "the line below")


LONG = "A sentence that says at length what was wrong with the last key, and what would help. " * 2


@pytest.mark.long
@pytest.mark.parametrize("size", [NARROW, (60, 15)])
async def test_a_notice_that_is_cut_is_whole_in_the_help(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        await settled(pilot)
        pilot.app.notify("The first one.", timeout=60)
        pilot.app.notify(LONG.strip(), severity="warning", timeout=60)
        await wait_for_text(pilot, "▌A sentence that says")
        assert shown_lines(pilot)[0].startswith(" Conve")
        await wait_for(pilot, lambda: shown_lines(pilot)[1].endswith("… F1 more"), "the second line")
        assert shown_lines(pilot)[0].endswith(" live")
        await pilot.press("f1")
        await wait_for(pilot, lambda: LONG.strip() in " ".join(" ".join(text_in_frame(pilot)).split()))
        assert "The first one." not in shown(pilot)
        await pilot.press("escape")
        await settled(pilot)
        await pilot.press("slash", "f1")  # the help of a line that is typed
        await wait_for(pilot, lambda: "▌A sentence that says" in " ".join(text_in_frame(pilot)))


async def test_a_dialog_shows_a_notice_in_the_same_place(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("S")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, Dialog) and "╭" in shown(pilot))
        await settled(pilot)
        before = shown_lines(pilot)
        await pilot.press("Z")
        await wait_for(
            pilot, lambda: shown_lines(pilot)[0].startswith(" Conversations  ▌Z is not a key here")
        )
        assert shown_lines(pilot)[0].endswith(" live")
        assert shown_lines(pilot)[1:] == before[1:]


# -- hostile words -----------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "text", ["[/", "[/]", "[red]x[/red]", "[@click=app.quit]x[/]", "\x1b[2J\x9b31m\u202e"]
)
async def test_a_notification_is_shown_as_it_is_and_obeys_nothing(database_file: DatabaseFactory, text: str):
    async with open_app(database_file("0.15.3")) as pilot:
        pilot.app.notify(f"<{text}>", title=f"«{text}»", markup=True)
        visible = text.replace("\x1b", "␛").replace("\x9b", "‹U+009B›").replace("\u202e", "‹U+202E›")
        await wait_for_text(pilot, f"<{visible}>", f"«{visible}»")
        assert pilot.app._exception is None


# -- notices -----------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_what_a_screen_said_goes_with_it_and_finished_work_is_told_on_the_next(
    database_file: DatabaseFactory,
):
    async with open_app(database_file("0.1.2"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("W")  # no key here
        await wait_for_text(pilot, "is not a key here")
        await pilot.press("s")  # forward
        await settled(pilot)
        assert at(pilot.app.screen, "Summary DAG")
        assert "is not a key here" not in shown(pilot)
        await pilot.press("V")
        await wait_for_text(pilot, "V (Merge) is not a key here")
        await pilot.press("escape")  # and back
        await settled(pilot)
        assert at(pilot.app.screen, "Conversations")
        await wait_for(pilot, lambda: "is not a key here" not in shown(pilot))
        pilot.app.notify("Done: something", timeout=DONE_SECONDS)
        await pilot.press("s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await settled(pilot)
        assert "Done: something" not in shown(pilot), "it is not what led there"
        assert "Done: something" not in await help_of(pilot)
        pilot.app.notify("Done: this", timeout=DONE_SECONDS)
        await pilot.press("escape")
        await wait_for_text(pilot, "Conversations  ▌Done: this")
        assert "Done: this" in await help_of(pilot)


async def help_of(pilot: Pilot[int]) -> str:
    """The help of the screen in front."""
    await pilot.press("question_mark")
    await wait_for_text(pilot, "All help")
    told = shown(pilot)
    await pilot.press("escape")
    await wait_for(pilot, lambda: not isinstance(pilot.app.screen, ModalScreen))
    return told


async def test_an_error_stays_until_a_key_and_a_lesser_notice_does_not_take_its_place(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    async with open_app(database_file("0.1.2"), size=NARROW) as pilot:
        await settled(pilot)
        pilot.app.notify("It is wrong.", severity="error", timeout=0.05)
        pilot.app.notify("It is done.", timeout=60)
        await asyncio.sleep(0.3)
        await wait_for_text(pilot, "▌It is wrong.")
        await pilot.press("j")  # too soon to have been read
        await settled(pilot)
        assert "▌It is wrong." in shown(pilot)
        monkeypatch.setattr("lcm_tui.kit.bars.READ_SECONDS", 0.0)
        await pilot.press("j")
        await wait_for(pilot, lambda: "▌" not in shown_lines(pilot)[0])
