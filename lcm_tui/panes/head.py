"""What stands above a list or a text: some lines, always as many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of


class Head(Drawn):
    """Five lines, drawn again whenever it is refreshed."""

    DEFAULT_CSS = """
    Head { height: 5; width: 1fr; background: $surface; }
    """

    def __init__(self, lines: Callable[[], Sequence[Line]]) -> None:
        super().__init__(id="head")
        self._lines_of = lines

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines = self._lines_of()
        return strip_of(lines[y] if y < len(lines) else (), self.style_of, self.size.width)
