"""What `/`, `n` and `N` do in a diff."""

from __future__ import annotations

from lcm_tui.widgets.diff_view import DiffView


class DiffFinder:
    """Goes from line to line of a diff that holds the text, among the lines that are shown."""

    label = "search in the lines that are shown"

    def __init__(self, view: DiffView) -> None:
        self._view = view
        self.needle = ""

    def why_not_search(self) -> str | None:
        """A diff can always be searched."""
        return None

    def begin(self) -> None:
        """It is searched from its first line on."""

    def typed(self, text: str) -> None:
        """Go to the first line that holds it."""
        self.needle = text
        self._view.find(text, first=True)

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        self.needle = text
        found = self._view.find(text, first=True)
        return f"“{text}” does not stand in the lines that are shown." if text and not found else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the diff."""
        self._view.find(self.needle, direction=1 if forward else -1)
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return None if self.needle else "nothing has been searched for yet"

    def leave(self) -> bool:
        """What was found stays marked."""
        return False
