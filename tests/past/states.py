"""What tests of the past share: the state of a conversation as a value, operations at times of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lcm_core.api import Database, Options, resolve
from lcm_core.base.text import safe_line
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.operations.past_overlay import Past
from lcm_core.operations.past_point import Point, Side
from lcm_core.store.context import context_entries, context_items
from lcm_core.store.summaries import load_graph, texts_of

from tests.databases import connect

#: Long before any operation of a test, and later than the rows of the recorded databases.
BASE = datetime(2031, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def state_in(reader, conversation_id: int) -> dict[str, Any]:
    """The context, the DAG with its texts, and what is sent under two budgets."""
    owner = conversation_id
    items = await context_items(reader, owner)
    entries = await context_entries(reader, list(items))
    graph = await load_graph(reader, owner)
    texts = await texts_of(reader, list(graph.nodes))
    engine = resolve(Options(), {}, home=Path("/nonexistent")).engine
    sent = [
        (await assemble_context(reader, owner, settings_for(engine, budget), zone=UTC))
        for budget in (4_000, 128_000)
    ]
    return {
        "context": [
            (entry.item.ordinal, entry.item.item_type, entry.item.message_id, entry.item.summary_id)
            for entry in entries
        ],
        "entries": [(entry.tokens, entry.role, entry.seq, entry.depth, entry.preview) for entry in entries],
        "nodes": {name: (node.kind, node.depth) for name, node in graph.nodes.items()},
        "sources": dict(graph.sources),
        "consumers": {name: sorted(found) for name, found in graph.consumers.items()},
        "roots": graph.roots,
        "texts": {one.summary.summary_id: one for one in texts},
        "sent": [(one.messages, one.sent_tokens, one.evicted_items) for one in sent],
    }


def state_now(path: Path, conversation_id: int) -> dict[str, Any]:
    """The state that is there."""

    async def load() -> dict[str, Any]:
        async with await Database.open(path) as database:
            return await database.read(state_in, conversation_id)

    return asyncio.run(load())


def state_then(path: Path, conversation_id: int, *points: Point):
    """The states at some points, one after the other over the same connection; and what is said of each."""

    async def load():
        past = Past(conversation_id, points[0])
        found = []
        async with await past.open(path) as database:
            for point in points:
                past.go(point)
                state = await database.read(state_in, conversation_id)
                assert past.found is not None
                found.append((state, past.found.statements))
        return found

    return asyncio.run(load())


@dataclass
class Times:
    """Gives each operation a minute of its own: a test makes many in one second."""

    path: Path
    number: int = 0
    seen: list[str] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        """The present minute."""
        return BASE + self.number * MINUTE

    def next(self) -> datetime:
        """Another minute begins."""
        self.number += 1
        return self.now

    def note(self) -> list[str]:
        """Operations that came since get this minute; their ids."""
        with connect(self.path) as connection:
            exists = connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'lcm_tui_operations'"
            ).fetchone()
            if not exists:
                return []
            found = [row[0] for row in connection.execute("SELECT id FROM lcm_tui_operations ORDER BY rowid")]
            new = [name for name in found if name not in self.seen]
            stamp = self.now.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            connection.executemany(
                "UPDATE lcm_tui_operations SET created_at = ? WHERE id = ?", [(stamp, name) for name in new]
            )
        self.seen += new
        return new


def before(operation_id: str) -> Point:
    return Point(operation_id)


def after(operation_id: str) -> Point:
    return Point(operation_id, Side.AFTER)


def said(statements) -> list[str]:
    return [safe_line(one.text) for one in statements]
