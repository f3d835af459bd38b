"""A moment of a database's past: right before an operation, right after it, or a time."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.times import iso_z, parse_utc, typed_moment
from lcm_core.base.values import Record

if TYPE_CHECKING:
    from lcm_core.change.journal import Operation


class Side(StrEnum):
    """On which side of an operation."""

    BEFORE = "before"
    AFTER = "after"


class Point(Record, frozen=True):
    """A moment: beside an operation, or a time; an operation is named by its id or the beginning of it."""

    operation_id: str | None = None
    side: Side = Side.BEFORE
    when: datetime | None = None  #: with a zone; where no operation is named

    @property
    def text(self) -> str:
        """As it is typed."""
        if self.operation_id is not None:
            return f"{self.side}:{self.operation_id}"
        return "" if self.when is None else iso_z(self.when)


#: How a point is typed.
FORMS: Final = "before:OPERATION_ID, after:OPERATION_ID or a time such as 2026-03-02T10:00:00Z"


def parse_point(written: str, zone: tzinfo | None) -> Point | None:
    """What was typed as a point; an operation alone means right before it. None: it is no point.

    A time that names no zone is one of *zone* (None: that of this machine).

    Raises:
        UsageError: *zone* has that time twice, or skips it.
    """
    side, colon, name = written.partition(":")
    if colon and side in (Side.BEFORE, Side.AFTER):
        if name.strip():
            return Point(name.strip(), Side(side))
    elif written.startswith("op_"):
        return Point(written)
    elif (when := typed_moment(written, zone)) is not None:
        return Point(when=when)
    return None


class Cut(Record, frozen=True):
    """A point among the operations of a journal: which are taken back, and what came after it."""

    point: Point
    taken: tuple[Operation, ...]  #: made after the point, the newest first
    seconds: int  #: of the point, since 1970; what was made in a later second came after it
    beside: Operation | None  #: the operation that the point is named after

    @property
    def title(self) -> str:
        """The point in a few words, behind "as it was"."""
        one = self.beside
        if one is None:
            return f"at {self.point.text}"
        return f"{self.point.side} operation {one.id} ({one.created_at})"


def cut_at(point: Point, operations: tuple[Operation, ...]) -> Cut:
    """Where a point lies among *operations*, the newest first, which is also called ``last``.

    Raises:
        NotFoundError: the operation is not among them.
        UsageError: several begin so.
    """
    if point.operation_id is None:
        when = point.when or datetime.now(UTC)
        return Cut(point, operations[: _number_after(when, operations)], int(when.timestamp()), None)
    wanted = operations[0].id if point.operation_id == "last" and operations else point.operation_id
    found = [one for one in operations if one.id == wanted] or [
        one for one in operations if one.id.startswith(wanted)
    ]
    if not found:
        named = "" if wanted == "last" else f"{wanted} "
        raise NotFoundError(
            f"No operation {named}in the history changed this conversation. `lcm-tui history list` lists the "
            "operations.",
            code="OPERATION_NOT_FOUND",
            details={"operationId": wanted},
        )
    if len(found) > 1:
        raise UsageError(
            f"{len(found):,} operations begin with {wanted}. Type more of the id.",
            code="AMBIGUOUS_ID",
            details={"operationId": wanted},
        )
    [one] = found
    place = operations.index(one) + (point.side is Side.BEFORE)
    return Cut(Point(one.id, point.side), operations[:place], seconds_of(one.created_at), one)


def _number_after(when: datetime, operations: tuple[Operation, ...]) -> int:
    """How many of *operations* came after a time: their order holds, and a clock that was wrong says nothing.

    What is older in the history than an operation of then is of then, too, whatever its own time is.
    """
    number = 0
    for place, one in enumerate(operations, 1):
        if (made := parse_utc(one.created_at)) is None:
            continue
        if made <= when:
            break
        number = place
    return number


def seconds_of(stored: str | None) -> int:
    """A stored time as whole seconds since 1970; what is no time is as old as can be."""
    moment = parse_utc(stored)
    return -(2**62) if moment is None else int(moment.timestamp() // 1)
