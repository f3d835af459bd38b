"""What every widget that draws `Line` values shares: their strips, and the styles behind the names.

`strip_of` is the only way from a line to the terminal: it makes the text safe there, whatever has been done
to it before (docs/spec/decisions.md, "Text of others").
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import ClassVar, Final

from lcm_core.base.text import cell_width, clip, safe_line
from lcm_core.base.values import Record
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color, ColorParseError
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from lcm_tui.kit.spans import Line, StyleName

#: An id, as texts and rows show it, whole or shortened.
_NAME: Final = re.compile(r"\b(?:(?:sum|op|asm|file|focus)_[0-9a-zA-Z]{3,}|m(?:sg#)?[0-9]{1,18}\b)…?")
_WORD: Final = re.compile(r"[^\s;,.:()]+|[;,.:]")
_style_name = attrgetter("style")


def strip_of(spans: Line, style_of: Callable[[StyleName], Style], width: int) -> Strip:
    """The line as the terminal gets it: safe, and exactly *width* cells wide."""
    segments: list[Segment] = []
    left = width
    for style, run in groupby(spans, key=_style_name):
        text = safe_line("".join(span.text for span in run))
        if not text:
            continue
        cells = cell_width(text)
        if cells > left:
            text = clip(text, left)
            cells = cell_width(text)
        segments.append(Segment(text, style_of(style)))
        left -= cells
        if left <= 0:
            break
    if left > 0:
        segments.append(Segment(" " * left, style_of("text")))
    return Strip(segments, width)


class Still(Widget):
    """A widget whose place follows from its styles: to be given one is no reason to lay out again.

    Textual lays a screen out once more for every widget whose size was not known before. Among other bases
    this is the last: Textual takes the styles of the first.
    """

    virtual_size = Reactive(Size(0, 0), layout=False)


class Drawn(Still):
    """A widget that draws lines of spans; `style_of` gives what the theme makes of a style's name."""

    class Pressed(Message):
        """An id, or a key that a line of ours names, was clicked."""

        def __init__(self, widget: Drawn, *, name: str = "", key: str = "", opens: bool = False) -> None:
            super().__init__()
            self.widget = widget
            self.name = name  #: the id, maybe shortened; empty: a key
            self.key = key  #: as it is written
            self.opens = opens  #: a click on its row would open the row

        @property
        def control(self) -> Drawn:
            """Where it was clicked."""
            return self.widget

    #: Whether its lines are words of ours, in which a key or an id can be clicked.
    SPEAKS: ClassVar[bool] = False

    _styles: dict[tuple[str, str], Style] | None = None
    _own: Style | None = None  #: text and background of the widget itself
    _colours: tuple[object, ...] = ()  #: that the styles were made of

    def style_of(self, name: StyleName, over: str = "") -> Style:
        """The style that the theme gives to a name, over the widget's own text and background.

        *over* names a style that is laid over it. The style is as the terminal gets it: what Textual would do
        to every segment of a line (true colours, monochrome) is done to it here, once.
        """
        if self._styles is None or self._own is None:
            self._styles, self._own = {}, self.rich_style
        style = self._styles.get((name, over))
        if style is None:
            ground = self.background_colors[1]
            style = self._own + style_on(
                name, over, ground, self.app.theme_variables, monochrome=self.app.no_color
            )
            segments = [Segment("", style)]
            for line_filter in self.get_line_filters():
                segments = line_filter.apply(segments, ground)
            style = self._styles[name, over] = segments[0].style or style
        return style

    def notify_style_update(self) -> None:
        """Something about the widget's style changed: when its colours did, forget them.

        Textual says so at every change of the focus, too, where nothing drawn looks different.
        """
        super().notify_style_update()
        colours = (self.app.theme, self.app.no_color, self.rich_style, self.background_colors)
        if colours != self._colours:
            self._colours, self._styles = colours, None
            self.colours_changed()

    def colours_changed(self) -> None:
        """Forget what was drawn in other colours."""

    async def on_click(self, event: events.Click) -> None:
        """Go where an id leads, or do what a key does."""
        offset = event.get_content_offset(self) if self.SPEAKS else None
        if offset is not None:
            line = self.render_line(offset.y)
            if name := word_at(line.text, offset.x, _NAME):
                self.post_message(self.Pressed(self, name=name))
            elif self._is_key(line, offset.x) and (key := word_at(line.text, offset.x)):
                self.post_message(self.Pressed(self, key=key))

    def render_line(self, y: int) -> Strip:
        """One line."""
        return super().render_line(y)

    def _is_key(self, line: Strip, cell: int) -> bool:
        """Whether a cell is drawn as keys are."""
        wanted = self.style_of("key")
        return any(segment.style == wanted for segment in line.crop(cell, cell + 1))


def word_at(line: str, cell: int, wanted: re.Pattern[str] = _WORD) -> str:
    """The word (or what else is *wanted*) at a cell of a line; empty: there is none."""
    for found in wanted.finditer(line):
        first = cell_width(line[: found.start()])
        if first <= cell < first + cell_width(found[0]):
            return found[0]
    return ""


def name_at(line: str, cell: int) -> str:
    """The id at a cell of a line; empty: there is none."""
    return word_at(line, cell, _NAME)


# -- lines of words --------------------------------------------------------------------------------------

#: Lines above a list leave four of it, below two bars, the names of the panes and a heading; on a low screen
#: they take at most this share.
HEAD_LEAVES: Final = 8
HEAD_SHARE: Final = 0.6


def head_room(height: int) -> int:
    """Lines that a head may take on a screen of this *height*."""
    return max(height - HEAD_LEAVES, int(height * HEAD_SHARE))


class Lines(Drawn):
    """Some lines, as many as there are."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    Lines { height: 1; width: 1fr; background: $surface; }
    """

    def __init__(
        self,
        compose: Callable[[int], Sequence[Line]],
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name for it
        height: int = 1,
        clicked: Callable[[Line, int], None] = lambda line, cell: None,
    ) -> None:
        """Lines from ``compose(width)``, which is called again at each update.

        *height*: of the first layout. *clicked* gets the line that was clicked, and the cell of it.
        """
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self.styles.height = height
        self._compose_lines = compose
        self._clicked = clicked

    def again(self) -> None:
        """Ask for the lines again, and draw those that say something else."""
        if not self.is_attached:
            return
        width, screen = self.size.width or self.app.size.width, self.app.size.height
        before, self.lines = self.lines, self._compose_lines(width)
        height = max(1, min(len(self.lines), head_room(screen)))
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        for y in range(height):
            if before[y : y + 1] != self.lines[y : y + 1]:
                self.refresh(Region(0, y, width, 1))

    def on_resize(self, event: events.Resize) -> None:
        """Draw for another width."""
        self.again()

    async def on_click(self, event: events.Click) -> None:
        """Say what was clicked."""
        if event.y < len(self.lines):
            self._clicked(self.lines[event.y], event.x)

    def render_line(self, y: int) -> Strip:
        """One of them."""
        line = self.lines[y] if y < len(self.lines) else ()
        return strip_of(line, self.style_of, self.size.width)


# -- palette --------------------------------------------------------------------------------------------
# What the names of styles look like in a theme: the one table of the app's colours.
#
# Styles come from here and not from component classes: matching some 25 classes against the stylesheet
# for every widget of a new screen was half of the time that opening one took.
#
# Eight series (depths and roles) have hues of their own: a theme has four. Every colour is made lighter
# or darker until it is readable on what it stands on, whatever the theme says.

#: The least contrast of a text with what it stands on (WCAG 2.2, success criterion 1.4.3).
READABLE: Final = 4.5
#: How much of the text's colour something dim keeps, where that is readable.
DIM_SHARE: Final = 0.6
_STEPS: Final = 50


class Paint(Record, frozen=True):
    """A style by the theme's variables, or by a colour of its own, and what stands for it without colours."""

    colour: str = "foreground"
    background: str | None = None
    attributes: str = ""
    monochrome: str | None = None  #: attributes without colours; None: the same ones
    ansi: str = (
        ""  #: the terminal's own colour, where the theme is made of those; "": of the theme's variable
    )


PAINTS: Mapping[str, Paint] = {
    "text": Paint(),
    "dim": Paint(monochrome="dim"),
    "title": Paint(attributes="bold"),
    "heading": Paint("text-secondary", attributes="bold", monochrome="bold underline"),
    "key": Paint("text-accent", attributes="bold"),
    "ok": Paint("text-success"),
    "warn": Paint("text-warning"),
    "error": Paint("text-error", attributes="bold", monochrome="bold reverse"),
    "match": Paint("background", "warning", monochrome="reverse"),
    "new": Paint("text-success", attributes="bold"),
    "role-user": Paint("#ffa040", attributes="bold", ansi="ansi_bright_yellow"),
    "role-assistant": Paint("#40d8d8", attributes="bold", ansi="ansi_cyan"),
    "role-tool": Paint("#dcd450", ansi="ansi_yellow"),
    "role-system": Paint("#ff6868", ansi="ansi_red"),
    "leaf": Paint("#58c858", ansi="ansi_green"),
    "d1": Paint("#5aa2ff", ansi="ansi_blue"),
    "d2": Paint("#a98bff", ansi="ansi_magenta"),
    "d3": Paint("#ff78d0", ansi="ansi_bright_magenta"),
    "tail": Paint("text-warning"),
    "brief": Paint("text-accent", attributes="italic"),
    "cursor": Paint(background="primary-muted", monochrome="reverse"),
    "cursor-blur": Paint(background="panel", monochrome="underline"),
    "fresh": Paint(background="success-muted", monochrome="bold"),
}


def style_on(name: str, over: str, ground: Color, variables: Mapping[str, str], *, monochrome: bool) -> Style:
    """What *name* looks like on *ground* in the theme of these *variables*; *over* lies over it, or "" does.

    What has a background of its own keeps it under a cursor: a match stays seen there.
    """
    paint, upper = PAINTS[name], PAINTS.get(over)
    if monochrome:
        style = _attributes(paint)
        return style + _attributes(upper) if upper else style
    if variables.get("background", "").startswith("ansi"):
        style = _attributes(paint) if paint.background else _parsed(paint.attributes)
        colour = _ansi(paint.ansi or variables.get(paint.colour, ""))
        style += Style(color=colour.rich_color if colour and not paint.background else None)
        style += Style(dim=True) if name == "dim" else Style()
        return style + _attributes(upper) if upper and not paint.background else style
    behind = paint.background or (upper.background if upper else None)
    own = variables.get(paint.colour, paint.colour)
    return _coloured(name, own, variables[behind] if behind else None, ground)


@lru_cache(maxsize=1_000)
def _coloured(name: str, colour: str, background: str | None, ground: Color) -> Style:
    on = Color.parse(background) if background else ground
    own = Color.parse(colour)
    if name == "dim":
        own = on.blend(own, DIM_SHARE, 1)
    return _parsed(PAINTS[name].attributes) + Style(
        color=readable(own, on).rich_color, bgcolor=on.rich_color if background else None
    )


def readable(colour: Color, ground: Color) -> Color:
    """*colour*, made as much lighter or darker as it needs to be read on *ground*, its hue kept."""
    if contrast(colour, ground) >= READABLE:
        return colour
    white, black = Color(255, 255, 255), Color(0, 0, 0)
    up = contrast(white, ground) >= contrast(black, ground)
    hue, lightness, saturation = colorsys.rgb_to_hls(*colour.normalized)
    for step in range(1, _STEPS):
        moved = lightness + ((1.0 - lightness) if up else -lightness) * step / _STEPS
        red, green, blue = colorsys.hls_to_rgb(hue, moved, saturation)
        tried = Color(round(red * 255), round(green * 255), round(blue * 255))
        if contrast(tried, ground) >= READABLE:
            return tried
    return white if up else black


def contrast(one: Color, other: Color) -> float:
    """The contrast of two colours, 1 to 21, as WCAG 2.2 defines it ("contrast ratio")."""
    lower, upper = sorted((_luminance(one), _luminance(other)))
    return (upper + 0.05) / (lower + 0.05)


@lru_cache(maxsize=2_000)
def _luminance(colour: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@lru_cache(maxsize=64)
def _parsed(attributes: str) -> Style:
    return Style.parse(attributes)


def _attributes(paint: Paint) -> Style:
    return _parsed(paint.attributes if paint.monochrome is None else paint.monochrome)


def _ansi(name: str) -> Color | None:
    """A colour of the terminal by the name that a theme gives it; a share of one is the colour."""
    try:
        return Color.parse(name.partition(" ")[0])
    except ColorParseError:
        return None
