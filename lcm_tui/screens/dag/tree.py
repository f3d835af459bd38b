"""The rows of an unfolded tree over a graph that need not be one: places, and which of them are unfolded.

A row is a `Place`: a summary (or message, or heading) and the way that led there, so that a summary under two
consumers has two. Nothing here recurses, and nothing is made for what has never been unfolded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from lcm_core.records import MessageId, SummaryId


class Section(Enum):
    """A heading over summaries that no root in the context leads to."""

    ORPHANS = "orphans"
    CYCLES = "cycles"
    DANGLING = "dangling"


Step: TypeAlias = SummaryId | MessageId | Section
#: What stands directly below a step, each once, in order.
Below: TypeAlias = Callable[[Step], Sequence[Step]]
Way: TypeAlias = tuple[Step, ...]


class Place:
    """A step and the way to it. There is one object per way, so identity is equality."""

    __slots__ = ("_below", "_repeats", "above", "level", "step")

    def __init__(self, above: Place | None, step: Step | None) -> None:
        self.above = above
        self.step: Step | None = step  #: None: the top of the tree, which is no row
        self.level: int = 0 if above is None else above.level + 1  #: rows at the left margin have 1
        self._below: dict[Step, Place] | None = None
        self._repeats: bool | None = None

    def to(self, step: Step) -> Place:
        """The place of *step* right below this one."""
        if self._below is None:
            self._below = {}
        place = self._below.get(step)
        if place is None:
            place = self._below[step] = Place(self, step)
        return place

    def upward(self) -> Iterator[Place]:
        """This place and those above it, without the top."""
        place = self
        while place.above is not None:
            yield place
            place = place.above

    @property
    def path(self) -> Way:
        """The steps from the top to here."""
        return tuple(place.step for place in self.upward() if place.step is not None)[::-1]

    @property
    def repeats(self) -> bool:
        """Whether the same summary stands above: here a cycle closes, and nothing more is unfolded."""
        if self._repeats is None:
            self._repeats = any(place.step == self.step for place in self.upward() if place is not self)
        return self._repeats

    def known_below(self) -> tuple[Place, ...]:
        """The places that were ever made right below this one."""
        return tuple(self._below.values()) if self._below else ()


class Tree:
    """Which places are unfolded, and the rows that follow from it."""

    def __init__(self) -> None:
        self.top = Place(None, None)
        self.unfolded: set[Place] = set()

    def at(self, path: Way) -> Place:
        """The place at the end of a way."""
        place = self.top
        for step in path:
            place = place.to(step)
        return place

    def rows(self, tops: Sequence[Step], below: Below) -> list[Place]:
        """All rows, top to bottom."""
        return self._rows([self.top.to(step) for step in tops], below)

    def rows_below(self, place: Place, below: Below) -> list[Place]:
        """The rows that belong under a place; none while it is folded."""
        if place not in self.unfolded or place.step is None:
            return []
        return self._rows([place.to(step) for step in below(place.step)], below)

    def respliced(self, rows: Sequence[Place], index: int, below: Below) -> list[Place]:
        """The rows after the place at *index* was folded or unfolded, or what is below it has changed."""
        end = index + 1
        while end < len(rows) and rows[end].level > rows[index].level:
            end += 1
        return [*rows[: index + 1], *self.rows_below(rows[index], below), *rows[end:]]

    def unfold_above(self, place: Place) -> bool:
        """Unfold everything that a place stands in; returns whether anything was folded."""
        above = {found for found in place.upward() if found is not place}
        opened = bool(above - self.unfolded)
        self.unfolded |= above
        return opened

    def unfold_all(self, starts: Sequence[Place], sources: Mapping[SummaryId, Sequence[SummaryId]]) -> bool:
        """Unfold *starts* and every summary below them that has sources, each where it stands first.

        Where a summary stands again it stays folded: unfolding every way there is can take forever.

        Returns:
            whether anything was folded.
        """
        before = len(self.unfolded)
        seen = {place.step for start in starts for place in start.upward() if place is not start}
        waiting = list(starts)[::-1]
        while waiting:
            place = waiting.pop()
            step = place.step
            if step in seen or not isinstance(step, str):
                continue
            seen.add(step)
            if found := sources.get(SummaryId(step)):
                self.unfolded.add(place)
                # Only what has sources itself: most of a tree are leaves, and those need no place for this.
                waiting += [place.to(source) for source in reversed(found) if source in sources]
        return len(self.unfolded) > before

    def graft(self, old: Place, new: Place) -> None:
        """Unfold below *new* what is unfolded below *old*: the summary has moved."""
        waiting = [(old, new)]
        while waiting:
            old, new = waiting.pop()
            if old in self.unfolded:
                self.unfolded.add(new)
            waiting += [(place, new.to(place.step)) for place in old.known_below() if place.step is not None]

    def _rows(self, starts: Sequence[Place], below: Below) -> list[Place]:
        rows: list[Place] = []
        waiting = list(starts)[::-1]
        while waiting:
            place = waiting.pop()
            rows.append(place)
            if place in self.unfolded and place.step is not None:
                waiting.extend(place.to(step) for step in reversed(below(place.step)))
        return rows
