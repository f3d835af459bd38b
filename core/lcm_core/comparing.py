"""Reads the contexts that are to be compared, in one transaction, and compares them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lcm_core.assemble.assembler import AssemblySettings
from lcm_core.assemble.compare import ContextDiff, compare_contexts
from lcm_core.assemble.result import Assembled
from lcm_core.assembly import assemble_context
from lcm_core.records import ConversationId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class Side:
    """A context to be assembled, or one that was assembled already."""

    conversation_id: ConversationId
    settings: AssemblySettings
    assembled: Assembled | None = None


async def read_sides(reader: Reader, sides: Sequence[Side], zone: tzinfo | None) -> list[Assembled]:
    """The assemblies of some contexts.

    Raises:
        NotFoundError: there is no such conversation.
    """
    found = []
    for side in sides:
        one = side.assembled
        if one is None:
            await get_conversation(reader, side.conversation_id)
            one = await assemble_context(reader, side.conversation_id, side.settings, zone=zone)
        found.append(one)
    return found


async def read_comparison(reader: Reader, old: Side, new: Side, zone: tzinfo | None) -> ContextDiff:
    """What is different between two contexts of one database.

    Raises:
        NotFoundError: there is no such conversation.
    """
    left, right = await read_sides(reader, (old, new), zone)
    return await asyncio.to_thread(compare_contexts, left, right)
