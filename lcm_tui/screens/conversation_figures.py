"""What the first list says of conversations and costs a scan: remembered, or read behind the first rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias

from lcm_core.base.errors import LcmError
from lcm_core.base.records import ConversationId
from lcm_core.base.values import replace
from lcm_core.store import conversations as store
from lcm_core.store.conversations import ConversationCounts
from lcm_core.store.database import Reader

from lcm_tui.kit.session import imported
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.tables.conversation_rows import COUNTED, RowKey

if TYPE_CHECKING:
    from lcm_core.store.remembered import Figures, FileMark, Look, Place
    from lcm_core.store.statistics import ConversationSums

#: Conversations that are read in one transaction, and the messages of them at most.
BATCH: Final = 40
MESSAGES: Final = 4_000
#: As many are counted at once as it goes on: each batch may give all rows other names.
MOST_COUNTED: Final = 640
#: Messages that were read are read again, in case they were changed in place, at most this often, and at most
#: one part in so many of the time.
WHOLE_SECONDS: Final = 10.0
SHARE: Final = 200
#: What was read before is read again for at most one part in so many, with rests of at most so long.
SHARE_OF_SUMS: Final = 200
LONGEST_REST: Final = 2.0
LOOK_SECONDS: Final = 0.25
#: How often what is remembered is compared with a file that is written at the same time.
ATTEMPTS: Final = 3
#: What is known is written down at most this often.
KEEP_SECONDS: Final = 300.0


class Counting:
    """Counts come from indexes and are read first; sums lie behind the texts, and are read in batches."""

    def __init__(
        self,
        screen: CommandScreen,
        listed: ConversationList,
        sorted_anew: Callable[[], None],
        summed: Callable[[], None],
    ) -> None:
        """*listed* gets the numbers; *sorted_anew* is called when they have changed its order.

        *summed* is called when all sums have been read that were wanted.
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
        self._at_once = self._counted_at_once = BATCH
        self._whole: set[RowKey] = set()  #: those whose messages are read again, too
        self._summarized: set[RowKey] = set()  #: those whose summaries are, too
        self._unproved: set[RowKey] = set()  #: rows whose messages were not read again since the last change
        self._unread: set[RowKey] = set()  #: rows of which nothing was
        self._prove_at = 0.0  #: not before this (monotonic)
        self._sum_at = 0.0  #: what was read before is not read again before this (monotonic)
        # -- what is remembered
        self._recalled = False
        self._known: dict[int, Figures] = {}  #: rows that were not read yet
        self._place: Place | None = None  #: how far the file has been read
        self._looks = 0  #: at the file, since it has changed
        self._mark: FileMark | None = None  #: the state in which that was read
        self._learned = False  #: something that was not kept
        self._keep_at = 0.0  #: not before this (monotonic)

    def begin(self) -> None:
        """The first rows have been painted, or are in front again: read what costs more."""
        self._allowed = True
        self._fill()

    def leave(self) -> None:
        """Another screen is in front: it has all of Python's time, and of the disk's."""
        self._allowed = False
        self._screen.workers.cancel_group(self._screen, "fill")

    # -- what is wanted ----------------------------------------------------------------------------------

    @property
    def place(self) -> Place | None:
        """How far the file was read; None: nobody knows yet."""
        return self._place

    def first_listed(self) -> None:
        """Conversations are listed of which nothing is known."""
        self.uncounted = {key for key, row in self._list.rows.items() if row.entry is not None}
        self._unproved, self._unread = set(self.uncounted), set(self.uncounted)
        self.want_counts()

    def looked(self, look: Look, changed: Collection[RowKey], mark: FileMark | None) -> None:
        """The file has changed; the entries of *changed* rows have. *mark*: its state before that look."""
        rows, since, known = self._list.rows, look.since, self._place is not None
        self._looks += 1
        self._place, self._mark = look.place, mark
        listed = {key for key, row in rows.items() if row.entry is not None}
        self._unproved, self._unread = set(listed), set(listed)
        again: Collection[RowKey] = () if since is None else since.operated
        if since is None and known:
            self._known.clear()
            again = listed
        self._whole.update(key for key in again if key in listed)
        self._sum_wanted.update(key for key in again if key in listed and rows[key].sums is not None)
        if look.whole:
            self.uncounted = listed
        else:
            changed = {key for entry in look.entries if (key := entry.conversation.conversation_id) in listed}
            self.uncounted |= changed
        self.want_counts(changed)

    def sum_again(self) -> None:
        """Every sum is to be read again, whatever changed."""
        self._known.clear()
        self._sum_at = 0.0
        self._whole = {key for key, row in self._list.rows.items() if row.entry is not None}
        rows = self._list.rows
        self._sum_wanted |= {key for key in self._whole if rows[key].sums is not None or rows[key].unreadable}

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
        """Read messages again that are in sight and may have been changed in place."""
        if time.monotonic() >= self._prove_at:
            seen = self._unproved.intersection(self._list.table.visible_keys)
            self._whole |= seen
            self._sum_wanted |= seen
        self._fill()

    # -- reading it --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Read what costs more; one worker at a time, which takes up what is asked for meanwhile."""
        if self._allowed and not self._filling and (self._wanted or not self._recalled):
            self._filling = True
            self._screen.work_on("fill", self._fill_rows, exclusive=False)

    @property
    def _wanted(self) -> bool:
        return bool(self._count_wanted or self._sum_wanted)

    async def _fill_rows(self) -> None:
        try:
            if not self._recalled:
                await self._recall()
            while self._allowed and self._wanted:
                await self._screen.calm()  # keys come first
                if self._count_wanted:
                    await self._fill_counts()
                else:
                    await self._fill_sums()
                self._sort_what_is_read()
            if self._allowed and self._learned and time.monotonic() >= self._keep_at:
                await self._keep()
        finally:
            self._filling = False

    def _sort_what_is_read(self) -> None:
        if self._list.sorted_by in COUNTED and not self._wanted:
            self._list.relist(changed=False)
            self._sorted_anew()

    async def _fill_counts(self) -> None:
        """Counts of the next conversations, those in sight first."""
        batch = self._next(self._count_wanted, self._counted_at_once)
        self._counted_at_once = min(2 * self._counted_at_once, MOST_COUNTED) if self._count_wanted else BATCH
        nameless = [key for key in batch if (row := self._list.rows.get(key)) is None or not row.words]
        try:
            read = await self._screen.session.read(_counted, batch, nameless)
        except asyncio.CancelledError:
            self._count_wanted.update(batch)
            raise
        self.uncounted.difference_update(batch)
        for counts, words in read:
            key = counts.conversation_id
            row = self._list.rows.get(key)
            if row is None:
                continue
            if row.counts != counts or row.sums is None:
                self._sum_wanted.add(key)
            if row.counts is None or row.counts.summaries != counts.summaries:
                self._summarized.add(key)
            self._list.learn(key, replace(row, counts=counts, words=row.words if words is None else words))
        self._list.say(batch)

    async def _fill_sums(self) -> None:
        """Sums of the next conversations; of those that only grew, of what was appended."""
        while (early := self._sum_at - time.monotonic()) > 0 and self._none_is_new:  # noqa: ASYNC110
            await asyncio.sleep(min(early, LOOK_SECONDS))
        begun = time.monotonic()
        asked = self._next_sums()
        try:
            read = await self._screen.session.read(_summed, asked)
        except asyncio.CancelledError:
            self._sum_wanted.update(key for key, *_ in asked)
            raise
        except LcmError as error:  # of one of them; the others can be read
            self._at_once = 1
            if len(asked) == 1:
                self._cannot_sum(asked[0][0], error)
                return
            self._sum_wanted.update(key for key, *_ in asked)
            return
        proved, now = False, time.monotonic()
        if all(known is not None for _, known, _ in asked):
            self._sum_at = now + min(LONGEST_REST, SHARE_OF_SUMS * (now - begun))
        for sums, (key, known, others) in zip(read, asked, strict=True):
            self._known.pop(key, None)
            if known is None or others:
                self._unread.discard(key)
                self._summarized.discard(key)
            if known is None:
                proved |= key in self._whole
                self._whole.discard(key)
                self._unproved.discard(key)
            row = self._list.rows.get(key)
            if row is not None and (row.sums != sums or row.unreadable):
                self._learned = True
                self._list.learn(key, replace(row, sums=sums, unreadable=False))
        if proved:
            self._prove_at = max(self._prove_at, now + WHOLE_SECONDS) + SHARE * (now - begun)
        self._list.say([key for key, *_ in asked])
        if not self._sum_wanted:
            self._summed()

    def _cannot_sum(self, key: ConversationId, error: LcmError) -> None:
        """Say of a conversation that the file's damage keeps it from being read; raise what else it is."""
        if error.code != "DATABASE_CORRUPT":
            raise error
        if (row := self._list.rows.get(key)) is not None:
            self._list.learn(key, replace(row, unreadable=True))
            self._list.say([key])
        if not self._sum_wanted:
            self._summed()

    @property
    def _none_is_new(self) -> bool:
        """Whether all sums that are wanted have been read before."""
        rows = self._list.rows
        return all(row.sums is not None for key in self._sum_wanted if (row := rows.get(key)) is not None)

    def _next_sums(self) -> list[_Asked]:
        """The next conversations, with as many messages as are read at once, and what is known of each."""
        asked: list[_Asked] = []
        messages = 0
        for key in self._next(self._sum_wanted, self._at_once):
            row = self._list.rows.get(key)
            if row is None:
                continue
            known = None
            if key not in self._whole:
                known = row.sums or (self._known[key].sums if key in self._known else None)
            if known is None:
                messages += 0 if row.counts is None else row.counts.messages
            if asked and messages > MESSAGES:
                self._sum_wanted.add(key)
            else:
                asked.append((key, known, row.sums is None or key in self._summarized))
        return asked

    def _next(self, wanted: set[RowKey], limit: int) -> list[ConversationId]:
        """Take the next keys off a set of wanted ones: first those in sight, then in the list's order."""
        table = self._list.table
        seen = [key for key in table.visible_keys if key in wanted]
        rest = (key for key in table.keys if key in wanted)
        chosen = list(islice(dict.fromkeys(chain(seen, rest)), limit)) or list(islice(wanted, limit))
        wanted.difference_update(chosen)
        return [ConversationId(key) for key in chosen if isinstance(key, int)]

    # -- remembering it ----------------------------------------------------------------------------------

    async def _recall(self) -> None:
        """Take what earlier starts have found out, as far as it still holds (docs/spec/decisions.md)."""
        await imported("lcm_core.store.remembered")
        from lcm_core.store import remembered

        session = self._screen.session
        memory = await session.memory.recall()
        for _ in range(ATTEMPTS):
            looks, mark = self._looks, await session.memory.now()
            if memory is not None and memory.mark is not None and memory.mark == mark:
                place, since = memory.place, None
            else:
                since = None if memory is None else await session.read(remembered.since, memory.place)
                place = await session.read(remembered.place_of) if since is None else since.place
            if looks == self._looks:  # else rows have been listed that are newer
                break
        self._recalled = True
        if looks != self._looks:
            return
        self._place, self._mark = place, mark
        if memory is not None and since is not None:
            held = [one for one in memory.conversations if one.sums.conversation_id not in since.operated]
            self._take([one for one in held if self._is_of(one, since.grown)], exact=False)
        elif memory is not None and memory.mark is not None and memory.mark == mark:
            self._take([one for one in memory.conversations if self._is_of(one)], exact=True)

    def _is_of(self, figures: Figures, grown: Collection[ConversationId] = ()) -> bool:
        key = figures.sums.conversation_id
        row = self._list.rows.get(key)
        return row is not None and row.entry is not None and figures.fit(row.entry, grown=key in grown)

    def _take(self, remembered: Sequence[Figures], *, exact: bool) -> None:
        """Show what is remembered; all of it holds, or (not *exact*) what is said of messages."""
        for one in remembered:
            key = one.sums.conversation_id
            row = replace(self._list.rows[key], words=one.words or None)
            if exact:
                row = replace(row, counts=one.counts, sums=one.sums)
                for pending in (self.uncounted, self._count_wanted, self._unread, self._unproved):
                    pending.discard(key)
            else:
                self._known[key] = one
            self._list.learn(key, row)
        self._list.say([one.sums.conversation_id for one in remembered])
        self._sort_what_is_read()
        if not self._wanted:
            self._summed()

    async def _keep(self) -> None:
        """Remember what is known for the next start."""
        from lcm_core.store.remembered import Figures

        memory = self._screen.session.memory
        mark, place = await memory.now(), self._place
        if mark is None or place is None or self._wanted:
            return
        exact = mark == self._mark and not self._unread
        figures = [
            Figures(
                row.entry.conversation.created_at,
                row.entry.last_activity,
                row.counts,
                row.sums,
                row.words or "",
            )
            for row in self._list.rows.values()
            if row.entry is not None and row.counts is not None and row.sums is not None
        ]
        self._learned = False
        self._keep_at = time.monotonic() + KEEP_SECONDS
        await memory.keep(mark, place, tuple(figures), exact=exact)


async def _counted(
    reader: Reader, batch: list[ConversationId], nameless: list[ConversationId]
) -> list[tuple[ConversationCounts, str | None]]:
    """The counts of some conversations; of the *nameless* ones how their user began, else None."""
    words = await reader.at_once(store.first_words, nameless)
    counts = await reader.at_once(store.count_rows, batch)
    return [(one, words.get(one.conversation_id)) for one in counts]


#: A conversation, its sums as far as they are known, and whether more than its messages may have changed.
_Asked: TypeAlias = "tuple[ConversationId, ConversationSums | None, bool]"


async def _summed(reader: Reader, asked: Sequence[_Asked]) -> list[ConversationSums]:
    """The sums of some conversations, from those that are known on."""
    from lcm_core.store.statistics import sums_of, sums_since

    async def read(within: Reader) -> list[ConversationSums]:
        return [
            await (sums_of(within, key) if known is None else sums_since(within, known, others=others))
            for key, known, others in asked
        ]

    return await reader.at_once(read)
