"""Answers for people: a few kinds of blocks, and the one place where they become lines.

Blocks hold texts as they stand in the database; everything is made safe here, on its way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lcm_core.text import cell_width, clip, safe_line, safe_text, wrap

#: The narrowest that a growing column becomes; below that, lines run over.
_MIN_GROWING = 20
_GAP = "  "


class Mark(Enum):
    """What a cell says when there is no value; the value is what is shown."""

    NOT_RECORDED = "not recorded"
    NOTHING = "-"


Cell: TypeAlias = "str | int | Mark | None"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    grows: bool = False  #: gives way when a line does not fit the terminal


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column titles; without rows, what *empty* says."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    empty: str = "None."


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, one per line."""

    rows: Sequence[tuple[str, Cell]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A text of several lines."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark of ours in one sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text of our own that is for programs: printed as it is."""

    text: str


Block: TypeAlias = "Table | Facts | Prose | Note | Verbatim"


def counted(number: int, one: str, many: str) -> str:
    """A number with the word for what it counts."""
    return f"{number:,} {one if number == 1 else many}"


@dataclass(frozen=True, slots=True)
class Page:
    """What the lines are for."""

    width: int | None  #: cells of the terminal; None: not a terminal, nothing is cut
    color: bool

    def render(self, blocks: Sequence[Block]) -> str:
        """The blocks as text, an empty line between them."""
        return "\n\n".join("\n".join(self._lines(block)) for block in blocks)

    def _lines(self, block: Block) -> Iterator[str]:
        match block:
            case Table():
                yield from self._titled(block.title)
                yield from self._table(block)
            case Facts():
                yield from self._titled(block.title)
                yield from self._facts(block)
            case Prose():
                yield from self._titled(block.title)
                text = safe_text(block.text)
                yield from wrap(text, self.width) if self.width else text.split("\n")
            case Verbatim():
                yield block.text
            case Note():
                text = safe_line(block.text)
                yield from (self._dim(line) for line in (wrap(text, self.width) if self.width else [text]))

    def _titled(self, title: str) -> Iterator[str]:
        if title:
            yield self._bold(safe_line(title))

    def _facts(self, block: Facts) -> Iterator[str]:
        width = max((cell_width(name) for name, _ in block.rows), default=0)
        for name, value in block.rows:
            room = None if self.width is None else max(_MIN_GROWING, self.width - width - len(_GAP))
            text = shown(value)
            first, *rest = wrap(text, room) if room else [text]
            yield f"{self._dim(_padded(name, width))}{_GAP}{first}".rstrip()
            yield from (" " * (width + len(_GAP)) + line for line in rest)

    def _table(self, block: Table) -> Iterator[str]:
        if not block.rows:
            yield safe_line(block.empty)
            return
        rows = [[shown(cell) for cell in row] for row in block.rows]
        titles = [column.title for column in block.columns]
        widths = [max(map(cell_width, texts)) for texts in zip(titles, *rows, strict=True)]
        self._fit(block.columns, widths)
        yield self._bold(_line(block.columns, titles, widths))
        for row in rows:
            yield _line(block.columns, row, widths)

    def _fit(self, columns: Sequence[Column], widths: list[int]) -> None:
        """Take from growing columns what a line is too long, the widest first."""
        if self.width is None:
            return
        growing = [at for at, column in enumerate(columns) if column.grows]
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - self.width
        while excess > 0 and growing:
            widest = max(growing, key=lambda at: widths[at])
            least = max(_MIN_GROWING, cell_width(columns[widest].title))
            others = [widths[at] for at in growing if at != widest]
            taken = min(excess, widths[widest] - max([least, *(width - 1 for width in others)]))
            if taken <= 0:
                return
            widths[widest] -= taken
            excess -= taken

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.color else text


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


def _line(columns: Sequence[Column], texts: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        _padded(clip(text, width), width, right=column.right)
        for column, text, width in zip(columns, texts, widths, strict=True)
    ]
    return _GAP.join(cells).rstrip()


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_width(text))
    return space + text if right else text + space
