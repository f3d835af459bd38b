"""Puts together again what was sent at the time of a snapshot, as far as the rows still stand (seed 004)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lcm_core.assemble.assembler import AssemblySettings, assemble
from lcm_core.assemble.focus import FocusOverlay, wrap_brief
from lcm_core.assemble.message import OriginKind, SentMessage
from lcm_core.assemble.resolve import Resolved, ResolvedContext, resolve, resolve_brief
from lcm_core.records import ContextItem, MessageId, SummaryId, Timestamp
from lcm_core.rules import NAMED, Rules, rules_of
from lcm_core.store.assemblies import Snapshot, SnapshotItem
from lcm_core.store.assembly import stored_items
from lcm_core.store.briefs import list_briefs
from lcm_core.store.database import Reader

#: A budget that every item fits: which of them were sent is known.
_BOUNDLESS: Final = 2**53


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """The messages of a snapshot."""

    messages: tuple[SentMessage, ...]  #: as they would be sent today; text as stored
    gone: tuple[SnapshotItem, ...]  #: were sent, and their rows do not stand any more
    not_kept: int  #: messages of the host's own list, of which nothing was stored
    exact: bool  #: the hash says: these are the messages that were sent


async def reconstruct(reader: Reader, one: Snapshot, zone: tzinfo | None) -> Reconstruction:
    """What was sent then, from the rows of today; *zone* for a snapshot that names none.

    Rows that stand and say something else than they did make it not exact; which ones is not known.
    """
    rules = NAMED.get(one.rules) or rules_of(reader.schema)
    where = _zone(one.zone) or zone
    chosen = [*one.sent, *one.dropped]
    items = [_context_item(item) for item in chosen if item.kind in _STORED]
    stored = await stored_items(reader, _by_ordinal(items), payloads=one.stub_payloads)
    context = await asyncio.to_thread(resolve, stored, None, rules, where)
    briefs = await _briefs(reader, one, rules, where)
    everything = sorted((*briefs, *context.items), key=lambda item: item.ordinal)
    settings = AssemblySettings(
        _BOUNDLESS, one.tail_count, one.tail_max_tokens, stub_payloads=one.stub_payloads
    )
    assembled = await asyncio.to_thread(assemble, ResolvedContext(tuple(everything)), settings, rules)
    standing = {_ref(item) for item in everything}
    return Reconstruction(
        assembled.messages,
        tuple(item for item in one.sent if item.ref is not None and item.ref not in standing),
        sum(item.kind is OriginKind.LIVE for item in one.sent),
        assembled.messages_hash == one.messages_hash,
    )


_STORED: Final = (OriginKind.MESSAGE, OriginKind.SUMMARY)


def _context_item(item: SnapshotItem) -> ContextItem:
    """The item of the context as it stood then."""
    ordinal = item.ordinal or 0
    if item.kind is OriginKind.MESSAGE and isinstance(item.ref, int):
        return ContextItem(ordinal, "message", MessageId(item.ref), None, Timestamp(""))
    return ContextItem(ordinal, "summary", None, SummaryId(str(item.ref)), Timestamp(""))


def _by_ordinal(items: list[ContextItem]) -> list[ContextItem]:
    """In the order of the context, each once."""
    return sorted(dict.fromkeys(items), key=lambda item: item.ordinal)


async def _briefs(reader: Reader, one: Snapshot, rules: Rules, zone: tzinfo | None) -> list[Resolved]:
    """The focus briefs that were sent, active or not by now."""
    wanted = {item.ref: item.ordinal or 0 for item in one.sent if item.kind is OriginKind.FOCUS_BRIEF}
    if not wanted:
        return []
    return [
        resolve_brief(
            FocusOverlay(brief, frozenset(), wanted[brief.brief_id], wrap_brief(brief, zone)), rules
        )
        for brief in await list_briefs(reader, one.conversation_id)
        if brief.brief_id in wanted
    ]


def _ref(item: Resolved) -> int | str | None:
    origin = item.sent.origin
    return origin.message_id or origin.summary_id or origin.brief_id


def _zone(name: str | None) -> tzinfo | None:
    try:
        return None if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
