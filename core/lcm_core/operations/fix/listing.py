"""The edits that make a new list of context items out of the present one. Pure.

First the renumbering, if one is needed, so that everything after it counts on a list without holes; then one
splice for each run that differs. Each is planned on the list as those before it leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lcm_core.change.place import Listing, Place, carry_out, carry_out_moves, moves_from_zero
from lcm_core.change.plan import Cells, Move, Splice, renumbering
from lcm_core.operations.fix.context import Entry, in_order
from lcm_core.operations.rows import context_item, listing_of

#: So many splices at most: each looks through the whole list, and runs that lie close become one.
MOST_SPLICES = 64


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Neighbouring items that give way to others; places in the old and in the new list."""

    old: range
    new: range


def edits_of_list(
    conversation_id: int, rows: Sequence[Cells], entries: Sequence[Entry], *, renumbered: bool, stamp: str
) -> list[Splice]:
    """What makes the list *entries* of the whole *rows*, which are in order of their ordinals."""
    listing, edits = _spliced(conversation_id, rows, entries, stamp, ())
    if not renumbered or listing.ordinals == list(range(len(listing))):
        return edits  # what came took the only gaps
    whole = listing_of(rows)
    moves = tuple(moves_from_zero(whole))
    return _spliced(conversation_id, rows, entries, stamp, moves)[1]


def _spliced(
    conversation_id: int, rows: Sequence[Cells], entries: Sequence[Entry], stamp: str, moves: tuple[Move, ...]
) -> tuple[Listing, list[Splice]]:
    """The list after some ordinals moved and everything that differs gave way, and the edits for it."""
    listing = listing_of(rows)
    edits: list[Splice] = []
    if moves:
        done = carry_out_moves(listing, renumbering(conversation_id, moves))
        if isinstance(done, str):
            raise ValueError(done)
        edits.append(done.splice)
    current = [row.but(ordinal=ordinal) for row, ordinal in zip(rows, listing.ordinals, strict=True)]
    for run in _joined(list(_runs(len(rows), entries))):
        # Runs go from the first on, so that before one the list is the new one already.
        removed = current[run.old.start : run.old.stop]
        inserted = [_row(conversation_id, entries[at], current, stamp) for at in run.new]
        edits.append(_splice(listing, conversation_id, run, removed, inserted))
    return listing, edits


def _row(conversation_id: int, entry: Entry, rows: Sequence[Cells], stamp: str) -> Cells:
    if entry.at is not None:
        return rows[entry.at]
    return context_item(conversation_id, entry.ref, stamp)


def _runs(count: int, entries: Sequence[Entry]) -> Iterator[_Hunk]:
    """Where the two lists differ between the items that stay in their order."""
    staying = in_order([entry.at for entry in entries])
    old = new = 0
    for at in [*staying, len(entries)]:
        end = count if at == len(entries) else entries[at].at
        if end is not None and (old < end or new < at):
            yield _Hunk(range(old, end), range(new, at))
        old, new = (count if end is None else end) + 1, at + 1


def _joined(runs: list[_Hunk]) -> list[_Hunk]:
    """The same with runs that lie close made into one, so that there are few enough."""
    if len(runs) <= MOST_SPLICES:
        return runs
    gaps = [after.old.start - before.old.stop for before, after in pairwise(runs)]
    apart = set(sorted(range(len(gaps)), key=gaps.__getitem__)[-(MOST_SPLICES - 1) :])
    found = [runs[0]]
    for at, run in enumerate(runs[1:]):
        last = found[-1]
        if at in apart:
            found.append(run)
        else:
            found[-1] = _Hunk(range(last.old.start, run.old.stop), range(last.new.start, run.new.stop))
    return found


def _splice(
    listing: Listing, conversation_id: int, run: _Hunk, removed: Sequence[Cells], inserted: Sequence[Cells]
) -> Splice:
    start, behind_at = run.new.start, run.new.start + len(removed)
    ordinals = listing.ordinals
    ahead = ordinals[start - 1] if start else None
    behind = ordinals[behind_at] if behind_at < len(ordinals) else None
    if removed:
        first, shift = ordinals[start], len(inserted) - len(removed)
    elif ahead is None:
        first, shift = (0, 0) if behind is None else (min(behind, 0), 0)
    else:
        first, shift = ahead + 1, 0
    end = first + len(inserted)
    if not removed and behind is not None:
        shift = max(0, end - behind)  # what comes takes the gap that it left
    rows = [row.but(ordinal=listing.ordinals[start + at]) for at, row in enumerate(removed)]
    return carry_out(
        listing, conversation_id, Place(start, tuple(range(first, end)), shift), rows, inserted
    ).splice
