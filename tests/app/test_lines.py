"""The virtual line view: what it draws, what it keeps when its keys change, how it moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from lcm_tui.kit import lines as module
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import Span

HEIGHT = 20


class Lines(App[None]):
    """A list of 20 lines below an input; it keeps what was drawn and what was said."""

    CSS = "Input { height: 1; border: none; }"

    def __init__(self, heights: Callable[[int], int] | None = None) -> None:
        super().__init__()
        self.drawn: list[int] = []
        self.said: list[tuple[str, object]] = []
        self.heights = heights
        self.suffix = ""
        self.view = LineView[int](self.draw, tall=heights is not None, empty="nothing here", id="view")

    def compose(self) -> ComposeResult:
        yield Input()
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def draw(self, key: int, width: int):
        self.drawn.append(key)
        height = 1 if self.heights is None else self.heights(key)
        return [(Span(f"{key}.{line}{self.suffix}", "role-user"),) for line in range(height)]

    @on(LineView.Highlighted)
    @on(LineView.Opened)
    @on(LineView.Sided)
    def hear(self, event: LineView.Highlighted) -> None:
        self.said.append((type(event).__name__, event.key))


@asynccontextmanager
async def showing(
    keys: Sequence[int], heights: Callable[[int], int] | None = None
) -> AsyncIterator[tuple[Pilot[None], Lines]]:
    app = Lines(heights)
    async with app.run_test(size=(40, HEIGHT + 1)) as pilot:
        app.view.replace(keys)
        await pilot.pause()
        yield pilot, app


def rows(view: LineView[int]) -> list[str]:
    """What stands on the screen."""
    return [strip(view, y).text.strip() for y in range(view.size.height)]


def strip(view: LineView[int], y: int) -> Strip:
    return view.render_line(y)


def row_of(view: LineView[int], key: int) -> int:
    return rows(view).index(f"{key}.0")


def background(view: LineView[int], y: int) -> object:
    return next(iter(strip(view, y))).style.bgcolor


# -- what is drawn -----------------------------------------------------------------------------------------


async def test_a_key_out_of_sight_is_drawn_when_it_comes_into_sight(monkeypatch: pytest.MonkeyPatch):
    async with showing(range(100)) as (pilot, app):
        await pilot.press("end", "home")
        painted: list[int] = []
        repaint = app.view._repaint
        monkeypatch.setattr(app.view, "_repaint", lambda: (painted.append(1), repaint()))
        app.suffix = "!"
        app.view.redraw([99])
        assert not painted, "no line of the screen has changed"
        app.view.redraw([99, 3])
        assert painted
        assert rows(app.view)[3] == "3.0!"
        await pilot.press("end")
        assert rows(app.view)[-2:] == ["98.0", "99.0!"]


async def test_the_places_of_keys_near_the_screen_are_found_without_noting_all():
    async with showing(range(10_000)) as (pilot, app):
        await pilot.press("end")
        view = app.view
        assert [view.index_of(key) for key in (9_999, 9_985, 9_970)] == [9_999, 9_985, 9_970]
        assert view._index is None
        assert view.index_of(7) == 7
        assert view.index_of(10_000) is None
        view.replace(range(1, 10_001))
        assert [view.index_of(key) for key in (9_999, 1, 0)] == [9_998, 0, None]


async def test_of_a_million_keys_only_those_in_sight_are_drawn():
    async with showing(range(1_000_000)) as (pilot, app):
        assert set(app.drawn) == set(range(HEIGHT))
        await pilot.press("end")
        assert app.view.selected == 999_999
        await pilot.press("pageup", "up", "home", "pagedown")
        await pilot.pause()
        seen = set(range(2 * HEIGHT)) | set(range(1_000_000 - 3 * HEIGHT, 1_000_000))
        assert set(app.drawn) <= seen
        assert len(app.drawn) == len(set(app.drawn))  # each of them once


async def test_rows_that_are_appended_to_a_million_cost_no_search_through_them():
    async with showing(range(1_000_000)) as (pilot, app):
        await pilot.press("end", "pageup")
        app.view._index = None
        app.view.replace(range(1_000_010))
        assert app.view._index is None
        assert app.view.selected == 999_999 - HEIGHT + 1


async def test_only_keys_that_changed_are_drawn_again():
    async with showing(range(100)) as (pilot, app):
        app.drawn.clear()
        app.suffix = "!"
        app.view.redraw([3, 50])
        await pilot.pause()
        assert app.drawn == [3]
        assert rows(app.view)[2:5] == ["2.0", "3.0!", "4.0"]
        app.view.redraw()
        await pilot.pause()
        assert set(app.drawn) == set(range(HEIGHT))


async def test_a_key_that_moves_the_cursor_makes_two_lines_anew():
    async with showing(range(100)) as (pilot, app):
        whole = app.view.outer_size.region
        before = app.view.render_lines(whole)
        await pilot.press("j")
        after = app.view.render_lines(whole)
        assert [y for y, strip in enumerate(after) if strip is not before[y]] == [0, 1]
        await pilot.press("k")
        assert all(strip is before[y] for y, strip in enumerate(app.view.render_lines(whole))), (
            "what was drawn is kept"
        )


async def test_what_changed_unseen_is_drawn_new_when_the_old_width_comes_back():
    async with showing(range(5)) as (pilot, app):
        await pilot.resize_terminal(30, HEIGHT + 1)
        await pilot.pause()
        app.suffix = "!"
        app.view.redraw([2])
        await pilot.resize_terminal(40, HEIGHT + 1)
        await pilot.pause()
        assert rows(app.view)[2] == "2.0!"


async def test_other_colours_are_drawn_after_the_theme_changed():
    async with showing(range(5)) as (pilot, app):

        def colours() -> list[object]:
            return [segment.style and segment.style.color for segment in strip(app.view, 3)]

        app.theme = "textual-dark"
        await pilot.pause()
        dark = colours()
        app.theme = "textual-light"
        await pilot.pause()
        assert colours() != dark


async def test_the_position_counts_and_says_what_is_new_below_until_it_was_in_sight():
    async with showing(range(40)) as (pilot, app):
        assert app.view.position == "1 of 40"
        app.view.replace(range(42))
        app.view.mark_fresh([0, 40, 41])
        await pilot.press("down")
        assert app.view.position == "2 of 42 · 2 new ↓"
        await pilot.press("end", "home")
        assert app.view.position == "1 of 42"
        app.view.replace([])
        assert app.view.position == ""


async def test_an_empty_view_says_so_and_takes_every_key():
    async with showing([]) as (pilot, app):
        assert rows(app.view)[0] == "nothing here"
        await pilot.press("down", "up", "pagedown", "pageup", "home", "end", "left", "right")
        await pilot.click("#view", offset=(2, 2))
        assert app.view.selected is None
        assert app.view.visible_keys == ()
        assert not [said for said in app.said if said[0] == "Opened"]
        app.view.replace([7])
        assert app.view.selected == 7


async def test_the_cursor_shows_where_the_focus_is():
    async with showing(range(5)) as (pilot, app):
        with_focus = background(app.view, 0)
        assert with_focus != background(app.view, 1)
        app.query_one(Input).focus()
        await pilot.pause()
        assert background(app.view, 0) not in (with_focus, background(app.view, 1))


async def test_new_rows_stay_marked_when_others_are_marked_after_them(monkeypatch: pytest.MonkeyPatch):
    timers: list[Callable[[], None]] = []
    async with showing(range(5)) as (_, app):
        monkeypatch.setattr(app.view, "set_timer", lambda _seconds, end: timers.append(end))
        plain = background(app.view, 4)
        app.view.mark_fresh([1])
        app.view.mark_fresh([2, 3])
        app.view.mark_fresh([3])
        marked = [key for key in range(1, 5) if background(app.view, key) != plain]
        assert marked == [1, 2, 3]
        timers[0]()
        assert [key for key in range(1, 5) if background(app.view, key) != plain] == [2, 3]
        timers[1]()
        assert [key for key in range(1, 5) if background(app.view, key) != plain] == [3]
        timers[2]()
        assert [key for key in range(1, 5) if background(app.view, key) != plain] == []
    assert module.NEW_SECONDS > 0


# -- what is kept ------------------------------------------------------------------------------------------

UNIFORM = None


def some_tall(key: int) -> int:
    return 1 + key % 3


KINDS = pytest.mark.parametrize("heights", [UNIFORM, some_tall], ids=["uniform", "tall"])


@pytest.mark.cases(4)
@KINDS
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda keys: [*range(1000, 1030), *keys], id="inserted above"),
        pytest.param(lambda keys: [*keys[:45], *range(1000, 1030), *keys[45:]], id="inserted just above"),
        pytest.param(lambda keys: [*keys, *range(1000, 1030)], id="appended"),
        pytest.param(lambda keys: keys[20:], id="removed above"),
        pytest.param(lambda keys: keys[::-1], id="turned round"),
        pytest.param(lambda keys: sorted(keys, key=lambda key: key * 7919 % 101), id="shuffled"),
        pytest.param(lambda keys: keys, id="the same"),
    ],
)
async def test_the_selected_key_stays_selected_and_where_it_stands(
    heights: Callable[[int], int] | None, change: Callable[[list[int]], list[int]]
):
    keys = list(range(100))
    async with showing(keys, heights) as (pilot, app):
        app.view.select(50)
        await pilot.press("up", "up", "up")
        row = row_of(app.view, 47)
        app.view.replace(change(keys))
        await pilot.pause()
        assert app.view.selected == 47
        place = app.view.index_of(47)
        assert place is not None
        expected = min(row, app.view._offset(place))  # there may be less above it now
        bottom = app.view._total - app.view._offset(place)
        assert row_of(app.view, 47) == max(expected, HEIGHT - bottom)


@KINDS
async def test_the_next_key_is_selected_when_the_selected_one_goes(heights: Callable[[int], int] | None):
    keys = list(range(100))
    async with showing(keys, heights) as (_, app):
        app.view.select(50)
        app.view.replace([*range(1000, 1010), *(key for key in keys if key not in (50, 51))])
        assert app.view.selected == 52
        app.view.replace(keys[:40])
        assert app.view.selected == 39
        app.view.replace([])
        assert app.view.selected is None
        app.view.replace(keys)
        assert app.view.selected == 0


@KINDS
async def test_a_reload_does_not_jump_back_to_the_cursor_after_the_wheel(
    heights: Callable[[int], int] | None,
):
    keys = list(range(100))
    async with showing(keys, heights) as (pilot, app):
        for _ in range(60):
            app.view.scroll_down(animate=False, immediate=True)
        await pilot.pause()
        before = rows(app.view)
        assert app.view.selected == 0
        assert "0.0" not in before
        for changed in ([*keys, 1000], [2000, *keys], keys[5:], keys):  # also when the selected key goes
            app.view.replace(changed)
            await pilot.pause()
            assert rows(app.view) == before
        app.view.redraw([0, 1])
        await pilot.pause()
        assert rows(app.view) == before


async def test_the_wheel_scrolls_and_says_so():
    async with showing(range(100)) as (pilot, app):
        heard: list[int] = []
        app.view.watch(app.view, "scroll_y", lambda: heard.append(app.view.scroll_offset.y), init=False)
        await pilot._post_mouse_events([_scroll_down()], app.view, offset=(3, 3))
        await pilot.pause()
        assert app.view.scroll_offset.y > 0
        assert app.view.selected == 0


def _scroll_down() -> type:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_a_row_that_grows_above_moves_nothing_in_sight():
    height = {7: 2}
    async with showing(range(100), lambda key: height.get(key, 2)) as (pilot, app):
        app.view.select(50)
        before = rows(app.view)
        height[7] = 9
        app.view.redraw([7])
        await pilot.pause()
        assert rows(app.view) == before


async def test_a_tall_view_that_shows_its_end_goes_on_showing_it_while_the_cursor_stays_in_sight():
    async with showing(range(30), some_tall) as (pilot, app):
        await pilot.press("end")
        assert app.view.at_end
        kept = app.view.selected
        for count in range(31, 50):
            app.view.replace(range(count))
            await pilot.pause()
            assert app.view.selected == kept
            assert f"{kept}.0" in rows(app.view)
        assert rows(app.view)[0] == f"{kept}.0"  # no further: the selected key would leave the screen
        assert not app.view.at_end


async def test_a_cursor_that_is_not_on_the_last_key_keeps_its_line_when_more_is_appended():
    async with showing(range(30), some_tall) as (pilot, app):
        await pilot.press("end", "up")
        assert app.view.at_end
        before = rows(app.view)
        for count in range(31, 50):
            app.view.replace(range(count))
            await pilot.pause()
            assert rows(app.view) == before


async def test_the_end_of_a_key_taller_than_the_screen_stays_when_more_is_appended():
    async with showing(range(3), lambda _: 50) as (pilot, app):
        await pilot.press("end")
        before = rows(app.view)
        assert before[-1] == "2.49"
        app.view.replace(range(4))
        await pilot.pause()
        assert rows(app.view) == before


@KINDS
async def test_the_selected_key_stays_in_sight_when_the_screen_shrinks_and_grows(
    heights: Callable[[int], int] | None,
):
    async with showing(range(100), heights) as (pilot, app):
        app.view.select(50)
        for height in (8, 3, HEIGHT):
            await pilot.resize_terminal(40, height + 1)
            await pilot.pause()
            assert "50.0" in rows(app.view)
            assert app.view.selected == 50


@pytest.mark.cases(1)
@KINDS
async def test_the_cursor_stays_in_sight_when_a_larger_layout_is_gone_before_it_is_heard_of(
    heights: Callable[[int], int] | None, monkeypatch: pytest.MonkeyPatch
):
    async with showing(range(100), heights) as (pilot, app):
        with monkeypatch.context() as unheard:
            unheard.setattr(LineView, "on_resize", lambda view, event: None)
            await pilot.resize_terminal(40, 2 * HEIGHT + 1)
            await pilot.pause()
            app.view.select(app.view.visible_keys[-2])
        await pilot.resize_terminal(40, 6)
        await pilot.pause()
        assert f"{app.view.selected}.0" in rows(app.view)


async def test_a_selection_made_before_the_first_layout_comes_into_sight(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Lines, "on_mount", lambda app: app.view.replace(range(100), select=70))
    async with Lines().run_test(size=(40, HEIGHT + 1)) as pilot:
        view = pilot.app.query_one("#view", LineView)
        await pilot.pause()
        assert "70.0" in rows(view)


async def test_a_key_can_be_selected_with_the_new_keys():
    async with showing(range(100)) as (pilot, app):
        app.view.replace(range(50, 300), select=200)
        await pilot.pause()
        assert app.view.selected == 200
        assert "200.0" in rows(app.view)
        app.view.replace(range(100), select=12345)
        assert app.view.selected == 99  # it is not there: the nearest to where the cursor was
        assert not app.view.select(12345)


# -- moving ------------------------------------------------------------------------------------------------


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["down", "j"], 2),
        (["down", "down", "k", "up", "up"], 0),
        (["G"], 99),
        (["end", "g"], 0),
        (["pagedown"], HEIGHT - 1),
        (["ctrl+f", "pagedown", "ctrl+b"], HEIGHT - 1),
        (["end", "home"], 0),
        (["pagedown"] * 20, 99),
    ],
)
async def test_keys_move_the_cursor_and_keep_it_in_sight(keys: list[str], expected: int):
    async with showing(range(100)) as (pilot, app):
        await pilot.press(*keys)
        assert app.view.selected == expected
        assert f"{expected}.0" in rows(app.view)
        assert app.said[-1] == ("Highlighted", expected)


async def test_every_line_of_tall_keys_is_seen_by_paging_down_and_up():
    heights = {0: 3, 1: 75, 2: 1, 3: 19, 4: 20, 5: 21, 6: 2, 7: 40}
    everything = {f"{key}.{line}" for key, height in heights.items() for line in range(height)}
    async with showing(range(8), heights.__getitem__) as (_, app):
        for direction, first in ((1, 0), (-1, 7)):
            seen = set(rows(app.view))
            assert app.view.selected == first
            for _ in range(30):
                top = app.view.scroll_offset.y
                app.view.action_page(direction)
                seen |= set(rows(app.view))
                assert f"{app.view.selected}." in " ".join(rows(app.view))
                assert abs(app.view.scroll_offset.y - top) < HEIGHT
            assert seen == everything
        assert app.view.selected == 0


async def test_every_line_of_tall_keys_is_seen_by_arrows():
    heights = {0: 3, 1: 75, 2: 1, 3: 19, 4: 20, 5: 21, 6: 2, 7: 40}
    everything = {f"{key}.{line}" for key, height in heights.items() for line in range(height)}
    async with showing(range(8), heights.__getitem__) as (_, app):
        for step in (1, -1):
            seen = set(rows(app.view))
            for _ in range(100):
                app.view.action_move(step)
                seen |= set(rows(app.view))
                assert f"{app.view.selected}." in " ".join(rows(app.view))
            assert seen == everything
        assert app.view.selected == 0


async def test_folding_keys_are_handed_to_the_owner():
    async with showing(range(5)) as (pilot, app):
        await pilot.press("down", "left", "h", "right", "l")
        assert app.said[-4:] == [("Sided", 1)] * 4


# -- mouse -------------------------------------------------------------------------------------------------


async def test_a_click_selects_and_a_click_on_the_selected_key_opens():
    async with showing(range(100)) as (pilot, app):
        await pilot.click("#view", offset=(3, 5))
        assert app.view.selected == 5
        assert ("Opened", 5) not in app.said
        await pilot.click("#view", offset=(3, 5))
        assert app.said[-1] == ("Opened", 5)


async def test_a_double_click_opens_once():
    async with showing(range(100)) as (pilot, app):
        await pilot.click("#view", offset=(3, 5), times=2)
        assert app.said.count(("Opened", 5)) == 1


async def test_a_click_below_the_last_key_does_nothing():
    async with showing(range(3)) as (pilot, app):
        await pilot.press("end")
        await pilot.click("#view", offset=(3, 10))
        assert not [said for said in app.said if said[0] == "Opened"]
        assert app.view.selected == 2


async def test_a_click_on_any_line_of_a_tall_key_selects_it_and_moves_nothing():
    async with showing(range(30), lambda _: 7) as (pilot, app):
        await pilot.press("pagedown")
        before = rows(app.view)
        await pilot.click("#view", offset=(3, HEIGHT - 1))
        assert app.view.selected == int(before[-1].split(".")[0])
        assert rows(app.view) == before


@pytest.mark.parametrize("gone", ["removed", "being removed", "never shown"])
async def test_a_list_that_is_filled_after_it_has_gone_fails_nothing(gone: str):
    """As when a read ends late."""
    async with showing(range(30)) as (pilot, app):
        view = app.view if gone != "never shown" else LineView[int](app.draw)
        if gone == "removed":
            await view.remove()
        elif gone == "being removed":
            going = view.remove()
        with app._context():
            view.replace(range(9_000))
        if gone == "being removed":
            await going
        await pilot.pause()
