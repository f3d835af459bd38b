"""What an operator left unfolded in a tree, and where the cursor was: kept by id while the app runs.

The map takes the place of the tree, and going back to the conversations leaves it: whoever returns finds the
tree as it was left. Nothing of it depends on what was read; a place that is gone meanwhile is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lcm_core.records import ConversationId, SummaryId

from lcm_tui.screens.dag.tree import Section, Tree, Way

#: Under this name it is kept beside what other screens keep (`Session.left`).
NAME = "summaries"


@dataclass(eq=False, slots=True)
class Folding:
    """The tree as it was left."""

    tree: Tree
    sections: set[Section] = field(default_factory=set)  #: headings that were there, so that they stay folded
    way: Way = ()  #: to where the cursor was
    row: int = 0  #: of the screen, in which it was

    @property
    def summary(self) -> SummaryId | None:
        """The summary under the cursor; of a message the leaf."""
        return next((SummaryId(step) for step in reversed(self.way) if isinstance(step, str)), None)


def key_of(conversation_id: ConversationId) -> tuple[str, int]:
    """Under what it is kept."""
    return NAME, conversation_id
