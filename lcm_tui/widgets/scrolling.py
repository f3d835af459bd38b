"""What the list and the text have in common: keys that move, and scrolling that is done at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn, Still

#: What the moving keys do: for some bindings, by their ids, a few words for the help.
Moves: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]

#: Lines that are kept as the terminal gets them.
CACHED_STRIPS = 300


class QuickScrollBar(ScrollBar, Still):
    """A scroll bar that is drawn when it has moved; Textual's own costs as much as the list beside it."""

    _drawn: tuple[tuple[object, ...], list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of the bar; of one whose list has gone while it was filled, none is seen."""
        if self.parent is None:
            return [Strip.blank(crop.width)] * crop.height
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        assert isinstance(bar.style, Style)
        looks = (self.size.height, bar.virtual_size, bar.window_size, bar.position, bar.style)
        if self._drawn is None or self._drawn[0] != looks:
            self._drawn = (looks, self._lines_of(bar, bar.style))
        return self._drawn[1][crop.y : crop.bottom]

    def _lines_of(self, bar: ScrollBarRender, style: Style) -> list[Strip]:
        assert style.color is not None
        assert style.bgcolor is not None
        segments = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            back_color=style.bgcolor,
            bar_color=style.color,
        ).segments
        base = self.visual_style.rich_style
        made: dict[Segment, Strip] = {}
        for segment in segments:
            if segment not in made:
                strip = Strip(Segment.apply_style([segment], base), 1)
                for line_filter in self.get_line_filters():
                    strip = strip.apply_filter(line_filter, self.background_colors[1])
                made[segment] = strip
        return [made[segment] for segment in segments]


class Scroller(Drawn, ScrollView, can_focus=True):
    """A widget that draws the lines in sight; what the moving keys mean is for the subclass to say."""

    BINDING_GROUP_TITLE = "Moving"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="up"),
        Binding("down,j", "move(1)", "Down", show=False, id="down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="page-down"),
        Binding("home,g", "first", "First", show=False, id="first"),
        Binding("end,G", "last", "Last", show=False, id="last"),
        Binding("left,h", "side(-1)", "Fold", show=False, id="fold"),
        Binding("right,l", "side(1)", "Unfold", show=False, id="unfold"),
    ]
    DEFAULT_CSS = """
    Scroller {
        height: 1fr; width: 1fr; background: $background; scrollbar-size-vertical: 1;
        overflow-x: hidden; overflow-y: scroll;
    }
    """

    #: What the moving keys do here; an owner that gives them another meaning says so.
    moves: Moves = (
        (("up", "down"), "the row above, the row below"),
        (("page-up", "page-down"), "a page up, a page down"),
        (("first", "last"), "the first row, the last row"),
    )
    empty: reactive[str] = reactive("", layout=False)  #: what stands there when there is nothing

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.set_reactive(Scroller.show_vertical_scrollbar, True)  # from the first layout on
        self._edges: tuple[Strip, Strip] | None = None  #: what stands left and right of every line
        self._framed: dict[int, tuple[Strip, Strip]] = {}  #: a line, and it between the edges; by row

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines as `drawn` gives them; it is asked for all of them, and keeps those it has drawn.

        Textual would put each line together anew from border, padding, opacity and filters, at several times
        the cost of drawing it. What stands around the lines is taken from it, once.
        """
        width, height = self.outer_size
        gutter = self.styles.gutter
        first, last = max(crop.y, gutter.top), min(crop.bottom, height - gutter.bottom)
        strips = self.drawn(range(first - gutter.top, last - gutter.top))
        if gutter.width:
            strips = [self._between_edges(y, strip) for y, strip in enumerate(strips, first)]
        above, below = range(crop.y, min(first, crop.bottom)), range(max(last, first), crop.bottom)
        if above or below:
            around = super().render_lines
            strips = [
                *(around(Region(0, y, width, 1))[0] for y in above),
                *strips,
                *(around(Region(0, y, width, 1))[0] for y in below),
            ]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    @abstractmethod
    def drawn(self, rows: range) -> list[Strip]:
        """Some lines of the screen."""

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        return self.drawn(range(y, y + 1))[0]

    def _between_edges(self, y: int, line: Strip) -> Strip:
        if self._edges is None:
            gutter, width = self.styles.gutter, self.outer_size.width
            whole = super().render_lines(Region(0, gutter.top, width, 1))[0]
            self._edges = whole.crop(0, gutter.left), whole.crop(gutter.left + line.cell_length, width)
            self._framed.clear()
        framed = self._framed.get(y)
        if framed is None or framed[0] is not line:
            left, right = self._edges
            framed = self._framed[y] = (line, Strip.join([left, line, right]))
        return framed[1]

    def notify_style_update(self) -> None:
        """The theme changed: forget what was drawn in its colours."""
        self._edges = None
        super().notify_style_update()

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scroll bar; made when it is first asked for, as Textual makes its own.

        It is put in Textual's private place for it, as there is no public one. Two programs were given the
        same keys in turns, in a conversation of the tiny benchmark database (88 keys each, a busy machine):
        with its own bar half of the keys took more than 1.28 times as long, one in ten 69 ms in place of
        41.
        """
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = QuickScrollBar(vertical=True, name="vertical")
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    def _refresh_scrollbars(self) -> None:
        """The bar is always there, from the start: nothing about it is laid out again.

        A widget that goes gets none: a read that ends late may still fill it.
        """
        if self.is_running:
            self._vertical_scrollbar = self.vertical_scrollbar

    def action_move(self, step: int) -> None:
        """Move by one."""

    def action_page(self, direction: int) -> None:
        """Move by what fits on the screen."""

    def action_first(self) -> None:
        """Go to the start."""

    def action_last(self) -> None:
        """Go to the end."""

    def action_side(self, side: int) -> None:
        """Fold or unfold."""

    def also_moves(self, what: str) -> None:
        """Say in the help what the keys of folding do here."""
        self.moves = (*type(self).moves, (("fold", "unfold"), what))

    @property
    def _top(self) -> int:
        """The first line in sight."""
        return self.scroll_offset.y

    @property
    def _height(self) -> int:
        """The lines in sight; 1 before there is a place on the screen."""
        return max(self.size.height, 1)

    @property
    def _width(self) -> int:
        """Cells of a line."""
        return self.scrollable_content_region.width

    @property
    def _bottom(self) -> int:
        """The first line in sight when the end is."""
        return max(0, self.virtual_size.height - self._height)

    def _hold(self, lines: int) -> None:
        """Say how many lines there are; the scroll bar follows, the layout of the screen need not."""
        size = Size(self._width, lines)
        if size != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, size)
            self._scroll_update(size)

    def _show_from(self, line: int) -> None:
        self.scroll_to(y=max(0, min(line, self._bottom)), animate=False, immediate=True, force=True)
