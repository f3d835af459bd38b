"""The items of a context in order, and what they show by themselves: gaps, repeats, types that do not fit.

Source: docs/format.md, "Numbering"; docs/engine/doctor.md, "Family A: the context".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from lcm_core.records import ContextItem, MessageId, SummaryId, Timestamp

#: What an item names: a summary's id where it names one, else a message's; None when it names neither.
ItemId = SummaryId | MessageId | None
#: From here on an ordinal is no place in a list but what a renumbering left that was cut short.
ABNORMAL_ORDINAL: Final = 10_000_000

_Value = TypeVar("_Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Gap:
    """Ordinals without an item; legitimate after a prune by the host."""

    place: int  #: of the item that follows, counted from 0
    first: int
    last: int


@dataclass(frozen=True)
class ContextItems:
    """The items of one context by ordinal, column by column: ``ordinals[i]``, ``types[i]`` ... are one item.

    A context may hold tens of thousands, and most of them are never looked at. A *place* is an index into the
    columns, counted from 0 whatever the ordinals are.
    """

    ordinals: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    message_ids: tuple[MessageId | None, ...] = ()
    summary_ids: tuple[SummaryId | None, ...] = ()
    created: tuple[Timestamp, ...] = ()
    complete: bool = True  #: False: more items follow these
    signature: str = ""  #: equal for equal lists, and a list that was only appended to begins with it

    @classmethod
    def naming(cls, refs: Iterable[int | str | None], ordinals: Sequence[int] | None = None) -> ContextItems:
        """Items that name some messages and summaries; without *ordinals* they count from 0."""
        named = tuple(refs)
        return cls(
            tuple(range(len(named)) if ordinals is None else ordinals),
            tuple(["summary" if isinstance(ref, str) else "message" for ref in named]),
            tuple([MessageId(ref) if isinstance(ref, int) else None for ref in named]),
            tuple([SummaryId(ref) if isinstance(ref, str) else None for ref in named]),
            (Timestamp(""),) * len(named),
        )

    @classmethod
    def of(cls, items: Sequence[ContextItem]) -> ContextItems:
        """The same items column by column."""
        return cls(
            tuple([item.ordinal for item in items]),
            tuple([item.item_type for item in items]),
            tuple([item.message_id for item in items]),
            tuple([item.summary_id for item in items]),
            tuple([item.created_at for item in items]),
        )

    def __len__(self) -> int:
        return len(self.ordinals)

    def __iter__(self) -> Iterator[ContextItem]:
        columns = (self.ordinals, self.types, self.message_ids, self.summary_ids, self.created)
        return map(ContextItem, *columns)

    def item(self, place: int) -> ContextItem:
        """The item at a place; negative ones count from the end."""
        return ContextItem(
            ordinal=self.ordinals[place],
            item_type=self.types[place],
            message_id=self.message_ids[place],
            summary_id=self.summary_ids[place],
            created_at=self.created[place],
        )

    def then(self, other: ContextItems) -> ContextItems:
        """These items and, behind them, others."""
        return ContextItems(
            self.ordinals + other.ordinals,
            self.types + other.types,
            self.message_ids + other.message_ids,
            self.summary_ids + other.summary_ids,
            self.created + other.created,
            other.complete,
            other.signature,
        )

    def begins_with(self, other: ContextItems) -> bool:
        """Whether all items of another list are here, too, before the rest and as they are there."""
        known = len(other)
        return (
            self.ordinals[:known] == other.ordinals
            and self.message_ids[:known] == other.message_ids
            and self.summary_ids[:known] == other.summary_ids
            and self.types[:known] == other.types
        )

    def named(self) -> Iterator[tuple[MessageId | None, SummaryId | None]]:
        """What each item names, as it is stored: only one of the two, unless it is damaged."""
        return zip(self.message_ids, self.summary_ids, strict=True)

    @cached_property
    def refs(self) -> tuple[ItemId, ...]:
        """What each item names."""
        return tuple([message if summary is None else summary for message, summary in self.named()])

    # -- walks -----------------------------------------------------------------------------------------------

    @cached_property
    def repeated(self) -> Mapping[ItemId, tuple[int, ...]]:
        """The places of what occurs more than once, by what it is."""
        return repeated(self.refs)

    @cached_property
    def abnormal(self) -> frozenset[int]:
        """The places of items whose ordinal is negative or huge."""
        if not self.ordinals or (min(self.ordinals) >= 0 and max(self.ordinals) < ABNORMAL_ORDINAL):
            return frozenset()
        normal = range(ABNORMAL_ORDINAL)
        return frozenset(place for place, ordinal in enumerate(self.ordinals) if ordinal not in normal)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The ordinals that are missing from 0 on; abnormal ones are no places, and open no gap."""
        if self.ordinals == tuple(range(len(self))):
            return ()
        found, expected = [], 0
        for place, ordinal in enumerate(self.ordinals):
            if place not in self.abnormal:
                if ordinal > expected:
                    found.append(Gap(place, expected, ordinal - 1))
                expected = ordinal + 1
        return tuple(found)

    @cached_property
    def mismatched(self) -> frozenset[int]:
        """The places of items whose type does not say what they name: one message, or one summary."""
        fitting = (("message", False, True), ("summary", True, False))
        found = zip(self.types, self.message_ids, self.summary_ids, strict=True)
        return frozenset(
            place
            for place, (kind, message, summary) in enumerate(found)
            if (kind, message is None, summary is None) not in fitting
        )


def repeated(values: Sequence[_Value]) -> dict[_Value, tuple[int, ...]]:
    """The places of what occurs in a column more than once, in order; None is nothing."""
    counts = Counter(values)
    if len(counts) == len(values):
        return {}
    found: dict[_Value, list[int]] = {
        value: [] for value, count in counts.items() if count > 1 and value is not None
    }
    for place, value in enumerate(values) if found else ():
        if value in found:
            found[value].append(place)
    return {value: tuple(places) for value, places in found.items()}
