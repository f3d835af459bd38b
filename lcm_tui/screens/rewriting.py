"""From a screen to drafts: one summary, what lies below it, or everything that is broken."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lcm_core.records import Conversation, ConversationId, SummaryId

from lcm_tui import places
from lcm_tui.frame import CommandScreen
from lcm_tui.widgets.text import Block

if TYPE_CHECKING:  # what asks models and changes a database is imported when that is wanted
    from lcm_core.operations.drafting.saved import SavedDrafts


class Repairing(CommandScreen):
    """A screen from which broken summaries can be repaired."""

    @abstractmethod
    def repaired(self) -> Conversation | None:
        """The conversation to be repaired; None: all of the file."""

    def action_repair(self) -> None:
        """List what is broken, here or in the whole file; nothing is asked before the operator says so."""
        from lcm_tui.dialogs.question import Question

        conversation = self.repaired()
        if conversation is None:
            self._repair("a")
            return
        here = f"in conversation {conversation.conversation_id}, {conversation.lane}"
        said = Block(
            "What is broken is listed first; nobody is asked and nothing is changed before you say so."
        )
        answers = (("enter", here), ("a", "in the whole file"))
        self.app.push_screen(
            Question("Repair broken summaries", (said,), answers, decides=False), self._repair
        )

    def _repair(self, answer: str | None) -> None:
        from lcm_tui.drafts import Wanted

        conversation = self.repaired() if answer == "enter" else None
        if not answer:
            return
        wanted = Wanted("repair", None if conversation is None else conversation.conversation_id)
        where = "the whole file"
        if conversation is not None:
            where = f"conversation {conversation.conversation_id}  {conversation.lane}"
        self.open(places.Drafting(wanted, f"Repair {where}"))


class Rewriting(Repairing):
    """A screen of one conversation with a summary that can be rewritten."""

    conversation: Conversation

    @abstractmethod
    def rewritable(self) -> SummaryId | None:
        """The selected summary."""

    def repaired(self) -> Conversation | None:
        """This conversation."""
        return self.conversation

    def why_not(self, command: str) -> str | None:
        """A summary has to be selected."""
        if command in {"rewrite", "rewrite-subtree"} and self.rewritable() is None:
            return "no summary is selected"
        return super().why_not(command)

    def action_rewrite(self) -> None:
        """Draft another text for the selected summary, and review it."""
        summary_id = self.rewritable()
        if summary_id is not None:
            self.rewrite(summary_id)

    def rewrite(self, summary_id: SummaryId) -> None:
        """The same for any summary of this conversation."""
        self.work_on("rewrite", self._rewrite, self.conversation.conversation_id, summary_id)

    async def _rewrite(self, conversation_id: ConversationId, summary_id: SummaryId) -> None:
        from lcm_core.operations.drafting.items import select_items

        from lcm_tui.drafts import Work, author_of

        items = await self.session.read(select_items, conversation_id, summary_ids=[summary_id])
        author = await asyncio.to_thread(author_of, self.session.settings)
        kept = await asyncio.to_thread(_kept_of, self.session.database.path, [summary_id])
        work = Work(self.session, author, items, kind="rewrite", kept=kept)
        self.open(places.Review(work, summary_id, own=True))

    def action_rewrite_subtree(self) -> None:
        """Draft other texts for the selected summary and everything below it, sources first."""
        from lcm_tui.drafts import Wanted

        summary_id = self.rewritable()
        if summary_id is not None:
            wanted = Wanted("rewrite", self.conversation.conversation_id, summary_id)
            self.open(places.Drafting(wanted, f"Rewrite {summary_id} and what is below it"))


def _kept_of(path: Path, ids: Sequence[SummaryId]) -> SavedDrafts | None:
    """Drafts of exactly these summaries that were paid for and not decided."""
    from lcm_core.operations.drafting.saved import drafts_folder, unfinished

    from lcm_tui.drafts import worth_keeping

    for kept in unfinished(drafts_folder(), path, "rewrite"):
        if [item.summary_id for item in kept.items] == list(ids) and worth_keeping(kept.items):
            return kept
    return None
