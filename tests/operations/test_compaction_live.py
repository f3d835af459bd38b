"""Compaction on a database that others write to: nothing is lost, nothing is covered twice."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database, StalePlanError, plan_undo_batch
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.change.plan import ReadOnlyError
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.compact import CompactionSetting, Runner
from lcm_core.operations.selection import Compaction, PassMade, PassMoved, PassRefused
from lcm_core.writers.request import ProviderAuthError, SummaryReply
from lcm_core.writers.source import Rendering

from tests.change.host import Host
from tests.change.hosting import at_work, enough
from tests.change.oracle import Whole
from tests.change.support import context_of, dump, search_faults
from tests.databases import connect, run, value
from tests.operations.compacting import VERSIONS, start_database
from tests.support import with_values

CONVERSATION = 1


@dataclass(slots=True)
class Summarizer:
    """Writes one line, while something else happens."""

    meanwhile: Any = field(default_factory=list)  #: at the first call, at the second ...
    calls: Any = field(default_factory=list)
    words: int = 100

    async def __call__(self, request, /) -> SummaryReply:
        self.calls.append(request)
        if self.meanwhile:
            await self.meanwhile.pop(0)(request)
        text = f"Summary {len(self.calls)} of {len(request.text)} characters." + " More." * self.words
        return SummaryReply(text, "a/model")


def runner(database: Database, summarizer: Summarizer, accept=None, **changed: Any):
    """A sweep with small numbers."""
    rules = engine_rules(database.schema)
    numbers = {
        "fresh_tail_count": 10,
        "leaf_min_fanout": 3,
        "condensed_min_fanout": 3,
        "leaf_chunk_tokens": 1400,
        "condensed_target_tokens": 20,
        "max_sweep_iterations": 60,
    }
    rules = with_values(rules, **{**numbers, **changed})
    return Runner(
        database,
        CONVERSATION,
        CompactionSetting(Rendering(rules, UTC), 2000),
        summarizer,
        Compaction.sweep,
        accept,
    )


async def swept(path: Path, summarizer: Summarizer, **changed: Any):
    """A whole sweep."""
    async with await Database.open(path) as database:
        running = runner(database, summarizer, **changed)
        steps = [step async for step in running.steps()]
        await running.note()
    return steps, running


def check_coverage(path: Path) -> Whole:
    """Every message stands in the context or is covered by what stands there, once."""
    whole = Whole(path)
    assert whole.errors() == set()
    assert whole.disorder() == []
    with connect(path) as connection:  # what 0.1 notes of a pass stands in no context
        events = {row[0] for row in connection.execute(
            "SELECT message_id FROM messages WHERE content LIKE 'LCM compaction %'"
        )}  # fmt: skip
    assert {one for one in whole.uncovered() if isinstance(one, int)} <= events
    assert [one for one, made in whole.made_into.items() if len(made) > 1] == []
    assert search_faults(path) == []
    return whole


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_sweep_is_one_batch_that_can_be_undone(version: str, tmp_path: Path) -> None:
    path = start_database(version, tmp_path / "lcm.db")
    before = dump(path)
    steps, running = await swept(path, Summarizer())
    assert running.result is not None
    assert running.result.condensed
    assert len(steps) == value(path, "SELECT count(*) FROM lcm_tui_operations")
    check_coverage(path)
    async with await Database.open(path) as database:
        plans = await database.read(plan_undo_batch, running.batch)
    for plan in plans:
        commit(path, plan)
    assert dump(path) == before
    assert search_faults(path) == []


@pytest.mark.long
async def test_a_second_sweep_finds_nothing_to_do(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    await swept(path, Summarizer())
    before, again = dump(path), Summarizer()
    steps, running = await swept(path, again)
    assert (steps, again.calls, running.result and running.result.acted) == ([], [], False)
    assert dump(path) == before


@pytest.mark.long
async def test_what_a_host_appends_meanwhile_stays(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    run(path, "PRAGMA journal_mode = wal")
    appended: list[int] = []

    async def append(_) -> None:
        host = Host(str(path), CONVERSATION, 1)
        host.connection.execute("PRAGMA busy_timeout = 0")  # a lock would fail it at once
        host.connection.execute("BEGIN IMMEDIATE")
        appended.append(host.append()["appended"])
        host.connection.execute("COMMIT")
        host.connection.close()

    steps, _ = await swept(path, Summarizer([append] * 5))
    assert all(isinstance(step.outcome, PassMade) for step in steps)
    assert [ref for _, ref in context_of(path, CONVERSATION)][-5:] == appended
    check_coverage(path)


@pytest.mark.long
async def test_a_chunk_that_the_host_compacted_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")

    async def compact(_request) -> None:
        first, _ = await swept(path, Summarizer(), max_sweep_iterations=1)
        assert isinstance(first[0].outcome, PassMade)

    steps, finished = await swept(path, Summarizer([compact]))
    assert isinstance(steps[0].outcome, PassMoved)
    assert isinstance(steps[1].outcome, PassMade)
    assert not set(steps[0].chunk.refs) & set(steps[1].chunk.refs)
    assert finished.result is not None
    assert finished.result.condensed
    check_coverage(path)


@pytest.mark.long
async def test_a_text_that_changed_meanwhile_is_summarised_as_it_is_now(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    first = context_of(path, CONVERSATION)[0][1]

    async def change(_) -> None:
        run(path, f"UPDATE messages SET content = 'Another text' WHERE message_id = {first}")

    summarizer = Summarizer([change])
    steps, _ = await swept(path, summarizer)
    assert isinstance(steps[0].outcome, PassMoved)
    assert steps[0].chunk.refs == steps[1].chunk.refs
    assert "Another text" not in summarizer.calls[0].text
    assert "Another text" in summarizer.calls[1].text
    assert value(path, "SELECT count(*) FROM summary_messages WHERE message_id = ?", first) == 1


@pytest.mark.long
async def test_two_at_once_share_the_chunks(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    run(path, "PRAGMA journal_mode = wal")

    async def pause(_) -> None:
        await asyncio.sleep(0.01)

    both = await asyncio.gather(
        *(swept(path, Summarizer([pause] * 40)) for _ in range(2)), return_exceptions=True
    )
    # Who loses every race gives up in the end; who wins goes on to the end.
    finished = [one for one in both if not isinstance(one, StalePlanError)]
    assert finished
    assert all(isinstance(one, tuple) for one in finished)
    assert value(path, "SELECT count(*) FROM lcm_tui_operations") == value(
        path, "SELECT count(*) FROM summaries"
    )
    check_coverage(path)


async def test_stops_where_a_draft_is_not_accepted(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    seen = []

    async def accept(draft):
        seen.append(draft)
        return draft if len(seen) < 3 else None

    async with await Database.open(path) as database:
        running = runner(database, Summarizer(), accept)
        steps = [step async for step in running.steps()]
    assert [type(step.outcome) for step in steps] == [PassMade, PassMade, PassRefused]
    assert running.result is not None
    assert (running.result.auth_failure, running.result.halted) == (False, True)
    assert value(path, "SELECT count(*) FROM summaries") == 2
    check_coverage(path)


async def test_nobody_is_asked_for_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, summarizer = start_database("0.15.3", tmp_path / "lcm.db"), Summarizer()
    allowed = os.access
    for denied in (path, path.parent):
        monkeypatch.setattr(
            os,
            "access",
            lambda one, mode, denied=denied: Path(one) != denied and allowed(one, mode),
        )
        with pytest.raises(ReadOnlyError):
            await swept(path, summarizer)
    assert summarizer.calls == []


async def test_nothing_is_written_and_nobody_asked_before_the_first_pass(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    before = dump(path)
    async with await Database.open(path) as database:
        running = runner(database, Summarizer())
        assert await running.note() is None
    assert dump(path) == before


@pytest.mark.long
@pytest.mark.parametrize(("budget", "pending"), [(100_000, 0), (100, 1)])
async def test_a_debt_is_paid_when_the_context_fits(tmp_path: Path, budget: int, pending: int) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    run(
        path,
        f"""INSERT INTO conversation_compaction_maintenance (conversation_id, pending, token_budget,
        current_token_count, context_threshold, retry_attempts, next_attempt_after)
        VALUES (1, 1, {budget}, 10182, 0.6, 2, '2026-03-06T12:00:00.000Z')""",
        """INSERT INTO conversation_compaction_telemetry (conversation_id, cache_state,
        turns_since_leaf_compaction, tokens_accumulated_since_leaf_compaction) VALUES (1, 'hot', 9, 999)""",
    )
    await swept(path, Summarizer())
    tokens = value(
        path,
        """SELECT sum(coalesce(m.token_count, s.token_count)) FROM context_items AS c
        LEFT JOIN messages AS m USING (message_id) LEFT JOIN summaries AS s ON s.summary_id = c.summary_id
        WHERE c.conversation_id = 1""",
    )
    with connect(path) as connection:
        debt = connection.execute(
            """SELECT pending, current_token_count, retry_attempts, maintenance_revision,
            next_attempt_after IS NULL FROM conversation_compaction_maintenance"""
        ).fetchone()
        telemetry = connection.execute(
            """SELECT turns_since_leaf_compaction, tokens_accumulated_since_leaf_compaction, cache_state,
            last_leaf_compaction_at IS NULL FROM conversation_compaction_telemetry"""
        ).fetchone()
    assert debt == (pending, tokens, 2 * pending, 1, 1 - pending)
    assert telemetry == (0, 0, "hot", 0)


@pytest.mark.long
async def test_a_damaged_item_is_in_no_chunk(tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    refs = [ref for _, ref in context_of(path, CONVERSATION)]
    run(
        path,
        f"DELETE FROM messages_fts WHERE rowid = {refs[3]}",
        f"DELETE FROM messages WHERE message_id = {refs[3]}",  # dangling
        f"UPDATE context_items SET message_id = {refs[1]} WHERE conversation_id = 1 AND ordinal = 6",  # twice
    )
    steps, _ = await swept(path, Summarizer(words=0))
    held = {ref for step in steps for ref in step.chunk.refs}
    assert not held & {refs[1], refs[3]}
    assert held >= {refs[0], refs[2], refs[4]}


async def _with_a_host(path: Path, count: int) -> None:
    run(path, "PRAGMA journal_mode = wal")
    log = path.with_name("host.log")

    async def pause(_) -> None:
        await asyncio.sleep(0.02)

    with at_work(path, CONVERSATION, count, 3, log) as process:
        while process.poll() is None:
            # Whom the host beats several times on end is told so: nobody tries for ever.
            with suppress(StalePlanError):
                await swept(path, Summarizer([pause] * 1000), leaf_chunk_tokens=300, max_sweep_iterations=5)
            if value(path, "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'"):
                enough(process)  # something was made and committed
            await asyncio.sleep(0.05)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    pruned = {event["pruned"] for event in events if "pruned" in event}
    appended = {event["appended"] for event in events if "appended" in event}
    assert appended - pruned <= check_coverage(path).messages.keys()
    assert any("made" in event for event in events)


@pytest.mark.long
async def test_a_host_compacts_the_same_conversation(tmp_path: Path) -> None:
    await _with_a_host(start_database("0.15.3", tmp_path / "lcm.db"), 100)


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_host_compacts_the_same_conversation_for_a_minute(version: str, tmp_path: Path) -> None:
    await _with_a_host(start_database(version, tmp_path / "lcm.db"), 3_000)


@dataclass(slots=True)
class Refusing:
    """Writes one line, but for one request."""

    number: int  #: of the request that is refused, from 1
    calls: Any = field(default_factory=list)

    async def __call__(self, request, /) -> SummaryReply:
        self.calls.append(request)
        if len(self.calls) == self.number:
            raise ProviderAuthError("The key is refused.")
        return SummaryReply(f"Summary {len(self.calls)}. " + "More. " * 30, "a/model")


@pytest.mark.long
@pytest.mark.parametrize("ends", [False, True])
async def test_after_a_refused_key_a_sweep_condenses_unless_somebody_ends_it(
    ends: bool, tmp_path: Path
) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    refusing = Refusing(6)
    async with await Database.open(path) as database:
        whole = runner(database, Summarizer(), summary_prefix_target_tokens=1)
        running = replace(whole, summarizer=refusing, ends_at_refusal=ends)
        steps = [step async for step in running.steps()]
    assert [step.chunk.due.depth for step in steps[:6]] == [0] * 6
    assert isinstance(steps[5].outcome, PassRefused)
    assert running.result is not None
    assert running.result.auth_failure
    assert (running.result.halted, running.result.cut_short) == (ends, ends)
    after = [step.chunk.due.depth for step in steps[6:]]
    assert not after if ends else after and min(after) == 1, "no leaf after a refused one"


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refused_condensation_has_nothing_behind_it(version: str, tmp_path: Path) -> None:
    path = start_database(version, tmp_path / "lcm.db")
    async with await Database.open(path) as database:
        seen = [step async for step in runner(database, Summarizer(), summary_prefix_target_tokens=1).steps()]
    first = next(at for at, step in enumerate(seen) if step.chunk.due.depth > 0)
    path = start_database(version, tmp_path / "again.db")
    async with await Database.open(path) as database:
        running = replace(
            runner(database, Summarizer(), summary_prefix_target_tokens=1), summarizer=Refusing(first + 1)
        )
        steps = [step async for step in running.steps()]
    assert len(steps) <= first + 1
    assert isinstance(steps[-1].outcome, PassRefused)
    assert running.result is not None
    assert (running.result.auth_failure, running.result.cut_short) == (True, False)


@pytest.mark.long
@pytest.mark.parametrize("count", [2**63 - 1, -(2**63), "many", b"\xff", 1e300, None])
async def test_counts_that_nobody_wrote_stop_no_sweep(count: object, tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db", wide=True)
    with connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for table in ("messages", "summaries"):
            with suppress(sqlite3.IntegrityError):  # NULL, where the column takes none
                connection.execute(f"UPDATE {table} SET token_count = ? WHERE conversation_id = 1", (count,))
                connection.execute(
                    f"UPDATE {table} SET token_count = ? WHERE conversation_id = 18 AND rowid % 3 = 0",
                    (count,),
                )
    for conversation in (1, 18):
        async with await Database.open(path) as database:
            running = replace(
                runner(database, Summarizer(words=5), summary_prefix_target_tokens=1, fresh_tail_count=2),
                conversation_id=conversation,
            )
            steps = [step async for step in running.steps()]
        assert running.result is not None
        assert steps, "a sweep by hand finds something to do"
