"""The summary graph: walks over anything that can stand in the tables, and over the recorded databases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database, SummaryGraph
from lcm_core.base.records import Edge
from lcm_core.engine.graph import PlainNode
from lcm_core.store.conversations import list_conversations
from lcm_core.store.summaries import load_graph

from tests.conftest import DatabaseFactory
from tests.support import VERSIONS

#: Ids of which the first few have rows: an edge or the context may name any of them.
NAMES = [f"sum_{number:x}" for number in range(9)]
names = st.sampled_from(NAMES)


def graph_of(
    edges: list[tuple[str, str]],
    in_context: Sequence[str] = (),
    present: int | list[str] = 9,
) -> SummaryGraph:
    rows = NAMES[:present] if isinstance(present, int) else list(present)
    ordered = [Edge(consumer, source, ordinal) for ordinal, (consumer, source) in enumerate(edges)]
    nodes = [PlainNode(name, "leaf", 0) for name in rows]
    return SummaryGraph.build(nodes, ordered, list(in_context))


@st.composite
def graphs(draw: st.DrawFn) -> SummaryGraph:
    """Cycles, edges to oneself, shared sources, repeated edges, ids without a row."""
    present = draw(st.integers(0, 8))
    known = NAMES[:present]
    edges = draw(st.lists(st.tuples(st.sampled_from(known), names), max_size=24)) if known else []
    return graph_of(edges, draw(st.lists(names, max_size=6)), present)


@st.composite
def acyclic(draw: st.DrawFn) -> SummaryGraph:
    """Graphs in which every source was made before its consumer."""
    pairs = draw(st.lists(st.tuples(names, names), max_size=24))
    return graph_of([(max(pair), min(pair)) for pair in pairs if pair[0] != pair[1]])


def on_cycle(graph: SummaryGraph, node) -> bool:
    return node in graph.walk(graph.sources.get(node, ()))


@pytest.mark.long
@given(graphs())
def test_every_summary_is_reached_from_roots_or_orphans_or_lies_on_or_below_a_cycle(
    graph: SummaryGraph,
) -> None:
    led_to = set(graph.walk((*graph.roots, *graph.orphans)))
    assert led_to.isdisjoint(graph.unreachable)
    assert led_to | set(graph.unreachable) >= set(graph.nodes)
    assert set(graph.roots).isdisjoint(graph.orphans)


@pytest.mark.long
@given(graphs())
def test_what_nothing_leads_to_is_met_from_the_cycle_heads_and_no_head_could_be_spared(
    graph: SummaryGraph,
) -> None:
    heads = graph.cycle_heads
    assert set(graph.walk(heads)) >= set(graph.unreachable)
    assert all(on_cycle(graph, head) for head in heads)
    for spared in heads:
        others = [head for head in heads if head != spared]
        assert spared not in set(graph.walk(others))


@pytest.mark.long
@given(graphs())
def test_a_walk_meets_everything_below_once(graph: SummaryGraph) -> None:
    for start in graph.nodes:
        walked = list(graph.walk([start]))
        assert len(walked) == len(set(walked))
        assert walked[0] == start
        closed = {start} | {source for node in walked for source in graph.sources.get(node, ())}
        assert closed == set(walked)


@pytest.mark.long
@given(graphs())
def test_first_visits_lead_back_to_the_start_without_going_in_circles(graph: SummaryGraph) -> None:
    starts = [*graph.roots, *graph.orphans, *graph.cycle_heads, *graph.dangling]
    visits = graph.first_visits(starts)
    assert list(visits) == list(graph.walk(starts))
    assert set(visits) == set(graph.nodes) | set(graph.dangling)
    for node in visits:
        way = [node]
        while (consumer := visits[way[-1]]) is not None:
            assert way[-1] in graph.sources[consumer]
            way.append(consumer)
            assert len(way) <= len(visits)
        assert way[-1] in starts


@pytest.mark.long
@given(acyclic())
def test_bottom_up_puts_every_source_before_its_consumers(graph: SummaryGraph) -> None:
    for start in graph.nodes:
        order = graph.bottom_up(start)
        place = {node: index for index, node in enumerate(order)}
        assert order[-1] == start
        assert set(order) == set(graph.walk([start]))
        assert all(place[source] < place[node] for node in order for source in graph.sources.get(node, ()))
    assert not graph.unreachable
    assert not any(on_cycle(graph, node) for node in graph.nodes)


@pytest.mark.long
@given(graphs())
def test_bottom_up_names_everything_once_even_on_cycles(graph: SummaryGraph) -> None:
    for start in graph.nodes:
        order = graph.bottom_up(start)
        assert sorted(order) == sorted(graph.walk([start]))


@pytest.mark.long
@given(graphs())
def test_sources_first_leaves_out_what_lies_on_a_cycle_or_above_one(graph: SummaryGraph) -> None:
    order = {node: at for at, node in enumerate(graph.sources_first)}
    others = {node: [one for one in graph.sources.get(node, ()) if one != node] for node in graph.nodes}
    for node in graph.nodes:
        known = [one for one in others[node] if one in graph.nodes]
        assert (node in order) == all(one in order for one in known)
        assert all(order[one] < order[node] for one in known if node in order)
    assert graph.cyclic.isdisjoint(order)


@pytest.mark.long
@given(graphs())
def test_each_ring_leads_back_to_its_beginning_and_without_them_there_is_none(graph: SummaryGraph) -> None:
    for ring in graph.rings:
        assert len(set(ring)) == len(ring) > 1
        assert all(after in graph.consumers[before] for before, after in pairwise((*ring, ring[0])))
    taken = {node for ring in graph.rings for node in ring}
    assert taken <= graph.cyclic
    left = [(node, one) for node in graph.nodes for one in graph.sources.get(node, ()) if node != one]
    assert not graph_of([edge for edge in left if taken.isdisjoint(edge)]).cyclic


@pytest.mark.long
@given(graphs())
def test_what_lies_above_is_what_has_it_below(graph: SummaryGraph) -> None:
    assert graph.live == set(graph.walk(graph.in_context)) & graph.nodes.keys()
    for start in (*graph.nodes, *graph.dangling):
        made = {node for node in graph.nodes if node != start and start in set(graph.walk([node]))}
        # What has no row leads no further up.
        assert graph.above([start]) <= made
        if not graph.dangling:
            assert graph.above([start]) == made
        assert set(graph.below([start])) == set(graph.walk([start])) & graph.nodes.keys()


@pytest.mark.long
@given(graphs())
def test_roots_come_in_the_order_of_the_context_and_orphans_oldest_first(graph: SummaryGraph) -> None:
    first = graph.in_context.index
    assert all(first(older) < first(newer) for older, newer in pairwise(graph.roots))
    assert all(NAMES.index(older) < NAMES.index(newer) for older, newer in pairwise(graph.orphans))


def test_sources_keep_their_order_and_a_repeated_edge_counts_once() -> None:
    graph = graph_of([("sum_3", "sum_2"), ("sum_3", "sum_0"), ("sum_3", "sum_2"), ("sum_4", "sum_0")])
    assert graph.sources["sum_3"] == ("sum_2", "sum_0")
    assert graph.consumers["sum_0"] == ("sum_3", "sum_4")


def test_ids_without_a_row_dangle_wherever_they_are_named() -> None:
    graph = graph_of([("sum_0", "sum_7")], ["sum_8", "sum_0"], present=2)
    assert graph.dangling == ("sum_8", "sum_7")
    assert graph.roots == ("sum_0",)
    assert graph.orphans == ("sum_1",)


def test_of_nested_cycles_only_the_outermost_has_a_head() -> None:
    inner = [("sum_0", "sum_1"), ("sum_1", "sum_0")]
    outer = [("sum_2", "sum_3"), ("sum_3", "sum_2"), ("sum_3", "sum_0"), ("sum_1", "sum_4")]
    graph = graph_of([*inner, *outer], present=5)
    assert len(graph.cycle_heads) == 1
    assert graph.cycle_heads[0] in {"sum_2", "sum_3"}
    assert set(graph.unreachable) == set(NAMES[:5])


@pytest.mark.cases(1)
@pytest.mark.parametrize("closed", [False, True], ids=["chain", "cycle"])
def test_ten_thousand_levels_need_no_recursion(closed: bool) -> None:
    ids = [f"sum_{number:06}" for number in range(10_000)]
    edges = list(pairwise(ids)) + ([(ids[-1], ids[0])] if closed else [])
    graph = graph_of(edges, [ids[0]], present=ids)
    assert list(graph.walk([ids[0]])) == ids
    assert len(graph.bottom_up(ids[0])) == 10_000
    assert on_cycle(graph, ids[5_000]) is closed
    assert len(graph.cycle_heads) == closed
    assert len(graph.unreachable) == 10_000 * closed


@pytest.mark.cases(5)
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_recorded_graphs_are_whole(version: str, database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file(version)) as database:
        for entry in await database.read(list_conversations):
            graph = await database.read(load_graph, entry.conversation.conversation_id)
            depths = {name: node.depth for name, node in graph.nodes.items()}
            assert not graph.unreachable
            assert not graph.dangling
            assert all(
                depths[source] == depths[consumer] - 1
                for consumer, sources in graph.sources.items()
                for source in sources
            )
            if entry.conversation.conversation_id == 1 and version == "0.15.3-damaged":
                # The edge that was taken away left its source without a consumer.
                assert graph.orphans == ("sum_9960da692838a8de",)
