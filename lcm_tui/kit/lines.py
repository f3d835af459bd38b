"""The virtual line view under every list and text: scrolling, drawing of visible lines, partial painting."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from lcm_core.base.text import safe_line, wrap
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lcm_tui.kit.drawn import Drawn, name_at, strip_of, word_at
from lcm_tui.kit.spans import Line, Span

# -- scrolling -------------------------------------------------------------------------------------------
# What the list and the text have in common: keys that move, and scrolling without animation.

#: What the moving keys do: for some bindings, by their ids, a few words for the help.
Moves: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]

#: Lines that are kept as the terminal gets them.
CACHED_STRIPS = 300


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
        if size != self.virtual_size and self.is_running:
            self.virtual_size = size
            self.vertical_scrollbar.window_virtual_size = lines

    def _show_from(self, line: int) -> None:
        self.scroll_to(y=max(0, min(line, self._bottom)), animate=False, immediate=True, force=True)


# -- the line view ---------------------------------------------------------------------------------------
# It draws the visible lines and nothing else.
#
# A view holds keys, not rows: a key is what survives a reload. Lines are requested when they come into
# sight, so a list of a million keys costs what its keys cost. Selection, scroll and marks are kept by key.

K = TypeVar("K", bound=Hashable)
Row = tuple[Line, str]  #: what stands in a line of the screen, and the style that lies over it
_NOTHING: Row = ((), "")

#: The marks that a click unfolds and folds at once, with the blank behind them.
UNFOLDS: Final = "▸"
FOLD: Final = re.compile(f"[{UNFOLDS}▾] ?")
#: How long a new row stays marked.
NEW_SECONDS = 2.0
#: Lines that an arrow scrolls within a key that is taller than the view.
INSIDE_LINES = 3
#: Drawn keys that are kept.
CACHED = 1_000
#: Keys around the selected one that are asked for its successor when it goes.
NEAR = 100


class LineView(Scroller, Generic[K]):
    """A list of keys, each drawn as one line or more by a function of the owner."""

    #: Whether a click opens a line at once; else the first one selects it.
    OPENS_AT_ONCE: ClassVar[bool] = False
    #: Whether the title bar says which of its keys is selected.
    COUNTED: ClassVar[bool] = True

    class Highlighted(Message):
        """The cursor stands on another key."""

        def __init__(self, view: LineView[Any], key: Any) -> None:
            super().__init__()
            self.view = view
            self.key = key

        @property
        def control(self) -> LineView[Any]:
            """The view that says so."""
            return self.view

    class Opened(Highlighted):
        """Enter, or a click on the selected key."""

        def __init__(self, view: LineView[Any], key: Any, cell: int | None = None) -> None:
            super().__init__(view, key)
            self.cell = cell  #: of the line that was clicked

    class Sided(Highlighted):
        """Fold (side -1) or unfold (side 1) was asked for the selected key."""

        def __init__(self, view: LineView[Any], key: Any, side: int) -> None:
            super().__init__(view, key)
            self.side = side

    class Scrolled(Message):
        """Other lines came into sight."""

        def __init__(self, view: LineView[Any]) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> LineView[Any]:
            """The view that says so."""
            return self.view

    def __init__(
        self,
        draw: Callable[[K, int], Sequence[Line]],
        *,
        tall: bool = False,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - Textual's own name for it
    ) -> None:
        """A view whose keys are drawn by ``draw(key, width)``.

        *tall*: a key may take several lines; else every key takes exactly one, and nothing is drawn ahead.
        *empty*: what stands there when there is no key.
        """
        super().__init__(id=id)
        self._draw = draw
        self._tall = tall
        self.set_reactive(Scroller.empty, empty)
        self.keys: Sequence[K] = ()
        self._index: dict[K, int] | None = None  #: the places of all keys, once they were asked for
        self._near: dict[K, int] = {}  #: those of the keys near what was in sight
        self._cursor = 0
        self._on_last = True  #: the cursor was put on the last key, which may have others below it since
        self._offsets: list[int] = [0]
        self._lines: LRUCache[K, Sequence[Line]] = LRUCache(CACHED)
        self._drawn_at = 0  #: the width that the lines were drawn for
        self._room = 0  #: lines that were in sight when the cursor was last brought there
        self._painted: dict[int, tuple[Row, Strip]] = {}  #: what stands on the screen, by line
        self._strips: LRUCache[Row, Strip] = LRUCache(CACHED_STRIPS)
        self._fresh: dict[K, object] = {}  #: marked keys, each with what will take its mark away
        self._unseen: set[K] = set()  #: new keys that were not in sight yet

    # -- what the owner asks and says ---------------------------------------------------------------

    @property
    def selected(self) -> K | None:
        """The key under the cursor."""
        return self.keys[self._cursor] if self._cursor < len(self.keys) else None

    @property
    def cursor(self) -> int:
        """The place of the selected key among the keys."""
        return self._cursor

    @property
    def visible_keys(self) -> Sequence[K]:
        """The keys of which at least one line is in sight."""
        return self.keys_near(0)

    @property
    def position(self) -> str:
        """Which of the keys is selected, "3 of 42", and what is new below those in sight, "37 new ↓"."""
        place, total = self.counted_keys() if self.COUNTED else (0, 0)
        counted = f"{place:,} of {total:,}" if place else ""
        below = self.new_below
        return " · ".join(filter(None, (counted, f"{below:,} new ↓" if below else "")))

    def counted_keys(self) -> tuple[int, int]:
        """Which key is selected, from 1 on, 0 on a line that is none; and how many there are."""
        return (self.cursor + 1 if self.keys else 0), len(self.keys)

    @property
    def new_below(self) -> int:
        """How many keys came below those in sight and were not in sight since."""
        self._see()
        return len(self._unseen)

    def _see(self) -> None:
        if self._unseen:
            last = self._place_at(self._top + self._height - 1)
            self._unseen = {key for key in self._unseen if self._is_below(key, last)}

    def _is_below(self, key: K, last: int) -> bool:
        """Whether a key is below the last place in sight."""
        place = self.index_of(key)
        return place is not None and place > last

    def keys_near(self, pages: int) -> Sequence[K]:
        """The keys in sight and those so many pages above and below."""
        if not self.keys:
            return ()
        beyond = pages * self._height
        first, last = (
            self._place_at(self._top - beyond),
            self._place_at(self._top + self._height - 1 + beyond),
        )
        return self.keys[first : last + 1]

    @property
    def at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self._top >= self._bottom

    def index_of(self, key: K, near: Iterable[int] = ()) -> int | None:
        """The place of a key, None when the view does not hold it; *near*: places to look at first."""
        for place in near:
            if 0 <= place < len(self.keys) and self.keys[place] == key:
                return place
        if self._index is None:
            # After a reload hardly any are asked for but those in sight and a page from it; to note the
            # places of fifty thousand keys would take as long as to answer a key.
            if key not in self._near:
                first = self._place_at(self._top - self._height)
                self._near = {held: first + at for at, held in enumerate(self.keys_near(1))}
            if key in self._near:
                return self._near[key]
            self._index = {held: place for place, held in enumerate(self.keys)}
        return self._index.get(key)

    def replace(
        self,
        keys: Sequence[K],
        *,
        select: K | None = None,
        changed: bool = True,
    ) -> None:
        """Show other keys, keeping the selection and what is in sight where it stands on the screen.

        *select* moves the cursor; else it stays on its key, or where that key was. A view of tall keys that
        shows its end goes on showing it if the cursor was put on the last key or is out of sight, as long as
        the selected key stays in sight. *changed* forgets what the keys looked like.
        """
        before, kept, seen = self.keys, self.selected, self._cursor_is_seen
        followed = self._tall and self.at_end and bool(before) and (self._on_last or not seen)
        if changed:
            self._lines.clear()
        with self._in_place():
            self.keys = keys
            self._index = None
            self._near = {}
            place = None if select is None else self.index_of(select)
            moved = place is not None
            if place is None:
                place = self._successor(before, self._cursor)
            self._cursor = max(0, min(place, len(keys) - 1))
        if moved:
            self._on_last = self._cursor == len(keys) - 1
        if followed and not moved:
            end = min(self._bottom, self._offset(self._cursor)) if seen else self._bottom
            self._show_from(max(self._top, end))
        if moved or (seen and self.selected != kept):
            self._reveal()
        self._repaint()
        if self.selected != kept or changed:
            self.post_message(self.Highlighted(self, self.selected))

    def redraw(self, keys: Collection[K] | None = None) -> None:
        """What these keys look like has changed (None: all of them)."""
        if keys is None:
            self._lines.clear()
        else:
            self._forget(keys)
            if not self._tall and set(self.visible_keys).isdisjoint(keys):
                return
        if self._tall:
            with self._in_place():
                pass
        self._repaint()

    def select(self, key: K) -> bool:
        """Put the cursor on a key and bring it into sight; False when the view does not hold it."""
        place = self.index_of(key)
        if place is None:
            return False
        self._move_to(place)
        return True

    def reveal_more(self) -> None:
        """Bring into sight what the selected key holds below the screen, as far as its start stays there."""
        first = self._offset(self._cursor)
        last = first + self._height_of(self._cursor)
        if first >= self._top and last > self._top + self._height:
            self._show_from(min(first, last - self._height))

    def reveal_top(self) -> None:
        """Show the list from its beginning if the selected key is in sight then."""
        if self._offset(self._cursor) + self._height_of(self._cursor) <= self._height:
            self._show_from(0)

    def reveal_line(self, at: int) -> None:
        """Bring a line of the selected key into sight."""
        line = self._offset(self._cursor) + at
        if not self._top <= line < self._top + self._height:
            self._show_from(line - self._height // 3)

    def mark_fresh(self, keys: Collection[K], *, arrived: bool = True) -> None:
        """Mark new keys for a moment; those that *arrived* just now are counted below the rows in view."""
        if keys:
            mark = object()
            self._fresh.update(dict.fromkeys(keys, mark))
            self._unseen.update(keys if arrived else ())
            self._repaint()
            if self.new_below:
                self.post_message(self.Scrolled(self))
            self.set_timer(NEW_SECONDS, partial(self._unmark, mark))

    # -- moving -------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move the cursor; inside a key that is taller than the view, scroll it first."""
        if not (self._tall and self._scroll_inside(step)):
            self._move_to(self._cursor + step, reveal=False)
            self._reveal(upward=step < 0)

    def action_page(self, direction: int) -> None:
        """Move by what fits on the screen."""
        if not self.keys:
            return
        height = max(self._height - 1, 1)
        if not self._tall:
            self._move_to(self._cursor + direction * height)
            return
        target = max(self._offset(self._cursor), self._top) + direction * height
        self._show_from(self._top + direction * height)
        self._move_to(self._whole_key_at(target), reveal=False)

    def action_first(self) -> None:
        """Go to the first key."""
        self._move_to(0)
        self._show_from(0)

    def action_last(self) -> None:
        """Go to the last key, and to its end."""
        self._move_to(len(self.keys) - 1)
        self._show_from(self._bottom)

    def action_side(self, side: int) -> None:
        """Ask the owner to fold or unfold."""
        self.post_message(self.Sided(self, self.selected, side))

    def open_selected(self, cell: int | None = None) -> None:
        """Say that the selected key was opened, by a click on a *cell* of it."""
        if self.selected is not None:
            self.post_message(self.Opened(self, self.selected, cell))

    async def on_click(self, event: events.Click) -> None:
        """Select, or open; unfold at the mark of what is folded; go where an id leads."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y == 0 and not self.keys:
            self.post_message(self.Pressed(self, key=word_at(self.empty, offset.x)))
        if offset is None or self._top + offset.y >= self._total:
            return
        place = self._place_at(self._top + offset.y)
        line = self.render_line(offset.y).text
        name, fold = name_at(line, offset.x), word_at(line, offset.x, FOLD)
        opens = self.OPENS_AT_ONCE or place == self._cursor
        if place != self._cursor:
            self._move_to(place, reveal=False)
        if fold:
            if event.chain == 1:
                self.action_side(1 if fold[0] == UNFOLDS else -1)
        elif name:
            self.post_message(self.Pressed(self, name=name, opens=opens))
        elif opens:
            self.open_selected(offset.x)

    # -- drawing ------------------------------------------------------------------------------------

    def drawn(self, rows: range) -> list[Strip]:
        """Some lines of the screen."""
        strips = []
        for y, row in zip(rows, self._rows(rows), strict=True):
            painted = self._painted.get(y)
            if painted is None or painted[0] != row:
                painted = self._painted[y] = (row, self._strip_of(row))
            strips.append(painted[1])
        return strips

    def _strip_of(self, row: Row) -> Strip:
        strip = self._strips.get(row)
        if strip is None:
            line, over = row
            strip = strip_of(line, partial(self.style_of, over=over), self._drawn_at)
            self._strips.set(row, strip)
        return strip

    def _forget_strips(self) -> None:
        self._strips.clear()
        self._painted.clear()

    def colours_changed(self) -> None:
        """Forget what was drawn in other colours."""
        self._forget_strips()

    def _rows(self, rows: range) -> list[Row]:
        """What stands in some lines of the screen, and the style that lies over each."""
        self._fit()
        top, total = self._top, self._total
        found: list[Row] = []
        for line in range(top + rows.start, min(top + rows.stop, total)):
            place = self._place_at(line)
            key = self.keys[place]
            drawn = self._lines_of(key)
            at = line - self._offset(place)
            if place == self._cursor:
                over = "cursor" if self.has_focus else "cursor-blur"
            else:
                over = "fresh" if key in self._fresh else ""
            found.append((drawn[at] if at < len(drawn) else (), over))
        if not self.keys:
            said = wrap(safe_line(self.empty), self._width)
            found += [((Span(line, "dim"),), "") for line in said[rows.start : rows.stop]]
        return [*found, *[_NOTHING] * (len(rows) - len(found))]

    def _repaint(self) -> None:
        """Paint the lines that do not look as they did: a reload mostly leaves them as they are."""
        changed: list[Region] = []
        begun: int | None = None  # the first of some changed lines
        for y, row in enumerate(self._rows(range(self.size.height))):
            painted = self._painted.get(y)
            if painted is None or painted[0] != row:
                begun = y if begun is None else begun
            elif begun is not None:
                changed.append(Region(0, begun, self._drawn_at, y - begun))
                begun = None
        if begun is not None:
            changed.append(Region(0, begun, self._drawn_at, self.size.height - begun))
        if changed:
            self.refresh(*changed)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell the owner that other lines came into sight."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._see()
            self.post_message(self.Scrolled(self))

    def on_resize(self, event: events.Resize) -> None:
        """Keep the place at another size."""
        seen = self._cursor_is_seen
        with self._in_place():
            pass
        self._room = self.size.height
        if seen:
            self._reveal()
        # A paint may have come between the layout and this: with the places that keys had at another width.
        self._repaint()
        self.post_message(self.Scrolled(self))

    def _fit(self) -> None:
        """Forget what was drawn for another width."""
        width = self._width
        if width != self._drawn_at:
            self._lines.clear()
            self._forget_strips()
            self._drawn_at = width

    def _lines_of(self, key: K) -> Sequence[Line]:
        drawn = self._lines.get(key)
        if drawn is None:
            drawn = self._draw(key, self._drawn_at)
            self._lines.set(key, drawn)
        return drawn

    def _forget(self, keys: Iterable[K]) -> None:
        for key in keys:
            self._lines.discard(key)

    def _refresh_key(self, place: int) -> None:
        first = self._offset(place) - self._top
        for row in range(max(0, first), min(self.size.height, first + self._height_of(place))):
            self.refresh(Region(0, row, self._width, 1))

    def _unmark(self, mark: object) -> None:
        self._fresh = {key: held for key, held in self._fresh.items() if held is not mark}
        self._repaint()

    # -- places -------------------------------------------------------------------------------------

    @property
    def _total(self) -> int:
        """Lines of all keys."""
        return self._offsets[-1] if self._tall else len(self.keys)

    def _measure(self) -> None:
        """Count the lines of all keys."""
        self._fit()
        if self._tall:
            self._lines.maxsize = max(CACHED, 2 * len(self.keys))
            self._offsets = [0, *accumulate(max(1, len(self._lines_of(key))) for key in self.keys)]
        self._hold(self._total)

    def _offset(self, place: int) -> int:
        return self._offsets[max(0, min(place, len(self._offsets) - 1))] if self._tall else place

    def _height_of(self, place: int) -> int:
        return self._offset(place + 1) - self._offset(place) if self._tall else 1

    def _place_at(self, line: int) -> int:
        """The place of the key that a line belongs to."""
        place = bisect_right(self._offsets, line) - 1 if self._tall else line
        return max(0, min(place, len(self.keys) - 1))

    def _whole_key_at(self, line: int) -> int:
        """The place of the key at a line, or of the one next to it when that one is in sight as a whole."""
        place = self._place_at(max(0, line))
        first, last = self._top, self._top + self._height
        if self._offset(place + 1) > last and first <= self._offset(place - 1) < self._offset(place):
            return place - 1
        if self._offset(place) < first < self._offset(place + 1) < self._offset(place + 2) <= last:
            return place + 1
        return place

    @property
    def _cursor_is_seen(self) -> bool:
        """Whether a line of the selected key is in sight, or would be if the view had a place already."""
        row = self._offset(self._cursor) - self._top
        return not self._room or -self._height_of(self._cursor) < row < self._room

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Measure again; what stands on the screen stays there: the selected key, else the topmost."""
        top, total = self._top, len(self.keys)
        first = self._place_at(top)
        places = [*([self._cursor] if self._cursor_is_seen else []), *range(first, first + self._height)]
        kept = [(self.keys[place], place, self._offset(place) - top) for place in places if place < total]
        yield
        self._measure()
        for key, place, row in kept:
            found = self.index_of(key, (place, place + len(self.keys) - total))
            if found is not None:
                self._show_from(self._offset(found) - row)
                return
        self._show_from(self._top)

    def _successor(self, before: Sequence[K], place: int) -> int:
        """Where the key that stood at *place* stands now, else the nearest one after it, else before it."""
        grown = len(self.keys) - len(before)
        for old in (*range(place, place + NEAR), *range(place - 1, place - NEAR, -1)):
            found = self.index_of(before[old], (old, old + grown)) if 0 <= old < len(before) else None
            if found is not None:
                return found
        return place

    def _scroll_inside(self, step: int) -> bool:
        first = self._offset(self._cursor)
        last = first + self._height_of(self._cursor)
        top, height = self._top, self._height
        if step > 0 and last > top + height > first:
            self._show_from(min(top + INSIDE_LINES, last - height))
            return True
        if step < 0 and first < top < last:
            self._show_from(max(top - INSIDE_LINES, first))
            return True
        return False

    def _move_to(self, place: int, *, reveal: bool = True) -> None:
        place = max(0, min(place, len(self.keys) - 1))
        self._on_last = place == len(self.keys) - 1
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self._refresh_key(before)
            self._refresh_key(place)
            self.post_message(self.Highlighted(self, self.selected))
        if reveal:
            self._reveal()

    def _reveal(self, *, upward: bool = False) -> None:
        """Bring the selected key into sight: all of it, else its start, or its end on the way *upward*."""
        top, height = self._top, self._height
        self._room = max(self._room, self.size.height)
        first = self._offset(self._cursor)
        last = first + self._height_of(self._cursor)
        if last - first > height:
            if top >= last or top + height <= first:
                self._show_from(last - height if upward else first)
        elif first < top:
            self._show_from(first)
        elif last > top + height:
            self._show_from(last - height)
