"""What the screen of the DAG reads: the first rows, the whole graph, and which summaries are stale."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from lcm_core.records import ConversationId, SummaryId
from lcm_core.store import lineage
from lcm_core.store.lineage import TreeOpening

from lcm_tui.screens.dag.known import Survey, survey
from lcm_tui.session import Session


@dataclass(frozen=True, slots=True)
class Reading:
    """What one fetch brings: the first rows, or everything."""

    opening: TreeOpening
    survey: Survey | None = None
    seconds: float = 0.0  #: that reading the whole graph took


async def read_opening(
    session: Session,
    conversation_id: ConversationId,
    *,
    select: SummaryId | None,
    unfolded: Iterable[SummaryId],
) -> Reading:
    """The references of the context, the sources of what is *unfolded*, and the way to *select*."""
    opening = await session.read(lineage.open_tree, conversation_id, select=select, unfolded=unfolded)
    return Reading(opening)


async def read_all(session: Session, conversation_id: ConversationId, known: Survey | None) -> Reading:
    """The whole graph; what is *known* of it as long as its rows are as they were."""
    begun = time.monotonic()
    fingerprint = known.fingerprint if known else ""
    whole = await session.read(lineage.whole_tree, conversation_id, known=fingerprint)
    if whole.graph is not None:
        known = await asyncio.to_thread(survey, whole.graph, whole.fingerprint)
    return Reading(TreeOpening(whole.context, {}, ()), known, time.monotonic() - begun)


async def read_stale(session: Session, conversation_id: ConversationId) -> set[SummaryId]:
    """The summaries that were made from texts that were replaced since, as far as the history says."""
    from lcm_core.operations.stale import stale_in

    return {one.summary_id for one in await session.read(stale_in, conversation_id)}
