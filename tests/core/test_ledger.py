"""What becomes of each item of a context, how far its next compaction is, and how two contexts differ."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from lcm_core.api import Database, NotFoundError
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.messages import OriginKind
from lcm_core.engine.rules import engine_rules
from lcm_core.engine.sent import compare_contexts, ledger_of, names_of, sent_now, write_lines
from lcm_core.operations.assembly import assemble_context
from lcm_core.operations.compact import CompactionSetting
from lcm_core.operations.compact_pass import load_for_compaction
from lcm_core.operations.snapshots import ComparedContext, read_comparison
from lcm_core.store.context import context_items
from lcm_core.store.context_view import distance_of, read_context
from lcm_core.writers.source import Rendering

from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.support import with_values

VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3", "0.15.3-damaged")
BUDGETS = (300, 1_500, 3_500, 128_000)


async def ledger(path: Path, number: int, budget: int, *, fresh_tail_count: int | None = 5):
    settings = AssemblySettings(budget, fresh_tail_count=fresh_tail_count, clamp=True)
    async with await Database.open(path) as database:
        found = await database.read(assemble_context, number, settings, zone=UTC)
    return ledger_of(found)


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_item_has_a_fate_and_they_add_up(version: str, database_file: DatabaseFactory):
    async def look(reader) -> None:
        for row in await reader.rows("SELECT DISTINCT conversation_id AS number FROM context_items"):
            items = await context_items(reader, row["number"])
            for budget in BUDGETS:
                settings = AssemblySettings(budget, fresh_tail_count=5, clamp=True)
                found = await assemble_context(reader, row["number"], settings, zone=UTC)
                one = ledger_of(found)
                fates = [one.fate(at, item) for at, item in zip(items.ordinals, items.refs, strict=True)]
                assert all(fate is not None for fate in fates), (row["number"], budget)
                gone = [fate for fate in fates if fate is not None and not fate.sent]
                briefs = [each for each in found.evicted if each.origin and each.origin.brief_id]
                assert len(gone) + len(briefs) == found.evicted_items == sum(one.left_out.values())
                assert all(fate.step is not None and fate.why for fate in gone)
                numbers = [fate.number for fate in fates if fate is not None and fate.number is not None]
                kinds = [message.origin.kind for message in found.messages]
                assert len(set(numbers)) == len(numbers)
                assert len(numbers) == sum(kind in (OriginKind.MESSAGE, OriginKind.SUMMARY) for kind in kinds)
                assert len(one.keys) == len(set(one.keys)) == len(found.messages)

    async with await Database.open(database_file(version)) as database:
        await database.read(look)


async def test_each_step_is_named(database_file: DatabaseFactory):
    small = await ledger(database_file("0.15.3"), 1, 3_500, fresh_tail_count=None)
    fates = [small.fate(at, item) for at, item in enumerate(["sum_4c4bd5292abfa225", "sum_6f28c0a7f6f90a1a"])]
    assert [fate.step for fate in fates if fate] == ["budget", "final clamp"]
    assert small.left_out == {"budget": 1, "final clamp": 4}
    focused = await ledger(database_file("0.15.3"), 2, 128_000)
    covered = focused.fate(0, "sum_253c14ef1ca84d7c")
    assert covered is not None
    assert (covered.step, covered.sent) == ("focus brief", False)
    # The brief stands at the same ordinal and is a message of its own.
    assert focused.keys[0][0] == "brief"
    assert focused.key_at(0) == focused.keys[0]


async def test_a_fate_is_that_of_the_item_and_not_of_the_ordinal(database_file: DatabaseFactory):
    one = await ledger(database_file("0.15.3"), 1, 128_000)
    assert one.fate(0, "sum_4c4bd5292abfa225") is not None
    assert one.fate(0, "sum_6f28c0a7f6f90a1a") is None
    assert one.fate(99, 850) is None


async def test_what_was_not_read_has_a_fate_too(database_file: DatabaseFactory):
    one = await ledger(database_file("0.15.3"), 1, 128_000)
    from lcm_core.engine.items import UnreadItems

    cut = ledger_of(replace(one.assembled, unread=UnreadItems(40, 2, 0, 100, 139)))
    found = cut.fate(120, 12_345)
    assert found is not None
    assert (found.read, found.step) == (False, "budget")
    assert cut.left_out["budget"] == 40
    assert cut.fate(140, 12_345) is None


async def test_what_is_mended_is_told_at_the_item(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("DELETE FROM context_items WHERE message_id = 850")
    one = await ledger(path, 1, 128_000, fresh_tail_count=None)
    caller = one.fate(5, 849)
    assert caller is not None
    assert [str(repair.what) for repair in caller.repairs] == [
        "tool call without a result answered with an error"
    ]
    made_up = [key for key in one.keys if key[0] == "synthetic"]
    assert len(made_up) == 1
    message = one.message(made_up[0])
    assert message is not None
    assert message.is_error


# -- the next compaction ------------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_distance_says_what_the_engine_would_do(version: str, database_file: DatabaseFactory):
    seen = set()

    async def look(reader) -> None:
        rules = engine_rules(reader.schema)
        for row in await reader.rows("SELECT DISTINCT conversation_id AS number FROM context_items"):
            loaded = await load_for_compaction(reader, row["number"], Rendering(rules))
            few = with_values(rules, fresh_tail_count=5).tail
            totals = (await read_context(reader, row["number"], few)).totals
            for budget in (500, 2_000, loaded.tokens * 4 // 3, 128_000):
                for chunk in (20_000, 400):
                    small = with_values(rules, fresh_tail_count=5, leaf_chunk_tokens=chunk)
                    found = distance_of(totals, small.compaction, budget)
                    compaction = CompactionSetting(Rendering(small), budget).compaction(loaded, lambda: 0)
                    chunk_due = rules.compaction.leaf_trigger and compaction.is_chunk_due()
                    due = compaction.is_over() or chunk_due
                    assert found.due == due, (row["number"], budget, chunk)
                    assert found.left == 0 or not due
                    assert found.left >= 0
                    seen.add(due)

    async with await Database.open(database_file(version)) as database:
        await database.read(look)
    assert seen == {True, False}


# -- two contexts -------------------------------------------------------------------------------------------


async def test_two_budgets_differ_by_what_is_left_out(database_file: DatabaseFactory):
    small = (await ledger(database_file("0.15.3"), 1, 3_500, fresh_tail_count=None)).assembled
    large = (await ledger(database_file("0.15.3"), 1, 128_000, fresh_tail_count=None)).assembled
    found = compare_contexts(sent_now(small), sent_now(large))
    assert found.only_old == ()
    assert names_of(found.only_new) == (
        "sum_4c4bd5292abfa225",
        "sum_6f28c0a7f6f90a1a",
        "sum_07742015d971b59d",
        "sum_bb692ab9b90b6a49",
        "message 865",
    )
    assert (found.changed, found.same) == ((), 17)
    assert (found.diff.removed, len(found.diff.hunks)) == (0, 2)
    assert found.diff.text() == "\n".join(write_lines(large.messages).lines)
    back = compare_contexts(sent_now(large), sent_now(small))
    assert back.only_old == found.only_new
    assert compare_contexts(sent_now(large), sent_now(large)).diff.hunks == ()


async def test_a_message_that_says_something_else_is_changed(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    before = (await ledger(path, 1, 128_000)).assembled
    with connect(path) as connection:
        connection.execute("UPDATE summaries SET content = 'short' WHERE summary_id = 'sum_bb692ab9b90b6a49'")
    after = (await ledger(path, 1, 128_000)).assembled
    found = compare_contexts(sent_now(before), sent_now(after))
    assert names_of(found.changed) == ("sum_bb692ab9b90b6a49",)
    assert (found.only_old, found.only_new, found.same) == ((), (), 21)
    [hunk] = found.diff.hunks
    assert found.new_text.heading_at(hunk.new_start) == "== user · sum_bb692ab9b90b6a49 d2"


async def test_a_conversation_that_there_is_not_is_said(database_file: DatabaseFactory):
    settings = AssemblySettings(1_000)
    async with await Database.open(database_file("0.15.3")) as database:
        with pytest.raises(NotFoundError):
            await database.read(
                read_comparison,
                ComparedContext(1, settings),
                ComparedContext(99, settings),
                None,
            )
