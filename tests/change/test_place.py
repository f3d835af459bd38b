"""A splice is found again at its place, or not at all, whatever a host does to the context meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.change.place import Listing, Place, carry_out, carry_out_moves, locate, open_anchors, splice_at
from lcm_core.change.plan import Cells, Item, Move, Splice, inverse, renumbering


@dataclass
class Entry:
    """An item of the model: an object of its own, also where two stand for the same thing."""

    ref: Any
    low: float  #: the first and the last place in time that it covers
    high: float
    ordinal: int


@dataclass
class Host:
    """A context as a host keeps it, and what its summaries cover."""

    entries: list[Entry]
    made_from: Any = field(default_factory=dict)
    clock: float = 1000.0

    @classmethod
    def starting(cls, refs, gaps: list[int]) -> Host:
        ordinals, following = [], 0
        for gap in gaps:
            following += gap
            ordinals.append(following)
            following += 1
        return cls([Entry(ref, at, at, ordinals[at]) for at, ref in enumerate(refs)])

    def listing(self) -> Listing:
        return Listing.of([(entry.ordinal, entry.ref) for entry in self.entries])

    def append(self, _: float, __: float) -> None:
        self.clock += 1
        last = self.entries[-1].ordinal if self.entries else -1
        self.entries.append(Entry(int(self.clock), self.clock, self.clock, last + 1))

    def compact(self, where: float, size: float) -> None:
        """A run gives way to a summary, and everything is numbered from 0 again.

        Source: docs/spec/format.md, "Numbering".
        """
        if self.entries:
            start = int(where * len(self.entries))
            run = self.entries[start : start + 1 + int(size * 4)]
            name = f"sum_{len(self.made_from)}"
            self.made_from[name] = [entry.ref for entry in run]
            low, high = min(entry.low for entry in run), max(entry.high for entry in run)
            self.entries[start : start + len(run)] = [Entry(name, low, high, 0)]
            for ordinal, entry in enumerate(self.entries):
                entry.ordinal = ordinal

    def prune(self, where: float, size: float) -> None:
        """Some items go, the ordinals of others stay (docs/spec/format.md, "What leaves the context")."""
        start = int(where * len(self.entries))
        del self.entries[start : start + 1 + int(size * 3)]

    def covering(self, anchor) -> frozenset[str]:
        found: set[str] = set()
        waiting = [anchor]
        while waiting:
            ref = waiting.pop()
            over = [name for name, sources in self.made_from.items() if ref in sources and name not in found]
            found.update(over)
            waiting += over
        return frozenset(found)

    def find(self, splice: Splice):
        listing = self.listing()
        covering = {anchor.ref: self.covering(anchor.ref) for anchor in open_anchors(listing, splice)}
        return locate(listing, splice, covering)


moves = st.lists(
    st.tuples(st.sampled_from(["append", "compact", "prune"]), st.floats(0, 0.99), st.floats(0, 0.99)),
    max_size=8,
)
lists = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(1, 60), min_size=size, max_size=size, unique=True),
        st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=size, max_size=size),
    )
)
#: Some things stand twice: damage A3, A4.
lists_with_repeats = st.integers(1, 10).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(1, 5), min_size=size, max_size=size),
        st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=size, max_size=size),
    )
)
parts = st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 4))


def rows_of(refs) -> list[Cells]:
    return [
        Cells.of(
            {
                "conversation_id": 1,
                "item_type": "summary" if isinstance(ref, str) else "message",
                "message_id": None if isinstance(ref, str) else ref,
                "summary_id": ref if isinstance(ref, str) else None,
                "created_at": "now",
            }
        )
        for ref in refs
    ]


def plan_on(host: Host, part) -> tuple[Splice, list[Entry], float]:
    """A splice over some run of a list (perhaps an empty one), the run, and the time of its place."""
    where, size, count = part
    listing = host.listing()
    start = min(int(where * (len(listing) + 1)), len(listing))
    run = host.entries[start : start + int(size * 4)]
    removed = [
        row.but(ordinal=entry.ordinal)
        for row, entry in zip(rows_of([entry.ref for entry in run]), run, strict=True)
    ]
    splice = splice_at(listing, 1, start, removed, rows_of([f"new_{number}" for number in range(count)]))
    return splice, run, start - 0.5


def carry(host: Host, splice: Splice, place, times: list[float]) -> Splice:
    """Carry a splice out on the model, which checks the order of ordinals on its way."""
    listing = host.listing()
    count = len(splice.removed)
    run = host.entries[place.start : place.start + count]
    standing = [row.but(ordinal=entry.ordinal) for row, entry in zip(splice.removed, run, strict=True)]
    done = carry_out(listing, 1, place, standing, splice.inserted)
    assert all(low < high for low, high in pairwise(listing.ordinals)), "two rows share an ordinal"
    rest = [*host.entries[: place.start], *host.entries[place.start + count :]]
    fresh = [
        Entry(ref, time, time, 0)
        for ref, time in zip(
            listing.refs[place.start : place.start + len(splice.inserted)], times, strict=True
        )
    ]
    host.entries = [*rest[: place.start], *fresh, *rest[place.start :]]
    for entry, ordinal in zip(host.entries, listing.ordinals, strict=True):
        entry.ordinal = ordinal
    return done.splice


def play(host: Host, script) -> None:
    for name, where, size in script:
        getattr(host, name)(where, size)


def is_right(host: Host, start: int, run: list[Entry], time: float) -> bool:
    """Whether a place is the one that was planned."""
    if run:
        return host.entries[start : start + len(run)] == run
    before, behind = host.entries[:start], host.entries[start:]
    return all(entry.high < time for entry in before) and all(entry.low > time for entry in behind)


@pytest.mark.long
@given(lists, parts, moves)
def test_a_run_is_found_wherever_the_host_moved_it(given_list, part, script):
    host = Host.starting(*given_list)
    splice, run, time = plan_on(host, part)
    play(host, script)
    place = host.find(splice)
    if isinstance(place, str):
        stands = any(host.entries[at : at + len(run)] == run for at in range(len(host.entries)))
        assert not run or not stands, f"stale though it stands there: {place}"
    else:
        assert is_right(host, place.start, run, time)
        carry(host, splice, place, [time] * len(splice.inserted))


@pytest.mark.long
@given(lists_with_repeats, parts, moves)
def test_where_things_stand_twice_the_right_one_is_found_or_none(given_list, part, script):
    host = Host.starting(*given_list)
    splice, run, time = plan_on(host, part)
    play(host, script)
    place = host.find(splice)
    if not isinstance(place, str):
        found = host.entries[place.start : place.start + len(run)]
        assert [entry.ref for entry in found] == [entry.ref for entry in run]
        assert is_right(host, place.start, run, time)


@pytest.mark.long
@given(lists, parts, moves)
def test_an_inverse_goes_back_to_its_place(given_list, part, script):
    host = Host.starting(*given_list)
    splice, run, time = plan_on(host, part)
    place = host.find(splice)
    assert not isinstance(place, str), "nothing has moved"
    done = carry(host, splice, place, [time] * len(splice.inserted))
    new = host.entries[place.start : place.start + len(splice.inserted)]
    play(host, script)
    back = inverse([done])[0]
    assert isinstance(back, Splice)
    found = host.find(back)
    if not isinstance(found, str):
        assert is_right(host, found.start, new, time)
        carry(host, back, found, [entry.low for entry in run])


@pytest.mark.long
@given(lists, parts, st.integers(0, 3))
def test_undo_restores_every_ordinal_when_the_host_only_appended(given_list, part, appended):
    host = Host.starting(*given_list)
    splice, run, time = plan_on(host, part)
    before = [(entry.ref, entry.ordinal) for entry in host.entries]
    place = host.find(splice)
    assert not isinstance(place, str)
    done = carry(host, splice, place, [time] * len(splice.inserted))
    if not host.entries:
        appended = 0  # what stood in a list that is empty now has no neighbour to be found by
    for _ in range(appended):
        host.append(0, 0)
    [back] = inverse([done])
    assert isinstance(back, Splice)
    found = host.find(back)
    assert not isinstance(found, str), found
    carry(host, back, found, [entry.low for entry in run])
    assert [(entry.ref, entry.ordinal) for entry in host.entries][: len(before)] == before


@pytest.mark.long
@given(lists, parts, parts)
def test_two_changes_are_undone_in_any_order(given_list, first_part, second_part):
    host = Host.starting(*given_list)
    before = [(entry.ref, entry.ordinal) for entry in host.entries]
    done = []
    for number, part in enumerate((first_part, second_part)):
        splice, run, _ = plan_on(host, part)
        renamed = tuple(row.but(summary_id=f"{row['summary_id']}_{number}") for row in splice.inserted)
        splice = Splice(
            1, splice.after, splice.before, splice.removed, renamed, splice.shift, splice.gap, splice.copies
        )
        place = host.find(splice)
        assert not isinstance(place, str)
        done.append((carry(host, splice, place, [0.0] * len(renamed)), [entry.low for entry in run]))
    for splice, times in done:  # the first first
        [back] = inverse([splice])
        assert isinstance(back, Splice)
        found = host.find(back)
        if isinstance(found, str):
            return  # one lies on the other
        carry(host, back, found, times)
    assert [entry.ref for entry in host.entries] == [ref for ref, _ in before]


def test_the_ordinals_of_a_gap_come_back_though_the_run_has_moved():
    host = Host.starting([1, 2, 3, 4], [0, 5, 5, 0])
    listing = host.listing()
    rows = [
        row.but(ordinal=entry.ordinal) for row, entry in zip(rows_of([2, 3]), host.entries[1:3], strict=True)
    ]
    splice = splice_at(listing, 1, 1, rows, rows_of(["new"]))
    place = host.find(splice)
    assert not isinstance(place, str)
    done = carry(host, splice, place, [1.0])
    assert [entry.ordinal for entry in host.entries] == [0, 6, 12]
    for entry in host.entries[1:]:
        entry.ordinal += 100  # something grew in front of it
    [back] = inverse([done])
    assert isinstance(back, Splice)
    found = host.find(back)
    assert not isinstance(found, str)
    carry(host, back, found, [1.0, 2.0])
    assert [entry.ordinal for entry in host.entries] == [0, 106, 112, 113]


def test_an_insertion_next_to_a_neighbour_that_was_compacted_is_found_by_its_coverage():
    host = Host.starting([1, 2, 3, 4], [0, 0, 0, 0])
    splice, _, _ = plan_on(host, (0.4, 0.0, 1))
    assert splice.after == Item(2)
    host.compact(0.0, 0.25)  # 1 and 2
    place = host.find(splice)
    assert not isinstance(place, str)
    assert place.start == 1


def test_an_insertion_within_what_was_compacted_is_stale():
    host = Host.starting([1, 2, 3, 4], [0, 0, 0, 0])
    splice, _, _ = plan_on(host, (0.4, 0.0, 1))
    host.compact(0.25, 0.25)  # 2 and 3
    assert isinstance(host.find(splice), str)


def test_no_ordinal_is_driven_below_zero():
    host = Host.starting([1, 2, 3], [0, 0, 0])
    splice, _, _ = plan_on(host, (0.0, 0.5, 0))
    assert splice.shift == -2
    host.entries[2].ordinal = 1
    host.entries[:2] = [Entry(1, 0, 0, -2), Entry(2, 1, 1, 0)]
    place = host.find(splice)
    assert not isinstance(place, str)
    carry(host, splice, place, [])
    assert [entry.ordinal for entry in host.entries] == [0]


# -- renumbering -----------------------------------------------------------------------------------------


@given(lists, st.integers(0, 3))
def test_closing_gaps_and_opening_them_again_changes_nothing(given_list, appended):
    host = Host.starting(*given_list)
    listing = host.listing()
    before = listing.ordinals[:]
    close = renumbering(
        1,
        tuple(
            Move(Item(ref), old, new)
            for new, (old, ref) in enumerate(zip(listing.ordinals, listing.refs, strict=True))
            if old != new
        ),
    )
    done = carry_out_moves(listing, close)
    assert not isinstance(done, str)
    assert listing.ordinals == list(range(len(before)))
    _replay(before, listing.ordinals, done.shifts)
    for number in range(appended):
        listing.ordinals.append(len(before) + number)
        listing.refs.append(f"later_{number}")
        listing.rows.append(900 + number)
    closed = listing.ordinals[:]
    [back] = inverse([done.splice])
    assert isinstance(back, Splice)
    opened = carry_out_moves(listing, back)
    assert not isinstance(opened, str)
    assert listing.ordinals[: len(before)] == before
    assert all(low < high for low, high in pairwise(listing.ordinals))
    _replay(closed, listing.ordinals, opened.shifts)


@pytest.mark.long
@given(lists, st.integers(0, 8), st.integers(0, 4), st.integers(0, 4))
def test_what_a_splice_shifts_never_shares_an_ordinal(given_list, start, taken, put):
    listing = Host.starting(*given_list).listing()
    start = min(start, len(listing))
    end = min(start + taken, len(listing))
    removed = [
        Cells.of({"message_id": 1, "summary_id": None, "ordinal": ordinal})
        for ordinal in listing.ordinals[start:end]
    ]
    inserted = [Cells.of({"message_id": 900 + number, "summary_id": None}) for number in range(put)]
    first = listing.ordinals[start] if start < len(listing) else (listing.ordinals or [-1])[-1] + 1
    shift = put - len(removed)
    behind = listing.ordinals[end:]
    place = Place(start, tuple(range(first, first + put)), shift)
    done = carry_out(listing, 1, place, removed, inserted)
    assert bool(done.shifts) == bool(shift and behind)
    _replay(behind, listing.ordinals[start + put :], done.shifts)


def _replay(before: list[int], after: list[int], shifts) -> None:
    """Row by row: no two rows may share an ordinal at any time."""
    held = set(before)
    for old, new in shifts:
        held.remove(old)
        assert new not in held
        held.add(new)
    assert held == set(after)


@pytest.mark.parametrize(
    ("moves", "reason"),
    [
        ([Move(Item(2), 9, 1)], "no longer at ordinal 9"),
        ([Move(Item(7), 1, 4)], "no longer at ordinal"),
        ([Move(Item(1), 0, 5), Move(Item(2), 1, 4)], "order"),
        ([Move(Item(1), 0, 1), Move(Item(4), 8, 9)], "order"),
    ],
)
def test_a_renumbering_that_does_not_fit_says_why(moves, reason):
    listing = Host.starting([1, 2, 3, 4], [0, 0, 0, 5]).listing()
    assert reason in str(carry_out_moves(listing, renumbering(1, tuple(moves))))
