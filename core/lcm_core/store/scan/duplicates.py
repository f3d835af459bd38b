"""What was stored again in one conversation, whole: for the screen and the fix of duplicate messages."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from lcm_core.dag.checks.duplicates import Repetition
from lcm_core.dag.checks.facts import Limits, Structure
from lcm_core.dag.checks.messages import MessageScan
from lcm_core.records import ConversationId
from lcm_core.store.database import Database, Reader
from lcm_core.store.scan import messages
from lcm_core.store.scan.structure import load_structure


async def repetitions_of(database: Database, conversation_id: ConversationId) -> list[Repetition]:
    """The replayed blocks, floods and duplicates of a conversation (E3, E4), none left out."""
    structure = await database.read(load_structure, conversation_id)
    if structure is None:
        return []
    scan = _scan(structure)
    for first, last in messages.batches(structure.messages):
        bodies = await database.read(messages.bodies_between, structure.conversation, first, last)
        await asyncio.to_thread(scan.take, bodies)
    return await asyncio.to_thread(scan.repetitions)


async def scan_messages(reader: Reader, structure: Structure) -> MessageScan:
    """The scan that knows the repetitions of a conversation, and its copies; all in one transaction."""
    scan = _scan(structure)
    for first, last in messages.batches(structure.messages):
        bodies = await messages.bodies_between(reader, structure.conversation, first, last)
        await asyncio.to_thread(scan.take, bodies)
    return scan


def _scan(structure: Structure) -> MessageScan:
    return MessageScan(structure, Limits(datetime.now(UTC)), frozenset({"E3", "E4"}), backfilled=False)
