"""What the end of a session does to its conversation: `/new`, `/reset`, and what a host says when one ends.

The rules are in docs/engine/sessions.md, "Events".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from lcm_core.change.breaks import context_key
from lcm_core.change.place import Place, carry_out
from lcm_core.change.plan import Cell, Cells, Edit, Plan, insertion, ref_of
from lcm_core.operations.appending import Append, Session, conversation_row
from lcm_core.operations.rows import in_context_order, listing_of, update
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.ingested import Holding, find_holding, next_conversation_id
from lcm_core.store.rows import rows_by
from lcm_core.store.state import BOOTSTRAP, keeps_checkpoints
from lcm_core.store.summaries import summaries_in
from lcm_core.times import sql_utc
from lcm_core.wording import counted

MANUAL_RESET = "manual-reset"
SESSION_DELETED = "session-deleted"
SESSION_END = "session-end"
#: Reasons of a host for the end of a session that change nothing.
_NOTHING = frozenset({"", "new", "unknown", "restart", "shutdown"})


async def plan_new_session(
    reader: Reader, conversation_id: ConversationId, retain_depth: int, *, now: datetime
) -> Plan:
    """Prune a context as `/new` does: messages leave it, and summaries of a depth below *retain_depth*.

    Every row stays, and so does the ordinal of what is left. With a negative depth nothing leaves; a plan
    without edits when there is nothing to prune.

    Raises:
        NotFoundError: there is no such conversation.
    """
    await get_conversation(reader, conversation_id)
    items = in_context_order(await rows_by(reader, "context_items", "conversation_id", [conversation_id]))
    summaries = [SummaryId(ref) for item in items if isinstance(ref := ref_of(item), str)]
    depths = {one.summary_id: one.depth or 0 for one in await summaries_in(reader, summaries)}
    leaving = [retain_depth >= 0 and _leaves(item, depths, retain_depth) for item in items]
    edits: list[Edit] = []
    listing = listing_of(items)
    runs = [list(run) for _, run in groupby(range(len(items)), key=leaving.__getitem__)]
    for run in reversed(runs):  # from the end: what stands before it is where it was
        if leaving[run[0]]:
            place = Place(run[0], (), 0)
            edits.append(carry_out(listing, conversation_id, place, [items[at] for at in run], ()).splice)
    if edits and keeps_checkpoints(reader.schema) and reader.schema.has(BOOTSTRAP, "soft_reset_pruned_at"):
        for row in await rows_by(reader, BOOTSTRAP, "conversation_id", [conversation_id]):
            stamp = sql_utc(now)
            edits.append(update(BOOTSTRAP, row, {"soft_reset_pruned_at": stamp, "updated_at": stamp}))
    stays = counted(leaving.count(False), "item")
    return Plan(
        kind="new-session",
        title=f"Prune the context of conversation {conversation_id} as /new does",
        conversation_id=conversation_id,
        edits=tuple(edits),
        allows=frozenset(
            _missed(conversation_id, item) for item, leaves in zip(items, leaving, strict=True) if leaves
        ),
        warnings=(f"The model no longer sees the removed items; {stays} stay, and every row",)
        if edits
        else (),
    )


def _missed(conversation_id: ConversationId, item: Cells) -> str:
    """The finding that nothing reaches what left: here that is what is wanted."""
    ref = ref_of(item)
    return context_key("B13" if isinstance(ref, str) else "A11", conversation_id, ref)


def _leaves(item: Cells, depths: dict[SummaryId, int], retain_depth: int) -> bool:
    ref = ref_of(item)
    return not isinstance(ref, str) or depths.get(SummaryId(ref), 0) < retain_depth


async def plan_session_end(
    reader: Reader, session: Session, reason: str, following: Session | None, *, now: datetime
) -> Append | None:
    """What the end of a session does to its conversation, by the *reason* of the host; None: nothing.

    *following* is the session that the host goes on with.
    """
    wanted = reason.strip().lower()
    if wanted in _NOTHING:
        return None
    holding = await find_holding(reader, session.session_id, session.session_key)
    if wanted == "deleted":
        return None if holding is None else _ended(reader, holding, SESSION_DELETED, now)
    if wanted == "reset":
        return await plan_reset(reader, session, now=now)
    return await _followed(reader, holding, following or session, SESSION_END, now)


async def plan_reset(reader: Reader, session: Session, *, now: datetime) -> Append | None:
    """Put a session's conversation aside and begin another one under its id and key; None: it is fresh."""
    holding = await find_holding(reader, session.session_id, session.session_key)
    if holding is not None and await _is_fresh(reader, holding):
        return None
    return await _followed(reader, holding, session, MANUAL_RESET, now)


async def _is_fresh(reader: Reader, holding: Holding) -> bool:
    """Whether nothing was stored of it yet."""
    if holding.messages or holding.row.get("bootstrapped_at") is not None:
        return False
    return not await rows_by(reader, "context_items", "conversation_id", [holding.conversation_id])


def _ended(reader: Reader, holding: Holding, cause: str, now: datetime) -> Append | None:
    if not reader.schema.has("conversations", "active"):
        return None
    edits = [_archive(holding, cause, now)]
    return _append(holding.conversation_id, "Put a conversation aside", edits)


async def _followed(
    reader: Reader, holding: Holding | None, following: Session, cause: str, now: datetime
) -> Append | None:
    """Put a conversation aside, if there is one, and begin that of another session."""
    if not reader.schema.has("conversations", "active"):
        return None
    edits: list[Edit] = [] if holding is None else [_archive(holding, cause, now)]
    begun = await next_conversation_id(reader)
    row = conversation_row(reader.schema, begun, following, sql_utc(now))
    edits.append(insertion("conversations", row))
    return _append(begun, "Start a conversation", edits)


def _archive(holding: Holding, cause: str, now: datetime) -> Edit:
    stamp = sql_utc(now)
    values: dict[str, Cell] = {"active": 0, "archived_at": stamp, "archive_cause": cause, "updated_at": stamp}
    return update("conversations", holding.row, values)


def _append(conversation_id: ConversationId, title: str, edits: Sequence[Edit]) -> Append:
    return Append(Plan("ingest", title, conversation_id, tuple(edits)), conversation_id, (), 0, 0)
