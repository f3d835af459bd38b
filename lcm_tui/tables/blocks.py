"""Tables, facts and texts as values, which both faces draw, and amounts and times for people.

Blocks hold texts as they stand in the database; whoever draws them makes them safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from lcm_core.base.text import depth_name, parse_budget, safe_line
from lcm_core.base.times import format_local, format_zoned, parse_utc
from lcm_core.base.values import Record

from lcm_tui.kit.spans import Block, Column, Span, text_field

if TYPE_CHECKING:
    from lcm_core.store.schema import Schema

R = TypeVar("R")  #: a row of a list
D = TypeVar("D")  #: what its cells are drawn with
PENDING = "…"
UNRECORDED = "–"

#: A stored time for people, in their zone; as stored when it is none.
When: TypeAlias = Callable[[str | None], str | None]


class Mark(Enum):
    """What a cell says when there is no value; the value is what is shown."""

    NOT_RECORDED = "not recorded"
    NOTHING = "-"


Cell: TypeAlias = "str | int | Mark | None"


class OutputColumn(Record, frozen=True):
    """A column of a table."""

    title: str
    right: bool = False
    grows: bool = False  #: becomes narrower when a line does not fit the terminal
    spare: int = 0  #: left out when that does not help, the highest number first; 0: never
    wide: bool = False  #: holds sentences: what can be spared goes before it has less than most of the line
    colors: tuple[tuple[str, str], ...] = ()  #: of words that stand in it, by names of `cli.readable`


class Table(Record, frozen=True):
    """Rows under column titles; without rows, what *empty* says."""

    columns: Sequence[OutputColumn]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    empty: str = "None."


class Facts(Record, frozen=True):
    """Names and values, one per line."""

    rows: Sequence[tuple[str, Cell]]
    title: str = ""


class Prose(Record, frozen=True):
    """A text of several lines."""

    text: str
    title: str = ""


class Note(Record, frozen=True):
    """A remark of ours in one sentence."""

    text: str


class Verbatim(Record, frozen=True):
    """A text of our own that is for programs: printed as it is."""

    text: str


class ListColumn(Column, Generic[R, D], frozen=True, kw_only=True):
    """What a list says of each row, declared once for the app's list, commands, programs and agents.

    Title, width and when it gives way are those in the app, which does not show it without a width.
    """

    value: Callable[[R], Any] | str  #: what is said of a row, or the path of its attribute
    text: Callable[[Any], Cell] | None = None  #: how the command's table writes a value; None: as it is
    cell: Callable[[Any, R, D], Span] | None = None  #: how the app draws a value; None: as it is
    heading: str = ""  #: in the command's table, a blank for none; empty: it is not there
    spare: int = 0  #: as in `OutputColumn`, like the next two
    wide: bool = False
    colors: tuple[tuple[str, str], ...] = ()
    json: str = ""  #: its name in JSON and CSV, dotted where it is in a group; empty: it is not there
    agents: str = ""  #: its name in answers to agents; empty: it is not there
    stored: str = ""  #: the table, or table and column, behind it, where older files do not have that
    counted: bool = False  #: the app reads it behind the first page
    time: bool = False

    def of(self, row: R) -> Any:
        """What is said of a row."""
        return attrgetter(self.value)(row) if isinstance(self.value, str) else self.value(row)

    def draw(self, row: R, drawing: D) -> Span:
        """The cell of a row in the app's list."""
        value = self.of(row)
        if self.cell is not None:
            return self.cell(value, row, drawing)
        absent = PENDING if self.counted else UNRECORDED
        return Span(f"{value:,}" if isinstance(value, int) else value or absent)

    def is_stored(self, schema: Schema) -> bool:
        """Whether this file's version records it."""
        return not self.stored or schema.has(*self.stored.split("."))


def list_table(
    columns: Iterable[ListColumn[R, D]],
    rows: Sequence[R],
    when: When = lambda stored: stored,
    schema: Schema | None = None,
    *,
    title: str = "",
    empty: str = "None.",
) -> Table:
    """The table of a command that lists *rows*; without a *schema* its version records all of them."""
    printed = [column for column in columns if column.heading]

    def cell(column: ListColumn[R, D], row: R) -> Cell:
        if schema is not None and not column.is_stored(schema):
            return Mark.NOT_RECORDED
        value: Any = column.of(row)
        if column.time:
            return when(value)
        return value if value is None or column.text is None else column.text(value)

    return Table(
        [
            OutputColumn(one.heading.strip(), one.right, one.grows, one.spare, one.wide, one.colors)
            for one in printed
        ],
        [[cell(column, row) for column in printed] for row in rows],
        title=title,
        empty=empty,
    )


def cells_of(columns: Iterable[ListColumn[R, D]], row: R, drawing: D) -> dict[str, Span]:
    """A row in the app's list."""
    return {column.name: column.draw(row, drawing) for column in columns if column.width}


def json_of(columns: Iterable[ListColumn[R, D]], row: R) -> dict[str, Any]:
    """A row for programs."""
    made: dict[str, Any] = {}
    for one in columns:
        if one.json:
            group, dot, name = one.json.rpartition(".")
            value = one.of(row)
            (made.setdefault(group, {}) if dot else made)[name] = (value or None) if one.time else value
    return made


def json_names(columns: Iterable[ListColumn[R, D]]) -> list[str]:
    """What a row for programs consists of: the header of CSV."""
    return [column.json for column in columns if column.json]


def not_recorded(columns: Iterable[ListColumn[R, D]], schema: Schema, place: str = "") -> list[str]:
    """What stands in JSON at *place* and this file's version does not record."""
    missing = (one.json for one in columns if one.json and not one.is_stored(schema))
    return [f"{place}.{name}" if place else name for name in missing]


OutputBlock: TypeAlias = "Table | Facts | Prose | Note | Verbatim"


def shown(value: Cell) -> str:
    """A cell as one safe line; whole numbers get separators, None becomes a dash."""
    match value:
        case None:
            return str(Mark.NOTHING.value)
        case Mark():
            return str(value.value)
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return safe_line(value)


def fact_field(name: str, value: Cell, width: int) -> Block:
    """A fact in the app."""
    if value is Mark.NOT_RECORDED:
        return text_field(name, "not recorded by this version", "dim", width)
    return text_field(name, shown(value), "dim" if value is None else "text", width)


# -- amounts and times -----------------------------------------------------------------------------------

_BYTE_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def size_text(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def tokens_text(tokens: int) -> str:
    """A round number of tokens, such as a budget, in few cells: ``128k``; others as they are."""
    return f"{tokens // 1000:,}k" if tokens >= 1000 and tokens % 1000 == 0 else f"{tokens:,}"


def moment_text(stored: str | None, zone: tzinfo | None) -> str:
    """A stored time with the zone that is shown; as it is written in the database where it cannot be read."""
    return format_zoned(parse_utc(stored), zone) or stored or "–"


def minute_text(stored: str | None, zone: tzinfo | None) -> str:
    """The same to the minute and without the zone, for a column."""
    return format_local(parse_utc(stored), zone)[:16] or stored or "–"


def budget_problem(text: str) -> str | None:
    """Why a text is no budget; nothing typed is no problem."""
    if not text.strip() or parse_budget(text) is not None:
        return None
    if text.strip().isdecimal() and text.strip("0 "):
        return f"“{text}” is more than any model reads: write 128000, 128k or 1m."
    return f"“{text}” is not a number of tokens: write 128000, 128k or 1m."


def bar_text(share: float, cells: int) -> str:
    """A bar of so many cells for a share from 0 to 1, in eighths of a cell; a share above 0 is seen.

    What is left of it is its track.

    A database may hold infinite numbers: their bar is full, and what cannot be compared has none.
    """
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    eighths = min(max(round(share * cells * 8), 1 if share > 0 else 0), cells * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + " ▏▎▍▌▋▊▉"[rest].strip()).ljust(cells, "░")


def bytes_text(size: int) -> str:
    """A number of bytes where there is room, such as ``1.2 GB`` (powers of 1000)."""
    value, unit = float(size), 0
    while value >= 999.95 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_BYTE_UNITS[unit]}" if unit else f"{size} bytes"


def seconds_text(seconds: float) -> str:
    """A duration for people, such as ``40 s`` or ``3 min``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


def kind_name(kind: str, depth: int) -> str:
    """The short name of a summary's kind and depth; one that does not fit the other is written out."""
    fits = (kind == "leaf") == (depth == 0)
    return depth_name(depth) if fits else f"{kind[:4]} {depth}"


def kind_words(kind: str, depth: int) -> str:
    """The kind of a summary with its depth, where a line has room for words: ``leaf``, ``D2 condensed``."""
    return kind if (kind == "leaf") and depth == 0 else f"{depth_name(depth)} {kind}"
