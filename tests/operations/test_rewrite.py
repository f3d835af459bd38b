"""A rewrite as a plan: what changes with the text, by compare and set; and who is stale afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lcm_core.api import Database, NotFoundError, RefusedError, plan_redo, plan_undo
from lcm_core.base.tokens import Estimator, estimate_utf16, estimate_weighted
from lcm_core.base.values import replace
from lcm_core.change.commit import commit_plan
from lcm_core.change.plan import RowChange, row_counts
from lcm_core.change.preview import preview_plan
from lcm_core.change.undo import NotUndoableError
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.drafting import earlier_digest_of, read_material
from lcm_core.operations.rewrite import ChangedMeanwhileError, SourceChangedError, plan_restore, plan_rewrite
from lcm_core.operations.stale import stale_in

from tests.change.support import dump, search_faults
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, run, value
from tests.operations.drafting import CONVERSATION, VERSIONS, faults_of, setting_of
from tests.support import sampled

TEXT = "概要: kept the 36s timeout. file_0123456789abcdef\nExpand for details about: the timeout"


def deep(path: Path):
    """A leaf with the most consumers above it."""
    with connect(path) as connection:
        found = connection.execute(
            """SELECT first.parent_summary_id FROM summary_parents AS first
            JOIN summaries AS s ON s.summary_id = first.parent_summary_id AND s.kind = 'leaf'
            JOIN summary_parents AS second ON second.parent_summary_id = first.summary_id
            WHERE s.conversation_id = 1 ORDER BY s.rowid LIMIT 1"""
        ).fetchone()
    return found[0]


def above(path: Path, summary_id: str) -> list[str]:
    """Everything that was made from a summary."""
    return column(
        path,
        """WITH RECURSIVE up(id) AS (SELECT ? UNION
        SELECT p.summary_id FROM up JOIN summary_parents AS p ON p.parent_summary_id = up.id)
        SELECT id FROM up WHERE id <> ?""",
        summary_id,
        summary_id,
    )


async def planned(database: Database, summary_id, text: str = TEXT, base=None, **how: str):
    rendering = setting_of(database.schema).rendering
    model = how.pop("model", "m")
    return await database.read(
        plan_rewrite, CONVERSATION, summary_id, text, model=model, rendering=rendering, base=base, **how
    )


async def rewritten(database: Database, summary_id, text: str = TEXT) -> str:
    return (await commit_plan(database, await planned(database, summary_id, text))).id


async def base_of(database: Database, summary_id):
    rendering = setting_of(database.schema).rendering
    return (await database.read(read_material, summary_id, rendering)).base


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2", "0.15.3")))
async def test_everything_follows_and_everything_comes_back(
    version: str, database_copy: DatabaseFactory
) -> None:
    path = database_copy(version)
    leaf = deep(path)
    before, faults, consumers = dump(path), await faults_of(path), above(path, leaf)
    assert len(consumers) >= 2
    async with await Database.open(path) as database:
        plan = await planned(database, leaf)
        assert plan.select == leaf
        assert "1 summary depends on the old text" in plan.warnings[0]
        touched = {edit.key["summary_id"] for edit in plan.edits if isinstance(edit, RowChange)}
        counted = database.schema.has("summaries", "descendant_token_count")
        assert touched == ({leaf, *consumers} if counted else {leaf})
        assert {(one.table, one.insert, one.delete) for one in row_counts(plan.edits)} == {
            ("summaries", 0, 0)
        }
        done = await commit_plan(database, plan)
        weighted = engine_rules(database.schema).estimator is Estimator.WEIGHTED
        estimate = estimate_weighted if weighted else estimate_utf16
        held = (
            value(path, "SELECT content FROM summaries WHERE summary_id = ?", leaf),
            value(path, "SELECT token_count FROM summaries WHERE summary_id = ?", leaf),
        )
        assert held == (TEXT, estimate(TEXT))
        if database.schema.has("summaries", "model"):
            assert value(path, "SELECT model FROM summaries WHERE summary_id = ?", leaf) == "m"
        assert await faults_of(path) <= faults
        assert search_faults(path) == []
        await commit_plan(database, await database.read(plan_undo, done.id))
    assert dump(path) == before


async def test_the_tokens_of_the_context_follow_the_text_of_what_stands_there(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    standing = str(
        value(path, "SELECT summary_id FROM context_items WHERE conversation_id = 1 AND ordinal = 0")
    )
    sums = """SELECT sum(coalesce(m.token_count, 0) + coalesce(s.token_count, 0)) FROM context_items AS c
        LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = 1"""
    before = value(path, sums)
    async with await Database.open(path) as database:
        below, inside = await planned(database, deep(path)), await planned(database, standing)
        assert (await database.read(preview_plan, below)).tokens.change == 0
        shown = (await database.read(preview_plan, inside)).tokens
        done = await commit_plan(database, inside)
    assert (shown.before, shown.after) == (before, value(path, sums))
    assert done.tokens == shown.change != 0


async def test_a_text_that_changed_since_the_draft_is_refused_with_all_three(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    async with await Database.open(path) as database:
        base = await base_of(database, leaf)
        run(path, f"UPDATE summaries SET content = 'theirs' WHERE summary_id = '{leaf}'")
        await database.refresh()
        with pytest.raises(ChangedMeanwhileError) as refused:
            await planned(database, leaf, base=base)
        error = refused.value
        assert (error.base, error.theirs, error.ours) == (base.content, "theirs", TEXT)
        assert "theirs" in error.message
        assert int(error.exit_code) == 7
        longer = ChangedMeanwhileError(leaf, base.content, f"{base.content} HOST", TEXT)
        end, size = base.content[-10:], len(base.content)
        assert f"{end}' ({size:,} characters), now '… " in longer.message, "the place where they differ"
        assert f"{end} HOST' ({size + 5:,} characters)" in longer.message
        assert "preview the change again" not in longer.message, "that would be refused again"


async def test_a_source_that_changed_since_the_draft_is_refused(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    [consumer] = column(path, "SELECT summary_id FROM summary_parents WHERE parent_summary_id = ?", leaf)
    async with await Database.open(path) as database:
        bases = {one: await base_of(database, one) for one in (leaf, consumer)}
        await rewritten(database, leaf)
        with pytest.raises(SourceChangedError):
            await planned(database, consumer, base=bases[consumer])
        message = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf)
        run(path, f"UPDATE messages SET content = content || '!' WHERE message_id = {message}")
        await database.refresh()
        fresh = await base_of(database, leaf)
        with pytest.raises(SourceChangedError):
            await planned(database, leaf, "another", base=replace(bases[leaf], content=fresh.content))


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "change",
    [
        """message_parts SET metadata = '{"rawType":"image"}'""",
        "message_parts SET part_type = 'file'",
        "message_parts SET tool_name = 'another'",
        "messages SET role = 'system'",
        "messages SET created_at = '2026-01-01 00:00:00'",
    ],
)
async def test_a_source_is_more_than_its_texts(change: str, database_copy: DatabaseFactory) -> None:
    """What a header says, and what a part is, change the source text too; drafts of 0.1 did not record it."""
    path = database_copy("0.15.3")
    leaf = deep(path)
    async with await Database.open(path) as database:
        rendering = setting_of(database.schema).rendering
        before = await database.read(read_material, leaf, rendering)
        run(
            path,
            f"""UPDATE {change} WHERE message_id =
            (SELECT message_id FROM summary_messages WHERE summary_id = '{leaf}' LIMIT 1)""",
        )
        await database.refresh()
        with pytest.raises(SourceChangedError):
            await planned(database, leaf, base=before.base)
        assert await planned(
            database, leaf, base=replace(before.base, source_digest=earlier_digest_of(before.source))
        )


async def test_what_is_no_change_or_no_text_is_refused(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    async with await Database.open(path) as database:
        held = (await base_of(database, leaf)).content
        for text in (" \u3000\n", "\0", held):
            with pytest.raises(RefusedError):
                await planned(database, leaf, text)
        with pytest.raises(NotFoundError):
            await planned(database, "sum_0000000000000000")
        rendering = setting_of(database.schema).rendering
        with pytest.raises(NotFoundError):
            await database.read(plan_rewrite, 2, leaf, TEXT, model="m", rendering=rendering)


async def test_hostile_text_is_stored_as_it_is_but_for_what_no_column_holds(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    text = "\x1b[31mred\u202e\u200b'; DROP TABLE summaries;-- \ud83d \udcff\0 <summary id='x'>"
    async with await Database.open(path) as database:
        await rewritten(database, leaf, text)
    assert (
        value(path, "SELECT content FROM summaries WHERE summary_id = ?", leaf)
        == "\x1b[31mred\u202e\u200b'; DROP TABLE summaries;-- \ufffd \udcff <summary id='x'>"
    )


async def test_a_counter_that_was_wrong_stays_and_is_named(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    [consumer] = column(path, "SELECT summary_id FROM summary_parents WHERE parent_summary_id = ?", leaf)
    run(path, f"UPDATE summaries SET descendant_token_count = 7 WHERE summary_id = '{consumer}'")
    async with await Database.open(path) as database:
        plan = await planned(database, leaf)
        assert any("was wrong before and is not changed" in one for one in plan.warnings)
        await commit_plan(database, plan)
    assert value(path, "SELECT descendant_token_count FROM summaries WHERE summary_id = ?", consumer) == 7


async def test_files_that_the_sources_name_are_listed_up_to_the_root(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    known = value(path, "SELECT file_id FROM large_files ORDER BY rowid LIMIT 1")
    message = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf)
    run(path, f"UPDATE messages SET content = content || ' {known}' WHERE message_id = {message}")
    async with await Database.open(path) as database:
        await rewritten(database, leaf)
    for one in (leaf, *above(path, leaf)):
        listed = json.loads(value(path, "SELECT file_ids FROM summaries WHERE summary_id = ?", one))
        assert listed.count(known) == 1
    invented = "file_0123456789abcdef"  # named by the new text; no file of this database
    assert not any(invented in one for one in column(path, "SELECT file_ids FROM summaries"))


async def test_a_cycle_above_ends(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    leaf = deep(path)
    consumers = above(path, leaf)
    run(path, f"INSERT INTO summary_parents VALUES ('{consumers[0]}', '{consumers[-1]}', 99)")
    async with await Database.open(path) as database:
        plan = await planned(database, leaf)
    assert len([edit for edit in plan.edits if isinstance(edit, RowChange)]) >= 1


class TestStale:
    """Stale is what rests on a text that has been replaced; the journal alone tells."""

    @pytest.fixture
    async def chain(self, database_copy: DatabaseFactory):
        path = database_copy("0.15.3")
        leaf = deep(path)
        middle, top = (one for one in above(path, leaf)[:2])
        return path, leaf, middle, top

    @staticmethod
    async def stale(database: Database) -> dict[str, tuple[str, ...]]:
        return {one.summary_id: one.sources for one in await database.read(stale_in, CONVERSATION)}

    async def test_up_the_graph_one_by_one(self, chain) -> None:
        path, leaf, middle, top = chain
        async with await Database.open(path) as database:
            assert await self.stale(database) == {}
            await rewritten(database, leaf)
            assert await self.stale(database) == {middle: (leaf,)}
            await rewritten(database, middle)
            assert await self.stale(database) == {top: (middle,)}
            await rewritten(database, leaf, "Again another text")
            assert await self.stale(database) == {middle: (leaf,), top: (middle,)}

    async def test_undo_and_redo(self, chain) -> None:
        path, leaf, middle, _ = chain
        async with await Database.open(path) as database:
            first = await rewritten(database, leaf)
            await commit_plan(database, await database.read(plan_undo, first))
            assert await self.stale(database) == {}
            await commit_plan(database, await database.read(plan_redo, first))
            assert await self.stale(database) == {middle: (leaf,)}
            second = await rewritten(database, middle)
            await commit_plan(database, await database.read(plan_undo, second))
            assert await self.stale(database) == {middle: (leaf,)}

    @pytest.mark.long
    async def test_one_of_several_is_given_back_its_text(self, chain) -> None:
        path, leaf, middle, top = chain
        before = dump(path)
        async with await Database.open(path) as database:
            rendering = setting_of(database.schema).rendering
            first, second = await rewritten(database, leaf), await rewritten(database, middle)
            with pytest.raises(NotUndoableError):  # the counters above hold both
                await database.read(plan_undo, first)
            plan = await database.read(plan_restore, first, rendering=rendering)
            assert (plan.kind, plan.select) == ("restore", leaf)
            third = (await commit_plan(database, plan)).id
            assert await self.stale(database) == {middle: (leaf,), top: (middle,)}
            assert not {one for one in await faults_of(path) if one.startswith(("D1 ", "D3 ", "F"))}
            with pytest.raises(ChangedMeanwhileError):
                await database.read(plan_restore, first, rendering=rendering)
            await commit_plan(database, await database.read(plan_restore, second, rendering=rendering))
            assert await self.stale(database) == {}
            with pytest.raises(NotFoundError):
                await database.read(plan_restore, "op_0000000000000000", rendering=rendering)
            assert third != first
        assert dump(path) == before

    async def test_a_consumer_made_afterwards_is_not(self, chain) -> None:
        path, leaf, middle, _ = chain
        async with await Database.open(path) as database:
            await rewritten(database, leaf)
            run(
                path, f"UPDATE summaries SET created_at = '2031-01-01 00:00:00' WHERE summary_id = '{middle}'"
            )
            await database.refresh()
            assert await self.stale(database) == {}
