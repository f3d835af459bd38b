"""Styled text as values: lines of spans, columns, and documents that wrap to a width.

Everything that shows text of a database makes `Line` values, which need no terminal. Widgets draw them by
`strip_of` in `drawn.py`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, Literal

from lcm_core.base.text import cell_width, clip, fold, places_of, safe_line, safe_text, wrap_spans
from lcm_core.base.values import Record, replace

StyleName = Literal[
    "text",
    "dim",
    "title",
    "heading",
    "key",
    "ok",
    "warn",
    "error",
    "match",
    "new",
    "role-user",
    "role-assistant",
    "role-tool",
    "role-system",
    "leaf",
    "d1",
    "d2",
    "d3",
    "tail",
    "brief",
]


#: Styles that a blank would show: they have a background, or an attribute that stands for one.
_SEEN_ON_BLANKS: frozenset[StyleName] = frozenset({"heading", "error", "match"})


class Span(Record, frozen=True):
    """A run of text in one style."""

    text: str
    style: StyleName = "text"


Line = tuple[Span, ...]


def line(*spans: Span | str) -> Line:
    """A line of spans; plain strings stand for themselves."""
    return tuple(Span(span) if isinstance(span, str) else span for span in spans)


def text_of(spans: Iterable[Span]) -> str:
    """What a line says, without its styles."""
    return "".join(span.text for span in spans)


def slice_of(spans: Line, start: int, end: int) -> Line:
    """The part of a line from one character to another."""
    found: list[Span] = []
    at = 0
    for span in spans:
        first, last = max(start - at, 0), min(end - at, len(span.text))
        if first < last:
            found.append(Span(span.text[first:last], span.style))
        at += len(span.text)
    return tuple(found)


def recoloured(spans: Line, ranges: Iterable[tuple[int, int]], style: StyleName) -> Line:
    """The line with the characters of some ranges (in order, apart from each other) in another style."""
    found: list[Span] = []
    done = 0
    for start, end in ranges:
        start, end = max(start, done), max(end, done)
        found += slice_of(spans, done, start)
        found += (Span(span.text, style) for span in slice_of(spans, start, end))
        done = end
    return (*found, *slice_of(spans, done, sum(len(span.text) for span in spans))) if done else spans


def role_style(role: str | None) -> StyleName:
    """The colour of a message's role."""
    match role:
        case "user":
            return "role-user"
        case "assistant":
            return "role-assistant"
        case "tool":
            return "role-tool"
        case _:
            return "role-system"


def depth_style(depth: int | None) -> StyleName:
    """The colour of a summary's depth; everything from 3 on looks the same."""
    names: tuple[StyleName, ...] = ("leaf", "d1", "d2", "d3")
    return names[min(max(depth or 0, 0), 3)]


class Column(Record, frozen=True):
    """A column of a list: its heading, its width in cells, and when it gives way."""

    name: str
    title: str = ""
    width: int = 0  #: cells; of the one column with ``grows`` the least it needs
    right: bool = False  #: numbers stand at the right
    grows: bool = False  #: takes what is left
    keep: int = 0  #: columns with the smallest values are dropped first on a narrow screen
    timed: str = ""  #: of the one with times: a shorter title, for the zone beside it
    #: Cells that the one with ``grows`` takes before columns of a `keep` below `LESSER` do; another one may
    #: take them while it sorts.
    wish: int = 0


#: Columns of a smaller ``keep`` give way to what the growing one wishes.
LESSER = 50
#: Above the ``keep`` of every column that may be dropped.
MUST = 1_000


class Layout(Record, frozen=True):
    """The columns that fit, and how wide each is."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]

    def shows(self, name: str) -> bool:
        """Whether the column of this name has a place."""
        return any(column.name == name for column in self.columns)


def lay_out(columns: Sequence[Column], width: int) -> Layout:
    """Choose the columns that fit into *width* cells, one apart; the growing one gets the rest."""
    chosen = list(columns)
    while len(chosen) > 1 and sum(column.width + 1 for column in chosen) - 1 > width:
        droppable = [column for column in chosen if not column.grows] or chosen
        chosen.remove(min(droppable, key=lambda column: column.keep))
    growing = next((column for column in chosen if column.grows), None)
    spare = width - (sum(column.width + 1 for column in chosen) - 1)
    lesser = sorted(
        (one for one in chosen if one is not growing and one.keep < LESSER), key=lambda one: one.keep
    )
    while growing is not None and lesser and growing.width + spare < growing.wish:
        spare += lesser[0].width + 1
        chosen.remove(lesser.pop(0))
    return Layout(
        tuple(chosen),
        tuple(max(1, column.width + (spare if column is growing else 0)) for column in chosen),
    )


def lay_out_in_turn(columns: Sequence[Column], width: int) -> Sequence[Layout]:
    """All the columns, as many at a time as fit; the first and the growing one stand beside each lot."""
    layouts = [lay_out(columns, width)]
    shown = set(layouts[0].columns)
    kept = [column for column in columns if column in shown and (column.grows or column is columns[0])]
    while len(shown) < len(columns):
        again = [
            replace(column, keep=MUST, wish=0) if column in kept else column
            for column in columns
            if column in kept or column not in shown
        ]
        layout = lay_out(again, width)
        more = {column for column in columns if layout.shows(column.name)} - shown
        if not more:
            break
        layouts.append(layout)
        shown |= more
    return layouts


def row_of(layout: Layout, cells: Mapping[str, Span]) -> Line:
    """A row of a list: each cell clipped and padded to its column."""
    spans: list[Span] = []
    for column, width in zip(layout.columns, layout.widths, strict=True):
        cell = cells.get(column.name, Span(""))
        text = clip(safe_line(cell.text), width)
        space = " " * (width - cell_width(text))
        between = " " if spans else ""
        if cell.style in _SEEN_ON_BLANKS:
            ahead, behind = (between + space, "") if column.right else (between, space)
            spans += [Span(ahead), Span(text, cell.style), Span(behind)]
        else:
            spans.append(Span(between + (space + text if column.right else text + space), cell.style))
    return tuple(spans)


class Sorting(Record, frozen=True):
    """By which column a list is sorted."""

    column: str
    descending: bool

    @property
    def arrow(self) -> str:
        """The sign beside its title: downwards where the largest value is on top."""
        return "↓" if self.descending else "↑"


def _titled(column: Column, zone: str, room: int) -> str:
    """The title of a column; of one with times the zone is in it, as far as there is room."""
    if not column.timed or not zone:
        return column.title
    titles = (f"{title} {said}" for title in (column.title, column.timed) for said in (f"({zone})", zone))
    return next((title for title in titles if cell_width(title) <= room), column.title)


def heading_of(layout: Layout, sorting: Sorting | None = None, zone: str = "") -> Line:
    """The titles of the columns as a row; an arrow beside the one that the list is sorted by.

    The arrow takes a blank beside the title, so that every title stays whole. *zone*: that of the times.
    """
    spans: list[Span] = []
    for column, width in zip(layout.columns, layout.widths, strict=True):
        sorts = sorting is not None and sorting.column == column.name
        title = clip(_titled(column, zone, width - 2 * sorts), width)
        space = " " * (width - cell_width(title))
        ahead, behind = " " if spans else "", ""
        if column.right:
            ahead += space
        else:
            behind = space
        if sorting is not None and sorting.column == column.name:
            if column.right and ahead:
                ahead, title = ahead[:-1], f"{sorting.arrow}{title}"
            elif len(behind) > 1:
                title, behind = f"{title} {sorting.arrow}", behind[2:]
        spans += [Span(ahead), Span(title, "heading"), Span(behind)]
    return tuple(spans)


# -- shares ----------------------------------------------------------------------------------------------
# As people write them.


def share_text(share: float) -> str:
    """``2.6 %``, and never ``0.0 %`` of something."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:,.1f} %"


# -- documents -------------------------------------------------------------------------------------------
# A document as a value, and how its blocks fall into lines at one width.

#: Cells of a line of prose at most: longer ones are hard to read, however wide the terminal is.
MEASURE: Final = 120


class Block(Record, frozen=True):
    """A piece of a document: a text of any number of lines, or one line of spans; both are wrapped."""

    text: str = ""
    style: StyleName = "text"
    spans: Line | None = None
    indent: int = 0  #: cells before each line; a line of spans has as many of its own


Document = tuple[Block, ...]


def choices_lines(choices: Iterable[tuple[str, str, str | None]], width: int) -> list[Line]:
    """What can be chosen, in rows: the key that turns it, its title and its value (None: not used now).

    The key is bracketed because a bare digit before a title looks like a count. A choice that does not fit
    into the *width* (cells) starts a new row.
    """
    lines: list[Line] = []
    for key, title, value in choices:
        choice = (
            Span("(", "dim"),
            Span(key, "dim" if value is None else "key"),
            Span(f") {title}: ", "dim"),
            Span("–  ", "dim") if value is None else Span(f"{value}  "),
        )
        if lines and cell_width(text_of((*lines[-1], *choice)).rstrip()) <= width:
            lines[-1] = (*lines[-1], *choice)
        else:
            lines.append((Span(" "), *choice))
    return lines


def heading(text: str) -> Block:
    """A heading within a document."""
    return Block(spans=(Span(text, "heading"),))


def text_field(name: str, value: str, style: StyleName = "text", width: int = 14) -> Block:
    """A name and its value, on one line or on more when the value is long.

    *width* is in cells; a name that fills it is still two blanks from its value.
    """
    label = f"{name}  " if cell_width(name) >= width else f"{name:<{width}}"
    return Block(spans=(Span(label, "dim"), Span(value, style)), indent=width)


class WrappedBlock:
    """A block at one width: its safe text, and where in it each of its lines begins and ends."""

    def __init__(self, block: Block, width: int) -> None:
        self._margin = " " * max(0, min(block.indent, width - 8))
        self._folded: str | None = None
        self._found: tuple[str, list[tuple[int, int]]] = ("", [])
        self.starts, self.ends = array("q"), array("q")
        if block.spans is None:
            self._hangs = False
            self._spans: Line = (Span(safe_text(block.text), block.style),)
            self.text = self._spans[0].text
            self._break(0, width - len(self._margin))
        else:
            self._hangs = True
            self._spans = tuple(Span(safe_line(span.text), span.style) for span in block.spans)
            self.text = text_of(self._spans)
            if cell_width(self.text) <= width:
                self._break(0, width)
            else:  # what stands in the margin of the first line is not wrapped
                head = len(self._margin)
                fits = cell_width(self.text[:head]) == head
                self._break(head if fits else 0, width - head)

    def _break(self, head: int, room: int) -> None:
        start = head
        for line in self.text[head:].split("\n"):
            for first, last in wrap_spans(line, room):
                self.starts.append(start + first)
                self.ends.append(start + last)
            start += len(line) + 1
        self.starts[0] = 0

    def __len__(self) -> int:
        return len(self.starts)

    def places(self, sought: str) -> list[tuple[int, int]]:
        """Where a text stands in any spelling, start and end of each; *sought* is folded."""
        if self._found[0] != sought:
            if self._folded is None:
                self._folded = fold(self.text)
            self._found = sought, places_of(sought, self.text, self._folded)
        return self._found[1]

    def line(self, at: int, sought: str = "") -> Line:
        """One line; marked in it is what is *sought*, a folded text."""
        start, end = self.starts[at], self.ends[at]
        line = slice_of(self._spans, start, end)
        if sought:  # a match may begin on the line before and end on the next
            found = self.places(sought)
            near = found[bisect_right(found, start, key=itemgetter(1)) : bisect_left(found, (end, end))]
            line = recoloured(line, [(first - start, last - start) for first, last in near], "match")
        return (Span(self._margin), *line) if self._margin and not (self._hangs and at == 0) else line

    def line_at(self, offset: int) -> int:
        """The line on which a place in the text stands."""
        return max(0, bisect_right(self.starts, offset) - 1)
