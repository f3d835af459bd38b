"""Conversations, what is noted of them, the file: damage that their checks find, each alone (G1 to G19)."""

from __future__ import annotations

import pytest
from lcm_core.api import Confidence
from lcm_core.checks.database import SPACE, Space

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import (
    BARE,
    BY_DESIGN,
    LIMITS,
    SUSPICIOUS,
    Con,
    Plant,
    Rows,
    a_part,
    ids,
    one,
    plant,
    plants,
    row,
    run,
)


@plant("G1", also="G3")
def a_session_is_active_twice(con: Con) -> Rows:
    con.execute("DROP INDEX conversations_active_session_key_idx")
    run(con, "UPDATE conversations SET active = 1 WHERE conversation_id = 5")
    return [row("conversations", 5), row("conversations", 8)]


@plant("G2", SUSPICIOUS)
def a_session_without_a_key_is_active_twice(con: Con) -> Rows:
    run(
        con, "UPDATE conversations SET session_key = NULL, session_id = 'one' WHERE conversation_id IN (4, 7)"
    )
    return [row("conversations", 4), row("conversations", 7)]


@plant("G3", SUSPICIOUS)
def archived_at_no_time(con: Con) -> Rows:
    run(con, "UPDATE conversations SET archived_at = NULL WHERE conversation_id = 6")
    return [row("conversations", 6)]


@plant("G4")
def split_by_a_rollover(con: Con) -> Rows:
    run(con, "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5")
    return [row("conversations", 5), row("conversations", 8)]


@plant("G4", SUSPICIOUS)
def split_by_nobody_knows_what(con: Con) -> Rows:
    run(con, "UPDATE conversations SET archive_cause = NULL WHERE conversation_id = 5")
    return [row("conversations", 5), row("conversations", 8)]


@plant("G4", BY_DESIGN)
def split_by_its_owner(con: Con) -> Rows:
    run(con, "UPDATE conversations SET archive_cause = 'session-deleted' WHERE conversation_id = 5")
    return [row("conversations", 5), row("conversations", 8)]


@plant("G5", BY_DESIGN)
def a_conversation_of_no_messages(con: Con) -> Rows:
    run(con, "INSERT INTO conversations (conversation_id, session_id) VALUES (99, 'empty')")
    return [row("conversations", 99)]


@plant("G8")
def read_further_than_it_was_long(con: Con) -> Rows:
    run(
        con,
        """UPDATE conversation_bootstrap_state SET last_processed_offset = last_seen_size + 1
        WHERE conversation_id = 7""",
    )
    return [row("conversation_bootstrap_state", 7)]


@plant("G8", BY_DESIGN)
def a_placeholder(con: Con) -> Rows:
    run(
        con,
        """UPDATE conversation_bootstrap_state SET last_processed_offset = 0, last_seen_size = 0
        WHERE conversation_id = 7""",
    )
    return [row("conversation_bootstrap_state", 7)]


@plant("G8", SUSPICIOUS)
def imported_and_no_checkpoint(con: Con) -> Rows:
    run(con, "UPDATE conversations SET bootstrapped_at = created_at WHERE conversation_id = 7")
    run(con, "DELETE FROM conversation_bootstrap_state WHERE conversation_id = 7")
    return [row("conversations", 7)]


@plant("G8", BY_DESIGN)
def imported_before_there_were_checkpoints(con: Con) -> Rows:
    run(
        con, "UPDATE conversations SET bootstrapped_at = '2026-03-01T10:00:00.000Z' WHERE conversation_id = 7"
    )
    run(con, "DELETE FROM conversation_bootstrap_state WHERE conversation_id = 7")
    return [row("conversations", 7)]


@plant("G9", SUSPICIOUS)
def debt_that_fails(con: Con) -> Rows:
    run(
        con,
        "UPDATE conversation_compaction_maintenance SET pending = 1, retry_attempts = 4 WHERE "
        "conversation_id = 8",
    )
    return [row("conversation_compaction_maintenance", 8)]


@plant("G9", SUSPICIOUS)
def debt_that_runs_for_ever(con: Con) -> Rows:
    run(con, "UPDATE conversation_compaction_maintenance SET running = 1 WHERE conversation_id = 8")
    return [row("conversation_compaction_maintenance", 8)]


@plant("G11")
def two_active_briefs(con: Con) -> Rows:
    run(con, "UPDATE focus_briefs SET status = 'active' WHERE conversation_id = 2 AND status = 'superseded'")
    return [
        row("focus_briefs", brief)
        for brief in ids(
            con, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'"
        )
    ]


@plant("G11")
def a_brief_made_from_nothing(con: Con) -> Rows:
    brief = one(con, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'")
    run(
        con,
        "INSERT INTO focus_brief_sources (brief_id, summary_id, ordinal, role) VALUES (?, 'sum_00', 9, "
        "'cited')",
        brief,
    )
    return [row("focus_brief_sources", brief, "sum_00", "cited")]


@plant("G11", SUSPICIOUS)
def a_brief_beyond_the_end(con: Con) -> Rows:
    brief = one(con, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'")
    run(con, "UPDATE focus_briefs SET covered_message_seq = 5000 WHERE brief_id = ?", brief)
    return [row("focus_briefs", brief)]


@plant("G12", SUSPICIOUS)
def a_step_was_never_finished(con: Con) -> Rows:
    run(con, "DELETE FROM lcm_migration_state WHERE step_name = 'backfillSummaryDepths'")
    return [row("sqlite_master")]


@plant("G12", SUSPICIOUS)
def a_table_is_missing(con: Con) -> Rows:
    con.execute("DROP TABLE conversation_compaction_telemetry")
    return [row("sqlite_master")]


@plant("G13")
def a_row_refers_to_nothing(con: Con) -> Rows:
    run(con, "UPDATE large_files SET conversation_id = 999 WHERE file_id = 'file_740921a7a0974a0a'")
    return [
        row("large_files", one(con, "SELECT rowid FROM large_files WHERE file_id = 'file_740921a7a0974a0a'"))
    ]


@plant("G15", SUSPICIOUS)
def a_counter_is_behind(con: Con) -> Rows:
    run(con, "UPDATE sqlite_sequence SET seq = 10 WHERE name = 'messages'")
    return [row("sqlite_sequence", "messages")]


@plant("G16", SUSPICIOUS)
def a_lease_ran_out(con: Con) -> Rows:
    con.execute("CREATE TABLE pending_compaction_batches (batch_id TEXT PRIMARY KEY, status TEXT)")
    con.execute(
        """CREATE TABLE pending_summary_nodes (node_id TEXT PRIMARY KEY, batch_id TEXT, status TEXT,
        canonical_summary_id TEXT, lease_expires_at TEXT)"""
    )
    run(
        con,
        "INSERT INTO pending_summary_nodes VALUES ('n', 'b', 'running', NULL, '2026-03-02T10:00:00.000Z')",
    )
    return [row("pending_summary_nodes", "n")]


@plant("G17", BY_DESIGN)
def anchors_are_suspect(con: Con) -> Rows:
    con.execute(
        "CREATE TABLE message_transcript_anchor_trust (message_id INTEGER PRIMARY KEY, trust_state TEXT)"
    )
    con.execute(
        "CREATE TABLE conversation_transcript_epochs (conversation_id INTEGER PRIMARY KEY, migration_mode "
        "TEXT)"
    )
    run(con, "INSERT INTO message_transcript_anchor_trust VALUES (1, 'suspect'), (2, 'verified')")
    return [row("message_transcript_anchor_trust")]


@plant("G18", SUSPICIOUS, also="A11 E9 E15")
def a_conversation_was_copied(con: Con) -> Rows:
    run(con, "INSERT INTO conversations (conversation_id, session_id, active) VALUES (99, 'copy', 0)")
    con.execute("UPDATE conversations SET archived_at = created_at WHERE conversation_id = 99")
    run(
        con,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, identity_hash, created_at)
        SELECT 99, seq, role, content, token_count, identity_hash, created_at FROM messages
        WHERE conversation_id = 4""",
    )
    return [row("conversations", 4), row("conversations", 99)]


@plant("G19", BY_DESIGN)
def another_session_joined(con: Con) -> Rows:
    run(con, "UPDATE message_parts SET session_id = 'another' WHERE part_id = ?", a_part(con, 1))
    return [row("conversations", BARE)]


@pytest.mark.parametrize("plant", plants("G"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)


def test_a_large_wal_and_free_pages_are_told() -> None:
    [check] = SPACE
    space = Space(pages=20_000, free_pages=10_000, page_size=4_096, wal=200 * 1024 * 1024)
    findings = list(check.findings(space, LIMITS))
    assert [(one.check, one.confidence) for one in findings] == [("G14", Confidence.BY_DESIGN)] * 2
    assert "200 MiB" in findings[0].sentence
    assert not list(check.findings(Space(20_000, 900, 4_096, 1_000), LIMITS))
