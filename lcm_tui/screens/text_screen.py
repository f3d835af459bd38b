"""The base of screens that are one text to read."""

from __future__ import annotations

from textual.app import ComposeResult

from lcm_tui.kit.listing import Finder, TextFinder
from lcm_tui.kit.spans import Document
from lcm_tui.kit.text import TextView
from lcm_tui.screens.frame import CommandScreen


class TextScreen(CommandScreen):
    """A text, and the search in it."""

    def __init__(self, document: Document = (), *, empty: str = "") -> None:
        """*empty*: what stands there until there is a document."""
        super().__init__()
        self.text = TextView(document, empty=empty, id="text")
        self.in_text = TextFinder(self.text)

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def finder(self) -> Finder:
        """The search in the text."""
        return self.in_text
