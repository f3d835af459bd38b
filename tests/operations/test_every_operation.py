"""What holds of every operation: planning changes nothing, a commit is journaled, undone and redone whole.

What an operation changes, and what it refuses, its own file says; this is said once for all of them.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import (
    BriefText,
    Database,
    StalePlanError,
    plan_activate_brief,
    plan_archive,
    plan_clear_brief,
    plan_create_brief,
    plan_delete_brief,
    plan_dissolve,
    plan_merge,
    plan_transplant,
)
from lcm_core.change.commit import commit
from lcm_core.change.journal import edits_of, get, operations
from lcm_core.change.plan import RowChange
from lcm_core.operations.export import export_conversation, plan_import, read_conversation_file
from lcm_core.operations.prune import plan_delete
from lcm_core.operations.rewrite import plan_rewrite
from lcm_core.store.conversations import get_conversation

from tests.change.support import dissolvable, dump, planned, reading, search_faults, undo
from tests.conftest import DatabaseFactory
from tests.databases import connect, run, value
from tests.operations.drafting import setting_of
from tests.operations.fixing import findings_of, fixes_of
from tests.support import sampled

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def a_dissolve(path: Path):
    conversation, summary = dissolvable(path)[0]
    return asyncio.run(planned(path, plan_dissolve, conversation, [summary], levels=2))


def a_transplant(path: Path):
    return asyncio.run(planned(path, plan_transplant, 2, 7, now=NOW))


def a_merge(path: Path):
    return asyncio.run(planned(path, plan_merge, [5], now=NOW))


def a_rewrite(path: Path):
    summary = dissolvable(path)[0][1]

    async def load():
        async with await Database.open(path) as database:
            rendering = setting_of(database.schema).rendering
            return await database.read(
                plan_rewrite, 1, summary, "Another text.", model="m", rendering=rendering
            )

    return asyncio.run(load())


def a_fix(path: Path):
    async def load():
        found = [one for one in await findings_of(path, whole_file=False) if one.check in ("A11", "D2")]
        return (await fixes_of(path, found)).plan

    return asyncio.run(load())


def an_archive(path: Path):
    return asyncio.run(planned(path, plan_archive, [7], now=NOW))


def a_deletion(path: Path):
    return only_one(asyncio.run(planned(path, plan_delete, [7])).plans)


def an_import(path: Path):
    """Of a conversation that is there, so all of it comes in under new ids."""

    async def load(reader):
        conversation = await get_conversation(reader, 7)
        exported = await export_conversation(reader, conversation, path.parent.parent / "exports", path)
        return await plan_import(reader, read_conversation_file(exported.path), now=NOW)

    return only_one(asyncio.run(planned(path, load)))


def a_focus(path: Path):
    text = BriefText("It has a row for each worker.", "m", cited=("sum_253c14ef1ca84d7c",))
    question = "The lease table?"
    return asyncio.run(planned(path, plan_create_brief, 2, question, text, now=NOW))


def an_activation(path: Path):
    old = "focus_b291d54f7a07a200"
    return asyncio.run(planned(path, plan_activate_brief, 2, old, now=NOW))


def a_clearing(path: Path):
    return asyncio.run(planned(path, plan_clear_brief, 2, now=NOW))


def a_deleted_brief(path: Path):
    brief = "focus_f3a5d4aaa8f3f7d4"
    return asyncio.run(planned(path, plan_delete_brief, 3, brief))


def only_one(plans):
    [plan] = plans
    return plan


OPERATIONS = [
    *(a_dissolve, a_transplant, a_merge, a_rewrite, a_fix, an_archive, a_deletion, an_import),
    *(a_focus, an_activation, a_clearing, a_deleted_brief),
]
#: What the recorded database needs for them: a session that a rollover split, something to fix.
READY = (
    "UPDATE conversations SET archive_cause = 'rollover-fallback' WHERE conversation_id = 5",
    "DELETE FROM context_items WHERE conversation_id = 4 AND ordinal IN (6, 7)",
    "UPDATE summaries SET descendant_count = 77 WHERE depth = 2",
)


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    """The recorded database, ready for every operation."""
    path = database_copy("0.15.3")
    run(path, *READY)
    return path


def journaled(path: Path, done) -> None:
    """The journal holds the operation, newest, with the edits as they were made."""
    newest = asyncio.run(reading(path, lambda reader: reader.run(operations, limit=1)))
    assert newest == [done.operation]
    operation = asyncio.run(reading(path, lambda reader: reader.run(get, done.id)))
    assert asyncio.run(reading(path, lambda reader: reader.run(edits_of, operation))) == done.edits


@pytest.mark.parametrize("make", sampled(OPERATIONS, OPERATIONS[::2]))
def test_planned_without_a_trace_journaled_undone_and_redone(make, path: Path):
    content, before = path.read_bytes(), dump(path)
    plan = make(path)
    assert path.read_bytes() == content
    done = commit(path, plan)
    after = dump(path)
    assert after != before
    journaled(path, done)
    assert search_faults(path) == []
    undone = undo(path, done.id)
    journaled(path, undone)
    assert dump(path) == before
    assert search_faults(path) == []
    journaled(path, undo(path, undone.id))
    assert dump(path) == after
    assert search_faults(path) == []


def disturb(path: Path, plan) -> None:
    """Somebody changes a row that the plan replaces, or writes one that it adds."""
    changes = [edit for edit in plan.edits if isinstance(edit, RowChange)]
    replaced = next((edit for edit in changes if edit.before is not None), None)
    with connect(path) as connection:
        if replaced is not None and replaced.before is not None:
            name = next(one for one in replaced.before.columns if one not in replaced.key)
            where = " AND ".join(f"{one} IS ?" for one in replaced.key.columns)
            connection.execute("PRAGMA ignore_check_constraints = ON")
            sql = f"UPDATE {replaced.table} SET {name} = 'somebody was here' WHERE {where}"
            assert connection.execute(sql, replaced.key.cells).rowcount == 1
            return
        added = next(edit.row for edit in changes if not edit.row.has_symbols)
        table = next(edit.table for edit in changes if edit.row is added)
        marks = ", ".join("?" * len(added.cells))
        connection.execute(f"INSERT INTO {table} ({', '.join(added.columns)}) VALUES ({marks})", added.cells)


@pytest.mark.cases(2)
@pytest.mark.parametrize("make", OPERATIONS)
def test_what_somebody_changed_since_the_plan_is_not_overwritten(make, path: Path):
    plan = make(path)
    disturb(path, plan)
    before = dump(path)
    with pytest.raises(StalePlanError) as caught:
        commit(path, plan)
    assert caught.value.moved
    assert dump(path) == before
    assert value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'") == 0
