"""What is read of a conversation that may be compacted."""

from __future__ import annotations

from lcm_core.operations.compaction.reading import LoadedContext, load_for_compaction, warnings_of
from lcm_core.operations.compaction.run import CompactionSetting
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader


async def load_context(
    reader: Reader, conversation_id: ConversationId, setting: CompactionSetting
) -> tuple[LoadedContext, tuple[str, ...]]:
    """The context, and what is to be known before it is compacted, in one transaction."""
    loaded = await load_for_compaction(reader, conversation_id, setting.rendering)
    return loaded, await warnings_of(reader, conversation_id)
