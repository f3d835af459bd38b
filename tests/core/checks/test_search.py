"""Search tables: damage that their checks find, each alone (F1 to F6)."""

from __future__ import annotations

import pytest
from lcm_core.store.search import is_stale

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import BARE, LEAF, Con, Plant, Rows, message, one, plant, plants, row, run


@plant("F1")
def a_message_cannot_be_found(con: Con) -> Rows:
    run(con, "DELETE FROM messages_fts WHERE rowid = ?", message(con, BARE, 1))
    return [row("messages", message(con, BARE, 1))]


@plant("F2")
def a_message_is_found_and_gone(con: Con) -> Rows:
    run(con, "INSERT INTO messages_fts (rowid, content) VALUES (999999, 'gone')")
    return [row("messages_fts", 999999)]


@plant("F3")
def a_summary_cannot_be_found(con: Con) -> Rows:
    run(con, "DELETE FROM summaries_fts WHERE summary_id = ?", LEAF)
    return [row("summaries", LEAF)]


@plant("F3")
def a_summary_is_found_and_gone(con: Con) -> Rows:
    run(con, "INSERT INTO summaries_fts (rowid, summary_id, content) VALUES (7777, 'sum_00', 'gone')")
    return [row("summaries_fts", 7777)]


@plant("F3")
def a_summary_is_found_twice(con: Con) -> Rows:
    run(
        con,
        """INSERT INTO summaries_fts (rowid, summary_id, content)
        SELECT 7777, summary_id, content FROM summaries WHERE summary_id = ?""",
        LEAF,
    )
    return [row("summaries_fts", 7777)]


@plant("F4")
def a_message_is_found_by_another_text(con: Con) -> Rows:
    run(con, "UPDATE messages_fts SET content = 'another text' WHERE rowid = ?", message(con, BARE, 1))
    return [row("messages_fts", message(con, BARE, 1))]


@plant("F4")
def a_summary_is_found_by_another_text(con: Con) -> Rows:
    rowid = one(con, "SELECT rowid FROM summaries_fts WHERE summary_id = ?", LEAF)
    run(con, "UPDATE summaries_fts SET content = 'another text' WHERE rowid = ?", rowid)
    return [row("summaries_fts", rowid)]


@plant("F5")
def a_summary_cannot_be_found_in_cjk(con: Con) -> Rows:
    run(con, "DELETE FROM summaries_fts_cjk WHERE summary_id = ?", LEAF)
    return [row("summaries", LEAF)]


@plant("F6")
def a_part_of_a_search_table_is_gone(con: Con) -> Rows:
    con.execute("DROP TABLE summaries_fts_docsize")
    return [row("summaries_fts")]


@plant("F6")
def a_search_table_lost_its_index(con: Con) -> Rows:
    run(con, "DELETE FROM messages_fts_data")
    return [row("messages_fts")]


@pytest.mark.parametrize("plant", plants("F"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)


def test_of_a_message_that_refers_to_a_file_only_the_summary_is_searched() -> None:
    text = "[LCM Tool Output: file_0123456789abcdef | tool=read | 9 bytes]\nmore\nExploration Summary:\nJSON"
    assert not is_stale(text, "[LCM Tool Output: file_0123456789abcdef | tool=read | 9 bytes]\nJSON")
    assert is_stale(text, "something else")
    assert is_stale("a text", "another")
