"""From a review into the database: the text shown, by way of the preview; then what was made from it."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.commit import Committed
from lcm_core.operations.drafting.draft import Draft, DraftOrigin
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.operations.stale import stale_in
from lcm_core.records import SummaryId
from lcm_core.summarize.acceptance import DraftFault

from lcm_tui import places
from lcm_tui.changes.change import Change
from lcm_tui.dialogs.question import Question
from lcm_tui.screens.review_comparing import Comparing
from lcm_tui.screens.rewriting import ABOUT, Rewriting
from lcm_tui.widgets.text import Block


class Committing(Comparing):
    """A review whose text can be put in the place of the present one."""

    own: bool  #: the work is this summary alone, and ends with the screen

    def action_apply(self) -> None:
        """Preview putting the text shown in the place of the present one."""
        self.work_on("apply", self._apply, exclusive=False)

    async def _apply(self) -> None:
        draft, text = self.draft, self.text
        if draft is None or text is None:
            return
        if text != draft.text:
            draft = await self.work.batch.write(self.summary_id, text)
            doubtful = DraftFault.REVERSED in draft.verdict.faults
        else:
            doubtful = draft.origin is DraftOrigin.FALLBACK or not draft.verdict.accepted
        if doubtful:
            cut = (
                ["This is a cut of the source, no summary of it."]
                if draft.origin is DraftOrigin.FALLBACK
                else []
            )
            said = tuple(map(Block, (*cut, *draft.verdict.sentences[: len(draft.verdict.faults)])))
            answer = await self.app.push_screen_wait(
                Question("Take it all the same?", said, (("a", "preview it; u takes it back"),))
            )
            if not answer:
                return
        self._preview(draft)

    def _preview(self, draft: Draft) -> None:

        item = self.item
        title = f"{self.work.kind.capitalize()} {self.summary_id}, draft {draft.number}"

        def then(done: tuple[Committed, ...]) -> None:
            self.work_on("committed", self._committed, item, draft, done, exclusive=False)

        self.open(places.Preview(Change(self.work.planner(item, draft), title, ABOUT, then=then)))

    async def _committed(self, item: BatchItem, draft: Draft, done: Sequence[Committed]) -> None:
        if not done:
            return
        await self.work.committed(item, draft, done)
        above = await self._stale_above(item) if self.own else []
        await self.action_back()
        if above:
            self._offer(item, above)

    async def _stale_above(self, item: BatchItem) -> list[SummaryId]:
        """What was made from the text that went."""
        found = await self.session.read(stale_in, item.conversation_id)
        return [one.summary_id for one in found if item.summary_id in one.sources]

    def _offer(self, item: BatchItem, above: Sequence[SummaryId]) -> None:
        """Offer to go on with what was made from it."""
        below = self.app.screen
        if not isinstance(below, Rewriting):
            return
        named = ", ".join(above[:3]) + (f" and {len(above) - 3} more" if len(above) > 3 else "")
        said = Block(f"{named}: made from the text of {item.summary_id} that is gone now, so stale.")
        answers = (("r", f"rewrite {above[0]} next"),)

        def answered(answer: str | None) -> None:
            if answer:
                below.rewrite(above[0])

        self.app.push_screen(Question("Go on upward?", (said,), answers, decides=False), answered)
