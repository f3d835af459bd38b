"""``python -m benchmarks.lock``: how long each kind of change keeps the database locked.

Beside it, in the same run, stands what a bare writer takes: plain sqlite3 that writes the very same rows with
one statement a run of rows, ordinals and search tables included, and checks and journals nothing. The rows
that both leave are compared. Ours and the bare writer take turns; what another program on the machine adds
to single runs is left out by taking the medians, or the fastest of each. Exit code 1 when both ratios are
above the bar.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TypeVar

from lcm_core.base.findings import Confidence, Finding, FixId, RowRef
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.change.commit import Committed, commit
from lcm_core.change.place import Step
from lcm_core.change.plan import CONTEXT, Cells, Plan, RowChange, Splice
from lcm_core.change.preview import Preview, as_one_plan, preview_plan
from lcm_core.change.reindex import indexed_text
from lcm_core.change.undo import plan_undo
from lcm_core.engine.rules import engine_rules
from lcm_core.operations.dissolve import plan_dissolve
from lcm_core.operations.export import export_conversation, plan_import, read_conversation_file
from lcm_core.operations.fixing import plan_fixes
from lcm_core.operations.merge import plan_merge
from lcm_core.operations.transplant import plan_transplant
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import SqlValue
from lcm_core.store.schema import Schema

from benchmarks import report
from benchmarks.lock_databases import Filling, empty, finish
from benchmarks.report import Row

BAR = 1.5  #: times the bare writer
SIZES = (10, 1_000, 14_000, 100_000)
#: Rows that copying one message comes to: itself, its part, its link, and its share of summaries.
_ROWS_OF_A_MESSAGE = 3.3
_ROWS_OF_A_MERGED = 1.35  #: its own, and its share of summaries: parts and links stay as they are
_SHIFTED = "UPDATE context_items SET ordinal = ? WHERE conversation_id = ? AND ordinal = ?"

_T = TypeVar("_T")
Planner = Callable[[Reader], Awaitable[Plan]]
Statement = tuple[str, list[tuple[SqlValue, ...]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation of one size on a database made for it."""

    database: Path
    plan: Planner
    undone: bool = False  #: what is measured is taking it back


def main() -> int:
    """Run the measurements and print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as home:  # what undoing large operations needs goes there, and away
        os.environ["XDG_DATA_HOME"] = home
        return _run(options)


def _run(options: Options) -> int:
    rows: list[Row] = []
    for size in options.sizes:
        for name, make in OPERATIONS.items():
            if options.only and name not in options.only:
                continue
            with tempfile.TemporaryDirectory() as folder:
                rows.append(asyncio.run(_measure(name, make(Path(folder), size), options)))
            print(f"  {rows[-1].database}: {rows[-1].value}, {rows[-1].compared}", file=sys.stderr)
    print(report.plain(rows))
    if options.markdown:
        options.markdown.write_text(f"{report.markdown(rows)}\n")
    missed = sum(row.passed is False for row in rows)
    print(f"\n{missed} of {len(rows)} bars missed")
    return int(missed > 0)


async def _measure(name: str, case: Case, options: Options) -> Row:
    """Ours and the bare writer in turns, each on a copy of its own."""
    folder = case.database.parent
    os.environ["XDG_DATA_HOME"] = str(folder)  # where edits go that are too many for the journal
    _journaled(case.database)
    held: list[float] = []
    bare: list[float] = []
    written = 0
    for run in range(options.runs):
        ours, theirs = folder / f"ours-{run}.db", folder / f"bare-{run}.db"
        shutil.copyfile(case.database, ours)
        plan = await _planned(ours, case.plan)
        if case.undone:
            first = commit(ours, plan)
            _settle(ours)
            operation = first.id
            plan = await _planned(ours, partial(_undo_of, operation=operation))
        shutil.copyfile(ours, theirs)
        shown = await _planned(ours, partial(preview_plan, plan=plan))
        done = commit(ours, plan)
        statements = list(_statements(theirs, shown, done))
        written = sum(len(values) for _, values in statements)
        held.append(done.held)
        bare.append(_written(theirs, statements))
        if run == 0:
            _compare(ours, theirs)
        for path in (ours, theirs):
            path.unlink()
    ratio = median(held) / median(bare)
    least = min(held) / min(bare)
    return Row(
        f"{name}, {len(plan.edits):,} edits, {written:,} rows",
        "lock held",
        f"{median(held) * 1e3:.1f} ms, foreseen {shown.lock_seconds * 1e3:.0f} ms",
        f"x {BAR}",
        f"bare writer {median(bare) * 1e3:.1f} ms: x {ratio:.2f}; the fastest of each x {least:.2f}",
        min(ratio, least) <= BAR,
    )


def _journaled(path: Path) -> None:
    """Make a first change, so that the file has its journal: the table is made once in its life."""
    row = Cells.of({"conversation_id": 1})
    edit = RowChange("conversations", row, Cells.of({"title": None}), Cells.of({"title": "measured"}))
    commit(path, Plan("measure", "Name a conversation", 1, (edit,)))
    _settle(path)


async def _undo_of(reader: Reader, operation: str) -> Plan:
    return await plan_undo(reader, operation)


async def _planned(path: Path, plan: Callable[[Reader], Awaitable[_T]]) -> _T:
    async with await Database.open(path) as database:
        return await database.read(plan)


# -- the bare writer -------------------------------------------------------------------------------------


def _written(path: Path, statements: Sequence[Statement]) -> float:
    """Seconds from the lock to the end of COMMIT; a checkpoint behind it holds no lock, and is left out."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        start = time.perf_counter()
        for sql, values in statements:
            connection.executemany(sql, values)
        connection.execute("COMMIT")
        return time.perf_counter() - start


def _statements(path: Path, shown: Preview, done: Committed) -> Iterator[Statement]:
    """What was committed, as one statement a run of rows of one shape; then the search tables."""
    with closing(sqlite3.connect(path)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        asked = "SELECT name FROM pragma_table_info(?)"
        columns = {
            table: frozenset(row[0] for row in connection.execute(asked, (table,)))
            for table in ("messages", "summaries")
        }
        steps = [
            Step(edit, step.shifts, step.rowids) for edit, step in zip(done.edits, shown.steps, strict=True)
        ]
        flat = [one for step in steps for one in _rows_of(step)]
        for sql, run in groupby(flat, key=lambda one: one[0]):
            yield sql, [values for _, values in run]
        yield from _search(connection, tables, Schema(columns), done)


def _rows_of(step: Step) -> Iterator[tuple[str, tuple[SqlValue, ...]]]:
    edit = step.edit
    if isinstance(edit, Splice):
        owner = edit.conversation_id
        assert isinstance(owner, int)
        for row in edit.removed:
            sql = f"DELETE FROM {CONTEXT} WHERE conversation_id = ? AND ordinal = ?"
            yield sql, (owner, _value(row["ordinal"]))
        yield from ((_SHIFTED, (new, owner, old)) for old, new in step.shifts)
        for row in edit.inserted:
            yield _insertion(CONTEXT, row), _values(row)
    elif edit.before is None:
        yield _insertion(edit.table, edit.row), _values(edit.row)
    elif edit.after is None:
        yield f"DELETE FROM {edit.table} WHERE {_where(edit.key)}", _values(edit.key)
    else:
        names = ", ".join(f"{name} = ?" for name in edit.after.columns)
        sql = f"UPDATE {edit.table} SET {names} WHERE {_where(edit.key)}"
        yield sql, (*_values(edit.after), *_values(edit.key))


def _search(
    connection: sqlite3.Connection, tables: set[str], schema: Schema, done: Committed
) -> Iterator[Statement]:
    come: dict[str, list[tuple[SqlValue, ...]]] = {"messages": [], "summaries": []}
    gone: dict[str, list[SqlValue]] = {"messages": [], "summaries": []}
    for edit in done.edits:
        if isinstance(edit, RowChange) and edit.table in come and "content" in edit.row:
            ref = _value(edit.key[_key(edit.table)])
            if edit.before is not None:
                gone[edit.table].append(ref)
            if edit.after is not None:
                come[edit.table].append((ref, _value(edit.after["content"])))
    if gone["messages"]:
        yield "DELETE FROM messages_fts WHERE rowid = ?", [(one,) for one in gone["messages"]]
    texts = [(one, indexed_text(content, engine_rules(schema).search)) for one, content in come["messages"]]
    if texts:
        rows: list[tuple[SqlValue, ...]] = [one for one in texts if one[1] is not None]
        yield "INSERT INTO messages_fts (rowid, content) VALUES (?, ?)", rows
    for table in ("summaries_fts", "summaries_fts_cjk"):
        if gone["summaries"]:
            there = dict(connection.execute(f"SELECT summary_id, rowid FROM {table}").fetchall())
            yield f"DELETE FROM {table} WHERE rowid = ?", [(there[one],) for one in gone["summaries"]]
        if come["summaries"]:
            yield f"INSERT INTO {table} (summary_id, content) VALUES (?, ?)", come["summaries"]


def _insertion(table: str, row: Cells) -> str:
    return f"INSERT INTO {table} ({', '.join(row.columns)}) VALUES ({', '.join('?' * len(row.columns))})"


def _where(key: Cells) -> str:
    return " AND ".join(f"{name} = ?" for name in key.columns)


def _values(cells: Cells) -> tuple[SqlValue, ...]:
    return tuple(_value(cell) for cell in cells.cells)


def _value(cell: object) -> SqlValue:
    assert cell is None or isinstance(cell, int | float | str | bytes)
    return cell


def _key(table: str) -> str:
    return "message_id" if table == "messages" else "summary_id"


def _settle(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _compare(ours: Path, theirs: Path) -> None:
    """The bare writer left the same rows, search tables too, or the comparison is worth nothing."""
    with closing(sqlite3.connect(ours)) as connection:
        connection.execute("ATTACH ? AS bare", (str(theirs),))
        names = [
            row[0]
            for row in connection.execute(
                """SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'lcm_tui_%'
                AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%_fts_%' OR name = 'summaries_fts_cjk'"""
            )
        ]
        for name in names:
            for one, other in (("main", "bare"), ("bare", "main")):
                sql = f"SELECT count(*) FROM (SELECT * FROM {one}.{name} EXCEPT SELECT * FROM {other}.{name})"
                [(count,)] = connection.execute(sql).fetchall()
                if count:
                    raise AssertionError(f"{count} rows of {name} are only in {one}")


# -- the operations --------------------------------------------------------------------------------------


def _transplant(folder: Path, size: int) -> Case:
    path, connection = _file(folder)
    filling = Filling(connection, size)
    source, target, other = (filling.conversation() for _ in range(3))
    filling.history(other, max(4, int(size / _ROWS_OF_A_MESSAGE)))
    filling.history(source, max(4, int(size / _ROWS_OF_A_MESSAGE)))
    filling.history(target, 100)
    finish(connection)

    async def plan(reader: Reader) -> Plan:
        return await plan_transplant(reader, ConversationId(source), ConversationId(target))

    return Case(path, plan)


def _undo(folder: Path, size: int) -> Case:
    made = _transplant(folder, size)
    return Case(made.database, made.plan, undone=True)


def _merge(folder: Path, size: int) -> Case:
    path, connection = _file(folder)
    filling = Filling(connection, size)
    older = filling.conversation(key="agent:main:split", archived=True)
    filling.history(older, max(4, int(size / _ROWS_OF_A_MERGED)))
    active = filling.conversation(key="agent:main:split")
    filling.history(active, 4)
    filling.history(filling.conversation(), max(4, int(size / _ROWS_OF_A_MERGED)))
    finish(connection)

    async def plan(reader: Reader) -> Plan:
        return await plan_merge(reader, [ConversationId(active)], assume_rollover=True)

    return Case(path, plan)


def _dissolve(folder: Path, size: int) -> Case:
    path, connection = _file(folder)
    filling = Filling(connection, size)
    owner, other = filling.conversation(), filling.conversation()
    filling.history(other, size // 4 + 4)
    top = filling.long_context(owner, size)
    finish(connection)

    async def plan(reader: Reader) -> Plan:
        return await plan_dissolve(reader, ConversationId(owner), [SummaryId(top)])

    return Case(path, plan)


def _fixes(folder: Path, size: int) -> Case:
    path, connection = _file(folder)
    filling = Filling(connection, size)
    owner, other = filling.conversation(), filling.conversation()
    filling.history(other, size // 4 + 4)
    filling.long_context(owner, size // 2)
    connection.execute("UPDATE context_items SET ordinal = -ordinal - 7 WHERE conversation_id = ?", (owner,))
    connection.execute("UPDATE context_items SET ordinal = -ordinal WHERE conversation_id = ?", (owner,))
    connection.executemany(
        """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content)
        VALUES (?, ?, 'session', 'text', 0, 'the message of this part is gone')""",
        [(f"lost-{number:09d}", 10_000_000 + number) for number in range(size // 2)],
    )
    finish(connection)
    here = ConversationId(owner)
    gaps = (RowRef("context_items", (owner, 7)),)
    wanted = [
        Finding("A8", Confidence.BROKEN, here, gaps, 1, "", FixId.CLOSE_GAPS),
        Finding("E13", Confidence.BROKEN, None, (), size // 2, "", FixId.DELETE_ORPHAN_PARTS),
    ]

    async def plan(reader: Reader) -> Plan:
        return (await plan_fixes(reader, wanted)).plan

    return Case(path, plan)


def _import(folder: Path, size: int) -> Case:
    source, filled = _file(folder, "source.db")
    filling = Filling(filled, size)
    owner = filling.conversation()
    filling.history(owner, max(4, int(size / _ROWS_OF_A_MESSAGE)))
    finish(filled)
    path, connection = _file(folder)
    filling = Filling(connection, size + 1)
    for _ in range(2):
        filling.history(filling.conversation(), max(4, int(size / _ROWS_OF_A_MESSAGE)))
    finish(connection)

    async def export(reader: Reader) -> Path:
        conversation = await get_conversation(reader, ConversationId(owner))
        return (await export_conversation(reader, conversation, folder, source)).path

    async def plan(reader: Reader) -> Plan:
        return as_one_plan(await plan_import(reader, read_conversation_file(exported)))  # as one transaction

    exported = asyncio.run(_planned(source, export))
    return Case(path, plan)


def _file(folder: Path, name: str = "lcm.db") -> tuple[Path, sqlite3.Connection]:
    path = folder / name
    return path, empty(path)


OPERATIONS: dict[str, Callable[[Path, int], Case]] = {
    "dissolve": _dissolve,
    "transplant": _transplant,
    "undo of it": _undo,
    "merge": _merge,
    "fixes": _fixes,
    "import": _import,
}


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    runs: int
    sizes: tuple[int, ...]
    only: frozenset[str]
    markdown: Path | None


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lock", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="edits, about (default: all)")
    parser.add_argument("--only", default="", help=f"some of: {', '.join(OPERATIONS)}")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    given = parser.parse_args()
    only = frozenset(name for name in given.only.split(",") if name)
    if unknown := only - OPERATIONS.keys():
        parser.error(f"no such operation: {', '.join(sorted(unknown))}")
    sizes = tuple(int(size) for size in given.sizes.split(","))
    return Options(max(1, given.runs), sizes, only, given.markdown)


if __name__ == "__main__":
    raise SystemExit(main())
