"""What is below the rows of the coverage map: the context's row, the axis, the chosen block, the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.strip import Strip

from lcm_tui.screens.coverage.rows import CoverageRows
from lcm_tui.views.coverage import axis_line, block_line, cut_line, gutter, legend, unseen, wrapped
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of

#: Lines of the legend that a screen has room for.
LEGEND_LINES = 3


class CoverageFoot(Drawn):
    """A few lines under the rows, at the same cells."""

    def __init__(self, rows: CoverageRows, clicked: Callable[[int], None]) -> None:
        """*clicked* gets the place of the message whose cell of the context was clicked."""
        super().__init__(id="foot")
        self._rows = rows
        self._clicked = clicked
        self._lines: Sequence[Line] = ()
        self.reading = True  #: which summaries are broken or stale is not known yet

    def say(self) -> None:
        """Say what is so now; its height follows."""
        lines = self._said(self.size.width or self.app.size.width)
        if lines != self._lines:
            self._lines = lines
            if self.styles.height is None or self.styles.height.value != len(lines):
                self.styles.height = len(lines)
            self.refresh()

    def _said(self, width: int) -> Sequence[Line]:
        rows, coverage = self._rows, self._rows.coverage
        scale = rows.scale
        if coverage is None or scale is None:
            return ((),)
        plain = self.app.no_color
        chosen = rows.chosen
        return (
            (gutter("context"), *cut_line(coverage, scale)),
            (gutter(""), *axis_line(coverage, scale, plain=plain)),
            block_line(coverage, chosen, scale, width) if chosen is not None else (),
            *((Span(" "), *line) for line in self._legend(width - 1, plain=plain)),
        )

    def _legend(self, width: int, *, plain: bool) -> list[Line]:
        coverage = self._rows.coverage
        if coverage is None:
            return []
        entries = legend(coverage, plain=plain, reading=self.reading, chosen=self._rows.chosen)
        entries = [*unseen(coverage), *entries]
        return wrapped(entries, width)[:LEGEND_LINES]

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.style_of, self.size.width)

    def on_resize(self) -> None:
        """Cells and the legend have other places."""
        self.say()

    async def _on_click(self, event: events.Click) -> None:
        place = self._rows.place_at(event.x) if event.y == 0 else None
        if place is not None:
            self._clicked(place)
