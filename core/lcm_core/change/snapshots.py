"""Keeps a snapshot of each assembly that an `Engine` gives, in a table of our own: the newest few.

The table is made by the first snapshot and never by browsing or by the command line. The engine does not mind
it (docs/spec/format.md, "The file itself"). A snapshot is a transaction of its own and goes through no
journal.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from lcm_core.base.records import ConversationId, Timestamp
from lcm_core.base.times import iso_z
from lcm_core.change.connection import Writer, open_writer
from lcm_core.change.guard import OWN_TABLES
from lcm_core.change.plan import Edit, deletions
from lcm_core.engine.assembly import Assembled, AssemblySettings, AssemblyStep
from lcm_core.engine.messages import Origin, OriginKind
from lcm_core.store.listing import TABLE, Snapshot, SnapshotItem, packed_account, packed_items

#: Snapshots of one conversation that are kept, unless the host says another number.
KEPT: Final = 20
#: How long a host may wait for the lock because of a snapshot, in seconds; then it is not kept.
WAIT_SECONDS: Final = 0.5

_INDEX: Final = f"CREATE INDEX IF NOT EXISTS {TABLE}_by_conversation ON {TABLE} (conversation_id)"


def snapshot_of(
    assembled: Assembled,
    conversation_id: ConversationId,
    settings: AssemblySettings,
    *,
    zone: tzinfo | None,
    now: datetime,
) -> Snapshot:
    """What is noted of an assembly: numbers and references, no text and no prompt."""
    weighed = zip(assembled.messages, assembled.weights, strict=True)
    repaired = [
        one for one in assembled.evicted if one.step in (AssemblyStep.NORMALISE, AssemblyStep.PAIRING)
    ]
    last = [one for one in assembled.evicted if one.step is AssemblyStep.CLAMP]
    return Snapshot(
        id=f"asm_{secrets.token_hex(8)}",
        conversation_id=conversation_id,
        created_at=Timestamp(iso_z(now)),
        rules=assembled.rules,
        zone=getattr(zone, "key", None),
        messages_hash=assembled.messages_hash,
        budget=settings.budget,
        fresh_tail_count=settings.fresh_tail_count,
        fresh_tail_max_tokens=settings.fresh_tail_max_tokens,
        stub_large_tool_payloads=settings.stub_large_tool_payloads,
        metadata=assembled.metadata.document(),
        selection=str(assembled.selection),
        sent_tokens=assembled.sent_tokens,
        evicted=assembled.evicted_items,
        sent=tuple(_item(message.origin, weight) for message, weight in weighed),
        dropped=tuple(_item(one.origin, one.tokens) for one in repaired if one.origin is not None),
        cut=tuple(_item(one.origin, one.tokens) for one in last if one.origin is not None),
    )


def _item(origin: Origin, tokens: int) -> SnapshotItem:
    made_up = origin.kind in (OriginKind.SYNTHETIC, OriginKind.LIVE)
    ref = None if made_up else origin.message_id or origin.summary_id or origin.brief_id
    return SnapshotItem(origin.kind, origin.ordinal, ref, tokens)


def keep_snapshot(path: Path, one: Snapshot, *, newest: int = KEPT) -> None:
    """Write a snapshot, and leave only the *newest* of its conversation.

    Raises:
        BusyError, DatabaseBusyError, ReadOnlyError, DiskFullError, DatabaseMissingError, DatabaseError: as a
            commit does.
    """
    account, items = packed_account(one), packed_items(one.sent, one.dropped, one.cut)
    with open_writer(path, WAIT_SECONDS) as writer:
        writer.begin()
        writer.write_only([TABLE])
        writer.execute(OWN_TABLES[TABLE])
        writer.execute(_INDEX)
        named = ("id", "conversation_id", "created_at", "rules", "zone", "messages_hash")
        writer.execute(
            f"INSERT INTO {TABLE} ({', '.join(named)}, account, items) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*(getattr(one, name) for name in named), account, items),
        )
        writer.execute(
            f"""DELETE FROM {TABLE} WHERE conversation_id = ? AND rowid NOT IN (SELECT rowid FROM {TABLE}
            WHERE conversation_id = ? ORDER BY rowid DESC LIMIT ?)""",
            (one.conversation_id, one.conversation_id, newest),
        )
        writer.commit()


def note_assembly(
    path: Path,
    assembled: Assembled,
    conversation_id: ConversationId,
    settings: AssemblySettings,
    *,
    newest: int,
    zone: tzinfo | None,
    now: datetime,
) -> str | None:
    """Keep a snapshot of an assembly; why that could not be done, or None. It never raises."""
    try:
        one = snapshot_of(assembled, conversation_id, settings, zone=zone, now=now)
        keep_snapshot(path, one, newest=newest)
    except Exception as error:  # whatever it is: the host gets its context
        return str(error) or type(error).__name__
    return None


def drop_snapshots(writer: Writer, conversation_ids: Iterable[int]) -> int:
    """Delete the snapshots of some conversations within the caller's transaction; how many there were."""
    wanted = list(conversation_ids)
    if not wanted or not writer.value("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)):
        return 0
    return sum(
        writer.execute(f"DELETE FROM {TABLE} WHERE conversation_id = ?", (one,)).rowcount for one in wanted
    )


def conversations_gone(edits: Iterable[Edit]) -> list[int]:
    """The conversations whose own row some edits delete."""
    return [
        owner
        for edit in deletions(edits)
        if edit.table == "conversations"
        for owner in [edit.row["conversation_id"]]
        if isinstance(owner, int)
    ]
