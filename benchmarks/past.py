"""How long it takes to look at a conversation as it was: the benchmark shapes after some operations of ours.

``python -m benchmarks.past [--shapes a,b] [--operations 40] [--folder FOLDER]`` copies each database,
dissolves summaries of its largest conversation and writes others again, and reads context and DAG before the
newest operation, before the oldest one, and now, each three times: the best is printed, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.settings import Options, resolve
from lcm_core.change.commit import commit
from lcm_core.change.plan import Cells, Plan, RowChange
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.operations.past import operations_on
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import Point
from lcm_core.store.context_view import read_context
from lcm_core.store.database import Database, Reader
from lcm_core.store.summaries import whole_tree

from benchmarks.generate import FOLDER, LARGEST, database
from benchmarks.shapes import DEEP_CONVERSATION, MANY_CONVERSATIONS, TINY

SHAPES = {"a": MANY_CONVERSATIONS, "b": DEEP_CONVERSATION, "tiny": TINY}
OWNER = ConversationId(LARGEST)


def main() -> None:
    """Measure each shape that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.past")
    parser.add_argument("--shapes", default="a,b")
    parser.add_argument("--operations", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    for name in given.shapes.split(","):
        made = database(SHAPES[name], given.folder)
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(shutil.copyfile(made, Path(folder) / "past.db"))
            operations = asyncio.run(_change(path, given.operations))
            print(f"({name}) {len(operations)} operations")
            asyncio.run(_measure(path, operations))


async def _change(path: Path, number: int) -> list[str]:
    """Dissolve what can be dissolved, half of the operations; else write a summary again."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT summary_id, content FROM summaries WHERE conversation_id = ? AND kind = 'leaf' LIMIT ?",
            (OWNER, number),
        ).fetchall()
    for turn, (summary_id, content) in enumerate(rows):
        plan = await _dissolving(path) if turn % 2 else None
        commit(path, plan or _rewriting(summary_id, content))
    async with await Database.open(path) as reading:

        async def load(reader: Reader) -> list[str]:
            return [one.id for one in await reader.run(operations_on, OWNER, {})]

        return await reading.read(load)


def _rewriting(summary_id: str, content: str) -> Plan:
    key = Cells.of({"summary_id": summary_id})
    edit = RowChange(
        "summaries", key, Cells.of({"content": content}), Cells.of({"content": f"{content} Once more."})
    )
    return Plan("rewrite", f"Rewrite {summary_id}", OWNER, (edit,))


async def _dissolving(path: Path) -> Plan | None:
    with sqlite3.connect(path) as connection:
        found = connection.execute(
            """SELECT s.summary_id FROM context_items AS c JOIN summaries AS s ON s.summary_id = c.summary_id
            WHERE c.conversation_id = ? AND s.kind = 'condensed' ORDER BY c.ordinal LIMIT 1""",
            (OWNER,),
        ).fetchone()
    if found is None:
        return None
    async with await Database.open(path) as opened:
        return await opened.read(plan_dissolve, OWNER, [SummaryId(found[0])])


async def _measure(path: Path, operations: list[str]) -> None:
    for name, point in (("now", None), ("newest", Point(operations[0])), ("oldest", Point(operations[-1]))):
        figures: dict[str, list[float]] = {}
        for _ in range(3):
            past = None if point is None else Past(OWNER, point)
            begun = time.perf_counter()
            opened = await (Database.open(path) if past is None else past.open(path))
            async with opened:
                figures.setdefault("open", []).append(time.perf_counter() - begun)
                for what, load in (
                    ("context", _context),
                    ("whole", _whole),
                    ("sent", _sent),
                ):
                    figures.setdefault(what, []).append(await _timed(opened, load))
        best = {what: min(found) * 1_000 for what, found in figures.items()}
        print(f"  {name:7}" + "  ".join(f"{what} {found:6.1f}" for what, found in best.items()))


async def _timed(opened: Database, load: Callable[[Reader], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await opened.read(load)
    return time.perf_counter() - begun


async def _context(reader: Reader) -> object:
    """The context screen."""
    return await read_context(reader, OWNER, engine_rules(reader.schema).tail)


async def _whole(reader: Reader) -> object:
    return await whole_tree(reader, OWNER)


async def _sent(reader: Reader) -> object:
    engine = resolve(Options(), {}, home=Path("/nonexistent")).engine
    return await assemble_context(reader, OWNER, settings_for(engine, 128_000))


if __name__ == "__main__":
    main()
