"""What a review reads of the database."""

from __future__ import annotations

from lcm_core.operations.stale import stale_in
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.database import Reader


async def load_stale_above(
    reader: Reader, conversation_id: ConversationId, summary_id: SummaryId
) -> list[SummaryId]:
    """The summaries that were made from an earlier text of this one."""
    found = await stale_in(reader, conversation_id)
    return [one.summary_id for one in found if summary_id in one.sources]
