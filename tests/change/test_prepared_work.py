"""A preview says what a 1.x engine has prepared and will discard, and nothing else.

The fingerprint of docs/spec/prepared.md is told a second time, over the rows that a change leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lcm_core.change.commit import commit
from lcm_core.change.plan import Item, Move, renumbering
from lcm_core.operations.compact import warnings_of

from tests.change.support import context_of, plan_of, previewed, reading, splice, undo, update
from tests.cli.support import run as run_command
from tests.databases import connect, query, run, value

#: Conversations with an active batch of lcm-1.1-later.db; that of 11 is published in part.
PREPARED = (1, 2, 4, 11)
FINGERPRINT = """SELECT c.ordinal, c.message_id, m.seq, m.role, m.token_count, m.created_at, m.content,
    c.summary_id, s.depth, s.token_count, s.created_at, s.content
    FROM pending_compaction_batches AS b JOIN context_items AS c ON c.conversation_id = b.conversation_id
        AND c.ordinal BETWEEN b.compactable_start_ordinal AND b.compactable_end_ordinal
    LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s USING (summary_id)
    WHERE b.status = 'planning' AND b.conversation_id = ? ORDER BY c.ordinal"""
#: Columns with another value each, and whether the fingerprint covers them.
CHANGES = {
    "messages": {
        "content": "otherwise",
        "token_count": 4_321,
        "created_at": "2020-02-02 02:02:02",
        "role": "system",
        "seq": 77_777,
        "identity_hash": "0" * 64,
        "transcript_entry_id": "entry",
        "openclaw_sender_metadata": '{"senderId":"x"}',
    },
    "summaries": {
        "content": "otherwise",
        "token_count": 4_321,
        "created_at": "2020-02-02 02:02:02",
        "depth": 7,
        "model": "another",
        "file_ids": '["file_0123456789abcdef"]',
        "latest_at": "2020-02-02T02:02:02.000Z",
        "descendant_count": 99,
    },
}


def prepared_warnings(preview) -> list[str]:
    return [one for one in preview.warnings if "preparing a compaction" in one]


@pytest.fixture
def path(database_copy) -> Path:
    return Path(database_copy("1.1-later"))


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, str, int, object, int, int]:
    """A conversation, a kind of change, and where it goes."""
    kind = draw(st.sampled_from(["column", "column", "splice", "remove", "swap"]))
    return (
        draw(st.sampled_from(PREPARED)),
        kind,
        draw(st.integers(0, 40)),
        draw(st.integers(0, 7)),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 2)),
    )


def edits_of(path: Path, change: tuple[int, str, int, int, int, int]):
    """The change as edits of the file."""
    owner, kind, place, column, count, new = change
    items = query(
        path,
        "SELECT message_id, summary_id FROM context_items WHERE conversation_id = ? ORDER BY ordinal",
        owner,
    )
    at = place % len(items)
    message, summary = items[at]
    if kind == "column":
        table, key, ref = (
            ("messages", "message_id", message) if summary is None else ("summaries", "summary_id", summary)
        )
        name, other = list(CHANGES[table].items())[column]
        return [update(path, table, key, ref, **{name: other})]
    removed = min(count, len(items) - at)
    refs = [one if two is None else two for one, two in items[at : at + removed]]
    others = {
        "splice": ["sum_f53bbf30897e81f3"] * new,
        "remove": [],
        "swap": refs[::-1],
    }[kind]
    return [splice(path, owner, at, removed, *others)]


@pytest.mark.long
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes())
def test_a_preview_says_exactly_when_the_fingerprint_of_a_batch_changes(path: Path, change) -> None:
    good, owner = path.read_bytes(), change[0]
    before = query(path, FINGERPRINT, owner)
    preview = previewed(path, plan_of(*edits_of(path, change), conversation_id=owner))
    said = [one for one in prepared_warnings(preview) if " will discard " in one]
    try:
        with connect(path) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.executescript("".join(preview.sql()))
        after = query(path, FINGERPRINT, owner)
    finally:
        path.write_bytes(good)
    assert [f"conversation {owner} " in one for one in said] == ([] if before == after else [True])


@pytest.mark.parametrize(
    ("conversation", "place", "words"),
    [
        (1, 5, "2 of 5 summaries (45 tokens) are ready"),
        (2, 5, "3 of 3 summaries (59 tokens) are ready"),
        (11, 5, "nothing of it is written yet"),
    ],
)
def test_what_is_lost_is_said(path: Path, conversation: int, place: int, words: str) -> None:
    ref = value(
        path,
        "SELECT message_id FROM context_items WHERE conversation_id = ? AND ordinal = ?",
        *(conversation, place),
    )
    plan = plan_of(update(path, "messages", "message_id", ref, content="x", token_count=1))
    [said] = prepared_warnings(previewed(path, plan))
    assert "changes the text and the tokens of what it is made from" in said
    assert words in said


@pytest.mark.parametrize("status", ["published", "stale", "failed"])
def test_a_batch_that_has_ended_is_not_lost(path: Path, status: str) -> None:
    run(path, f"UPDATE pending_compaction_batches SET status = '{status}'")
    assert not prepared_warnings(previewed(path, plan_of(splice(path, 1, 0, 1), conversation_id=1)))


def test_items_before_a_range_give_it_other_ordinals(path: Path) -> None:
    run(
        path,
        "UPDATE pending_compaction_batches SET compactable_start_ordinal = 3 WHERE conversation_id = 11",
    )
    [said] = prepared_warnings(previewed(path, plan_of(splice(path, 11, 0, 1), conversation_id=11)))
    assert "gives what it is made from other ordinals" in said


def test_fewer_messages_behind_a_range_may_bring_the_fresh_tail_into_it(path: Path) -> None:
    last = value(path, "SELECT count(*) - 1 FROM context_items WHERE conversation_id = 11")
    [said] = prepared_warnings(previewed(path, plan_of(splice(path, 11, last, 1), conversation_id=11)))
    assert "may discard it because this leaves fewer messages behind its range" in said


@pytest.mark.long
def test_a_draft_is_forecast_with_what_is_lost(path: Path) -> None:
    summary = value(path, "SELECT summary_id FROM context_items WHERE conversation_id = 1 AND ordinal = 0")
    for arguments in (("--summary", summary), ("1", "--all")):
        answer = run_command("rewrite", *arguments, "--db", path, "--json")
        [said] = answer.data["warnings"]
        assert "changes the text of what it is made from: 2 of 5 summaries" in said
    assert f"Warning: {said}." in " ".join(run_command("rewrite", "1", "--all", "--db", path).out.split())
    other = value(
        path,
        "SELECT summary_id FROM summaries WHERE summary_id NOT IN "
        "(SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL) LIMIT 1",
    )
    assert run_command("rewrite", "--summary", other, "--db", path, "--json").data["warnings"] == []


def compaction_warnings(path: Path, conversation: int) -> Sequence[str]:
    return asyncio.run(reading(path, lambda reader: warnings_of(reader, conversation)))


def test_a_compaction_of_ours_says_what_of_the_engine_s_own_is_lost(path: Path) -> None:
    lost, _ = compaction_warnings(path, 1)
    assert "2 of 5 summaries (45 tokens) are ready" in lost
    assert "will discard it where this one replaces or moves what it is made from" in lost
    assert compaction_warnings(path, 5) == (), "nothing is prepared there"


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("conversation", "said"),
    [
        (1, "2 prepared summaries (45 tokens, ordinals 1 to 11)"),
        (2, "3 prepared summaries (59 tokens, ordinals 0 to 19)"),
        (4, "1 prepared summary (21 tokens, ordinals 0 to 5)"),
        (11, None),
    ],
)
def test_a_compaction_says_what_the_engine_would_publish_without_a_call(
    path: Path, conversation: int, said: str | None
) -> None:
    """Of a batch that was changed since nothing would be."""

    def told() -> list[str]:
        return [one for one in compaction_warnings(path, conversation) if "would first publish" in one]

    assert [said in one for one in told() if said] == ([] if said is None else [True])
    assert (said is None) == (told() == [])
    sql = "SELECT message_id FROM context_items WHERE conversation_id = ? AND message_id IS NOT NULL"
    [ref, *_] = [one for (one,) in query(path, sql + " ORDER BY ordinal", conversation)]
    change = update(path, "messages", "message_id", ref, token_count=4_321)
    commit(path, plan_of(change, conversation_id=conversation))
    assert told() == []


def test_a_compaction_with_nothing_to_do_warns_of_nothing(path: Path) -> None:
    def told(*options: object) -> tuple[int, list[str]]:
        data = run_command("compact", "11", *options, "--db", path, "--json").data
        return len(data["passes"]), data["warnings"]

    assert told() == (0, [])
    passes, warnings = told("--set", "freshTailCount=2", "--set", "leafChunkTokens=40")
    assert passes
    assert warnings == list(compaction_warnings(path, 11))


@pytest.mark.parametrize("change", ["status = 'planned'", "active_ordinal_start = 1, active_ordinal_end = 6"])
def test_without_a_ready_beginning_nothing_would_be_published(path: Path, change: str) -> None:
    run(path, f"UPDATE pending_summary_nodes SET {change} WHERE ordinal_start < 7")
    assert not any("would first publish" in one for one in compaction_warnings(path, 4))


def outdated_by(path: Path, conversation: int) -> str | None:
    """The operation that made the batch of a conversation stale, as ``engine`` says it."""
    [one] = run_command("engine", conversation, "--db", path, "--json").data["conversations"]
    work = one["work"]
    assert (work["outdated"] == "changed") == (work["changedBy"] is not None)
    assert work["changedBy"] is None or work["publication"] == []
    return None if work["changedBy"] is None else str(work["changedBy"])


@pytest.mark.long
def test_what_we_changed_in_a_range_is_no_longer_said_to_be_publishable(path: Path) -> None:
    ref = value(path, "SELECT message_id FROM context_items WHERE conversation_id = 1 AND ordinal = 7")
    behind = value(path, "SELECT message_id FROM context_items WHERE conversation_id = 1 AND ordinal = 34")
    commit(path, plan_of(update(path, "messages", "message_id", behind, token_count=1)))
    commit(path, plan_of(update(path, "messages", "message_id", ref, transcript_entry_id="x")))
    assert outdated_by(path, 1) is None, "not in the range, or not in the fingerprint"
    done = commit(path, plan_of(update(path, "messages", "message_id", ref, token_count=1)))
    assert outdated_by(path, 1) == done.id
    assert f"was changed since ({done.id})" in run_command("engine", "1", "--db", path).out
    assert outdated_by(path, 2) is None
    undone = undo(path, done.id)
    assert outdated_by(path, 1) is None, "the rows are those of the fingerprint again"
    again = undo(path, undone.id)
    assert outdated_by(path, 1) in (done.id, again.id)
    run(path, "UPDATE pending_compaction_batches SET updated_at = '2099-01-01 00:00:00'")
    assert outdated_by(path, 1) is None, "planned again"
    run(path, "UPDATE pending_compaction_batches SET updated_at = 'once'")
    assert outdated_by(path, 1) is None, "nobody knows when it was planned"


PREPARING = "is preparing a compaction"


@pytest.mark.long
def test_what_a_change_of_ours_lost_is_not_said_to_be_lost_again(path: Path) -> None:
    def undone(operation: str) -> str:
        return run_command("history", "undo", operation, "--db", path).out

    for conversation in (1, 2):
        first, second = (
            update(path, "messages", "message_id", ref, token_count=1)
            for _, ref in context_of(path, conversation)[5:7]
        )
        done = commit(path, plan_of(first, conversation_id=conversation))
        assert PREPARING not in undone(done.id), "it can be published again then"
        assert not prepared_warnings(previewed(path, plan_of(second)))
        assert not compaction_warnings(path, conversation)
        back = undo(path, done.id)
        assert PREPARING in undone(back.id), "a redo loses it once more"
        assert prepared_warnings(previewed(path, plan_of(second)))
        assert compaction_warnings(path, conversation)


def moved(path: Path, first: int):
    """Everything from an ordinal of conversation 11 on gets the next one."""
    items = [(at, ref) for at, ref in context_of(path, 11) if at >= first][::-1]
    return plan_of(
        renumbering(11, (Move(Item(ref), at, at + 1) for at, ref in items[::-1])), conversation_id=11
    )


def test_a_context_that_we_moved_is_no_longer_said_to_be_publishable(path: Path) -> None:
    assert outdated_by(path, 11) is None
    done = commit(path, moved(path, 16))
    assert outdated_by(path, 11) is None, "behind its range"
    undo(path, done.id)
    done = commit(path, moved(path, 0))  # the same items at other ordinals
    run(
        path,
        "UPDATE pending_compaction_batches SET compactable_start_ordinal = compactable_start_ordinal + 1 "
        "WHERE conversation_id = 11",
    )
    [one] = run_command("engine", "11", "--db", path, "--json").data["conversations"]
    assert one["work"]["outdated"] is not None
    assert one["work"]["changedBy"] == done.id
