"""From a review into the database: the text shown, by way of the preview; then what was made from it."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.operations.drafting.draft import Draft, DraftOrigin
from lcm_core.operations.drafting.items import BatchItem
from lcm_core.records import SummaryId
from lcm_core.summarize.acceptance import DraftFault

from lcm_tui.actions.drafts import rewrite_summary
from lcm_tui.dialogs.question import Question
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.review.subject import Subject
from lcm_tui.widgets.text import Block


async def draft_to_take(screen: CommandScreen, subject: Subject, text: str) -> Draft | None:
    """The draft with exactly the text shown; None: it is doubtful, and the operator does not want it.

    A text that no draft has yet becomes one.
    """
    draft = subject.draft
    if draft is None:
        return None
    if text != draft.text:
        draft = await subject.work.batch.write(subject.summary_id, text)
        doubtful = DraftFault.REVERSED in draft.verdict.faults
    else:
        doubtful = draft.origin is DraftOrigin.FALLBACK or not draft.verdict.accepted
    if not doubtful:
        return draft
    is_cut = draft.origin is DraftOrigin.FALLBACK
    cut = ["This is the truncated source, not a summary."] if is_cut else []
    said = tuple(map(Block, (*cut, *draft.verdict.sentences[: len(draft.verdict.faults)])))
    answers = (("a", "preview it (can be undone)"),)
    return draft if await screen.app.push_screen_wait(Question("Use it anyway?", said, answers)) else None


async def offer_rewrite_above(screen: CommandScreen, item: BatchItem, above: Sequence[SummaryId]) -> None:
    """Offer to go on, from *screen*, with what was made from the text that was replaced."""
    named = ", ".join(above[:3]) + (f" and {len(above) - 3} more" if len(above) > 3 else "")
    said = Block(f"{named}: made from the old text of {item.summary_id}, so now stale.")
    question = Question(
        "Also rewrite the summaries built on this one?",
        (said,),
        (("r", f"rewrite {above[0]} next"),),
        decides=False,
    )
    if await screen.app.push_screen_wait(question):
        await rewrite_summary(screen, item.conversation_id, above[0])
