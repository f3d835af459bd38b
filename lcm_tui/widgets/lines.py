"""The virtual line view under every list of the app: it draws the visible lines and nothing else.

A view holds keys, not rows: a key is what survives a reload. What a key looks like is asked when it comes
into sight, so a list of a million keys costs what its keys cost. Selection, scroll and marks are kept by key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of

K = TypeVar("K", bound=Hashable)

#: How long a new row stays marked.
NEW_SECONDS = 2.0


class LineView(Drawn, ScrollView, Generic[K], can_focus=True):
    """A list of keys, each drawn as one line or more by a function of the owner."""

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
    LineView {
        height: 1fr; width: 1fr; background: $background; scrollbar-size-vertical: 1;
        overflow-x: hidden; overflow-y: scroll;
    }
    """

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
        self.empty = empty
        self.keys: Sequence[K] = ()
        self._index: dict[K, int] | None = None
        self._cursor = 0
        self._offsets: list[int] = [0]
        self._lines: LRUCache[tuple[K, int], Sequence[Line]] = LRUCache(1_000)
        self._fresh: frozenset[K] = frozenset()

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
        if not self.keys:
            return ()
        top = self.scroll_offset.y
        first = self._key_at(top)
        last = self._key_at(top + max(self.size.height, 1) - 1)
        return self.keys[first : last + 1]

    @property
    def at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self.scroll_offset.y + self.size.height >= self.virtual_size.height

    def index_of(self, key: K) -> int | None:
        """The place of a key, None when the view does not hold it."""
        if self._index is None:
            self._index = {held: place for place, held in enumerate(self.keys)}
        return self._index.get(key)

    def replace(self, keys: Sequence[K], *, select: K | None = None, changed: bool = True) -> None:
        """Show other keys, keeping the selection and its place on the screen.

        *select* moves the cursor; else it stays on its key, or where that key was. *changed* forgets what
        the keys looked like.
        """
        kept, row = self.selected, self._row_of_cursor()
        place = self._cursor
        followed = self.at_end and bool(self.keys)
        self.keys = keys
        self._index = None
        if changed:
            self._lines.clear()
        wanted = select if select is not None else kept
        found = self.index_of(wanted) if wanted is not None else None
        self._cursor = max(0, min(found if found is not None else place, len(keys) - 1))
        self._measure()
        top = self._offset(self._cursor) - row
        if followed and select is None and self._tall:
            end = self.virtual_size.height - self.size.height
            top = min(end, self._offset(self._cursor)) if end > top else top
        self.scroll_to(y=max(0, top), animate=False, immediate=True, force=True)
        if found is None or select is not None:
            self._reveal()
        self.refresh()
        if self.selected != kept or changed:
            self.post_message(self.Highlighted(self, self.selected))

    def redraw(self, keys: Collection[K] | None = None) -> None:
        """What these keys look like has changed (all of them when None)."""
        if keys is None:
            self._lines.clear()
        else:
            self._forget(keys)
        if self._tall:
            row = self._row_of_cursor()
            self._measure()
            self.scroll_to(
                y=max(0, self._offset(self._cursor) - row), animate=False, immediate=True, force=True
            )
        self.refresh()

    def _forget(self, keys: Iterable[K]) -> None:
        for key in keys:
            self._lines.discard((key, self._width))

    def select(self, key: K) -> bool:
        """Put the cursor on a key and bring it into sight; False when the view does not hold it."""
        place = self.index_of(key)
        if place is None:
            return False
        self._move_to(place)
        return True

    def mark_fresh(self, keys: Collection[K]) -> None:
        """Mark new keys for a moment."""
        if keys:
            self._fresh = frozenset(keys)
            self.refresh()
            self.set_timer(NEW_SECONDS, self._unmark)

    # -- moving -------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move the cursor; inside a key that is taller than the view, scroll it first."""
        if self._tall and self._scroll_inside(step):
            return
        self._move_to(self._cursor + step)

    def action_page(self, direction: int) -> None:
        """Move by what fits on the screen."""
        if not self.keys:
            return
        height = max(self.size.height - 1, 1)
        if not self._tall:
            self._move_to(self._cursor + direction * height)
            return
        target = self._offset(self._cursor) + self._line_in_cursor() + direction * height
        bottom = self.virtual_size.height - 1
        self._move_to(self._key_at(max(0, min(target, bottom))), reveal=False)
        self.scroll_to(y=max(0, self.scroll_offset.y + direction * height), animate=False, immediate=True)
        self._reveal()

    def action_first(self) -> None:
        """Go to the first key."""
        self._move_to(0)
        self.scroll_to(y=0, animate=False, immediate=True)

    def action_last(self) -> None:
        """Go to the last key."""
        self._move_to(len(self.keys) - 1)
        if self._tall:
            self.scroll_end(animate=False, immediate=True)

    def action_side(self, side: int) -> None:
        """Ask the owner to fold or unfold."""
        self.post_message(self.Sided(self, self.selected, side))

    def open_selected(self) -> None:
        """Say that the selected key was opened."""
        if self.selected is not None:
            self.post_message(self.Opened(self, self.selected))

    async def _on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.keys:
            return
        place = self._key_at(min(self.scroll_offset.y + offset.y, self.virtual_size.height - 1))
        again = place == self._cursor
        self._move_to(place, reveal=False)
        if again or event.chain > 1:
            self.open_selected()

    # -- drawing ------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self.scrollable_content_region.width
        top = self.scroll_offset.y + y
        if top >= self._offsets_total():
            said = (Span(self.empty, "dim"),) if y == 0 and not self.keys else ()
            return strip_of(said, self.style_of, width)
        place = self._key_at(top)
        key = self.keys[place]
        drawn = self._lines_of(key)
        at = top - self._offset(place)
        strip = strip_of(drawn[at] if at < len(drawn) else (), self.style_of, width)
        if place == self._cursor:
            return self._over(strip, "line--cursor" if self.has_focus else "line--cursor-blur")
        return self._over(strip, "line--fresh") if key in self._fresh else strip

    def _over(self, strip: Strip, name: str) -> Strip:
        """The strip with a style laid over those of its spans."""
        style = self.component_style_alone(name)
        return Strip(Segment.apply_style(strip, post_style=style), strip.cell_length)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell the owner that other lines came into sight."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled(self))

    def _on_resize(self, event: events.Resize) -> None:
        row = self._row_of_cursor()
        self._measure()
        self.scroll_to(y=max(0, self._offset(self._cursor) - row), animate=False, immediate=True, force=True)
        self._reveal()
        self.post_message(self.Scrolled(self))

    def _on_focus(self, event: events.Focus) -> None:
        super()._on_focus(event)
        self.refresh()

    # -- places -------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _lines_of(self, key: K) -> Sequence[Line]:
        at = (key, self._width)
        drawn = self._lines.get(at)
        if drawn is None:
            drawn = self._draw(key, self._width)
            self._lines.set(at, drawn)
        return drawn

    def _measure(self) -> None:
        """Count the lines of all keys."""
        if self._tall:
            if len(self.keys) > self._lines.maxsize:
                self._lines.maxsize = 2 * len(self.keys)
            self._offsets = [0, *accumulate(max(1, len(self._lines_of(key))) for key in self.keys)]
        self.virtual_size = Size(self._width, self._offsets_total())

    def _offsets_total(self) -> int:
        return self._offsets[-1] if self._tall else len(self.keys)

    def _offset(self, place: int) -> int:
        return self._offsets[min(place, len(self._offsets) - 1)] if self._tall else place

    def _key_at(self, y: int) -> int:
        """The place of the key that the line *y* belongs to."""
        place = bisect_right(self._offsets, y) - 1 if self._tall else y
        return max(0, min(place, len(self.keys) - 1))

    def _height_of(self, place: int) -> int:
        return self._offset(place + 1) - self._offset(place) if self._tall else 1

    def _row_of_cursor(self) -> int:
        """Where on the screen the selected key begins; negative when it begins above."""
        return self._offset(self._cursor) - self.scroll_offset.y

    def _line_in_cursor(self) -> int:
        """How far the view has scrolled into the selected key."""
        return max(0, -self._row_of_cursor())

    def _scroll_inside(self, step: int) -> bool:
        top, height = self.scroll_offset.y, self.size.height
        first = self._offset(self._cursor)
        last = first + self._height_of(self._cursor)
        if step > 0 and last > top + height > first:
            self.scroll_to(y=min(top + 3, last - height), animate=False, immediate=True)
            return True
        if step < 0 and first < top < last:
            self.scroll_to(y=max(top - 3, first), animate=False, immediate=True)
            return True
        return False

    def _move_to(self, place: int, *, reveal: bool = True) -> None:
        place = max(0, min(place, len(self.keys) - 1))
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self._refresh_key(before)
            self._refresh_key(place)
            self.post_message(self.Highlighted(self, self.selected))
        if reveal:
            self._reveal()

    def _reveal(self) -> None:
        """Bring the selected key into sight, all of it when it fits."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        first = self._offset(self._cursor)
        last = first + self._height_of(self._cursor)
        if last - first > height:
            if top >= last or top + height <= first:
                self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif first < top:
            self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif last > top + height:
            self.scroll_to(y=last - height, animate=False, immediate=True, force=True)

    def _refresh_key(self, place: int) -> None:
        y = self._offset(place) - self.scroll_offset.y
        for row in self._rows_in_sight(y, self._height_of(place)):
            self.refresh(Region(0, row, self._width, 1))

    def _rows_in_sight(self, y: int, height: int) -> Iterator[int]:
        return iter(range(max(0, y), min(self.size.height, y + height)))

    def _unmark(self) -> None:
        self._fresh = frozenset()
        self.refresh()
