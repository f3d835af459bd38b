"""The columns of the first list that cost a scan: they fill in behind, what is in sight before the rest."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from itertools import chain, islice

from lcm_core.records import ConversationId
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationEntry
from textual import on

from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.conversation_rows import COUNTED, RowKey
from lcm_tui.widgets.lines import LineView

#: Conversations whose counts are read in one transaction.
BATCH = 40
#: A conversation that keeps changing is scanned whole at most this often; between, appended rows are added.
WHOLE_SECONDS = 10.0


class CountedList(ConversationList):
    """Counts come from indexes and are read first; sums lie behind the texts, and are read one by one."""

    def __init__(self, first: list[ConversationEntry] | None = None) -> None:
        super().__init__(first)
        self._painted = False  #: whether the first rows have been
        self._filling = False
        self._count_wanted: set[RowKey] = set()
        self._sum_wanted: set[RowKey] = set()
        self._uncounted: set[RowKey] = set()  #: rows that were not counted since the last change
        self._unsummed: set[RowKey] = set()  #: rows that were not scanned whole since the last change
        self._summed_at: dict[int, float] = {}  #: monotonic time of the last whole scan

    def on_mount(self) -> None:
        """Read nothing else before the first rows have been painted."""
        # The app mounts its first screen in one batch, in which Textual calls back before it has painted.
        self.app.call_later(self.call_after_refresh, self.first_painted)

    def first_painted(self) -> None:
        """Read what costs more."""
        self._painted = True
        self._fill()

    # -- what is wanted ----------------------------------------------------------------------------------

    def count_again(self, changed: Collection[RowKey]) -> None:
        """The file has changed: every number may be old, those of *changed* rows are."""
        self._uncounted = {key for key, row in self._rows.items() if row.entry is not None}
        self._unsummed = set(self._uncounted)
        self.want_counts(changed)

    def want_counts(self, changed: Collection[RowKey] = ()) -> None:
        """Count what is in sight and what was never counted; all when order or filter tell by it."""
        unknown = {key for key in self._uncounted if self._rows[key].counts is None}
        seen = self._uncounted.intersection(self.table.visible_keys)
        self._count_wanted |= unknown | seen | (self._uncounted & set(changed))
        if self._sort in COUNTED or self._filter:
            self._count_wanted |= self._uncounted
        self._fill()

    def want_sums(self) -> None:
        """Scan again what is in sight and has changed since its last scan, which lies a while back."""
        now = time.monotonic()
        self._sum_wanted |= {
            key
            for key in self._unsummed.intersection(self.table.visible_keys)
            if isinstance(key, int) and now - self._summed_at.get(key, now) > WHOLE_SECONDS
        }
        self._fill()

    def filter_by(self, text: str) -> None:
        """Filter by other words, which go over the numbers too."""
        super().filter_by(text)
        self.want_counts()

    def action_reload(self) -> None:
        """Read everything again now."""
        self._summed_at.clear()
        self._sum_wanted |= {key for key, row in self._rows.items() if row.sums is not None}
        super().action_reload()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        if not self._uncounted.isdisjoint(self.table.visible_keys):
            self.want_counts()

    # -- reading it --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if self._painted and not self._filling:
            self._filling = True
            self.work_on("fill", self._fill_rows, exclusive=False)

    async def _fill_rows(self) -> None:
        try:
            while self._count_wanted or self._sum_wanted:
                await (self._fill_counts() if self._count_wanted else self._fill_sums())
                if self._sort in COUNTED and not self._count_wanted | self._sum_wanted:
                    self.relist(changed=False)
        finally:
            self._filling = False

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, BATCH)
        self._uncounted.difference_update(batch)
        for counts in await self.session.read(store.count_rows, batch):
            key = counts.conversation_id
            row = self._rows.get(key)
            if row is None:
                continue
            if row.counts != counts or row.sums is None:
                self._sum_wanted.add(key)
            if row.counts is None or row.counts.summaries != counts.summaries:
                self._summed_at.pop(key, None)  # appended rows do not tell what is broken
            self._rows[key] = replace(row, counts=counts)
        self.table.redraw(batch)

    async def _fill_sums(self) -> None:
        """Sums of the next conversation; of one that only grew, those of what was appended."""
        from lcm_core.store.statistics import (
            sums_of,
            sums_since,  # not wanted before the first rows are drawn
        )

        for conversation_id in self._next(self._sum_wanted, 1):
            row = self._rows.get(conversation_id)
            if row is None:
                continue
            age = time.monotonic() - self._summed_at.get(conversation_id, 0.0)
            if row.sums is None or age > WHOLE_SECONDS:
                self._unsummed.discard(conversation_id)
                sums = await self.session.read(sums_of, conversation_id)
                self._summed_at[conversation_id] = time.monotonic()
            else:
                sums = await self.session.read(sums_since, row.sums)
            latest = self._rows.get(conversation_id)
            if latest is not None:
                self._rows[conversation_id] = replace(latest, sums=sums)
                self.table.redraw([conversation_id])

    def _next(self, wanted: set[RowKey], limit: int) -> list[ConversationId]:
        """Take the next keys off a set of wanted ones: first those in sight, then in the list's order."""
        seen = [key for key in self.table.visible_keys if key in wanted]
        rest = (key for key in self.table.keys if key in wanted)
        chosen = list(islice(dict.fromkeys(chain(seen, rest)), limit)) or list(islice(wanted, limit))
        wanted.difference_update(chosen)
        return [ConversationId(key) for key in chosen if isinstance(key, int)]
