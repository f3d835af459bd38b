"""Searching the summary tree: in what is known at once, then in the texts of all summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from lcm_core.records import SummaryId

from lcm_tui.screens.dag.known import Match
from lcm_tui.screens.dag.panes import SummaryTree


class TreeFinder:
    """Goes from match to match of a tree, in its order, round its end."""

    label = "find ids, models, failures and text"

    def __init__(
        self,
        tree: SummaryTree,
        texts: Callable[[str], Awaitable[Collection[SummaryId]]],
        moved: Callable[[], None],
    ) -> None:
        """*texts* gives the summaries whose text holds a needle.

        *moved* is called when there are other matches, and when another of them was selected.
        """
        self.needle = ""
        self._tree = tree
        self._texts = texts
        self._moved = moved
        self._matches: list[Match] = []  #: in the order of the tree

    @property
    def place(self) -> str:
        """What was searched for, and which of the matches is selected; empty: nothing was."""
        if not self.needle:
            return ""
        here = self._tree.match_at(self._tree.selected)
        at = f"{self._matches.index(here) + 1:,} of " if here in self._matches else ""
        return f"/{self.needle} {at}{len(self._matches):,}"

    def why_not_search(self) -> str | None:
        """A tree can always be searched."""
        return None

    def begin(self) -> None:
        """The search begins below the cursor."""

    def typed(self, text: str) -> None:
        """Nothing before it is all typed: the texts of all summaries are read for it."""

    async def confirm(self, text: str) -> str | None:
        """Search what is known, then all texts; go to the first match below the cursor."""
        self.needle = text
        self._matches = []
        self._moved()
        if not text:
            return None
        await self._tree.surveyed.wait()
        known = self._tree.known
        found = set(known.matches(text))
        gone_there = bool(found) and self._take(found)
        found |= {Match(summary_id) for summary_id in await self._texts(text)}
        if gone_there:
            self._matches = sorted(found, key=known.rank)
            self._moved()
        elif not self._take(found):
            return f"No summary here contains “{text}”."
        return None

    async def look_for(self, needle: str) -> None:
        """Search for what was found elsewhere; the cursor stays, and `n` and `N` go on from it."""
        self.needle, self._matches = needle, []
        await self._tree.surveyed.wait()
        found = {Match(summary_id) for summary_id in await self._texts(needle)}
        if self.needle == needle:
            known = self._tree.known
            self._matches = sorted(found.union(known.matches(needle)), key=known.rank)
            self._moved()

    def _take(self, found: set[Match]) -> bool:
        self._matches = sorted(found, key=self._tree.known.rank)
        return self._go(forward=True)

    async def go(self, *, forward: bool) -> str | None:
        """Go to the match after the cursor, or the one before it."""
        self._go(forward=forward)
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only when something was found."""
        return None if self._matches else "search first: / finds text"

    def leave(self) -> bool:
        """The cursor stays where it was led."""
        return False

    def _go(self, *, forward: bool) -> bool:
        tree, rank = self._tree, self._tree.known.rank
        here = tree.match_at(tree.selected)
        at = rank(here) if here is not None else (-1, 0)
        ahead = [match for match in self._matches if (rank(match) > at if forward else rank(match) < at)]
        for match in (*ahead, *self._matches) if forward else (*reversed(ahead), *reversed(self._matches)):
            if tree.go_to(match):
                self._moved()
                return True
        return False
