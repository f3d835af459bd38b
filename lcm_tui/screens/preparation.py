"""A batch of drafts before it begins: what there is to rewrite, what of it is marked, and what that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lcm_core.base.errors import LcmError
from lcm_core.base.files import drafts_folder
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.values import Record
from lcm_core.operations.batch import BatchOptions
from lcm_core.operations.drafting import BatchItem, select_items
from lcm_core.operations.drafts import SavedDrafts, unfinished
from lcm_core.operations.repair import CONTAMINATED, STALE, conversations_of, find_repairable
from lcm_core.writers.cost import NO_FORECAST, Forecast, total_forecast

from lcm_tui.flows.drafts import (
    Asked,
    Modelling,
    Wanted,
    Work,
    author_like,
    choose_writer,
    worth_keeping,
)
from lcm_tui.kit.listing import Marks
from lcm_tui.kit.session import Session
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.questions import AskAgain

# -- what it reads ---------------------------------------------------------------------------------------
# What there is to rewrite.


class Found(Record, frozen=True):
    """What there is to do."""

    items: tuple[BatchItem, ...]
    author: Modelling
    kept: tuple[SavedDrafts, ...]  #: earlier batches that were not brought to their end


async def find(session: Session, wanted: Wanted, reading: Callable[[ConversationId], None]) -> Found:
    """The summaries that are meant, who writes by the settings, and what an earlier batch has left.

    *reading* is called with each conversation that is looked through.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    author = await asyncio.to_thread(choose_writer, session.settings)
    kept = await asyncio.to_thread(unfinished, drafts_folder(), session.database.path, wanted.kind)
    items = await _items(session, wanted, reading)
    return Found(tuple(items), author, tuple(one for one in kept if _is_meant(one, wanted.conversation_id)))


def _is_meant(kept: SavedDrafts, where: ConversationId | None) -> bool:
    here = where is None or any(item.conversation_id == where for item in kept.items)
    return len(kept.items) > 1 and here and worth_keeping(kept.items)


async def _items(
    session: Session, wanted: Wanted, reading: Callable[[ConversationId], None]
) -> list[BatchItem]:
    """What is broken itself, before what is stale, and that before what is only contaminated."""
    read = session.read
    if wanted.summary_id is not None and wanted.conversation_id is not None:
        return await read(select_items, wanted.conversation_id, summary_ids=[wanted.summary_id], subtree=True)
    found: list[BatchItem] = []
    for one in await read(conversations_of, wanted.conversation_id):
        reading(one)
        found += await read(find_repairable, one)
    return sorted(found, key=lambda item: (item.reason == CONTAMINATED, item.reason == STALE))


# -- preparation -----------------------------------------------------------------------------------------
# A batch that has not started: found, chosen by the operator, and estimated before any call.


class Preparation:
    """What was found, what of it is marked, who is to write it, and what that takes."""

    def __init__(
        self, screen: CommandScreen, wanted: Wanted, changed: Callable[[Sequence[SummaryId]], None]
    ) -> None:
        """*changed* gets the summaries whose marks were set or taken away; none when only words change."""
        self._screen = screen
        self._wanted = wanted
        self._changed = changed
        self._asked = Asked()  #: how the operator wants it written
        self.items: dict[SummaryId, BatchItem] = {}
        self.marks: Marks[SummaryId] = Marks(self._marks_changed)
        self.author: Modelling | None = None  #: None: nothing was found yet
        self.forecast: Forecast | None = None  #: what the marked take; None: not known yet
        self.doing = ""  #: what is being read or estimated

    @property
    def chosen(self) -> list[BatchItem]:
        """What is marked, in the order of the list."""
        return [item for item in self.items.values() if item.summary_id in self.marks]

    @property
    def contaminated(self) -> list[SummaryId]:
        """What is to be written again only because it was made from broken summaries."""
        return [item.summary_id for item in self.items.values() if item.reason == CONTAMINATED]

    def take(self, found: Found) -> list[SummaryId]:
        """Take what was found in the place of what was found before; what is to be marked of it."""
        apart = set(self.items)
        self.author = self.author or found.author
        self.items = {item.summary_id: item for item in found.items}
        apart.update(self.contaminated)
        return [one for one in self.items if one not in apart]

    def mark(self, new: Sequence[SummaryId]) -> None:
        """Mark what is new, and forget marks of what is gone; then estimate."""
        self.marks.keep(self.items)
        if new:
            self.marks.turn(new)
        else:
            self.estimate()

    def say(self, doing: str) -> None:
        """Something is being done."""
        self.doing = doing
        self._changed(())

    def _marks_changed(self, keys: Sequence[SummaryId]) -> None:
        self.estimate()
        self._changed(keys)

    # -- what it takes -----------------------------------------------------------------------------------

    def estimate(self) -> None:
        """Estimate anew what is marked; nothing is sent."""
        if self.author is not None:
            self.forecast = None
            self._screen.work_on("estimate", self._estimate, sorted(self.marks.keys))

    async def _estimate(self, ids: Sequence[SummaryId]) -> None:
        work = self.begin([self.items[one] for one in ids])
        try:
            found: list[Forecast] = []
            for one in ids:
                self.say(f"estimating, {len(found):,} of {len(ids):,} …")
                found.append((await work.forecast(one)).forecast)
            self.forecast = total_forecast(found) if found else NO_FORECAST
        finally:
            await work.close()
            self.say("")

    # -- who writes --------------------------------------------------------------------------------------

    async def choose_author(self, before: Modelling) -> None:
        """Ask who writes this batch, and estimate again; nobody is asked before the next question."""
        form = AskAgain("Who writes this batch?", before.words, self._asked)
        asked = await self._screen.app.push_screen_wait(form)
        if asked is None:
            return
        self._asked = asked
        try:
            settings = self._screen.session.settings
            self.author = await asyncio.to_thread(author_like, settings, before, asked)
        except LcmError as error:
            self._screen.app.notify(error.message, title="No model chosen", severity="error", timeout=12)
            return
        self.estimate()

    def begin(self, items: Sequence[BatchItem], kept: SavedDrafts | None = None) -> Work:
        """Make the batch of *items*, or go on with what was *kept* of an earlier one."""
        session, author = self._screen.session, self.author
        assert author is not None  # there is nothing to begin with before something was found
        options = BatchOptions(self._wanted.kind, session.settings.summary.in_flight.value)
        said = self._asked.instructions
        return Work(session.database, session.settings, author, items, options, kept=kept, instructions=said)
