"""``context snapshots``: what an engine that runs gave to its host, and what of it can be shown again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lcm_core.assemble.export import spoken
from lcm_core.records import Conversation
from lcm_core.snapshots import RebuiltSnapshot, rebuild_snapshot
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot, SnapshotItem, get_snapshot, snapshot_page
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window
from lcm_core.text import preview, safe_text

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.readable import Block, Cell, Column, Facts, Note, Table, counted
from lcm_tui.cli.selecting import chosen

#: Messages that are gone and that a line for people names.
NAMED = 8
EMPTY = "No snapshot is kept: none but an engine that runs in a Python host keeps them."


Listed: TypeAlias = Snapshot | DamagedSnapshot


@dataclass(frozen=True, slots=True)
class _Shown:
    conversation: Conversation
    snapshot: Snapshot
    found: RebuiltSnapshot


def show(run: Run, named: Selector, snapshot_id: str) -> Answer:
    """One snapshot, as far as its rows still stand."""
    shown = run.read(_load, run, named, snapshot_id)
    return run.answer("context.snapshots", _shown_document(shown), list(_shown_blocks(run, shown)))


def snapshots(run: Run, named: Selector, window: Window) -> Answer:
    """A page of the snapshots of a conversation."""
    owner, page = run.read(_list, named, window)
    data: Document = {
        "conversation": documents.conversation(owner),
        "items": [_listed(one) for one in page.items],
    }
    return run.answer(
        "context.snapshots",
        data,
        [_table(run, page.items), *(Note(safe_text(one.problem)) for one in _damaged(page.items))],
        paging=Paging("snapshots", window.limit, len(page.items), page.next),
    )


async def _list(reader: Reader, named: Selector, window: Window) -> tuple[Conversation, Page[Listed]]:
    owner = await chosen(reader, named)
    return owner, await snapshot_page(reader, owner.conversation_id, window)


async def _load(reader: Reader, run: Run, named: Selector, snapshot_id: str) -> _Shown:
    owner = await chosen(reader, named)
    one = await get_snapshot(reader, owner.conversation_id, snapshot_id)
    return _Shown(owner, one, await rebuild_snapshot(reader, one, run.zone))


# -- JSON ------------------------------------------------------------------------------------------------


def _damaged(found: Sequence[Listed]) -> Iterator[DamagedSnapshot]:
    return (one for one in found if isinstance(one, DamagedSnapshot))


def _listed(one: Listed) -> Document:
    """Every entry says whether it is damaged; one that is has nothing else to say."""
    if isinstance(one, DamagedSnapshot):
        return {"id": one.id, "createdAt": one.created_at, "damaged": one.problem}
    return {**_document(one), "damaged": None}


def _document(one: Snapshot) -> Document:
    return {
        "id": one.id,
        "createdAt": one.created_at,
        "rules": one.rules,
        "timezone": one.zone,
        "budget": one.budget,
        "selection": one.selection,
        "messages": len(one.sent),
        "evicted": one.evicted,
        "sentTokens": one.sent_tokens,
        "messagesHash": one.messages_hash,
        "metadata": one.metadata,
    }


def _item(one: SnapshotItem) -> Document:
    return {"origin": str(one.kind), "ordinal": one.ordinal, "ref": one.ref, "tokens": one.tokens}


def _shown_document(shown: _Shown) -> Document:
    found = shown.found
    return {
        "conversation": documents.conversation(shown.conversation),
        "snapshot": _document(shown.snapshot),
        "items": [_item(one) for one in shown.snapshot.sent],
        "mendedAway": [_item(one) for one in shown.snapshot.dropped],
        "finalClamp": [_item(one) for one in shown.snapshot.cut],
        "exact": found.exact,
        "gone": [_item(one) for one in found.gone],
        "notKept": found.not_kept,
        "messages": [message.document() for message in found.messages],
    }


# -- for people ------------------------------------------------------------------------------------------


def _table(run: Run, found: Sequence[Listed]) -> Table:
    columns = (
        Column("Snapshot"),
        Column("Time"),
        Column("Source"),
        Column("Budget", right=True),
        Column("Sent", right=True),
        Column("Tokens", right=True),
        Column("Not sent", right=True),
        Column("Cache", spare=1),
        Column("Hash", spare=2),
    )
    return Table(columns, [_row(run, one) for one in found], empty=EMPTY)


def _row(run: Run, one: Listed) -> tuple[Cell, ...]:
    name, time = safe_text(one.id), run.time(one.created_at)
    if isinstance(one, DamagedSnapshot):
        return name, time, "damaged", None, None, None, None, None, None
    return (
        name,
        time,
        _said(one, "source"),
        one.budget,
        len(one.sent),
        one.sent_tokens,
        one.evicted,
        _said(one, "cacheState"),
        safe_text(one.messages_hash),
    )


def _said(one: Snapshot, name: str) -> str:
    value = one.metadata.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not known" if value is None else safe_text(f"{value:,}" if isinstance(value, int) else str(value))


def _shown_blocks(run: Run, shown: _Shown) -> Iterator[Block]:
    one, found = shown.snapshot, shown.found
    reason = one.metadata.get("fallbackReason")
    facts: list[tuple[str, Cell]] = [
        ("Conversation", f"{shown.conversation.conversation_id}  {shown.conversation.lane}"),
        ("Snapshot", f"{safe_text(one.id)}, {run.time(one.created_at)}"),
        ("Source", _said(one, "source") + (f": {safe_text(str(reason))}" if reason else "")),
        ("Authoritative", _said(one, "promptAuthoritative")),
        ("Tokens", f"{one.sent_tokens:,} sent of {one.budget:,}, rules of {safe_text(one.rules)}"),
        ("Sent", f"{counted(len(one.sent), 'message', 'messages')}, {one.evicted:,} items not sent"),
        ("Fresh tail", f"{_said(one, 'freshTailCount')} items, {_said(one, 'freshTailTokens')} tokens"),
        (
            "History",
            f"{_said(one, 'rawHistoryEstimatedTokens')} tokens, {_said(one, 'rawHistoryDebtTokens')} of them "
            "raw before the tail",
        ),
        ("Cache", f"{_said(one, 'cacheState')}: {_said(one, 'cacheReason')}"),
        ("Hash", safe_text(one.messages_hash)),
        ("Shown again", _how_true(found)),
    ]
    yield Facts(facts)
    columns = (
        Column("#", right=True),
        Column("Role"),
        Column("From"),
        Column("Ordinal", right=True, spare=2),
        Column("Text", grows=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            at,
            str(message.role),
            message.origin.name,
            message.origin.ordinal,
            preview(spoken(message)),
        )
        for at, message in enumerate(found.messages, 1)
    ]
    yield Table(columns, rows, "What stands of it", empty="Nothing of what was sent stands any more.")
    if found.gone:
        names = ", ".join(safe_text(one.name) for one in found.gone[:NAMED])
        more = f" and {len(found.gone) - NAMED:,} more" if len(found.gone) > NAMED else ""
        yield Note(f"Gone from the database: {names}{more}.")
    if found.not_kept:
        messages = counted(found.not_kept, "message", "messages")
        yield Note(f"{messages} came from the host's own list, of which a snapshot keeps no text.")


def _how_true(found: RebuiltSnapshot) -> str:
    if found.exact:
        return "exactly what was sent: the hash is the same"
    if found.gone or found.not_kept:
        return "in part"
    return "from rows that have changed since, or with another time zone: the hash is another"
