"""Searching in a text, for the screens that show one."""

from __future__ import annotations

from textual.widget import Widget

from lcm_tui.frame import CommandScreen
from lcm_tui.widgets.text import TextView


class TextSearch(CommandScreen):
    """A screen with a text: `/` searches in it as you type, `n` and `N` go on from match to match."""

    _needle = ""
    _found = False
    _asked_from: Widget | None = None

    @property
    def text(self) -> TextView:
        """The text that is searched."""
        return self.query_one("#text", TextView)

    def why_not(self, command: str) -> str | None:
        """There is a next match only once something was searched for."""
        if command in {"next", "previous-match"} and not self._needle:
            return "nothing has been searched for yet"
        return super().why_not(command)

    def action_search(self) -> None:
        """Ask what to search for."""
        self._asked_from = self.focused
        self.open_prompt("search in the text", self._needle)

    def answered(self, text: str, *, done: bool) -> None:
        """Go to the first match while it is typed; say so at the end when there is none."""
        if text != self._needle:
            self._needle = text
            self._found = self.text.find(text)
        if done and text and not self._found:
            self._find(forward=True)

    def action_next(self) -> None:
        """Go to the next match."""
        self._find(forward=True)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._find(forward=False)

    def close_prompt(self) -> None:
        """Give the keys back to where they were."""
        super().close_prompt()
        if self._asked_from is not None:
            self._asked_from.focus()

    def _find(self, *, forward: bool) -> None:
        if self._needle and not self.text.find(self._needle, forward=forward):
            self.app.notify(f"“{self._needle}” does not stand in this text.", timeout=3)
