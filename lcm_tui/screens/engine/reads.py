"""What the screen of the engine's state reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lcm_core.change.prepared import changed_since
from lcm_core.engine_work import ConversationWork, EngineWork, engine_work
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import PreparedText, engine_rows, prepared_texts


@dataclass(frozen=True, slots=True)
class Found:
    """The state at a moment, by conversation; what needs a look first."""

    work: EngineWork
    by_id: dict[ConversationId, ConversationWork]


def clock() -> datetime:
    """The moment up to which ages and leases are counted."""
    return datetime.now(UTC)


async def load_work(reader: Reader) -> Found:
    """Everything but prepared texts, in one transaction."""
    rows = replace(await engine_rows(reader, None), changed_by=await changed_since(reader))
    work = engine_work(rows, clock())
    return Found(work, {one.conversation_id: one for one in work.conversations})


async def load_texts(reader: Reader, one: ConversationWork) -> list[PreparedText]:
    """The prepared texts of one conversation."""
    return await prepared_texts(reader, [node for batch in one.batches for node in batch.nodes])
