"""The bars of a screen: the title above, the keys below, and a line under the title in the past."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from enum import Enum
from typing import ClassVar

from lcm_core.base.text import cell_width, clip, safe_line
from lcm_core.base.times import zone_sign
from lcm_core.base.values import Record, replace
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from lcm_tui.kit.drawn import Drawn, strip_of
from lcm_tui.kit.spans import Layout, Line, Sorting, Span, heading_of

# -- title and keys --------------------------------------------------------------------------------------
# The title says where you are and what the file does.

#: What is left of the name of a place, at the least, beside all that is to be said of the file.
SHORTEST_PLACE = 22
#: Commands that keep their place in the key bar however many there are.
ALWAYS = frozenset({"help", "back", "quit", "palette"})
#: What is kept besides in a bar of 80 cells: the undo, or the way to one where a screen has none itself.
UNDO, UNDOES = "undo", "history"
#: In a narrower bar these words are left out: there the keys that only this screen has are said first.
NARROW = 80
PLAIN = frozenset({"Open", "Help", "Back", "Quit"})
#: What leads to the commands that had no room.
REST, MORE = "palette", "…"


class _Bar(Drawn):
    """One line."""

    DEFAULT_CSS = """
    _Bar { height: 1; width: 1fr; background: $panel; }
    """

    @abstractmethod
    def compose_line(self, width: int) -> Line:
        """What stands in the bar."""

    _said: tuple[int, Line] | None = None  #: the width, and what stands in the bar

    def render_line(self, y: int) -> Strip:
        """The one line."""
        width = self.size.width
        self._said = (width, self.compose_line(width))
        return strip_of(self._said[1], self.style_of, width)

    def refresh_changed(self) -> None:
        """Draw the bar again if it does not say any more what stands there."""
        width = self.size.width
        if self._said is None or self._said != (width, self.compose_line(width)):
            self.refresh()


class Part(Enum):
    """What can be clicked in the title."""

    PLACE = "where this is"
    POSITION = "the place in the list, and what is new below it"
    FILE = "the state of the file"


class TitleBar(_Bar):
    """Where you are at the left, the state of the file at the right."""

    class Clicked(Message):
        """Something in it was clicked."""

        def __init__(self, part: Part) -> None:
            super().__init__()
            self.part = part

    where: reactive[str] = reactive("", layout=False)
    note: reactive[str] = reactive("", layout=False)
    live: reactive[Sequence[Line]] = reactive(((),), layout=False)  #: the same, shorter and shorter

    def __init__(self, position: Callable[[], str] = str) -> None:
        """*position* says where in the list below the cursor stands; "" for nowhere."""
        super().__init__()
        self._position = position
        self._named = 0  #: the last cell of the name of the place
        self._starts = (0, 0)  #: the cells where the position and the state of the file begin

    async def on_click(self, event: events.Click) -> None:
        """Say which part was clicked."""
        placed, live = self._starts
        if event.x <= self._named:
            self.post_message(self.Clicked(Part.PLACE))
        elif event.x >= placed:
            self.post_message(self.Clicked(Part.POSITION if event.x < live else Part.FILE))

    def compose_line(self, width: int) -> Line:
        """The place and the note first; of the state of the file as much as has room beside them.

        A place has half of the bar at the most, before the state of the file becomes shorter: the size of the
        file says less than a name.
        """
        where = safe_line(self.where)
        note = safe_line(f"  {self.note}") if self.note else ""
        noted = cell_width(note)
        # The end of a long name says less than a note, or than the place in the list.
        named = cell_width(where)
        least = width * 7 // 20 if note else SHORTEST_PLACE
        wishes = (min(named, width // 2), min(named, least))
        position = self._position()
        placed = (Span(position, "dim"), Span("  ")) if position else ()
        shorter = [(*placed, *line) for line in self.live]
        fitting = (line for wish in wishes for line in shorter if _width(line) + wish + noted + 3 <= width)
        right = next(fitting, None)
        if right is None:
            least = min(cell_width(where), SHORTEST_PLACE) + 3
            right = shorter[-1] if _width(shorter[-1]) + least + noted <= width else self.live[-1]
        room = max(width - _width(right) - 3, 8)
        where = clip(where, max(room - noted, min(room, width * 7 // 20)) if note else room)
        note = clip(note, room - cell_width(where))
        self._named = cell_width(where)
        space = " " * (width - _width(right) - cell_width(where) - cell_width(note) - 2)
        begins = width - 1 - _width(right)
        self._starts = (begins, begins + _width(placed))
        return (Span(" "), Span(where, "title"), Span(note, "dim"), Span(space), *right)


def _width(spans: Iterable[Span]) -> int:
    return sum(cell_width(safe_line(span.text)) for span in spans)


class KeyHint(Record, frozen=True):
    """A key of the bar below."""

    key: str
    title: str
    command: str
    available: bool


class KeyBar(_Bar):
    """The keys of this screen; a click on one is the key."""

    def __init__(self, hints: Callable[[], Sequence[KeyHint]], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._hints = hints

    def compose_line(self, width: int) -> Line:
        """As many keys as fit: first those that do something now, the first ones first.

        The way to the others is always there.
        """
        spans: list[Span] = []
        for _, hint in self._placed(width):
            spans += [
                Span(" "),
                Span(hint.key, "key" if hint.available else "dim"),
                Span(f" {hint.title} " if hint.title else " ", "text" if hint.available else "dim"),
            ]
        if _width(spans) > width:
            spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
        return tuple(spans)

    async def on_click(self, event: events.Click) -> None:
        """Do what the key does that was clicked."""
        for start, hint in self._placed(self.size.width):
            if start <= event.x < start + _width_of(hint):
                await self.screen.run_action(f"run('{hint.command}')")
                return

    def _placed(self, width: int) -> list[tuple[int, KeyHint]]:
        hints = self._hints()
        left = width + 1  # the last one needs no blank behind it
        if sum(map(_width_of, hints)) > left:
            hints = [replace(hint, title=MORE) if hint.command == REST else hint for hint in hints]
            if width < NARROW:
                hints = [replace(hint, title="") if hint.title in PLAIN else hint for hint in hints]
        kept = ALWAYS
        if width >= NARROW:
            undo = next((hint for hint in hints if hint.command == UNDO), None)
            if undo is None or undo.available:
                kept |= {UNDOES if undo is None else UNDO}
        fitting: set[str] = set()
        # Sorting is stable: of those that come next alike, the order is that of the screen.
        for hint in sorted(hints, key=lambda one: (one.command not in kept, not one.available)):
            if hint.command in kept or _width_of(hint) <= left:
                left -= _width_of(hint)
                fitting.add(hint.command)
        placed: list[tuple[int, KeyHint]] = []
        at = 0
        for hint in hints:
            if hint.command in fitting:
                placed.append((at, hint))
                at += _width_of(hint)
        return placed


def _width_of(hint: KeyHint) -> int:
    return 2 + cell_width(f"{hint.key} {hint.title}".rstrip())


def refresh_bars(root: Widget) -> None:
    """Draw the bars of a screen again, after what they say has changed."""
    for bar in root.query("_Bar"):
        assert isinstance(bar, _Bar)
        bar.refresh_changed()


class Heading(_Bar):
    """The titles of a list's columns; a click names the column."""

    class Clicked(Message):
        """A column's title was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    DEFAULT_CSS = """
    Heading { background: $surface; }
    """

    def __init__(
        self,
        layout: Callable[[int], Layout],
        *,
        beyond: Callable[[int], str] | None = None,
        sorting: Callable[[], Sorting | None] | None = None,
        zone: Callable[[], tzinfo | None] | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """*beyond*: the sign of columns at a side of those that are shown, for the width of the list.

        *sorting* says by which column the list is sorted; None where lists have one order only.
        *zone* is that of their times; None where they show none.
        """
        super().__init__(id=id)
        self._columns = layout
        self._beyond = beyond
        self._sorting = sorting
        self._zone = zone

    def compose_line(self, width: int) -> Line:
        """The titles where the list has its columns; above its scroll bar, which takes one cell, the sign."""
        sorting = self._sorting() if self._sorting is not None else None
        zone = zone_sign(self._zone()) if self._zone is not None else ""
        line = heading_of(self._columns(width - 1), sorting, zone)
        sign = self._beyond(width - 1) if self._beyond is not None else ""
        return (*line, Span(" " * (width - 1 - _width(line))), Span(sign, "key")) if sign else line

    async def on_click(self, event: events.Click) -> None:
        """Sort by the column that was clicked."""
        layout = self._columns(self.size.width - 1)
        end = 0
        for column, width in zip(layout.columns, layout.widths, strict=True):
            end += width + 1
            if event.x < end:
                self.post_message(self.Clicked(column.name))
                return


# -- the past --------------------------------------------------------------------------------------------
# The lines under the title of a screen that shows the past.


class PastBar(Drawn):
    """Which point it is, and what is not known of it."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    PastBar { height: 1; width: 1fr; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="past")
        self._lines: Sequence[Line] = ()

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show some lines, as many as there are."""
        self._lines = lines
        self.styles.height = len(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.style_of, self.size.width)
