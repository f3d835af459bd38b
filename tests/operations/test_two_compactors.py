"""A host of the engine's own kind and this tool compact the same conversation at once.

The host does what engines up to 0.15 do (docs/spec/compaction.md, "Two that compact at once"): it notes
that it has begun, remembers the ordinals of a chunk, asks its model for a while, and takes out whatever then
stands at those ordinals.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lcm_core.api import StalePlanError
from lcm_core.operations import compact as running
from lcm_core.operations.debt import HostCompactsError, still_resting
from lcm_core.operations.selection import PassMade, PassMoved

from tests.change.host import CHUNK, Host
from tests.change.support import dump, reading
from tests.cli.support import run as command
from tests.databases import column, connect, run, value
from tests.operations.compacting import start_database
from tests.operations.test_compaction_live import CONVERSATION, Summarizer, check_coverage, swept

_TABLE = "conversation_compaction_maintenance"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Raw messages, and a host that has compacted before."""
    path = start_database("0.15.3", tmp_path / "lcm.db")
    run(path, "PRAGMA journal_mode = wal", f"INSERT INTO {_TABLE} (conversation_id) VALUES (1)")
    return path


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(running, "_LOOK_SECONDS", 0.005)


def begin(path: Path, *, ago: timedelta = timedelta(0)) -> None:
    """The host notes that it compacts."""
    since = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    run(path, f"UPDATE {_TABLE} SET running = 1, last_started_at = '{since}'")


def end(path: Path) -> None:
    """The host notes that it is done."""
    run(path, f"UPDATE {_TABLE} SET running = 0")


@dataclass
class EngineHost:
    """One conversation as its engine compacts it."""

    path: Path
    seed: int
    made: int = 0
    appended: list[int] = field(default_factory=list)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    async def go_on(self, passes: int) -> None:
        """Turn after turn, with a compaction in each."""
        host = Host(str(self.path), CONVERSATION, self.seed)
        try:
            for _ in range(passes):
                host.ask("BEGIN IMMEDIATE")
                self.appended += [host.append()["appended"] for _ in range(3)]
                host.ask("COMMIT")
                await self._pause()
                await self._compact(host)
                await self._pause()
        finally:
            host.connection.close()

    async def _compact(self, host: Host) -> None:
        begin(self.path)
        items = host.items()
        raw = [item for item in items[: host.boundary(items)] if item[1] is not None]
        chunk = raw[:CHUNK]
        together = len(chunk) == CHUNK and chunk[-1][0] - chunk[0][0] == CHUNK - 1
        await self._pause()  # its model
        if together:
            host.ask("BEGIN IMMEDIATE")
            host._summarise(chunk, "leaf", 0)
            host.ask("COMMIT")
            self.made += 1
        end(self.path)

    async def _pause(self) -> None:
        await asyncio.sleep(self.random.random() * 0.03)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
async def test_nothing_is_lost_and_nothing_covered_twice(path: Path, seed: int) -> None:
    host = EngineHost(path, seed)
    pauses = random.Random(100 + seed)

    async def pause(_) -> None:
        await asyncio.sleep(pauses.random() * 0.02)

    before = set(column(path, "SELECT message_id FROM messages"))
    alone = EngineHost(path, seed + 100)  # each side makes something alone, whoever wins in between
    await alone.go_on(1)
    work = asyncio.create_task(host.go_on(12))
    while not work.done():
        with suppress(HostCompactsError, StalePlanError):
            await swept(path, Summarizer([pause] * 100), leaf_chunk_tokens=300, max_sweep_iterations=3)
        await asyncio.sleep(0.005)
    await work
    await swept(path, Summarizer(), leaf_chunk_tokens=300, max_sweep_iterations=3)
    whole = check_coverage(path)
    assert before | {*alone.appended, *host.appended} <= whole.messages.keys()
    assert alone.made > 0
    assert value(path, "SELECT count(*) FROM lcm_tui_operations WHERE kind = 'compact'") > 0


async def test_nobody_is_asked_while_the_host_compacts(path: Path) -> None:
    begin(path)
    before, summarizer = dump(path), Summarizer()
    with pytest.raises(HostCompactsError, match="The host compacts conversation 1 itself, since 20"):
        await swept(path, summarizer)
    assert (summarizer.calls, dump(path)) == ([], before)


def test_the_command_refuses_in_one_sentence(path: Path) -> None:
    begin(path)
    before = dump(path)
    shown = command("compact", 1, "--db", path, "--set", "freshTailCount=10", "--set", "leafChunkTokens=1400")
    assert (shown.code, "The host is compacting" in shown.out) == (0, True)
    done = command(
        "compact",
        1,
        "--db",
        path,
        "--set",
        "freshTailCount=10",
        "--set",
        "leafChunkTokens=1400",
        "--apply",
        "--yes",
    )
    assert (done.code, done.err.count("\n"), dump(path)) == (9, 1, before)


@pytest.mark.long
async def test_a_host_that_begins_meanwhile_is_waited_for(path: Path) -> None:
    async def work(_) -> None:
        begin(path)
        asyncio.get_running_loop().call_later(0.1, end, path)

    steps, _ = await swept(path, Summarizer([work]))
    assert all(isinstance(step.outcome, PassMade) for step in steps)
    check_coverage(path)


async def test_a_host_that_does_not_end_is_left_alone(path: Path) -> None:
    async def work(_) -> None:
        begin(path)

    with pytest.raises(HostCompactsError):
        await swept(path, Summarizer([work]))
    assert value(path, "SELECT count(*) FROM summaries") == 0


@pytest.mark.long
@pytest.mark.parametrize("when", ["before the plan", "behind it"])
async def test_a_host_that_begins_at_the_last_moment_makes_the_plan_stale(
    when: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the lock there is time for it."""
    plan_pass, wait_for_host = running.plan_pass, running.Runner._wait_for_host
    looks = 0

    async def looked(runner: running.Runner[object], seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            end(path)
        await wait_for_host(runner, seconds)
        if looks == 2 and when == "before the plan":
            begin(path)

    async def planned(*arguments: object, **more: object) -> object:
        plan = await plan_pass(*arguments, **more)
        if looks == 2 and when == "behind it":
            begin(path)
        return plan

    monkeypatch.setattr(running.Runner, "_wait_for_host", looked)
    monkeypatch.setattr(running, "plan_pass", planned)
    with connect(path) as host:  # as long as it is open, what it writes is seen at once
        host.execute(f"UPDATE {_TABLE} SET running = 0")
        steps, _ = await swept(path, Summarizer())
    assert [isinstance(step.outcome, PassMoved) for step in steps[:2]] == [True, False]
    check_coverage(path)


@pytest.mark.long
async def test_a_note_of_a_host_that_died_is_in_nobodys_way(path: Path) -> None:
    begin(path, ago=timedelta(minutes=11))
    steps, _ = await swept(path, Summarizer())
    assert all(isinstance(step.outcome, PassMade) for step in steps)


async def test_no_plan_is_made_while_the_host_compacts(path: Path) -> None:
    """It may have begun between the look and the plan; then its row says so already."""
    now = datetime.now(UTC)
    assert len(await reading(path, lambda reader: still_resting(reader, CONVERSATION, now))) == 1
    begin(path)
    with pytest.raises(StalePlanError, match="compacted by the host"):
        await reading(path, lambda reader: still_resting(reader, CONVERSATION, now))
    later = now + timedelta(minutes=11)
    assert await reading(path, lambda reader: still_resting(reader, CONVERSATION, later)) == []
