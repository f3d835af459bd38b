"""What the summaries of a conversation cover of its messages, by depth, and how the context cuts through.

A place is where a message stands in its conversation, counted from 0 in the order of seq; a run is a
half-open range of places. Everything here is pure, and its work grows with the number of rows and no faster:
what would (`MOST_RUNS`) is coarser and says so. Source: docs/spec/map.md,
"What the picture shows".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate, chain, compress, filterfalse, groupby, islice, pairwise, repeat
from operator import attrgetter, le
from typing import Final, NamedTuple, TypeAlias

from lcm_core.base.records import SummaryId
from lcm_core.base.values import Record, replace
from lcm_core.engine.graph import GraphColumns, SummaryGraph
from lcm_core.engine.markers import Wrong

#: First place and the one behind the last.
Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = tuple[Run, ...]

#: Runs of one summary; of more, those with the smallest holes between them are joined.
MOST_RUNS: Final = 256
#: Of more blocks that begin in a cell an arrow key stops at one alone.
CROWD: Final = 3


class State(Enum):
    """How a summary stands, the worst first: in a cell with others one of the first three decides."""

    BROKEN = "broken"  #: its text is none (docs/spec/doctor.md, "Order of the markers")
    ORPHAN = "orphan"  #: no way leads to it from the context
    STALE = "stale"  #: made from a text that was replaced since
    IN_CONTEXT = "in the context"
    CONSUMED = "consumed"  #: reached from the context through what was made from it

    __hash__ = object.__hash__  # as there is one of each; that of `Enum` is a function of Python's


#: Those of which one in a cell is enough.
WRONG: Final = (State.BROKEN, State.ORPHAN, State.STALE)


class CoverageBlock(NamedTuple):
    """One summary and the messages under it; a tuple, for 12,000 of them are made at once."""

    summary_id: SummaryId
    kind: str
    depth: int  #: as stored
    runs: Runs  #: in order and apart from each other; empty: it covers no message of this conversation
    state: State
    coarse: bool = False  #: some holes between its runs are not shown

    @property
    def first(self) -> int:
        """The place of its first message."""
        return self.runs[0][0]

    @property
    def end(self) -> int:
        """The place behind its last message."""
        return self.runs[-1][1]

    @property
    def messages(self) -> int:
        """How many messages it covers."""
        return sum(end - first for first, end in self.runs)


_COARSE: Final = attrgetter("coarse")
_DEPTH: Final = attrgetter("depth")
_RUNS: Final = attrgetter("runs")
_STATE: Final = attrgetter("state")
_ID: Final = attrgetter("summary_id")


class Level(Record, frozen=True, dict=True):
    """The summaries of one depth, by their first message; those that cover none are elsewhere."""

    depth: int
    blocks: tuple[CoverageBlock, ...]

    @cached_property
    def firsts(self) -> list[int]:
        """The places at which they begin."""
        return [runs[0][0] for runs in map(_RUNS, self.blocks)]

    @cached_property
    def ends(self) -> list[int]:
        """The places behind their last messages."""
        return [runs[-1][1] for runs in map(_RUNS, self.blocks)]

    @cached_property
    def reach(self) -> list[int]:
        """The furthest end among each and those before it."""
        return list(accumulate(self.ends, max))

    @cached_property
    def holed(self) -> tuple[CoverageBlock, ...]:
        """Those that do not cover every message from their first to their last."""
        several = map((1).__lt__, map(len, map(_RUNS, self.blocks)))
        return tuple(compress(self.blocks, several))

    @cached_property
    def whole(self) -> Mapping[State, tuple[list[int], list[int]]]:
        """Of the others in each state the first places and the ends, both in order."""
        blocks, firsts, ends = self.blocks, self.firsts, self.ends
        if self.holed:
            blocks = tuple([block for block in blocks if len(block.runs) == 1])
            firsts, ends = [block.first for block in blocks], [block.end for block in blocks]
        states = list(map(_STATE, blocks))
        if states.count(states[0] if states else State.BROKEN) == len(states):
            return {states[0]: (firsts, sorted(ends))} if states else {}
        found = {}
        for state in set(states):
            here = [one is state for one in states]
            found[state] = list(compress(firsts, here)), sorted(compress(ends, here))
        return found

    @cached_property
    def doubled(self) -> Runs:
        """The messages that several of them cover: what each covers of those before it."""
        if not self.holed and all(map(le, self.ends, islice(self.firsts, 1, None))):
            return ()
        runs = sorted(chain.from_iterable(map(_RUNS, self.blocks)))
        found: list[Run] = []
        reach = 0
        for first, end in runs:
            if first < reach:
                found.append((first, min(end, reach)))
            reach = max(reach, end)
        return joined(found)

    def within(self, run: Run) -> Sequence[CoverageBlock]:
        """The blocks that may touch a run, in order; none of the others does."""
        return self.blocks[bisect_right(self.reach, run[0]) : bisect_left(self.firsts, run[1])]


class Piece(Record, frozen=True):
    """A run of messages that stand in the context in one way."""

    first: int
    end: int
    depth: (
        int | None
    )  #: of the summary that stands for them; None: they stand there themselves, or not at all
    times: int  #: items of the context that hold them; 0: it does not hold them at all
    item: int | None  #: place of the first such item among those of the context


class Coverage(Record, frozen=True, dict=True):
    """The map of one conversation."""

    seqs: Sequence[int]  #: of the messages, by place
    levels: tuple[Level, ...]  #: the deepest first
    cut: tuple[Piece, ...]  #: what the context holds, from the first message to the last
    tail: int  #: the place of the first message of the fresh tail; without one that behind the last message
    unplaced: tuple[CoverageBlock, ...]  #: summaries that cover no message of this conversation
    dangling: tuple[SummaryId, ...]  #: ids that the context or a summary names, without a row here
    columns: GraphColumns

    @property
    def graph(self) -> SummaryGraph:
        """The summaries with what they were made from."""
        return self.columns.graph

    @property
    def messages(self) -> int:
        """How many messages the conversation has."""
        return len(self.seqs)

    @cached_property
    def blocks(self) -> Mapping[SummaryId, CoverageBlock]:
        """Every summary by its id."""
        return dict(zip(map(_ID, self._each()), self._each(), strict=True))

    @cached_property
    def lost(self) -> Runs:
        """The messages that the context does not hold: neither they nor a summary of them are in it."""
        return joined((piece.first, piece.end) for piece in self.cut if not piece.times)

    @cached_property
    def doubled(self) -> Runs:
        """The messages that the context holds more than once."""
        return joined((piece.first, piece.end) for piece in self.cut if piece.times > 1)

    @cached_property
    def counts(self) -> Mapping[State, int]:
        """How many summaries there are in each state."""
        found = Counter(map(_STATE, self._each()))
        return {state: found[state] for state in State}

    @cached_property
    def coarse(self) -> int:
        """How many summaries are drawn without some of their holes."""
        return sum(map(_COARSE, self._each()))

    def _each(self) -> Iterable[CoverageBlock]:
        return chain(chain.from_iterable([level.blocks for level in self.levels]), self.unplaced)

    def prepare(self) -> Coverage:
        """Work out now what a picture needs, in a thread rather than on the event loop."""
        for level in self.levels:
            _ = level.whole, level.doubled
        _ = self.blocks, self.counts, self.coarse, self.lost, self.doubled
        return self

    def level_of(self, summary_id: SummaryId) -> int | None:
        """The row in which a summary stands, counted from the deepest; None: in none."""
        block = self.blocks.get(summary_id)
        if block is None or not block.runs:
            return None
        return next(row for row, level in enumerate(self.levels) if level.depth == block.depth)

    def marked(self, wrong: Wrong) -> Coverage:
        """The same when it is known which summaries are broken, and which are stale."""
        states = _states(self.graph, wrong.broken, wrong.stale)
        return replace(
            self,
            levels=tuple(Level(level.depth, _in_states(level.blocks, states)) for level in self.levels),
            unplaced=_in_states(self.unplaced, states),
        ).prepare()


def _in_states(
    blocks: Iterable[CoverageBlock], states: Mapping[SummaryId, State]
) -> tuple[CoverageBlock, ...]:
    return tuple(
        block if block.state is states[block.summary_id] else block._replace(state=states[block.summary_id])
        for block in blocks
    )


def cover(
    standing: Standing,
    links: Mapping[SummaryId, Runs],
    seqs: Sequence[int],
    items: Sequence[int | SummaryId | None],
    tail: int | None = None,
) -> Coverage:
    """The map of a conversation.

    *links*: the messages that each summary is linked to itself. *items*: what the context holds, in order; a
    message by its place, what is not of this conversation as None. *tail*: where the fresh tail begins.
    """
    columns = standing.columns
    runs, coarse = _below(standing, links)
    covering: list[tuple[Run, int]] = []
    for at, item in enumerate(items):
        if isinstance(item, int):
            covering.append(((item, item + 1), at))
        elif item is not None and item in columns.at:
            covering += ((run, at) for run in runs[columns.at[item]])
    covering.sort()
    rough = map(coarse.__contains__, range(len(runs))) if coarse else repeat(False, len(runs))
    rows = zip(columns.ids, columns.kinds, columns.depths, runs, standing.states, rough, strict=True)
    blocks = list(map(tuple.__new__, repeat(CoverageBlock), rows))
    placed = list(filter(_RUNS, blocks))
    placed.sort(key=_DEPTH, reverse=True)
    return Coverage(
        seqs,
        tuple(Level(depth, tuple(sorted(found, key=_RUNS))) for depth, found in groupby(placed, _DEPTH)),
        tuple(_with_depths(cut_of(covering, len(seqs)), items, columns)),
        len(seqs) if tail is None else tail,
        tuple(filterfalse(_RUNS, blocks)),
        standing.dangling,
        columns,
    )


class Standing:
    """What the summaries of a conversation tell of each other, whatever messages they are linked to.

    Summaries are numbers here, in the order of the columns, and no function of our own is called for each of
    them: 12,000 take two thirds of the time so.
    """

    def __init__(self, columns: GraphColumns) -> None:
        self.columns = columns
        at, depths = columns.at, columns.depths
        self.sources: defaultdict[int, list[int]] = defaultdict(list)
        dangling = not at.keys() >= set(columns.in_context)
        for consumer, source in zip(
            map(at.__getitem__, columns.consumers), map(at.get, columns.sources), strict=True
        ):
            if source is None:
                dangling = True
            else:
                self.sources[consumer].append(source)
        self.dangling = columns.graph.dangling if dangling else ()
        self._in_turn = sorted(self.sources, key=depths.__getitem__)
        #: Deeper than all its sources is every summary that an engine made: then no order has to be found.
        deep = depths.__getitem__
        self._simple = all(max(map(deep, self.sources[one])) < deep(one) for one in self._in_turn)
        self.states = self._states()  #: as far as no text decides

    def rings(self) -> Iterable[Sequence[int]]:
        """The summaries that have sources, each behind them: alone, or with its whole cycle."""
        if self._simple:
            return zip(self._in_turn)
        at = self.columns.at
        rings = [tuple(map(at.__getitem__, ring)) for ring in self.columns.graph.rings_first]
        return [ring for ring in rings if ring[0] in self.sources]

    def _states(self) -> list[State]:
        at = self.columns.at
        held = [at[one] for one in self.columns.in_context if one in at]
        states = [State.ORPHAN] * len(at)
        for one in held if self._simple else map(at.__getitem__, self.columns.graph.live):
            states[one] = State.CONSUMED
        if self._simple:
            for one in reversed(self._in_turn):
                if states[one] is State.CONSUMED:
                    for source in self.sources[one]:
                        states[source] = State.CONSUMED
        for one in held:
            states[one] = State.IN_CONTEXT
        return states


def _below(standing: Standing, links: Mapping[SummaryId, Runs]) -> tuple[list[Runs], set[int]]:
    """What each summary covers through everything under it, and those of which that is coarse."""
    runs: list[Runs] = list(map(links.get, standing.columns.ids, repeat(())))
    sources, coarse = standing.sources, set[int]()
    for one in [one for one, own in enumerate(runs) if len(own) > MOST_RUNS and one not in sources]:
        runs[one], _ = _closed(runs[one])
        coarse.add(one)
    for ring in standing.rings():
        if len(ring) == 1 and not coarse and not runs[ring[0]]:
            run = _in_a_row(list(map(runs.__getitem__, sources[ring[0]])))
            if run:
                runs[ring[0]] = run
                continue
        under = {*ring, *chain.from_iterable(map(sources.__getitem__, ring))}
        found, closed = _closed(joined(chain.from_iterable(map(runs.__getitem__, under))))
        if closed or not coarse.isdisjoint(under):
            coarse.update(ring)
        for one in ring:
            runs[one] = found
    return runs, coarse


def _in_a_row(sources: Sequence[Runs]) -> Runs:
    """The one run of sources that follow each other, as an engine condenses them; none of others."""
    if not all(sources):
        return ()
    first = end = sources[0][0][0]
    for found in sources:
        if found[0][0] != end or len(found) > 1:
            return ()
        end = found[0][1]
    return ((first, end),)


def _states(
    graph: SummaryGraph, broken: Collection[SummaryId], stale: Collection[SummaryId]
) -> dict[SummaryId, State]:
    """The state of each, in the order of the graph."""
    live, nodes = graph.live, graph.nodes
    found = dict.fromkeys(nodes, State.ORPHAN)
    found |= dict.fromkeys(live, State.CONSUMED)
    found |= dict.fromkeys(live.intersection(graph.in_context), State.IN_CONTEXT)
    found |= dict.fromkeys(live.intersection(stale), State.STALE)
    found |= dict.fromkeys([one for one in broken if one in nodes], State.BROKEN)
    return found


def _with_depths(
    pieces: Iterable[Piece], items: Sequence[int | SummaryId | None], columns: GraphColumns
) -> Iterable[Piece]:
    for piece in pieces:
        item = None if piece.item is None else items[piece.item]
        if isinstance(item, str):
            piece = replace(piece, depth=columns.depths[columns.at[item]])
        yield piece


# -- runs ------------------------------------------------------------------------------------------------


def joined(runs: Iterable[Run]) -> Runs:
    """Runs in any order as the fewest that hold the same places, in order."""
    ordered = sorted(runs)
    if len(ordered) > 1:
        firsts, ends = zip(*ordered, strict=True)
        if firsts[1:] == ends[:-1]:
            return ((firsts[0], ends[-1]),)
    found: list[Run] = []
    for first, end in ordered:
        if found and first <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return tuple(found)


def runs_of(places: Iterable[int]) -> Runs:
    """Single places as runs."""
    return joined((place, place + 1) for place in places)


def _closed(runs: Runs) -> tuple[Runs, bool]:
    """At most `MOST_RUNS` of some runs, the smallest holes closed; and whether any was."""
    if len(runs) <= MOST_RUNS:
        return runs, False
    holes = sorted(range(1, len(runs)), key=lambda at: runs[at - 1][1] - runs[at][0])[: MOST_RUNS - 1]
    bounds = [0, *sorted(holes), len(runs)]
    return tuple((runs[a][0], runs[b - 1][1]) for a, b in pairwise(bounds)), True


def cut_of(covering: Sequence[tuple[Run, int]], messages: int = 0) -> list[Piece]:
    """Runs of several items, in order, as pieces that follow each other, without depths.

    From 0 to *messages* there is a piece for each place. Where items overlap the first of them counts.
    """
    pieces: list[Piece] = []
    active: list[tuple[int, int]] = []  # item and end; a heap, in which those that have ended linger
    ends: list[int] = []  # a heap
    at, place, waiting = 0, 0, len(covering)
    while True:
        while at < waiting and covering[at][0][0] <= place:
            (_, end), item = covering[at]
            heappush(active, (item, end))
            heappush(ends, end)
            at += 1
        while ends and ends[0] <= place:
            heappop(ends)
        while active and active[0][1] <= place:
            heappop(active)
        following = [*ends[:1], *([covering[at][0][0]] if at < waiting else ())]
        until = min(following, default=messages)
        if until <= place:
            return pieces
        if ends or place < messages:
            _append(pieces, Piece(place, until, None, len(ends), active[0][0] if ends else None))
        place = until


def _append(pieces: list[Piece], piece: Piece) -> None:
    last = pieces[-1] if pieces else None
    if last and (last.end, last.times, last.item) == (piece.first, piece.times, piece.item):
        pieces[-1] = replace(last, end=piece.end)
    else:
        pieces.append(piece)


# -- cells -----------------------------------------------------------------------------------------------


class Scale(Record, frozen=True):
    """A run of messages over a number of cells, each of which stands for one message at least."""

    first: int
    end: int  #: behind the last; after *first*
    width: int  #: cells

    @property
    def messages(self) -> int:
        """How many messages there are in sight."""
        return self.end - self.first

    def run_at(self, cell: int) -> Run:
        """The messages that a cell stands for."""
        first = self.first + cell * self.messages // self.width
        return first, max(first + 1, self.first + (cell + 1) * self.messages // self.width)

    def cells_of(self, run: Run) -> range:
        """The cells that a run of messages touches."""
        first, end = max(run[0], self.first) - self.first, min(run[1], self.end) - self.first
        if first >= end:
            return range(0)
        return range(
            min(
                -(-first * self.width // self.messages),
                ((first + 1) * self.width - 1) // self.messages,
            ),
            (end * self.width - 1) // self.messages + 1,
        )

    def zoomed(self, factor: float, around: int, messages: int, least: int) -> Scale:
        """*factor* times as many messages in sight, *around* at the same cell as far as can be.

        Never more than all *messages*, never fewer than *least*.
        """
        wanted = min(max(round(self.messages * factor), min(least, messages), 1), messages)
        share = (min(max(around, self.first), self.end - 1) - self.first) / self.messages
        first = round(around - share * wanted)
        first = min(max(first, 0), messages - wanted)
        return Scale(first, first + wanted, self.width)

    def showing(self, run: Run, messages: int) -> Scale:
        """As many messages in sight, moved no further than it takes to show a run, or its beginning."""
        first = self.first
        if run[1] > first + self.messages:
            first = run[1] - self.messages
        first = max(0, min(first, run[0], messages - self.messages))
        return Scale(first, first + self.messages, self.width)


class Cell(Record, frozen=True):
    """What a cell of a level shows."""

    counts: tuple[int, ...]  #: summaries that touch it, by state in the order of `State`
    begins: bool  #: one of them begins in it
    doubled: bool  #: several of them cover the same message here

    @property
    def summaries(self) -> int:
        """How many touch it."""
        return sum(self.counts)

    @property
    def state(self) -> State | None:
        """The state that it is drawn in; None: nothing is there.

        One that is broken, orphaned or stale decides, in that order. Else what more of them are; of as many,
        in the context.
        """
        by_state = dict(zip(State, self.counts, strict=True))
        for state in WRONG:
            if by_state[state]:
                return state
        if not self.summaries:
            return None
        held, consumed = by_state[State.IN_CONTEXT], by_state[State.CONSUMED]
        return State.IN_CONTEXT if held >= consumed else State.CONSUMED


EMPTY: Final = Cell((0,) * len(State), begins=False, doubled=False)
_PLACE_OF = {state: place for place, state in enumerate(State)}


def cells_of(level: Level, scale: Scale) -> list[Cell]:
    """A level as the cells of one row, *scale.width* of them however many summaries it has.

    Summaries without a hole are counted, not looked at: those that touch a cell are those that begin before
    its end, but for those that end before it.
    """
    counts = [_counts(level.whole.get(state), scale) for state in State]
    for block in level.holed:
        _count_holed(block, counts[_PLACE_OF[block.state]], scale)
    begins = _begins(level, scale)
    doubled = touched_by(level.doubled, scale)
    return [
        Cell(count, begun, twice) if any(count) else EMPTY
        for count, begun, twice in zip(zip(*counts, strict=True), begins, doubled, strict=True)
    ]


def _counts(whole: tuple[list[int], list[int]] | None, scale: Scale) -> list[int]:
    """How many of some summaries without a hole touch each cell."""
    if whole is None:
        return [0] * scale.width
    firsts, ends = whole
    runs = map(scale.run_at, range(scale.width))
    return [bisect_left(firsts, end) - bisect_right(ends, first) for first, end in runs]


def _count_holed(block: CoverageBlock, counts: list[int], scale: Scale) -> None:
    """Count a summary in the cells that it touches, once in each."""
    counted = -1
    for run in block.runs[max(bisect_right(block.runs, (scale.first, scale.end)) - 1, 0) :]:
        if run[0] >= scale.end:
            break
        for cell in scale.cells_of(run):
            if cell > counted:
                counts[cell] += 1
                counted = cell


def _begins(level: Level, scale: Scale) -> list[bool]:
    """In which cells a summary begins: of several cells for one message in the first."""
    found, before = [], None
    for run in map(scale.run_at, range(scale.width)):
        begun = run != before and bisect_left(level.firsts, run[0]) < bisect_left(level.firsts, run[1])
        found.append(begun)
        before = run
    return found


def touched_by(runs: Runs, scale: Scale) -> list[bool]:
    """Which cells some runs touch; the runs in order and apart."""
    found = [False] * scale.width
    for run in runs[max(bisect_right(runs, (scale.first, scale.end)) - 1, 0) :]:
        if run[0] >= scale.end:
            break
        for cell in scale.cells_of(run):
            found[cell] = True
    return found


class Held(Enum):
    """How the context holds what a cell of its row stands for, the worst first."""

    LOST = "not in the context"
    DOUBLED = "twice in the context"
    SUMMARY = "through a summary"
    RAW = "raw"
    TAIL = "fresh tail"


#: Of these one message in a cell is enough.
FIRST_SEEN: Final = (Held.LOST, Held.DOUBLED, Held.TAIL)


class CutCell(Record, frozen=True):
    """What a cell of the context's row shows: one of `FIRST_SEEN`, else what holds most of its messages."""

    held: Held
    depth: int | None  #: of the summary, if it is one


def cut_cells(coverage: Coverage, scale: Scale) -> list[CutCell]:
    """The context's cut as the cells of one row; of several ways with as many messages the first counts."""
    starts = [piece.first for piece in coverage.cut]
    at = max(bisect_right(starts, scale.first) - 1, 0)
    found: list[CutCell] = []
    for number in range(scale.width):
        first, end = scale.run_at(number)
        while at + 1 < len(starts) and starts[at + 1] <= first:
            at += 1
        here, shares = at, dict[CutCell, int]()
        while here < len(starts) and starts[here] < end:
            piece = coverage.cut[here]
            low, high = max(piece.first, first), min(piece.end, end)
            for cell, share in _shares(piece, low, high, coverage.tail):
                shares[cell] = shares.get(cell, 0) + share
            here += 1
        worst = next((cell for kind in FIRST_SEEN for cell in shares if cell.held is kind), None)
        found.append(worst or max(shares, key=shares.__getitem__))
    return found


def _shares(piece: Piece, low: int, high: int, tail: int) -> list[tuple[CutCell, int]]:
    """How a part of a piece is held, and how many messages of it."""
    if not piece.times:
        return [(CutCell(Held.LOST, None), high - low)]
    if piece.times > 1:
        return [(CutCell(Held.DOUBLED, piece.depth), high - low)]
    if piece.depth is not None:
        return [(CutCell(Held.SUMMARY, piece.depth), high - low)]
    between = min(max(tail, low), high)
    parts = [(CutCell(Held.RAW, None), between - low), (CutCell(Held.TAIL, None), high - between)]
    return [part for part in parts if part[1]]


# -- moving ----------------------------------------------------------------------------------------------


def beside(level: Level, block: CoverageBlock, scale: Scale, side: int) -> CoverageBlock | None:
    """The block before (-1) or behind (1) another in its row; None: there is none.

    Where more than `CROWD` begin in its cell, the others of the cell are passed over; where as many begin in
    the next one, its first is taken.
    """
    firsts = level.firsts
    at = bisect_left(firsts, block.first)
    while level.blocks[at].summary_id != block.summary_id:
        at += 1
    crowd = _beginning_with(level, block.first, scale)
    if len(crowd) > CROWD:
        at = crowd.stop - 1 if side > 0 else crowd.start
    at += side
    if not 0 <= at < len(firsts):
        return None
    crowd = _beginning_with(level, firsts[at], scale)
    return level.blocks[crowd.start if len(crowd) > CROWD else at]


def _beginning_with(level: Level, place: int, scale: Scale) -> range:
    """The blocks of a row that begin in the same cell as a message."""
    width, number, at = scale.width, scale.messages, place - scale.first
    first, end = scale.run_at(min(-(-at * width // number), ((at + 1) * width - 1) // number))
    return range(bisect_left(level.firsts, first), bisect_left(level.firsts, end))


def nearest(level: Level, place: int) -> CoverageBlock | None:
    """The first block of a level that covers a place, else the one that begins nearest to it."""
    if not level.blocks:
        return None
    for block in level.within((place, place + 1)):
        at = bisect_right(block.runs, (place, place + 1)) - 1
        if any(first <= place < end for first, end in block.runs[max(at, 0) : at + 2]):
            return block
    return min(level.blocks, key=lambda block: abs(block.first - place))


def beyond(coverage: Coverage, block: CoverageBlock, side: int) -> CoverageBlock | None:
    """The block to go to in a row above (-1) or below (1); None: there is no such row.

    It is what was made from the block, or its first source; without one what covers its first message there.
    """
    graph = coverage.graph
    relatives = graph.consumers if side < 0 else graph.sources
    row = coverage.level_of(block.summary_id)
    if row is None:
        return None
    known = (coverage.blocks.get(one) for one in relatives.get(block.summary_id, ()))
    fitting = [one for one in known if one is not None and one.runs and (one.depth - block.depth) * side < 0]
    if fitting:
        return min(fitting, key=lambda one: (abs(one.depth - block.depth), one.first))
    following = row + side
    if not 0 <= following < len(coverage.levels):
        return None
    return nearest(coverage.levels[following], block.first)
