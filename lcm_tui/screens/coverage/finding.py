"""Searching the coverage map: the ids of its summaries, then the texts of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from lcm_core.records import SummaryId
from lcm_core.text import fold, sought_as

from lcm_tui.screens.coverage.rows import CoverageRows


class MapFinder:
    """Goes from block to block that holds the words: row by row from the top, in a row from left to right."""

    label = "find ids and text"

    def __init__(self, rows: CoverageRows, texts: Callable[[str], Awaitable[Collection[SummaryId]]]) -> None:
        """*texts* gives the summaries whose text holds a needle."""
        self.needle = ""
        self._rows = rows
        self._texts = texts
        self._matches: frozenset[SummaryId] = frozenset()

    def why_not_search(self) -> str | None:
        """Only what is drawn can be found."""
        coverage = self._rows.coverage
        if coverage is None:
            return "the map is being read"
        return None if coverage.levels else "this map has no summary"

    def begin(self) -> None:
        """The search begins behind the chosen block."""

    def typed(self, text: str) -> None:
        """Nothing before it is all typed: the texts of all summaries are read for it."""

    async def confirm(self, text: str) -> str | None:
        """Search ids and texts; go to the first match behind the chosen block."""
        self.needle, self._matches = text, frozenset()
        if not text:
            return None
        sought = sought_as(text)
        named = {one for one in self._drawn() if sought in fold(one)}
        self._matches = frozenset(named | set(await self._texts(text)))
        return await self.go(forward=True)

    async def go(self, *, forward: bool) -> str | None:
        """Go to the match behind the chosen block, or the one before it, round the end of the map."""
        drawn = self._drawn()
        found = [at for at, one in enumerate(drawn) if one in self._matches]
        if not found:
            return f"No summary here contains “{self.needle}”."
        chosen = self._rows.chosen
        here = drawn.index(chosen.summary_id) if chosen is not None else -1
        if forward:
            at = next((one for one in found if one > here), found[0])
        else:
            at = next((one for one in reversed(found) if one < here), found[-1])
        self._rows.choose(drawn[at])
        return None

    def why_not_next(self) -> str | None:
        """There is a next match only when something was found."""
        return None if self._matches else "search first: / finds text"

    def leave(self) -> bool:
        """The chosen block stays where it was led."""
        return False

    def _drawn(self) -> list[SummaryId]:
        coverage = self._rows.coverage
        levels = () if coverage is None else coverage.levels
        return [block.summary_id for level in levels for block in level.blocks]
