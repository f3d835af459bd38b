"""What a review compares: the draft in sight with the present text, that of its making, and other drafts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from lcm_core.operations.drafting.draft import Draft, Material
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.records import SummaryId

from lcm_tui.drafts import Work
from lcm_tui.frame import DataScreen
from lcm_tui.widgets.diff_view import DiffView


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that can be compared."""

    old_name: str
    old: str
    new_name: str
    new: str
    takes: bool  #: whether what is shown here may be put into the database


class Comparing(DataScreen[Material]):
    """A screen with the drafts of one summary, one of them in sight."""

    def __init__(self, work: Work, summary_id: SummaryId) -> None:
        super().__init__()
        self.work = work
        self.summary_id = summary_id
        self.view = DiffView(empty="Reading …", id="diff")
        self.material: Material | None = None
        self.pair_at = 0
        self.busy = ""  #: what is being done, while it is

    @abstractmethod
    def again(self) -> None:
        """Show what has changed."""

    @property
    def item(self) -> BatchItem:
        """The summary in its batch, as it stands."""
        return self.work.batch.item(self.summary_id)

    @property
    def draft(self) -> Draft | None:
        """The draft in sight: the proposed one, or the last."""
        item = self.item
        return item.draft or (item.drafts[-1] if item.drafts else None)

    @property
    def changed_meanwhile(self) -> str:
        """Why the draft in sight no longer fits, in a sentence; empty when it does."""
        draft, material = self.draft, self.material
        if draft is None or material is None or self.item.state is ItemState.COMMITTED:
            return ""
        if draft.base.content != material.base.content:
            return "The summary changed since this draft was made: D shows all three texts; r asks again."
        if not material.is_source_of(draft.base):
            return "What the summary is made from changed since this draft was made: r asks again."
        return ""

    def pairs(self) -> list[Pair]:
        """What can be compared, what is committed first."""
        draft, material = self.draft, self.material
        if material is None or draft is None:
            return []
        now, name = material.base.content, f"draft {draft.number}"
        found = [Pair("now", now, name, draft.text, True)]
        if draft.base.content != now:
            found.append(Pair("when drafted", draft.base.content, "now", now, False))
            found.append(Pair("when drafted", draft.base.content, name, draft.text, False))
        others = (one for one in self.item.drafts if one.number != draft.number)
        found += [Pair(f"draft {one.number}", one.text, name, draft.text, True) for one in others]
        return found

    @property
    def pair(self) -> Pair | None:
        """What is compared."""
        found = self.pairs()
        return found[self.pair_at % len(found)] if found else None

    @property
    def pair_place(self) -> str:
        """Which of the comparisons it is, where there is more than one."""
        count = len(self.pairs())
        return f"{self.pair_at % count + 1} of {count}, D goes on" if count > 1 else ""

    @property
    def text(self) -> str | None:
        """The text shown: what would be committed; None: these two are only to look at."""
        return self.view.text if self.pair is not None and self.pair.takes else None

    # -- commands ----------------------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Compare with something else."""
        self.pair_at = (self.pair_at + 1) % max(len(self.pairs()), 1)
        self.again()

    def action_draft_next(self) -> None:
        """Look at the next draft."""
        self._choose(1)

    def action_draft_previous(self) -> None:
        """Look at the draft before."""
        self._choose(-1)

    def _choose(self, step: int) -> None:
        drafts, draft = self.item.drafts, self.draft
        if draft is not None:
            at = (drafts.index(draft) + step) % len(drafts)
            self.pair_at = 0
            self.work.batch.choose(self.summary_id, drafts[at].number)
