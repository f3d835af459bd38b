"""The list of operations: a line each, or one for a batch that unfolds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lcm_core.change.journal import Operation
from lcm_core.text import cell_width, fold

from lcm_tui.panes.listing import ListPane, appeared
from lcm_tui.screens.history.reads import History, when_of
from lcm_tui.views.history import IN_EFFECT, UNDONE
from lcm_tui.views.summary import short_ids
from lcm_tui.widgets.spans import Column, Line, Span, row_of

#: Cells of a time to the minute, and to the second.
MINUTE, SECOND = 16, 19
COLUMNS = (
    Column("sign", "", 1, keep=99),
    Column("when", "when", MINUTE, keep=95, timed="at"),
    Column("conversation", "conv", 5, right=True, keep=80),
    Column("tokens", "ctx tokens", 10, right=True, keep=70),
    Column("rows", "rows", 6, right=True, keep=60),
    Column("what", "what", 26, grows=True, keep=98),
    Column("undone", "", 7, keep=90),
    Column("id", "id", 19, keep=30),
)


class OperationList(ListPane[str]):
    """Operations, newest first; a key is the id of an operation or of a batch."""

    FILTER = "words of what was done, its kind, time or id"
    FILTER_CHANGES_LINES = True

    def __init__(self, changed: Callable[[], None]) -> None:
        """*changed* is called when the filter has listed other operations."""
        super().__init__(changed=changed)
        self.history = History()
        self.narrowed = False  #: to one conversation
        self._unfolded: set[str] = set()
        self._listed = False
        self._shared = False  #: some were committed in the same minute: all times are to the second
        self._last: frozenset[str] = frozenset()  #: the last listed operation of each unfolded batch

    def show(self, history: History) -> None:
        """List what was read; the cursor stays on its operation, and new ones are marked."""
        known, self.history = self.history.by_id, history
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

    def draw(self, key: str, width: int) -> Sequence[Line]:
        """A row of cells; where what was done has no room, ids in it are shortened as in the DAG."""
        layout = self.layout_at(width)
        cells = dict(self.cells(key))
        room = next(
            cells
            for column, cells in zip(layout.columns, layout.widths, strict=True)
            if column.name == "what"
        )
        if cell_width(cells["what"].text) > room:
            cells["what"] = replace(cells["what"], text=short_ids(cells["what"].text))
        return (row_of(layout, cells),)

    def cells(self, key: str) -> Mapping[str, Span]:
        """When, where, how much and what; in grey what does not hold any more."""
        batch = self.history.batches.get(key)
        line = self.history.line(key)
        holds = line.state != UNDONE
        sign = Span("" if holds else "↶", "warn")
        if batch is not None:
            sign = Span("▾" if key in self._unfolded else "▸", "key")
        inner = ""
        if batch is None and line.newest.batch in self.history.batches:
            inner = "└ " if key in self._last else "├ "
        when = when_of(line.newest, self.zone)
        return {
            "sign": sign,
            "when": Span(when[: SECOND if self._shared else MINUTE], "dim"),
            "conversation": Span("" if line.owner is None else str(line.owner)),
            "tokens": Span(f"{line.tokens:+,}" if line.tokens else "0"),
            "rows": Span(f"{line.rows:,}", "dim"),
            "what": Span(f"{inner}{line.what}", "text" if holds else "dim"),
            "undone": Span("" if line.state == IN_EFFECT else line.state or "", "warn"),
            "id": Span(line.name, "key"),
        }
