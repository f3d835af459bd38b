"""The lines under the title of a screen that shows the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of


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
