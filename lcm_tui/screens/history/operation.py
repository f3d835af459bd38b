"""One operation in full, edit by edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from lcm_core.change.journal import Operation
from lcm_core.errors import LcmError
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from lcm_tui import places
from lcm_tui.actions.change import OTHER_VIEW, change_actions
from lcm_tui.actions.past import BEFORE, before_actions
from lcm_tui.changes.undo import undoing
from lcm_tui.commands import STEPPED, Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.change import HELP_VIEW, ChangePane
from lcm_tui.panes.finding import Finder
from lcm_tui.screens.history.reads import load_operation, when_of
from lcm_tui.views.change import Shown, shown_edits
from lcm_tui.views.preview import rows_text
from lcm_tui.widgets.spans import Line, Span


@dataclass(frozen=True, slots=True)
class Recorded:
    """An operation with what it did; the sentence that says why it cannot be read."""

    operation: Operation
    shown: Shown | None
    undone_by: str | None  #: what undoes it now; None: what it did holds
    problem: str = ""


class OperationScreen(DataScreen[Recorded]):
    """One operation in full; `u` previews taking it back."""

    HELP = f"""
An operation as it was committed, with the ordinals of that moment. u previews undoing it, or redoing it if it
was undone. c shows the context as it was before it, s the summary DAG.

{HELP_VIEW}
"""
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("undo", "context", "summaries", "open", "other-view", *STEPPED)
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({**BEFORE, **OTHER_VIEW})

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self._operation = operation
        self._recorded: Recorded | None = None
        self.view = ChangePane(self, self.lines_above)

    def compose_body(self) -> ComposeResult:
        """The change."""
        yield self.view

    def main_widget(self) -> Widget:
        """The list in front."""
        return self.view.list_in_front()

    def finder(self) -> Finder:
        """That of the list in front."""
        return self.view.finder

    def selected_id(self) -> str | None:
        """The id of the selected item."""
        return self.view.selected_id()

    def where(self) -> str:
        """Which operation."""
        return f"Operation {self._operation.id}"

    def actions(self) -> Sequence[Action]:
        """Taking it back, and going through it."""
        return (
            *change_actions(self, self.view),
            *before_actions(self, lambda: self._operation, lambda: None),
            Action("undo", self._undo, self._why_unread),
        )

    def go_on_from(self, before: CommandScreen) -> None:
        """The diff stays in front."""
        if isinstance(before, OperationScreen) and before.view.shows_diff:
            self.call_after_refresh(self.view.turn)

    def title_now(self, command: str) -> str:
        """`m` gives the other view."""
        return "Preview" if command == "other-view" and self.view.shows_diff else super().title_now(command)

    async def fetch(self) -> Recorded:
        """What the history kept; its edits never change."""
        one, held = self._operation, self.view.shown
        try:
            edits, by = await self.session.read(load_operation, one)
        except LcmError as error:
            return Recorded(one, None, None, error.message)
        return Recorded(one, held or shown_edits(one.title, edits, one.rows, one.tokens), by)

    def show(self, data: Recorded) -> None:
        """Show it."""
        self._recorded = data
        self.title_bar.note = "" if data.undone_by is None else "undone"
        self.view.show_change(data.shown, empty=data.problem)

    def lines_above(self, width: int) -> list[Line]:
        """When, by what, and whether it holds."""
        one, found = self._operation, self._recorded
        when = when_of(one, self.session.zone)
        said = f" {one.kind}, {when}, by lcm-tui {one.tool_version}"
        lines: list[Line] = [(Span(said, "dim"),)]
        if one.batch is not None:
            lines.append((Span(f" one of batch {one.batch}", "dim"),))
        if one.undoes is not None:
            lines.append((Span(f" undoes {one.undoes}", "dim"),))
        if found is not None and found.undone_by is not None:
            lines.append((Span(f" ↶ undone by {found.undone_by}", "warn"),))
        if found is not None and found.problem:
            lines += [(Span(f" {found.problem}", "error"),), (Span(f" rows    {rows_text(one.rows)}"),)]
        return lines

    def _why_unread(self) -> str | None:
        unread = self._recorded is None or bool(self._recorded.problem)
        return "this operation cannot be read" if unread else None

    def _undo(self) -> None:
        """Preview undoing it, or redoing it."""
        if self._recorded is not None:
            holds = self._recorded.undone_by is None
            self.open(places.Preview(undoing(self._operation, holds=holds)))
