"""Random sequences of all operations: before each of them every conversation has the rows that it had then.

The rows are compared as they are stored, of all tables that a conversation has rows in. Two of our commands
are no operations of the journal: a restore replaces the file with its journal, and a Remnic import writes to
another program's database.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.operations.past import operations_on
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import Point

from tests.cli.support import run
from tests.databases import column
from tests.past.states import Times
from tests.past.test_operations import tables_of

Rows = dict[str, list[str]]
#: How the rows of a conversation are found where the table does not name it.
OWNED = {
    "message_parts": "message_id IN (SELECT message_id FROM messages WHERE conversation_id = {})",
    "summary_messages": "summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id = {})",
    "summary_parents": "summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id = {})",
    "focus_brief_sources": "brief_id IN (SELECT brief_id FROM focus_briefs WHERE conversation_id = {})",
}


async def rows_in(reader, tables: list[str], owner: int) -> Rows:
    found = {}
    for table in tables:
        if table in OWNED:
            where = OWNED[table].format(owner)
        elif reader.schema.has(table, "conversation_id"):
            where = f"conversation_id = {owner}"
        else:
            continue
        rows = [dict(row) for row in await reader.stored(f"SELECT * FROM {table} WHERE {where}")]
        for row in rows:
            row.pop("rowid", None)
        found[table] = sorted(repr(sorted(row.items())) for row in rows)
    return found


async def all_rows(reader, tables: list[str], owners: list[int]) -> dict[int, Rows]:
    return {owner: await rows_in(reader, tables, owner) for owner in owners}


@dataclass
class World:
    """A database, and commands that change something in it if they can."""

    path: Path
    rng: random.Random
    owners: set[int] = field(default_factory=set)

    def conversation(self) -> int:
        return int(self.rng.choice(column(self.path, "SELECT conversation_id FROM conversations")))

    def one(self, sql: str) -> str | None:
        found = column(self.path, sql)
        return str(self.rng.choice(found)) if found else None

    def do(self, *words: object) -> None:
        done = run(*words, "--apply", "--yes", "--db", self.path, "--json")
        assert done.code != 1, (words, done.err)

    def dissolve(self) -> None:
        held = self.one(
            """SELECT summary_id FROM context_items JOIN summaries USING (summary_id)
            WHERE kind = 'condensed'"""
        )
        if held is not None:
            self.do("dissolve", held)

    def rewrite(self) -> None:
        if summary := self.one("SELECT summary_id FROM summaries"):
            self.do("rewrite", summary, "--accept", "every")

    def restore_text(self) -> None:
        if operation := self.one("SELECT id FROM lcm_tui_operations WHERE kind LIKE '%rewrite%'"):
            self.do("rewrite", "--restore", operation)

    def repair(self) -> None:
        self.do("rewrite", "--broken", "--all", "--accept", "every", "--limit", "2")

    def compact(self) -> None:
        self.do(
            "compact",
            self.conversation(),
            "--leaf",
            "--set",
            "freshTailCount=2",
            "--set",
            "leafChunkTokens=300",
        )

    def sweep(self) -> None:
        self.do("compact", self.conversation(), "--budget", "2k", "--set", "freshTailCount=4")

    def transplant(self) -> None:
        self.do("transplant", self.conversation(), self.conversation())

    def merge(self) -> None:
        self.do("merge", self.conversation())

    def fix(self) -> None:
        self.do("doctor", "--fix", "all")

    def archive(self) -> None:
        self.do("conversations", "archive", self.conversation())

    def delete(self) -> None:
        self.do("conversations", "delete", self.conversation())

    def import_again(self) -> None:
        if exports := sorted(Path.home().rglob("conversation-*.jsonl")):
            self.do("import", self.rng.choice(exports))

    def focus(self) -> None:
        text = self.path.with_name("brief.md")
        text.write_text("That is all.")
        self.do("focus", "create", self.conversation(), "--prompt", "What?", "--text", text, "--no-sweep")

    def clear(self) -> None:
        self.do("focus", "clear", self.conversation(), "--no-sweep")

    def undo(self) -> None:
        if operation := self.one("SELECT id FROM lcm_tui_operations WHERE undone_by IS NULL"):
            self.do("history", "undo", operation)

    def redo(self) -> None:
        if operation := self.one("SELECT id FROM lcm_tui_operations WHERE undone_by IS NOT NULL"):
            self.do("history", "redo", operation)


ALL: tuple[Callable[[World], None], ...] = (
    *(World.dissolve, World.rewrite, World.restore_text, World.repair, World.compact, World.sweep),
    *(World.transplant, World.merge, World.fix, World.archive, World.delete, World.import_again),
    *(World.focus, World.clear, World.undo, World.redo),
)


def play(path: Path, seed: int, steps: int) -> set[str]:
    """Do things, then look at the rows before each; which kinds of operations there were."""
    tables, rng = tables_of(path), random.Random(seed)
    world, times = World(path, rng), Times(path)
    world.do("rewrite", world.one("SELECT summary_id FROM summaries"), "--accept", "every")  # makes a journal
    times.next()
    times.note()
    expected: list[tuple[str, dict[int, Rows]]] = []
    for step in range(steps):
        owners = column(path, "SELECT conversation_id FROM conversations")
        world.owners.update(owners)
        before = asyncio.run(_read(path, tables, sorted(world.owners)))
        times.next()
        (ALL[step % len(ALL)] if step < len(ALL) else rng.choice(ALL))(world)
        new = times.note()
        if new:
            expected.append((new[0], before))
    asyncio.run(_compare(path, tables, expected))
    return set(column(path, "SELECT kind FROM lcm_tui_operations"))


async def _read(path: Path, tables: list[str], owners: list[int]) -> dict[int, Rows]:
    async with await Database.open(path) as database:
        return await database.read(all_rows, tables, owners)


async def _compare(path: Path, tables: list[str], expected: list[tuple[str, dict[int, Rows]]]) -> None:
    owners = sorted({owner for _, rows in expected for owner in rows})
    for owner in owners:
        async with await Database.open(path) as now:

            async def ids(reader, owner: int = owner) -> list[str]:
                return [one.id for one in await reader.run(operations_on, owner, {})]

            touched = await now.read(ids)
        if not touched:
            continue
        past = Past(owner, Point(touched[0]))
        async with await past.open(path) as then:
            for operation, rows in expected:
                if operation not in touched or owner not in rows:
                    continue
                past.go(Point(operation))
                found = await then.read(rows_in, tables, owner)
                unlike = {name: _difference(rows[owner][name], found[name]) for name in found}
                assert {name: one for name, one in unlike.items() if any(one)} == {}, (operation, owner)
                assert past.found is not None
                assert past.found.statements == (), (operation, owner)


def _difference(wanted: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    return [one for one in wanted if one not in found][:3], [one for one in found if one not in wanted][:3]


@pytest.mark.long
def test_all_operations_after_each_other_can_be_looked_behind(database_copy):
    kinds = play(database_copy("0.15.3"), 1, len(ALL))
    everything = {
        "compact",
        "delete",
        "dissolve",
        "focus",
        "import",
        "repair",
        "restore",
        "rewrite",
        "transplant",
    }
    assert everything <= kinds


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3", "0.15.3-damaged"])
@pytest.mark.parametrize("seed", range(2))
def test_any_sequence_of_operations_can_be_looked_behind(database_copy, version: str, seed: int, tmp_path):
    path = tmp_path / "lcm.db"
    shutil.copyfile(database_copy(version), path)
    play(path, seed, 30)
