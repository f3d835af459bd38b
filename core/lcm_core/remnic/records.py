"""What an import is made of, as values: rows that are wanted, and what differs from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, TypeGuard

from lcm_core.change.plan import Cells

#: How Remnic calls a session: the source's trimmed session id, or the conversation's number without one.
SessionId = NewType("SessionId", str)


#: Numbers of messages, places and conversations are smaller: there is always a next one.
LIMIT: Final = 2**62


def is_place(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number that has a next one."""
    return isinstance(value, int) and not isinstance(value, bool) and -LIMIT < value < LIMIT


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Which message of the source a turn is: what Remnic's importer puts into a turn's metadata."""

    conversation_id: str  #: a number as text: the other importer stores numbers and texts
    seq: int

    @property
    def text(self) -> str:
        """It for people."""
        return f"conversation {self.conversation_id}, seq {self.seq}"


class Kind(StrEnum):
    """How a row of Remnic's differs from the source."""

    MISSING = "missing"
    CHANGED = "changed"
    MOVED = "moved"  #: all but its place is as it should be
    REPEATED = "repeated"  #: a second row for the same message; it stays
    EXTRA = "extra"  #: of a message or summary that the source does not hold any more; it stays


class What(StrEnum):
    """What a difference is about."""

    TURN = "turn"
    PART = "part"
    NODE = "node"
    RECORD = "record"  #: what Remnic has no column for
    EVENT = "event"
    SEARCH = "search row"


@dataclass(frozen=True, slots=True)
class Step:
    """One row that differs, and what makes it right.

    Without *key* a row comes. Values of *after* may be a symbol: the id of the turn of that origin. Without
    columns in *after* nothing is to be done: the row stays as it is.
    """

    kind: Kind
    what: What
    session: SessionId
    name: str  #: which row, for people
    table: str
    key: int | str | None
    before: Cells
    after: Cells
    origin: Origin | None = None  #: of a turn that comes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that differ, of a row that is there."""
        return self.before.columns

    @property
    def writes(self) -> bool:
        """Whether it changes the file."""
        return bool(self.after.columns)


@dataclass(slots=True)
class Tally:
    """How many rows of a kind came, differed, and were as they should be."""

    missing: int = 0
    changed: int = 0
    moved: int = 0
    extra: int = 0
    same: int = 0

    def count(self, kind: Kind) -> None:
        """Add one."""
        match kind:
            case Kind.MISSING:
                self.missing += 1
            case Kind.CHANGED:
                self.changed += 1
            case Kind.MOVED:
                self.moved += 1
            case Kind.EXTRA | Kind.REPEATED:
                self.extra += 1

    @property
    def differing(self) -> int:
        """Rows that are not as the source has them."""
        return self.missing + self.changed + self.moved + self.extra


class Why(StrEnum):
    """Why a row of the source does not come into Remnic as it is, or not back out of it."""

    NO_SEQ = "the seq is no number, or not the only one"
    NO_CONVERSATION = "the conversation is missing"
    NO_MESSAGE = "the message is missing or skipped"
    NO_SUMMARY = "the summary is missing"
    NO_END = "one end is missing, skipped, or in another conversation"
    NO_TARGET = "the message or summary is missing, skipped, or in another conversation"
    NO_ID = "the id is no text"
    NO_TURN = "no message is below"
    ELSEWHERE = "Remnic has the id in another session"
    WRONG_TYPE = "a value has another type than its column, and is converted"


@dataclass(frozen=True, slots=True)
class Unheld:
    """A row that does not come along."""

    table: str
    why: Why
    row: str  #: which, for people


#: Rows of a kind that are named.
NAMED: Final = 50


@dataclass(slots=True)
class UnheldRows:
    """Rows of one table that do not come along for one reason."""

    count: int = 0
    rows: list[str] = field(default_factory=list)  #: the first of them


def _tallies() -> dict[What, Tally]:
    return {one: Tally() for one in What}


@dataclass(slots=True)
class Report:
    """What a run of an import did, or would do: the same numbers for both."""

    conversations: int = 0
    sessions: int = 0  #: that something was written for
    rows: dict[What, Tally] = field(default_factory=_tallies)
    collapsed: int = 0  #: further summaries that used a summary: Remnic holds one
    no_messages: list[str] = field(default_factory=list)  #: summaries left out: no message is below them
    elsewhere: list[str] = field(default_factory=list)  #: summaries left out: their id is another session's
    conflicts: list[str] = field(default_factory=list)  #: conversations left out: another database's
    unreadable: int = 0  #: messages left out: their seq is no number, or stands twice
    unheld: dict[tuple[str, Why], UnheldRows] = field(default_factory=dict)  #: by table and reason

    def note(self, rows: Iterable[Unheld]) -> None:
        """Note rows that do not come along."""
        for one in rows:
            held = self.unheld.setdefault((one.table, one.why), UnheldRows())
            held.count += 1
            if len(held.rows) < NAMED:
                held.rows.append(one.row)

    @property
    def differing(self) -> int:
        """Rows of any kind that are not as the source has them, search rows and events left out."""
        compared = (What.TURN, What.PART, What.NODE, What.RECORD)
        return sum(self.rows[one].differing for one in compared)

    @property
    def written(self) -> bool:
        """Whether anything came or changed."""
        return any(one.missing or one.changed or one.moved for one in self.rows.values())

    @property
    def left_out(self) -> int:
        """What the source holds and Remnic does not get."""
        return len(self.no_messages) + len(self.elsewhere) + len(self.conflicts) + self.unreadable
