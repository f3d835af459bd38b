"""What every widget that draws `Line` values shares: the styles behind the names."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widget import Widget

from lcm_tui.widgets.palette import style_on
from lcm_tui.widgets.spans import StyleName


class Still(Widget):
    """A widget whose place follows from its styles: to be given one is no reason to lay out again.

    Textual lays a screen out once more for every widget whose size was not known before. Among other bases
    this is the last: Textual takes the styles of the first.
    """

    virtual_size = Reactive(Size(0, 0), layout=False)


class Drawn(Still):
    """A widget that draws lines of spans; `style_of` gives what the theme makes of a style's name."""

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
