"""``python -m benchmarks.recall_speed``: how soon a search of everything answers, and what it costs.

Words of the benchmark database (a), from one that is nowhere to one in half of all messages, are looked for
as the search screen does: by the private index, by reading everything, and, on a copy whose own search tables
are filled, with full text. Then the tools of the server for agents. Exit code 0: every bar is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lcm_core.base.javascript import Json
from lcm_core.base.settings import Options, resolve
from lcm_core.store.database import Database
from lcm_core.store.search import Filter
from lcm_recall.queries import RecallSettings
from lcm_recall.search import Found, IndexUse, Progress, index_of, make_index, search_live
from lcm_recall.terms import parse
from mcp.client import Client

from benchmarks.generate import database
from benchmarks.measure import warm
from benchmarks.shapes import MANY_CONVERSATIONS, TINY
from lcm_tui.mcp.scope import Allowed, Served
from lcm_tui.mcp.server import MemoryServer

#: Hits that the screen lists.
_SHOWN: Final = 200
_SHARES: Final = (0.5, 0.25, 0.1, 0.03)
_NOWHERE: Final = "reticulate"
#: Bars, in seconds: all by index, the first hits with full text, the first sign of life without an index, how
#: long the event loop may wait for a search, how long one that was typed over may run on, a tool's answer.
_ALL, _FIRST, _ALIVE, _LAG, _CANCELLED, _TOOL = 1.0, 0.1, 0.5, 0.1, 0.2, 0.2
_MEMORY: Final = 150.0  #: MB over the start of the app
_TICK: Final = 0.002


@dataclass(slots=True)
class Times:
    """Seconds, one value a run."""

    alive: list[float] = field(default_factory=list)  #: until a first progress
    first: list[float] = field(default_factory=list)  #: until a progress or an answer with hits
    whole: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)  #: the longest that the event loop waited
    cancelled: list[float] = field(default_factory=list)  #: from cancelling in the middle to its end
    hits: str = ""


@dataclass(slots=True)
class Bars:
    """The lines that were printed, and whether each kept its bar."""

    missed: int = 0

    def said(self, seconds: list[float], bar: float | None = None) -> str:
        """The median of some seconds, and what is wrong with it."""
        if not seconds:
            return "-"
        middle = statistics.median(seconds)
        over = bar is not None and middle > bar
        self.missed += over
        return f"{middle:.2f} s{' MISSED' if over else ''}"


@contextlib.asynccontextmanager
async def _ticking(longest: list[float]) -> AsyncIterator[None]:
    """Notes the longest time that the event loop did not come round."""

    async def tick() -> None:
        most, at = 0.0, time.perf_counter()
        try:
            while True:
                await asyncio.sleep(_TICK)
                now = time.perf_counter()
                most, at = max(most, now - at - _TICK), now
        finally:
            longest.append(most)

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _once(source: Database, word: str, index: IndexUse | None, times: Times) -> None:
    settings = RecallSettings(Path("/nonexistent"), Path("/nonexistent"), None)
    begun = time.perf_counter()
    alive: list[float] = []
    first: list[float] = []

    def heard(progress: Progress) -> None:
        alive.append(time.perf_counter() - begun)
        if progress.found.hits:
            first.append(alive[-1])

    def searching() -> asyncio.Task[Found]:
        query = parse(word)
        return asyncio.create_task(
            search_live(source, query, Filter(), settings, heard, limit=_SHOWN, index=index)
        )

    async with _ticking(times.lag):
        found = await searching()
    times.whole.append(time.perf_counter() - begun)
    times.alive.append(min([*alive, times.whole[-1]]))
    if found.hits:
        times.first.append(min([*first, times.whole[-1]]))
    times.hits = found.total_text
    task = searching()
    await asyncio.sleep(times.whole[-1] / 3)
    asked = time.perf_counter()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    times.cancelled.append(time.perf_counter() - asked)


def _words(index: Path) -> list[str]:
    """A word that is nowhere, one that is rare, and those nearest to some shares of all messages."""
    with closing(sqlite3.connect(index)) as db:
        count = db.execute("SELECT count(*) FROM documents").fetchone()[0]
        known = db.execute("SELECT term, doc FROM listed WHERE length(term) > 2").fetchall()
    words = [_NOWHERE, min(known, key=lambda row: row[1])[0]]
    words += [_nearest(known, share * count) for share in _SHARES]
    return [*dict.fromkeys([*words, " ".join(words[-3:-1])])]


def _nearest(known: list[tuple[str, int]], count: float) -> str:
    return min(known, key=lambda row: abs(row[1] - count))[0]


async def _searches(path: Path, name: str, words: list[str], index: IndexUse | None, runs: int) -> int:
    """One row a word; how many bars were missed."""
    bars = Bars()
    by_index, full_text = index is not None, name == "full text"
    async with await Database.open(path) as source:
        for word in words:
            times = Times()
            for _ in range(runs):
                await _once(source, word, index, times)
            cells = (
                bars.said(times.alive, _ALIVE),
                bars.said(times.first, _FIRST if full_text else None),
                bars.said(times.whole, _ALL if by_index else None),
                bars.said(times.lag, _LAG),
                bars.said(times.cancelled, _CANCELLED),
            )
            print(f"| {name} | {word} | {times.hits} | {' | '.join(cells)} |", flush=True)
    return bars.missed


async def _tools(path: Path, words: list[str], folder: Path, runs: int) -> int:
    """One row a tool, warm: the first call of each is not counted."""
    bars = Bars()
    settings = resolve(Options(db=path), {}, home=Path("/nonexistent"))
    async with (
        await Database.open(path) as source,
        Client(MemoryServer(Served(source, settings, Allowed(), index_folder=folder))) as client,
    ):
        calls: list[tuple[str, dict[str, Json]]] = [("conversations", {}), ("status", {})]
        calls.append(("context", {"conversation": 1}))
        calls += [("search", {"query": word}) for word in words]
        calls.append(("search", {"query": words[3], "conversation": 1}))
        found = await client.call_tool("lcm_search", {"query": words[2], "kind": "summary", "limit": 1})
        hit = found.structured_content["hits"][0]["id"]
        calls += [("show", {"id": hit}), ("read", {"id": hit}), ("messages", {"conversation": 1})]
        for tool, values in calls:
            seconds = []
            for _ in range(runs + 1):
                begun = time.perf_counter()
                answer = await client.call_tool(f"lcm_{tool}", values)
                seconds.append(time.perf_counter() - begun)
            assert not answer.is_error, answer.content
            told = ", ".join(f"{key} {value}" for key, value in values.items())
            print(f"| {tool} | {told} | {bars.said(seconds[1:], _TOOL)} |", flush=True)
    return bars.missed


def filled(path: Path, copy: Path) -> Path:
    """A copy whose own search tables are filled as the engine fills them."""
    shutil.copyfile(path, copy)
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages")
        db.execute(
            "INSERT INTO summaries_fts (summary_id, content) SELECT summary_id, content FROM summaries"
        )
    with closing(sqlite3.connect(copy)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return copy


def _resident() -> float:
    """MB now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _highest() -> float:
    """MB at most until now."""
    [line] = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


async def _measure(path: Path, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = Path(scratch) / "cache"
        started = _resident()
        begun = time.perf_counter()
        async with await Database.open(path) as source:
            await make_index(source, folder=folder)
        index = index_of(path, folder)
        size = index.path.stat().st_size / 1e6
        print(f"index: {time.perf_counter() - begun:.1f} s, {size:.0f} MB\n")
        words = _words(index.path)
        print("| by | words | hits | first progress | first hits | all | loop waits | cancelled after |")
        print("|---|---|---:|---:|---:|---:|---:|---:|")
        missed = await _searches(path, "index", words, index, given.runs)
        missed += await _searches(path, "reading", words, None, given.runs)
        if not given.no_copy:
            copy = filled(path, Path(scratch) / "filled.db")
            warm(copy)
            missed += await _searches(copy, "full text", words, None, given.runs)
        print("\n| tool | asked | answer |\n|---|---|---:|")
        missed += await _tools(path, words, folder, given.runs)
        over = _highest() - started
        missed += over > _MEMORY
        print(f"\nmemory: {over:.0f} MB over {started:.0f} MB at the start{' MISSED' * (over > _MEMORY)}")
        return missed


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall_speed")
    parser.add_argument("--database", type=Path, help="(a) by default; it is only read")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="the tiny database, to try the program")
    parser.add_argument("--no-copy", action="store_true", help="without the copy for full text")
    parser.add_argument("--folder", type=Path, help="where the copy and the index are made")
    given = parser.parse_args()
    path = given.database or database(TINY if given.tiny else MANY_CONVERSATIONS)
    warm(path)
    missed = asyncio.run(_measure(path, given))
    print(f"{missed} bars missed")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
