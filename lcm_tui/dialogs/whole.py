"""A text over the screen, whole."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.dialogs.dialog import READING, Dialog
from lcm_tui.widgets.text import Document, TextView


class WholeScreen(Dialog[None]):
    """A text over the screen."""

    ABOUT = "The whole text, to read. Nothing changes here."
    DEFAULT_CSS = """
    WholeScreen .box { width: 122; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back", tooltip="Close the text.", id="whole-back"),
    ]

    def __init__(self, text: Document) -> None:
        super().__init__()
        self._document = text

    def compose_box(self) -> ComposeResult:
        """One text to scroll."""
        yield TextView(self._document)

    def more_keys(self) -> Document:
        """Those that scroll."""
        return READING
