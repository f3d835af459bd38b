"""What is compared on the screen of comparisons: where both sides come from, and what its head says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import tzinfo
from typing import Generic, Protocol, TypeVar

from lcm_core.assemble.compare import ContextDiff
from lcm_core.diff import Diff

from lcm_tui.places import Side
from lcm_tui.screens.comparison.panes import HeadLines, context_lines
from lcm_tui.screens.comparison.reads import load_comparison
from lcm_tui.session import Session


class Named(Protocol):
    """Lines of which each belongs to something that has a name."""

    def heading_at(self, line: int) -> str:
        """The name, as a heading."""


class Compared(Protocol):
    """Two texts and their difference."""

    @property
    def diff(self) -> Diff:
        """Of the lines."""

    @property
    def old_text(self) -> Named:
        """The first."""

    @property
    def new_text(self) -> Named:
        """The second."""


C = TypeVar("C", bound=Compared)


class Comparing(ABC, Generic[C]):
    """What is compared."""

    title: str
    waiting: str  #: what is said before the lines are there
    head_height: int = 3  #: lines

    @abstractmethod
    async def load(self, session: Session) -> C:
        """Read both sides as they are now, and compare them. Raises LcmError."""

    @abstractmethod
    def head_lines(self, data: C | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, and once they are compared how they differ."""

    @abstractmethod
    def id_of(self, heading: str) -> str | None:
        """The id of what a heading names."""


class Contexts(Comparing[ContextDiff]):
    """What two contexts send."""

    waiting = "Assembling …"

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right
        same = left.conversation_id == right.conversation_id
        which = f"conversation {left.conversation_id}"
        self.title = which if same else f"{left.conversation_id} with {right.conversation_id}"

    async def load(self, session: Session) -> ContextDiff:
        """Assemble what is not assembled yet, and compare."""
        return await load_comparison(session, self.left, self.right)

    def head_lines(self, data: ContextDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both contexts, and the messages in which they differ."""
        return context_lines(self.left, self.right, data, zone)

    def id_of(self, heading: str) -> str | None:
        """The message's."""
        return heading.partition(" · ")[2].partition(" ")[0] or None
