"""The text that a summary is made from, or a draft, standing on a place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lcm_core.text import safe_text
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.commands import Action, bindings
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.finding import Finder, TextFinder
from lcm_tui.widgets.text import Block, TextView


class SourceScreen(CommandScreen):
    """One text to read."""

    HELP = """
The text as the model receives it, scrolled to the selected item. Every occurrence is highlighted; n and N go
to the next and the previous one, / finds other text.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(bindings())

    def __init__(self, title: str, text: str, start: int, end: int) -> None:
        """*start* and *end*: the place in characters of *text*."""
        super().__init__()
        self._title = title
        self._content = text
        self._start = start
        self._wanted = text[start:end]
        self.text = TextView(id="text")
        self._finder = TextFinder(self.text)

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def main_widget(self) -> TextView:
        """The text."""
        return self.text

    def finder(self) -> Finder:
        """That of the text."""
        return self._finder

    def where(self) -> str:
        """Which text."""
        return self._title

    def actions(self) -> Sequence[Action]:
        """Nothing but reading; there is nothing to read again."""
        return (Action("reload", lambda: None, lambda: "this view does not reload"),)

    def on_mount(self) -> None:
        """Show it, and go to the place once its width is known."""
        self.text.show((Block(self._content),))
        self.call_after_refresh(self._go)

    def _go(self) -> None:
        needle = safe_text(self._wanted).partition("\n")[0]
        self._finder.look_for(needle)
        self.text.find_at(needle, (0, len(safe_text(self._content[: self._start]))))

    def selected_id(self) -> str | None:
        """What stands at the place."""
        return self._wanted or None
