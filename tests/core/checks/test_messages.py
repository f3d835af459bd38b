"""Messages, parts and files: damage that their checks find, each alone; what repeats without any."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.checks.repetitions import Keys, find_clusters, find_replays
from lcm_core.checks.structure import MessageColumns
from lcm_core.checks.summaries import are_twins

from tests.conftest import DatabaseFactory
from tests.core.checks.planting import (
    BARE,
    BY_DESIGN,
    SUSPICIOUS,
    Con,
    Plant,
    Rows,
    a_part,
    add_message,
    append_item,
    ids,
    message,
    one,
    plant,
    plants,
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
        append_item(con, conversation, copy)
        copies.append(row("messages", copy))
    return copies


def a_result(con: Con, conversation: int) -> tuple[int, str, str]:
    """A tool result with a call: message, part and call id."""
    found = con.execute(
        """SELECT m.message_id, p.part_id, p.tool_call_id
        FROM messages AS m JOIN message_parts AS p USING (message_id)
        WHERE m.conversation_id = ? AND m.role = 'tool' ORDER BY m.seq LIMIT 1""",
        (conversation,),
    ).fetchone()
    return int(found[0]), str(found[1]), str(found[2])


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


@pytest.mark.parametrize("plant", plants("E"), ids=str)
async def test_planted_damage_is_found_and_nothing_else(
    plant: Plant, database_copy: DatabaseFactory, database_file: DatabaseFactory
) -> None:
    await plant.prove(database_copy, database_file)


MINUTE = 1 / 1_440


def conversation(
    texts_of: list[str], days: list[float], calls: list[int] | None = None
) -> tuple[MessageColumns, Keys]:
    size = len(texts_of)
    messages = MessageColumns(
        array("q", range(1, size + 1)),
        array("q", range(1, size + 1)),
        array("q", [10] * size),
        array("d", days),
        bytes(1 if place % 2 == 0 else 2 for place in range(size)),
        bytes(size),
    )
    hashes = array("Q", (int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) for text in texts_of))
    weights = bytes(2 if len(text) > 24 else 1 if text else 0 for text in texts_of)
    return messages, Keys(hashes, array("Q", calls or [0] * size), weights)


def long(text: object) -> str:
    return f"A text that is long enough to mean something: {text}"


def test_a_block_that_was_stored_again_is_told_as_ranges() -> None:
    said = [long(number) for number in range(43)]
    days = [1.0 + place * MINUTE for place in range(43)]
    messages, keys = conversation(said + said[:41], days + days[:41])
    [replay] = find_replays(messages, keys)
    assert (replay.original, replay.copy, replay.length, replay.proof) == (
        0,
        43,
        41,
        "with the times of the originals",
    )
    assert not list(find_clusters(messages, keys, [replay]))


def test_a_block_that_came_back_in_one_second_is_a_replay() -> None:
    said = [long(number) for number in range(5)]
    messages, keys = conversation(said + said, [1.0 + place * MINUTE for place in range(5)] + [9.0] * 5)
    [replay] = find_replays(messages, keys)
    assert (replay.copy, replay.proof) == (5, "in one burst, although the originals were spread over time")


@pytest.mark.parametrize("short", ["NO_REPLY", "HEARTBEAT_OK", "ok", "(no output)", ""])
def test_short_repeats_are_never_damage(short: str) -> None:
    messages, keys = conversation([short] * 400, [1.0] * 400)
    assert not find_replays(messages, keys)
    assert not list(find_clusters(messages, keys, []))


def test_a_timer_that_says_the_same_every_half_hour_is_no_replay() -> None:
    turn = [long("check the status"), "", long("all is well"), "HEARTBEAT_OK"]
    days = [1.0 + run * 30 * MINUTE + step * MINUTE for run in range(60) for step in range(4)]
    messages, keys = conversation(turn * 60, days)
    assert not find_replays(messages, keys)
    assert not list(find_clusters(messages, keys, []))


def test_the_same_answers_to_other_tool_calls_are_no_replay() -> None:
    said = [long(number) for number in range(20)]
    days = [1.0 + place * MINUTE for place in range(40)]
    messages, keys = conversation(said * 2, days, list(range(1, 41)))
    assert not find_replays(messages, keys)
    messages, keys = conversation(said * 2, days, list(range(1, 21)) * 2)
    assert [replay.proof for replay in find_replays(messages, keys)] == [
        "with the tool call ids of the originals"
    ]


def test_many_words_again_without_proof_are_suspicious_and_not_certain() -> None:
    said = [long(number) for number in range(20)]
    messages, keys = conversation(said * 2, [1.0 + place * MINUTE for place in range(40)])
    [replay] = find_replays(messages, keys)
    assert (replay.proof, replay.certain) == ("verbatim, which rarely happens by chance", False)


def test_three_equal_user_messages_in_one_second_are_a_flood() -> None:
    said = [long("do it"), "-", long("do it"), "-", long("do it")]
    messages, keys = conversation(said, [1.0] * 5)
    [cluster] = find_clusters(messages, keys, [])
    assert (cluster.places, cluster.flood, cluster.certain) == ((0, 2, 4), True, True)


def test_equal_messages_of_an_import_stamped_at_once_are_not_certain() -> None:
    said = [long(place if place % 10 else "do it") for place in range(40)]
    messages, keys = conversation(said, [1.0] * 40)
    assert [cluster.certain for cluster in find_clusters(messages, keys, [])] == [False]


@pytest.mark.long
@given(st.lists(st.sampled_from([long("a"), long("b"), long("c"), "ok", ""]), max_size=60), st.data())
def test_replays_are_equal_do_not_overlap_and_lie_behind_their_originals(
    said: list[str], data: st.DataObject
) -> None:
    days = sorted(data.draw(st.lists(st.floats(1, 2), min_size=len(said), max_size=len(said))))
    messages, keys = conversation(said, days)
    end = 0
    for replay in find_replays(messages, keys):
        assert replay.original + replay.length <= replay.copy
        assert replay.copy >= end
        end = replay.copy + replay.length
        for step in range(replay.length):
            assert said[replay.original + step] == said[replay.copy + step]


@pytest.mark.parametrize(
    ("one", "other", "twins"),
    [
        ("the quick brown fox  jumps over it", "the quick brown\nfox jumps over it", True),
        ("the key is abc123 for the cluster here", "the key is *** for the cluster here", True),
        ("[Telegram Mira id:4242] please look at the lease table", "please look at the lease table", True),
        ("please look at the lease table", "please look at the lease table again", False),
        ("the quick brown fox jumps over it", "the quick brown fox jumps over it", False),
        ("ok  then", "ok then", False),
        ("* * * and then *** nothing else at all here", "quite another text that ends at all here", False),
    ],
)
def test_twins(one: str, other: str, twins: bool) -> None:
    assert are_twins(one, other) is twins
    assert are_twins(other, one) is twins
