"""The pane of a review that says what is kept, lost and invented."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_tui.views.retention import Fact
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Block
from lcm_tui.widgets.wrapped import WrappedBlock


class FactList(LineView[Fact]):
    """What was measured, line by line; some lead to a place in a text."""

    def __init__(self) -> None:
        super().__init__(_wrapped, tall=True, empty="Measuring …", id="facts")

    @property
    def place(self) -> Fact | None:
        """The selected line, when it leads somewhere."""
        fact = self.selected
        return fact if fact is not None and fact.spot is not None else None


def _wrapped(fact: Fact, width: int) -> Sequence[Line]:
    block = WrappedBlock(Block(spans=fact.line, indent=2), max(width - 1, 20))
    return [block.line(at) for at in range(len(block))]
