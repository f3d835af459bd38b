"""A change that will be refused costs nothing: it is refused before a model is asked for its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lcm_core.api import Database, LcmError
from lcm_core.change import preview as planning
from lcm_core.change.guard import OWN_TABLES
from lcm_core.change.plan import ReadOnlyError
from lcm_core.operations.drafting import ItemState

from tests.conftest import DatabaseFactory
from tests.databases import connect, run
from tests.operations.compacting import start_database
from tests.operations.drafting import Writer, batch_of, repair_of, states
from tests.operations.test_briefing import Scripted, written
from tests.operations.test_compaction_live import Summarizer, runner

TABLE = "lcm_tui_operations"

Hinder = Callable[[Path, pytest.MonkeyPatch], None]


def read_only(_: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise ReadOnlyError(f"{path} cannot be written.")

    patch.setattr(planning, "check_writable", refuse)


def trigger(table: str) -> Hinder:
    def work(path: Path, _: pytest.MonkeyPatch) -> None:
        run(path, OWN_TABLES[TABLE], f"CREATE TRIGGER rider AFTER INSERT ON {table} BEGIN SELECT 1; END")
        run(path, f"CREATE TRIGGER rides AFTER UPDATE ON {table} BEGIN SELECT 1; END")

    return work


def other_journal(path: Path, _: pytest.MonkeyPatch) -> None:
    run(path, f"CREATE TABLE {TABLE} (id TEXT)")


def function(path: Path, _: pytest.MonkeyPatch) -> None:
    with connect(path) as connection:
        connection.create_function("fold", 1, str, deterministic=True)
        for table in ("summaries", "focus_briefs"):
            connection.execute(f"CREATE INDEX of_{table} ON {table} (fold(content))")


HINDRANCES: dict[str, Hinder] = {
    "a file that cannot be written": read_only,
    "a trigger on the journal": trigger(TABLE),
    "another program's journal": other_journal,
    "a function of another program": function,
}
kinds = pytest.mark.parametrize("hinder", HINDRANCES.values(), ids=list(HINDRANCES))


@pytest.mark.cases(1)
@kinds
async def test_no_draft_is_paid_for(database_copy: DatabaseFactory, monkeypatch, hinder: Hinder):
    path = database_copy("0.15.3")
    hinder(path, monkeypatch)
    writer = Writer()
    async with await Database.open(path) as database:
        batch = batch_of(database, (await repair_of(database)).items, writer)
        await batch.run()
        assert not writer.calls
        assert ItemState.REVIEW not in states(batch).values()
        assert all(item.why for item in batch.items if item.state is ItemState.FAILED)
        with pytest.raises(LcmError):
            await batch.again(batch.items[0].summary_id)
        assert not writer.calls


@pytest.mark.cases(1)
@pytest.mark.parametrize("table", ["summaries", "summaries_fts_content"])
async def test_a_trigger_on_what_a_rewrite_writes_stops_it_as_well(
    database_copy: DatabaseFactory, monkeypatch, table: str
):
    path = database_copy("0.15.3")
    trigger(table)(path, monkeypatch)
    writer = Writer()
    async with await Database.open(path) as database:
        batch = batch_of(database, (await repair_of(database)).items, writer)
        await batch.run()
    assert not writer.calls


async def test_drafts_for_a_file_are_for_any_database(database_copy: DatabaseFactory, monkeypatch):
    path = database_copy("0.15.3")
    read_only(path, monkeypatch)
    writer = Writer()
    async with await Database.open(path) as database:
        batch = batch_of(database, (await repair_of(database)).items, writer, ahead=True)
        await batch.run()
    assert writer.calls


@kinds
async def test_no_pass_of_a_compaction_is_paid_for(tmp_path: Path, monkeypatch, hinder: Hinder):
    path = start_database("0.15.3", tmp_path / "lcm.db")
    hinder(path, monkeypatch)
    summarizer = Summarizer()
    async with await Database.open(path) as database:
        with pytest.raises(LcmError):
            async for _ in runner(database, summarizer).steps():
                pass
    assert not summarizer.calls


@pytest.mark.cases(3)
@kinds
async def test_no_brief_is_paid_for(database_copy: DatabaseFactory, monkeypatch, hinder: Hinder):
    path = database_copy("0.15.3")
    hinder(path, monkeypatch)
    model = Scripted("Something.", "Something.")
    with pytest.raises(LcmError):
        await written(path, model)
    assert not model.asked
