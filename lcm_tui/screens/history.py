"""The operations of a database, newest first, and one of them in full."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final

from lcm_core.base.errors import LcmError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import counted, fold
from lcm_core.base.times import parse_utc
from lcm_core.base.values import Record, field, replace
from lcm_core.change.backup import known_backups
from lcm_core.change.journal import Operation, edits_of, operations, undone_now
from lcm_core.change.plan import Edit
from lcm_core.change.undo import kind_back, undone_by
from lcm_core.store.database import Reader
from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from lcm_tui.flows.changes import Undoing, undoing_line
from lcm_tui.kit import commands, places
from lcm_tui.kit.commands import Key
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, ListPane, Paging, WholeRow, appeared
from lcm_tui.kit.spans import Column, Line, Span
from lcm_tui.screens import actions
from lcm_tui.screens.change_pane import HELP_VIEW, NEXT_VIEW, OPEN_LINE, ROWS_OR_DIFF, ChangePane
from lcm_tui.screens.copying import Copies, of_operation
from lcm_tui.screens.exporting import export_rows, rows_of
from lcm_tui.screens.frame import SERIES, CommandScreen, here
from lcm_tui.screens.reading import DataScreen, Series
from lcm_tui.tables.blocks import cells_of
from lcm_tui.tables.change import Shown, shown_edits
from lcm_tui.tables.history import (
    HISTORY_COLUMNS,
    LISTED_COLUMNS,
    MINUTE,
    SECOND,
    UNDONE,
    HistoryCells,
    HistoryLine,
    ListedOperation,
    when_of,
)
from lcm_tui.tables.preview import rows_text
from lcm_tui.tables.summaries import ShortIds

# -- what the screens read -------------------------------------------------------------------------------


class History(Record, frozen=True, dict=True):
    """Operations, newest first."""

    operations: tuple[Operation, ...] = ()
    undone: Mapping[str, str | None] = field(default_factory=dict)  #: what undoes each now
    more: bool = False  #: there are older ones

    @cached_property
    def by_id(self) -> Mapping[str, Operation]:
        """The operations by their ids, newest first."""
        return {one.id: one for one in self.operations}

    @cached_property
    def batches(self) -> Mapping[str, Sequence[Operation]]:
        """The operations that were committed together, newest first; one alone is no batch."""
        found: dict[str, list[Operation]] = {}
        for one in self.operations:
            if one.batch is not None:
                found.setdefault(one.batch, []).append(one)
        return {name: held for name, held in found.items() if len(held) > 1}

    def line(self, key: str) -> HistoryLine:
        """A line of the list, by the id of an operation or of a batch.

        Raises:
            KeyError: there is none.
        """
        found = self.batches.get(key) or (self.by_id[key],)
        by = self.undone.get
        listed = [ListedOperation(one, self.holds(one), by(one.id)) for one in found]
        return HistoryLine(listed, whole=key in self.batches or found[0].batch not in self.batches)

    def holds(self, one: Operation) -> bool:
        """Whether what an operation did holds now."""
        return self.undone.get(one.id) is None


async def load_history(reader: Reader, limit: int, conversation_id: int | None) -> History:
    """The newest operations, in one transaction."""
    found = await reader.run(operations, limit=limit + 1, conversation_id=conversation_id)
    return History(tuple(found[:limit]), undone_now(found), len(found) > limit)


async def load_operation(reader: Reader, one: Operation) -> tuple[tuple[Edit, ...], str | None]:
    """The edits of an operation and what undoes it now."""
    return await reader.run(edits_of, one), await undone_by(reader, one.id)


# -- the screen of one operation -------------------------------------------------------------------------
# In full, edit by edit.


class Recorded(Record, frozen=True):
    """An operation with what it did; the sentence that says why it cannot be read."""

    operation: Operation
    shown: Shown | None
    undone_by: str | None  #: what undoes it now; None: what it did holds
    backup: str | None  #: the name of the last one before it
    problem: str = ""


class OperationScreen(DataScreen[Recorded]):
    """One operation in full; `u` previews taking it back."""

    HELP = f"""
An operation as it was committed, with the ordinals of that moment.

u previews undoing it, or redoing it if it was undone.

c shows the context as it was before it, s the summary DAG.

{HELP_VIEW}
"""

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

    def copies(self) -> Copies | None:
        """The selected item; where none is, the operation."""
        return of_operation(self._operation.id) if self.selected_id() is None else super().copies()

    def where(self) -> str:
        """Which operation."""
        return f"Operation {self._operation.id}"

    def go_on_from(self, before: CommandScreen) -> None:
        """The diff stays in front."""
        if isinstance(before, OperationScreen) and before.view.shows_diff:
            self.call_after_refresh(self.view.turn)

    async def fetch(self) -> Recorded:
        """What the history kept; its edits never change."""
        one, held, at = self._operation, self.view.shown, parse_utc(self._operation.created_at)
        known = await asyncio.to_thread(known_backups, self.session.database.path)
        backup = next((copy.path.name for copy in reversed(known) if at is not None and copy.at <= at), None)
        try:
            edits, by = await self.session.read(load_operation, one)
        except LcmError as error:
            return Recorded(one, None, None, backup, error.message)
        return Recorded(one, held or shown_edits(one.title, edits, one.rows, one.tokens), by, backup)

    def show(self, data: Recorded) -> None:
        """Show it."""
        self._recorded = data
        self.title_bar.note = "" if data.undone_by is None else "undone"
        self.view.show_change(data.shown, empty=data.problem)
        self.refresh_bars()

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
        if found is not None and found.backup is not None:
            lines.append((Span(f" last backup before it, beside the database: {found.backup}", "dim"),))
        if found is not None and found.problem:
            lines += [(Span(f" {found.problem}", "error"),), (Span(f" rows    {rows_text(one.rows)}"),)]
        return lines

    def _why_unread(self) -> str | None:
        unread = self._recorded is None or bool(self._recorded.problem)
        return "this operation cannot be read" if unread else None

    def _undo_title(self) -> str:
        undone = self._recorded is not None and self._recorded.undone_by is not None
        return kind_back(self._operation, redo=undone).capitalize()

    def _undo(self) -> None:
        """Preview undoing it, or redoing it."""
        if self._recorded is not None:
            holds = self._recorded.undone_by is None
            self.open(places.Preview(Undoing(self._operation, holds=holds)))

    KEYS: ClassVar[Sequence[Key[OperationScreen]]] = (
        commands.UNDO.does(_undo, _why_unread, title_now=_undo_title),
        *actions.before_keys(lambda s: s._operation, lambda s: None),
        ROWS_OR_DIFF,
        OPEN_LINE,
        *SERIES,
    )
    COMMON: ClassVar[Sequence[Key[OperationScreen]]] = (NEXT_VIEW,)


# -- the list --------------------------------------------------------------------------------------------
# A line for each operation, or one for a batch that unfolds.

COLUMNS: Final = tuple(column for column in HISTORY_COLUMNS if column.width)


class OperationList(ListPane[str]):
    """Operations, newest first; a key is the id of an operation or of a batch."""

    FILTER = "words of what was done, its kind, time or id"
    FILTER_CHANGES_LINES = True

    def __init__(self, changed: Callable[[], None]) -> None:
        """*changed* is called when the filter has listed other operations."""
        super().__init__(changed=changed)
        self.history = History()
        self._ids = ShortIds()
        self.narrowed = False  #: to one conversation
        self._unfolded: set[str] = set()
        self._listed = False
        self._shared = False  #: some were committed in the same minute: all times are to the second
        self._last: frozenset[str] = frozenset()  #: the last listed operation of each unfolded batch

    def show(self, history: History) -> None:
        """List what was read; the cursor stays on its operation, and new ones are marked."""
        known, self.history = self.history.by_id, history
        self._ids = ShortIds(one.title for one in history.operations)
        minutes = Counter(when_of(one, self.zone)[:MINUTE] for one in history.operations)
        self._shared = any(count > 1 for count in minutes.values())
        self.relist()
        self.heading.refresh_changed()
        if self._listed:
            self.table.mark_fresh(appeared(history.by_id, known))
        self._listed = True

    def begin_anew(self) -> None:
        """The next list is another one: nothing in it is new."""
        self._listed = False

    # -- what is selected --------------------------------------------------------------------------------

    @property
    def whole(self) -> Sequence[Operation]:
        """The operations of the selected batch; none when it is no batch."""
        return self.history.batches.get(self.table.selected or "", ())

    @property
    def operation(self) -> Operation | None:
        """The selected operation; of a batch its newest."""
        return self.whole[0] if self.whole else self.history.by_id.get(self.table.selected or "")

    def oldest(self) -> Operation | None:
        """The selected operation; of a batch its oldest."""
        return self.whole[-1] if self.whole else self.operation

    def why_no_operation(self) -> str | None:
        """Why nothing can be done with what is selected, if anything was changed at all."""
        if self.operation is not None:
            return None
        return "no operation is selected" if self.history.operations else "there is no change to undo yet"

    def fold(self) -> bool:
        """Unfold the selected batch, or fold it; False when it is no batch."""
        if not self.whole:
            return False
        self._unfolded ^= {self.whole[0].batch or ""}
        self.relist()
        return True

    @on(LineView.Sided)
    def _sided(self, event: LineView.Sided) -> None:
        if ((self.table.selected or "") in self._unfolded) != (event.side > 0):
            self.fold()

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """The operations that hold the words; a batch that holds one, with them below it."""
        found: list[str] = []
        last: list[str] = []
        batches = self.history.batches
        for one in self.history.operations:
            if one.batch is None or one.batch not in batches:
                found += [one.id] if self._holds(one, words) else []
                continue
            whole = batches[one.batch]
            held = [each.id for each in whole if self._holds(each, words)] if one is whole[0] else []
            if held:
                found.append(one.batch)
            if held and one.batch in self._unfolded:
                found += held
                last.append(held[-1])
        self._last = frozenset(last)
        return found

    def _holds(self, one: Operation, words: Sequence[str]) -> bool:
        text = fold(f"{one.id} {one.kind} {one.title} {when_of(one, self.zone)} {one.batch or ''}")
        return all(word in text for word in words)

    def why_empty(self) -> str:
        """Nothing passes the filter, or nothing was changed."""
        if self.history.operations:
            return "No operation matches."
        if self.narrowed:
            return "No changes in this conversation yet. T shows all conversations."
        return "No changes yet. Each change appears here; u undoes it."

    def columns(self) -> Sequence[Column]:
        """What is said of an operation."""
        if not self._shared:
            return COLUMNS
        return [replace(one, width=SECOND) if one.name == "when" else one for one in COLUMNS]

    def cells(self, key: str) -> Mapping[str, Span]:
        """When, where, how much and what; in grey what does not hold any more."""
        batch = self.history.batches.get(key)
        line = self.history.line(key)
        sign = Span("↶" if line.state == UNDONE else "", "warn")
        if batch is not None:
            sign = Span("▾" if key in self._unfolded else "▸", "key")
        inner = ""
        if batch is None and line.newest.batch in self.history.batches:
            inner = "└ " if key in self._last else "├ "
        cells = cells_of(COLUMNS, line, HistoryCells(self.zone, self._shared, sign, inner))
        return self._ids.within(cells, "what")


# -- the screen of all operations ------------------------------------------------------------------------


class HistoryScreen(DataScreen[History]):
    """The operations of this database, newest first."""

    HELP = """
Every change lcm-tui made to this database, newest first: when, in which conversation, by how many tokens the
context grew, how many rows changed, and what was done.

enter opens an operation, edit by edit.

The list is stored in the database, in a table the engine ignores; it is created with the first change.

A batch is one line (▸): enter lists its operations below it, and u applies to all of it. u previews undoing
any operation in the list, and a applies that; an undo is an operation, too, and can be undone: what it took
back is redone then. ↶ marks operations that were undone. If a later operation depends on this one, the
preview names it and offers to undo both. If someone else changed the rows since, undo is refused with the
reason.

c shows the context as it was before the selected operation, s the summary DAG; of a batch, before all of it.

T switches between this conversation and all of them. / filters.
"""

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

    def copies(self) -> Copies | None:
        """The operation, or the batch."""
        name, line = self.selected_id(), self._line()
        if name is None or line is None:
            return None
        return of_operation(name) if len(line.listed) == 1 else Copies(name, ("show", name))

    async def _export(self) -> None:
        """The operations that are listed, each by itself."""
        history = self.list.history
        held = [one.operation for key in self.list.table.keys for one in history.line(key).listed]
        lines = [history.line(one) for one in dict.fromkeys(one.id for one in held)]
        await export_rows(self, "history", rows_of(self.where(), LISTED_COLUMNS, lines, self.session.zone))

    def _undo_title(self) -> str:
        line = self._line()
        if line is None:
            return ""
        return kind_back(line.newest, redo=line.state == UNDONE).capitalize()

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
        self.title_bar.note = f"{note} operations in {counted(in_lines, 'line')}" if folded else note

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        if self._paging.reached_end(self.list):
            self.load()

    # -- commands ----------------------------------------------------------------------------------------

    def keys_back(self, kind: str, conversation_id: int | None) -> str:
        """Of a batch under the cursor more may have been undone than itself; the first line has it all."""
        keys, first = super().keys_back(kind, conversation_id), self.list.table.keys[:1]
        return f"Home, {keys}" if self.list.whole and self.list.table.selected not in first else keys

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

    KEYS: ClassVar[Sequence[Key[HistoryScreen]]] = (
        commands.OPEN.does(_open_operation, lambda s: s.list.why_no_operation()),
        commands.UNDO.does(_undo, lambda s: s.list.why_no_operation(), title_now=_undo_title),
        *actions.before_keys(lambda s: s.list.oldest(), lambda s: s.list.why_no_operation()),
        commands.SCOPE.does(
            _turn_scope, _why_no_scope, title_now=lambda s: "Only this one" if not s.list.narrowed else ""
        ),
        commands.SEARCH,
        commands.EXPORT.does(
            _export,
            lambda s: s.list.why_no_operation(),
            help="Write the listed operations to a file: Markdown, JSON or CSV.",
        ),
    )
    COMMON: ClassVar[Sequence[Key[HistoryScreen]]] = (here(commands.HISTORY),)
