"""What the detail beside the summary tree says about a row."""

from __future__ import annotations

import asyncio

from lcm_core.errors import NotFoundError
from lcm_core.records import SummaryId
from lcm_core.store import summaries as store
from lcm_core.store.messages import get_message

from lcm_tui.panes.summary import read_summary_document
from lcm_tui.screens.dag.known import Known
from lcm_tui.screens.dag.tree import Place, Section
from lcm_tui.session import Session
from lcm_tui.views.summary import message_document
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.text import Block, Document, heading

_SECTIONS = {
    Section.ORPHANS: (
        "Orphans",
        "Summaries that are not in the context of this conversation and that no other summary was made from: "
        "the model cannot reach them. This is normal after /new and in an archived conversation; otherwise a "
        "write stopped between storing the summary and adding it to the context.",
    ),
    Section.CYCLES: (
        "Cycles",
        "Summaries that, by the recorded edges, are made from themselves, and everything below them. They "
        "are not reachable from the context. One summary of each cycle is listed here; it is marked again "
        "where the cycle closes.",
    ),
    Section.DANGLING: (
        "Dangling ids",
        "Ids that the context or a summary of this conversation refers to, without a summary in this "
        "conversation. The engine skips them without a warning. If the row is in another conversation, that "
        "number is shown.",
    ),
}


async def detail_of(session: Session, known: Known, place: Place | None) -> Document:
    """The document for a row; reads what it needs."""
    if place is None:
        return ()
    match place.step:
        case Section() as section:
            title, said = _SECTIONS[section]
            return (heading(title), Block(), Block(said))
        case str():
            return await _summary(session, known, SummaryId(place.step))
        case _:
            return await _message(session, known, place)


async def _summary(session: Session, known: Known, summary_id: SummaryId) -> Document:
    try:
        return await read_summary_document(session, summary_id)
    except NotFoundError:
        return await _gone(session, known, summary_id)


async def _gone(session: Session, known: Known, summary_id: SummaryId) -> Document:
    """What still names a summary whose row is gone."""
    edges = await session.read(store.consumers_of, summary_id)
    ordinals = known.ordinals.get(summary_id, ())
    return (
        Block(spans=(Span(summary_id, "title"), Span("  ✗ row missing", "error"))),
        Block(),
        Block("No summary of this database has this id. It is named by:"),
        *(Block(f"the context, at ordinal {ordinal}", indent=2) for ordinal in ordinals),
        *(Block(f"{edge.consumer}, as its source {edge.ordinal}", indent=2) for edge in edges),
    )


async def _message(session: Session, known: Known, place: Place) -> Document:
    source = known.message_of(place)
    try:
        entry = await session.read(get_message, source.message_id if source else -1)
    except NotFoundError:
        return (
            Block(spans=(Span(f"m{place.step}", "title"), Span("  ✗ row missing", "error"))),
            Block(),
            Block("The leaf names this message, and no message of this database has this id."),
        )
    return await asyncio.to_thread(message_document, entry, zone=session.zone)
