"""Two texts compared, of any size: unified or side by side, change by change, each taken or left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from lcm_core.diff import Diff, compare_texts
from lcm_core.text import fold, sought_as
from textual import events
from textual.message import Message
from textual.worker import Worker

from lcm_tui.widgets.diff_rows import PLAIN, LaidOut, Naming, Piece, draw, lay_out
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line, text_of
from lcm_tui.widgets.text import mark

log = logging.getLogger(__name__)

#: Cells from which the two texts stand beside each other unless the operator has chosen.
WIDE: Final = 110


class DiffView(LineView[Piece]):
    """The lines of a diff; comparing and laying out happen in a thread, drawing line by line."""

    COUNTED: ClassVar[bool] = False

    class Laid(Message):
        """Another diff, another layout, or other changes are taken."""

    def __init__(
        self,
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - Textual's own name for it
        changes: bool = True,
        compare: Callable[[str, str], Diff] = compare_texts,
    ) -> None:
        """*changes*: whether changes can be taken and left here; *compare*: by lines, or by sentences."""
        super().__init__(self._line_of, empty=empty, id=id)
        self.can_choose = changes
        self._compare = compare
        self.laid: LaidOut | None = None
        self.left: frozenset[int] = frozenset()  #: the changes that stay as they were
        self._texts: tuple[str, str] | None = None
        self._diff: Diff | None = None
        self._naming = PLAIN
        self._chosen: bool | None = None  #: side by side, as the operator said
        self._open: set[int] = set()
        self._stay: int | None = None  #: the change to stand on once it is laid out
        self._needle = ""
        self._keeps = False  #: another diff takes the place of one: the cursor stays where it is
        self._anchor: tuple[bool, int] | None = None  #: a line of the old text (True) or of the new one

    # -- what is compared --------------------------------------------------------------------------------

    def show(self, old: str, new: str, *, naming: Naming = PLAIN) -> None:
        """Compare two texts; all changes are taken."""
        if self._texts == (old, new):
            return
        self._texts, self._diff, self._naming = (old, new), None, naming
        self.left = frozenset()
        self._open.clear()
        self._again()

    def show_diff(self, diff: Diff, naming: Naming = PLAIN) -> None:
        """Show what was compared already in place of the diff before; the cursor stays where it is."""
        self._keeps = self.laid is not None
        self._texts, self._diff, self._naming = ("", ""), diff, naming
        self._open.clear()
        self._again()

    @property
    def diff(self) -> Diff | None:
        """The diff in sight; None while it is made."""
        return self._diff

    @property
    def text(self) -> str | None:
        """The text that the taken changes give; None while it is not known."""
        return None if self._diff is None else self._diff.text(self.left)

    @property
    def side_by_side(self) -> bool:
        """How it is laid out: as chosen, else by the width."""
        return self.size.width >= WIDE if self._chosen is None else self._chosen

    @property
    def hunk(self) -> int | None:
        """The number of the change at the cursor, or of the one before it."""
        key, laid = self.selected, self.laid
        if key is None or laid is None:
            return None
        return next((at for at in reversed(range(len(laid.hunks))) if laid.hunks[at].row <= key.row), None)

    def _again(self) -> None:
        width = self.size.width or self.screen.size.width  # another pane may stand in its place
        if self._texts is not None and width > 0:
            self._worker: Worker[None] = self.run_worker(
                partial(self._lay_out, self._texts, width - 1, self.side_by_side),
                group="diff",
                exclusive=True,
                exit_on_error=False,
            )

    async def _lay_out(self, texts: tuple[str, str], width: int, beside: bool) -> None:
        """Compare and wrap, in a thread: there may be tens of thousands of lines."""
        known, opened, naming = self._diff, frozenset(self._open), self._naming

        def work() -> LaidOut:
            diff = known or self._compare(*texts)
            return lay_out(diff, max(width, 12), side_by_side=beside, open_=opened, naming=naming)

        laid = await asyncio.to_thread(work)
        before, hunk, selected = self.laid, self.hunk, self.selected
        self.laid, self._diff = laid, laid.diff
        if not laid.hunks:
            self.empty = "No differences."
        stay: Piece | None = None
        if self._stay is not None and self._stay < len(laid.hunks):
            stay, self._stay = laid.hunks[self._stay], None
        elif before is not None and before.diff is laid.diff:
            same = before.side_by_side == beside and before.width == laid.width
            stay = selected if same else laid.hunks[hunk] if hunk is not None else None
        elif laid.hunks:
            stay = laid.hunks[0]
        self.replace(laid.pieces, select=None if self._keeps else self._at_anchor() or stay)
        self._keeps = False
        self.post_message(self.Laid())

    def line_held(self) -> tuple[bool, int] | None:
        """The line under the cursor, of the old text (True) or of the new one; from now on it is kept.

        In another layout it may share its row with a line of the other text; it is still that line.
        """
        key, laid = self.selected, self.laid
        if key is None or laid is None or key.row >= len(laid.rows):
            return None
        row = laid.rows[key.row]
        if self._anchor not in ((True, row.old), (False, row.new)):
            self._anchor = (False, row.new or 0) if row.old is None else (True, row.old)
        return self._anchor

    def _at_anchor(self) -> Piece | None:
        """The first line of the row that holds the line on which the cursor stood."""
        laid, anchor = self.laid, self._anchor
        if laid is None or anchor is None:
            return None
        is_old, line = anchor
        found = (at for at, row in enumerate(laid.rows) if (row.old if is_old else row.new) == line)
        place = next(found, None)
        within = (
            piece for piece in laid.pieces if piece.row <= (place or 0) < piece.row + max(1, piece.hidden)
        )
        return None if place is None else next(within, None)

    def _on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._again)

    def _line_of(self, key: Piece, width: int) -> Sequence[Line]:
        del width
        if self.laid is None:
            return ((),)
        line = draw(self.laid, key, self.left)
        return (mark(line, self._needle) if self._needle else line,)

    # -- what can be done with it ------------------------------------------------------------------------

    def go(self, direction: int) -> bool:
        """Stand on the next change, or the one before; False when there is none."""
        laid, key = self.laid, self.selected
        if laid is None or key is None:
            return False
        hunks = laid.hunks if direction > 0 else laid.hunks[::-1]
        found = next((hunk for hunk in hunks if (hunk.row - key.row) * direction > 0), None)
        return found is not None and self.select(found)

    def take_or_leave(self) -> bool:
        """Leave the change at the cursor, or take it again; False when the cursor stands on none."""
        key, laid = self.selected, self.laid
        hunk = laid.hunk_of(key) if laid is not None and key is not None else None
        if hunk is None or not self.can_choose:
            return False
        self.left = self.left ^ {hunk}
        self.redraw()
        self.post_message(self.Laid())
        return True

    def switch(self) -> None:
        """Put the texts one under the other, or side by side."""
        self._chosen = not self.side_by_side
        self._open.clear()
        self._again()

    def unfold(self) -> bool:
        """Unfold alike lines, or make a change of several lines as many changes; False on anything else."""
        key, laid = self.selected, self.laid
        if key is None or laid is None:
            return False
        if key.hidden:
            self._open.add(key.row)
            self._again()
            return True
        hunk = laid.hunk_of(key)
        if hunk is None or not self.can_choose:
            return False
        diff = laid.diff.split(hunk)
        more = len(diff.hunks) - len(laid.diff.hunks)
        if not more:
            return False
        was_left = hunk in self.left
        self.left = frozenset(one if one < hunk else one + more for one in self.left if one != hunk) | (
            frozenset(range(hunk, hunk + more + 1)) if was_left else frozenset()
        )
        self._diff = diff
        self._stay = hunk
        self._again()
        return True

    def text_at(self, piece: Piece) -> str:
        """What a line says."""
        return "" if self.laid is None else text_of(draw(self.laid, piece))

    def look_for(self, needle: str) -> None:
        """Mark what is looked for wherever it stands."""
        self._needle = needle
        self.redraw()

    def find(self, needle: str, *, direction: int = 1, first: bool = False) -> bool:
        """Mark what is looked for, and stand on the next line that holds it; False when none does."""
        self.look_for(needle)
        laid = self.laid
        if laid is None or not needle or not laid.pieces:
            return False
        sought, count = sought_as(needle), len(laid.pieces)
        start = 0 if first else self.cursor + direction
        for at in range(start, start + direction * count, direction):
            piece = laid.pieces[at % count]
            if not piece.hidden and sought in fold(text_of(draw(laid, piece))):
                return self.select(piece)
        return False
