"""The columns of the first list that cost a scan: they fill in behind, what is in sight before the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from lcm_core.records import ConversationId
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationCounts
from lcm_core.store.database import Reader

from lcm_tui.frame import CommandScreen
from lcm_tui.panes.conversations import ConversationList
from lcm_tui.views.conversation_rows import COUNTED, RowKey

#: Conversations whose counts are read in one transaction.
BATCH: Final = 40
#: A conversation that keeps changing is scanned whole at most this often; between, appended rows are added.
WHOLE_SECONDS: Final = 10.0


class Counting:
    """Counts come from indexes and are read first; sums lie behind the texts, and are read one by one."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        sorted_anew: Callable[[], None],
        summed: Callable[[], None],
    ) -> None:
        """*listed* gets the numbers; *sorted_anew* is called when they have changed its order.

        *summed* is called when all sums, and when all sizes, have been read that were wanted.
        """
        self.uncounted: set[RowKey] = set()  #: rows that were not counted since the last change
        self._screen = screen
        self._list = listed
        self._sorted_anew = sorted_anew
        self._summed = summed
        self._allowed = False  #: nothing is read before the first rows have been painted, and behind a screen
        self._filling = False
        self._count_wanted: set[RowKey] = set()
        self._sum_wanted: set[RowKey] = set()
        self._bytes_wanted: set[RowKey] = set()
        self._unsummed: set[RowKey] = set()  #: rows that were not scanned whole since the last change
        self._summed_at: dict[int, float] = {}  #: monotonic time of the last whole scan

    def begin(self) -> None:
        """The first rows have been painted, or are in front again: read what costs more."""
        self._allowed = True
        self._fill()

    def leave(self) -> None:
        """Another screen is in front: it has all of Python's time."""
        self._allowed = False

    # -- what is wanted ----------------------------------------------------------------------------------

    def count_again(self, changed: Collection[RowKey]) -> None:
        """The file has changed: every number may be old, those of *changed* rows are."""
        self.uncounted = {key for key, row in self._list.rows.items() if row.entry is not None}
        self._unsummed = set(self.uncounted)
        self.want_counts(changed)

    def sum_again(self) -> None:
        """Every sum is to be read again, whatever changed."""
        self._summed_at.clear()
        self._sum_wanted |= {key for key, row in self._list.rows.items() if row.sums is not None}

    def sum_whole(self, changed: Collection[RowKey]) -> None:
        """Texts of these conversations are other ones."""
        for key in changed:
            if key in self._list.rows:
                self._summed_at.pop(int(key), None)
                self._sum_wanted.add(key)
        self._fill()

    def want_counts(self, changed: Collection[RowKey] = ()) -> None:
        """Count what is in sight and what was never counted; all when order or filter go by it."""
        unknown = {key for key in self.uncounted if self._list.rows[key].counts is None}
        seen = self.uncounted.intersection(self._list.table.visible_keys)
        self._count_wanted |= unknown | seen | (self.uncounted & set(changed))
        if self._list.sorted_by in COUNTED or self._list.filter.needle:
            self._count_wanted |= self.uncounted
        self._fill()

    def scrolled(self) -> None:
        """Other rows came into sight."""
        if not self.uncounted.isdisjoint(self._list.table.visible_keys):
            self.want_counts()

    def want_sums(self) -> None:
        """Scan again what is in sight and has changed since its last scan, which lies a while back."""
        now = time.monotonic()
        self._sum_wanted |= {
            key
            for key in self._unsummed.intersection(self._list.table.visible_keys)
            if isinstance(key, int) and now - self._summed_at.get(key, now) > WHOLE_SECONDS
        }
        self._fill()

    # -- reading it --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if self._allowed and not self._filling and self._wanted:
            self._filling = True
            self._screen.work_on("fill", self._fill_rows, exclusive=False)

    @property
    def _wanted(self) -> bool:
        return bool(self._count_wanted or self._sum_wanted or self._bytes_wanted)

    async def _fill_rows(self) -> None:
        try:
            while self._allowed and self._wanted:
                await self._screen.calm()  # keys come first
                if self._count_wanted:
                    await self._fill_counts()
                else:
                    await (self._fill_sums() if self._sum_wanted else self._fill_bytes())
                if self._list.sorted_by in COUNTED and not self._count_wanted | self._sum_wanted:
                    self._list.relist(changed=False)
                    self._sorted_anew()
        finally:
            self._filling = False

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, BATCH)
        self.uncounted.difference_update(batch)
        nameless = [key for key in batch if (row := self._list.rows.get(key)) is None or not row.words]
        for counts, words in await self._screen.session.read(_counted, batch, nameless):
            key = counts.conversation_id
            row = self._list.rows.get(key)
            if row is None:
                continue
            if row.counts != counts or row.sums is None:
                self._sum_wanted.add(key)
            if row.counts is None or row.counts.summaries != counts.summaries:
                self._summed_at.pop(key, None)  # appended rows do not tell what is broken
            self._list.learn(key, replace(row, counts=counts, words=row.words if words is None else words))
        self._list.say(batch)

    async def _fill_sums(self) -> None:
        """Sums of the next conversation; of one that only grew, those of what was appended."""
        from lcm_core.store.statistics import (
            sums_of,
            sums_since,  # not wanted before the first rows are drawn
        )

        for conversation_id in self._next(self._sum_wanted, 1):
            row = self._list.rows.get(conversation_id)
            if row is None:
                continue
            age = time.monotonic() - self._summed_at.get(conversation_id, 0.0)
            if row.sums is None or age > WHOLE_SECONDS:
                self._unsummed.discard(conversation_id)
                sums = await self._screen.session.read(sums_of, conversation_id)
                self._bytes_wanted.add(conversation_id)
                self._summed_at[conversation_id] = time.monotonic()
            else:
                sums = await self._screen.session.read(sums_since, row.sums)
            latest = self._list.rows.get(conversation_id)
            if latest is not None:
                self._list.learn(conversation_id, replace(latest, sums=sums))
                self._list.say([conversation_id])
        if not self._sum_wanted:
            self._summed()

    async def _fill_bytes(self) -> None:
        """How many bytes the texts of the next conversation take, which are read for it."""
        from lcm_core.store.statistics import text_bytes

        for conversation_id in self._next(self._bytes_wanted, 1):
            found = await self._screen.session.read(text_bytes, [conversation_id])
            row = self._list.rows.get(conversation_id)
            if row is not None:
                self._list.learn(conversation_id, replace(row, bytes=found.get(conversation_id, 0)))
                self._list.say([conversation_id])
        if not self._bytes_wanted:
            self._summed()

    def _next(self, wanted: set[RowKey], limit: int) -> list[ConversationId]:
        """Take the next keys off a set of wanted ones: first those in sight, then in the list's order."""
        table = self._list.table
        seen = [key for key in table.visible_keys if key in wanted]
        rest = (key for key in table.keys if key in wanted)
        chosen = list(islice(dict.fromkeys(chain(seen, rest)), limit)) or list(islice(wanted, limit))
        wanted.difference_update(chosen)
        return [ConversationId(key) for key in chosen if isinstance(key, int)]


async def _counted(
    reader: Reader, batch: list[ConversationId], nameless: list[ConversationId]
) -> list[tuple[ConversationCounts, str | None]]:
    """The counts of some conversations; of the *nameless* ones how their user began, else None."""
    words = await store.first_words(reader, nameless)
    return [(one, words.get(one.conversation_id)) for one in await store.count_rows(reader, batch)]
