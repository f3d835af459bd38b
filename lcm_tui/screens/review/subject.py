"""What is reviewed: a summary with its drafts, one of them in sight, and what that is compared with."""

from __future__ import annotations

from lcm_core.operations.drafting.draft import Draft, Material
from lcm_core.operations.drafting.items import BatchItem, ItemState
from lcm_core.records import SummaryId

from lcm_tui.drafts import Work
from lcm_tui.views.review import Pair


class Subject:
    """The drafts of one summary, against what is in the database now."""

    def __init__(self, work: Work, summary_id: SummaryId) -> None:
        self.work = work
        self.summary_id = summary_id
        self.material: Material | None = None  #: the summary and its source, as they were read last
        self._pair_at = 0

    @property
    def item(self) -> BatchItem:
        """The summary in its batch, at this moment."""
        return self.work.batch.item(self.summary_id)

    @property
    def draft(self) -> Draft | None:
        """The draft in sight: the proposed one, or the last."""
        item = self.item
        return item.draft or (item.drafts[-1] if item.drafts else None)

    @property
    def applied(self) -> bool:
        """Whether a draft of it is in the database."""
        return self.item.state is ItemState.COMMITTED

    @property
    def changed_meanwhile(self) -> str:
        """Why the draft in sight no longer fits, in a sentence; empty when it does."""
        draft, material = self.draft, self.material
        if draft is None or material is None or self.item.state is ItemState.COMMITTED:
            return ""
        if draft.base.content != material.base.content:
            return "The summary changed since this draft was made: D shows all three texts; r drafts again."
        if not material.is_source_of(draft.base):
            return "The sources changed since this draft was made: r drafts again."
        return ""

    # -- comparing ---------------------------------------------------------------------------------------

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
        return found[self._pair_at % len(found)] if found else None

    @property
    def pair_place(self) -> str:
        """Which of the comparisons it is, where there is more than one."""
        count = len(self.pairs())
        return f"comparison {self._pair_at % count + 1} of {count}, D: next" if count > 1 else ""

    def compare_next(self) -> None:
        """Compare with something else."""
        self._pair_at = (self._pair_at + 1) % max(len(self.pairs()), 1)

    def choose(self, step: int) -> None:
        """Look at another draft, *step* drafts further on."""
        drafts, draft = self.item.drafts, self.draft
        if draft is not None:
            at = (drafts.index(draft) + step) % len(drafts)
            self._pair_at = 0
            self.work.batch.choose(self.summary_id, drafts[at].number)

    # -- why something cannot be done --------------------------------------------------------------------

    def why_no_other_draft(self) -> str | None:
        """Another draft can be looked at when there is one."""
        return "there is no other draft: r creates one" if len(self.item.drafts) < 2 else None

    def why_no_other_pair(self) -> str | None:
        """Something else can be compared when there is more than one pair."""
        if len(self.pairs()) < 2:
            return "there is nothing else to compare with: r creates another draft"
        return None

    def why_not_taken(self, text: str | None) -> str | None:
        """Why the text shown cannot be put into the database; None as text: it is only to look at."""
        draft = self.draft
        if self.item.state is ItemState.COMMITTED:
            return "it is applied: U, then u undoes it"
        if draft is None:
            return "there is no draft yet"
        if text is None:
            return "these two texts are read only: D returns to the draft"
        if self.material is not None and text == self.material.base.content:
            return "nothing would change"
        if self.changed_meanwhile and text == draft.text:
            return (
                "the database changed since this draft was made: r drafts again, e edits it over the new text"
            )
        return None
