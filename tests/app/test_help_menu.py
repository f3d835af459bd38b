"""The help as a menu: it filters, runs keys, says why not, gives other keys, and keeps them and the theme."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from lcm_core.base.errors import ConfigurationError
from lcm_core.base.settings_listed import write_setting
from textual.command import CommandList
from textual.widgets import Input

from lcm_tui.kit.commands import free_keys, key_problems, moving_keys, swapped, textual_keys
from lcm_tui.kit.dialogs import reflowed
from lcm_tui.kit.help import HelpMenu, help_rows
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import text_of
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import all_keys
from lcm_tui.tables.home import Subject
from tests.app.screens import WAYS, open_screen
from tests.app.support import (
    NARROW,
    WIDE,
    first_screen,
    open_app,
    resize,
    settled,
    shown,
    shown_lines,
    strips,
    wait_for,
    wait_for_text,
    wait_until_said,
)
from tests.app.test_mouse import click_text
from tests.conftest import DatabaseFactory
from tests.support import sampled


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", sampled(WAYS, ["ConversationsScreen", "ContextScreen", "SnapshotsScreen"]))
async def test_two_short_paragraphs_stand_over_the_menu(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home, size=NARROW) as pilot:
        screen = await open_screen(pilot, name)
        second = reflowed(screen.explained()).split("\n\n")[1]
        if isinstance(screen.focused, Input):  # where a question mark is text
            await pilot.press("tab")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "All help", second.split()[-1])
        [filter_line] = [at for at, line in enumerate(shown_lines(pilot)) if "type to filter" in line]
        text = pilot.app.screen.query_one(TextView)
        assert text.virtual_size.height == text.size.height <= 4
        assert filter_line <= 7
        menu = pilot.app.screen
        assert isinstance(menu, HelpMenu)
        for row in help_rows(screen):
            said = " ".join(text_of(line) for line in menu._draw(row.name, 72))
            wanted = f"{row.key} {row.title} " + (f"Not now: {row.reason}" if row.reason else row.sentence)
            assert "".join(wanted.split()) in "".join(said.split()), "nothing of a row is cut"


@pytest.fixture
def config() -> Path:
    path = Path(os.environ["HOME"]) / "dotfiles.toml"
    path.write_text('# mine\nbudget = 64000  # small\n\n[keys]\nfiles = "f6"\n')
    link = path.with_name("config.toml")
    link.symlink_to(path)
    os.environ["LCM_TUI_CONFIG"] = str(link)
    return path


@pytest.mark.long
async def test_what_is_typed_filters_the_keys_and_enter_runs_one(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("question_mark", *"what does the mod")
        await wait_for_text(pilot, "Context", "what the model sees")
        await pilot.press("enter")
        await wait_for_text(pilot, "Context 1")
        await pilot.press("question_mark", *":theme")
        await wait_for_text(pilot, "Go to any command, conversation, id, change, setting or theme")
        await pilot.press("enter")
        await wait_for(pilot, lambda: pilot.app.screen.query("CommandInput"))


@pytest.mark.long
async def test_a_key_that_cannot_be_used_now_says_why_and_stays_in_the_menu(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("&")
        await wait_for_text(pilot, "message_parts")
        await pilot.press("question_mark", *"vacuum")
        await wait_for_text(pilot, "Not now: nothing to give back: the file has")
        await pilot.press("enter")
        await wait_until_said(pilot, "nothing to give back")
        assert "type to filter" in shown(pilot) or "vacuum" in shown(pilot)


@pytest.mark.long
async def test_another_key_is_given_kept_and_used_at_once(database_file: DatabaseFactory, config: Path):
    path = database_file("0.15.3")
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("question_mark", *"disk", "f2")
        await wait_for_text(pilot, "Press the key for “Disk”")
        await pilot.press("c")
        await wait_for_text(pilot, "c is the key of Context", "esc      leave the keys as they are")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "c is the key of Context" not in shown(pilot))
        assert tomllib.loads(config.read_text())["keys"] == {"files": "f6"}
        await wait_for_text(pilot, "F2 Rebind")
        await pilot.press("shift+tab", "k")
        await wait_for_text(pilot, "Press the key for “Disk”")
        await pilot.press("f8")
        await wait_until_said(pilot, "config.toml keeps it")
        await pilot.press("escape", "f8")
        await wait_for_text(pilot, "message_parts")
        await pilot.press("escape", "ampersand")
        await wait_until_said(pilot, "Disk is F8 now.")
    assert config.read_text() == '# mine\nbudget = 64000  # small\n\n[keys]\ndisk = "f8"\nfiles = "f6"\n'
    async with open_app(path, size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("f8")
        await wait_for_text(pilot, "message_parts")


@pytest.mark.long
async def test_the_key_of_another_command_is_swapped_and_the_cursor_stays(
    database_file: DatabaseFactory, config: Path
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("question_mark", "down", "f2")
        await wait_for_text(pilot, "Press the key for “Context”")
        await pilot.press("X")
        await wait_for_text(pilot, "X is the key of Delete", "enter s  swap: Context is X and Delete is c")
        await pilot.press("s")
        await wait_until_said(pilot, "Context is X and Delete is c now; config.toml keeps it.")
        keys = {"context": "X", "delete": "c", "files": "f6"}
        assert tomllib.loads(config.read_text())["keys"] == keys
        await pilot.press("f2")
        await wait_for_text(pilot, "Press the key for “Context” (now X)", " F3 ")
        await pilot.press("escape", "escape")
        await wait_for_text(pilot, "X Context")
        panel = first_screen(pilot).panel
        assert panel is not None
        await wait_for(pilot, lambda: panel.outlook.keys[Subject.NEAREST] == "X")
        await pilot.press("X")
        await wait_for_text(pilot, "Context 1")


def test_a_swap_keeps_the_other_keys_of_a_command_and_is_written_as_the_config_file_reads_it():
    keys = all_keys().values()
    assert swapped({}, keys, "context", "k") == {"context": "k", "up": "up,c"}
    assert swapped({}, keys, "expand", "ampersand") == {"expand": "&", "disk": ">,ctrl+o"}
    assert swapped({"briefs": "Z"}, keys, "context", "b") == {"context": "b"}, "a preview has no Context"
    assert swapped({"context": "comma"}, keys, "context", "h") == {"context": "h", "fold": "left,comma"}


@pytest.mark.long
async def test_a_swap_that_cannot_be_made_says_why_in_full_below_the_keys(
    database_file: DatabaseFactory, config: Path
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("s")
        await settled(pilot)
        await pilot.press("question_mark", *"trace", "f2")
        await wait_for_text(pilot, "Press the key for “Lines”")
        await pilot.press("y")  # which a queue of drafts would have beside `L`
        refusal = "Not done: y is the key of Copy, which cannot have L instead. Choose a free key."
        await wait_for(pilot, lambda: refusal in " ".join(shown(pilot).replace("│", "").split()))


@pytest.mark.parametrize("given", [{}, {"files": "f6", "disk": "W", "context": "F8,~"}])
def test_the_free_keys_are_those_that_are_not_refused(given: dict[str, str]):
    keys = all_keys().values()
    default = {**moving_keys(), **{one.id: one.key for one in keys}}
    named = {action: textual_keys(written) for action, written in given.items()}
    signs = [*map(chr, range(0x21, 0x7F)), *(f"F{number}" for number in range(2, 13))]
    for action in ("context", "rewrite-subtree", "leave-out", "down"):
        rest = {other: written for other, written in given.items() if other != action}
        known = key_problems(given, keys)
        refused = {sign for sign in signs if set(key_problems({**rest, action: sign}, keys)) - set(known)}
        own = {sign for sign in signs if textual_keys(sign) in named.get(action, default[action]).split(",")}
        assert set(free_keys(named, keys, action)) == {*signs} - refused - own - {"F2"}, "F2 gives keys"
        assert len(refused) < len(signs)


async def test_the_name_of_a_key_stands_below_a_narrow_list_and_at_the_right_of_a_wide_one(
    database_file: DatabaseFactory,
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("question_mark")
        await wait_for_text(pilot, "[keys] open", "H      Health")
        assert "mark-by-cleaner" not in shown(pilot)
        await pilot.press("down")
        await wait_for_text(pilot, "[keys] context")
        rows = [line for line in shown_lines(pilot) if "Context   " in line]
        assert rows[0].rstrip(" ▂│").endswith("Show what the model sees of this")
        await resize(pilot, 100, 40)
        for title, name in (("Mark by cleaner", "mark-by-cleaner"), ("Context", "context")):
            [row] = [line for line in shown_lines(pilot) if f" {title}  " in line or f" {title} M" in line]
            assert row.rstrip(" ▂▇│").endswith(f" {name}")
        await pilot.press("up")
        await wait_for(pilot, lambda: "[keys]" not in shown(pilot))


async def test_the_help_is_grouped_and_what_cannot_be_used_now_is_dim(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Not now: there is no change to undo")
        rows = [line.partition("│ ")[2] for line in shown_lines(pilot)]
        titles = ("Health", "Compact", "Undo", "Search", "Disk")
        groups = [row[:7].strip() for row in rows if row[:7].strip() in {"Look", "Change", "Go"}]
        assert groups == ["Look", "Change", "Go"]
        first = {group: next(at for at, row in enumerate(rows) if row.startswith(group)) for group in groups}
        at = {title: next(at for at, row in enumerate(rows) if f" {title}  " in row) for title in titles}
        assert first["Look"] < at["Health"] < first["Change"] <= at["Compact"] < at["Undo"] < first["Go"]
        assert first["Go"] <= at["Search"] < at["Disk"]
        menu = pilot.app.screen
        dim = menu.query_one(LineView).style_of("dim").color
        for title, text in (("Undo", "Not now: there is no change"), ("Compact", "Preview compaction")):
            segments = [one for one in strips(pilot)[at[title]] if one.text.strip().startswith((title, text))]
            assert segments
            assert all((one.style and one.style.color == dim) == (title == "Undo") for one in segments)


@pytest.mark.long
async def test_a_click_on_a_line_of_the_help_runs_it_or_says_why_not(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Not now: there is no change to undo")
        await click_text(pilot, "there is no change to undo", "HelpMenu LineView")
        await wait_until_said(pilot, "there is no change to undo")
        assert isinstance(pilot.app.screen, HelpMenu)
        await click_text(pilot, "what the model sees", "HelpMenu LineView")
        await wait_for_text(pilot, "Context 1")


@pytest.mark.long
async def test_a_theme_that_was_chosen_is_kept(database_file: DatabaseFactory, config: Path):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await settled(pilot)
        await pilot.press("colon", *"theme")
        await wait_for_text(pilot, "List the themes, to choose one.")
        await pilot.press("enter")
        await wait_for_text(pilot, "│ atom-one-light ", "│ nord ")
        used = f"{pilot.app.theme}, used now"
        cursor = pilot.app.screen.query_one(CommandList)
        assert (cursor.highlighted, shown(pilot).count("used now")) == (0, 1)
        assert shown(pilot).index(used) < shown(pilot).index("│ ansi-dark ")
        await pilot.press(*"nord")
        await wait_for(pilot, lambda: "atom-one-light" not in shown(pilot))
        await pilot.press("enter")
        await wait_for(pilot, lambda: tomllib.loads(config.read_text()).get("theme") == "nord")
        assert pilot.app.theme == "nord"
        await wait_until_said(pilot, "Theme nord now; config.toml keeps it.")
    assert tomllib.loads(config.read_text())["budget"] == 64000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[keys]\ndisk = "W"\n'),
        ("budget = 1\n", 'budget = 1\n\n[keys]\ndisk = "W"\n'),
        ("[keys]\n'disk' = 'x' # old\nfiles = 'f'\n", "[keys]\ndisk = \"W\"\nfiles = 'f'\n"),
        (
            "[summary]\nmodel = 'm'\n[keys]  # mine\n",
            "[summary]\nmodel = 'm'\n[keys]  # mine\ndisk = \"W\"\n",
        ),
    ],
)
def test_a_setting_is_written_and_the_rest_stays(tmp_path: Path, before: str, after: str):
    path = tmp_path / "folder" / "config.toml"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    write_setting(path, "keys", "disk", "W")
    assert path.read_text() == after
    assert tomllib.loads(after)["keys"]["disk"] == "W"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["keys = 3\n", "keys = {disk = 'x'}\n", "keys.disk = 'x'\n", "not toml", "\0"]
)
def test_what_cannot_be_changed_safely_is_left_as_it_is(tmp_path: Path, text: str):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError):
        write_setting(path, "keys", "disk", "W")
    assert path.read_text() == text
