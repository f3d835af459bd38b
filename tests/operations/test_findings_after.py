"""What our own operations leave behind is no damage to the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core.api import Confidence, plan_dissolve, plan_transplant
from lcm_core.base.findings import FixId
from lcm_core.change.commit import commit
from lcm_core.checks.running import CHECKS

from tests.change.support import dump, planned, unpacked
from tests.cli.support import run as lcm_tui
from tests.conftest import DatabaseFactory
from tests.core.checks.planting import LEAF, ROOT
from tests.databases import run
from tests.operations.fixing import findings_of, fix

#: In the context of conversation 2 of 0.8.2, of which /new left the rest out.
DEEP = "sum_8ed7b7de0ddf5abe"

#: Checks that go by texts and by what they were made from: copies of bad summaries are bad.
BY_TEXT = "C"


async def doubtful(path: Path) -> set[tuple[str, object]]:
    """Checks and conversations with findings that are not by design, texts left out."""
    found = await findings_of(path, whole_file=False)
    return {
        (one.check, one.conversation_id)
        for one in found
        if one.confidence is not Confidence.BY_DESIGN and not one.check.startswith(BY_TEXT)
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "source", "target"),
    [
        ("0.15.3", 4, 7),
        pytest.param("0.1.2", 1, 3, marks=pytest.mark.long),
        pytest.param("0.8.2", 1, 3, marks=pytest.mark.long),
        pytest.param("0.15.3", 1, 3, marks=pytest.mark.long),
        pytest.param("0.15.3", 1, 2, marks=pytest.mark.long),
        pytest.param("0.15.3", 2, 6, marks=pytest.mark.long),
    ],
)
async def test_copies_of_another_conversation_are_no_disorder(
    version: str, source: int, target: int, database_copy: DatabaseFactory
):
    path = database_copy(version)
    before = await doubtful(path)
    commit(path, await planned(path, plan_transplant, source, target, skip_duplicates=True))
    assert await doubtful(path) == before


@pytest.mark.long
async def test_times_that_go_back_behind_the_copies_are_found_all_the_same(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    commit(path, await planned(path, plan_transplant, 1, 3))
    run(
        path,
        "UPDATE messages SET created_at = '2026-02-01 10:00:00' WHERE conversation_id = 3 AND seq = 90",
        "UPDATE context_items SET ordinal = 9000 WHERE ordinal = (SELECT max(ordinal) - 6 FROM context_items "
        "WHERE conversation_id = 3) AND conversation_id = 3",
    )
    assert {("E2", 3), ("A10", 3)} <= await doubtful(path)


@pytest.mark.long
@pytest.mark.parametrize("keep", [False, True])
async def test_what_new_left_out_stays_explained_when_a_deep_summary_is_dissolved(
    keep: bool, database_copy: DatabaseFactory
):
    """0.8.2 does not record when ``/new`` was: its shape has to tell, which dissolving changes."""
    path = database_copy("0.8.2")
    before = await doubtful(path)
    plan = await planned(path, plan_dissolve, 2, [DEEP], keep=keep)
    commit(path, plan)
    assert await doubtful(path) == before


async def test_a_leaf_that_is_lost_before_the_raw_messages_is_not_taken_for_left_out(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.8.2")
    run(
        path,
        "DELETE FROM context_items WHERE conversation_id = 4 AND ordinal = 1",
        "UPDATE context_items SET ordinal = ordinal - 1 WHERE conversation_id = 4 AND ordinal > 1",
    )
    assert ("B13", 4) in await doubtful(path)


def test_a_file_that_was_migrated_lacks_no_checkpoint(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    assert lcm_tui("--db", path, "migrate", "--apply", "--yes").code == 0
    found = lcm_tui("--db", path, "doctor", "--all", "--check", "G8", "--json")
    assert found.code == 0, found.out
    assert "before the file kept checkpoints" in found.out


# -- the numbers of sources (B17) ---------------------------------------------------------------------------


async def numbering(path: Path):
    return [one for one in await findings_of(path, whole_file=False) if one.check == "B17"]


FURTHER = (
    f"UPDATE summary_messages SET ordinal = 0 WHERE summary_id = '{LEAF}'",
    f"UPDATE summary_parents SET ordinal = 1 - ordinal WHERE summary_id = '{ROOT}' AND ordinal < 2",
)


@pytest.mark.long
@pytest.mark.parametrize(
    "damage",
    [
        f"UPDATE summary_messages SET ordinal = 99 - ordinal WHERE summary_id = '{LEAF}'",
        f"UPDATE summary_parents SET ordinal = 7 * ordinal + 3 WHERE summary_id = '{ROOT}'",
        *(pytest.param(sql, marks=pytest.mark.long) for sql in FURTHER),
    ],
)
async def test_sources_get_their_numbers_back(damage: str, database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = dump(path)
    run(path, damage)
    done = await fix(path, lambda one: one.fix is FixId.NUMBER_SOURCES)
    assert "number" in done.fixes.plan.title
    assert dump(path) == before
    assert not done.new


@pytest.mark.long
async def test_a_number_that_may_be_the_trace_of_a_loss_stays(database_copy: DatabaseFactory):
    """0.1.2 keeps no sum of a leaf's messages, so nothing says that the missing number was of none."""
    path = database_copy("0.1.2")
    run(
        path,
        """UPDATE summary_messages SET ordinal = ordinal + 1 WHERE ordinal > 2 AND summary_id =
        (SELECT max(summary_id) FROM summary_messages)""",
    )
    [found] = await numbering(path)
    assert found.fix is None
    assert "lost source" in CHECKS["B17"].unfixed
    run(
        path,
        """UPDATE summary_messages SET ordinal = ordinal - 1 WHERE ordinal > 2 AND summary_id =
        (SELECT max(summary_id) FROM summary_messages)""",
    )
    assert not await numbering(path)


# -- what stood first (B13, A11) ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0"])
async def test_a_summary_that_fell_out_at_the_front_comes_back(version: str, database_copy: DatabaseFactory):
    """Before 0.6.0 no command takes anything out of a context, so a first ordinal above 0 is a loss."""
    path = database_copy(version)
    before = dump(path)["context_items"]
    run(path, "DELETE FROM context_items WHERE conversation_id = 5 AND ordinal = 0")
    [lost] = [one for one in await findings_of(path, whole_file=False) if one.check == "B13"]
    assert (lost.confidence, lost.fix) == (Confidence.BROKEN, FixId.RESTORE_SUMMARIES)
    await fix(path, lambda one: one.check == "B13")
    ours, theirs = (
        [{**unpacked(row), "created_at": None} for row in rows]
        for rows in (dump(path)["context_items"], before)
    )
    assert sorted(ours, key=str) == sorted(theirs, key=str)


@pytest.mark.long
async def test_where_new_may_have_taken_the_first_items_nothing_is_put_back(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "DELETE FROM context_items WHERE conversation_id = 4 AND ordinal = 0")
    [lost] = [
        one
        for one in await findings_of(path, whole_file=False)
        if one.check == "B13" and one.conversation_id == 4
    ]
    assert lost.fix is None
