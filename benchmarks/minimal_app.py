"""The least that a Textual program can do: rows of text with a cursor, a second screen of them, an input."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

FIRST_ROW = "row 0 of a minimal app"
SECOND_SCREEN = "row 0 of a second screen"
#: Opens the second screen; goes back; gives the keys to the input.
OPEN, BACK, TYPE = "s", "b", "/"
_ROWS = 1_000
_SELECTED, _OTHER = Style(bgcolor="blue"), Style()


class Rows(Widget, can_focus=True):
    """Rows of which one is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down", "move(1)"),
        ("up", "move(-1)"),
        ("pagedown", "move(40)"),
        ("pageup", "move(-40)"),
        ("home", f"move(-{_ROWS})"),
        ("end", f"move({_ROWS})"),
    ]
    DEFAULT_CSS = "Rows { height: 1fr; }"
    cursor = reactive(0)

    def __init__(self, of: str) -> None:
        super().__init__()
        self._of = of

    def action_move(self, step: int) -> None:
        """Select another row."""
        self.cursor = max(0, min(self.cursor + step, _ROWS - 1))

    def render_line(self, y: int) -> Strip:
        """One row."""
        top = max(0, min(self.cursor - self.size.height // 2, _ROWS - self.size.height))
        text = f"row {top + y} of {self._of}".ljust(self.size.width)
        return Strip([Segment(text, _SELECTED if top + y == self.cursor else _OTHER)])


class SecondScreen(Screen[None]):
    """More rows."""

    BINDINGS: ClassVar[list[BindingType]] = [(BACK, "dismiss")]

    def compose(self) -> ComposeResult:
        """One widget."""
        yield Rows("a second screen")


class MinimalApp(App[None]):
    """Fills the screen with rows, above an input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        (OPEN, "open", "Open"),
        (TYPE, "type", "Type"),
    ]

    def compose(self) -> ComposeResult:
        """Two widgets."""
        yield Rows("a minimal app")
        yield Input()

    def action_open(self) -> None:
        """Put the second screen in front."""
        self.push_screen(SecondScreen())

    def action_type(self) -> None:
        """Give the keys to the input."""
        self.query_one(Input).focus()


if __name__ == "__main__":
    MinimalApp().run()
