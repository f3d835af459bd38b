"""What stands on an operation is named, and goes with it as one batch; nothing else does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lcm_core.api import Plan, RefusedError, plan_dissolve, plan_undo, plan_undo_batch, plan_undo_with_later
from lcm_core.change.commit import commit
from lcm_core.change.plan import Cells, insertion
from lcm_core.change.undo import NotUndoableError, plan_redo_batch
from lcm_core.operations.prune import plan_delete

from tests.change.support import delete, dissolvable, dump, planned, row_of, summary_row, update
from tests.conftest import DatabaseFactory
from tests.databases import column, run


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


def do(path: Path, *edits: object, title: str = "A change"):
    return commit(path, Plan("test", title, 1, edits))


def recount(path: Path, summary: str, tokens: int, **more: object):
    edit = update(path, "summaries", "summary_id", summary, descendant_token_count=tokens, **more)
    return do(path, edit, title=f"Count {tokens}")


def blocked(path: Path, operation: str) -> list[str]:
    """The operations that are named."""
    with pytest.raises(NotUndoableError) as caught:
        asyncio.run(planned(path, plan_undo, operation))
    assert all(one.id in caught.value.message for one in caught.value.dependents[:3])
    return [one.id for one in caught.value.dependents]


def back(path: Path, operation: str) -> list[Plan]:
    plans = asyncio.run(planned(path, plan_undo_with_later, operation))
    for plan in plans:
        commit(path, plan)
    return plans


def summaries(path: Path) -> list[str]:
    return column(path, "SELECT summary_id FROM summaries WHERE kind = 'condensed' ORDER BY rowid")


@pytest.mark.long
def test_who_changed_the_same_number_since_is_named_and_goes_with_it(path: Path) -> None:
    one, other, *_ = summaries(path)
    before = dump(path)
    first = recount(path, one, 5620)
    beside = recount(path, other, 17)  # another row
    model = do(path, update(path, "summaries", "summary_id", one, model="other"))  # another column
    second = recount(path, one, 6018)
    assert blocked(path, first.id) == [second.id]
    plans = back(path, first.id)
    assert [plan.undoes for plan in plans] == [second.id, first.id]
    assert len({plan.batch for plan in plans}) == 1
    assert plans[0].batch is not None
    for done in (model, beside):
        back(path, done.id)
    assert dump(path) == before


def test_how_many_have_to_go_first_is_said(path: Path) -> None:
    one = summaries(path)[0]
    first, second = recount(path, one, 5620), recount(path, one, 6018)
    with pytest.raises(NotUndoableError, match="undo the later one first, or undo both together"):
        asyncio.run(planned(path, plan_undo, first.id))
    third = recount(path, one, 9)
    assert blocked(path, first.id) == [third.id, second.id]
    with pytest.raises(NotUndoableError, match="undo the later ones first, or undo all 3 together"):
        asyncio.run(planned(path, plan_undo, first.id))


@pytest.mark.long
def test_what_stands_on_what_stands_on_it(path: Path) -> None:
    """A dissolve below a dissolve below a dissolve: each made the place of the next."""
    before = dump(path)
    made = []
    for _ in range(3):
        owner, summary = dissolvable(path)[0]
        plan = asyncio.run(planned(path, plan_dissolve, owner, [summary]))
        made.append(commit(path, plan).id)
    named = blocked(path, made[0])
    assert named
    assert set(named) <= set(made[1:])
    assert [plan.undoes for plan in back(path, made[0])] == [*named, made[0]]
    for one in reversed([one for one in made if one not in [*named, made[0]]]):
        back(path, one)
    assert dump(path) == before


def test_a_row_that_refers_to_one_that_would_go_stands_on_it(path: Path) -> None:
    """No value differs, and taking the first back alone would leave an edge to nothing."""
    before = dump(path)
    first = do(
        path,
        insertion("summaries", summary_row(path, "sum_new", kind="leaf", depth=0)),
        insertion("summary_messages", Cells.of({"summary_id": "sum_new", "message_id": 1, "ordinal": 0})),
        title="A leaf",
    )
    file = row_of(path, "large_files", "rowid", 1)
    beside = do(path, insertion("large_files", file.but(file_id="other")))
    second = do(
        path,
        insertion("summary_messages", Cells.of({"summary_id": "sum_new", "message_id": 2, "ordinal": 1})),
    )
    assert blocked(path, first.id) == [second.id]
    back(path, first.id)
    back(path, beside.id)
    assert dump(path) == before


def test_what_took_a_reference_away_does_not_stand_on_what_it_named(path: Path) -> None:
    """To take back that an edge of a host's was removed would only bring the edge again."""
    one = summaries(path)[0]
    made = do(
        path,
        insertion("summaries", summary_row(path, "sum_new", kind="leaf", depth=0)),
        insertion("summary_messages", Cells.of({"summary_id": "sum_new", "message_id": 1, "ordinal": 0})),
    )
    run(path, f"INSERT INTO summary_parents VALUES ('{one}', 'sum_new', 9)")
    do(path, *delete(path, "summary_parents", summary_id=one, parent_summary_id="sum_new"))
    counted = recount(path, "sum_new", 17)
    assert blocked(path, made.id) == [counted.id]


def test_what_a_host_changed_is_no_operation(path: Path) -> None:
    one = summaries(path)[0]
    first = recount(path, one, 5620)
    second = recount(path, one, 6018)
    run(path, f"UPDATE summaries SET descendant_token_count = 3 WHERE summary_id = '{one}'")
    with pytest.raises(
        NotUndoableError, match=f"touched its rows since is {second.id}: Count 6018"
    ) as caught:
        asyncio.run(planned(path, plan_undo, first.id))
    assert caught.value.dependents == ()
    with pytest.raises(NotUndoableError):
        asyncio.run(planned(path, plan_undo_with_later, first.id))


def test_what_was_undone_stands_on_nothing_and_an_undo_may(path: Path) -> None:
    one = summaries(path)[0]
    first, second = recount(path, one, 5620), recount(path, one, 6018)
    commit(path, asyncio.run(planned(path, plan_undo, second.id)))
    [alone] = asyncio.run(planned(path, plan_undo_with_later, first.id))
    assert (alone.undoes, alone.batch) == (first.id, None)
    commit(path, alone)
    # The other way round: the undo of the first is what the third stands on, and is made again with it.
    third = recount(path, one, 9)
    with pytest.raises(RefusedError, match="was undone by"):
        asyncio.run(planned(path, plan_undo, first.id))
    assert [plan.undoes for plan in asyncio.run(planned(path, plan_undo_with_later, third.id))] == [third.id]


@pytest.mark.long
def test_a_batch_that_is_taken_back_is_a_batch(path: Path) -> None:
    before = dump(path)
    one, other, *_ = summaries(path)
    first, second = recount(path, one, 1), recount(path, one, 2)
    recount(path, other, 3)
    plans = back(path, first.id)
    assert [plan.undoes for plan in plans] == [second.id, first.id]
    batch = plans[0].batch
    assert batch is not None
    undone = asyncio.run(planned(path, plan_undo_batch, batch))
    assert len(undone) == 2
    for plan in undone:
        assert plan.batch not in (None, batch)
        commit(path, plan)
    assert len(asyncio.run(planned(path, plan_redo_batch, batch))) == 2
    assert dump(path) != before


@pytest.mark.long
def test_many_are_said_in_short(path: Path) -> None:
    one = summaries(path)[0]
    first = recount(path, one, 1)
    later = [recount(path, one, number).id for number in range(2, 8)]
    assert blocked(path, first.id) == later[::-1]
    assert len(back(path, first.id)) == 7


@pytest.mark.long
def test_a_part_of_a_deletion_comes_back_with_what_its_rows_need(path: Path) -> None:
    before = dump(path)
    parts = [commit(path, plan).id for plan in asyncio.run(planned(path, plan_delete, [3])).plans]
    assert len(parts) > 2
    assert blocked(path, parts[0]) == parts[:0:-1]
    assert blocked(path, parts[1]) == parts[:1:-1]
    back(path, parts[0])
    assert dump(path) == before


@pytest.mark.long
def test_what_was_made_and_undone_since_is_in_nobodys_way(path: Path) -> None:
    """A summary was made; others were put above it, deleted, brought back and taken away again."""
    before = dump(path)
    source = Cells.of({"summary_id": "sum_new", "message_id": 1, "ordinal": 0})
    made = do(
        path,
        insertion("summaries", summary_row(path, "sum_new", kind="leaf", depth=0)),
        insertion("summary_messages", source),
    )
    link = Cells.of({"summary_id": "sum_top", "parent_summary_id": "sum_new", "ordinal": 0})
    top = do(
        path,
        insertion("summaries", summary_row(path, "sum_top", kind="condensed", depth=1)),
        insertion("summary_parents", link),
    )
    gone = do(
        path,
        *delete(path, "summary_parents", summary_id="sum_top"),
        *delete(path, "summaries", summary_id="sum_top"),
    )
    assert blocked(path, top.id) == [gone.id]
    commit(path, asyncio.run(planned(path, plan_undo, gone.id)))
    assert blocked(path, made.id) == [top.id]
    commit(path, asyncio.run(planned(path, plan_undo, top.id)))
    commit(path, asyncio.run(planned(path, plan_undo, made.id)))
    assert dump(path) == before
