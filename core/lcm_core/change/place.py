"""Where a splice belongs in a context that may have moved on since it was planned. Pure.

The rule: a run that was in one place is found by what it stands for, whatever became of its neighbours. A
run of which something is elsewhere too, and an insertion, are found by their neighbours; a neighbour that
was compacted since is replaced by the one item whose coverage holds it. Where that leaves a doubt, there is
no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lcm_core.change.plan import Cells, Item, Move, Owner, Ref, Splice, Symbol, Values, ref_of, renumbering

#: Old and new ordinals of rows, in an order in which no two rows ever share one.
Shifts = tuple[tuple[int, int], ...]
#: The summaries that cover an anchor, directly or through others, by what the anchor stands for.
Covering = Mapping[Ref, frozenset[str]]

GONE = "what it replaces is no longer in the context"
NO_PLACE = "its place no longer exists"
SEVERAL = "it is in several places, and they have changed"


@dataclass(slots=True)
class Listing:
    """The items of one context in order, column by column: 35,000 of them are handled under a lock."""

    ordinals: list[int]
    refs: list[Ref]
    rows: list[int | Cells]  #: the rowid in the database, or the row itself when a plan inserts it

    @classmethod
    def of(cls, items: Iterable[tuple[int, Ref]]) -> Listing:
        """A list as a plan is made on it; *items* in order of ordinal."""
        pairs = list(items)
        return cls([ordinal for ordinal, _ in pairs], [ref for _, ref in pairs], list(range(len(pairs))))

    def copy(self) -> Listing:
        """The same list, to be changed."""
        return Listing(self.ordinals[:], self.refs[:], self.rows[:])

    def filled(self, values: Values) -> Listing:
        """The same list with the ids that new rows got."""
        return Listing(
            self.ordinals, [_filled(ref, values) for ref in self.refs] if values else self.refs, self.rows
        )

    def __len__(self) -> int:
        return len(self.refs)

    def item(self, at: int, run: range = range(0)) -> Item | None:
        """What is at a place, counted without a *run*; None beyond the ends."""
        if not 0 <= at < len(self.refs):
            return None
        ref = self.refs[at]
        ahead, inside = self.refs[:at].count(ref), self.refs[run.start : run.stop].count(ref)
        return Item(ref, ahead - (inside if at >= run.stop else 0), self.refs.count(ref) - inside)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a splice goes, and the ordinals that follow from it."""

    start: int  #: index of the first removed item, or of the item that the insertion goes before
    ordinals: tuple[int, ...]  #: of the inserted rows
    shift: int  #: of everything behind


@dataclass(frozen=True, slots=True)
class _Found:
    at: int
    exact: bool  #: the anchor itself; else the item that covers it


def _filled(ref: Ref, values: Values) -> Ref:
    found = values.get(ref.name, ref) if isinstance(ref, Symbol) else ref
    return found if isinstance(found, int | str | Symbol) else None


def count_copies(refs: Sequence[Ref], run: Sequence[Ref]) -> int:
    """How many items stand for what a run stands for: as many as it has, unless something is there twice."""
    wanted = set(run)
    return len([ref for ref in refs if ref in wanted])


def open_anchors(listing: Listing, splice: Splice) -> tuple[Item, ...]:
    """The anchors that `locate` has use for and does not find: what covers them must be asked."""
    if splice.removed and splice.copies[0] == len(splice.removed):
        return ()
    return tuple(
        anchor
        for anchor in (splice.after, splice.before)
        if anchor is not None and anchor.ref not in listing.refs
    )


def locate(listing: Listing, splice: Splice, covering: Covering) -> Place | str:
    """The one place where the splice belongs, or the reason why there is none."""
    if not splice.removed:
        start = _gap(listing.refs, splice, covering)
        return NO_PLACE if start is None else _place(listing, start, splice)
    run = [ref_of(row) for row in splice.removed]
    starts = _starts(listing.refs, run)
    if not starts:
        return GONE
    if count_copies(listing.refs, run) != splice.copies[0]:
        return SEVERAL
    if splice.copies[0] > len(run):
        starts = [start for start in starts if _is_between(listing.refs, start, splice, covering)]
    return _place(listing, starts[0], splice) if len(starts) == 1 else SEVERAL


def _starts(refs: Sequence[Ref], run: Sequence[Ref]) -> list[int]:
    """Every index at which a run begins, item after item."""
    found: list[int] = []
    at = -1
    while True:
        try:
            at = refs.index(run[0], at + 1)
        except ValueError:
            return found
        if list(refs[at : at + len(run)]) == list(run):
            found.append(at)


def _gap(refs: Sequence[Ref], splice: Splice, covering: Covering) -> int | None:
    """The index before which a pure insertion goes."""
    nothing = range(0)
    after = _resolve(refs, splice.after, nothing, covering) if splice.after else None
    before = _resolve(refs, splice.before, nothing, covering) if splice.before else None
    if splice.after is None and splice.before is None:
        return None if refs else 0
    if splice.after is None:
        return 0 if before and before.at == 0 else None
    if after and before:
        return before.at if before.at == after.at + 1 else None
    # An item that covers one neighbour may cover the place itself; only the neighbour proves it alone.
    if after and after.exact:
        return after.at + 1
    return before.at if before and before.exact else None


def _is_between(refs: Sequence[Ref], start: int, splice: Splice, covering: Covering) -> bool:
    """Whether a run's neighbours are the ones it was planned between."""
    run = range(start, start + len(splice.removed))
    for anchor, at, end in ((splice.after, run.start - 1, -1), (splice.before, run.stop, len(refs))):
        found = None if anchor is None else _resolve(refs, anchor, run, covering)
        if at != (end if anchor is None else found.at if found else None):
            return False
    return True


def _resolve(refs: Sequence[Ref], anchor: Item, run: range, covering: Covering) -> _Found | None:
    """The index of an anchor, or of the only item that was made from it since."""
    places = [at for at, ref in enumerate(refs) if ref == anchor.ref and at not in run]
    if places or anchor.copies > 1:
        return _Found(places[anchor.occurrence], True) if len(places) == anchor.copies else None
    summaries = covering.get(anchor.ref, frozenset())
    found = [at for at, ref in enumerate(refs) if ref in summaries and at not in run]
    return _Found(found[0], False) if len(found) == 1 else None


# -- ordinals --------------------------------------------------------------------------------------------


def _place(listing: Listing, start: int, splice: Splice) -> Place:
    """Ordinals as they were planned, moved along with the run; else one after the other."""
    ordinals, count = listing.ordinals, len(splice.removed)
    ahead = ordinals[start - 1] if start else None
    behind = ordinals[start + count] if start + count < len(ordinals) else None
    first = ordinals[start] if count else behind or 0 if ahead is None else ahead + 1
    in_turn = tuple(range(first, first + len(splice.inserted)))
    delta = _translation(ordinals[start : start + count], ahead, behind, splice)
    wanted = [(in_turn, splice.shift)]
    if delta is not None:
        planned = tuple(ordinal + delta for ordinal in _planned(splice.inserted))
        room = planned[-1] + 1 - behind if planned and behind is not None else splice.shift
        wanted[:0] = [(planned, splice.shift), (planned, max(room, splice.shift))]
    for chosen, shift in wanted:
        if _fits(chosen, shift, ahead, behind):
            return Place(start, chosen, shift)
    if count:
        shift = len(in_turn) - count
        lowest = 0 if behind is None else min(0, behind) - behind
        return Place(start, in_turn, shift if behind is None else max(shift, lowest))
    return Place(start, in_turn, 0 if behind is None else max(0, first + len(in_turn) - behind))


def _translation(present: Sequence[int], ahead: int | None, behind: int | None, splice: Splice) -> int | None:
    """By how much the run has moved since it was planned; None when it is not the same any more."""
    planned = _planned(splice.removed)
    if planned:
        deltas = {now - then for now, then in zip(present, planned, strict=True)}
        return deltas.pop() if len(deltas) == 1 else None
    for now, then in ((ahead, splice.gap[0]), (behind, splice.gap[1])):
        if now is not None and then is not None:
            return now - then
    return 0


def _fits(ordinals: Sequence[int], shift: int, ahead: int | None, behind: int | None) -> bool:
    """Whether everything is still in order, and nothing behind gets an ordinal below zero."""
    line = [*([] if ahead is None else [ahead]), *ordinals]
    if behind is not None:
        if behind + shift < min(0, behind):
            return False
        line.append(behind + shift)
    return all(left < right for left, right in pairwise(line))


def _planned(rows: Iterable[Cells]) -> list[int]:
    found = []
    for row in rows:
        ordinal = row["ordinal"]
        if not isinstance(ordinal, int):
            raise TypeError("the rows of a splice have ordinals")
        found.append(ordinal)
    return found


# -- carrying out ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spliced:
    """What a splice did to a list."""

    splice: Splice  #: as it went: ordinals, neighbours and shift of this list
    shifts: Shifts  #: ordinals that change besides
    rowids: tuple[int, ...] | None  #: the rows they belong to, when the database has all of them


def carry_out(
    listing: Listing,
    conversation_id: Owner,
    place: Place,
    removed: Sequence[Cells],
    inserted: Sequence[Cells],
) -> Spliced:
    """Splice a list; *removed* are the rows as they are there."""
    run = range(place.start, place.start + len(removed))
    ordinals, old = listing.ordinals, listing.ordinals[run.stop :]
    # Row by row from the far end, so that no two rows ever share an ordinal.
    turn = slice(None, None, -1 if place.shift > 0 else 1) if place.shift else slice(0)
    shifts = tuple([(ordinal, ordinal + place.shift) for ordinal in old[turn]])
    rowids = _rowids(listing.rows[run.stop :][turn])
    rows = tuple(row.but(ordinal=ordinal) for row, ordinal in zip(inserted, place.ordinals, strict=True))
    gap = (ordinals[run.start - 1] if run.start else None, old[0] if old else None)
    after, before = listing.item(run.start - 1, run), listing.item(run.stop, run)
    refs = [ref_of(row) for row in rows]
    gone = count_copies(listing.refs, listing.refs[run.start : run.stop])
    ordinals[run.start :] = [*place.ordinals, *[ordinal + place.shift for ordinal in old]]
    listing.refs[run.start : run.stop] = refs
    listing.rows[run.start : run.stop] = rows
    copies = (gone, count_copies(listing.refs, refs))
    splice = Splice(conversation_id, after, before, tuple(removed), rows, place.shift, gap, copies)
    return Spliced(splice, shifts, rowids)


def splice_at(
    listing: Listing, conversation_id: Owner, start: int, removed: Sequence[Cells], inserted: Sequence[Cells]
) -> Splice:
    """Plan a splice and carry it out on *listing*, so that the next one can be planned on it.

    *removed* are the whole rows from *start* on. Inserted rows need no ordinal: they take those
    from the first removed one on (or from the place they go to), and what follows shifts by the difference.
    """
    if start + len(removed) > len(listing):
        raise ValueError("the run ends beyond the list")
    ordinals = listing.ordinals
    end = ordinals[-1] + 1 if ordinals else 0
    first = ordinals[start] if start < len(ordinals) else end
    place = Place(start, tuple(range(first, first + len(inserted))), len(inserted) - len(removed))
    return carry_out(listing, conversation_id, place, removed, inserted).splice


def carry_out_moves(listing: Listing, edit: Splice) -> Spliced | str:
    """Renumber a list, or say why its order would change or which item is elsewhere.

    The splice that comes out has the items too that had to move along.
    """
    places: dict[Ref, list[int]] = {}
    for at, ref in enumerate(listing.refs):
        places.setdefault(ref, []).append(at)
    wanted: dict[int, int] = {}
    for move in edit.moves:
        found = places.get(move.item.ref, [])[move.item.occurrence :][:1]
        if not found or listing.ordinals[found[0]] != move.old:
            return f"{move.item.item_type} {move.item.ref} is no longer at ordinal {move.old}"
        wanted[found[0]] = move.new
    new = [wanted.get(at, ordinal) for at, ordinal in enumerate(listing.ordinals)]
    last = max(wanted, default=-1)
    if 0 <= last < len(new) - 1 and new[last] >= new[last + 1]:
        step = new[last] - listing.ordinals[last]
        new[last + 1 :] = [ordinal + step for ordinal in new[last + 1 :]]
    if any(left >= right for left, right in pairwise(new)):
        return "the order of the context would change"
    old = listing.ordinals[:]
    moved = [at for at in range(len(new)) if new[at] != old[at]]
    moves = tuple(Move(_counted(listing, at, places), old[at], new[at]) for at in moved)
    listing.ordinals[:] = new
    down = [at for at in moved if new[at] < old[at]]
    turn = [*down, *(at for at in reversed(moved) if new[at] > old[at])]
    shifts = tuple((old[at], new[at]) for at in turn)
    rowids = _rowids([listing.rows[at] for at in turn])
    return Spliced(renumbering(edit.conversation_id, moves), shifts, rowids)


def moves_from_zero(listing: Listing) -> Iterator[Move]:
    """The moves of the items whose ordinal is not their place in the list."""
    copies, seen = Counter(listing.refs), Counter[Ref]()
    for at, (ref, ordinal) in enumerate(zip(listing.refs, listing.ordinals, strict=True)):
        if ordinal != at:
            yield Move(Item(ref, seen[ref], copies[ref]), ordinal, at)
        seen[ref] += 1


def _counted(listing: Listing, at: int, places: Mapping[Ref, list[int]]) -> Item:
    copies = places[listing.refs[at]]
    return Item(listing.refs[at], copies.index(at), len(copies))


def _rowids(rows: Sequence[int | Cells]) -> tuple[int, ...] | None:
    """The rowids of some rows, if the database has all of them."""
    found = tuple([row for row in rows if isinstance(row, int)])
    return found if len(found) == len(rows) else None
