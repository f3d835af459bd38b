"""Damage to messages and parts, search tables and state (families E to G)."""

from __future__ import annotations

import itertools
import uuid

from tests.core.checks.planting import (
    BARE,
    BY_DESIGN,
    LEAF,
    SUSPICIOUS,
    Con,
    Rows,
    add_message,
    append_item,
    ids,
    message,
    one,
    plant,
    row,
    run,
)

_numbers = itertools.count(1)


def copy_messages(
    con: Con, conversation: int, first: int, last: int, *, parts: bool, created: str | None
) -> Rows:
    """Store messages again behind the last one, with their times or with *created*."""
    copies = []
    after = one(con, "SELECT max(seq) FROM messages WHERE conversation_id = ?", conversation)
    for seq in range(first, last + 1):
        original = message(con, conversation, seq)
        cursor = con.execute(
            """INSERT INTO messages
            (conversation_id, seq, role, content, token_count, identity_hash, created_at)
            SELECT conversation_id, ?, role, content, token_count, identity_hash, ifnull(?, created_at)
            FROM messages WHERE message_id = ?""",
            (after + 1 + seq - first, created, original),
        )
        copy = int(cursor.lastrowid or 0)
        if parts:
            for part in ids(con, "SELECT part_id FROM message_parts WHERE message_id = ?", original):
                con.execute(
                    """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal,
                    text_content, tool_call_id, tool_name, tool_input, tool_output, metadata)
                    SELECT ?, ?, session_id, part_type, ordinal,
                    text_content, tool_call_id, tool_name, tool_input, tool_output, metadata
                    FROM message_parts WHERE part_id = ?""",
                    (str(uuid.UUID(int=next(_numbers))), copy, part),
                )
        append_item(con, conversation, message_id=copy)
        copies.append(row("messages", copy))
    return copies


@plant("E1", SUSPICIOUS)
def seqs_were_moved(con: Con) -> Rows:
    run(con, "UPDATE messages SET seq = seq + 1000 WHERE conversation_id = ? AND seq > 10", BARE)
    return [row("messages", message(con, BARE, 1011))]


@plant("E1", BY_DESIGN, also="A1 E13")
def a_message_was_pruned(con: Con) -> Rows:
    run(con, "DELETE FROM messages WHERE message_id = ?", message(con, BARE, 9))
    return [row("messages", message(con, BARE, 10))]


@plant("E1", BY_DESIGN)
def the_first_seq_is_another(con: Con) -> Rows:
    run(con, "UPDATE messages SET seq = seq + 100 WHERE conversation_id = ?", BARE)
    return [row("messages", message(con, BARE, 101))]


@plant("E2", SUSPICIOUS)
def a_time_goes_back(con: Con) -> Rows:
    back = message(con, BARE, 10)
    run(con, "UPDATE messages SET created_at = '2026-03-01 00:00:00' WHERE message_id = ?", back)
    return [row("messages", back)]


@plant("E3", also="E2 E8")
def a_block_was_replayed(con: Con) -> Rows:
    return copy_messages(con, BARE, 1, 19, parts=True, created=None)


@plant("E3", also="E9 E10 E15")
def a_block_was_imported_again_without_parts(con: Con) -> Rows:
    return copy_messages(con, BARE, 1, 19, parts=False, created="2026-03-05 10:00:00")


@plant("E3", also="E2 E6 E8 E12 E18")
def a_block_was_replayed_and_its_payload_stored_again(con: Con) -> Rows:
    """The copy of the payload is another file: the reference to it is all that differs."""
    payload = message(con, BARE, 9)
    reference = "[LCM Tool Output: file_{} | tool=read | 91,002 bytes]"
    run(
        con,
        "UPDATE messages SET content = ?, identity_hash = 'a' WHERE message_id = ?",
        reference.format("0" * 16),
        payload,
    )
    copies = copy_messages(con, BARE, 1, 19, parts=True, created=None)
    run(
        con,
        "UPDATE messages SET content = ?, identity_hash = 'b' WHERE content = ? AND message_id <> ?",
        reference.format("1" * 16),
        reference.format("0" * 16),
        payload,
    )
    return copies


@plant("E3")
def a_flood(con: Con) -> Rows:
    text = "Please have another look at the lease table and tell me what you find."
    made = [add_message(con, BARE, "user", text, created="2026-03-05 10:00:00") for _ in range(4)]
    return [row("messages", copy) for copy in made[1:]]


@plant("E4", SUSPICIOUS)
def a_message_was_stored_twice(con: Con) -> Rows:
    text = "Please have another look at the lease table and tell me what you find."
    add_message(con, BARE, "user", text, created="2026-03-05 10:00:00")
    return [row("messages", add_message(con, BARE, "user", text, created="2026-03-05 10:00:00"))]


@plant("E5", SUSPICIOUS)
def a_redacted_twin(con: Con) -> Rows:
    text = "The key for the staging cluster is {}, keep it safe please."
    add_message(con, BARE, "user", text.format("abcdef123456"), created="2026-03-05 10:00:00")
    return [
        row(
            "messages",
            add_message(con, BARE, "user", text.format("[REDACTED]"), created="2026-03-05 10:00:03"),
        )
    ]


@plant("E5", SUSPICIOUS)
def a_decorated_twin(con: Con) -> Rows:
    text = "Please have another look at the lease table."
    add_message(con, BARE, "user", text, created="2026-03-05 10:00:00")
    decorated = f'Conversation info (untrusted metadata): {{"sender": "Mira"}}\n\n{text}'
    return [row("messages", add_message(con, BARE, "user", decorated, created="2026-03-05 10:00:03"))]


@plant("E6", SUSPICIOUS)
def another_hash(con: Con) -> Rows:
    odd = one(con, "SELECT message_id FROM messages WHERE conversation_id = ? AND role = 'assistant'", BARE)
    run(con, "UPDATE messages SET identity_hash = ? WHERE message_id = ?", "f" * 64, odd)
    return [row("messages", odd)]


@plant("E6", SUSPICIOUS)
def no_hash(con: Con) -> Rows:
    run(con, "UPDATE messages SET identity_hash = NULL WHERE message_id = ?", message(con, BARE, 3))
    return [row("messages", message(con, BARE, 3))]


def a_result(con: Con, conversation: int) -> tuple[int, str, str]:
    """A tool result with a call: message, part and call id."""
    found = con.execute(
        """SELECT m.message_id, p.part_id, p.tool_call_id
        FROM messages AS m JOIN message_parts AS p USING (message_id)
        WHERE m.conversation_id = ? AND m.role = 'tool' ORDER BY m.seq LIMIT 1""",
        (conversation,),
    ).fetchone()
    return int(found[0]), str(found[1]), str(found[2])


@plant("E7", SUSPICIOUS, also="D1 E6")
def a_call_lost_its_result(con: Con) -> Rows:
    result, part, call = a_result(con, BARE)
    calling = one(
        con, "SELECT message_id FROM message_parts WHERE tool_call_id = ? AND message_id <> ?", call, result
    )
    run(con, "UPDATE messages SET role = 'user' WHERE message_id = ?", result)
    run(con, "UPDATE message_parts SET tool_call_id = NULL, metadata = '{}' WHERE part_id = ?", part)
    con.execute("UPDATE messages SET identity_hash = NULL WHERE message_id = ?", (result,))
    return [row("messages", calling)]


@plant("E8", BY_DESIGN, also="E7")
def an_id_was_used_again(con: Con) -> Rows:
    first, second = ids(
        con,
        """SELECT p.part_id FROM messages AS m JOIN message_parts AS p USING (message_id)
        WHERE m.conversation_id = ? AND m.role = 'tool' ORDER BY m.seq LIMIT 2""",
        BARE,
    )
    call = one(con, "SELECT tool_call_id FROM message_parts WHERE part_id = ?", first)
    run(con, "UPDATE message_parts SET tool_call_id = ? WHERE part_id = ?", call, second)
    return [row("messages", one(con, "SELECT message_id FROM message_parts WHERE part_id = ?", second))]


@plant("E9", SUSPICIOUS, also="E7")
def a_tool_message_lost_its_parts(con: Con) -> Rows:
    result, _, _ = a_result(con, BARE)
    run(con, "DELETE FROM message_parts WHERE message_id = ?", result)
    return [row("messages", result)]


@plant("E10", SUSPICIOUS)
def a_message_lost_its_parts(con: Con) -> Rows:
    asked = one(
        con,
        "SELECT message_id FROM messages WHERE conversation_id = 4 AND role = 'user' AND seq > 20 LIMIT 1",
    )
    run(con, "DELETE FROM message_parts WHERE message_id = ?", asked)
    return [row("messages", asked)]


@plant("E11", SUSPICIOUS)
def a_tool_column_is_empty(con: Con) -> Rows:
    part = one(
        con,
        """SELECT p.part_id FROM messages AS m JOIN message_parts AS p USING (message_id)
        WHERE m.conversation_id = ? AND p.part_type = 'tool' LIMIT 1""",
        BARE,
    )
    run(con, "UPDATE message_parts SET tool_call_id = NULL WHERE part_id = ?", part)
    return [row("message_parts", part)]


def a_part(con: Con, seq: int) -> str:
    return str(one(con, "SELECT part_id FROM message_parts WHERE message_id = ?", message(con, BARE, seq)))


@plant("E12")
def metadata_that_is_no_json(con: Con) -> Rows:
    run(con, "UPDATE message_parts SET metadata = '{oops' WHERE part_id = ?", a_part(con, 1))
    return [row("message_parts", a_part(con, 1))]


@plant("E12", SUSPICIOUS)
def a_part_is_missing(con: Con) -> Rows:
    run(con, "UPDATE message_parts SET ordinal = 1 WHERE part_id = ?", a_part(con, 1))
    return [row("messages", message(con, BARE, 1))]


@plant("E12", SUSPICIOUS)
def parts_say_something_else(con: Con) -> Rows:
    run(con, "UPDATE message_parts SET text_content = 'something else' WHERE part_id = ?", a_part(con, 1))
    return [row("messages", message(con, BARE, 1))]


@plant("E13")
def a_part_of_no_message(con: Con) -> Rows:
    session = one(con, "SELECT session_id FROM conversations WHERE conversation_id = ?", BARE)
    run(
        con,
        """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal)
        VALUES ('lost', 999999, ?, 'text', 0)""",
        session,
    )
    return [row("message_parts", "lost")]


@plant("E14", BY_DESIGN)
def a_compaction_event(con: Con) -> Rows:
    text = "LCM compaction leaf pass (normal): 3786 -> 2750"
    made = add_message(
        con, BARE, "system", text, created="2026-03-05 10:00:00", part_type="compaction", held=False
    )
    return [row("messages", made)]


@plant("E15", BY_DESIGN)
def a_heartbeat(con: Con) -> Rows:
    return [
        row("messages", add_message(con, BARE, "assistant", "HEARTBEAT_OK", created="2026-03-05 10:00:00"))
    ]


@plant("E18", SUSPICIOUS)
def a_reference_to_nothing(con: Con) -> Rows:
    text = "Look.\n[LCM File: file_0123456789abcdef | a.txt | text/plain | 20 bytes]"
    return [row("messages", add_message(con, BARE, "user", text, created="2026-03-05 10:00:00"))]


@plant("E20", SUSPICIOUS, also="D1")
def a_payload_that_is_no_file(con: Con) -> Rows:
    run(con, "UPDATE messages SET token_count = 26000 WHERE message_id = ?", message(con, BARE, 3))
    return [row("messages", message(con, BARE, 3))]


@plant("E21", SUSPICIOUS)
def repair_text(con: Con) -> Rows:
    text = (
        "[lossless-claw] missing tool result in session history; "
        "inserted synthetic error result for transcript repair."
    )
    return [row("messages", add_message(con, BARE, "tool", text, created="2026-03-05 10:00:00"))]


@plant("E22", SUSPICIOUS)
def a_message_that_counts_nothing(con: Con) -> Rows:
    run(con, "UPDATE messages SET token_count = 0 WHERE message_id = ?", message(con, BARE, 3))
    return [row("messages", message(con, BARE, 3))]


@plant("E23")
def an_entry_stands_for_two_messages(con: Con) -> Rows:
    con.execute("DROP INDEX messages_conv_entry_unique_idx")
    run(
        con,
        """UPDATE messages SET transcript_entry_id =
        (SELECT transcript_entry_id FROM messages WHERE message_id = ?) WHERE message_id = ?""",
        message(con, BARE, 3),
        message(con, BARE, 4),
    )
    return [row("messages", message(con, BARE, 3)), row("messages", message(con, BARE, 4))]


@plant("E24", SUSPICIOUS)
def stamped_when_imported(con: Con) -> Rows:
    run(
        con,
        """UPDATE messages SET created_at =
        (SELECT created_at FROM messages WHERE conversation_id = 2 AND seq = 91)
        WHERE conversation_id = 2 AND seq > 90""",
    )
    return [
        row("messages", found)
        for found in ids(con, "SELECT message_id FROM messages WHERE conversation_id = 2 AND seq > 90")
    ]


@plant("E25", SUSPICIOUS, also="E6")
def nobody_asked(con: Con) -> Rows:
    run(con, "UPDATE messages SET role = 'assistant' WHERE conversation_id = ? AND role = 'user'", BARE)
    return [row("messages", message(con, BARE, seq)) for seq in range(1, 20)]


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


@plant("G10")
def telemetry_below_zero(con: Con) -> Rows:
    run(
        con,
        "UPDATE conversation_compaction_telemetry SET last_observed_cache_read = -1 WHERE conversation_id "
        "= 8",
    )
    return [row("conversation_compaction_telemetry", 8)]


@plant("G10", SUSPICIOUS)
def telemetry_from_the_future(con: Con) -> Rows:
    run(
        con,
        """UPDATE conversation_compaction_telemetry SET last_api_call_at = '2126-01-01T00:00:00.000Z'
        WHERE conversation_id = 8""",
    )
    return [row("conversation_compaction_telemetry", 8)]


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
