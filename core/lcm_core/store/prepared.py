"""What the 1.x engine has prepared of a compaction and not put into a conversation yet.

A batch is planned, its nodes (hidden summaries) are made one by one, then it is published or given up. Its
rows refer to messages and summaries that may not be deleted while they do. Source: docs/engine/prepared.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lcm_core.store.database import Reader
from lcm_core.store.rows import StoredRow, rows_by

BATCHES: Final = "pending_compaction_batches"
NODES: Final = "pending_summary_nodes"
NODE_MESSAGES: Final = "pending_summary_node_messages"
NODE_CHILDREN: Final = "pending_summary_node_children"
#: All tables of prepared work.
TABLES: Final = frozenset({BATCHES, NODES, NODE_MESSAGES, NODE_CHILDREN})
#: What a batch is called once nobody works on it any more; a word that we do not know counts as active.
ENDED: Final = frozenset({"published", "stale", "failed"})


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """One batch with all rows that belong to it."""

    batch_id: str
    conversation_id: int
    status: str
    rows: tuple[tuple[str, StoredRow], ...]  #: by table, each row before every row that it refers to

    @property
    def active(self) -> bool:
        """Whether the engine may still work on it."""
        return self.status not in ENDED


async def batches_of(reader: Reader, conversation_id: int) -> list[PreparedBatch]:
    """The batches of a conversation, oldest first; none before 1.x."""
    rows = await rows_by(reader, BATCHES, "conversation_id", [conversation_id])
    return [await _whole(reader, row) for row in rows]


async def batches_naming(reader: Reader, summaries: Iterable[str]) -> list[PreparedBatch]:
    """The batches with a node that is made from one of some summaries, or that became one of them."""
    wanted = list(summaries)
    children = await rows_by(reader, NODE_CHILDREN, "child_summary_id", wanted)
    nodes = [
        *await rows_by(reader, NODES, "node_id", [row["node_id"] for row in children]),
        *await rows_by(reader, NODES, "canonical_summary_id", wanted),
    ]
    ids = dict.fromkeys(row["batch_id"] for row in nodes)
    return [await _whole(reader, row) for row in await rows_by(reader, BATCHES, "batch_id", ids)]


async def _whole(reader: Reader, batch: StoredRow) -> PreparedBatch:
    nodes = await rows_by(reader, NODES, "batch_id", [batch["batch_id"]])
    found: list[tuple[str, StoredRow]] = []
    for table in (NODE_MESSAGES, NODE_CHILDREN):
        lines = await rows_by(reader, table, "node_id", [row["node_id"] for row in nodes])
        found += ((table, row) for row in lines)
    found += ((NODES, row) for row in nodes)
    found.append((BATCHES, batch))
    owner = batch["conversation_id"]
    return PreparedBatch(
        str(batch["batch_id"]), owner if isinstance(owner, int) else -1, str(batch["status"]), tuple(found)
    )
