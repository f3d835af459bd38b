"""The commands that search, as every screen has them: `/` asks what for, `n` and `N` go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from textual.app import App

from lcm_tui.commands import Action
from lcm_tui.panes.desk import Desk
from lcm_tui.panes.finding import Finder


class Searched(Desk, Protocol):
    """What the search asks of the screen that it stands on."""

    @property
    def app(self) -> App[object]:
        """Says what was not found."""

    def finder(self) -> Finder | None:
        """What is searched at the moment; None: nothing."""

    def ask(
        self,
        label: str,
        value: str = "",
        *,
        typed: Callable[[str], None] | None = None,
        check: Callable[[str], str | None] | None = None,
        explained: str = "",
        problem: str = "",
    ) -> asyncio.Future[str | None]:
        """Open the prompt."""

    def refresh_bars(self) -> None:
        """Draw title and keys again."""


class Searching:
    """Searches with the finder of the pane in front, while its words are typed and afterwards."""

    def __init__(self, screen: Searched) -> None:
        self._screen = screen
        self.finder: Finder | None = None  #: what the prompt searches

    def actions(self) -> tuple[Action, ...]:
        """What its commands do."""
        return (
            Action("search", self._begin, self._why_not),
            Action("next", lambda: self._go(forward=True), self._why_not_next),
            Action("previous-match", lambda: self._go(forward=False), self._why_not_next),
        )

    def leave(self) -> None:
        """The prompt was left: what it searches is as before."""
        if self.finder is not None and self.finder is self._screen.finder():
            self.finder.leave()

    def refuse(self, reason: str) -> None:
        """Say why nothing can be found, in the prompt: the letters typed behind `/` are text, no commands."""
        self.finder = None
        self._screen.ask("find", check=lambda text: reason if text.strip() else None, problem=reason)

    def _why_not(self) -> str | None:
        finder = self._screen.finder()
        return "this screen has nothing to search" if finder is None else finder.why_not_search()

    def _why_not_next(self) -> str | None:
        finder = self._screen.finder()
        return "nothing to find in here" if finder is None else finder.why_not_next()

    def _begin(self) -> None:
        """Search in the pane in front as you type."""
        finder = self._screen.finder()
        if finder is not None:
            self.finder = finder
            finder.begin()
            answer = self._screen.ask(finder.label, finder.needle, typed=finder.typed)
            self._screen.work_on("search-prompt", self._search, finder, answer)

    async def _search(self, finder: Finder, answer: asyncio.Future[str | None]) -> None:
        text = await answer
        self.finder = None
        if text is not None and (problem := await finder.confirm(text)):
            self._screen.app.notify(problem, timeout=3)
        self._screen.refresh_bars()

    def _go(self, *, forward: bool) -> None:
        """Go to the next match, or to the one before."""
        finder = self._screen.finder()
        if finder is not None:
            self._screen.work_on("search", self._go_to_match, finder, forward)

    async def _go_to_match(self, finder: Finder, forward: bool) -> None:
        if problem := await finder.go(forward=forward):
            self._screen.app.notify(problem, timeout=3)
