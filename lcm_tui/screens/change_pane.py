"""A change to look at: the head in words, and below it ordinals, edits and SQL to go through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from lcm_core.base.diff import Diff, compare_lines
from lcm_core.base.records import ContextItem, MessageId, SummaryId, Timestamp
from lcm_core.base.text import cell_width, safe_line
from lcm_core.base.values import Record
from lcm_core.change.plan import Ref
from lcm_core.change.preview import Shifted
from lcm_core.engine.markers import BadKind
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry
from lcm_core.store.summaries import broken_among
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip

from lcm_tui.kit import commands
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.diff import DiffView, Naming, Piece
from lcm_tui.kit.drawn import Drawn, Lines, head_room, strip_of
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import LineFinder
from lcm_tui.kit.panes import Desk
from lcm_tui.kit.spans import Block, Document, Line, Span, StyleName, heading
from lcm_tui.tables.change import (
    ShiftRow,
    Shown,
    bar_part,
    columns,
    head_lines,
    item_name,
    shift_line,
    text_lines,
    warning_lines,
    warnings_of,
)
from lcm_tui.tables.items import document, load_item
from lcm_tui.tables.preview import HEADING, row_texts

#: Items that are read at a time, to find one.
AT_A_TIME: Final = 200
#: What is shown of an edit or a statement on its line.
LINE_CHARACTERS: Final = 400
#: What is shown of a text as a whole.
WHOLE_CHARACTERS: Final = 200_000
#: The panes in their order, with their titles.
PANES: Final = MappingProxyType(
    {
        "brief": "Brief",
        "ordinals": "Ordinals",
        "warnings": "Warnings",
        "edits": "Edits",
        "diff": "Diff",
        "sql": "SQL",
    }
)


def _compare_rows(before: str, after: str) -> Diff:
    """The difference of two lists of rows; an empty one has no line."""
    return compare_lines(*(tuple(rows.split("\n")) if rows else () for rows in (before, after)))


class PaneBar(Drawn):
    """The names of the panes, the one in front marked; a click on one brings it there."""

    DEFAULT_CSS = """
    PaneBar { height: 1; width: 1fr; background: $panel; }
    """

    def __init__(
        self, panes: Callable[[], Sequence[tuple[str, str, bool]]], choose: Callable[[str], None]
    ) -> None:
        """*panes*: names, titles, and which is in front; *choose* brings one there."""
        super().__init__(id="panes")
        self._panes = panes
        self._choose = choose

    def render_line(self, y: int) -> Strip:
        """The one line."""
        spans = [Span(text, "key" if front else "dim") for _, text, front in self._texts()]
        return strip_of((Span(" "), *spans, Span("  tab: next", "dim")), self.style_of, self.size.width)

    def _texts(self) -> list[tuple[str, str, bool]]:
        return [
            (name, f"[{title}] " if front else f" {title}  ", front) for name, title, front in self._panes()
        ]

    async def on_click(self, event: events.Click) -> None:
        """Show the text whose name was clicked."""
        at = 1
        for name, text, _ in self._texts():
            at += cell_width(text)
            if event.x < at:
                self._choose(name)
                return


class Numbered(Record, frozen=True):
    """A line of the warnings, the edits or the SQL."""

    place: int


HELP_VIEW = """
The head says in one sentence what the change does to the context; below it, the warnings, the tokens before
and after with their share of the budget, and the rows per table: + added, ~ changed, - deleted.

Below are the ordinals, old and new side by side: + added, - removed, → moved, ✗ a broken summary that will be
in the context. tab switches to the edits, one database row each, to the same rows as a diff, to the SQL, and
to the warnings if the head has no room for them. m goes to the diff at once, and back. enter opens the
selected line whole (in the diff: its whole row, before and after), and / finds text.
""".strip()


class ChangePane(Vertical):
    """A change, as far as it is known."""

    BLANK: ClassVar[bool] = True
    DEFAULT_CSS = """
    ChangePane { height: 1fr; }
    ChangePane > #ordinals { height: 1fr; }
    """

    def __init__(self, desk: Desk, lines_above: Callable[[int], Sequence[Line]]) -> None:
        """*lines_above*: what a screen says above the head, for a width in cells."""
        super().__init__(id="change")
        self._desk = desk
        self._lines_above = lines_above
        self.shown: Shown | None = None
        self.finder = ChangeFinder(self.list_in_front, self._text_of)
        self.head = Lines(self._head, id="head", clicked=self._clicked_in_head)
        self.ordinals = LineView[ShiftRow](self._draw_shift, empty="", id="shift")
        self.warnings = self._text_list("warnings", warning_lines, tall=True, empty="No warnings.")
        self.edits = self._text_list("edits", _cut_line, empty="No row changes.")
        self.sql = self._text_list("sql", _cut_line, empty="Reading …")
        self.text = self._text_list("brief", text_lines, tall=True)
        self.diff = DiffView(empty="Comparing …", id="diff", changes=False, compare=_compare_rows)
        self._head_warns = False  #: whole: no pane says it again
        self._pane = "ordinals"
        self._pane_before = "ordinals"  #: in front before the rows as a diff
        self._compared: Shown | None = None  #: whose rows are compared
        self._brief: Sequence[str] = ()  #: the lines of the brief that it puts in force
        self._entries: dict[Ref, ContextEntry] = {}
        self._broken: dict[Ref, BadKind] = {}  #: of those
        self._statements: Sequence[str] | None = None  #: None: nobody has looked yet
        self._panes_bar = PaneBar(self._pane_names, self.show_pane)

    # -- layout ------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """The head, the names of the panes, and the panes."""
        yield self.head
        yield self._panes_bar
        with Vertical(id="ordinals"):
            yield Heading(columns, id="heading")
            yield self.ordinals
        for view in self._others:
            view.display = False
            yield view

    @property
    def _others(self) -> tuple[LineView[Any], ...]:
        return self.text, self.warnings, self.edits, self.diff, self.sql

    def list_in_front(self) -> LineView[Any]:
        """The list of the pane in front."""
        return next((view for view in self._others if view.id == self._pane), self.ordinals)

    def _pane_names(self) -> list[tuple[str, str, bool]]:
        shown = self.shown
        titles = dict(PANES)
        if shown is not None:
            titles["ordinals"] += f" {shown.items:,}"
            titles["warnings"] += f" {len(self.warnings.keys):,}"
            titles["edits"] += f" {len(shown.words):,}"
        return [(name, titles[name], name == self._pane) for name in self._panes()]

    def _panes(self) -> tuple[str, ...]:
        warned = self.warnings.keys and not self._head_warns
        missing = {name for name, there in (("brief", self._brief), ("warnings", warned)) if not there}
        return tuple(name for name in PANES if name not in missing or name == self._pane)

    def show_pane(self, name: str) -> None:
        """Bring a pane to the front."""
        if self._pane != "diff":
            self._pane_before = self._pane
        self._pane = name
        self.query_one("#ordinals").display = name == "ordinals"
        for view in self._others:
            view.display = name == view.id
        self.list_in_front().focus()
        self._panes_bar.refresh()
        if name == "sql" and self._statements is None and self.shown is not None:
            self._desk.work_on("sql", self._make_sql, self.shown)
        self._compare_in_front()

    def turn(self) -> None:
        """Show the rows before and after as a diff, or again what was in front before."""
        self.show_pane(self._pane_before if self.shows_diff else "diff")

    @property
    def turns_to(self) -> str:
        """The title of the pane that `turn` brings to the front."""
        return PANES[self._pane_before if self.shows_diff else "diff"]

    @property
    def shows_diff(self) -> bool:
        """Whether the rows are in front as a diff."""
        return self._pane == "diff"

    def _compare_in_front(self) -> None:
        """Compare the rows when somebody looks: there may be thousands."""
        if self.shows_diff and self._compared is not self.shown and self.shown is not None:
            self._compared = self.shown
            self._desk.work_on("row-texts", self._compare, self.shown)

    async def _compare(self, shown: Shown) -> None:
        before, after = await asyncio.to_thread(row_texts, [step.edit for step in shown.steps])
        if shown is self.shown:
            naming = Naming(is_heading=lambda text: text.startswith(HEADING))
            self.diff.show(before, after, naming=naming)

    def next_pane(self) -> None:
        """Bring the next pane to the front."""
        panes = self._panes()
        self.show_pane(panes[(panes.index(self._pane) + 1) % len(panes)])

    # -- what is shown -----------------------------------------------------------------------------------

    def show_change(self, shown: Shown | None, *, empty: str = "") -> None:
        """Show a change in place of the one before; *empty* stands in its lists when there is none."""
        if shown is None or shown is not self.shown:
            first = self.shown is None
            self.shown = shown
            self._statements = None
            self._entries, self._broken = {}, {}
            for view in (self.warnings, self.edits, self.sql, self.ordinals):
                view.empty = empty or "Nothing changes here."
            self.ordinals.empty = empty or "Ordinals do not change."
            rows = shown.shift if shown else ()
            # A cursor that nobody has moved stays at the top, also when a heading comes in front of it.
            top = rows[0] if rows and isinstance(rows[0], str) and self.ordinals.cursor == 0 else None
            self.ordinals.replace(rows, select=top)
            warned = len(warnings_of(shown)) if shown else 0
            self.warnings.replace([Numbered(place) for place in range(warned)])
            brief = "" if shown is None else shown.brief[:WHOLE_CHARACTERS]
            self._brief = brief.split("\n") if brief else ()
            self.text.replace([Numbered(place) for place in range(len(self._brief))])
            if (self._pane == "warnings" and not warned) or (self._pane == "brief" and not brief):
                self.show_pane("ordinals")
            self.edits.replace([Numbered(place) for place in range(len(shown.words))] if shown else [])
            if self._pane == "ordinals" and brief and not rows:
                self.show_pane("brief")  # it is what the change is about
            elif first and shown is not None and self._pane == "ordinals" and not rows and shown.words:
                only_changed = not any(one.insert or one.delete for one in shown.rows)
                self.show_pane("diff" if only_changed else "edits")
            if self._pane == "sql" and shown is not None:
                self._desk.work_on("sql", self._make_sql, shown)
            else:
                self.sql.replace([])
            self._compare_in_front()
            self._read_sight()
        self.head.again()
        self._panes_bar.refresh()

    def _head(self, width: int) -> list[Line]:
        lines = list(self._lines_above(width))
        if self.shown is not None:
            room = head_room(self.app.size.height) - len(lines)
            lines += head_lines(self.shown, self._desk.session.budget, width, room, plain=self.app.no_color)
            texts = (line for text in warnings_of(self.shown) for line in warning_lines(text, width))
            if self._head_warns != (whole := all(line in lines for line in texts)):
                self._head_warns = whole
                self._panes_bar.refresh()
        return lines

    async def _make_sql(self, shown: Shown) -> None:
        """Write the SQL when somebody looks: it may be a statement for each of 35,000 items."""
        statements = await asyncio.to_thread(lambda: tuple(shown.sql()))
        if shown is self.shown:
            self._statements = statements
            self.sql.replace([Numbered(place) for place in range(len(statements))])

    def _draw_shift(self, row: ShiftRow, width: int) -> Sequence[Line]:
        if isinstance(row, str) or self.shown is None:
            return (shift_line(row, None, None, width),)
        entry, held = self._entries.get(row.ref), self.shown.held.get(row.ref)
        broken = self._broken.get(row.ref) if row.new is not None else None
        return (shift_line(row, entry, held, width, broken=broken.value if broken else ""),)

    def _texts(self, pane: str) -> Sequence[str]:
        """The lines of a pane of texts."""
        shown = self.shown
        if shown is None:
            return ()
        if pane == "brief":
            return self._brief
        return {"warnings": warnings_of(shown), "edits": shown.words}.get(pane, self._statements or ())

    def _text_list(
        self, pane: str, draw: Callable[[str, int], Sequence[Line]], **options: Any
    ) -> LineView[Numbered]:
        """A pane of texts, each drawn for a width."""

        def drawn(key: Numbered, width: int) -> Sequence[Line]:
            texts = self._texts(pane)
            return draw(texts[key.place], width) if key.place < len(texts) else ((),)

        return LineView[Numbered](drawn, id=pane, **options)

    # -- what is in sight ----------------------------------------------------------------------------------

    @on(LineView.Scrolled, "#shift")
    def _scrolled(self) -> None:
        self._read_sight()

    def _read_sight(self) -> None:
        self._desk.work_on("sight", self._read_entries)

    def _clicked_in_head(self, line: Line, cell: int) -> None:
        """A part of the bars of before and after leads to the first item of that sort."""
        bar = bar_part(line, cell)
        if bar is not None:
            self.show_pane("ordinals")
            self._desk.work_on("bar", self._go_to_sort, *bar)

    async def _go_to_sort(self, before: bool, style: StyleName) -> None:
        """Stand on the first item drawn in a *style* that was in the context *before*, or is afterwards."""
        rows = [row for row in self.ordinals.keys if isinstance(row, Shifted)]
        rows = [row for row in rows if (row.old if before else row.new) is not None]
        for start in range(0, len(rows), AT_A_TIME):
            await self._read_entries(rows[start : start + AT_A_TIME])
            await asyncio.sleep(0)  # what is known already is not read, and keys wait meanwhile
            for row in rows[start : start + AT_A_TIME]:
                if any(span.style == style for line in self._draw_shift(row, 120) for span in line):
                    self.ordinals.select(row)
                    return
        self.app.notify("No item of that sort comes, goes or moves.", timeout=3)

    async def _read_entries(self, rows: Sequence[Shifted] | None = None) -> None:
        """Read what some items are, or those in sight."""
        if rows is None:
            rows = [row for row in self.ordinals.visible_keys if isinstance(row, Shifted)]
        wanted = [item for row in rows if row.ref not in self._entries and (item := _item(row.ref))]
        if wanted:
            ids = [item.summary_id for item in wanted if item.summary_id is not None]
            self._broken.update((await self._desk.session.read(broken_among, ids)).items())
            for entry in await self._desk.session.read(store.context_entries, wanted):
                item = entry.item
                ref: Ref = item.message_id if item.summary_id is None else item.summary_id
                self._entries[ref] = entry
            self.ordinals.redraw(rows)

    # -- commands ----------------------------------------------------------------------------------------

    def why_not_open(self) -> str | None:
        """Nothing to open, or no more than is on the screen."""
        view = self.list_in_front()
        key = view.selected
        if isinstance(key, Numbered):
            wraps = view in (self.text, self.warnings)
            whole = wraps or cell_width(safe_line(self._text_of(key))) < view.size.width - 2
        else:
            whole = view is self.diff and self.diff.stands_alone
        return "nothing is selected" if key is None else "it is shown whole" if whole else None

    def _text_of(self, key: ShiftRow | Numbered | Piece) -> str:
        """What a line says, as far as it is known without reading."""
        if isinstance(key, Piece):
            return self.diff.text_at(key)
        if isinstance(key, Shifted):
            word = "added" if key.old is None else "removed" if key.new is None else "moved"
            return f"{word} {item_name(key.ref)}"
        if isinstance(key, str) or self.shown is None:
            return str(key)
        held = self._texts(self._pane)
        return held[key.place] if key.place < len(held) else ""

    def selected_id(self) -> str | None:
        """The id of the selected item of a context."""
        row = self.ordinals.selected if self._pane == "ordinals" else None
        return item_name(row.ref) if isinstance(row, Shifted) else None

    async def whole(self) -> Document | None:
        """The line under the cursor, whole; None when there is none."""
        key = self.list_in_front().selected
        if isinstance(key, Piece):
            return None if self.diff.unfold() else _row_document(*self.diff.section())
        if isinstance(key, Shifted):
            return await self._item_document(key)
        texts = self._texts(self._pane)
        if isinstance(key, Numbered) and key.place < len(texts):
            return (Block(texts[key.place][:WHOLE_CHARACTERS]),)
        return None

    async def _item_document(self, row: Shifted) -> Document:
        """The text of an item: as it stands in the database, else as the edits have it."""
        held = self.shown.held.get(row.ref) if self.shown is not None else None
        item = _item(row.ref)
        body: Document = ()
        if item is not None:
            ref = item.message_id if item.summary_id is None else item.summary_id
            data = await self._desk.session.read(load_item, ref)
            body = document(data, self._desk.session, wrapped=False, limit=WHOLE_CHARACTERS)
        if not body and held is not None:
            body = (Block(held.text[:WHOLE_CHARACTERS]),)
        missing = (Block("Its row is missing.", "error"),)
        return (heading(item_name(row.ref)), *(body or missing))


def _row_document(before: Sequence[str], after: Sequence[str]) -> Document:
    """A database row, before and after where these are two."""
    if before == after or not (before and after):
        return tuple(map(Block, before or after))
    return (heading("Before"), *map(Block, before), Block(), heading("After"), *map(Block, after))


def _cut_line(text: str, _: int) -> Sequence[Line]:
    return ((Span(f" {text[:LINE_CHARACTERS]}"),),)


class ChangeFinder(LineFinder[Any]):
    """Searches the pane in front; where that is empty there is nothing to search in."""

    def why_not_search(self) -> str | None:
        """Why it cannot be searched."""
        return None if self._view().keys else "this pane has nothing to search"


def _item(ref: Ref) -> ContextItem | None:
    """An item to be read; None for what has no row yet."""
    if isinstance(ref, str):
        return ContextItem(0, "summary", None, SummaryId(ref), Timestamp(""))
    return ContextItem(0, "message", MessageId(ref), None, Timestamp("")) if isinstance(ref, int) else None


# -- its keys --------------------------------------------------------------------------------------------
# Moving through a change that is shown.


async def _open_line(screen: Any) -> None:
    document = await screen.view.whole()
    if document is not None:
        screen.app.push_screen(WholeScreen(document))


def _turn(screen: Any) -> None:
    screen.view.turn()
    screen.refresh_bars()


#: Look at a line whole, and go from ordinals to edits and SQL, on a screen whose `view` is a `ChangePane`.
OPEN_LINE: Final[Key[Any]] = commands.OPEN.does(
    _open_line, lambda s: s.view.why_not_open(), title="Whole line"
)
NEXT_VIEW: Final[Key[Any]] = commands.PANE.does(lambda s: s.view.next_pane())
ROWS_OR_DIFF: Final[Key[Any]] = commands.OTHER_VIEW.does(
    _turn,
    title="Diff",
    help="Show the rows before and after as a diff, or what was in front before.",
    title_now=lambda s: s.view.turns_to,
)
