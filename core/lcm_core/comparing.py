"""Reads the contexts that are to be compared, in one transaction, and compares them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from lcm_core.assemble.assembler import AssemblySettings
from lcm_core.assemble.compare import ContextDiff, SentContext, compare_contexts, sent_now
from lcm_core.assembly import assemble_context
from lcm_core.engine_rules import EngineRules
from lcm_core.records import ConversationId
from lcm_core.snapshots import reconstruct, sent_then
from lcm_core.store.assemblies import Snapshot, get_snapshot
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class Side:
    """A context to be assembled, one that was assembled already, or a snapshot."""

    conversation_id: ConversationId
    settings: AssemblySettings
    rules: EngineRules | None = None  #: None: those of the engine that wrote the file
    assembled: SentContext | None = None
    snapshot_id: str | None = None  #: or the beginning of it
    budget_of_snapshot: bool = False  #: assembled under the budget of the other side, if that is a snapshot


async def read_sides(
    reader: Reader, sides: Sequence[Side], zone: tzinfo | None, *, with_history: bool = False
) -> list[SentContext]:
    """What some contexts send; *with_history* also counts what was ever said, for their metadata.

    Raises:
        NotFoundError: there is no such conversation or snapshot.
        UsageError: several snapshots begin so.
    """
    noted: list[Snapshot | None] = []
    for side in sides:
        if side.assembled is None:
            await get_conversation(reader, side.conversation_id)
        wanted = side.snapshot_id
        noted.append(None if wanted is None else await get_snapshot(reader, side.conversation_id, wanted))
    budget = next((one.budget for one in noted if one is not None), None)
    found: list[SentContext] = []
    for side, one in zip(sides, noted, strict=True):
        if side.assembled is not None:
            found.append(side.assembled)
        elif one is not None:
            found.append(sent_then(one, await reconstruct(reader, one, zone)))
        else:
            settings = side.settings
            if side.budget_of_snapshot and budget is not None:
                settings = replace(settings, budget=budget)
            assembled = await assemble_context(
                reader,
                side.conversation_id,
                settings,
                zone=zone,
                rules=side.rules,
                with_history=with_history,
            )
            found.append(sent_now(assembled))
    return found


async def read_comparison(reader: Reader, old: Side, new: Side, zone: tzinfo | None) -> ContextDiff:
    """What is different between two contexts of one database.

    Raises:
        NotFoundError: there is no such conversation or snapshot.
        UsageError: several snapshots begin so.
    """
    left, right = await read_sides(reader, (old, new), zone)
    return await asyncio.to_thread(compare_contexts, left, right)
