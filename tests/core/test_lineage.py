"""What a view of the summary tree reads, on recorded databases and on damage made for it."""

from __future__ import annotations

import pytest
from lcm_core.api import Database, NotFoundError
from lcm_core.store.conversations import list_conversations
from lcm_core.store.summaries import (
    messages_under,
    summaries_with,
    summary_detail,
    summary_entries,
    whole_tree,
)

from tests.conftest import DatabaseFactory
from tests.databases import building, reading, run
from tests.support import VERSIONS

ONE = 1
D2 = "sum_07742015d971b59d"
ITS_SOURCES = ("sum_698811c2167466f4", "sum_32c213081e481418")
LEAF = "sum_afbaa0d9045b3dd1"


async def test_the_graph_is_another_one_only_where_it_has_changed(database_copy: DatabaseFactory):
    path = database_copy("0.8.2")
    async with await Database.open(path) as database:
        seen = [await database.read(whole_tree, ONE)]
        assert await database.read(whole_tree, ONE) == seen[0]
    with building(path) as rows:
        rows.message(1, "hello")
    async with await Database.open(path) as database:
        assert (await database.read(whole_tree, ONE)).columns == seen[0].columns
    for statement in (
        "UPDATE context_items SET ordinal = 900 WHERE conversation_id = 1 AND ordinal = 0",
        "UPDATE summary_parents SET parent_summary_id = 'sum_x' WHERE rowid = 1",
        "UPDATE summaries SET depth = 7 WHERE rowid = 1",
        "DELETE FROM summaries WHERE rowid = 1",
    ):
        run(path, statement)
        async with await Database.open(path) as database:
            whole = await database.read(whole_tree, ONE)
        assert whole not in seen
        seen.append(whole)


async def test_sources_come_in_the_order_of_condensation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, f"UPDATE summary_parents SET ordinal = 1 - ordinal WHERE summary_id = '{D2}'")
    async with await Database.open(path) as database:
        graph = (await database.read(whole_tree, ONE)).columns.graph
    assert graph.sources[D2] == tuple(reversed(ITS_SOURCES))
    assert LEAF not in graph.sources


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
        found = (await database.read(messages_under, [leaf]))[leaf]
    silent = [source for source in found if source.message and not source.message.content.strip()]
    assert any(source.preview.startswith(f"{name}: ") for source in silent)


async def test_a_detail_names_everything_around_a_summary(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with building(path) as rows:
        rows.links(ITS_SOURCES[0], sources=["sum_gone"], first=9)
        rows.links("sum_nobody", sources=[ITS_SOURCES[0]])
    async with await Database.open(path) as database:
        detail = await database.read(summary_detail, ITS_SOURCES[0])
        [entry] = await database.read(summary_entries, [ITS_SOURCES[0]])
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


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_summary_of_every_version_has_a_detail(version: str, database_file: DatabaseFactory):
    async with await Database.open(database_file(version)) as database:
        for conversation in await database.read(list_conversations):
            whole = await database.read(whole_tree, conversation.conversation.conversation_id)
            for summary_id in whole.columns.graph.nodes:
                detail = await database.read(summary_detail, summary_id)
                sources = whole.columns.graph.sources.get(summary_id, ())
                assert tuple(source.summary_id for source in detail.sources) == sources
                assert len(detail.messages) == detail.entry.source_messages
        with pytest.raises(NotFoundError):
            await database.read(summary_detail, "sum_none")


async def test_texts_are_searched_literally_and_within_the_conversation(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, f"UPDATE summaries SET content = 'a 100% sure_thing' WHERE summary_id = '{LEAF}'")
    async with await Database.open(path) as database:
        assert await database.read(summaries_with, ONE, "100% SURE_") == [LEAF]
        assert await database.read(summaries_with, ONE, "100_ sure") == []
        assert await database.read(summaries_with, 8, "100% sure_") == []
