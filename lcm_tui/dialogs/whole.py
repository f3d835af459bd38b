"""A text over the screen, whole."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from lcm_tui.widgets.text import Document, TextView


class WholeScreen(ModalScreen[None]):
    """A text over the screen."""

    DEFAULT_CSS = """
    WholeScreen { align: center middle; }
    WholeScreen > Vertical { width: 90%; max-width: 120; height: 90%; background: $surface; padding: 1 2; }
    WholeScreen TextView { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back", id="whole-back"),
    ]

    def __init__(self, text: Document) -> None:
        super().__init__()
        self._document = text

    def compose(self) -> ComposeResult:
        """One text to scroll."""
        with Vertical():
            yield TextView(self._document)
