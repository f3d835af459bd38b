"""Snapshots of assemblies: what an `Engine` noted of each context that it gave to a host.

Table ``lcm_tui_assemblies`` is our own (docs/format.md, "Tables of ours"); `lcm_core.change.snapshots` writes
it. A snapshot holds numbers and references, never a text: what was sent is put together again from the rows
that still exist, and the hash of the messages shows whether that is what was sent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.assemble.message import OriginKind
from lcm_core.errors import DatabaseError, NotFoundError, UsageError
from lcm_core.javascript import Json, JsonObject
from lcm_core.records import ConversationId, Timestamp
from lcm_core.store.connecting import Row, Rows
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Position, Window

TABLE: Final = "lcm_tui_assemblies"

_COLUMNS: Final = "id, conversation_id, created_at, rules, zone, messages_hash, account, items"
#: How a kind of origin is written in a row.
CODES: Final[Mapping[OriginKind, str]] = {
    OriginKind.MESSAGE: "m",
    OriginKind.SUMMARY: "s",
    OriginKind.FOCUS_BRIEF: "f",
    OriginKind.SYNTHETIC: "y",
    OriginKind.LIVE: "l",
    OriginKind.CUE: "c",
}
_KINDS: Final = {code: kind for kind, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """A message that was sent, or a context item that was chosen and then dropped."""

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
    fresh_tail_count: int | None  #: what the operator asked for; None: as the rules say
    fresh_tail_max_tokens: int | None
    stub_large_tool_payloads: bool
    metadata: JsonObject  #: `Metadata.document`
    selection: str
    sent_tokens: int
    evicted: int  #: items that were not sent
    sent: tuple[SnapshotItem, ...]  #: as they were sent, in order
    dropped: tuple[SnapshotItem, ...]  #: chosen, then dropped
    cut: tuple[SnapshotItem, ...] = ()  #: chosen, and cut off last since the whole was over the budget


@dataclass(frozen=True, slots=True)
class DamagedSnapshot:
    """A row of ``lcm_tui_assemblies`` that cannot be read."""

    id: str
    conversation_id: ConversationId
    created_at: Timestamp  #: as it is stored
    problem: str  #: in a sentence


async def snapshot_page(
    reader: Reader, conversation_id: ConversationId, window: Window
) -> Page[Snapshot | DamagedSnapshot]:
    """Snapshots of a conversation, the newest first; none where no engine of ours ran.

    A page behind a snapshot that has given way to newer ones is empty: what is older went before it.
    """
    if not await _exists(reader):
        return Page((), None)
    after = None if window.position is None else window.position.id
    rows = await reader.stored(
        f"""SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = ?
        AND (? IS NULL OR rowid < (SELECT rowid FROM {TABLE} WHERE id = ? AND conversation_id = ?))
        ORDER BY rowid DESC LIMIT ?""",
        conversation_id,
        after,
        after,
        conversation_id,
        window.limit + 1,
    )
    found = tuple(_whole_or_damaged(row) for row in rows[: window.limit])
    more = len(rows) > window.limit
    return Page(found, Position(found[-1].created_at, found[-1].id) if more else None)


async def count_snapshots(reader: Reader, conversation_id: ConversationId) -> int:
    """How many snapshots are kept of a conversation."""
    if not await _exists(reader):
        return 0
    sql = f"SELECT count(*) AS n FROM {TABLE} WHERE conversation_id = ?"
    return int((await reader.stored(sql, conversation_id))[0]["n"])


def snapshot_until(db: Rows, conversation_id: int, seconds: int) -> tuple[str, str] | None:
    """Id and time of the newest snapshot that was kept until a moment, in seconds since 1970; None: none."""
    if not db.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)):
        return None
    rows = db.rows(
        f"""SELECT id, created_at FROM {TABLE} WHERE conversation_id = ?
        AND CAST(strftime('%s', created_at) AS INTEGER) <= ? ORDER BY rowid DESC LIMIT 1""",
        (conversation_id, seconds),
    )
    return (str(rows[0]["id"]), str(rows[0]["created_at"])) if rows else None


async def get_snapshot(reader: Reader, conversation_id: ConversationId, snapshot_id: str) -> Snapshot:
    """One snapshot of a conversation, by its id or the beginning of it.

    Raises:
        NotFoundError: the conversation has none of that id.
        UsageError: it has several ids that begin so.
        DatabaseError: it cannot be read.
    """
    rows: Sequence[Row] = ()
    if await _exists(reader):
        rows = await reader.stored(
            f"""SELECT {_COLUMNS} FROM {TABLE} WHERE conversation_id = ? AND substr(id, 1, ?) = ?
            ORDER BY id LIMIT 2""",
            conversation_id,
            len(snapshot_id),
            snapshot_id,
        )
    row = rows[0] if rows and snapshot_id else None
    if row is not None and len(rows) > 1 and row["id"] != snapshot_id:
        raise UsageError(
            f"More than one snapshot of conversation {conversation_id} matches {snapshot_id}: "
            f"{rows[0]['id']}, {rows[1]['id']} … Give more of the id.",
            code="AMBIGUOUS_SNAPSHOT_ID",
            details={"snapshotId": snapshot_id},
        )
    if row is None:
        raise NotFoundError(
            f"Conversation {conversation_id} has no snapshot {snapshot_id}: newer ones may have replaced "
            f"it. `lcm-tui context snapshots {conversation_id}` lists those that exist.",
            code="SNAPSHOT_NOT_FOUND",
            details={"snapshotId": snapshot_id},
        )
    return _snapshot(row)


async def owner_of_snapshot(reader: Reader, snapshot_id: str) -> ConversationId | None:
    """The conversation of a snapshot; None: no snapshot has this id."""
    if not await _exists(reader):
        return None
    owner = await reader.value(f"SELECT conversation_id FROM {TABLE} WHERE id = ?", snapshot_id)
    return None if owner is None else ConversationId(owner)


async def _exists(reader: Reader) -> bool:
    return bool(
        await reader.value("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", TABLE)
    )


# -- how a row holds it ----------------------------------------------------------------------------------


def packed_items(*lists_of_items: Sequence[SnapshotItem]) -> bytes:
    """The items of a snapshot, compact: those that were sent, were dropped, were cut off last."""
    lists = [
        [[CODES[one.kind], one.ordinal, one.ref, one.tokens] for one in items] for items in lists_of_items
    ]
    return zlib.compress(json.dumps(lists, separators=(",", ":")).encode("ascii"), 6)


def packed_account(one: Snapshot) -> str:
    """The numbers of a snapshot as JSON."""
    account: JsonObject = {
        "budget": one.budget,
        "tailCount": one.fresh_tail_count,
        "tailMaxTokens": one.fresh_tail_max_tokens,
        "stubPayloads": one.stub_large_tool_payloads,
        "selection": one.selection,
        "sentTokens": one.sent_tokens,
        "evicted": one.evicted,
        "metadata": one.metadata,
    }
    return json.dumps(account, separators=(",", ":"))


def _whole_or_damaged(row: Row) -> Snapshot | DamagedSnapshot:
    try:
        return _snapshot(row)
    except DatabaseError as error:
        owner, at = ConversationId(row["conversation_id"]), Timestamp(str(row["created_at"]))
        return DamagedSnapshot(str(row["id"]), owner, at, error.message)


def _snapshot(row: Row) -> Snapshot:
    try:
        account = json.loads(row["account"])
        # There are two lists where a snapshot was taken before the last cut was noted.
        sent, dropped, *more = json.loads(zlib.decompress(row["items"]))
        return Snapshot(
            id=str(row["id"]),
            conversation_id=ConversationId(row["conversation_id"]),
            created_at=Timestamp(str(row["created_at"])),
            rules=str(row["rules"]),
            zone=_zone(row["zone"]),
            messages_hash=str(row["messages_hash"]),
            budget=int(account["budget"]),
            fresh_tail_count=_number(account["tailCount"]),
            fresh_tail_max_tokens=_number(account["tailMaxTokens"]),
            stub_large_tool_payloads=bool(account["stubPayloads"]),
            metadata=dict(account["metadata"]),
            selection=str(account["selection"]),
            sent_tokens=int(account["sentTokens"]),
            evicted=int(account["evicted"]),
            sent=tuple(map(_item, sent)),
            dropped=tuple(map(_item, dropped)),
            cut=tuple(map(_item, more[0])) if more else (),
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DatabaseError(
            f"Snapshot {row['id']} of conversation {row['conversation_id']} is damaged ({error}). A running "
            "engine replaces it with its next assemblies.",
            code="SNAPSHOT_DAMAGED",
        ) from error


def _item(cells: Sequence[Json]) -> SnapshotItem:
    code, ordinal, ref, tokens = cells
    if not isinstance(ref, int | str | None):
        raise ValueError(f"an item refers to {ref!r}")
    return SnapshotItem(_KINDS[str(code)], _number(ordinal), ref, _number(tokens) or 0)


def _zone(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time zone")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{value!r} is not a number")
    return value
