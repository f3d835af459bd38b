"""Below a list: what the row under the cursor says where its cells have no room for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lcm_core.text import clip
from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of, text_of
from lcm_tui.widgets.wrapped import Block, WrappedBlock

#: Lines that it takes, whatever is said, so that the list stays as tall.
LINES: Final = 2


class WholeRow(Drawn):
    """Two lines, drawn again whenever it is refreshed."""

    DEFAULT_CSS = f"""
    WholeRow {{ height: {LINES}; width: 1fr; background: $surface; }}
    """

    def __init__(self, said: Callable[[], Line]) -> None:
        """*said*: what the selected row says, whole."""
        super().__init__(id="whole-row")
        self._said = said

    def render_line(self, y: int) -> Strip:
        """One of the lines; the last one ends in … when there is still more."""
        width = self.size.width
        wrapped = WrappedBlock(Block(spans=(Span(" "), *self._said()), indent=1), width)
        line = wrapped.line(y) if y < len(wrapped) else ()
        if y == LINES - 1 and len(wrapped) > LINES:
            line = (Span(clip(f"{text_of(line)} …", width)),)
        return strip_of(line, self.style_of, width)
