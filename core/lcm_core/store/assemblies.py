"""Snapshots of assemblies: what an `Engine` noted of each context that it gave to a host (seed 004).

Table ``lcm_tui_assemblies`` is our own; `lcm_core.change.snapshots` writes it. A snapshot holds numbers and
references, never a text: what was sent is put together again from the rows that still stand, and the hash of
the messages tells whether that is what was sent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.assemble.message import OriginKind
from lcm_core.errors import DatabaseError, NotFoundError
from lcm_core.javascript import Json, JsonObject
from lcm_core.records import ConversationId, Timestamp
from lcm_core.store.database import Reader, Row

TABLE: Final = "lcm_tui_assemblies"

_COLUMNS: Final = "id, conversation_id, created_at, rules, zone, messages_hash, account, items"
#: How a kind of origin is written in a row.
CODES: Final[Mapping[OriginKind, str]] = {
    OriginKind.MESSAGE: "m",
    OriginKind.SUMMARY: "s",
    OriginKind.FOCUS_BRIEF: "f",
    OriginKind.SYNTHETIC: "y",
    OriginKind.LIVE: "l",
}
_KINDS: Final = {code: kind for kind, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """A message that was sent, or a context item that was chosen and then mended away."""

    kind: OriginKind
    ordinal: int | None  #: of the context item
    ref: int | str | None  #: the message, summary or focus brief; None: made up, or the host's own
    tokens: int  #: as sent

    @property
    def name(self) -> str:
        """What it is, for people: ``message 7`` or the id of a summary or focus brief."""
        if self.ref is None:
            return str(self.kind)
        return f"message {self.ref}" if self.kind is OriginKind.MESSAGE else str(self.ref)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One assembly as it was noted. Source: table ``lcm_tui_assemblies``."""

    id: str  #: ``asm_`` and 16 hex digits
    conversation_id: ConversationId
    created_at: Timestamp
    rules: str  #: the name of the rules
    zone: str | None  #: of the times in wrappers; None: that of the host's machine, or one without a name
    messages_hash: str  #: the engine's ``finalMessagesHash``
    budget: int  #: tokens
    tail_count: int | None  #: what the operator asked for; None: as the rules say
    tail_max_tokens: int | None
    stub_payloads: bool
    metadata: JsonObject  #: `Metadata.document`
    selection: str
    sent_tokens: int
    evicted: int  #: items that were not sent
    sent: tuple[SnapshotItem, ...]  #: as they were sent, in order
    dropped: tuple[SnapshotItem, ...]  #: chosen, and mended away


async def list_snapshots(
    reader: Reader, conversation_id: ConversationId, *, limit: int | None = None
) -> list[Snapshot]:
    """The snapshots of a conversation, the newest first; none where no engine of ours ran.

    Raises:
        DatabaseError: one cannot be read.
    """
    if not await _exists(reader):
        return []
    rows = await reader.rows(
        f"SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = ? ORDER BY rowid DESC LIMIT ?",
        conversation_id,
        -1 if limit is None else limit,
    )
    return [_snapshot(row) for row in rows]


async def get_snapshot(reader: Reader, conversation_id: ConversationId, snapshot_id: str) -> Snapshot:
    """One snapshot of a conversation.

    Raises:
        NotFoundError: the conversation has none of that id.
        DatabaseError: it cannot be read.
    """
    row = None
    if await _exists(reader):
        row = await reader.row(
            f"SELECT {_COLUMNS} FROM {TABLE} WHERE id = ? AND conversation_id = ?",
            snapshot_id,
            conversation_id,
        )
    if row is None:
        raise NotFoundError(
            f"Conversation {conversation_id} has no snapshot {snapshot_id}: it may have given way to newer "
            f"ones. `lcm-tui context snapshots {conversation_id}` shows those that there are.",
            code="SNAPSHOT_NOT_FOUND",
            details={"snapshotId": snapshot_id},
        )
    return _snapshot(row)


async def _exists(reader: Reader) -> bool:
    return bool(
        await reader.value("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", TABLE)
    )


# -- how a row holds it ----------------------------------------------------------------------------------


def packed_items(sent: Sequence[SnapshotItem], dropped: Sequence[SnapshotItem]) -> bytes:
    """The items of a snapshot, compact."""
    lists = [
        [[CODES[one.kind], one.ordinal, one.ref, one.tokens] for one in items] for items in (sent, dropped)
    ]
    return zlib.compress(json.dumps(lists, separators=(",", ":")).encode("ascii"), 6)


def packed_account(one: Snapshot) -> str:
    """The numbers of a snapshot as JSON."""
    account: JsonObject = {
        "budget": one.budget,
        "tailCount": one.tail_count,
        "tailMaxTokens": one.tail_max_tokens,
        "stubPayloads": one.stub_payloads,
        "selection": one.selection,
        "sentTokens": one.sent_tokens,
        "evicted": one.evicted,
        "metadata": one.metadata,
    }
    return json.dumps(account, separators=(",", ":"))


def _snapshot(row: Row) -> Snapshot:
    try:
        account = json.loads(row["account"])
        sent, dropped = json.loads(zlib.decompress(row["items"]))
        return Snapshot(
            id=str(row["id"]),
            conversation_id=ConversationId(row["conversation_id"]),
            created_at=Timestamp(str(row["created_at"])),
            rules=str(row["rules"]),
            zone=row["zone"],
            messages_hash=str(row["messages_hash"]),
            budget=int(account["budget"]),
            tail_count=_number(account["tailCount"]),
            tail_max_tokens=_number(account["tailMaxTokens"]),
            stub_payloads=bool(account["stubPayloads"]),
            metadata=dict(account["metadata"]),
            selection=str(account["selection"]),
            sent_tokens=int(account["sentTokens"]),
            evicted=int(account["evicted"]),
            sent=tuple(map(_item, sent)),
            dropped=tuple(map(_item, dropped)),
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatabaseError(
            f"Snapshot {row['id']} of conversation {row['conversation_id']} is damaged ({error}). The next "
            "assemblies of an engine that runs take its place.",
            code="SNAPSHOT_DAMAGED",
        ) from error


def _item(cells: Sequence[Json]) -> SnapshotItem:
    code, ordinal, ref, tokens = cells
    if not isinstance(ref, int | str | None):
        raise ValueError(f"an item refers to {ref!r}")
    return SnapshotItem(_KINDS[str(code)], _number(ordinal), ref, _number(tokens) or 0)


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value
