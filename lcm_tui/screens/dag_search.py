"""Searching the summary tree: in what is known at once, then in the texts of all summaries."""

from __future__ import annotations

import asyncio

from lcm_core.records import ConversationId
from lcm_core.store import lineage

from lcm_tui.screens.dag_known import Match
from lcm_tui.screens.dag_view import SummaryTree
from lcm_tui.screens.text_search import TextSearch


class TreeSearch(TextSearch):
    """`/`, `n` and `N` over a tree, or over the text beside it when that has the focus."""

    conversation_id: ConversationId

    def __init__(self) -> None:
        super().__init__()
        self.surveyed = asyncio.Event()  #: the whole graph is known
        self.sought = ""
        self._matches: list[Match] = []  #: in the order of the tree

    @property
    def lines(self) -> SummaryTree:
        """The rows of the tree."""
        return self.query_one("#lines", SummaryTree)

    def fill(self) -> None:
        """Other rows are in sight."""

    def note(self) -> None:
        """The place among the matches has changed."""

    def why_not(self, command: str) -> str | None:
        """There is a next match only when something was found."""
        if command not in {"next", "previous-match"} or self.text.has_focus:
            return super().why_not(command)
        return None if self._matches else "nothing has been found: / searches"

    def place_among_matches(self) -> str:
        """What was searched for, and which of the matches is selected."""
        here = self.lines.match_at(self.lines.selected)
        at = f"{self._matches.index(here) + 1:,} of " if here in self._matches else ""
        return f"/{self.sought} {at}{len(self._matches):,}"

    def action_search(self) -> None:
        """Search in the tree, or in the text when it has the focus."""
        if self.text.has_focus:
            super().action_search()
        else:
            self._asked_from = self.lines
            self.open_prompt("search ids, models, failures and texts", self.sought)

    def answered(self, text: str, *, done: bool) -> None:
        """Go to the first match below the cursor."""
        if self._asked_from is self.text:
            super().answered(text, done=done)
        elif done:
            self.sought = text
            self._matches = []
            self.note()
            if text:
                self.work_on("search", self._search, text)

    async def _search(self, needle: str) -> None:
        """Search what is known, then the texts of all summaries."""
        await self.surveyed.wait()
        lines = self.lines
        found = set(lines.known.matches(needle))
        gone_there = bool(found) and self._take_matches(found)
        texts = await self.session.read(lineage.summaries_with, self.conversation_id, needle)
        found |= {Match(summary_id) for summary_id in texts}
        if gone_there:
            self._matches = sorted(found, key=lines.known.rank)
            self.note()
        elif not self._take_matches(found):
            self.app.notify(f"No summary here holds “{needle}”.", timeout=3)

    def _take_matches(self, found: set[Match]) -> bool:
        self._matches = sorted(found, key=self.lines.known.rank)
        return self._go_on(forward=True)

    def action_next(self) -> None:
        """Go to the next match."""
        if self.text.has_focus:
            super().action_next()
        else:
            self._go_on(forward=True)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        if self.text.has_focus:
            super().action_previous_match()
        else:
            self._go_on(forward=False)

    def _go_on(self, *, forward: bool) -> bool:
        """Go to the match after (or before) the cursor, round the end of the tree."""
        lines = self.lines
        rank = lines.known.rank
        here = lines.match_at(lines.selected)
        at = rank(here) if here is not None else (-1, 0)
        ahead = [match for match in self._matches if (rank(match) > at if forward else rank(match) < at)]
        for match in (*ahead, *self._matches) if forward else (*reversed(ahead), *reversed(self._matches)):
            if lines.go_to(match):
                self.fill()
                self.note()
                return True
        return False
