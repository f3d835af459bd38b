"""What a view of the summary tree reads, on recorded databases and on damage made for it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import ConversationId, Edge, SummaryId
from lcm_core.engine.graph import SummaryGraph
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Database
from lcm_core.store.lineage import (
    context_summaries,
    messages_under,
    open_tree,
    sources_in,
    summaries_with,
    summary_detail,
    whole_tree,
)
from lcm_core.store.summaries import summary_entries

from tests.conftest import DatabaseFactory
from tests.databases import building, reading, run
from tests.support import VERSIONS

ONE = ConversationId(1)
D2 = SummaryId("sum_07742015d971b59d")
ITS_SOURCES = ("sum_698811c2167466f4", "sum_32c213081e481418")
LEAF = SummaryId("sum_afbaa0d9045b3dd1")


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_first_rows_are_the_roots_of_the_whole_graph(version: str, database_file: DatabaseFactory):
    async with await Database.open(database_file(version)) as database:
        for entry in await database.read(list_conversations):
            conversation_id = entry.conversation.conversation_id
            opening = await database.read(open_tree, conversation_id)
            whole = await database.read(whole_tree, conversation_id)
            assert whole.graph is not None
            roots = [held.summary_id for held in opening.context if held.present and not held.consumed]
            assert tuple(reversed(roots)) == whole.graph.roots
            assert [held.summary_id for held in whole.context] == list(whole.graph.in_context)


async def test_the_first_rows_cost_one_statement_and_read_no_summary(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        before = database.statements
        opening = await database.read(open_tree, ONE)
        assert database.statements - before == 1
        assert [held.ordinal for held in opening.context] == [0, 1, 2, 3]


async def test_the_way_to_a_leaf_leads_from_a_root_along_recorded_edges(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        opening = await database.read(open_tree, ONE, select=LEAF, unfolded=[D2])
        assert opening.way == ("sum_bb692ab9b90b6a49", "sum_18ef3ddbebbf8c2e", LEAF)
        assert set(opening.sources) == {*opening.way[:-1], D2}
        assert opening.sources[D2] == ITS_SOURCES
        assert LEAF in opening.sources[opening.way[1]]


async def test_there_is_no_way_to_what_no_root_leads_to(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "DELETE FROM summary_parents WHERE summary_id = 'sum_bb692ab9b90b6a49'")
    async with await Database.open(path) as database:
        assert (await database.read(open_tree, ONE, select=LEAF)).way == ()
        assert (await database.read(open_tree, ONE, select=SummaryId("sum_none"))).way == ()


async def test_a_context_item_without_a_row_or_of_another_conversation_is_no_root(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    run(
        path,
        "UPDATE context_items SET summary_id = 'sum_gone' WHERE conversation_id = 1 AND ordinal = 0",
        f"UPDATE context_items SET summary_id = '{LEAF}' WHERE conversation_id = 8 AND ordinal = 0",
        f"UPDATE context_items SET summary_id = '{LEAF}' WHERE conversation_id = 1 AND ordinal = 1",
    )
    async with await Database.open(path) as database:
        context = await database.read(context_summaries, ONE)
        assert [(held.present, held.consumed) for held in context[:3]] == [
            (False, False),
            (True, True),
            (True, False),
        ]
        other = await database.read(context_summaries, ConversationId(8))
        assert (other[0].summary_id, other[0].present) == (LEAF, False)


edges = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


@given(edges, st.integers(0, 6), st.sets(st.integers(0, 6)))
def test_a_way_is_found_whenever_there_is_one_and_ends_on_cycles(
    pairs: list[tuple[int, int]], start: int, roots: set[int]
):
    found = [Edge(SummaryId(str(consumer)), SummaryId(str(source)), 0) for consumer, source in pairs]
    graph = SummaryGraph.build((), found, ())
    way = graph.way_down(SummaryId(str(start)), [SummaryId(str(root)) for root in roots])
    above, grown = {start}, True
    while grown:
        more = {consumer for consumer, source in pairs if source in above} - above
        above |= more
        grown = bool(more)
    assert bool(way) == bool(above & roots)
    if way:
        steps = [int(step) for step in way]
        assert steps[0] in roots
        assert steps[-1] == start
        assert len(set(steps)) == len(steps)
        assert all(step in pairs for step in pairwise(steps))


async def test_the_graph_is_read_again_only_when_it_may_have_changed(database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    async with await Database.open(path) as database:
        first = await database.read(whole_tree, ONE)
        assert first.graph is not None
        again = await database.read(whole_tree, ONE, known=first.fingerprint)
        assert again.graph is None
        assert again.context == first.context
    prints = {first.fingerprint}
    for statement in (
        "UPDATE context_items SET ordinal = 900 WHERE conversation_id = 1 AND ordinal = 0",
        "UPDATE summary_parents SET ordinal = ordinal + 1 WHERE rowid = 1",
        "UPDATE summary_parents SET parent_summary_id = 'sum_x' WHERE rowid = 1",
        "UPDATE summaries SET depth = 7 WHERE rowid = 1",
        "DELETE FROM summaries WHERE rowid = 1",
    ):
        run(path, statement)
        async with await Database.open(path) as database:
            whole = await database.read(whole_tree, ONE, known=first.fingerprint)
        assert whole.graph is not None
        assert whole.fingerprint not in prints
        prints.add(whole.fingerprint)


async def test_a_new_message_is_no_reason_to_read_the_graph_again(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        first = await database.read(whole_tree, ONE)
    with building(path) as rows:
        rows.message(1, "hello")
    async with await Database.open(path) as database:
        assert (await database.read(whole_tree, ONE, known=first.fingerprint)).graph is None


async def test_sources_come_in_the_order_of_condensation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, f"UPDATE summary_parents SET ordinal = 1 - ordinal WHERE summary_id = '{D2}'")
    async with await Database.open(path) as database:
        found = await database.read(sources_in, [D2, LEAF])
        assert found == {D2: tuple(reversed(ITS_SOURCES)), LEAF: ()}


async def test_messages_of_a_leaf_come_in_its_order_and_tell_of_rows_that_are_gone(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        before = (await database.read(messages_under, [LEAF]))[LEAF]
    assert len(before) == 11
    assert all(source.message is not None for source in before)
    run(
        path,
        f"UPDATE summary_messages SET ordinal = -ordinal WHERE summary_id = '{LEAF}'",
        f"DELETE FROM messages WHERE message_id = {before[0].message_id}",
    )
    async with await Database.open(path) as database:
        after = (await database.read(messages_under, [LEAF, D2]))[LEAF]
    assert [source.message_id for source in after] == [source.message_id for source in reversed(before)]
    assert [source.message is None for source in after] == [False] * 10 + [True]


async def test_a_message_without_text_previews_what_its_parts_say(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    with reading(path) as plain:
        leaf, name = plain.execute(
            """SELECT link.summary_id, part.tool_name FROM messages AS m
            JOIN summary_messages AS link USING (message_id) JOIN message_parts AS part USING (message_id)
            WHERE trim(m.content) = '' AND part.tool_name IS NOT NULL LIMIT 1"""
        ).fetchone()
    async with await Database.open(path) as database:
        found = (await database.read(messages_under, [SummaryId(leaf)]))[leaf]
    silent = [source for source in found if source.message and not source.message.content.strip()]
    assert any(source.preview.startswith(f"{name}: ") for source in silent)


async def test_a_detail_names_everything_around_a_summary(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with building(path) as rows:
        rows.links(ITS_SOURCES[0], sources=["sum_gone"], first=9)
        rows.links("sum_nobody", sources=[ITS_SOURCES[0]])
    async with await Database.open(path) as database:
        detail = await database.read(summary_detail, SummaryId(ITS_SOURCES[0]))
        [entry] = await database.read(summary_entries, [SummaryId(ITS_SOURCES[0])])
    assert detail.entry == entry
    assert detail.text.content.startswith(entry.preview)
    assert len(detail.sources) == 5
    assert detail.sources[-1].summary is None
    assert all(source.summary is not None and source.summary.depth == 0 for source in detail.sources[:-1])
    assert {found.summary_id: found.summary is None for found in detail.consumers} == {
        D2: False,
        "sum_nobody": True,
    }
    assert detail.messages == ()


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_summary_of_every_version_has_a_detail(version: str, database_file: DatabaseFactory):
    async with await Database.open(database_file(version)) as database:
        for conversation in await database.read(list_conversations):
            whole = await database.read(whole_tree, conversation.conversation.conversation_id)
            assert whole.graph is not None
            for summary_id in whole.graph.nodes:
                detail = await database.read(summary_detail, summary_id)
                sources = whole.graph.sources.get(summary_id, ())
                assert tuple(source.summary_id for source in detail.sources) == sources
                assert len(detail.messages) == detail.entry.source_messages
        with pytest.raises(NotFoundError):
            await database.read(summary_detail, SummaryId("sum_none"))


async def test_texts_are_searched_literally_and_within_the_conversation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, f"UPDATE summaries SET content = 'a 100% sure_thing' WHERE summary_id = '{LEAF}'")
    async with await Database.open(path) as database:
        assert await database.read(summaries_with, ONE, "100% SURE_") == [LEAF]
        assert await database.read(summaries_with, ONE, "100_ sure") == []
        assert await database.read(summaries_with, ConversationId(8), "100% sure_") == []
