"""What `/`, `n` and `N` do in a diff."""

from __future__ import annotations

from lcm_tui.widgets.diff_view import DiffView


class DiffFinder:
    """Goes from line to line of a diff that holds the text, among the lines that are shown."""

    label = "find in the lines shown"

    def __init__(self, view: DiffView, *, as_typed: bool = True) -> None:
        """*as_typed*: go to the first match while it is typed; a long diff is only marked until then."""
        self._view = view
        self._as_typed = as_typed
        self.needle = ""

    def why_not_search(self) -> str | None:
        """A diff can always be searched."""
        return None

    def begin(self) -> None:
        """It is searched from its first line on."""

    def typed(self, text: str) -> None:
        """Mark it, or go to the first line that holds it."""
        self.needle = text
        if self._as_typed:
            self._view.find(text, first=True)
        else:
            self._view.look_for(text)

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        self.needle = text
        return self._problem(found=self._view.find(text, first=True))

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the diff."""
        return self._problem(found=self._view.find(self.needle, direction=1 if forward else -1))

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return None if self.needle else "search first: / finds text"

    def leave(self) -> bool:
        """What was found stays marked."""
        return False

    def _problem(self, *, found: bool) -> str | None:
        if found or not self.needle:
            return None
        return f"“{self.needle}” is not in the lines shown."
