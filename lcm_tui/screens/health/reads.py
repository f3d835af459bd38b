"""Where a finding leads to: the screen that shows the row it is about."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.checks.host import CHECKS
from lcm_core.findings import Finding, RowRef
from lcm_core.records import ContextItem, Conversation
from lcm_core.store.context import context_items
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.found_rows import FoundRow, found_rows

from lcm_tui import places


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A row of a finding, with the conversation that it stands in and its item of the context."""

    finding: Finding
    conversation: Conversation
    row: FoundRow | None
    item: ContextItem | None  #: of a row of the context: the item at its ordinal, or the next one


async def place_of(reader: Reader, finding: Finding, ref: RowRef | None) -> FoundPlace | None:
    """Where a row of a finding stands now; None when that is in no conversation.

    Raises:
        NotFoundError: the conversation is gone.
    """
    row = (await found_rows(reader, [ref]))[0] if ref is not None else None
    owner = row.conversation_id if row is not None else None
    owner = finding.conversation_id if owner is None else owner
    if owner is None:
        return None
    conversation = await get_conversation(reader, owner)
    item = None
    if row is not None and row.ordinal is not None:
        items = await context_items(reader, owner)
        behind = (one for one in items if one.ordinal >= row.ordinal)
        item = next(behind, items.item(-1) if items else None)
    return FoundPlace(finding, conversation, row, item)


def leads_to(place: FoundPlace) -> places.Place:
    """The place that shows it, standing on the row as far as there is one."""
    row, conversation = place.row, place.conversation
    family = CHECKS[place.finding.check].family
    if row is not None:
        if row.ref.table == "context_items":
            return _context(place)
        if row.ref.table in ("large_files", "disk"):
            return places.Files(conversation)
        if row.ref.table == "focus_briefs":
            return places.Briefs(conversation)
        if row.summary_id is not None and not row.gone:
            return places.Summaries(conversation, select=row.summary_id)
        if row.seq is not None:
            return places.Messages(conversation, seq=row.seq)
    if family == "A":
        return _context(place)
    if family in "BCD":
        return places.Summaries(conversation)
    return places.Messages(conversation)


def _context(place: FoundPlace) -> places.Place:
    item = place.item
    select = None
    if item is not None and item.summary_id is not None:
        select = ("summary", str(item.summary_id))
    elif item is not None and item.message_id is not None:
        select = ("message", str(item.message_id))
    return places.Context(place.conversation, select=select)
