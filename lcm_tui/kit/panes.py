"""Panes: what a pane knows of its screen, how two are divided, a text beside a list, heads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Final, Protocol, TypeVarTuple, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker

from lcm_tui.kit.drawn import Drawn, Lines, Still, strip_of
from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Line, Span, WrappedBlock
from lcm_tui.kit.text import TextView

# -- the desk --------------------------------------------------------------------------------------------
# The screen as a pane knows it: the session, and work beside the keys.

Ts = TypeVarTuple("Ts")


class Desk(Protocol):
    """What a pane asks of the screen that it stands on."""

    @property
    def session(self) -> Session:
        """The open database and its settings."""

    def work_on(
        self, group: str, work: Callable[[*Ts], Awaitable[object]], *args: *Ts, exclusive: bool = True
    ) -> Worker[None]:
        """Run ``work(*args)`` beside the keys."""


# -- containers ------------------------------------------------------------------------------------------
# They are covered by what they hold, and so have nothing to draw.
#
# Textual requests all lines of every widget under a changed line; of a container they are blanks that
# nobody sees, and on a screen of five containers they cost more than the line that a key has changed.


class Rows(Vertical, Still):
    """What it holds stands one below the other."""

    BLANK: ClassVar[bool] = True


class Columns(Horizontal, Still):
    """What it holds stands side by side."""

    BLANK: ClassVar[bool] = True


# -- two panes -------------------------------------------------------------------------------------------
# With a divider between them that moves, by keys and by the mouse.

#: From this width of the terminal on, two panes stand side by side.
BESIDE: Final = 130
#: What a key moves a divider by: cells, lines.
STEP: Final = (4, 1)
#: What the first and the second pane keep at least, wherever the divider is moved: cells, lines.
LEAST: Final = ((24, 4), (24, 3))
#: So long after the last move it is written down where a divider is.
WRITE_SECONDS: Final = 0.5


class Remembers(Protocol):
    """Where dividers were left."""

    def share(self, name: str) -> float | None:
        """The part that a first pane takes; None: as it was made."""

    def keep(self, name: str, share: float | None) -> None:
        """Remember another part; None forgets it."""

    def write(self) -> None:
        """Write down what is new; blocks."""


class _Session(Protocol):
    @property
    def remembered(self) -> Remembers:
        """Where dividers were left."""


class _Host(Protocol):
    @property
    def session(self) -> _Session:
        """What the screens share."""


class Divider(Drawn):
    """The line between two panes; it is dragged with the mouse, and a double click puts it back."""

    DEFAULT_CSS = """
    Divider { width: 1fr; height: 1; color: $foreground 30%; background: $background; }
    Divider.-lit, Divider:hover { color: $accent; }
    """

    def __init__(self, dragged: Callable[[events.MouseEvent], None], put_back: Callable[[], None]) -> None:
        super().__init__(id="divider")
        self._dragged = dragged
        self._put_back = put_back
        self._held = False

    def render_lines(self, crop: Region) -> list[Strip]:
        """A line, or the pieces of one."""
        return [self.render_line(y) for y in range(crop.y, crop.bottom)]

    def render_line(self, y: int) -> Strip:
        """A line, or a piece of one: heavy, with a mark at the second pane, while that has the keys."""
        width, height = self.size
        lit = self.has_class("-lit")
        if width == 1 < height:
            text = "│" if not lit else "▶" if y == height // 2 else "┃"
        else:
            text = "━▼".ljust(width, "━")[:width] if lit else "─" * width
        return strip_of((Span(text),), self.style_of, width)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of it."""
        event.stop()
        self._held = True
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """It follows the mouse."""
        if self._held:
            event.stop()
            self._dragged(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go of it."""
        if self._held:
            event.stop()
            self._held = False
            self.release_mouse()

    async def on_click(self, event: events.Click) -> None:
        """A double click puts it back."""
        event.stop()
        if event.chain == 2:
            self._put_back()


class TwoPanes(Container, Still):
    """Two panes, side by side where there is room, else one below the other, and a divider that moves.

    Where it is moved to is remembered for the kind of screen, side by side and below each other apart, as
    the part that the first pane takes: it holds in a terminal of another size, too.
    """

    BLANK: ClassVar[bool] = True
    DEFAULT_CSS = """
    TwoPanes { height: 1fr; }
    TwoPanes > .-second { padding-left: 1; }
    """

    def __init__(
        self,
        first: Widget,
        second: Widget,
        *,
        shares: tuple[float, float | None] = (0.6, 0.6),
        beside: int | None = BESIDE,
        below: bool = True,
        changed: Callable[[], None] | None = None,
    ) -> None:
        """*shares*: what the first pane takes of the width, and of the height, until the divider is moved.

        A height of None is what the pane itself needs. *beside*: the width of the terminal, in cells, from
        which on they stand side by side; None: never. Without *below* a narrower one shows one of them.
        *changed* is called when the panes have another room than before.
        """
        super().__init__(id="panes")
        self.first, self.second = first, second
        self._shares = shares
        self._beside, self._below = beside, below
        self._changed = changed
        self._alone = first  #: which is shown where there is room for one
        self._only: Widget | None = None  #: shown whatever room there is
        self._now: tuple[bool, bool] = (False, False)  #: side by side; both are shown
        self._divider = Divider(self._drag, self.put_back)
        self._waiting: int | None = None  #: where a drag has come to since the panes were laid out
        self._writing = False  #: it will be written down where the divider is
        self._needed: int | None = None  #: lines that the first pane needs; None: the part it was made with

    def compose(self) -> ComposeResult:
        """The panes and what divides them."""
        self.second.add_class("-second", update=False)  # it is styled when it is mounted
        self._arrange()
        yield self.first
        yield self._divider
        yield self.second

    # -- what is shown -----------------------------------------------------------------------------------

    @property
    def both(self) -> bool:
        """Whether both panes are shown."""
        return self._now[1]

    @property
    def alone(self) -> Widget:
        """The pane that is shown where there is room for one only."""
        return self._alone

    def show_alone(self, pane: Widget) -> None:
        """Show this one of them where there is room for one only."""
        self._alone = pane
        self._show()

    def show_only(self, pane: Widget | None) -> None:
        """Show one of them whatever room there is; None: both again, where they have room."""
        self._only = pane
        self._show()

    @property
    def room(self) -> int | None:
        """Lines of the first pane above the second, once somebody has moved the divider."""
        moved = self.both and not self._now[0] and self._remembered.share(self._kept_as) is not None
        return self.first.size.height if moved else None

    def on_resize(self) -> None:
        """Side by side or below each other, as the terminal is now."""
        if self._layout != self._now:
            self._arrange()
            self._say_changed()
        elif self._needed is not None:
            self.give_lines(self._needed)

    def give_lines(self, lines: int) -> None:
        """Above the second pane, the first one gets the lines that it needs, two thirds of all at most.

        Where somebody has moved the divider, it stays.
        """
        self._needed = lines
        if self._remembered.share(self._kept_as) is None:
            self._share_out(self._first_share)

    def _say_changed(self) -> None:
        if self._changed is not None:
            self.call_after_refresh(self._changed)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The divider says which pane has the keys, also where there are no colours."""
        self._divider.set_class(self.second in event.widget.ancestors_with_self, "-lit")
        self._divider.refresh()

    @property
    def _layout(self) -> tuple[bool, bool]:
        sideways = self._beside is not None and self.app.size.width >= self._beside
        return sideways, sideways or self._below

    def _arrange(self) -> None:
        self._now = self._layout
        sideways = self._now[0]
        self.styles.layout = "horizontal" if sideways else "vertical"
        for widget in (self.first, self.second):
            widget.styles.width = widget.styles.height = "1fr"
            widget.styles.min_width = widget.styles.min_height = None
        divider = self._divider.styles
        divider.width, divider.height = (1, "1fr") if sideways else ("1fr", 1)
        self._show()
        self._share_out(self._remembered.share(self._kept_as) or self._first_share)

    def _show(self) -> None:
        both = self.both and self._only is None
        alone = self._only or self._alone
        self.first.display = both or alone is self.first
        self.second.display = both or alone is self.second
        self._divider.display = both

    @property
    def _first_share(self) -> float | None:
        if self._needed is not None and not self._now[0] and self._extent > 1:
            return min(max(self._needed, LEAST[0][1]), self._extent * 2 // 3) / self._extent
        return self._shares[not self._now[0]]

    def _share_out(self, share: float | None) -> None:
        """Give the first pane its part; whole cells, where it is known how many there are."""
        extent, sideways = self._extent, self._now[0]
        if share is None:
            self.first.styles.height = "auto"
            return
        parts = (share, 1 - share)
        if extent > 1:
            cells = round(share * extent)
            parts = (cells, extent - cells)
        for widget, part, least in (
            (self.first, parts[0], LEAST[0][not sideways]),
            (self.second, parts[1], 1),
        ):
            if sideways:
                widget.styles.width, widget.styles.min_width = f"{part}fr", least
            else:
                widget.styles.height, widget.styles.min_height = f"{part}fr", least

    # -- the divider -------------------------------------------------------------------------------------

    @property
    def _extent(self) -> int:
        """Cells or lines of both panes; 0 or less before there is a place on the screen."""
        return (self.size.width if self._now[0] else self.size.height) - 1

    def why_not_move(self) -> str | None:
        """Why the divider cannot be moved; None: it can."""
        if self._only is not None:
            return "one pane is shown alone"
        if not self.both:
            return "a wider terminal shows two panes here"
        least = sum(part[not self._now[0]] for part in LEAST)
        return None if self._extent > least else "the terminal is too small to divide it otherwise"

    def move(self, steps: int) -> None:
        """Move the divider by so many steps, to the right or down."""
        sideways = self._now[0]
        length = self.first.outer_size.width if sideways else self.first.outer_size.height
        self._place(length + steps * STEP[not sideways])

    def put_back(self) -> None:
        """Put the divider where it was before anybody moved it."""
        self._share_out(self._first_share)
        self._remember(None)

    def _drag(self, event: events.MouseEvent) -> None:
        """Follow the mouse, at the pace at which the panes are laid out."""
        at = event.screen_x - self.region.x if self._now[0] else event.screen_y - self.region.y
        laid_out = self._waiting is None
        self._waiting = at
        if laid_out:
            self.call_after_refresh(self._follow)
            self._place(at)

    def _follow(self) -> None:
        at, self._waiting = self._waiting, None
        if at is not None:
            self._place(at)

    def _place(self, cells: int) -> None:
        if self.why_not_move() is not None:
            return
        extent, direction = self._extent, int(not self._now[0])
        cells = max(LEAST[0][direction], min(cells, extent - LEAST[1][direction]))
        share = cells / extent
        self._share_out(share)
        self._remember(share)

    @property
    def _remembered(self) -> Remembers:
        return cast(_Host, self.app).session.remembered

    @property
    def _kept_as(self) -> str:
        kind = type(self.screen).__name__.removesuffix("Screen").lower()
        return f"{kind} {'beside' if self._now[0] else 'below'}"

    def _remember(self, share: float | None) -> None:
        self._remembered.keep(self._kept_as, share)
        self._say_changed()
        if not self._writing:
            self._writing = True
            self.set_timer(WRITE_SECONDS, self._write)

    async def _write(self) -> None:
        self._writing = False
        await asyncio.to_thread(self._remembered.write)


# -- keys of the divider ---------------------------------------------------------------------------------


def move_divider(screen: Screen[None], step: int) -> None:
    """Move it left or up, or right or down."""
    for panes in screen.query(TwoPanes):
        panes.move(step)


def why_no_divider(screen: Screen[None]) -> str | None:
    """Why there is none to move."""
    panes = next(iter(screen.query(TwoPanes)), None)
    return "this screen has one pane" if panes is None else panes.why_not_move()


# -- a text beside the list ------------------------------------------------------------------------------
# Lists with the text of what is selected beside them, where a screen is wide enough for both.

#: From this width on, the text stands beside the list.
WIDE: Final = 110


class Aside(TwoPanes):
    """What is listed, and the text about what is selected in it, which a narrow screen does without."""

    def __init__(self, *listed: Widget, show_text: Callable[[], None], beside: int = WIDE) -> None:
        """*listed* is the list; *show_text* is called once the text has room that it had not before.

        *beside*: the width of the terminal, in cells, from which on it has.
        """
        self.text = TextView(id="text")
        super().__init__(Rows(*listed, id="chosen"), self.text, beside=beside, below=False, changed=show_text)


# -- heads -----------------------------------------------------------------------------------------------
# The head of a list or a text: some lines, each of them whole.

#: Lines that it has at most.
MOST: Final = 9
#: Below this height of the terminal only the last lines are shown, each cut to one line.
LOW: Final = 18
LINES_LOW: Final = 3
#: Cells before what goes on from the line above.
INDENT: Final = 3


class Head(Lines):
    """A few lines; more where one of them is too long for the width.

    In a low terminal the last three, so that the list below keeps its rows; its screen asks for the lines
    again when the height changes.
    """

    def __init__(self, lines: Callable[[], Sequence[Line]], least: int) -> None:
        """*least*: so many lines it has at any time, so that the list below it does not jump."""
        super().__init__(self._whole, id="head", height=least)
        self._lines_of = lines
        self._least = least

    def _whole(self, width: int) -> Sequence[Line]:
        if self.app.size.height < LOW:
            lines, least = list(self._lines_of()[-LINES_LOW:]), LINES_LOW
        else:
            lines, least = list(whole_lines(self._lines_of(), width))[:MOST], self._least
        return [*lines, *[()] * (least - len(lines))]


def whole_lines(lines: Sequence[Line], width: int) -> Iterator[Line]:
    """*lines*, those that are too long for *width* cells on as many as they need."""
    for line in lines:
        wrapped = WrappedBlock(Block(spans=line, indent=INDENT), width)
        yield from (wrapped.line(at) for at in range(len(wrapped)))
