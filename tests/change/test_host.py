"""A host writes all the time while plans are made, left lying, committed and undone: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from lcm_core.api import (
    Database,
    Plan,
    Reader,
    RefusedError,
    StalePlanError,
    plan_dissolve,
    plan_redo,
    plan_undo,
)
from lcm_core.change.commit import commit
from lcm_core.change.journal import edits_of, get
from lcm_core.change.plan import BusyError, Cells, RowChange, deletions
from lcm_core.change.undo import undone_by

from tests.change.host import Host
from tests.change.hosting import at_work, enough
from tests.change.oracle import Whole
from tests.change.support import context_of, dissolvable, search_faults, splice
from tests.conftest import DatabaseFactory
from tests.databases import query, run, value

CONVERSATION = 1


def make_ready(path: Path, items: int) -> None:
    """A WAL, as every engine has one, and a context of about *items* items."""
    run(path, "PRAGMA journal_mode = wal")
    host = Host(str(path), CONVERSATION, 1)
    host.connection.execute("BEGIN")
    while len(host.items()) < items:
        for _ in range(50):
            host.append()
    host.connection.execute("COMMIT")
    host.connection.close()


class Operator:
    """Somebody who changes the database meanwhile."""

    def __init__(self, database: Database, path: Path, seed: int) -> None:
        self.database, self.path = database, path
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.operations: list[str] = []
        self.lying: list[Plan] = []
        self.held: list[float] = []

    async def act(self) -> None:
        """Plan something, or commit something that was planned a while ago."""
        if self.lying and self.random.random() < 0.6:
            await self._commit(self.lying.pop(self.random.randrange(len(self.lying))))
            return
        try:
            self.lying.append(await self._plan())
            self.counts["planned"] += 1
        except RefusedError as error:
            self.counts["refused" if "cannot be" not in error.message else "not undoable"] += 1

    async def _plan(self) -> Plan:
        await self.database.refresh()
        if self.operations and self.random.random() < 0.4:
            operation = self.random.choice(self.operations)
            effective = await self.database.read(undone_by, operation) is None
            return await self.database.read(plan_undo if effective else plan_redo, operation)
        choices = [summary for owner, summary in dissolvable(self.path) if owner == CONVERSATION]
        if not choices:
            raise RefusedError("There is nothing left.")
        summary = self.random.choice(choices)
        return await self.database.read(
            plan_dissolve, CONVERSATION, [summary], levels=self.random.choice([1, 1, 2])
        )

    async def _commit(self, plan: Plan) -> None:
        try:
            done = await asyncio.to_thread(commit, self.path, plan)
        except (StalePlanError, BusyError, RefusedError) as error:
            self.counts[type(error).__name__] += 1
            return
        self.counts[f"committed {plan.kind}"] += 1
        self.held.append(done.held)
        if plan.kind == "dissolve":
            self.operations.append(done.id)
        assert done.search is None


async def live(path: Path, count: int, items: int, seed: int) -> tuple[Operator, list[dict]]:
    """Host and operator at work on one file; what both of them did."""
    make_ready(path, items)
    log = path.with_name("host.log")
    with at_work(path, CONVERSATION, count, seed, log) as process:
        async with await Database.open(path) as database:
            operator = Operator(database, path, seed)
            while process.poll() is None:
                if operator.counts["committed dissolve"]:
                    enough(process)
                await operator.act()
                await asyncio.sleep(operator.random.random() * 0.1)
    return operator, [json.loads(line) for line in log.read_text().splitlines()]


async def purged(path: Path, operator: Operator) -> set[str]:
    """The summaries that are gone by what the operator did and did not take back."""
    found: set[str] = set()
    async with await Database.open(path) as database:
        for operation_id in operator.operations:
            if await database.read(undone_by, operation_id) is None:
                operation = await database.read(Reader.run, get, operation_id)
                for edit in deletions(await database.read(Reader.run, edits_of, operation)):
                    if edit.table == "summaries":
                        found.add(str(edit.key["summary_id"]))
    return found


async def check(path: Path, count: int, items: int, seed: int) -> None:
    run(path, "PRAGMA journal_mode = wal")
    start = Whole(path)
    uncovered, disorder = start.uncovered(), start.disorder()
    operator, events = await live(path, count, items, seed)
    whole = Whole(path)
    assert whole.errors() == start.errors() == set()
    assert whole.disorder() == disorder == []
    assert search_faults(path) == []
    assert value(path, "PRAGMA integrity_check") == "ok"

    pruned = {event["pruned"] for event in events if "pruned" in event}
    appended = {event["appended"] for event in events if "appended" in event}
    assert (start.messages.keys() | appended) - pruned <= whole.messages.keys(), "a message is lost"
    assert not pruned & whole.messages.keys()
    assert {one for one in whole.uncovered() if isinstance(one, int)} <= uncovered, "nothing covers a message"

    made = {event["made"] for event in events if "made" in event}
    gone = (start.summaries.keys() | made) - whole.summaries.keys()
    assert gone == await purged(path, operator), "a summary is lost, or one came back"
    waits = sorted(event["waited"] for event in events)
    print(
        f"\n{items} items: {len(events)} transactions of the host "
        f"({len(appended)} appended, {len(made)} made, {len(pruned)} pruned); {dict(operator.counts)}; "
        f"host waited at most {waits[-1] * 1000:.1f} ms, {sum(one > 0.1 for one in waits)} times over "
        "100 ms; "
        f"the lock was held for {max(operator.held) * 1000:.1f} ms at most"
    )


async def test_a_host_that_writes_loses_nothing(database_copy):
    await check(database_copy("0.15.3"), 200, 150, 7)


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3"])
async def test_a_host_that_writes_for_a_minute_loses_nothing(database_copy, version):
    await check(database_copy(version), 3_000, 1_000, 8)


def commits_without_a_pause(path: Path, wanted: int) -> None:
    """One commit after another beside a host that makes 50 transactions a second in the same conversation.

    Texts of summaries change, and an item of the host's own context gives way to itself. All that was
    committed is there, each text as it was left, and everything that the host wrote.
    """
    make_ready(path, 100)
    start, log = Whole(path), path.with_name("host.log")
    texts: dict[str, str] = dict(query(path, "SELECT summary_id, content FROM summaries"))
    names = sorted(texts)
    done: list[str] = []
    stale = 0
    with at_work(path, CONVERSATION, wanted // 100, 5, log) as process:
        for number in range(wanted):
            name = names[number % len(names)]
            key = Cells.of({"summary_id": name})
            before, after = Cells.of({"content": texts[name]}), Cells.of({"content": f"{number}: {name}"})
            edits = [RowChange("summaries", key, before, after)]
            if number % 10 == 0:
                edits.append(splice(path, CONVERSATION, 0, 1, context_of(path, CONVERSATION)[0][1]))
            try:
                done.append(commit(path, Plan("test", f"{number}", CONVERSATION, tuple(edits)), wait=60).id)
                texts[name] = f"{number}: {name}"
            except StalePlanError:  # the host took the first item away, or compacted it
                stale += 1
        enough(process)
        process.wait(60)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(done) + stale == wanted
    assert len(done) > wanted * 0.9
    assert [one for (one,) in query(path, "SELECT id FROM lcm_tui_operations ORDER BY rowid")] == done
    there = dict(query(path, "SELECT summary_id, content FROM summaries"))
    assert {name: there[name] for name in names} == texts
    whole = Whole(path)
    pruned = {event["pruned"] for event in events if "pruned" in event}
    appended = {event["appended"] for event in events if "appended" in event}
    assert len(events) >= wanted // 100
    assert (start.messages.keys() | appended) - pruned == whole.messages.keys()
    made = {event["made"] for event in events if "made" in event}
    assert start.summaries.keys() | made == whole.summaries.keys()
    assert whole.errors() == start.errors()
    assert search_faults(path) == []


@pytest.mark.long
def test_commits_without_a_pause_and_a_host_lose_nothing(database_copy: DatabaseFactory) -> None:
    commits_without_a_pause(database_copy("0.15.3"), 60)


@pytest.mark.long
def test_thousands_of_commits_beside_a_host_lose_nothing(database_copy: DatabaseFactory) -> None:
    commits_without_a_pause(database_copy("0.15.3"), 2_000)
