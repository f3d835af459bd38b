"""A merge makes one conversation of a session that a rollover split, never of one reset on purpose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database, NotFoundError, RefusedError, StalePlanError, plan_merge
from lcm_core.change.commit import commit
from lcm_core.change.plan import RowChange
from lcm_core.change.preview import preview_plan
from lcm_core.checks.running import run_checks
from lcm_core.operations.merge import split_sessions

from tests.change.host import Host
from tests.change.oracle import Whole
from tests.change.support import changed, context_of, dump, planned, reading, search_faults, undo
from tests.databases import column, run, value
from tests.operations.copies import NOW, rows

OLD, NEW = 5, 8  #: of one session key; what archived the first is recorded since 0.14
ROLLED = f"UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = {OLD}"


@pytest.fixture
def split(database_copy) -> Path:
    """A session that a rollover split."""
    path = database_copy("0.15.3")
    run(path, ROLLED)
    return path


def plan(path: Path, *conversations: int, **options: Any):
    return asyncio.run(planned(path, plan_merge, conversations, now=NOW, **options))


def listed(path: Path):
    return asyncio.run(reading(path, split_sessions))


def messages(path: Path, conversation: int) -> list[int]:
    sql = "SELECT message_id FROM messages WHERE conversation_id = ? ORDER BY seq"
    return column(path, sql, conversation)


# -- what it does ----------------------------------------------------------------------------------------


def merged(path: Path, **options: Any) -> str:
    """Merge, hold it to the engine's rules, and give back the operation."""
    older, newer = messages(path, OLD), messages(path, NEW)
    refs = [ref for owner in (OLD, NEW) for _, ref in context_of(path, owner)]
    belonging = {
        table: value(path, f"SELECT count(*) FROM {table} WHERE conversation_id IN ({OLD}, {NEW})")
        for table in ("summaries", "large_files")
    }
    whole, before = Whole(path), dump(path)
    done = commit(path, plan(path, OLD, **options))
    assert messages(path, NEW) == [*older, *newer]
    seqs = column(path, f"SELECT seq FROM messages WHERE conversation_id = {NEW} ORDER BY seq")
    assert seqs == list(range(1, len(seqs) + 1))
    assert context_of(path, NEW) == list(enumerate(refs))
    assert context_of(path, OLD) == messages(path, OLD) == []
    for table, count in belonging.items():
        assert value(path, f"SELECT count(*) FROM {table} WHERE conversation_id = {NEW}") == count
        assert value(path, f"SELECT count(*) FROM {table} WHERE conversation_id = {OLD}") == 0
    assert Whole(path).errors() == whole.errors()
    assert search_faults(path) == []
    assert "conversations" not in changed(before, dump(path))
    assert "message_parts" not in changed(before, dump(path))
    assert rows(path, "PRAGMA foreign_key_check") == []
    return done.id


@pytest.mark.long
def test_the_older_conversation_comes_before_the_newer_one(split):
    before = dump(split)
    operation = merged(split)
    for table in ("conversation_bootstrap_state", "conversation_compaction_telemetry"):
        assert value(split, f"SELECT count(*) FROM {table} WHERE conversation_id = {OLD}") == 0
    [debt] = rows(split, f"SELECT * FROM conversation_compaction_maintenance WHERE conversation_id = {NEW}")
    assert (debt["pending"], debt["running"], debt["reason"]) == (1, 0, "doctor-rollover-split-repair")
    assert debt["requested_at"] == "2026-03-06T12:00:00.000Z"
    undo(split, operation)
    assert dump(split) == before


@pytest.mark.long
def test_where_no_cause_is_recorded_the_operator_says_so(database_copy):
    """0.8.2: the split is there, and whether /reset made it nobody can tell."""
    path = database_copy("0.8.2")
    before = dump(path)
    with pytest.raises(RefusedError, match="--force"):
        plan(path, NEW)
    operation = merged(path, assume_rollover=True)
    undo(path, operation)
    assert dump(path) == before


@pytest.mark.long
def test_what_was_noted_for_compaction_before_is_asked_for_again(split):
    run(
        split,
        f"""INSERT OR REPLACE INTO conversation_compaction_maintenance
        (conversation_id, pending, reason, retry_attempts) VALUES ({NEW}, 0, 'threshold', 2)""",
    )
    before = dump(split)
    operation = merged(split)
    sql = "SELECT reason, retry_attempts FROM conversation_compaction_maintenance WHERE conversation_id = ?"
    assert rows(split, sql, NEW) == [{"reason": "doctor-rollover-split-repair", "retry_attempts": 2}]
    undo(split, operation)
    assert dump(split) == before


@pytest.mark.long
def test_several_rollovers_come_in_their_order(split):
    """Conversation 9 is active, 8 was rolled over as well; gaps and numbers below 1 are closed."""
    key = value(split, "SELECT session_key FROM conversations WHERE conversation_id = ?", NEW)
    run(
        split,
        f"""UPDATE conversations SET active = 0, archived_at = '2026-03-03 02:00:00',
        archive_cause = 'rollover-fallback' WHERE conversation_id = {NEW}""",
        f"INSERT INTO conversations (conversation_id, session_id, session_key) VALUES (9, 'third', '{key}')",
        "UPDATE messages SET conversation_id = 9, seq = seq * 3 - 20 WHERE conversation_id = 7",
        """UPDATE message_parts SET session_id = 'third'
        WHERE message_id IN (SELECT message_id FROM messages WHERE conversation_id = 9)""",
        "UPDATE context_items SET conversation_id = 9, ordinal = ordinal * 2 + 5 WHERE conversation_id = 7",
        """UPDATE messages SET created_at = '2026-03-04 00:00:' || (10 + (seq + 20) / 3)
        WHERE conversation_id = 9""",
    )
    order = [one for owner in (OLD, NEW, 9) for one in messages(split, owner)]
    refs = [ref for owner in (OLD, NEW, 9) for _, ref in context_of(split, owner)]
    before = dump(split)
    done = commit(split, plan(split, NEW))
    assert messages(split, 9) == order
    seqs = column(split, "SELECT seq FROM messages WHERE conversation_id = 9 ORDER BY seq")
    assert seqs == list(range(1, len(order) + 1))
    assert context_of(split, 9) == list(enumerate(refs))
    undo(split, done.id)
    assert dump(split) == before


@pytest.mark.long
def test_focus_briefs_go_along_with_new_numbers(split):
    brief = """INSERT INTO focus_briefs
        (brief_id, conversation_id, prompt, content, status, covered_message_seq, created_at)
        VALUES ('focus_{0}', {1}, 'p', 'c', 'active', {2}, '2026-03-0{3} 00:00:00')"""
    run(split, brief.format("old", OLD, 10, 2), brief.format("new", NEW, 7, 3))
    before, first = dump(split), len(messages(split, OLD))
    made = plan(split, NEW)
    assert any("focus_new" in one for one in made.warnings)
    done = commit(split, made)
    kept = "brief_id, conversation_id, status, covered_message_seq"
    sql = f"SELECT {kept} FROM focus_briefs WHERE brief_id IN ('focus_old', 'focus_new') ORDER BY brief_id"
    assert [tuple(row.values()) for row in rows(split, sql)] == [
        ("focus_new", NEW, "active", first + 7),
        ("focus_old", NEW, "superseded", 10),
    ]
    undo(split, done.id)
    assert dump(split) == before


@pytest.mark.long
def test_an_entry_of_the_transcript_stays_with_the_newer_message(split):
    entry = value(
        split, "SELECT transcript_entry_id FROM messages WHERE conversation_id = ? ORDER BY seq", NEW
    )
    older = messages(split, OLD)[3]
    run(split, f"UPDATE messages SET transcript_entry_id = '{entry}' WHERE message_id = {older}")
    before = dump(split)
    made = plan(split, NEW)
    assert any("1 older message loses the transcript_entry_id" in one for one in made.warnings)
    done = commit(split, made)
    assert column(split, "SELECT message_id FROM messages WHERE transcript_entry_id = ?", entry) == [
        messages(split, NEW)[len(messages(split, NEW)) - 40]
    ]
    undo(split, done.id)
    assert dump(split) == before


@pytest.mark.long
def test_rows_of_the_beta_line_go_along(split):
    run(
        split,
        """CREATE TABLE message_transcript_anchor_trust (message_id INTEGER PRIMARY KEY,
        conversation_id INTEGER REFERENCES conversations, trust_state TEXT)""",
        """CREATE TABLE conversation_transcript_epochs (conversation_id INTEGER PRIMARY KEY
        REFERENCES conversations, session_id TEXT)""",
        "CREATE TABLE pending_compaction_batches (batch_id TEXT PRIMARY KEY, conversation_id INTEGER)",
        f"INSERT INTO message_transcript_anchor_trust VALUES ({messages(split, OLD)[0]}, {OLD}, 'verified')",
        f"INSERT INTO conversation_transcript_epochs VALUES ({OLD}, 'x'), ({NEW}, 'y')",
        f"INSERT INTO pending_compaction_batches VALUES ('batch', {OLD})",
    )
    before = dump(split)
    done = commit(split, plan(split, OLD))
    assert column(split, "SELECT conversation_id FROM message_transcript_anchor_trust") == [NEW]
    assert column(split, "SELECT conversation_id FROM conversation_transcript_epochs") == [NEW]
    assert column(split, "SELECT conversation_id FROM pending_compaction_batches") == [NEW]
    undo(split, done.id)
    assert dump(split) == before


@pytest.mark.long
def test_the_checks_find_the_split_before_and_nothing_new_after(split):
    def found() -> set[tuple[str, str]]:
        async def ask() -> set[tuple[str, str]]:
            async with await Database.open(split) as database:
                report = await run_checks(database)
                return {(one.check, one.confidence.value) for one in report.findings()}

        return asyncio.run(ask())

    before = found()
    assert ("G4", "broken") in before
    commit(split, plan(split, NEW))
    assert found() - before == {("G5", "by design"), ("G19", "by design")}
    assert ("G4", "broken") not in found()


# -- beside a host ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_message_of_the_host_makes_the_plan_stale(split):
    """It would stand in the midst of older ones."""
    made = plan(split, OLD)
    host = Host(str(split), NEW, seed=1)
    host.append()
    before = dump(split)
    with pytest.raises(StalePlanError):
        commit(split, made)
    assert dump(split) == before
    commit(split, plan(split, OLD))
    newest = messages(split, NEW)[-1]
    host.append()
    host.connection.close()
    assert messages(split, NEW)[-2] == newest
    assert value(split, "SELECT max(seq) FROM messages WHERE conversation_id = ?", NEW) == 103


def test_it_is_undone_after_the_host_has_gone_on(split):
    own = messages(split, OLD), messages(split, NEW)
    done = commit(split, plan(split, OLD))
    host = Host(str(split), NEW, seed=1)
    host.append()
    host.connection.close()
    undo(split, done.id)
    assert (messages(split, OLD), messages(split, NEW)[:-1]) == own
    assert context_of(split, NEW)[-1][1] == messages(split, NEW)[-1]


# -- what is merged, and what never is -------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.15.3"])
def test_no_split_no_merge(database_file, version):
    path = database_file(version)
    assert listed(path) == []
    with pytest.raises(RefusedError):
        plan(path, 5)


@pytest.mark.cases(3)
@pytest.mark.parametrize("cause", ["manual-reset", "session-deleted", "cron-rotation"])
@pytest.mark.parametrize("assume", [False, True])
def test_what_was_meant_is_never_merged(split, cause, assume):
    run(split, f"UPDATE conversations SET archive_cause = '{cause}' WHERE conversation_id = {OLD}")
    assert listed(split) == []
    for one in (OLD, NEW):
        with pytest.raises(RefusedError, match="never merged"):
            plan(split, one, assume_rollover=assume)


def test_nothing_from_before_a_reset_comes_back(split):
    """Conversation 4 was rolled over into 5, which was reset: what the reset forgot stays forgotten."""
    key = value(split, "SELECT session_key FROM conversations WHERE conversation_id = ?", NEW)
    run(
        split,
        f"""UPDATE conversations SET session_key = '{key}', active = 0,
        archived_at = '2026-03-02 12:20:00', archive_cause = 'rollover-fallback'
        WHERE conversation_id = 4""",
    )
    [found] = listed(split)
    assert [one.id for one in found.older] == [4, OLD]
    run(split, f"UPDATE conversations SET archive_cause = 'manual-reset' WHERE conversation_id = {OLD}")
    assert listed(split) == []


CASES = {
    "safe": ([], "safe"),
    "not recorded": (["UPDATE conversations SET archive_cause = NULL"], "unsure"),
    "ended": (["UPDATE conversations SET archive_cause = 'session-end'"], "unsure"),
    "they overlap": (
        [f"UPDATE messages SET created_at = '2026-03-02 14:00:00' WHERE conversation_id = {NEW}"],
        "never",
    ),
    "both formats": (
        [
            f"""UPDATE messages SET created_at = '2026-03-02T15:16:48.000Z'
            WHERE conversation_id = {NEW} AND seq = 1"""
        ],
        "safe",
    ),
    "two are active": (
        [
            "DROP INDEX conversations_active_session_key_idx",
            """INSERT INTO conversations (conversation_id, session_id, session_key)
            SELECT 9, 'other', session_key FROM conversations WHERE conversation_id = 8""",
        ],
        "never",
    ),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("case", CASES)
def test_how_sure_it_is(split, case):
    statements, expected = CASES[case]
    run(split, *statements)
    [found] = listed(split)
    assert found.certainty.value == expected
    assert [one.id for one in found.older] == [OLD]
    assert found.reason.endswith(".")
    if expected == "never":
        with pytest.raises(RefusedError):
            plan(split, OLD, assume_rollover=True)
    elif expected == "unsure":
        with pytest.raises(RefusedError):
            plan(split, OLD)
        assert any("You assumed" in one for one in plan(split, OLD, assume_rollover=True).warnings)


@pytest.mark.long
def test_an_older_conversation_with_nothing_in_it_is_no_split(split):
    merged(split)
    assert listed(split) == []
    with pytest.raises(RefusedError):
        plan(split, NEW)


@pytest.mark.parametrize(
    ("conversations", "kind"), [((), RefusedError), ((99,), NotFoundError), ((NEW, 1), RefusedError)]
)
def test_what_is_not_there_is_told(split, conversations, kind):
    with pytest.raises(kind) as caught:
        plan(split, *conversations)
    assert caught.value.message.endswith(".")


def test_both_names_of_a_session_mean_one_merge(split):
    assert plan(split, OLD, NEW).edits == plan(split, NEW).edits


@pytest.mark.long
def test_the_preview_counts_each_context_by_itself(split):
    made = plan(split, NEW)
    shown = asyncio.run(reading(split, lambda reader: preview_plan(reader, made)))
    sql = """SELECT coalesce(sum(coalesce(m.token_count, s.token_count)), 0) FROM context_items AS c
        LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = ?"""
    before = {owner: value(split, sql, owner) for owner in (OLD, NEW)}
    merged(split)
    after = {owner: value(split, sql, owner) for owner in (OLD, NEW)}
    assert after[OLD] == 0 < before[OLD]
    assert {one.conversation_id: (one.before, one.after) for one in shown.tokens.contexts} == {
        owner: (before[owner], after[owner]) for owner in (OLD, NEW)
    }
    assert (shown.tokens.before, shown.tokens.after) == (before[NEW], after[NEW])


def test_it_says_when_the_context_outgrows_the_budget(split):
    assert any("budget of 1,000" in one for one in plan(split, NEW, budget=1_000).warnings)
    assert not any("budget" in one for one in plan(split, NEW, budget=100_000).warnings)


def test_no_text_is_read_or_written(split):
    """Messages are renumbered by their ids: a long conversation costs no more than its index."""
    made = plan(split, NEW)
    changed = [one for one in made.edits if isinstance(one, RowChange) and one.before and one.after]
    assert not any("content" in one.before or "content" in one.after for one in changed)
