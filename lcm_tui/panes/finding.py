"""What `/`, `n` and `N` do in one pane: filter its list, or go from match to match.

The frame asks the pane with the focus for its `Finder`, opens the prompt with it, and hands on what is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from lcm_core.text import fold, sought_as
from textual.widget import Widget

from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.text import TextView

K = TypeVar("K")


class Finder(Protocol):
    """How one pane is searched."""

    @property
    def label(self) -> str:
        """What the prompt asks for."""

    @property
    def needle(self) -> str:
        """What was searched for last; empty: nothing."""

    def why_not_search(self) -> str | None:
        """Why it cannot be searched at the moment; None when it can."""

    def begin(self) -> None:
        """The prompt opens: what is typed is searched for from here."""

    def typed(self, text: str) -> None:
        """The prompt holds another text."""

    async def confirm(self, text: str) -> str | None:
        """The text was confirmed; a sentence when nothing holds it."""

    async def go(self, *, forward: bool) -> str | None:
        """Go to the next match or the one before; a sentence when there is none."""

    def why_not_next(self) -> str | None:
        """Why there is no next match to go to; None when there may be one."""

    def leave(self) -> bool:
        """`esc`: take back what the search changed; False when that is nothing."""


class Filter:
    """Narrows a list to what holds the words, as they are typed; `esc` takes the filter away."""

    def __init__(
        self, asks_for: str, changed: Callable[[], None], begun: Callable[[], None] = lambda: None
    ) -> None:
        """*asks_for*: what can be typed; *changed* lists again; *begun*: somebody is about to type."""
        self.label = f"filter: {asks_for}"
        self.needle = ""
        self._changed = changed
        self._begun = begun

    @property
    def words(self) -> list[str]:
        """What a row must hold, folded (docs/recall.md, "Spellings")."""
        return fold(self.needle).split()

    def why_not_search(self) -> str | None:
        """A list can always be narrowed."""
        return None

    def begin(self) -> None:
        """The cursor stays on its row as long as that is listed."""
        self._begun()

    def typed(self, text: str) -> None:
        """Filter by other words."""
        if text != self.needle:
            self.needle = text
            self._changed()

    async def confirm(self, text: str) -> str | None:
        """It is filtered already."""
        self.typed(text)
        return None

    async def go(self, *, forward: bool) -> str | None:
        """A filtered list has no matches to go to: all of it is one."""
        del forward
        return None

    def why_not_next(self) -> str | None:
        """As `go`."""
        return f"a list has no next match: {'only matches are shown' if self.needle else '/ filters it'}"

    def leave(self) -> bool:
        """Take the filter away."""
        had = bool(self.needle)
        self.typed("")
        return had


class TextFinder:
    """Goes from match to match in a text, from its first line in sight on."""

    label = "find in the text"

    def __init__(self, text: TextView, why_not: Callable[[], str | None] = lambda: None) -> None:
        """*why_not*: why there is nothing to search in."""
        self._text = text
        self._why_not = why_not
        self._found = False
        self.needle = ""

    def why_not_search(self) -> str | None:
        """A text can be searched unless there is a reason against it."""
        return self._why_not()

    def begin(self) -> None:
        """A text is searched from where it stands."""

    def look_for(self, needle: str) -> None:
        """What `n` goes to, when something else than the prompt has said it."""
        self.needle, self._found = needle, True

    def stand_on_match(self, needle: str) -> bool:
        """Show the text at the first match of what was found elsewhere; `n` and `N` go on from it."""
        self.needle = needle
        self._found = self._text.find_first(needle)
        return self._found

    def typed(self, text: str) -> None:
        """Go to the first match while it is typed."""
        if text != self.needle:
            self.needle = text
            self._found = self._text.find(text)

    async def confirm(self, text: str) -> str | None:
        """Say so when there is no match, once it is all typed."""
        self.typed(text)
        return await self.go(forward=True) if text and not self._found else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the text."""
        if self.needle and not self._text.find(self.needle, forward=forward):
            return f"“{self.needle}” is not in this text."
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return self._why_not() or (None if self.needle else "search first: / finds text")

    def leave(self) -> bool:
        """What was found stays marked."""
        return False


class LineFinder(Generic[K]):
    """Goes from line to line of a list whose text holds the words."""

    def __init__(
        self,
        view: Callable[[], LineView[K]],
        text_of: Callable[[K], str],
        *,
        label: str = "find: an id, or words of a line",
    ) -> None:
        """*view*: the list in front; *text_of*: what a line says, as far as that is known without reading."""
        self.label = label
        self.needle = ""
        self._view = view
        self._text_of = text_of
        self._origin = 0  #: where the search began

    def why_not_search(self) -> str | None:
        """Lines can always be searched."""
        return None

    def begin(self) -> None:
        """Search from the cursor on."""
        self._origin = self._view().cursor

    def typed(self, text: str) -> None:
        """Go to the first line from the cursor on that holds it."""
        self.needle = text
        if text:
            self._find(self._origin, 1)

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        self.needle = text
        return f"No line contains “{text}”." if text and not self._find(self._origin, 1) else None

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the list."""
        step = 1 if forward else -1
        self._find(self._view().cursor + step, step)
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only once something was searched for."""
        return None if self.needle else "search first: / finds text"

    def leave(self) -> bool:
        """The cursor stays where it was led."""
        return False

    def _find(self, start: int, step: int) -> bool:
        view, sought = self._view(), sought_as(self.needle)
        count = len(view.keys)
        for at in range(start, start + step * count, step):
            key = view.keys[at % count]
            if sought in fold(self._text_of(key)):
                view.select(key)
                return True
        return False


class MarkingFinder(LineFinder[K]):
    """Goes from line to line, and has the words marked wherever they stand; `esc` takes the marks away.

    The list draws the marks (`needle`).
    """

    def __init__(
        self, view: Callable[[], LineView[K]], text_of: Callable[[K], str], *, label: str, none: str
    ) -> None:
        """*none*: what does not hold the words when no line does (``No message of this context``)."""
        super().__init__(view, text_of, label=label)
        self._none = none

    def typed(self, text: str) -> None:
        """Mark it, and go to the first line that holds it."""
        super().typed(text)
        self._view().redraw()

    async def confirm(self, text: str) -> str | None:
        """Say so when no line holds it."""
        found = await super().confirm(text) is None
        self._view().redraw()
        return None if found else self._nothing()

    async def go(self, *, forward: bool) -> str | None:
        """Go on, round the end of the list; say so when no line holds it any more."""
        step = 1 if forward else -1
        return None if self._find(self._view().cursor + step, step) else self._nothing()

    def leave(self) -> bool:
        """Take the marks away."""
        had, self.needle = bool(self.needle), ""
        self._view().redraw()
        return had

    def _nothing(self) -> str:
        return f"{self._none} holds “{self.needle}”."


def holds_focus(widget: Widget) -> bool:
    """Whether the keys go to a widget, or to something in it."""
    return widget.has_focus or widget.has_focus_within
