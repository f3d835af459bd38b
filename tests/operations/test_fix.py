"""Fixes on the recorded databases: the damaged one, all versions, several at once, many rows."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Confidence, Database, LcmError
from lcm_core.base.findings import FixId
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.checks.running import run_checks
from lcm_core.operations.fix import Keep
from lcm_core.operations.fixing import plan_fixes

from tests.change.support import REAL, context_of, dump, search_faults
from tests.conftest import DatabaseFactory
from tests.core.checks.test_versions import DAMAGE, STEPS
from tests.databases import column, connect, run, value
from tests.operations.fixing import LIMITS, findings_of, fix, fixes_of, key_of
from tests.support import sampled, unpack_database

BROKEN = Confidence.BROKEN


def is_broken(one) -> bool:
    return one.confidence is BROKEN


def only(*fixes: FixId):
    return lambda one: one.fix in fixes


# -- the recorded damage -----------------------------------------------------------------------------------

#: The damages of the recorded file that need no model, by what finds them.
MENDED = {"A1", "A8", "A11", "B1", "B13", "D2", "D3", "D4", "D14", "E13", "F2", "F4", "F5", "G13"}
DECOYS = ("sum_9e5806c818acab6b", "sum_cae2105a57ab383d", "sum_da6d8a6c3e853863")


@pytest.mark.long
async def test_the_recorded_damages_that_need_no_model_are_mended_together(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    healthy = database_copy("0.15.3")
    decoys = "SELECT * FROM summaries WHERE summary_id IN (?, ?, ?)"
    with connect(path) as connection:
        before = connection.execute(decoys, DECOYS).fetchall()
    done = await fix(path, is_broken)
    assert {one.check for one in done.before if is_broken(one) and one.fix} == MENDED
    assert {one.check for one in done.after if is_broken(one)} == {"C1", "C2", "C3", "C4", "C7"}
    assert not done.new
    assert not done.fixes.left
    with connect(path) as connection:
        assert connection.execute(decoys, DECOYS).fetchall() == before
    # What the rows said before they were damaged is what they say again.
    for table, columns in (
        ("summary_messages", "summary_id, message_id, ordinal"),
        ("summary_parents", "summary_id, parent_summary_id, ordinal"),
        ("summaries", "summary_id, token_count, depth, descendant_token_count"),
    ):
        for sql in (f"SELECT {columns} FROM {table} ORDER BY 1, 2",):
            with connect(path) as ours, connect(healthy) as theirs:
                assert ours.execute(sql).fetchall() == theirs.execute(sql).fetchall()
    assert context_of(path, 3) == context_of(healthy, 3)
    assert [ref for _, ref in context_of(path, 4)] == [ref for _, ref in context_of(healthy, 4) if ref != 286]
    assert not search_faults(path)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.3.0", "0.15.3")))
async def test_there_is_nothing_to_fix_in_a_healthy_database(version: str, database_file: DatabaseFactory):
    path = database_file(version)
    findings = await findings_of(path)
    assert not [one for one in findings if one.fix not in (None, FixId.MERGE_SPLIT)]
    fixes = await fixes_of(path, findings)
    assert not fixes
    assert (fixes.plan.edits, fixes.search) == ((), ())


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2"])
async def test_a_copy_that_was_cut_without_a_mark_is_a_bad_summary(
    version: str, database_file: DatabaseFactory
):
    """The engine's fallback cuts its source and marks the cut, but not always: what lies
    behind the cut is lost, whether or not a mark says so. No fix helps: it needs a model.

    Source: docs/spec/texts.md, "The summariser's own cut".
    """
    path = database_file(version)
    copies = [one for one in await findings_of(path) if one.check == "C9" and is_broken(one)]
    assert copies
    for one in copies:
        [row] = one.rows
        text = value(path, "SELECT content FROM summaries WHERE summary_id = ?", row.key[0])
        assert not text.rstrip().endswith("]")
        assert not text.startswith("[LCM fallback")
        sources = column(
            path,
            """SELECT content FROM summary_messages JOIN messages USING (message_id) WHERE summary_id = ?
            UNION ALL SELECT s.content FROM summary_parents AS e JOIN summaries AS s
            ON s.summary_id = e.parent_summary_id WHERE e.summary_id = ?""",
            row.key[0],
            row.key[0],
        )
        assert sum(map(len, sources)) > len(text)
        assert one.fix is None


# -- every version -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "check"),
    [
        ("0.1.2", "B1"),  # the one that no version before 0.8 can prove; the others are mended together below
        *(
            pytest.param(version, check, marks=pytest.mark.long)
            for version in ("0.1.2", "0.8.2")
            for check in DAMAGE
            if (version, check) != ("0.1.2", "B1")
        ),
    ],
)
async def test_the_same_damage_is_mended_in_every_version(
    check: str, version: str, database_copy: DatabaseFactory
):
    path = database_copy(version)
    run(path, DAMAGE[check])
    done = await fix(path, lambda one: one.check == check and is_broken(one))
    found = [one for one in done.before if one.check == check and is_broken(one)]
    assert len(found) == 1
    if found[0].fix is None:
        assert check == "B1"  # 0.1.2 records no sum that would prove it
        assert version == "0.1.2"
    else:
        assert not [one for one in done.after if key_of(one) == key_of(found[0])]
    assert not done.new


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.1.2", "0.15.3")))
async def test_all_of_it_at_once(version: str, database_copy: DatabaseFactory):
    """Damages to the same context and the same summaries make one plan."""
    path = database_copy(version)
    for check, sql in DAMAGE.items():
        if check not in ("A2", "B1"):
            run(path, sql.replace("900", "901") if check == "A6" else sql)
    done = await fix(path, is_broken)
    left = {key_of(one) for one in done.after}
    assert not [one for one in done.before if one.fix and is_broken(one) and key_of(one) in left]
    assert not done.new
    assert {one.check for one in done.after if is_broken(one)} <= {"C1", "C2", "C3", "C4", "C7", "C9", "C15"}


# -- contexts ----------------------------------------------------------------------------------------------


def abnormal(path: Path, conversation: int, *, pass_: int, done: int) -> list[object]:
    """Cut the engine's resequencing short: first to -1, -2, ..., then to 0, 1, ...; what stood there."""
    items = context_of(path, conversation)
    with connect(path) as connection:
        connection.execute("BEGIN")
        connection.execute(
            "UPDATE context_items SET ordinal = ordinal + 1000 WHERE conversation_id = ?", (conversation,)
        )
        for at, (old, _) in enumerate(items):
            turned = at < done if pass_ == 1 else at >= done
            new = -(at + 1) if turned else at + (5 if pass_ == 1 else 0)
            connection.execute(
                "UPDATE context_items SET ordinal = ? WHERE conversation_id = ? AND ordinal = ?",
                (new, conversation, old + 1000),
            )
        connection.execute("COMMIT")
    return [ref for _, ref in items]


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
@pytest.mark.parametrize("pass_", sampled([1, 2], [2]))
async def test_a_resequencing_that_was_cut_short_is_put_in_its_true_order(
    version: str, pass_: int, database_copy: DatabaseFactory
):
    path = database_copy(version)
    refs = abnormal(path, 4, pass_=pass_, done=5)
    assert [ref for _, ref in context_of(path, 4)] != refs
    done = await fix(path, only(FixId.CLOSE_GAPS))
    assert context_of(path, 4) == list(enumerate(refs))
    assert not done.new
    assert not [one for one in done.after if one.check in ("A8", "A9", "A10", "A12")]


@pytest.mark.long
async def test_an_order_that_nothing_proves_is_not_guessed(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        "UPDATE context_items SET ordinal = CASE WHEN ordinal = 5 THEN -2 ELSE -1 END "
        "WHERE conversation_id = 4 AND ordinal IN (5, 9)",
        "UPDATE context_items SET ordinal = 99 WHERE conversation_id = 4 AND ordinal = 2",
    )
    [finding] = [one for one in await findings_of(path, whole_file=False) if one.check == "A9"]
    assert finding.fix is None


@pytest.mark.long
async def test_what_comes_back_takes_the_gap_that_it_left(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = context_of(path, 4)
    run(path, "DELETE FROM context_items WHERE conversation_id = 4 AND ordinal IN (6, 7)")
    done = await fix(path, only(FixId.RESTORE_MESSAGES))
    assert context_of(path, 4) == before
    [_edit] = done.fixes.plan.edits  # nothing else moves


@pytest.mark.long
@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
async def test_either_the_summary_or_all_of_its_sources_stay(
    version: str, keep: Keep, database_copy: DatabaseFactory
):
    path = database_copy(version)
    with connect(path) as connection:
        conversation, summary, at = connection.execute(
            """SELECT c.conversation_id, c.summary_id, c.ordinal FROM context_items AS c
            JOIN summaries AS s USING (summary_id) WHERE s.kind = 'leaf' ORDER BY 1, 3 LIMIT 1"""
        ).fetchone()
        messages = column(
            path, "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", summary
        )
        connection.execute(
            "UPDATE context_items SET ordinal = ordinal + 1000 WHERE conversation_id = ? AND ordinal > ?",
            (conversation, at),
        )
        for step, message in enumerate(messages, 1):
            connection.execute(
                """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
                VALUES (?, ?, 'message', ?)""",
                (conversation, at + step, message),
            )
    done = await fix(path, only(FixId.DROP_COVERED_ITEMS), keep)
    refs = [ref for _, ref in context_of(path, conversation)]
    assert (summary in refs) == (keep is Keep.SUMMARIES)
    assert (messages[0] in refs) == (keep is Keep.SOURCES)
    assert not [one for one in done.after if one.check == "A6"]


@pytest.mark.long
async def test_a_summary_is_not_taken_out_while_one_of_its_messages_is_missing(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT c.conversation_id, 900, 'message', l.message_id FROM context_items AS c
        JOIN summary_messages AS l ON l.summary_id = c.summary_id LIMIT 1""",
    )
    before = column(path, "SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL")
    await fix(path, only(FixId.DROP_COVERED_ITEMS), Keep.SOURCES)
    assert column(path, "SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL") == before


@pytest.mark.long
async def test_summaries_on_a_circle_both_stay(database_copy: DatabaseFactory):
    """Each covers the other: what to drop would be a guess."""
    path = database_copy("0.15.3")
    run(path, "INSERT INTO summary_parents VALUES ('sum_6f28c0a7f6f90a1a', 'sum_07742015d971b59d', 9)")
    run(path, "INSERT INTO summary_parents VALUES ('sum_07742015d971b59d', 'sum_6f28c0a7f6f90a1a', 9)")
    before = context_of(path, 1)
    findings = [one for one in await findings_of(path, whole_file=False) if one.check == "A7"]
    assert [one.fix for one in findings] == [None, None]
    findings = [replace(one, fix=FixId.DROP_COVERED_ITEMS) for one in findings]
    assert not (await fixes_of(path, findings)).plan
    assert context_of(path, 1) == before


# -- duplicates --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
async def test_repeated_messages_leave_the_context_and_keep_their_rows(
    version: str, database_copy: DatabaseFactory
):
    path = database_copy(version)
    before, count = context_of(path, 7), value(path, "SELECT count(*) FROM messages")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
        SELECT conversation_id, seq + 5000, role, content, token_count, created_at FROM messages
        WHERE conversation_id = 7 ORDER BY seq""",
        """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT 7, 100 + seq - 5000, 'message', message_id FROM messages
        WHERE conversation_id = 7 AND seq > 5000 ORDER BY seq""",
    )
    done = await fix(path, only(FixId.DROP_REPEATED_MESSAGES))
    [replay] = [one for one in done.before if one.check == "E3"]
    assert replay.confidence is BROKEN
    assert "stored again" in replay.sentence
    assert context_of(path, 7) == before
    assert value(path, "SELECT count(*) FROM messages") == count + len(before)
    again = [one for one in done.after if one.conversation_id == 7 and one.check in ("E3", "A11")]
    assert {one.confidence for one in again} == {Confidence.BY_DESIGN}
    assert not done.new


async def test_a_copy_whose_original_is_out_of_sight_stays(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)
        SELECT conversation_id, seq + 5000, role, content, token_count, created_at FROM messages
        WHERE conversation_id = 7 ORDER BY seq""",
        "UPDATE context_items SET message_id = (SELECT m.message_id FROM messages AS m JOIN messages AS o "
        "ON m.conversation_id = 7 AND m.seq = o.seq + 5000 WHERE o.message_id = context_items.message_id) "
        "WHERE conversation_id = 7",
    )
    [replay] = [one for one in await findings_of(path, whole_file=False) if one.check == "E3"]
    assert replay.fix is None


# -- counts ------------------------------------------------------------------------------------------------


async def test_a_lost_sum_is_no_reason_to_forget_what_it_proves(database_copy: DatabaseFactory):
    """Two of three sources are gone for good: the counters that say so are left as they are."""
    path = database_copy("0.15.3")
    consumer = value(
        path, "SELECT summary_id FROM summary_parents GROUP BY summary_id HAVING count(*) > 2 LIMIT 1"
    )
    run(
        path,
        f"DELETE FROM summary_parents WHERE summary_id = '{consumer}' AND ordinal = 1",
        f"UPDATE summaries SET source_message_token_count = source_message_token_count + 1 "
        f"WHERE summary_id = '{consumer}'",
    )
    found = [one for one in await findings_of(path, whole_file=False) if one.check in ("D2", "D3", "D4")]
    assert {one.fix for one in found if one.rows[0].key == (consumer,)} == {None}


@pytest.mark.long
async def test_a_wrong_count_is_mended_upward_as_far_as_it_shows(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = dump(path)
    leaf = value(
        path,
        """SELECT e.parent_summary_id FROM summary_parents AS e JOIN summaries AS s
        ON s.summary_id = e.parent_summary_id WHERE s.kind = 'leaf' AND s.token_count > 0 LIMIT 1""",
    )
    run(path, f"UPDATE summaries SET token_count = -5 WHERE summary_id = '{leaf}'")
    done = await fix(path, lambda one: one.check == "D14")
    assert dump(path) == before
    assert not done.new


@pytest.mark.long
async def test_a_message_that_cannot_be_counted_is_left(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    bulk = value(
        path,
        """SELECT message_id FROM messages AS m WHERE role = 'assistant' AND NOT EXISTS
        (SELECT 1 FROM message_parts AS p WHERE p.message_id = m.message_id) AND content <> '' LIMIT 1""",
    )
    run(path, f"UPDATE messages SET token_count = -3 WHERE message_id = {bulk}")
    findings = [one for one in await findings_of(path, whole_file=False) if one.check == "D14"]
    fixes = await fixes_of(path, findings)
    assert not fixes.plan
    assert len(fixes.left) == 1
    assert "cannot be recounted" in fixes.left[0]


# -- the value ---------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_finding_that_is_gone_changes_nothing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    findings = await findings_of(path)
    fixes = await fixes_of(path, findings)
    commit(path, fixes.plan)
    again = await fixes_of(path, findings)
    assert not again.plan


@pytest.mark.long
async def test_one_finding_of_several_is_mended_alone(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    first, second = column(path, "SELECT summary_id FROM summaries WHERE depth = 2 ORDER BY rowid LIMIT 2")
    run(path, f"UPDATE summaries SET descendant_count = 77 WHERE summary_id IN ('{first}', '{second}')")
    done = await fix(path, lambda one: one.check == "D2" and one.rows[0].key == (first,))
    assert {one.rows[0].key[0] for one in done.after if one.check == "D2"} >= {second}
    assert value(path, f"SELECT descendant_count FROM summaries WHERE summary_id = '{second}'") == 77
    assert value(path, f"SELECT descendant_count FROM summaries WHERE summary_id = '{first}'") != 77


@pytest.mark.long
async def test_statements_do_not_grow_with_the_square_of_the_context(database_copy: DatabaseFactory):
    """3,680 raw messages, every other one twice, as against a quarter of it."""
    counts = []
    for size in (920, 3_680):
        path = database_copy("0.15.3")
        with connect(path) as connection:
            connection.execute("BEGIN")
            connection.executemany(
                """INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count,
                created_at) VALUES (?, 7, ?, 'user', ?, 5, datetime('2026-03-06', ? || ' seconds'))""",
                ((100_000 + n, 1_000 + n, f"message number {n} of many others", n) for n in range(size)),
            )
            items = [100_000 + n // 3 * 2 + (n % 3 == 1) for n in range(size)]
            connection.executemany(
                """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
                VALUES (7, ?, 'message', ?)""",
                ((1_000 + n, message) for n, message in enumerate(items)),
            )
            connection.execute("COMMIT")
        async with await Database.open(path) as database:
            report = await run_checks(
                database, conversation=7, only={"A4", "A8"}, whole_file=False, limits=LIMITS
            )
            before = database.statements
            fixes = await database.read(plan_fixes, list(report.findings()))
            counts.append(database.statements - before)
        assert len(fixes.plan.edits) < 100
        if size == 920:
            refs = [ref for _, ref in context_of(path, 7)]
            commit(path, fixes.plan)
            assert [ref for _, ref in context_of(path, 7)] == list(dict.fromkeys(refs))
    assert counts[1] < counts[0] * 1.5


@pytest.mark.long
@settings(max_examples=60)
@given(STEPS, st.sampled_from(REAL))
def test_arbitrary_damage_is_mended_or_refused_in_a_sentence(
    steps: list[tuple[str, int, int, int, object, bool]], version: str
):
    """Whatever rows hold: a plan or a refusal, and an undo that gives the same rows back."""
    with tempfile.TemporaryDirectory() as folder:
        path = unpack_database(version, Path(folder) / "lcm.db")
        with connect(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for table, column_, every, offset, held, delete in steps:
                names = [found[1] for found in connection.execute(f"PRAGMA table_info({table})")]
                if not names:
                    continue
                change, values = f"UPDATE OR IGNORE {table} SET {names[column_ % len(names)]} = ?", (held,)
                if delete:
                    change, values = f"DELETE FROM {table}", ()
                with contextlib.suppress(sqlite3.IntegrityError):
                    connection.execute(f"{change} WHERE rowid % {every} = {offset % every}", values)
        with contextlib.suppress(LcmError):
            asyncio.run(fix(path, lambda one: one.fix is not None))


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(["0.1.2", "0.8.2", "0.15.3", "1.0-next"], ("0.1.2", "0.15.3")))
async def test_counts_are_made_again_by_the_rule_that_the_check_goes_by(
    database_copy: DatabaseFactory, version: str
):
    """What D1 names has the count again that the engine of the file gave it, and D1 has nothing to say."""
    path = database_copy(version)
    counts = "SELECT message_id, token_count FROM messages"
    with connect(path) as connection:
        before = dict(connection.execute(counts))
        connection.execute("UPDATE messages SET token_count = token_count + 40 WHERE message_id % 3 = 0")
    done = await fix(path, lambda one: one.check == "D1")
    named = {row.key[0] for one in done.before if one.check == "D1" for row in one.rows}
    with connect(path) as connection:
        after = dict(connection.execute(counts))
    assert len(named) > 50
    assert {one: after[one] for one in named} == {one: before[one] for one in named}
    assert not [one for one in done.after if one.check == "D1"]
