"""What every widget that draws `Line` values shares: the styles behind the names."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from lcm_core.base.text import cell_width
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from lcm_tui.kit.spans import StyleName, style_on

#: An id, as texts and rows show it, whole or shortened.
_NAME: Final = re.compile(r"\b(?:(?:sum|op|asm|file|focus)_[0-9a-zA-Z]{3,}|m(?:sg#)?[0-9]{1,18}\b)…?")
_WORD: Final = re.compile(r"[^\s;,.:()]+|[;,.:]")


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

    async def _on_click(self, event: events.Click) -> None:
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
