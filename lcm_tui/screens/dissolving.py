"""Dissolving from a screen: the marked set of summaries, why it cannot be done, and its preview."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lcm_core.records import Conversation, SummaryId

from lcm_tui import places
from lcm_tui.frame import CommandScreen

if TYPE_CHECKING:  # what changes a database is imported when something is to be changed
    from lcm_core.change.commit import Committed

MARK: Final = "●"


class Dissolving(CommandScreen):
    """A screen of one conversation on which summaries can be marked and dissolved.

    Marks are ids, so they outlive a reload; they belong to the screen and go with it.
    """

    conversation: Conversation

    _marks: dict[SummaryId, None] | None = None

    @property
    def marks(self) -> dict[SummaryId, None]:
        """The marked summaries, in the order in which they were marked."""
        if self._marks is None:
            self._marks = {}
        return self._marks

    @abstractmethod
    def markable(self) -> SummaryId | None:
        """The summary under the cursor."""

    @abstractmethod
    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """Why a summary cannot be dissolved, as far as is known without reading; *below*: in a set."""

    @abstractmethod
    def marks_changed(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw marks that were set or taken away."""

    def why_not(self, command: str) -> str | None:
        """A mark needs a summary; to be dissolved it must be condensed and in the context."""
        match command:
            case "mark":
                return None if self.markable() is not None else "no summary is selected"
            case "dissolve":
                return self._why_not_dissolve()
            case _:
                return super().why_not(command)

    def _why_not_dissolve(self) -> str | None:
        chosen = self._chosen()
        if not chosen:
            return "no summary is selected"
        for summary_id in chosen:
            reason = self.why_not_dissolved(summary_id, below=len(chosen) > 1)
            if reason is not None:
                return f"{summary_id}: {reason}" if self.marks else reason
        return None

    def _chosen(self) -> list[SummaryId]:
        """The marked set; without marks what is under the cursor."""
        if self.marks:
            return list(self.marks)
        selected = self.markable()
        return [] if selected is None else [selected]

    def action_mark(self) -> None:
        """Mark the summary under the cursor, or take its mark away."""
        summary_id = self.markable()
        if summary_id is None:
            return
        if summary_id in self.marks:
            del self.marks[summary_id]
        else:
            self.marks[summary_id] = None
        self.marks_changed([summary_id])
        self.refresh_bars()

    def action_dissolve(self) -> None:
        """Preview dissolving the marked set, or what is under the cursor."""
        from lcm_tui.changes.dissolve import dissolving

        change = dissolving(self.conversation, self._chosen(), self.session.budget, self._dissolved)
        self.open(places.Preview(change))

    def _dissolved(self, done: Sequence[Committed]) -> None:
        """The marks have done their work."""
        del done
        gone = list(self.marks)
        self.marks.clear()
        self.marks_changed(gone)

    def marked_text(self) -> str:
        """How many are marked, for the title bar."""
        return f"{MARK} {len(self.marks):,} marked" if self.marks else ""

    def action_health(self) -> None:
        """Show what the checks find in this conversation."""
        self.open(places.Health(self.conversation, only=True))

    def action_compact(self) -> None:
        """Show what would be compacted."""
        self.open(places.Compaction(self.conversation))

    def action_history(self) -> None:
        """Show what was changed in this conversation."""
        self.open(places.History(self.conversation, only=True))
