"""What follows a transcript in a database beside new rows: ids that are adopted, idle turns that go again.

Source: docs/engine/ingest.md, "Later reads" and "Heartbeats".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lcm_core.change.place import Listing, Place, carry_out
from lcm_core.change.plan import Cell, Cells, Edit, Plan, RowChange, deletion, ref_of
from lcm_core.ingest.skipping import is_acknowledgement, names_heartbeats
from lcm_core.operations.appending import Append, Session
from lcm_core.operations.reconciling import Adoption
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.ingested import Holding, find_holding, finished_heartbeats, summarised_among, turn_before
from lcm_core.store.rows import StoredRow, rows_by
from lcm_core.times import sql_utc

#: What the engine calls the end of a conversation that another one follows.
_CAUSE: Final = "rollover-fallback"


async def plan_adoption(reader: Reader, session: Session, adoptions: Sequence[Adoption]) -> Append | None:
    """Give rows the ids of the entries that they are, and a sender where they have none."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None or not reader.schema.has("messages", "transcript_entry_id"):
        return None
    edits: list[Edit] = []
    for one in adoptions:
        before: dict[str, Cell] = {"transcript_entry_id": one.row.entry_id}
        after: dict[str, Cell] = {"transcript_entry_id": one.entry_id}
        has_sender = reader.schema.has("messages", "openclaw_sender_metadata")
        if has_sender and one.row.sender is None and one.sender is not None:
            before["openclaw_sender_metadata"] = None
            after["openclaw_sender_metadata"] = one.sender
        key = Cells.of({"message_id": one.row.message_id})
        edits.append(RowChange("messages", key, Cells.of(before), Cells.of(after)))
    return _append(holding, "Name stored messages as their transcript does", edits)


async def plan_archive(reader: Reader, session: Session, now: datetime) -> Append | None:
    """Put the active conversation of a session's key aside: its transcript is gone."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None or not reader.schema.has("conversations", "active"):
        return None
    names = [name for name in ("active", "archived_at", "archive_cause") if name in holding.row]
    values: dict[str, Cell] = {"active": 0, "archived_at": sql_utc(now), "archive_cause": _CAUSE}
    before = Cells.of({name: holding.row[name] for name in names})
    after = Cells.of({name: values[name] for name in names})
    key = Cells.of({"conversation_id": holding.row["conversation_id"]})
    return _append(holding, "Archive a conversation", [RowChange("conversations", key, before, after)])


async def plan_pruning(reader: Reader, session: Session, after: int) -> Append | None:
    """Delete the turns that end behind the seq *after*; without edits when there is none.

    A turn goes from a user's message to an answer that is the acknowledgement alone, and names the file of
    the host's heartbeats. One of which a message was summarised stays. Gaps in seq and ordinals stay.
    """
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return None
    conversation_id = ConversationId(int(str(holding.row["conversation_id"])))
    edits: list[Edit] = []
    for row in await finished_heartbeats(reader, conversation_id, after):
        if not is_acknowledgement(row.role, row.content):
            continue
        turn = await turn_before(reader, conversation_id, row.seq)
        ids = [one.message_id for one in turn]
        if any(names_heartbeats(one.content) for one in turn) and not await summarised_among(reader, ids):
            edits += await _deletions(reader, conversation_id, ids)
    return _append(holding, "Delete turns of the host's timer", edits)


def _append(holding: Holding, title: str, edits: Sequence[Edit]) -> Append:
    conversation_id = int(str(holding.row["conversation_id"]))
    return Append(Plan("ingest", title, conversation_id, tuple(edits)), conversation_id, (), 0, 0)


async def _deletions(reader: Reader, conversation_id: ConversationId, ids: list[int]) -> list[Edit]:
    items = await rows_by(reader, "context_items", "conversation_id", [conversation_id])
    edits: list[Edit] = []
    listing = Listing.of([(int(str(row["ordinal"])), ref_of(Cells.of(row))) for row in _in_order(items)])
    gone = set(ids)
    for item in reversed(_in_order(items)):
        if item["message_id"] in gone:
            at = listing.refs.index(ref_of(Cells.of(item)))
            place = Place(at, (), 0)
            edits.append(carry_out(listing, conversation_id, place, [Cells.of(item)], ()).splice)
    for table in ("message_parts", "messages"):
        rows = map(Cells.of, await rows_by(reader, table, "message_id", ids))
        edits += [deletion(table, row) for row in rows]
    return edits


def _in_order(items: list[StoredRow]) -> list[StoredRow]:
    return sorted(items, key=lambda row: int(str(row["ordinal"])))
