"""The rows of the summary tree without a terminal: places, unfolding, and where summaries stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database, SummaryGraph
from lcm_core.base.records import Edge
from lcm_core.engine.graph import PlainNode
from lcm_core.store.conversations import list_conversations
from lcm_core.store.summaries import load_graph, messages_under

from lcm_tui.kit.listing import Marks
from lcm_tui.screens.dag_lines import SummaryTree
from lcm_tui.screens.dag_tree import Folding, Known, Section, Tree, survey
from tests.conftest import DatabaseFactory
from tests.support import VERSIONS

names = st.sampled_from([f"sum_{number}" for number in range(9)])


def known_of(edges: list[tuple[str, str]], in_context: list[str], present: list[str]) -> Known:
    graph = SummaryGraph.build(
        [PlainNode(name, "condensed", 1) for name in present],
        [Edge(consumer, source, 0) for consumer, source in edges],
        list(in_context),
    )
    known = Known(1)
    known.learn_survey(survey(graph))
    return known


@st.composite
def anything(draw: st.DrawFn) -> Known:
    """What is known of a graph with cycles, shared sources and ids without a row."""
    present = draw(st.lists(names, unique=True, max_size=8))
    edges = draw(st.lists(st.tuples(st.sampled_from(present), names), max_size=24)) if present else []
    return known_of(edges, draw(st.lists(names, max_size=5)), present)


def unfolded(known: Known):
    """Everything unfolded, as the key does it, from every row at the margin."""
    tree = Tree()
    tops = [tree.top.to(step) for step in known.tops]
    starts = list(tops)
    for top in tops:
        if isinstance(top.step, Section):
            tree.unfolded.add(top)
            starts += [top.to(step) for step in known.below(top.step)]
    tree.unfold_all(starts, known.edges)
    return tree, tree.rows(known.tops, known.below)


@pytest.mark.long
@given(anything())
def test_everything_there_is_has_a_row_once_all_is_unfolded(known: Known):
    graph = known.survey.graph
    _, rows = unfolded(known)
    shown = {place.step for place in rows}
    assert shown >= set(graph.nodes) | set(graph.dangling)
    assert len(rows) == len(set(rows))


@given(anything())
def test_each_edge_is_one_row_so_that_shared_sources_do_not_multiply(known: Known):
    _, rows = unfolded(known)
    edges = sum(len(sources) for sources in known.edges.values())
    headed = sum(len(found) for found in known.survey.sections.values())
    assert len(rows) <= edges + len(known.tops) + headed
    below = [(place.above.step, place.step) for place in rows if place.above and place.level > 1]
    assert len(below) == len(set(below))


@pytest.mark.long
@given(anything(), st.data())
def test_splicing_gives_the_rows_that_computing_all_of_them_gives(known: Known, data: st.DataObject):
    tree = Tree()
    rows = tree.rows(known.tops, known.below)
    for _ in range(8):
        if not rows:
            return
        place = data.draw(st.sampled_from(rows))
        if place.step is None or place.repeats or not known.below(place.step):
            continue
        tree.unfolded ^= {place}
        rows = tree.respliced(rows, rows.index(place), known.below)
        assert rows == tree.rows(known.tops, known.below)


@pytest.mark.long
@given(anything())
def test_the_way_to_every_summary_leads_along_edges_to_a_row(known: Known):
    for summary_id in known.survey.visits:
        path = known.path_to(summary_id)
        assert path is not None
        tree = Tree()
        place = tree.at(path)
        tree.unfold_above(place)
        assert place in tree.rows(known.tops, known.below)
        assert place.path == path
        assert not place.repeats


@pytest.mark.long
@given(anything())
def test_elsewhere_leads_to_other_places_of_the_same_summary(known: Known):
    _, rows = unfolded(known)
    for place in rows:
        path = known.elsewhere(place)
        if path is not None:
            other = Tree()
            there = other.at(path)
            other.unfold_above(there)
            assert path != place.path
            assert there.step == place.step
            assert there in other.rows(known.tops, known.below)


def test_a_summary_under_two_consumers_is_two_rows_of_which_one_is_unfolded():
    edges = [("root", "a"), ("root", "b"), ("a", "shared"), ("b", "shared"), ("shared", "leaf")]
    known = known_of(edges, ["root"], ["leaf", "shared", "a", "b", "root"])
    tree, rows = unfolded(known)
    assert [place.path for place in rows] == [
        ("root",),
        ("root", "a"),
        ("root", "a", "shared"),
        ("root", "a", "shared", "leaf"),
        ("root", "b"),
        ("root", "b", "shared"),
    ]
    assert known.places("shared") == 2
    first, second = tree.at(("root", "a", "shared")), tree.at(("root", "b", "shared"))
    assert known.elsewhere(first) == second.path
    assert known.elsewhere(second) == first.path
    assert known.elsewhere(tree.at(("root", "a", "shared", "leaf"))) == ("root", "b", "shared", "leaf")
    assert known.elsewhere(tree.at(("root",))) is None


def test_doubling_at_every_level_does_not_double_the_rows():
    levels = [(f"{level}l", f"{level}r") for level in range(200)]
    edges = [(upper, lower) for above, below in pairwise(levels) for upper in above for lower in below]
    ids = [name for pair in levels for name in pair]
    _, rows = unfolded(known_of(edges, list(levels[0]), ids))
    assert len(rows) == len(edges) + 2


def test_where_a_cycle_closes_nothing_can_be_unfolded():
    known = known_of([("a", "b"), ("b", "a")], [], ["a", "b"])
    _, rows = unfolded(known)
    assert [place.path[1:] for place in rows] == [(), ("b",), ("b", "a"), ("b", "a", "b")]
    assert [place.repeats for place in rows] == [False, False, False, True]


@pytest.mark.long
@pytest.mark.parametrize("closed", [False, True], ids=["chain", "cycle"])
def test_ten_thousand_levels_unfold_without_recursion(closed: bool):
    ids = [f"sum_{number:06}" for number in range(10_000)]
    edges = list(pairwise(ids)) + ([(ids[-1], ids[0])] if closed else [])
    known = known_of(edges, [ids[0]], ids)
    tree, rows = unfolded(known)
    assert len(rows) == 10_000 + 2 * closed
    deepest = known.path_to(ids[-1] if not closed else ids[-2])
    assert deepest is not None
    assert tree.at(deepest) in rows
    assert rows[-1].repeats is closed


def test_what_was_unfolded_below_a_root_stays_so_when_it_moves():
    tree = Tree()
    tree.unfolded |= {tree.at(("a",)), tree.at(("a", "b", "c"))}
    tree.graft(tree.at(("a",)), tree.at(("new", "a")))
    assert {tree.at(("new", "a")), tree.at(("new", "a", "b", "c"))} <= tree.unfolded
    assert tree.at(("new",)) not in tree.unfolded
    assert tree.at(("new", "a", "b")) not in tree.unfolded


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_summary_and_every_message_below_one_has_a_row(
    version: str, database_file: DatabaseFactory
):
    async with await Database.open(database_file(version)) as database:
        for entry in await database.read(list_conversations):
            known = Known(entry.conversation.conversation_id)
            graph = await database.read(load_graph, known.conversation_id)
            known.learn_survey(survey(graph))
            known.learn_messages(await database.read(messages_under, graph.nodes))
            tree, rows = unfolded(known)
            tree.unfolded.update(place for place in rows if place.step in known.messages)
            rows = tree.rows(known.tops, known.below)
            assert [place.step for place in rows if place.level == 1] == known.tops
            assert sorted(place.step for place in rows if isinstance(place.step, str)) == sorted(graph.nodes)
            linked = [name for found in known.messages.values() for name in found]
            assert sorted(place.step for place in rows if isinstance(place.step, int)) == sorted(linked)


def test_a_tree_that_is_left_before_it_was_read_is_left_as_it_was_found():
    lines = SummaryTree(1, Marks(lambda: None))
    left = Folding(Tree(), way=("sum_1", "sum_2"), row=3)
    lines.return_to(left, select=True)
    found = lines.left_as()
    assert (found.tree, found.way, found.row) == (left.tree, left.way, left.row)
