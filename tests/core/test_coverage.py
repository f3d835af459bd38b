"""The coverage map: against a slow account of every single message, and over the recorded databases."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.engine import coverage
from lcm_core.engine.coverage import (
    Cell,
    Held,
    Level,
    Scale,
    Standing,
    State,
    beside,
    beyond,
    cells_of,
    cover,
    cut_cells,
    nearest,
    runs_of,
)
from lcm_core.engine.coverage import CoverageBlock as Block
from lcm_core.engine.graph import GraphColumns
from lcm_core.engine.markers import BadKind, Wrong
from lcm_core.engine.rules import engine_rules
from lcm_core.store.conversations import list_conversations
from lcm_core.store.coverage import linked_runs, read_coverage
from lcm_core.store.summaries import broken_in

from tests.conftest import DatabaseFactory
from tests.databases import building, connect, new_database, reading
from tests.support import VERSIONS

NAMES = [f"sum_{number:x}" for number in range(8)]


@dataclass(frozen=True)
class World:
    """The rows of a conversation, however damaged."""

    messages: int
    depths: Any
    edges: Any
    links: Any
    items: Any
    broken: Any
    stale: Any
    tail: int

    def map(self):
        edges = [edge for edge in self.edges if edge[0] in self.depths]
        columns = GraphColumns(
            list(self.depths),
            ["condensed" if depth else "leaf" for depth in self.depths.values()],
            list(self.depths.values()),
            [consumer for consumer, _ in edges],
            [source for _, source in edges],
            tuple(item for item in self.items if isinstance(item, str)),
        )
        links = {name: runs_of(found) for name, found in self.links.items() if found}
        seqs = range(1, self.messages + 1)
        wrong = Wrong(dict.fromkeys(self.broken, BadKind.EMPTY), self.stale)
        return cover(Standing(columns), links, seqs, self.items, self.tail).marked(wrong)

    # -- the slow account ----------------------------------------------------------------------------------

    def reached(self, start):
        """Everything that can be reached by edges from some summaries, those among them."""
        found, size = set(start), -1
        while len(found) != size:
            size = len(found)
            found |= {source for consumer, source in self.edges if consumer in found}
        return found

    def places(self, name) -> set[int]:
        """The messages under a summary."""
        met = self.reached([name]) & set(self.depths)
        return set().union(*(self.links.get(one, set()) for one in met))

    def state(self, name) -> State:
        held = {item for item in self.items if isinstance(item, str)}
        if name in self.broken:
            return State.BROKEN
        if name not in self.reached(held):
            return State.ORPHAN
        if name in self.stale:
            return State.STALE
        return State.IN_CONTEXT if name in held else State.CONSUMED

    def holding(self, place: int):
        """The items of the context that hold a message."""
        return [
            item
            for item in self.items
            if item == place or (isinstance(item, str) and item in self.depths and place in self.places(item))
            if item is not None
        ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Gaps, double coverage, orphans, cycles, ids without a row, leaves with holes, nothing at all."""
    messages = draw(st.integers(0, 24))
    present = NAMES[: draw(st.integers(0, 6))]
    depths = {name: draw(st.integers(0, 3)) for name in present}
    named, place = st.sampled_from(NAMES), st.integers(0, max(messages - 1, 0))
    links = {}
    for name in present if messages else ():
        first, last = draw(place), draw(place)
        links[name] = set(range(first, last + 1)) | set(draw(st.lists(place, max_size=2)))
    edges = draw(st.lists(st.tuples(st.sampled_from(present), named), max_size=10)) if present else []
    raw = place if messages else st.none()
    return World(
        messages,
        depths,
        edges,
        links,
        draw(st.lists(st.one_of(named, raw, st.none()), max_size=8)),
        set(draw(st.lists(named, max_size=2))),
        set(draw(st.lists(named, max_size=2))),
        draw(st.integers(0, messages)),
    )


def places_in(block: Block) -> set[int]:
    return {place for first, end in block.runs for place in range(first, end)}


@pytest.mark.long
@given(worlds())
def test_blocks_pieces_and_what_is_lost_are_what_counting_single_messages_finds(world: World) -> None:
    made = world.map()
    assert {name: (places_in(block), block.state) for name, block in made.blocks.items()} == {
        name: (world.places(name), world.state(name)) for name in world.depths
    }
    assert [level.depth for level in made.levels] == sorted(
        {one.depth for one in made.levels for one in one.blocks}, reverse=True
    )
    assert all(block.depth == level.depth for level in made.levels for block in level.blocks)
    assert all(not block.runs for block in made.unplaced)
    assert [place for piece in made.cut for place in range(piece.first, piece.end)] == list(
        range(world.messages)
    )
    for piece in made.cut:
        for place in range(piece.first, piece.end):
            holding = world.holding(place)
            assert len(holding) == piece.times
            first = holding[0] if holding else None
            assert piece.depth == (world.depths[first] if isinstance(first, str) else None)
    everywhere = range(world.messages)
    assert made.lost == runs_of(place for place in everywhere if not world.holding(place))
    assert made.doubled == runs_of(place for place in everywhere if len(world.holding(place)) > 1)


@pytest.mark.long
@given(worlds(), st.data())
def test_a_cell_shows_what_the_messages_in_it_show(world: World, data: st.DataObject) -> None:
    made = world.map()
    if not world.messages:
        assert made.cut == ()
        return
    first = data.draw(st.integers(0, world.messages - 1))
    scale = Scale(first, data.draw(st.integers(first + 1, world.messages)), data.draw(st.integers(1, 30)))
    runs = [scale.run_at(cell) for cell in range(scale.width)]
    assert sorted({place for run in runs for place in range(*run)}) == list(range(scale.first, scale.end))
    for level in made.levels:
        cells = cells_of(level, scale)
        assert len(cells) == scale.width
        for run, cell in zip(runs, cells, strict=True):
            there = {block.summary_id for block in level.blocks if places_in(block) & set(range(*run))}
            assert Counter(world.state(name) for name in there) == {
                state: count for state, count in zip(State, cell.counts, strict=True) if count
            }
            twice = [
                place for place in range(*run) if sum(place in places_in(one) for one in level.blocks) > 1
            ]
            assert cell.doubled == bool(twice)
    for run, cut in zip(runs, cut_cells(made, scale), strict=True):
        held = [world.holding(place) for place in range(*run)]
        if any(not holding for holding in held):
            assert cut.held is Held.LOST
        elif any(len(holding) > 1 for holding in held):
            assert cut.held is Held.DOUBLED
        elif any(
            isinstance(one[0], int) and at >= world.tail for at, one in zip(range(*run), held, strict=True)
        ):
            assert cut.held is Held.TAIL
        elif len(held) == 1 and isinstance(held[0][0], str):
            assert (cut.held, cut.depth) == (Held.SUMMARY, world.depths[held[0][0]])
        elif len(held) == 1:
            assert cut.held is Held.RAW


@pytest.mark.long
@given(worlds())
def test_arrows_meet_every_block_of_a_row_and_lead_up_and_down_until_there_is_no_row(world: World) -> None:
    made = world.map()
    for level in made.levels:
        scale = Scale(0, world.messages, max(world.messages, 1))
        met = [level.blocks[0]]
        while (block := beside(level, met[-1], scale, 1)) is not None:
            met.append(block)
        crowds = Counter(block.first for block in level.blocks)
        expected, last = [], -1
        for block in level.blocks:
            if crowds[block.first] <= coverage.CROWD or block.first != last:
                expected.append(block)
            last = block.first
        assert met == expected
        back = [met[-1]]
        while (block := beside(level, back[-1], scale, -1)) is not None:
            back.append(block)
        assert back == met[::-1]
    rows = len(made.levels)
    for row, level in enumerate(made.levels):
        for block in level.blocks:
            for side in (-1, 1):
                there = beyond(made, block, side)
                assert (there is None) == (not 0 <= row + side < rows)
                if there is not None:
                    assert ((made.level_of(there.summary_id) or 0) - row) * side > 0
            found = nearest(level, block.first)
            assert found is not None
            assert block.first in places_in(found)


@pytest.mark.long
@given(worlds())
def test_what_falls_into_many_pieces_is_coarser_and_says_so(world: World) -> None:
    whole = world.map()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "MOST_RUNS", 2)
        coarse = world.map()
    for name, block in coarse.blocks.items():
        exact = whole.blocks[name]
        assert len(block.runs) <= 2
        assert places_in(block) >= places_in(exact)
        assert block.coarse or block.runs == exact.runs
        if exact.runs:
            assert (block.first, block.end) == (exact.first, exact.end)


@pytest.mark.long
@given(worlds())
def test_a_ring_comes_behind_what_it_was_made_from_and_holds_every_summary_once(world: World) -> None:
    graph = world.map().graph
    rings = graph.rings_first
    assert Counter(one for ring in rings for one in ring) == Counter(list(world.depths))
    done = set()
    for ring in rings:
        for one in ring:
            assert set(graph.sources.get(one, ())) & set(graph.nodes) <= done | set(ring)
            assert all(other in world.reached([one]) for other in ring)
        done |= set(ring)


def test_zooming_keeps_a_message_in_sight_and_never_leaves_the_conversation() -> None:
    scale = Scale(0, 1_000, 70)
    closer = scale.zoomed(0.5, 900, 1_000, 8)
    assert (closer.messages, closer.end) == (500, 950)
    closest = closer.zoomed(0.001, 900, 1_000, 8)
    assert closest.messages == 8
    assert closest.first <= 900 < closest.end
    assert closest.zoomed(1_000, 900, 1_000, 8) == scale
    assert scale.zoomed(0.5, 0, 3, 8) == Scale(0, 3, 70)
    assert closer.showing((100, 200), 1_000) == Scale(100, 600, 70)
    assert closer.showing((940, 990), 1_000) == Scale(490, 990, 70)
    assert closer.showing((420, 1_000), 1_000) == Scale(420, 920, 70)


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ((1, 9, 9, 9, 9), State.BROKEN),
        ((0, 1, 9, 9, 9), State.ORPHAN),
        ((0, 0, 1, 9, 9), State.STALE),
        ((0, 0, 0, 2, 2), State.IN_CONTEXT),
        ((0, 0, 0, 2, 3), State.CONSUMED),
        ((0, 0, 0, 0, 0), None),
    ],
)
def test_one_bad_summary_decides_a_cell_and_else_the_more(counts: tuple[int, ...], state: State | None):
    assert Cell(counts, begins=False, doubled=False).state is state


@pytest.mark.long
def test_twelve_thousand_summaries_are_as_many_cells_as_a_dozen() -> None:
    blocks = tuple(
        Block(f"sum_{at}", "leaf", 0, ((at * 8, at * 8 + 8),), State.CONSUMED) for at in range(12_000)
    )
    cells = cells_of(Level(0, blocks), Scale(0, 96_000, 70))
    assert len(cells) == 70
    assert {cell.state for cell in cells} == {State.CONSUMED}
    assert sum(cell.summaries for cell in cells) >= 12_000


# -- read ------------------------------------------------------------------------------------------------


async def maps_of(database: Database):
    rules = engine_rules(database.schema).tail
    found = {}
    for entry in await database.read(list_conversations):
        owner = entry.conversation.conversation_id
        found[owner] = await database.read(read_coverage, owner, rules)
    return found


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", VERSIONS)
async def test_recorded_conversations_are_covered_without_a_hole_by_what_their_rows_say(
    version: str, database_file: DatabaseFactory
):
    path = database_file(version)
    async with await Database.open(path) as database:
        maps = await maps_of(database)
    with reading(path) as rows:
        for owner, made in maps.items():
            seqs = [
                seq
                for [seq] in rows.execute(
                    "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", (owner,)
                )
            ]
            assert list(made.seqs) == seqs
            summaries = dict(
                rows.execute("SELECT summary_id, depth FROM summaries WHERE conversation_id = ?", (owner,))
            )
            assert {name: block.depth for name, block in made.blocks.items()} == summaries
            for name in summaries:
                said = rows.execute(
                    """WITH RECURSIVE below(id) AS (SELECT ? UNION SELECT parent_summary_id
                    FROM summary_parents JOIN below ON summary_id = below.id)
                    SELECT DISTINCT seq FROM below JOIN summary_messages ON summary_id = below.id
                    JOIN messages USING (message_id) WHERE conversation_id = ?""",
                    (name, owner),
                ).fetchall()
                assert {seqs[place] for place in places_in(made.blocks[name])} == {seq for [seq] in said}


@pytest.mark.long
async def test_a_map_takes_as_many_statements_for_many_summaries_as_for_few(tmp_path):
    counts = []
    for leaves in (2, 300):
        path = new_database(tmp_path / f"{leaves}.db")
        with building(path) as rows:
            rows.conversation(1)
            for number in range(leaves):
                said = [rows.message(1, f"{number} {at}") for at in range(3)]
                rows.summary(1, f"sum_{number}", messages=said, in_context=True)
        async with await Database.open(path) as database:
            before = database.statements
            [made] = (await maps_of(database)).values()
            counts.append(database.statements - before)
        assert made.counts[State.IN_CONTEXT] == leaves
    assert counts[0] == counts[1] == 16


async def test_damage_is_where_the_rows_have_it(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        maps = await maps_of(database)
        one = maps[1]
        assert one.blocks["sum_9960da692838a8de"].state is State.ORPHAN
        broken = await database.read(broken_in, 1)
        assert broken
        blocks = one.marked(Wrong(broken, frozenset())).blocks
        assert {name for name, block in blocks.items() if block.state is State.BROKEN} == broken.keys()


async def test_a_message_without_a_seq_has_its_place(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("CREATE TABLE loose AS SELECT * FROM messages")
        connection.execute("DROP TABLE messages")
        connection.execute("ALTER TABLE loose RENAME TO messages")
        connection.execute("UPDATE messages SET seq = NULL WHERE conversation_id = 1 AND seq = 9")
    async with await Database.open(path) as database:
        found = await database.read(linked_runs, 1)
    assert list(found.seqs) == [-1, *range(1, 9), *range(10, 385)]


IDS = (
    *(("summaries", "summary_id"), ("context_items", "summary_id"), ("summary_messages", "summary_id")),
    *(("summary_parents", "summary_id"), ("summary_parents", "parent_summary_id")),
)


@pytest.mark.parametrize("holes", [False, True])
async def test_ids_that_are_stored_as_bytes_are_those_that_they_spell(
    holes: bool, database_copy: DatabaseFactory
):
    path, owner = database_copy("0.15.3"), 1
    with connect(path) as connection:
        if holes:
            connection.execute("DELETE FROM messages WHERE conversation_id = 1 AND seq = 100")
    async with await Database.open(path) as database:
        before = await database.read(read_coverage, owner, engine_rules(database.schema).tail)
    with connect(path) as connection:
        some = "(SELECT rowid FROM summaries WHERE conversation_id = 1 AND (depth > 2 OR rowid % 5 = 0))"
        spelled = [
            one for (one,) in connection.execute(f"SELECT summary_id FROM summaries WHERE rowid IN {some}")
        ]
        for table, column in IDS:
            connection.executemany(
                f"UPDATE {table} SET {column} = CAST({column} AS BLOB) WHERE {column} = ?",
                [(one,) for one in spelled],
            )
    async with await Database.open(path) as database:
        after = await database.read(read_coverage, owner, engine_rules(database.schema).tail)
    assert len(spelled) > 5
    assert dict(after.blocks) == dict(before.blocks)
    assert after.counts == before.counts


@pytest.mark.parametrize("holes", [False, True])
async def test_links_are_read_as_what_they_name(tmp_path: Path, holes: bool):
    """Rows of ids, holes in them, messages of others, values that are no ids."""
    rng = random.Random(7)
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        rows.conversation(1)
        rows.conversation(2)
        others = [rows.message(2, "first") for _ in range(3)]
        mine = [rows.message(1, str(at)) for at in range(9)]
        others += [rows.message(2, "between") for _ in range(2 if holes else 0)]
        mine += [rows.message(1, str(at)) for at in range(9)]
        others += [rows.message(2, "last") for _ in range(3)]
        names = [rows.summary(1, f"sum_{at}") and f"sum_{at}" for at in range(40)]
    linked: dict[str, set[int]] = {}
    with connect(path) as connection:
        for name in names:
            every = sorted([*mine, *others])
            first, last = sorted(rng.sample(range(len(every)), 2))
            chosen = set(every[first : last + 1]) - set(rng.sample(every, rng.choice([0, 0, 1, 2])))
            values: list[object] = [
                *chosen,
                *rng.choice([[], [], [mine[3] + 0.5], ["no id"], [b"x", 10**18]]),
            ]
            rng.shuffle(values)
            linked[name] = {mine.index(one) for one in chosen if one in mine}
            connection.executemany(
                "INSERT INTO summary_messages VALUES (?, ?, ?)",
                [(name, one, at) for at, one in enumerate(values)],
            )
    async with await Database.open(path) as database:
        found = await database.read(linked_runs, 1)
    assert list(found.seqs) == list(range(1, 19))
    assert [found.place_of(one) for one in [*mine, *others]] == [*range(18), *[None] * len(others)]
    places = {name: {at for run in runs for at in range(*run)} for name, runs in found.links.items()}
    assert places == {name: some for name, some in linked.items() if some}
