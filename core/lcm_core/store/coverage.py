"""Which messages summaries cover, through the DAG, by the messages' place in their conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.database import Reader
from lcm_core.store.typed import place

#: SQL: the common table ``below(root, id)``, every summary that a walk from some roots toward the messages
#: meets, cycles or not; the roots are what ``(?*)`` stands for.
BELOW = """below(root, id) AS (
    SELECT summary_id, summary_id FROM summaries WHERE summary_id IN (?*)
    UNION SELECT below.root, edge.parent_summary_id
    FROM below CROSS JOIN summary_parents AS edge ON edge.summary_id = below.id)"""


@dataclass(frozen=True, slots=True)
class SeqRange:
    """The first and the last message that something covers, by seq."""

    first: int
    last: int


async def seq_ranges(
    reader: Reader, conversation_id: ConversationId, summary_ids: Iterable[SummaryId]
) -> dict[SummaryId, SeqRange]:
    """What some summaries cover of a conversation's messages; those that cover none are left out."""
    if not all(reader.schema.has(table) for table in ("summaries", "summary_parents", "summary_messages")):
        return {}
    rows = await reader.rows_in(
        f"""WITH RECURSIVE wanted(conversation_id) AS (SELECT ?), {BELOW}
        SELECT below.root, min(m.seq) AS first, max(m.seq) AS last
        FROM wanted CROSS JOIN below
        CROSS JOIN summary_messages AS link ON link.summary_id = below.id
        CROSS JOIN messages AS m
            ON m.message_id = link.message_id AND m.conversation_id = wanted.conversation_id
        GROUP BY below.root""",
        summary_ids,
        conversation_id,
    )
    return {SummaryId(row["root"]): SeqRange(place(row["first"]), place(row["last"])) for row in rows}
