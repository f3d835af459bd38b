"""A batch that has not begun: found, chosen by the operator, and estimated before anybody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lcm_core.errors import LcmError
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.operations.drafting.saved import SavedDrafts
from lcm_core.operations.repair import CONTAMINATED
from lcm_core.records import SummaryId
from lcm_core.summarize.cost import Forecast, total_forecast

from lcm_tui.dialogs.ask_again import AskAgain
from lcm_tui.drafts import NOTHING, Asked, Wanted, Work, author_like
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.marks import Marks
from lcm_tui.screens.drafting.reads import Found
from lcm_tui.writing import Modelling


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
            self._screen.work_on("estimate", self._estimate, self.author, sorted(self.marks.keys))

    async def _estimate(self, author: Modelling, ids: Sequence[SummaryId]) -> None:
        items = [self.items[one] for one in ids]
        work = Work(self._screen.session, author, items, kind=self._wanted.kind)
        try:
            found: list[Forecast] = []
            for one in ids:
                self.say(f"estimating, {len(found):,} of {len(ids):,} …")
                found.append(await work.forecast(one))
            self.forecast = total_forecast(found) if found else NOTHING
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

    def begin(self, items: Sequence[BatchItem], *, kept: SavedDrafts | None = None) -> Work:
        """Make the batch of *items*, or go on with what was *kept* of an earlier one."""
        assert self.author is not None  # there is nothing to begin with before something was found
        said = self._asked.instructions
        session, kind = self._screen.session, self._wanted.kind
        return Work(session, self.author, items, kind=kind, kept=kept, instructions=said)
