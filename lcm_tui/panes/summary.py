"""The whole text of a summary, for the pane beside or below what selects it."""

from __future__ import annotations

import asyncio

from lcm_core.records import SummaryId
from lcm_core.store import lineage

from lcm_tui.session import Session
from lcm_tui.views.summary import summary_document
from lcm_tui.widgets.text import Document


async def read_summary_document(session: Session, summary_id: SummaryId) -> Document:
    """Everything about a summary.

    Raises:
        NotFoundError: no summary has this id.
    """
    detail = await session.read(lineage.summary_detail, summary_id)
    # In a thread: a text of a megabyte takes its time to count.
    return await asyncio.to_thread(
        summary_document, detail, zone=session.zone, schema=session.database.schema
    )
