"""The columns of the first list to sort by, as a small list over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lcm_core.base.text import cell_width
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lcm_tui.kit.dialog import Dialog
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.spans import Line, Span, heading
from lcm_tui.kit.text import TextView
from lcm_tui.screens.conversation_list import TROUBLE, ConversationList
from lcm_tui.tables.conversation_rows import AGENT_TROUBLE

#: Cells of the title of a column.
_TITLE = 16


class ColumnList(LineView[str]):
    """Columns that a single click takes."""

    OPENS_AT_ONCE = True


class SortMenu(Dialog[None]):
    """Takes a column; the list behind it is sorted at once."""

    ABOUT = (
        "The columns to sort by; a letter goes to one that begins with it. The arrow is beside the one that "
        "sorts now (↓: the largest value is on top); enter on it turns the order round. Trouble: the most "
        "broken summaries first, then findings, a stuck engine, newer messages, a full context, suspicions."
    )
    DEFAULT_CSS = """
    SortMenu .box { width: 50; }
    SortMenu LineView { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Sort", tooltip="Sort by the selected column.", id="sort-take"),
        Binding("S", "next", "Next", tooltip="Sort by the next column; the list stays.", id="sort-next"),
        Binding("escape,q", "dismiss", "Back", tooltip="Close the list.", id="sort-back"),
    ]

    def __init__(self, listed: ConversationList) -> None:
        super().__init__()
        self._listed = listed
        self._titles = {column.name: column.title for column in listed.sortable}
        self._names = list(self._titles)
        self._list = ColumnList(self._draw, id="columns")
        self._letter = ""  #: that was pressed last

    def compose_box(self) -> ComposeResult:
        """The columns, trouble first."""
        yield TextView((heading("Sort by"),))
        yield self._list

    def on_mount(self) -> None:
        """Stand on the first column that does not sort now."""
        super().on_mount()
        self._list.styles.height = min(len(self._names), max(self.app.size.height - 8, 3))
        other = next(name for name in self._names if name != self._listed.sorted_by)
        self._list.replace(self._names, select=other)
        self._list.focus()

    def _draw(self, name: str, width: int) -> Sequence[Line]:
        sorting = self._listed.sorting()
        title = self._titles[name]
        arrow = sorting.arrow if name == sorting.column else " "
        note = {TROUBLE: "most broken, then findings", AGENT_TROUBLE.name: "the same, by agent"}.get(name, "")
        space = " " * (_TITLE - cell_width(title))
        return ((Span(f" {arrow} ", "key"), Span(f"{title}{space}"), Span(note, "dim")),)

    def on_key(self, event: events.Key) -> None:
        """A letter goes to the first column that begins with it; again: to the next one."""
        letter, at = event.character or "", self._list.selected
        named = [name for name in self._names if letter and self._titles[name].startswith(letter)]
        if named:
            event.stop()
            again = letter == self._letter and at in named
            self._list.select(named[(named.index(at) + 1) % len(named)] if again and at else named[0])
            self._letter = letter

    def action_take(self) -> None:
        """Sort by the selected column."""
        if (name := self._list.selected) is not None:
            self._listed.sort_by(name)
        self.dismiss()

    def action_next(self) -> None:
        """Sort by the next column."""
        at = self._names.index(self._listed.sorted_by)
        name = self._names[(at + 1) % len(self._names)]
        self._listed.sort_by(name)
        self._list.select(name)
        self._list.redraw()

    @on(LineView.Opened)
    def _clicked(self, event: LineView.Opened) -> None:
        """A click takes a column."""
        event.stop()
        self.action_take()
