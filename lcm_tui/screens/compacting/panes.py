"""The passes of a compaction as a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from lcm_tui.panes.listing import ListPane
from lcm_tui.views.passes import COLUMNS, Passes
from lcm_tui.widgets.spans import Column, Span


class PassList(ListPane[int]):
    """The passes by their numbers: those that were dealt with, then those to come."""

    READING: ClassVar[str] = "Reading the context …"

    def __init__(self, doing: Callable[[], str]) -> None:
        """*doing*: what is being done with the pass at hand."""
        super().__init__(id="pass-pane")
        self._doing = doing
        self._known = 0  #: passes dealt with that are listed
        self._nothing = self.READING
        self._following: int | None = None
        self.passes = Passes((), {})

    def show(self, passes: Passes, *, nothing: str) -> None:
        """List the passes; a cursor on the pass at hand goes on with it. *nothing*: said without any."""
        done = len(passes.done)
        follows = self.table.selected in (None, self._known + 1) and self._known < done
        self.passes, self._known, self._nothing = passes, done, nothing
        count = len(self.matching(()))
        self._following = min(done + 1, count) if follows and count else None
        self.relist()

    def matching(self, words: Sequence[str]) -> Sequence[int]:
        """All of them: passes are not filtered."""
        del words
        return [*range(1, len(self.passes.done) + 1), *self.passes.coming]

    def keep_on(self, keys: Sequence[int]) -> int | None:
        """The pass that follows the one that was made."""
        del keys
        return self._following

    def why_empty(self) -> str:
        """Nothing was read yet, or there is nothing to compact."""
        return self._nothing

    def columns(self) -> Sequence[Column]:
        """What is said of a pass."""
        return COLUMNS

    def cells(self, key: int) -> Mapping[str, Span]:
        """A pass that was dealt with, or is to come."""
        return self.passes.cells(key, self._doing() if key == len(self.passes.done) + 1 else "")
