"""Contexts: damage that their checks find, each alone (A1 to A15)."""

from __future__ import annotations

import pytest

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import (
    BARE,
    BROKEN,
    BY_DESIGN,
    CONDENSED,
    LEAF,
    LONELY,
    SUSPICIOUS,
    Con,
    Plant,
    Rows,
    append_item,
    message,
    one,
    plant,
    plants,
    row,
    run,
    sources,
    take_item,
)


@plant("A1", also="E1 E7 E13")
def a_message_of_the_context_is_deleted(con: Con) -> Rows:
    gone = message(con, 4, 55)
    ordinal = one(con, "SELECT ordinal FROM context_items WHERE message_id = ?", gone)
    run(con, "DELETE FROM messages WHERE message_id = ?", gone)
    return [row("context_items", 4, ordinal)]


@plant("A2", also="B13")
def a_summary_of_the_context_is_gone(con: Con) -> Rows:
    run(con, "UPDATE context_items SET summary_id = 'sum_ffffffffffffffff' WHERE summary_id = ?", LEAF)
    return [row("context_items", 4, 1)]


@plant("A2", also="A11 B4")
def a_leaf_of_the_context_lost_its_row(con: Con) -> Rows:
    run(con, "DELETE FROM summaries WHERE summary_id = ?", LEAF)
    return [row("context_items", 4, 1)]


@plant("A2", also="B4 B13")
def a_condensed_summary_of_the_context_lost_its_row(con: Con) -> Rows:
    run(con, "DELETE FROM summaries WHERE summary_id = ?", CONDENSED)
    return [row("context_items", 4, 0)]


@plant("A3")
def a_summary_stands_twice(con: Con) -> Rows:
    return [append_item(con, 4, LEAF)]


@plant("A4")
def a_message_stands_twice(con: Con) -> Rows:
    return [append_item(con, 4, message(con, 4, 61))]


@plant("A5")
def a_message_of_another_conversation(con: Con) -> Rows:
    return [append_item(con, 4, message(con, BARE, 19))]


@plant("A5")
def a_summary_of_another_conversation(con: Con) -> Rows:
    return [append_item(con, 4, LONELY)]


@plant("A6", also="A10")
def a_covered_message_is_raw_again(con: Con) -> Rows:
    return [append_item(con, 4, message(con, 4, 49))]


@plant("A7", also="A10")
def a_source_stands_beside_its_consumer(con: Con) -> Rows:
    source = sources(con, CONDENSED)[0]
    item = append_item(con, 4, source)
    return [row("summaries", CONDENSED), row("context_items", 4, 0), item]


@plant("A8", SUSPICIOUS)
def a_gap_that_nothing_explains(con: Con) -> Rows:
    run(con, "UPDATE context_items SET ordinal = ordinal + 50 WHERE conversation_id = 4 AND ordinal >= 8")
    return [row("context_items", 4, 58)]


@plant("A8", BROKEN, also="A11")
def a_gap_where_a_message_was(con: Con) -> Rows:
    take_item(con, 4, 8, close=False)
    return [row("context_items", 4, 9)]


@plant("A8", BY_DESIGN, also="E1 E7 E13")
def a_gap_where_a_message_was_pruned(con: Con) -> Rows:
    pruned = one(con, "SELECT message_id FROM context_items WHERE conversation_id = 4 AND ordinal = 8")
    take_item(con, 4, 8, close=False)
    run(con, "DELETE FROM messages WHERE message_id = ?", pruned)
    return [row("context_items", 4, 9)]


@plant("A9")
def a_renumbering_was_cut_short(con: Con) -> Rows:
    run(
        con,
        "UPDATE context_items SET ordinal = ordinal + 10000000 WHERE conversation_id = 4 AND ordinal >= 12",
    )
    return [row("context_items", 4, 10000012), row("context_items", 4, 10000013)]


@plant("A9")
def an_ordinal_below_zero(con: Con) -> Rows:
    run(con, "UPDATE context_items SET ordinal = -1 WHERE conversation_id = 4 AND ordinal = 0")
    return [row("context_items", 4, -1)]


@plant("A10", SUSPICIOUS)
def two_messages_changed_places(con: Con) -> Rows:
    for old, new in ((8, 99), (9, 8), (99, 9)):
        run(con, "UPDATE context_items SET ordinal = ? WHERE conversation_id = 4 AND ordinal = ?", new, old)
    return [row("context_items", 4, 9)]


@plant("A11", SUSPICIOUS)
def a_message_left_the_context(con: Con) -> Rows:
    lost = one(con, "SELECT message_id FROM context_items WHERE conversation_id = 4 AND ordinal = 8")
    take_item(con, 4, 8, close=True)
    return [row("messages", lost)]


@plant("A11", SUSPICIOUS)
def a_message_left_the_context_of_an_archived_conversation(con: Con) -> Rows:
    ordinal, lost = con.execute(
        "SELECT max(ordinal), message_id FROM context_items WHERE conversation_id = 6"
    ).fetchone()
    take_item(con, 6, ordinal - 1, close=True)
    return [row("messages", lost - 1)]


@plant("A11", BROKEN, also="B16 B17 D4")
def a_message_left_the_middle_of_a_leaf(con: Con) -> Rows:
    lost = one(con, "SELECT message_id FROM summary_messages WHERE summary_id = ? AND ordinal = 3", LEAF)
    run(con, "DELETE FROM summary_messages WHERE message_id = ?", lost)
    return [row("messages", lost)]


@plant("A12", SUSPICIOUS, also="A10 B17 D4 D7")
def an_old_message_stands_behind_the_summaries(con: Con) -> Rows:
    first = one(con, "SELECT message_id FROM summary_messages WHERE summary_id = ? AND ordinal = 0", LEAF)
    run(con, "DELETE FROM summary_messages WHERE message_id = ?", first)
    return [append_item(con, 4, first)]


@plant("A13", SUSPICIOUS, also="A11")
def the_context_is_empty(con: Con) -> Rows:
    run(con, "DELETE FROM context_items WHERE conversation_id = ?", BARE)
    return [row("conversations", BARE)]


@plant("A14", SUSPICIOUS)
def the_budget_is_too_small(con: Con) -> Rows:
    run(con, "UPDATE conversation_compaction_maintenance SET token_budget = 500 WHERE conversation_id = 8")
    return [row("conversation_compaction_maintenance", 8)]


@plant("A15")
def an_item_says_another_type(con: Con) -> Rows:
    con.execute("PRAGMA ignore_check_constraints = ON")
    run(con, "UPDATE context_items SET item_type = 'message' WHERE summary_id = ?", LEAF)
    return [row("context_items", 4, 1)]


@pytest.mark.parametrize("plant", plants("A"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)
