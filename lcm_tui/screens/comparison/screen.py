"""Two texts compared, line by line: contexts, or a conversation and its Codex session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from lcm_core.errors import LcmError
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui.actions.layout import OTHER_LAYOUT, layout_actions, layout_title, without_twin
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.diff import DiffFinder
from lcm_tui.panes.finding import Finder
from lcm_tui.screens.comparison.comparing import C, Comparing
from lcm_tui.screens.comparison.panes import ComparisonHead
from lcm_tui.widgets.diff_rows import Naming
from lcm_tui.widgets.diff_view import DiffView
from lcm_tui.widgets.lines import LineView

#: What a line that names a message begins with.
HEADING = "== "


def is_heading(text: str) -> bool:
    """Whether a line names a message."""
    return text.startswith(HEADING)


class CompareScreen(DataScreen[C]):
    """Two texts and their difference."""

    HELP = """
Two contexts as the model receives them, compared message by message and line by line: the first (-) against
the second (+). A line that begins with == names a message; its text follows, blocks as JSON. Unchanged lines
are folded; enter unfolds them.

v or m shows both side by side; ~ marks changed lines, and the changed words are highlighted. [ and ] go to
the previous and the next change. / finds text.

A side is a context as it is now under a budget, reloaded when the database changes; or a snapshot that an
engine saved when it sent the context (asm_…). A snapshot stores numbers and references; its texts are read
from the database as it is now. "rows changed" and "missing" mean that what was sent differs from what is
shown.

From the messages of a conversation D compares it with the Codex session that it was held in: what was said,
called and returned, in the order of each. "elsewhere" counts rows that both have at different places. Lines
of Codex that hold nothing of the kind are counted by their type, and so are events that repeat a message.
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "hunk-previous", "hunk-next", "layout", "other-view")
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType(
        {"open": ("Unfold", "Unfold unchanged lines."), **OTHER_LAYOUT}
    )

    def __init__(self, comparing: Comparing[C]) -> None:
        super().__init__()
        self.comparing = comparing
        self.head = ComparisonHead(comparing.head_lines(None, None), comparing.head_height)
        self.table = DiffView(empty=comparing.waiting, id="list", changes=False)
        self._finder = DiffFinder(self.table, as_typed=False)
        self._data: C | None = None

    def compose_body(self) -> ComposeResult:
        """The head and the lines."""
        yield self.head
        yield self.table

    def actions(self) -> Sequence[Action]:
        """Going from change to change."""
        return (
            Action("open", self.table.unfold, self._why_not_unfold),
            Action("hunk-previous", lambda: self._go(-1), self._why_no_change),
            Action("hunk-next", lambda: self._go(1), self._why_no_change),
            *layout_actions(self.table),
        )

    def in_key_bar(self) -> list[str]:
        """The other layout once."""
        return without_twin(super().in_key_bar())

    def title_now(self, command: str) -> str:
        """`m` gives the other layout."""
        return layout_title(self.table) if command == "other-view" else super().title_now(command)

    def where(self) -> str:
        """What is compared."""
        return f"Compare  {self.comparing.title}"

    def main_widget(self) -> DiffView:
        """The lines."""
        return self.table

    def finder(self) -> Finder:
        """The search in the lines."""
        return self._finder

    def selected_id(self) -> str | None:
        """What is at the cursor, as its line names it."""
        held, data = self.table.line_held(), self._data
        if held is None or data is None:
            return None
        is_old, line = held
        return self.comparing.id_of((data.old_text if is_old else data.new_text).heading_at(line))

    # -- data ------------------------------------------------------------------------------------------------

    async def fetch(self) -> C:
        """Compare them as they are now."""
        try:
            return await self.comparing.load(self.session)
        except LcmError as error:
            self.table.empty = error.message
            raise

    def show(self, data: C) -> None:
        """Show it; lines that are as they were stay where they are."""
        before, self._data = self._data, data
        if before is None or (before.diff.old, before.diff.new) != (data.diff.old, data.diff.new):
            written = data.new_text
            self.table.show_diff(
                data.diff,
                Naming(lambda line: written.heading_at(line).removeprefix(HEADING), is_heading),
            )
        self.head.show_lines(self.comparing.head_lines(data, self.session.zone))

    # -- changes ---------------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    @on(DiffView.Laid)
    def _say_which_change(self) -> None:
        self.table.line_held()
        at, laid = self.table.hunk, self.table.laid
        count = len(laid.hunks) if laid is not None else 0
        note = "" if laid is None else "no difference" if not count else f"{count:,} changes"
        self.title_bar.note = note if at is None or not count else f"change {at + 1:,} of {count:,}"
        self.refresh_bars()

    def _why_not_unfold(self) -> str | None:
        key = self.table.selected
        return "only folded lines can be opened" if key is None or not key.hidden else None

    def _why_no_change(self) -> str | None:
        if self.table.laid is None:
            return "the comparison is not ready yet"
        return None if self.table.laid.hunks else "there are no differences"

    def _go(self, direction: int) -> None:
        if not self.table.go(direction):
            end = "last" if direction > 0 else "first"
            self.app.notify(f"That was the {end} change.", timeout=3)
