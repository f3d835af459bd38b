"""``python -m benchmarks.core``: the engine's own work without a terminal, against its bars.

Assembling and planning over the context of a long conversation, ingesting a long transcript, and how long a
dissolve holds the lock. Each number stands beside what plain sqlite3 takes for the rows alone, in the same
run, for the ratio says more than this machine's milliseconds. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from statistics import median

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.values import replace
from lcm_core.change.commit import commit_plan
from lcm_core.change.undo import plan_undo
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.operations.compact import compaction_setting, forecast_passes
from lcm_core.operations.compact_pass import load_for_compaction
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.operations.selection import Mode, operation_of
from lcm_core.store.database import Database
from lcm_host.appending import Session
from lcm_host.engine import Engine

from benchmarks import report
from benchmarks.generate import LARGEST, database
from benchmarks.measure import warm
from benchmarks.passages import prose
from benchmarks.report import Row
from benchmarks.shapes import DEEP_CONVERSATION, Shape

BUDGET = 128_000  #: tokens
INGESTED = 36_000  #: messages
#: Times what sqlite3 needs for the rows alone: the end of the context, and the search of all before it.
ASSEMBLED = 2.5
PLANNED = 0.2  #: s
#: Times what sqlite3 needs to write the rows alone, without reading or checking anything.
INGESTED_WITHIN = 16
#: Items of a context, and for how long a dissolve at its front may hold the lock: median, 95th percentile, s.
HELD = {1_000: (0.01, 0.05), 35_000: (0.4, 0.4)}
CONVERSATION = ConversationId(LARGEST)

_JOIN = """SELECT c.ordinal, c.message_id, c.summary_id, m.token_count, m.role, s.token_count, s.depth
    FROM context_items AS c LEFT JOIN messages AS m USING (message_id)
    LEFT JOIN summaries AS s USING (summary_id) WHERE c.conversation_id = 1 ORDER BY c.ordinal"""
_END = """SELECT m.content, p.metadata FROM context_items AS c JOIN messages AS m USING (message_id)
    JOIN message_parts AS p USING (message_id) WHERE c.conversation_id = 1 ORDER BY c.ordinal DESC LIMIT ?"""
#: A call in the tail without a result goes when its result stands anywhere before (docs/spec/assembly.md).
_SEARCH = """SELECT c.ordinal FROM context_items AS c JOIN message_parts AS p USING (message_id)
    WHERE c.conversation_id = 1 AND (p.tool_call_id = 'no call' OR instr(p.metadata, 'no call'))"""
#: From the far end on, as no two items may stand at one ordinal.
_SHIFT = "UPDATE context_items SET ordinal = ? WHERE conversation_id = 1 AND ordinal = ?"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    runs: int
    only: frozenset[str]
    markdown: Path | None


def main() -> int:
    """Run the measurements and print the table."""
    options = _options()
    rows: list[Row] = []
    for name, measure in MEASUREMENTS.items():
        if not options.only or name in options.only:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            rows += measure(options.runs)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}\n")
    print(report.plain(rows))
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(rows) + "\n")
    missed = sum(row.passed is False for row in rows)
    print(f"\n{missed} of {sum(row.passed is not None for row in rows)} bars missed")
    return int(missed > 0)


# -- a long context --------------------------------------------------------------------------------------


def long_context(items: int) -> Shape:
    """One conversation whose context holds about so many items, nearly all of them messages."""
    return replace(
        DEEP_CONVERSATION,
        name=f"core-{items}",
        messages=items + 600,
        summaries=40,
        largest_messages=items + 600,
        largest_tokens=175 * (items + 600),
        largest_raw=items - 8,
        max_depth=3,
    )


def contexts(runs: int) -> list[Row]:
    """Assembling the context of 46,000 messages, and planning a sweep over it."""
    path = database(long_context(45_400))
    warm(path)
    return asyncio.run(_contexts(path, runs))


async def _contexts(path: Path, runs: int) -> list[Row]:
    name, engine = "46,000 messages, 45,400 in context", EngineSettings()
    async with await Database.open(path) as held:
        settings = settings_for(engine, BUDGET)
        assembled = await held.read(assemble_context, CONVERSATION, settings, zone=UTC)
        setting = compaction_setting(held.schema, engine, UTC, BUDGET)

        async def assemble() -> None:
            await held.read(assemble_context, CONVERSATION, settings, zone=UTC)

        async def plan() -> None:
            loaded = await held.read(load_for_compaction, CONVERSATION, setting.rendering)
            forecast_passes(loaded, setting, operation_of(Mode.SWEEP))

        assembling, planning = await _times(assemble, runs), await _times(plan, runs)
    rows = _plain(path, _END, (len(assembled.messages),), runs) + _plain(path, _SEARCH, (), runs)
    return [
        _row(name, f"assemble for {BUDGET:,} tokens", assembling, ASSEMBLED * rows, rows),
        _row(name, "plan a sweep", planning, PLANNED, _plain(path, _JOIN, (), runs)),
    ]


async def _times(work: Callable[[], Awaitable[None]], runs: int) -> list[float]:
    await work()  # once for what is made only once
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        await work()
        found.append(time.perf_counter() - start)
    return found


def _plain(path: Path, sql: str, parameters: tuple[int, ...], runs: int) -> float:
    """What sqlite3 takes for the rows alone."""
    found = []
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        for _ in range(runs):
            start = time.perf_counter()
            connection.execute(sql, parameters).fetchall()
            found.append(time.perf_counter() - start)
    return median(found)


# -- ingestion -------------------------------------------------------------------------------------------


def ingestion(runs: int) -> list[Row]:
    """Bringing a transcript of 36,000 messages into a new database, and half of it for the proportion."""
    del runs
    with tempfile.TemporaryDirectory() as folder:
        whole, half = (asyncio.run(_ingest(Path(folder), count)) for count in (INGESTED, INGESTED // 2))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        plain = _inserted(Path(folder) / f"{INGESTED}.db")
    compared = (
        f"half of them {half:.2f} s, x {whole / half:.2f}; sqlite3 {plain:.2f} s, x {whole / plain:.0f}"
    )
    name = f"{INGESTED:,} messages"
    return [
        Row(
            name,
            "ingest a transcript",
            f"{whole:.2f} s",
            f"x {INGESTED_WITHIN}",
            compared,
            whole <= INGESTED_WITHIN * plain,
        ),
        Row(name, "memory of this process", f"at most {memory:.0f} MB"),
    ]


async def _ingest(folder: Path, count: int) -> float:
    transcript = folder / f"{count}.jsonl"
    _write_transcript(transcript, count)
    whole = replace(EngineSettings(), bootstrap_max_tokens=Sourced(10**9, SettingSource.COMMAND_LINE))
    path = folder / f"{count}.db"
    async with await Engine.open(path, large_files=folder / "files", settings=whole) as engine:
        start = time.perf_counter()
        done = await engine.bootstrap(Session(f"session-{count}"), transcript)
        taken = time.perf_counter() - start
    if done.imported != count:
        raise SystemExit(f"{done.imported} of {count} messages were imported: {done.reason}")
    return taken


def _write_transcript(path: Path, count: int) -> None:
    chooser = random.Random(count)
    pool = prose(random.Random(1))
    parent: str | None = None
    with path.open("w", encoding="utf-8") as file:
        file.write(
            json.dumps({"type": "session", "version": 3, "id": path.stem, "timestamp": _moment(0)}) + "\n"
        )
        for number in range(1, count + 1):
            role = "user" if number % 2 else "assistant"
            text = f"{number}: {pool.passage(chooser, 600).text}"
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            entry = {"type": "message", "id": f"e{number}", "parentId": parent, "timestamp": _moment(number)}
            file.write(json.dumps({**entry, "message": message}) + "\n")
            parent = f"e{number}"


def _moment(number: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_772_400_000 + 20 * number))


def _inserted(path: Path) -> float:
    """What sqlite3 takes to copy the rows of messages, parts and context into an empty database."""
    with closing(sqlite3.connect(path)) as source:
        tables = {
            name: source.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("conversations", "messages", "message_parts", "context_items")
        }
        schema = [
            sql
            for name, sql in source.execute("SELECT tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            if name in tables
        ]
    with closing(sqlite3.connect(path.with_suffix(".copy"), isolation_level=None)) as target:
        for statement in schema:
            target.execute(statement)
        start = time.perf_counter()
        target.execute("BEGIN")
        for name, rows in tables.items():
            if rows:
                target.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        target.execute("COMMIT")
        return time.perf_counter() - start


# -- the lock of a dissolve ------------------------------------------------------------------------------


def locks(runs: int) -> list[Row]:
    """How long a dissolve at the front of a context holds the lock."""
    rows: list[Row] = []
    for items, bars in HELD.items():
        made = database(long_context(items))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lcm.db"
            shutil.copyfile(made, path)
            held, standing = asyncio.run(_dissolved(path, runs))
            plain = _shifted(path)
        middle, worst = median(held), report.percentile(held)
        rows.append(
            Row(
                f"{standing:,} items in context",
                "lock of a dissolve at the front",
                f"p50 {middle * 1e3:.1f} ms, p95 {worst * 1e3:.1f} ms",
                f"p50 {bars[0] * 1e3:.0f} ms, p95 {bars[1] * 1e3:.0f} ms",
                f"sqlite3 moves the ordinals in {plain * 1e3:.1f} ms, x {middle / plain:.1f}",
                middle <= bars[0] and worst <= bars[1],
            )
        )
    return rows


async def _dissolved(path: Path, runs: int) -> tuple[list[float], int]:
    """Seconds for which each of some dissolves held the lock; each is taken back. And the items."""
    with closing(sqlite3.connect(path)) as connection:
        [(first, items)] = connection.execute(
            """SELECT summary_id, (SELECT count(*) FROM context_items WHERE conversation_id = 1)
            FROM context_items JOIN summaries USING (summary_id)
            WHERE context_items.conversation_id = 1 AND depth > 0 ORDER BY ordinal LIMIT 1"""
        ).fetchall()
    held = []
    async with await Database.open(path) as database_:
        for _ in range(runs):
            plan = await database_.read(plan_dissolve, CONVERSATION, [SummaryId(first)])
            done = await commit_plan(database_, plan)
            held.append(done.held)
            await commit_plan(database_, await database_.read(plan_undo, done.id))
    return held, int(items)


def _shifted(path: Path) -> float:
    """What sqlite3 takes to move all ordinals by one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ordinals = connection.execute(
            "SELECT ordinal + 1, ordinal FROM context_items WHERE conversation_id = 1 ORDER BY ordinal DESC"
        ).fetchall()
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_SHIFT, ordinals)
        connection.execute("COMMIT")
        return time.perf_counter() - start


# -- the table -------------------------------------------------------------------------------------------


def _row(name: str, measure: str, times: Sequence[float], bar: float, plain: float) -> Row:
    middle = median(times)
    return Row(
        name,
        measure,
        f"{middle * 1e3:.1f} ms (max {max(times) * 1e3:.1f})",
        f"{bar * 1e3:.0f} ms",
        f"sqlite3 reads the rows in {plain * 1e3:.1f} ms, x {middle / plain:.1f}",
        middle <= bar,
    )


MEASUREMENTS: dict[str, Callable[[int], list[Row]]] = {
    "ingestion": ingestion,  # first: its memory is told
    "contexts": contexts,
    "locks": locks,
}


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.core", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=15, help="how often each is measured (default: 15)")
    parser.add_argument("--only", default="", help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    given = parser.parse_args()
    only = frozenset(name for name in given.only.split(",") if name)
    if unknown := only - MEASUREMENTS.keys():
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    return Options(max(2, given.runs), only, given.markdown)


if __name__ == "__main__":
    raise SystemExit(main())
