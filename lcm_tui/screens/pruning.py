"""Marks in the list of conversations, and what is done with the marked: archiving and deleting them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lcm_core.records import ConversationId

from lcm_tui import places
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.conversation_rows import MARK

if TYPE_CHECKING:  # what changes a database is imported when something is to be changed
    from lcm_core.change.commit import Committed


class Pruning(CommandScreen):
    """A screen on which conversations can be marked, archived and deleted.

    Marks are ids, so they outlive a reload; without any, what is under the cursor is meant.
    """

    _conversations_marked: dict[ConversationId, None] | None = None

    @property
    def marks(self) -> dict[ConversationId, None]:
        """The marked conversations, in the order in which they were marked."""
        if self._conversations_marked is None:
            self._conversations_marked = {}
        return self._conversations_marked

    @abstractmethod
    def markable(self) -> ConversationId | None:
        """The conversation under the cursor."""

    @abstractmethod
    def marks_changed(self, conversations: Sequence[ConversationId]) -> None:
        """Draw marks that were set or taken away."""

    def chosen(self) -> list[ConversationId]:
        """The marked conversations; without marks the one under the cursor."""
        if self.marks:
            return list(self.marks)
        selected = self.markable()
        return [] if selected is None else [selected]

    def keep_marks(self, there: Sequence[ConversationId]) -> None:
        """Forget marks of conversations that are gone."""
        for one in set(self.marks).difference(there):
            del self.marks[one]

    def action_mark(self) -> None:
        """Mark the conversation under the cursor, or take its mark away."""
        one = self.markable()
        if one is None:
            return
        if one in self.marks:
            del self.marks[one]
        else:
            self.marks[one] = None
        self.marks_changed([one])
        self.refresh_bars()

    def action_archive(self) -> None:
        """Preview archiving what is marked."""
        from lcm_tui.changes.archive import archiving

        self.open(places.Preview(archiving(self.chosen(), self._pruned)))

    def action_delete(self) -> None:
        """Preview deleting what is marked."""
        self.open(places.Deletion(self.chosen(), self._pruned))

    def _pruned(self, done: Sequence[Committed]) -> None:
        """The marks have done their work."""
        del done
        gone = list(self.marks)
        self.marks.clear()
        self.marks_changed(gone)
        self.refresh_bars()

    def marked_text(self) -> str:
        """How many are marked, for the title bar."""
        return f"{MARK} {len(self.marks):,} marked" if self.marks else ""
