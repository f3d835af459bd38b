"""The least that a Textual program can do: one widget that draws rows of text, and a key to leave."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

FIRST_ROW = "row 0 of a minimal app"


class MinimalApp(App[None]):
    """Fills the screen with text."""

    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        """One widget."""
        yield Static("\n".join(f"row {number} of a minimal app" for number in range(50)), markup=False)


if __name__ == "__main__":
    MinimalApp().run()
