"""Summaries and what they were made from: damage that their checks find, each alone (B1 to B23)."""

from __future__ import annotations

import pytest
from lcm_core.api import Database
from lcm_core.checks.structure import load_structure

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import (
    BARE,
    BROKEN,
    BY_DESIGN,
    CONDENSED,
    LEAF,
    LONELY,
    LONELY_TOO,
    ROOT,
    ROOT_TOO,
    SUSPICIOUS,
    Con,
    Plant,
    Rows,
    add_summary,
    append_item,
    ids,
    link_message,
    link_source,
    message,
    one,
    plant,
    plants,
    row,
    run,
    sources,
    take_item,
)
from tests.databases import Builder
from tests.databases import run as run_sql


def ids_in_order(con: Con, *names: str) -> list[str]:
    marks = ", ".join("?" * len(names))
    return ids(con, f"SELECT summary_id FROM summaries WHERE summary_id IN ({marks}) ORDER BY rowid", *names)


@plant("B1", also="A11")
def a_leaf_lost_its_messages(con: Con) -> Rows:
    run(con, "DELETE FROM summary_messages WHERE summary_id = ?", LEAF)
    return [row("summaries", LEAF)]


@plant("B2", also="B13")
def a_condensed_summary_lost_its_sources(con: Con) -> Rows:
    run(con, "DELETE FROM summary_parents WHERE summary_id = ?", CONDENSED)
    return [row("summaries", CONDENSED)]


@plant("B3")
def a_link_to_no_message(con: Con) -> Rows:
    link_message(con, LEAF, 999999)
    return [row("summary_messages", LEAF, 999999)]


@plant("B4")
def an_edge_to_no_summary(con: Con) -> Rows:
    link_source(con, CONDENSED, "sum_00")
    return [row("summary_parents", CONDENSED, "sum_00")]


@plant("B4")
def a_link_of_no_summary(con: Con) -> Rows:
    gone = message(con, 4, 60)
    run(con, "INSERT INTO summary_messages VALUES ('sum_00', ?, 0)", gone)
    return [row("summary_messages", "sum_00", gone)]


@plant("B5")
def a_summary_is_its_own_source(con: Con) -> Rows:
    link_source(con, CONDENSED, CONDENSED)
    return [row("summary_parents", CONDENSED, CONDENSED)]


@plant("B6", also="B12 D2 D3 D4 D7 D12")
def a_source_was_made_from_its_consumer(con: Con) -> Rows:
    source = sources(con, ROOT)[0]
    link_source(con, source, ROOT)
    return [row("summaries", name) for name in ids_in_order(con, source, ROOT)]


@plant("B7")
def a_leaf_of_another_conversations_message(con: Con) -> Rows:
    foreign = message(con, BARE, 5)
    link_message(con, LEAF, foreign)
    return [row("summary_messages", LEAF, foreign)]


@plant("B7")
def a_summary_made_from_another_conversations(con: Con) -> Rows:
    link_source(con, CONDENSED, LONELY)
    return [row("summary_parents", CONDENSED, LONELY)]


@plant("B8", also="A7 B12 B21")
def a_leaf_has_a_summary_as_source(con: Con) -> Rows:
    run(con, "INSERT INTO summary_parents VALUES (?, ?, 0)", LONELY_TOO, LONELY)
    return [row("summaries", LONELY_TOO), row("summary_parents", LONELY_TOO, LONELY)]


@plant("B8", also="A6")
def a_condensed_summary_has_a_message_as_source(con: Con) -> Rows:
    raw = message(con, 4, 61)
    run(con, "INSERT INTO summary_messages VALUES (?, ?, 0)", CONDENSED, raw)
    return [row("summaries", CONDENSED), row("summary_messages", CONDENSED, raw)]


@plant("B9")
def a_leaf_above_the_ground(con: Con) -> Rows:
    run(con, "UPDATE summaries SET depth = 1 WHERE summary_id = ?", LEAF)
    return [row("summaries", LEAF)]


@plant("B10")
def a_summary_is_too_high(con: Con) -> Rows:
    run(con, "UPDATE summaries SET depth = 5 WHERE summary_id = ?", ROOT)
    return [row("summaries", ROOT)]


@plant("B12", also="B9 B10")
def a_source_is_as_deep_as_its_consumer(con: Con) -> Rows:
    source = sources(con, CONDENSED)[0]
    run(con, "UPDATE summaries SET depth = 1 WHERE summary_id = ?", source)
    return [row("summary_parents", CONDENSED, source)]


@plant("B12", SUSPICIOUS)
def a_source_is_younger_than_its_consumer(con: Con) -> Rows:
    source = sources(con, CONDENSED)[0]
    run(con, "UPDATE summaries SET created_at = '2026-03-03 12:00:00' WHERE summary_id = ?", source)
    return [row("summary_parents", CONDENSED, source)]


@plant("B13", SUSPICIOUS)
def a_leaf_left_the_context(con: Con) -> Rows:
    take_item(con, 4, 1, close=True)
    return [row("summaries", LEAF)]


@plant("B13", BROKEN, also="A8")
def a_leaf_left_a_gap_in_the_context(con: Con) -> Rows:
    take_item(con, 4, 1, close=False)
    return [row("summaries", LEAF)]


@plant("B13", BROKEN, also="B19 D2 D3 D4 D7")
def a_summary_lost_one_of_its_sources(con: Con) -> Rows:
    source = sources(con, ROOT)[1]
    run(con, "DELETE FROM summary_parents WHERE parent_summary_id = ?", source)
    return [row("summaries", source)]


@plant("B13", BY_DESIGN)
def a_summary_was_dissolved_and_kept(con: Con) -> Rows:
    """As a dissolve without a purge leaves it: the sources stand in its place."""
    run(con, "DELETE FROM context_items WHERE summary_id = ?", CONDENSED)
    for shift in (1000, -997):
        run(con, "UPDATE context_items SET ordinal = ordinal + ? WHERE conversation_id = 4", shift)
    for ordinal, source in enumerate(sources(con, CONDENSED)):
        Builder(con).item(4, source, ordinal)
    return [row("summaries", CONDENSED)]


@plant("B14", also="B17 D2 D3 D4 D7 D12")
def a_summary_went_into_two(con: Con) -> Rows:
    source = sources(con, ROOT)[0]
    link_source(con, ROOT_TOO, source)
    con.execute("UPDATE summaries SET depth = 3 WHERE summary_id = ?", (ROOT_TOO,))
    return [row("summary_parents", ROOT, source), row("summary_parents", ROOT_TOO, source)]


@plant("B15", also="B16 B17 B18 D4 D7")
def a_message_went_into_two_leaves(con: Con) -> Rows:
    shared = one(con, "SELECT message_id FROM summary_messages WHERE summary_id = ? AND ordinal = 0", LONELY)
    link_message(con, LONELY_TOO, shared)
    return [row("summary_messages", LONELY_TOO, shared)]


@plant("B16", SUSPICIOUS, also="A10 B17 D4")
def a_message_in_the_middle_stayed_raw(con: Con) -> Rows:
    middle = one(con, "SELECT message_id FROM summary_messages WHERE summary_id = ? AND ordinal = 3", LEAF)
    run(con, "DELETE FROM summary_messages WHERE message_id = ?", middle)
    append_item(con, 4, middle)
    return [row("messages", middle)]


@plant("B17", SUSPICIOUS)
def links_changed_places(con: Con) -> Rows:
    run(con, "UPDATE summary_messages SET ordinal = 1 - ordinal WHERE summary_id = ? AND ordinal < 2", LEAF)
    return [row("summaries", LEAF)]


@plant("B17", SUSPICIOUS)
def edges_do_not_count_from_zero(con: Con) -> Rows:
    run(con, "UPDATE summary_parents SET ordinal = ordinal + 1 WHERE summary_id = ?", ROOT)
    return [row("summaries", ROOT)]


@plant("B17", SUSPICIOUS)
def edges_changed_places(con: Con) -> Rows:
    run(con, "UPDATE summary_parents SET ordinal = 1 - ordinal WHERE summary_id = ? AND ordinal < 2", ROOT)
    return [row("summaries", ROOT)]


@plant("B18", SUSPICIOUS, also="B16 B17 D4 D7")
def a_link_moved_to_the_next_leaf(con: Con) -> Rows:
    run(
        con,
        "UPDATE summary_messages SET summary_id = ?, ordinal = 99 WHERE summary_id = ? AND ordinal = 1",
        LONELY_TOO,
        LONELY,
    )
    return [row("summaries", LONELY), row("summaries", LONELY_TOO)]


@plant("B19", SUSPICIOUS, also="B13 D2 D3 D4 D7")
def one_source_is_left(con: Con) -> Rows:
    kept, lost = sources(con, ROOT)
    run(con, "DELETE FROM summary_parents WHERE parent_summary_id = ?", lost)
    return [row("summaries", ROOT), row("summary_parents", ROOT, kept)]


@plant("B20", SUSPICIOUS, also="B1 B23")
def an_id_of_another_form(con: Con) -> Rows:
    add_summary(con, "summary-1", 6)
    return [row("summaries", "summary-1")]


@plant("B20", BROKEN)
def a_summary_without_an_id(con: Con) -> Rows:
    return [row("summaries", add_summary(con, None, 6))]


@plant("B21", also="A7 A10")
def a_swap_was_cut_short(con: Con) -> Rows:
    for source in sources(con, CONDENSED):
        append_item(con, 4, source)
    return [
        row("summaries", CONDENSED),
        *(row("summaries", one_of) for one_of in sorted(sources(con, CONDENSED))),
    ]


@plant("B23", BY_DESIGN, also="B1")
def an_unused_summary_in_an_archived_conversation(con: Con) -> Rows:
    add_summary(con, "sum_aaaaaaaaaaaaaaaa", 6)
    return [row("summaries", "sum_aaaaaaaaaaaaaaaa")]


@pytest.mark.parametrize("plant", plants("B"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)


async def test_sources_of_equal_ordinals_are_in_the_order_of_their_ids(
    database_copy: DatabaseFactory,
) -> None:
    """As the engine reads them (docs/spec/recall.md), whatever row was written first."""
    path = database_copy("0.15.3")
    run_sql(
        path,
        "CREATE TABLE edges AS SELECT * FROM summary_parents",
        "DELETE FROM summary_parents",
        "INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) "
        "SELECT summary_id, parent_summary_id, 0 FROM edges ORDER BY parent_summary_id DESC",
    )
    async with await Database.open(path) as database:
        found = await database.read(load_structure, 1)
    assert found is not None
    sources = [[edge.source for edge in edges] for edges in found.edges.values()]
    assert max(map(len, sources)) > 1
    assert sources == [sorted(each) for each in sources]
