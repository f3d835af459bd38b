"""Plans that somebody looks at: checked again, planned anew when stale, and several of them as one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lcm_core.api import Database, RefusedError, plan_archive, plan_dissolve, plan_undo_batch
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.change.plan import Cells, Symbol, SymbolKind, insertion, insertions
from lcm_core.change.preview import as_one_plan, plan_for, preview_plan
from lcm_core.operations.prune import plan_delete

from tests.change.support import context_of, plan_of, planned, update
from tests.conftest import DatabaseFactory
from tests.databases import run

#: Neighbours in the context of conversation 1.
FIRST, SECOND = "sum_07742015d971b59d", "sum_bb692ab9b90b6a49"


async def dissolving(path: Path, *nodes: str):
    return [await planned(path, plan_dissolve, 1, [node]) for node in nodes]


class Planner:
    """Plans the same dissolve whenever it is asked, and counts."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.asked = 0

    async def __call__(self, reader):
        self.asked += 1
        return [await plan_dissolve(reader, 1, [node]) for node in self.nodes]


async def look(path: Path, planner: Planner, held=None):
    async with await Database.open(path) as database:
        return await database.read(plan_for, planner, held)


async def test_what_still_fits_is_not_planned_again(database_copy: DatabaseFactory):
    path, planner = database_copy("0.15.3"), Planner(SECOND)
    held = await look(path, planner)
    run(path, "UPDATE messages SET content = 'another' WHERE conversation_id = 2")
    again = await look(path, planner, held)
    assert planner.asked == 1
    assert again.plans is held.plans
    assert not again.moved


async def test_no_preview_of_rows_to_which_an_unknown_table_refers(database_copy: DatabaseFactory):
    path, planner = database_copy("0.15.3"), Planner(SECOND)
    held = await look(path, planner)
    run(path, "CREATE TABLE notes (summary_id TEXT)", f"INSERT INTO notes VALUES ('{SECOND}')")
    for plans in (None, held):
        with pytest.raises(RefusedError, match=r"notes\.summary_id, which lcm-tui does not know"):
            await look(path, planner, plans)


async def test_what_is_stale_is_planned_anew_and_says_what_moved(database_copy: DatabaseFactory):
    path, planner = database_copy("0.15.3"), Planner(SECOND)
    held = await look(path, planner)
    run(path, f"UPDATE summaries SET token_count = 7 WHERE summary_id = '{SECOND}'")
    again = await look(path, planner, held)
    assert planner.asked == 2
    assert [one.text for one in again.moved] == [f"summaries {SECOND}: token_count was 201, now 7"]
    commit(path, again.plans[0])


async def test_plans_of_one_context_are_previewed_as_they_will_go_one_after_the_other(
    database_copy: DatabaseFactory,
):
    path, other = database_copy("0.15.3"), database_copy("0.15.3")
    plans = await dissolving(path, SECOND, FIRST)
    seen = (await look(path, Planner(SECOND, FIRST))).preview
    for plan in plans:
        commit(path, plan)
    commit(other, as_one_plan(await dissolving(other, SECOND, FIRST)))
    assert context_of(path, 1) == context_of(other, 1)
    standing = {ref: ordinal for ordinal, ref in context_of(path, 1)}
    assert {one.ref: one.new for one in seen.shift if one.new is not None}.items() <= standing.items()
    assert len(seen.entering) == 4


async def test_symbols_of_several_plans_are_kept_apart(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")

    def message(owner: int):
        row = {
            "message_id": Symbol("new:1", SymbolKind.ID),
            "conversation_id": owner,
            "seq": Symbol("new:2", SymbolKind.SEQ),
            "role": "user",
            "content": f"to {owner}",
            "token_count": 2,
            "created_at": "2026-03-06 12:00:00",
        }
        return plan_of(insertion("messages", Cells.of(row)), conversation_id=owner)

    whole = as_one_plan([message(1), message(2)])
    assert whole.conversation_id is None
    done = commit(path, whole)
    rows = [edit.row for edit in insertions(done.edits)]
    assert [row["conversation_id"] for row in rows] == [1, 2]
    assert rows[0]["message_id"] != rows[1]["message_id"]


async def test_a_batch_of_nothing_is_refused(database_file: DatabaseFactory):
    with pytest.raises(RefusedError, match="nothing to change"):
        await look(database_file("0.15.3"), Planner())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["delete", "forget", "rewrite", "undo"])
async def test_the_sentence_of_several_plans_counts_their_rows(database_copy: DatabaseFactory, kind: str):
    path = database_copy("0.15.3")
    async with await Database.open(path) as database:
        if kind in ("delete", "forget"):
            forget = kind == "forget"
            plans = (await database.read(plan_delete, [1], forget=forget)).plans
        else:
            archive = [await database.read(plan_archive, [number]) for number in (1, 2)]
            plans = tuple(replace(plan, kind="rewrite", batch="b") for plan in archive)
            if kind == "undo":
                for plan in plans:
                    commit(path, plan)
                plans = tuple(await database.read(plan_undo_batch, "b"))
        shown = await database.read(preview_plan, as_one_plan(plans))
    assert len(plans) > 1
    head, *said = shown.plan.title.split("; ")
    assert f"{kind.capitalize()}: {len(plans)} changes of " in head
    for done, field in (("added", "insert"), ("changed", "update"), ("deleted", "delete")):
        counts = [
            int(n) for one in said if one.endswith(done) for n in re.findall(r"\d+", one.replace(",", ""))
        ]
        assert sum(counts) == sum(getattr(row, field) for row in shown.rows)


async def test_one_plan_is_itself(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    plan = plan_of(update(path, "conversations", "conversation_id", 1, title="new"))
    assert as_one_plan([plan]) is plan
