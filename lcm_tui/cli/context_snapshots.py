"""``context snapshots``: what an engine that runs gave to its host, and what of it can be shown again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_core.records import Conversation
from lcm_core.snapshots import rebuild_snapshot
from lcm_core.store.assemblies import DamagedSnapshot, Snapshot, SnapshotItem, get_snapshot, snapshot_page
from lcm_core.store.database import Reader
from lcm_core.store.listing import Page, Window
from lcm_core.text import safe_text

from lcm_tui.cli import documents
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.views.blocks import Note
from lcm_tui.views.snapshots import Listed, ShownSnapshot, snapshot_blocks, snapshots_table


def show(run: Run, named: Selector, snapshot_id: str) -> Answer:
    """One snapshot, as far as its rows still stand."""
    shown = run.read(_load, run, named, snapshot_id)
    return run.answer("context.snapshots", _shown_document(shown), list(snapshot_blocks(run.time, shown)))


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
        [
            snapshots_table(run.time, page.items),
            *(Note(safe_text(one.problem)) for one in _damaged(page.items)),
        ],
        paging=Paging("snapshots", window.limit, len(page.items), page.next),
    )


async def _list(reader: Reader, named: Selector, window: Window) -> tuple[Conversation, Page[Listed]]:
    owner = await chosen(reader, named)
    return owner, await snapshot_page(reader, owner.conversation_id, window)


async def _load(reader: Reader, run: Run, named: Selector, snapshot_id: str) -> ShownSnapshot:
    owner = await chosen(reader, named)
    one = await get_snapshot(reader, owner.conversation_id, snapshot_id)
    return ShownSnapshot(owner, one, await rebuild_snapshot(reader, one, run.zone))


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


def _shown_document(shown: ShownSnapshot) -> Document:
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
