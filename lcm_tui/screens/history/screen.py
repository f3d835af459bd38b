"""The operations of a database, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lcm_core.records import Conversation, ConversationId
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from lcm_tui import places
from lcm_tui.actions.past import BEFORE, before_actions
from lcm_tui.actions.series import Series
from lcm_tui.changes.undo import undoing_line
from lcm_tui.commands import Action, bindings
from lcm_tui.data_screen import DataScreen
from lcm_tui.panes.finding import Finder
from lcm_tui.panes.listing import Paging
from lcm_tui.panes.whole_row import WholeRow
from lcm_tui.screens.history.panes import OperationList
from lcm_tui.screens.history.reads import History, load_history
from lcm_tui.views.history import UNDONE, HistoryLine
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line, Span


class HistoryScreen(DataScreen[History]):
    """The operations of this database, newest first."""

    HELP = """
Every change lcm-tui made to this database, newest first: when, in which conversation, by how many tokens the
context grew, how many rows changed, and what was done. The list is stored in the database, in a table the
engine ignores; it is created with the first change.

enter opens an operation, edit by edit. A batch is one line (▸): enter lists its operations below it, and u
applies to all of it. u previews undoing any operation in the list, and a applies that; an undo is an
operation, too, and can be undone. ↶ marks operations that were undone. If a later operation depends on this
one, the preview names it and offers to undo both. If someone else changed the rows since, undo is refused
with the reason.

c shows the context as it was before the selected operation, s the summary DAG; of a batch, before all of it.

T switches between this conversation and all of them. / filters.
"""
    HERE: ClassVar[str] = "history"
    BINDINGS: ClassVar[list[BindingType]] = list(
        bindings("open", "undo", "context", "summaries", "scope", "search")
    )
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = BEFORE

    def __init__(self, conversation: Conversation | None = None, *, only: bool = False) -> None:
        """The history of the database; with *only* at first that of *conversation*."""
        super().__init__()
        self.conversation = conversation
        self.list = OperationList(self._filtered)
        self.list.narrowed = only and conversation is not None
        self.foot = WholeRow(self.whole_row)
        self._paging = Paging()
        self._series = Series("operation", lambda: self.list.table, self._place_of, newest_first=True)

    def compose_body(self) -> ComposeResult:
        """The list, and the selected line whole."""
        yield self.list
        yield self.foot

    def actions(self) -> Sequence[Action]:
        """Looking at an operation, and taking it back."""
        return (
            Action("open", self._open_operation, self.list.why_no_operation),
            Action("undo", self._undo, self.list.why_no_operation),
            *before_actions(self, self.list.oldest, self.list.why_no_operation),
            Action("scope", self._turn_scope, self._why_no_scope),
        )

    def where(self) -> str:
        """Whose history."""
        if self.list.narrowed and self.conversation is not None:
            return f"History of {self.session.called(self.conversation)}"
        return "History"

    def finder(self) -> Finder:
        """The filter."""
        return self.list.filter

    def main_widget(self) -> LineView[str]:
        """The list."""
        return self.list.table

    def selected_id(self) -> str | None:
        """The id of the operation, or of the batch."""
        return self.list.table.selected

    def title_now(self, command: str) -> str:
        """`u` redoes what was undone."""
        line = self._line()
        undone = command == "undo" and line is not None and line.state == UNDONE
        return "Redo" if undone else super().title_now(command)

    def _line(self) -> HistoryLine | None:
        """The selected line."""
        key = self.list.table.selected
        return None if key is None else self.list.history.line(key)

    def whole_row(self) -> Line:
        """What the selected line says, also where its columns have no room for it."""
        line = self._line()
        return () if line is None else (Span(line.name, "key"), Span(f"  {line.what}", "dim"))

    @on(LineView.Highlighted)
    def _highlighted(self) -> None:
        self.foot.refresh()
        self.refresh_bars()

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> History:
        """The operations, as many as were asked for."""
        return await self.session.read(load_history, self._paging.limit(self.list), self._scope())

    def _scope(self) -> ConversationId | None:
        """The one conversation whose operations are shown; None: all."""
        one = self.conversation
        return one.conversation_id if self.list.narrowed and one is not None else None

    def show(self, data: History) -> None:
        """Show them; the cursor stays on its operation."""
        self.list.zone = self.session.zone
        wanted = self._paging.take(self.list, len(data.operations), more=data.more)
        self.list.show(data)
        self._say_count()
        self.foot.refresh()
        if wanted:
            self.load()

    def _filtered(self) -> None:
        self._say_count()
        if self._paging.more:
            self.load()

    def _say_count(self) -> None:
        found = self.list.history.operations
        note = self.list.counted(self._paging.count) if found else ""
        in_lines = len(self.list.table.keys)
        folded = bool(found) and not self.list.filter.needle and in_lines != len(found)
        self.title_bar.note = f"{note} operations" if folded else note

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        if self._paging.reached_end(self.list):
            self.load()

    # -- commands ----------------------------------------------------------------------------------------

    def _open_operation(self) -> None:
        """Show the operation in full; unfold or fold a batch."""
        if not self.list.fold() and self.list.operation is not None:
            self.open(places.OneOperation(self.list.operation), self._series)

    def _place_of(self, key: str) -> places.Place | None:
        """One operation; a batch is folded, or its operations are below it."""
        one = self.list.history.by_id.get(key)
        return None if one is None else places.OneOperation(one)

    def _undo(self) -> None:
        """Preview taking it back, or making it again; of a batch that holds in part, that part is undone."""
        if (line := self._line()) is not None:
            self.open(places.Preview(undoing_line(line)))

    def _why_no_scope(self) -> str | None:
        return "This screen was opened without a selected conversation" if self.conversation is None else None

    def _turn_scope(self) -> None:
        """Switch between this conversation and all."""
        self.list.narrowed = not self.list.narrowed
        self.list.begin_anew()
        self._paging.begin()
        self.say_where()
        self.load()
