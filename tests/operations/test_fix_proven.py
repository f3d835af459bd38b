"""What the new fixes prove, and where they stop: a fix that would guess is not offered, and says why."""

from __future__ import annotations

import pytest
from lcm_core.api import Confidence
from lcm_core.base.findings import FixId
from lcm_core.checks.running import CHECKS

from tests.change.support import context_of
from tests.conftest import DatabaseFactory
from tests.core.checks.planting import CONDENSED, LEAF, LONELY, LONELY_TOO, ROOT, ROOT_TOO
from tests.databases import column, run, value
from tests.operations.fixing import findings_of, fix, fixes_of
from tests.support import sampled


async def of_check(path, *checks: str):
    return [one for one in await findings_of(path, whole_file=False) if one.check in checks]


def sources_of(path, summary: str) -> list[str]:
    return column(
        path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ? ORDER BY ordinal", summary
    )


# -- what is left of a summary that is gone (A2) ------------------------------------------------------------


@pytest.mark.long
async def test_the_sources_of_a_gone_summary_take_its_place(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    standing = [ref for _, ref in context_of(path, 4)]
    run(path, f"DELETE FROM summaries WHERE summary_id = '{CONDENSED}'")
    done = await fix(path, lambda one: one.check == "A2")
    assert "put" in done.fixes.plan.title
    refs = [ref for _, ref in context_of(path, 4)]
    assert refs == [*sources_of(path, CONDENSED), *standing[1:]]
    assert not [one for one in done.after if one.check in ("A2", "A6", "A7", "A10", "A12")]


@pytest.mark.long
async def test_what_is_in_sight_already_does_not_come_twice(database_copy: DatabaseFactory):
    """One source of the gone summary stands in the context, of another one a message does."""
    path = database_copy("0.15.3")
    first, second, *others = sources_of(path, CONDENSED)
    message, *rest = column(
        path, "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", second
    )
    run(
        path,
        f"DELETE FROM summaries WHERE summary_id = '{CONDENSED}'",
        f"INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) "
        f"VALUES (4, 90, 'summary', '{first}')",
        f"INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) "
        f"VALUES (4, 91, 'message', {message})",
    )
    await fix(path, lambda one: one.check == "A2")
    refs = [ref for _, ref in context_of(path, 4)]
    assert refs[: len(rest) + len(others)] == [*rest, *others]
    assert len(refs) == len(set(refs))
    assert refs[-2:] == [first, message]


@pytest.mark.long
async def test_a_gone_summary_that_a_live_one_covers_leaves_nothing_behind(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    top = context_of(path, 1)[0][1]
    source = sources_of(path, str(top))[0]
    run(
        path,
        f"DELETE FROM summaries WHERE summary_id = '{source}'",
        f"INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) "
        f"VALUES (1, 900, 'summary', '{source}')",
    )
    before = context_of(path, 1)
    await fix(path, lambda one: one.check == "A2")
    assert context_of(path, 1) == before[:-1]


@pytest.mark.long
async def test_lines_stay_while_they_tell_what_stood_there(database_copy: DatabaseFactory):
    """Deleted alone, nobody could bring the sources back."""
    path = database_copy("0.15.3")
    run(path, f"DELETE FROM summaries WHERE summary_id = '{LEAF}'")
    [bad] = await of_check(path, "B4")
    fixes = await fixes_of(path, [bad])
    assert not fixes.plan
    [left] = fixes.left
    assert "fix that (A2) first" in left
    both = await fixes_of(path, await of_check(path, "A2", "B4"))
    assert both.plan
    assert not both.left


# -- another conversation's rows (A5) -----------------------------------------------------------------------


async def test_what_no_other_context_reaches_stays(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, f"UPDATE context_items SET conversation_id = 4, ordinal = 90 WHERE summary_id = '{LONELY}'")
    [found] = await of_check(path, "A5")
    assert found.fix is None
    assert "in no context" in found.sentence
    assert "merge" in CHECKS["A5"].unfixed
    run(path, f"UPDATE summaries SET conversation_id = 4 WHERE summary_id = '{LONELY}'")


# -- order (A10, A12) ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
async def test_a_shuffled_context_is_put_in_its_order(version: str, database_copy: DatabaseFactory):
    path = database_copy(version)
    before = context_of(path, 4)
    last = len(before)
    run(
        path,
        "UPDATE context_items SET ordinal = ordinal + 1000 WHERE conversation_id = 4",
        f"UPDATE context_items SET ordinal = (ordinal - 1000) * 5 % {last} WHERE conversation_id = 4",
    )
    shuffled = context_of(path, 4)
    assert shuffled != before
    done = await fix(path, lambda one: one.fix is FixId.REORDER)
    assert [ref for _, ref in context_of(path, 4)] == [ref for _, ref in before]
    assert not [one for one in done.after if one.check in ("A10", "A12") and one.conversation_id == 4]
    assert not done.new


@pytest.mark.long
async def test_an_order_that_overlaps_is_not_guessed(database_copy: DatabaseFactory):
    """The message belongs into the middle of what the leaf beside it covers."""
    path = database_copy("0.15.3")
    middle = value(
        path, f"SELECT message_id FROM summary_messages WHERE summary_id = '{LEAF}' AND ordinal = 3"
    )
    run(
        path,
        f"DELETE FROM summary_messages WHERE message_id = {middle}",
        "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) "
        f"VALUES (4, 90, 'message', {middle})",
    )
    [found] = await of_check(path, "A10")
    assert found.fix is None
    assert "no unique order" in found.sentence


# -- false lines (B6, B7, B14, B15) -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(["0.1.2", "0.8.2", "0.15.3"], ["0.15.3"]))
async def test_a_circle_is_cut_where_the_counters_say(version: str, database_copy: DatabaseFactory):
    path = database_copy(version)
    top = str(context_of(path, 1)[0][1])
    below = sources_of(path, top)[0]
    before = sources_of(path, below)
    assert before, "the first source is a condensed summary in each of these"
    run(path, f"INSERT INTO summary_parents VALUES ('{below}', '{top}', {len(before)})")
    done = await fix(path, lambda one: one.check == "B6")
    assert sources_of(path, below) == before
    assert "B6" not in {one.check for one in done.after}
    assert not done.new


@pytest.mark.long
async def test_a_circle_that_no_counter_tells_apart_stays(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    below = sources_of(path, ROOT)[0]
    run(
        path,
        f"INSERT INTO summary_parents VALUES ('{below}', '{ROOT}', 9)",
        f"UPDATE summaries SET descendant_count = 0 WHERE summary_id IN ('{below}', '{ROOT}')",
    )
    [found] = await of_check(path, "B6")
    assert found.fix is None
    assert "no record proves" in found.sentence


@pytest.mark.long
async def test_what_really_went_into_two_stays_in_both(database_copy: DatabaseFactory):
    """Two sweeps at once: the counters of both tell it, so neither line may go."""
    path = database_copy("0.15.3")
    source = sources_of(path, ROOT)[0]
    run(path, f"INSERT INTO summary_parents VALUES ('{ROOT_TOO}', '{source}', 9)")
    await fix(path, lambda one: one.check in ("D2", "D3", "D4", "D7") and one.fix is not None)
    # Proven, the false edge is gone; with counters that tell it, it stays.
    assert source not in sources_of(path, ROOT_TOO)
    run(
        path,
        f"INSERT INTO summary_parents VALUES ('{ROOT_TOO}', '{source}', 9)",
        f"""UPDATE summaries SET
        descendant_count = descendant_count + 1 +
            (SELECT descendant_count FROM summaries WHERE summary_id = '{source}'),
        descendant_token_count = descendant_token_count +
            (SELECT token_count + descendant_token_count FROM summaries WHERE summary_id = '{source}'),
        source_message_token_count = source_message_token_count +
            (SELECT source_message_token_count FROM summaries WHERE summary_id = '{source}'),
        earliest_at = min(earliest_at, (SELECT earliest_at FROM summaries WHERE summary_id = '{source}')),
        latest_at = max(latest_at, (SELECT latest_at FROM summaries WHERE summary_id = '{source}'))
        WHERE summary_id = '{ROOT_TOO}'""",
    )
    [found] = [one for one in await of_check(path, "B14") if one.confidence is Confidence.BROKEN]
    assert found.fix is None


async def test_a_message_without_tokens_proves_nothing(database_copy: DatabaseFactory):
    """With it or without it the sums and the time ranges are the same, of both leaves."""
    path = database_copy("0.15.3")
    leaves = f"('{LONELY}', '{LONELY_TOO}')"
    shared = value(
        path, f"SELECT message_id FROM summary_messages WHERE summary_id = '{LONELY}' AND ordinal = 1"
    )
    count = value(path, f"SELECT token_count FROM messages WHERE message_id = {shared}")
    run(
        path,
        f"INSERT INTO summary_messages VALUES ('{LONELY_TOO}', {shared}, 99)",
        f"UPDATE messages SET created_at = '2026-03-02 10:00:00' WHERE message_id IN "
        f"(SELECT message_id FROM summary_messages WHERE summary_id IN {leaves})",
        f"UPDATE messages SET token_count = 0 WHERE message_id = {shared}",
        f"UPDATE summaries SET earliest_at = '2026-03-02T10:00:00.000Z', "
        f"latest_at = '2026-03-02T10:00:00.000Z' WHERE summary_id IN {leaves}",
        f"UPDATE summaries SET source_message_token_count = source_message_token_count - {count} "
        f"WHERE summary_id = '{LONELY}'",
    )
    [found] = [one for one in await of_check(path, "B15") if one.confidence is Confidence.BROKEN]
    assert found.fix is None


# -- words --------------------------------------------------------------------------------------------------


def test_what_has_no_fix_says_why():
    for check in ("A5", "A10", "A12", "B6", "B7", "B14", "B15", "E11"):
        assert CHECKS[check].unfixed != CHECKS["C20"].unfixed
