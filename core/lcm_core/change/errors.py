"""Why a change was not made: one sentence for people, and what a caller can act on.

Nothing was written when any of these is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from lcm_core.change.breaks import sentence_of
from lcm_core.change.plan import Cell, Cells, Item, Owner, Ref, Symbol
from lcm_core.errors import DatabaseBusyError, DatabaseError, ExitCode, LcmError, RefusedError
from lcm_core.text import clip, safe_line

#: Cells of a value in a message.
WIDTH = 60
#: Of many reasons this many are said in one sentence; all of them are in the exception.
SAID = 3


@dataclass(frozen=True, slots=True)
class Moved:
    """Something that is not what it was when the plan was made."""

    what: str  #: a row and perhaps a column: ``summaries sum_0123: content``
    expected: str
    found: str

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.what} was {self.expected}, now {self.found}"


class StalePlanError(LcmError):
    """The database moved on since the plan was made: plan again."""

    exit_code: ClassVar[ExitCode] = ExitCode.STALE
    default_code: ClassVar[str] = "STALE_PLAN"

    def __init__(self, moved: Iterable[Moved]) -> None:
        self.moved = tuple(moved)
        super().__init__(
            f"The database has changed since this was planned: {listed(one.text for one in self.moved)}. "
            "Nothing was changed; preview the change again.",
            details={"moved": len(self.moved)},
        )


class BusyError(DatabaseBusyError):
    """Another process held the lock for longer than we wait."""

    def __init__(self, path: object, waited: float) -> None:
        self.waited = waited  #: seconds
        super().__init__(
            f"{path} was locked by another process during the whole wait of {waited:.1f} s. Nothing "
            "was changed; wait until it has finished, or stop it, and try again.",
            details={"waitedSeconds": round(waited, 3)},
        )


class ReadOnlyError(DatabaseError):
    """The file or its folder cannot be written."""

    default_code: ClassVar[str] = "DATABASE_READ_ONLY"


class DiskFullError(DatabaseError):
    """There is no room for the change."""

    default_code: ClassVar[str] = "DISK_FULL"


class ReplacedError(DatabaseError):
    """Another file lies at the path than the one that was planned on."""

    exit_code: ClassVar[ExitCode] = ExitCode.STALE
    default_code: ClassVar[str] = "DATABASE_REPLACED"


class WouldBreakError(RefusedError):
    """The change would leave an error that was not there."""

    default_code: ClassVar[str] = "WOULD_BREAK"

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = frozenset(findings)  #: keys, as `lcm_core.change.breaks` makes them
        reasons = listed(sentence_of(key) for key in sorted(self.findings))
        super().__init__(
            f"Refused because the change would break the database: {reasons}. Nothing was changed.",
            details={"findings": len(self.findings)},
        )


def listed(reasons: Iterable[str]) -> str:
    """Some reasons as part of a sentence, the first few of them."""
    found = [clip(safe_line(reason), WIDTH * 4) for reason in reasons]
    more = len(found) - SAID
    return "; ".join(found[:SAID]) + (f"; and {more:,} more" if more > 0 else "")


# -- what moved between a plan and its commit -----------------------------------------------------------


def differences(name: Callable[[], str], before: Cells, now: Cells) -> Iterable[Moved]:
    """The columns that do not hold what was recorded: by value and by type, as ``IS`` and ``typeof`` tell.

    *name* says what they are columns of; mostly nobody has to know.
    """
    held = now.as_dict()
    for column, expected in zip(before.columns, before.cells, strict=True):
        if column not in held:
            yield Moved(f"{name()}: column {column}", "there", "gone")
        elif (found := held[column]) != expected or type(found) is not type(expected):
            yield Moved(f"{name()}: {column}", _shown(expected), _shown(found))


def _shown(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str) and len(value) > WIDTH:
        return (
            f"a text of {len(value):,} characters beginning with {clip(safe_line(value[:WIDTH]), WIDTH // 2)}"
        )
    return safe_line(value) if isinstance(value, str) else str(value)


def row_name(table: str, key: Cells) -> str:
    """A row by its table and key."""
    return f"{table} {' '.join(_shown(value) for _, value in key.values)}"


def item_name(ref: Ref) -> str:
    """What a context item refers to."""
    return f"{Item(ref).item_type} {ref.name if isinstance(ref, Symbol) else ref}"


def context_name(owner: Owner) -> str:
    """The context of a conversation, which may be one that the plan makes."""
    return f"the context of conversation {owner.name if isinstance(owner, Symbol) else owner}"
