"""Where an item of a context leads to: the commands that its list and its own screen share."""

from __future__ import annotations

from abc import abstractmethod

from lcm_core.context_items import ItemId
from lcm_core.records import Conversation, SummaryId

from lcm_tui import places
from lcm_tui.frame import CommandScreen


class ItemLinks(CommandScreen):
    """A screen of a conversation with one item selected."""

    conversation: Conversation

    @abstractmethod
    def linked_item(self) -> ItemId:
        """The selected item; None when there is none."""

    def linked_seq(self) -> int | None:
        """The seq of the selected message; None while it is not known, and of anything else."""
        return None

    def linked_summary(self) -> SummaryId | None:
        """The summary to stand on in the DAG."""
        item = self.linked_item()
        return SummaryId(item) if isinstance(item, str) else None

    def why_not(self, command: str) -> str | None:
        """Summaries and messages lead to different screens."""
        if command == "previous" and not isinstance(self.linked_item(), str):
            return "only a summary has a previous context"
        if command == "messages" and self.linked_seq() is None:
            return "only a message stands in the conversation"
        return super().why_not(command)

    def action_summaries(self) -> None:
        """Show the DAG, standing on the selected summary."""
        self.open(places.Summaries(self.conversation, select=self.linked_summary()))

    def action_previous(self) -> None:
        """Show the previous context that the summary was made with."""
        self.open(places.Previous(self.conversation, SummaryId(str(self.linked_item()))))

    def action_messages(self) -> None:
        """Go to the message in its conversation."""
        self.open(places.Messages(self.conversation, seq=self.linked_seq()))

    def action_briefs(self) -> None:
        """Show the focus briefs."""
        self.open(places.Briefs(self.conversation))

    def action_files(self) -> None:
        """Show the large files."""
        self.open(places.Files(self.conversation))
