"""What is recorded beside texts, and times: damage that their checks find, each alone (D1 to D14)."""

from __future__ import annotations

import pytest

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import (
    BARE,
    CONDENSED,
    LEAF,
    LONELY,
    ROOT,
    SUSPICIOUS,
    Con,
    Plant,
    Rows,
    message,
    one,
    plant,
    plants,
    row,
    run,
)


@plant("D1", SUSPICIOUS)
def a_count_of_a_summary(con: Con) -> Rows:
    run(con, "UPDATE summaries SET token_count = token_count + 40 WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D1", SUSPICIOUS)
def a_count_of_a_message(con: Con) -> Rows:
    wrong = message(con, BARE, 3)
    run(con, "UPDATE messages SET token_count = token_count + 40 WHERE message_id = ?", wrong)
    return [row("messages", wrong)]


@plant("D2")
def one_summary_too_many(con: Con) -> Rows:
    run(con, "UPDATE summaries SET descendant_count = descendant_count + 1 WHERE summary_id = ?", ROOT)
    return [row("summaries", ROOT)]


@plant("D2")
def a_leaf_with_descendants(con: Con) -> Rows:
    run(con, "UPDATE summaries SET descendant_count = 2 WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D3")
def no_tokens_below(con: Con) -> Rows:
    run(con, "UPDATE summaries SET descendant_token_count = 0 WHERE summary_id = ?", ROOT)
    return [row("summaries", ROOT)]


@plant("D4")
def no_tokens_of_sources(con: Con) -> Rows:
    run(con, "UPDATE summaries SET source_message_token_count = 0 WHERE summary_id = ?", ROOT)
    return [row("summaries", ROOT)]


@plant("D4")
def wrong_tokens_of_a_leaf(con: Con) -> Rows:
    run(con, "UPDATE summaries SET source_message_token_count = 3 WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D5")
def no_range(con: Con) -> Rows:
    run(con, "UPDATE summaries SET earliest_at = NULL, latest_at = NULL WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D6", also="D7")
def a_range_that_runs_back(con: Con) -> Rows:
    run(
        con,
        "UPDATE summaries SET earliest_at = latest_at, latest_at = earliest_at WHERE summary_id = ?",
        LONELY,
    )
    return [row("summaries", LONELY)]


@plant("D7", SUSPICIOUS)
def a_range_that_ends_early(con: Con) -> Rows:
    run(con, "UPDATE summaries SET latest_at = '2026-03-02T15:00:07.000Z' WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D8", SUSPICIOUS)
def a_range_in_local_time(con: Con) -> Rows:
    run(
        con,
        """UPDATE summaries SET
        earliest_at = strftime('%Y-%m-%dT%H:%M:%fZ', earliest_at, '-5 hours', '-30 minutes'),
        latest_at = strftime('%Y-%m-%dT%H:%M:%fZ', latest_at, '-5 hours', '-30 minutes')
        WHERE summary_id = ?""",
        LONELY,
    )
    return [row("summaries", LONELY)]


@plant("D9", SUSPICIOUS)
def a_message_in_the_future(con: Con) -> Rows:
    late = message(con, BARE, 19)
    run(con, "UPDATE messages SET created_at = '2126-01-01 00:00:00' WHERE message_id = ?", late)
    return [row("messages", late)]


@plant("D9", SUSPICIOUS)
def a_summary_before_its_messages(con: Con) -> Rows:
    run(con, "UPDATE summaries SET created_at = '2026-03-02 13:00:00' WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D10")
def an_unreadable_time(con: Con) -> Rows:
    run(con, "UPDATE summaries SET latest_at = 'now' WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D10")
def an_unreadable_time_of_a_message(con: Con) -> Rows:
    odd = message(con, BARE, 3)
    run(con, "UPDATE messages SET created_at = 'yesterday' WHERE message_id = ?", odd)
    return [row("messages", odd)]


@plant("D11")
def file_ids_that_are_no_list(con: Con) -> Rows:
    run(con, "UPDATE summaries SET file_ids = '{\"a\": 1}' WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D12", SUSPICIOUS)
def a_file_that_nobody_knows(con: Con) -> Rows:
    run(con, "UPDATE summaries SET file_ids = '[\"file_0123456789abcdef\"]' WHERE summary_id = ?", LONELY)
    return [row("summaries", LONELY)]


@plant("D12", SUSPICIOUS)
def a_file_that_was_forgotten(con: Con) -> Rows:
    leaf = one(con, "SELECT summary_id FROM summaries WHERE file_ids <> '[]' AND kind = 'leaf' LIMIT 1")
    run(con, "UPDATE summaries SET file_ids = '[]' WHERE summary_id = ?", leaf)
    return [row("summaries", leaf)]


@plant("D14")
def tokens_below_zero(con: Con) -> Rows:
    run(con, "UPDATE summaries SET token_count = -5 WHERE summary_id = ?", LEAF)
    return [row("summaries", LEAF)]


@plant("D14")
def a_counter_below_zero(con: Con) -> Rows:
    run(con, "UPDATE summaries SET source_message_token_count = -5 WHERE summary_id = ?", CONDENSED)
    return [row("summaries", CONDENSED)]


@pytest.mark.parametrize("plant", plants("D"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)
