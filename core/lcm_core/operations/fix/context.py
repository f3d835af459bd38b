"""The items of a context as the fixes leave them. Pure: the new list, made once for all fixes together.

Where a summary is gone (A2), links and edges that outlived it, deleted with foreign keys off, tell what it
was made from. Each of these sources comes once, and none that the context reaches already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lcm_core.checks import Limits
from lcm_core.checks.context import dangling, is_at_home, owners_elsewhere
from lcm_core.checks.placing import fallen, known_order, lost_blocks, true_order
from lcm_core.checks.proofs import run_of
from lcm_core.checks.structure import Structure
from lcm_core.context_items import ContextItems
from lcm_core.findings import FixId
from lcm_core.operations.fix.requests import Chosen
from lcm_core.records import SummaryId


class Keep(StrEnum):
    """What stays where a summary and all that it covers are side by side in a context."""

    SUMMARIES = "summaries"
    SOURCES = "sources"


@dataclass(frozen=True, slots=True)
class Entry:
    """An item of the new list."""

    ref: int | str | None
    at: int | None  #: its place in the present list; None: it is new


@dataclass(slots=True)
class NewContext:
    """The new list, and what happened to it."""

    entries: list[Entry]
    renumbered: bool  #: ordinals count from 0 again
    dangling: int = 0
    sources: int = 0  #: of summaries that are gone, in their place
    foreign: int = 0
    repeated: int = 0  #: items for what is there already
    covered: int = 0
    copies: tuple[int, ...] = ()  #: messages that were stored again
    restored: int = 0
    moved: int = 0  #: items that are elsewhere in the list, so that all are in order


#: The fixes that change a context.
CONTEXT_FIXES = frozenset(
    {
        FixId.CLOSE_GAPS,
        FixId.DROP_DANGLING_ITEMS,
        FixId.DROP_DUPLICATE_ITEMS,
        FixId.DROP_COVERED_ITEMS,
        FixId.DROP_FOREIGN_ITEMS,
        FixId.REORDER,
        FixId.DROP_REPEATED_MESSAGES,
        FixId.RESTORE_MESSAGES,
        FixId.RESTORE_SUMMARIES,
    }
)


def new_context(
    structure: Structure,
    fixes: Mapping[FixId, Chosen],
    spare: Collection[int],
    limits: Limits,
    keep: Keep,
) -> NewContext:
    """The context of *structure* with some fixes made; *spare* are the copies that are to go."""
    items = structure.items
    order = true_order(structure) if FixId.CLOSE_GAPS in fixes else None
    places = range(len(items)) if order is None else order
    found = NewContext([Entry(items.refs[at], at) for at in places], order is not None)
    if FixId.DROP_DANGLING_ITEMS in fixes:
        _replace_dangling(structure, found)
    if FixId.DROP_FOREIGN_ITEMS in fixes:
        found.foreign = _drop(found, set(_foreign(structure)))
    if FixId.DROP_DUPLICATE_ITEMS in fixes:
        found.repeated = _drop(found, set(_repeated(found.entries)))
    if FixId.DROP_COVERED_ITEMS in fixes:
        gone = _covering(structure, found.entries) if keep is Keep.SOURCES else set()
        found.covered = _drop(found, {at for ref in gone for at in _at(found.entries, ref)})
        found.covered += _drop(found, set(_covered(structure, found.entries)))
    if FixId.DROP_REPEATED_MESSAGES in fixes:
        wanted = set(spare)
        copies = [entry for entry in found.entries if entry.ref in wanted and isinstance(entry.ref, int)]
        found.copies = tuple(dict.fromkeys(entry.ref for entry in copies if isinstance(entry.ref, int)))
        _drop(found, {entry.at for entry in copies if entry.at is not None})
    coming: list[tuple[int, int | str]] = []
    if FixId.RESTORE_MESSAGES in fixes:
        for block in lost_blocks(structure, limits):
            coming += (
                (at, structure.messages.ids[at]) for at in run_of(structure, (block.first, block.last))
            )
    if FixId.RESTORE_SUMMARIES in fixes:
        coming += ((structure.spans[orphan][0], orphan) for orphan in fallen(structure))
    held = {entry.ref for entry in found.entries}
    coming = [one for one in coming if one[1] not in held and one[1] not in spare]
    found.restored = len(coming)
    found.entries = _merged(structure, found.entries, sorted(coming, key=lambda one: one[0]))
    if FixId.REORDER in fixes:
        _reorder(structure, found)
    return found


def _replace_dangling(structure: Structure, found: NewContext) -> None:
    """Items for what is gone give way to what is left of it."""
    remains, gone = Remains(structure), frozenset(dangling(structure))
    entries: list[Entry] = []
    for entry in found.entries:
        if entry.at not in gone:
            entries.append(entry)
            continue
        found.dangling += 1
        if isinstance(entry.ref, str):
            coming = [Entry(ref, None) for ref in remains.of(SummaryId(entry.ref))]
            found.sources += len(coming)
            entries += coming
    found.entries = entries


def _foreign(structure: Structure) -> Iterator[int]:
    """The items for rows of another conversation whose own context reaches them."""
    return (at for at in owners_elsewhere(structure) if is_at_home(structure, at))


def _reorder(structure: Structure, found: NewContext) -> None:
    order = known_order(structure, ContextItems.naming(entry.ref for entry in found.entries))
    if order is not None:
        found.moved = len(order) - len(in_order(order))
        found.entries = [found.entries[at] for at in order]


def in_order(places: Sequence[int | None]) -> list[int]:
    """Indices of the longest part of *places* that ascends: what need not move."""
    ends: list[int] = []  # the least last place of a part of each length
    at_end: list[int] = []
    before: list[int] = [-1] * len(places)
    for index, place in enumerate(places):
        if place is None:
            continue
        length = bisect_left(ends, place)
        before[index] = at_end[length - 1] if length else -1
        ends[length : length + 1], at_end[length : length + 1] = [place], [index]
    found: list[int] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        found.append(index)
        index = before[index]
    return found[::-1]


def _drop(found: NewContext, gone: Collection[int]) -> int:
    """Take items out by their place in the list as it stood; how many went."""
    before = len(found.entries)
    found.entries = [entry for entry in found.entries if entry.at not in gone]
    return before - len(found.entries)


def _at(entries: Iterable[Entry], ref: int | str) -> Iterator[int]:
    return (entry.at for entry in entries if entry.ref == ref and entry.at is not None)


def _repeated(entries: Iterable[Entry]) -> Iterator[int]:
    """All but the first item for the same thing."""
    seen: set[int | str] = set()
    for entry in entries:
        if entry.ref in seen and entry.at is not None:
            yield entry.at
        if entry.ref is not None:
            seen.add(entry.ref)


def _covered(structure: Structure, entries: Sequence[Entry]) -> Iterator[int]:
    """The items that a summary beside them covers; summaries on a circle cover each other and stay."""
    held = [SummaryId(entry.ref) for entry in entries if isinstance(entry.ref, str)]
    under = set(structure.graph.below(edge.source for top in held for edge in structure.edges.get(top, ())))
    under -= structure.graph.cyclic
    linked = {place for node in structure.graph.below(held) for place in structure.places(node)}
    for entry in entries:
        place = None if isinstance(entry.ref, str) else structure.messages.position.get(entry.ref or 0)
        if entry.at is not None and (entry.ref in under or place in linked):
            yield entry.at


def _covering(structure: Structure, entries: Sequence[Entry]) -> set[str]:
    """The summaries of a context all of whose messages are in it in finer form."""
    held = {entry.ref for entry in entries}
    found: set[str] = set()
    for summary_id in structure.summaries_in_context:
        if summary_id in held and _is_there_in_finer_form(structure, summary_id, held):
            found.add(summary_id)
    return found


def _is_there_in_finer_form(
    structure: Structure, summary_id: SummaryId, held: Collection[int | str | None]
) -> bool:
    waiting, seen = [summary_id], {summary_id}
    while waiting:
        node = waiting.pop()
        messages = [structure.messages.ids[place] for place in structure.places(node)]
        sources = [edge.source for edge in structure.edges.get(node, ())]
        if not messages and not sources:
            return False
        if any(message not in held for message in messages):
            return False
        for source in sources:
            if source not in held and source not in seen:
                if source not in structure.nodes:
                    return False
                seen.add(source)
                waiting.append(source)
    return True


def _merged(
    structure: Structure, entries: Sequence[Entry], coming: Sequence[tuple[int, int | str]]
) -> list[Entry]:
    """The list with what comes, by place: each behind the last item that begins before it."""
    if not coming:
        return list(entries)
    behind: dict[int, list[Entry]] = {}
    starts = [_start(structure, entry.ref) for entry in entries]
    ranked = sorted((start, at) for at, start in enumerate(starts) if start is not None)
    step, best = 0, -1
    for place, ref in coming:
        while step < len(ranked) and ranked[step][0] <= place:
            best, step = ranked[step][1], step + 1
        behind.setdefault(best, []).append(Entry(ref, None))
    found = behind.get(-1, [])
    for at, entry in enumerate(entries):
        found.append(entry)
        found += behind.get(at, [])
    return found


def _start(structure: Structure, ref: int | str | None) -> int | None:
    """The first place that an item covers."""
    if isinstance(ref, str):
        span = structure.spans.get(SummaryId(ref))
        return None if span is None else span[0]
    return None if ref is None else structure.messages.position.get(ref)


class Remains:
    """What may still come, while one gone summary after the other is replaced."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._reached = set(structure.graph.live)  #: summaries that the context reaches
        self._held = bytearray(
            1 if raw or covered == 2 else 0
            for raw, covered in zip(structure.raw, structure.linked, strict=True)
        )
        self._seen: set[SummaryId] = set()  #: on the way down; lines of the gone may go in circles

    def of(self, gone: SummaryId) -> Iterator[int | SummaryId]:
        """What is left of a summary that is gone, in order; nothing when a summary that is read covers it."""
        structure = self._structure
        if gone in self._seen or not self._reached.isdisjoint(structure.graph.consumers.get(gone, ())):
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
            below = structure.graph.below([source])
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
