"""Tables, facts and texts as values: what a view makes, and either face draws.

Blocks hold texts as they stand in the database; whoever draws them makes them safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lcm_core.text import safe_line

#: A stored time for people, in their zone; as stored when it is none.
When: TypeAlias = Callable[[str | None], str | None]


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
    grows: bool = False  #: becomes narrower when a line does not fit the terminal
    spare: int = 0  #: left out when that does not help, the highest number first; 0: never


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
