"""What the screens of the history read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property

from lcm_core.change.journal import Operation, edits_of, operations, undone_now
from lcm_core.change.plan import Edit
from lcm_core.change.undo import undone_by
from lcm_core.store.database import Reader
from lcm_core.times import format_zoned, parse_utc

from lcm_tui.views.history import HistoryLine, ListedOperation


@dataclass(frozen=True)
class History:
    """Operations, newest first."""

    operations: tuple[Operation, ...] = ()
    undone: Mapping[str, str | None] = field(default_factory=dict)  #: what undoes each now
    more: bool = False  #: there are older ones

    @cached_property
    def by_id(self) -> Mapping[str, Operation]:
        """The operations by their ids, newest first."""
        return {one.id: one for one in self.operations}

    @cached_property
    def batches(self) -> Mapping[str, Sequence[Operation]]:
        """The operations that were committed together, newest first; one alone is no batch."""
        found: dict[str, list[Operation]] = {}
        for one in self.operations:
            if one.batch is not None:
                found.setdefault(one.batch, []).append(one)
        return {name: held for name, held in found.items() if len(held) > 1}

    def line(self, key: str) -> HistoryLine:
        """A line of the list, by the id of an operation or of a batch.

        Raises:
            KeyError: there is none.
        """
        found = self.batches.get(key) or (self.by_id[key],)
        by = self.undone.get
        listed = [ListedOperation(one, self.holds(one), by(one.id)) for one in found]
        return HistoryLine(listed, whole=key in self.batches or found[0].batch not in self.batches)

    def holds(self, one: Operation) -> bool:
        """Whether what an operation did holds now."""
        return self.undone.get(one.id) is None


async def load_history(reader: Reader, limit: int, conversation_id: int | None) -> History:
    """The newest operations, in one transaction."""
    found = await reader.run(operations, limit=limit + 1, conversation_id=conversation_id)
    return History(tuple(found[:limit]), undone_now(found), len(found) > limit)


async def load_operation(reader: Reader, one: Operation) -> tuple[tuple[Edit, ...], str | None]:
    """The edits of an operation and what undoes it now."""
    return await reader.run(edits_of, one), await undone_by(reader, one.id)


def when_of(one: Operation, zone: tzinfo | None) -> str:
    """When an operation was committed, in the zone that is shown."""
    return format_zoned(parse_utc(one.created_at), zone) or one.created_at
