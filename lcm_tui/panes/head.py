"""The head of a list or a text: some lines, each of them whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from textual import events
from textual.strip import Strip

from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, strip_of
from lcm_tui.widgets.wrapped import Block, WrappedBlock

#: Lines that it has at least, so that what is below stays where it is; and at most.
LINES: Final = 5
MOST: Final = 9
#: Below this height of the terminal only the last lines are shown, each cut to one line.
LOW: Final = 18
LINES_LOW: Final = 3
#: Cells before what goes on from the line above.
INDENT: Final = 3


class Head(Drawn):
    """Five lines, drawn again whenever it is refreshed; more where one of them is too long for the width.

    In a low terminal the last three, so that the list below keeps its rows; its screen refreshes it when the
    height changes.
    """

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    Head { height: 5; width: 1fr; background: $surface; }
    """

    def __init__(self, lines: Callable[[], Sequence[Line]]) -> None:
        super().__init__(id="head")
        self._lines_of = lines
        self._lines: Sequence[Line] = ()

    def refresh(self, *args: Any, **options: Any) -> Head:
        """Draw the lines again as they are now, and take as many as they need."""
        if self.is_attached:
            self._make()
        super().refresh(*args, **options)
        return self

    def _on_resize(self, event: events.Resize) -> None:
        self._make()

    def _make(self) -> None:
        width, low = self.size.width, self.app.size.height < LOW
        if not width:
            self._lines = ()
        elif low:
            self._lines = self._lines_of()[-LINES_LOW:]
        else:
            self._lines = list(whole_lines(self._lines_of(), width))
        height = LINES_LOW if low else max(LINES, min(len(self._lines), MOST))
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        return strip_of(self._lines[y] if y < len(self._lines) else (), self.style_of, self.size.width)


def whole_lines(lines: Sequence[Line], width: int) -> Iterator[Line]:
    """*lines*, those that are too long for *width* cells on as many as they need."""
    for line in lines:
        wrapped = WrappedBlock(Block(spans=line, indent=INDENT), width)
        yield from (wrapped.line(at) for at in range(len(wrapped)))
