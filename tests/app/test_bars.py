"""The line above a screen: what it says fits, and what matters most stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core.base.text import cell_width
from textual.app import App, ComposeResult

from lcm_tui.kit.bars import KeyBar, KeyHint, TitleBar, refresh_bars
from lcm_tui.kit.spans import Span
from tests.app.screens import WAYS, walk_to
from tests.app.support import NARROW, WIDE, at, open_app, settled, shown, wait_for
from tests.conftest import DatabaseFactory
from tests.support import sampled

WORD, CHANGED, SIZE = Span("live ", "ok"), Span("changed 10:11:12 ", "dim"), Span("· 3.7 MB ", "dim")
LIVE = (
    (WORD, CHANGED, SIZE, Span("+ WAL 1.2 MB ", "dim")),
    (WORD, CHANGED, SIZE),
    (WORD, CHANGED),
    (WORD,),
)
LONG = "Conversation 12  27046938-a735-4a93-a971-f4fe747bb833"


def said(where: str, note: str, width: int) -> str:
    bar = TitleBar()
    bar.where, bar.note, bar.live = where, note, LIVE
    return "".join(span.text for span in bar.compose_line(width))


def test_the_position_in_a_list_has_room_before_the_size_of_the_file():
    bar = TitleBar(lambda: "3 of 42")
    bar.where, bar.note, bar.live = "Conversations", "8", LIVE
    text = "".join(span.text for span in bar.compose_line(56)).rstrip()
    assert text.endswith("3 of 42  live changed 10:11:12")


def test_with_room_everything_stands_there():
    text = said(LONG, "searching for lock …", 160)
    assert text.startswith(f" {LONG}  searching for lock …   ")
    assert text.rstrip().endswith("live changed 10:11:12 · 3.7 MB + WAL 1.2 MB")
    assert said("Conversations", "8", 80).rstrip().endswith("live changed 10:11:12 · 3.7 MB + WAL 1.2 MB")


@pytest.mark.parametrize(
    ("where", "note"),
    [
        (LONG, "searching for lock …"),
        ("Previous context of sum_75db599221512f6c", "leaf, 264 tokens"),
        ("Context 3  sum_75db599221512f6c", "its row is missing from the database"),
        (LONG, "preview: not applied yet"),
    ],
)
def test_a_note_stays_whole_in_80_columns_and_the_file_gives_way(where: str, note: str):
    text = said(where, note, 80)
    assert f"  {note} " in text
    assert where[:30] in text
    assert "live" in text


def test_without_a_note_the_size_of_the_file_gives_way_to_a_name_up_to_half_of_the_bar():
    text = said(LONG, "", 80)
    assert text.startswith(" Conversation 12  27046938-a735-4a93-a971-f4")
    assert text.rstrip().endswith("live changed 10:11:12 · 3.7 MB")
    assert said(LONG, "", 56).rstrip().endswith("live changed 10:11:12")


@pytest.mark.cases(57)
@pytest.mark.parametrize("width", [1, 5, 12, 20, 40, 41, 79, 80, 81, 200])
@pytest.mark.parametrize("note", ["", "short", "x" * 100, "日本" * 30], ids=["none", "short", "long", "wide"])
@pytest.mark.parametrize("where", ["", "Files", LONG, "日本" * 30], ids=["none", "short", "long", "wide"])
def test_a_line_is_never_wider_than_its_bar_where_there_is_room_for_one(where: str, note: str, width: int):
    text = said(where, note, width)
    assert cell_width(text) <= max(width, 20)


HINTS = [
    KeyHint(key, title, command, True)
    for key, title, command in (
        ("enter", "Open", "open"), ("c", "Context", "context"), ("s", "Summaries", "summaries"),
        ("F", "Search", "search"), ("H", "Health", "health"), ("u", "Undo", "undo"),
        ("?", "Help", "help"), (":", "All", "palette"), ("q", "Quit", "quit"),
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (120, " enter Open  c Context  s Summaries  F Search  H Health  u Undo  ? Help  : All  q Quit "),
        (80, " c Context  s Summaries  F Search  H Health  u Undo  : ? Help  q Quit "),
        (60, " c Context  s Summaries  F Search  u Undo  : ? Help  q Quit "),
        (40, " c Context  F Search  : ? Help  q Quit "),
    ],
)
def test_a_key_without_room_is_left_out_whole_and_open_first_where_it_is_narrow(width: int, expected: str):
    assert "".join(span.text for span in KeyBar(lambda: HINTS).compose_line(width)) == expected


class Bars(App[None]):
    """A screen of two bars."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = [KeyHint("?", "Help", "help", True)]

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield KeyBar(lambda: self.hints)


async def test_a_bar_is_painted_when_it_says_something_else(monkeypatch: pytest.MonkeyPatch):
    app = Bars()
    async with app.run_test() as pilot:
        await pilot.pause()
        painted: list[str] = []
        for bar in (app.query_one(TitleBar), app.query_one(KeyBar)):
            name = type(bar).__name__
            monkeypatch.setattr(bar, "refresh", lambda name=name: painted.append(name))
        refresh_bars(app.screen)
        assert painted == []
        app.hints.append(KeyHint("c", "Context", "context", True))
        refresh_bars(app.screen)
        assert painted == ["KeyBar"]


def test_neighbours_with_one_word_share_it_and_each_can_be_clicked():
    change = [KeyHint("[", "Change", "previous", True), KeyHint("]", "Change", "next", True)]
    bar = KeyBar(lambda: [*change, KeyHint("v", "Change it", "change", True)])
    assert "".join(span.text for span in bar.compose_line(80)) == " [ ] Change  v Change it "
    assert [(at, hint.command) for at, hint in bar._placed(80)] == [
        (0, "previous"),
        (2, "next"),
        (12, "change"),
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("DiskScreen", "enter Numbers"),
        ("FilesScreen", "[ ] File"),
        ("PlanScreen", "enter Whole line"),
        ("ReviewScreen", "e Edit"),
    ],
)
async def test_a_narrow_bar_says_what_its_keys_lead_to_and_keeps_the_own_ones(
    database_file: DatabaseFactory, name: str, said: str
):
    async with open_app(database_file("0.15.3"), size=NARROW) as pilot:
        await walk_to(pilot, name)
        assert f" {said} " in shown(pilot).splitlines()[-1]


@pytest.mark.long
@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_a_bar_leaves_out_what_no_row_allows_at_every_width(
    database_file: DatabaseFactory, size: tuple[int, int]
):
    async with open_app(database_file("0.15.3"), size=size) as pilot:
        for key, absent in (
            ("U", ("undo", "open")),
            ("C", ("apply", "accept-rest")),
            ("&", ("vacuum",)),
        ):
            await settled(pilot)
            await pilot.press(key)
            await settled(pilot)
            screen = pilot.app.screen
            shown_keys = {hint.command for hint in screen.key_hints() if hint.shown}
            assert shown_keys.isdisjoint(absent), key
            assert shown_keys >= {"help", "palette", "back"}
            assert all(screen.why_not(name) for name in absent), "each has its reason in the help"
            await pilot.press("escape")


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "name",
    sampled(WAYS, ["ConversationsScreen", "ContextScreen", "DagScreen", "ReviewScreen", "SearchScreen"]),
)
async def test_every_key_in_the_bar_of_a_screen_has_its_word(openclaw_home: Path, name: str):
    async with open_app(openclaw_home / "lcm.db", state_dir=openclaw_home, size=NARROW) as pilot:
        screen = await walk_to(pilot, name)
        bar, placed = screen.query_one(KeyBar), []
        for width in (40, 60, 80, 120, 160):
            line = "".join(span.text for span in bar.compose_line(width))
            placed = [hint for _, hint in bar._placed(width)]
            assert line.rstrip() == "".join(hint.drawn for hint in placed).rstrip()
            assert placed[-1].title
            shared = [one.command for one in placed if not one.title]
            assert {*shared} <= {"palette", "hunk-previous", "hunk-next"}, width
            assert {hint.command for hint in placed} & {"help", "help-back", "back", "quit"}


async def test_a_key_that_another_row_allows_keeps_its_place(database_file: DatabaseFactory):
    async with open_app(database_file("0.15.3"), size=WIDE) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await settled(pilot)
        context, keys = pilot.app.screen, []
        for key in ("home", "end"):
            await pilot.press(key)
            await settled(pilot)
            keys.append([hint.command for hint in context.key_hints() if hint.shown])
        assert context.why_not("dissolve"), "the last item is a message"
        assert keys[0] == keys[1]
        assert "dissolve" in keys[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "home", "context", "dag", "health"),
    [
        (
            NARROW,
            "c Context  F Search  H Health  s Summaries  C Compact  & Disk  : ? Help  q Quit",
            "m As sent  e Edit  D Compare  d Dissolve  [ J Past  L Lines  : ? Help  esc Back",
            "m Map  e Edit  L Lines  d Dissolve  ! Broken  r Rewrite  : ? Help  esc Back",
            "x Fix  R Repair  space Mark  1 Full check  T Only this one  : ? Help  esc Back",
        ),
        (
            (60, 15),
            "c Context  F Search  H Health  C Compact  : ? Help  q Quit",
            "m As sent  e Edit  D Compare  [ J Past  : ? Help  esc Back",
            "m Map  e Edit  L Lines  d Dissolve  : ? Help  esc Back",
            "x Fix  R Repair  space Mark  c Context  : ? Help  esc Back",
        ),
        (
            (50, 15),
            "c Context  F Search  H Health  : ? Help  q Quit",
            "m As sent  e Edit  D Compare  : ? Help  esc Back",
            "m Map  e Edit  L Lines  : ? Help  esc Back",
            "x Fix  R Repair  space Mark  : ? Help  esc Back",
        ),
    ],
)
async def test_the_keys_that_matter_most_are_in_the_bar_of_a_narrow_terminal(
    database_file: DatabaseFactory, size: tuple[int, int], home: str, context: str, dag: str, health: str
):
    async with open_app(database_file("0.15.3-damaged"), size=size) as pilot:

        async def bar_after(*keys: str) -> str:
            await pilot.press(*keys)
            await settled(pilot)
            return shown(pilot).splitlines()[-1].strip()

        assert await bar_after() == home
        await pilot.press("c")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Context"))
        await settled(pilot)
        assert await bar_after("home") == context
        await pilot.press("escape", "s")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Summary DAG"))
        await settled(pilot)
        assert await bar_after("exclamation_mark", "home") == dag
        await pilot.press("escape", "escape", "H")
        await wait_for(pilot, lambda: at(pilot.app.screen, "Health"))
        await settled(pilot)
        assert await bar_after() == health
