"""What comes into a context in the place of a summary that is gone (A2). Pure.

Links and edges outlive a summary that was deleted with foreign keys off, and tell what it was made from. Each
of these sources comes once, and none that the context reaches already.
"""

from __future__ import annotations

from collections.abc import Iterator

from lcm_core.checks.structure import Structure
from lcm_core.records import SummaryId


class Remains:
    """What may still come, while one gone summary after the other is replaced."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._reached = set(structure.live)  #: summaries that the context reaches
        self._held = bytearray(
            1 if raw or covered == 2 else 0
            for raw, covered in zip(structure.raw, structure.linked, strict=True)
        )
        self._seen: set[SummaryId] = set()  #: on the way down; lines of the gone may go in circles

    def of(self, gone: SummaryId) -> Iterator[int | SummaryId]:
        """What is left of a summary that is gone, in order; nothing when a summary that is read covers it."""
        structure = self._structure
        if gone in self._seen or not self._reached.isdisjoint(structure.consumers.get(gone, ())):
            return
        self._seen.add(gone)
        for source in structure.remains.get(gone, ()):
            yield from self._source(source)

    def _source(self, source: int | SummaryId) -> Iterator[int | SummaryId]:
        structure = self._structure
        if isinstance(source, int):
            place = structure.messages.position.get(source)
            if place is not None and not self._held[place] and not structure.messages.events[place]:
                self._held[place] = 1
                yield source
        elif source not in structure.nodes:
            yield from self.of(source)
        elif source not in self._reached:
            below = list(structure.below([source]))
            places = [place for node in below for place in structure.places(node)]
            if self._reached.isdisjoint(below) and not any(self._held[place] for place in places):
                self._reached.update(below)
                for place in places:
                    self._held[place] = 1
                yield source
            elif source not in self._seen:
                # Part of it is in sight: the rest comes in finer form.
                self._seen.add(source)
                for edge in structure.edges.get(source, ()):
                    yield from self._source(edge.source)
                for place in structure.places(source):
                    yield from self._source(structure.messages.ids[place])
