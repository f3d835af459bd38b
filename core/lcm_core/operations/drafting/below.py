"""The messages that a condensed summary rests on in the end.

Against its direct sources a condensed summary may look complete while they had lost most of it: what is lost
level by level shows only against the messages below (docs/decisions.md, "Drafts").
"""

from __future__ import annotations

from typing import Final

from lcm_core.records import MessageId, Summary
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.summarize.source import Rendering, source_of_messages
from lcm_core.tokens import estimate

#: More than that is not measured: reading it takes a second of the processor.
MOST_TOKENS: Final = 100_000
MOST_MESSAGES: Final = 3_000


async def text_below(reader: Reader, summary: Summary, rendering: Rendering) -> str | None:
    """The messages below a condensed summary as one source text, each once; None: there are too many.

    Empty when none is left.
    """
    if (summary.source_message_tokens or 0) > MOST_TOKENS:
        return None
    graph = await summary_store.load_graph(reader, summary.conversation_id)
    ids: dict[MessageId, None] = {}
    for one in graph.bottom_up(summary.summary_id):
        for message_id in await summary_store.source_message_ids(reader, one):
            ids[MessageId(message_id)] = None
        if len(ids) > MOST_MESSAGES:
            return None
    text = (await source_of_messages(reader, sorted(ids), rendering)).text
    return text if estimate(text, rendering.rules.estimator) <= MOST_TOKENS else None
