"""Where stepping through a conversation's past stops: our operations, and the host's compactions.

The journal has no compaction of a host. Its summaries have times, so the moment before it is a time like any
other: what is shown there, and what is not known of it, is that of docs/past.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from lcm_core.base.times import iso_z
from lcm_core.base.values import Record
from lcm_core.change.journal import Operation
from lcm_core.change.place import Tables
from lcm_core.operations.past import SUMMARIES, Read, made_by, operations_on, taken_of
from lcm_core.operations.past_point import Point, cut_at
from lcm_core.store.opening import Rows

#: Summaries that are made so soon after each other belong to one compaction: a model takes its time.
TOGETHER_SECONDS: Final = 300


class Compaction(Record, frozen=True):
    """Summaries that the host made one soon after the other."""

    began: int  #: when the first one was stored, in seconds since 1970
    summaries: int

    @property
    def created_at(self) -> str:
        """When the first one was stored."""
        return iso_z(datetime.fromtimestamp(self.began, UTC))

    @property
    def point(self) -> Point:
        """The last second before it."""
        return Point(when=datetime.fromtimestamp(self.began, UTC) - timedelta(seconds=1))


Stop: TypeAlias = Operation | Compaction


def point_before(stop: Stop) -> Point:
    """The moment before an operation or a compaction."""
    return stop.point if isinstance(stop, Compaction) else Point(stop.id)


def stops_on(db: Rows, tables: Tables, conversation_id: int, read: Read) -> tuple[Stop, ...]:
    """The operations that changed a conversation and the compactions of its host, the newest first."""
    operations = operations_on(db, conversation_id, read)
    touching = [one for one in operations if any(row.table == SUMMARIES for row in one.rows)]
    ours = made_by([taken_of(db, one, read) for one in touching])
    compactions = _compactions(db, tables, conversation_id, ours)
    stops: list[Stop] = list(operations)
    for place, one in enumerate(compactions):
        # Those before it in the list are in already.
        stops.insert(place + len(cut_at(one.point, operations).taken), one)
    return tuple(stops)


def stops_since(stops: Sequence[Stop], point: Point) -> int:
    """How many of *stops* came after a point.

    Raises:
        NotFoundError: the operation of the point is not among them.
        UsageError: several begin so.
    """
    cut = cut_at(point, tuple([stop for stop in stops if isinstance(stop, Operation)]))
    for place, stop in enumerate(stops):
        if point_before(stop) == cut.point:
            return place + 1
    ids = {one.id for one in cut.taken}
    return sum(stop.began > cut.seconds if isinstance(stop, Compaction) else stop.id in ids for stop in stops)


def _compactions(db: Rows, tables: Tables, conversation_id: int, ours: Collection[str]) -> list[Compaction]:
    """The newest first."""
    if "created_at" not in tables.get(SUMMARIES, ()):
        return []
    rows = db.tuples(
        """SELECT summary_id, CAST(strftime('%s', created_at) AS INTEGER) AS made FROM main.summaries
        WHERE conversation_id = ? AND made IS NOT NULL ORDER BY made""",
        (conversation_id,),
    )
    found: list[Compaction] = []
    last = 0
    for name, made in rows:
        if name in ours:
            continue
        if found and made - last <= TOGETHER_SECONDS:
            found[-1] = Compaction(found[-1].began, found[-1].summaries + 1)
        elif made >= _FIRST:
            found.append(Compaction(made, 1))
        last = made
    return found[::-1]


#: No engine is older: what is stored with an earlier time says nothing of when it was made.
_FIRST: Final = 946_684_800  # 2000-01-01
