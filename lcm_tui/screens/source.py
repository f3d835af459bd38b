"""The text that a summary is made from, or a draft, standing on a place in it."""

from __future__ import annotations

from typing import ClassVar

from lcm_core.text import safe_text
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import bindings
from lcm_tui.screens.text_search import TextSearch
from lcm_tui.widgets.bars import TitleBar
from lcm_tui.widgets.text import Block, TextView


class SourceScreen(TextSearch):
    """One text to read."""

    HELP = """
The text as the model gets it, scrolled to the place that was asked for. What stands at that place is marked
wherever it stands; n and N go from one to the next, / searches for something else.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings())

    def __init__(self, title: str, text: str, start: int, end: int) -> None:
        """*start* and *end*: the place in characters of *text*."""
        super().__init__()
        self._title = title
        self._text = text
        self._start = start
        self._wanted = text[start:end]

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield TextView(id="text")

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def on_mount(self) -> None:
        """Show it, and go to the place once its width is known."""
        self.query_one(TitleBar).where = self._title
        self.text.focus()
        self.text.show((Block(self._text),))
        self.call_after_refresh(self._go)

    def _go(self) -> None:
        needle = safe_text(self._wanted).partition("\n")[0]
        self._needle = needle
        self.text.find_at(needle, (0, len(safe_text(self._text[: self._start]))))

    def action_reload(self) -> None:
        """The text was read already; it is what the draft was made from."""

    def selected_id(self) -> str | None:
        """What stands at the place."""
        return self._wanted or None
