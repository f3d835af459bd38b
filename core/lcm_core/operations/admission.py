"""What may not be stored as it comes: what is there already, what looks like a replay, what nobody proves."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_core.change.errors import RefusedError
from lcm_core.ingest.reconcile import TAIL, Proof, import_cap, overlap
from lcm_core.ingest.stored import StoredMessage
from lcm_core.operations.appending import Session
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.ingested import find_holding, same_second, tail_messages
from lcm_core.times import sql_utc


async def overlap_of(reader: Reader, session: Session, stored: Sequence[StoredMessage]) -> int:
    """How many of the messages that a turn begins with are the newest stored ones, by text and time."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is None:
        return 0
    conversation_id = ConversationId(int(str(holding.row["conversation_id"])))
    tail = await tail_messages(reader, conversation_id, max(TAIL, len(stored)))
    return overlap(
        [(f"{one.role}\0{one.content}", sql_utc(one.created_at)) for one in stored],
        [(f"{one.role}\0{one.content}", one.created_at) for one in tail],
    )


async def refuse_flood(
    reader: Reader, session: Session, fresh: Sequence[StoredMessage], *, users: int, others: int
) -> None:
    """Refuse a batch of which too much is stored already with the very same time (engine.md 5).

    *users* and *others* are how many such messages of users and of everybody else are one too many.

    Raises:
        RefusedError: it looks like a replay.
    """
    holding = await find_holding(reader, session.session_id, session.session_key)
    open_ones = [one for one in fresh if one.entry_id is None and one.event_key is None]
    if holding is None or not open_ones:
        return
    conversation_id = ConversationId(int(str(holding.row["conversation_id"])))
    hashes = sorted({one.identity for one in open_ones})
    present = await same_second(reader, conversation_id, hashes)
    again = [one.role for one in open_ones if (one.identity, sql_utc(one.created_at)) in present]
    of_users = again.count("user")
    if of_users >= users or len(again) - of_users >= others:
        raise RefusedError(
            f"Refused a batch that looks like a replay: {len(again):,} of its {len(fresh):,} messages are "
            f"stored with the same time in conversation {conversation_id}. Nothing was stored.",
            code="REPLAY_REFUSED",
        )


def doubt(proof: Proof, new: int, stored: int) -> str | None:
    """Why new messages are not imported: their place, or that they are new, is not proven."""
    if proof is Proof.NONE:
        return "no stored message was found in the transcript"
    cap = import_cap(stored)
    if proof is Proof.CONTENT and new > cap:
        return f"{new:,} messages would be new by their text alone, and {cap:,} are believed"
    return None
