"""Rebuilds what was sent at the time of a snapshot, from rows that still exist, and compares contexts."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.records import ContextItem, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.values import Record, replace
from lcm_core.engine.assembly import Assembled, AssemblySettings, assemble
from lcm_core.engine.items import ContextMessages, ResolvedItem, resolve_brief, resolve_items
from lcm_core.engine.messages import OriginKind, SentMessage
from lcm_core.engine.rules import NAMED, EngineRules, engine_rules
from lcm_core.engine.sent import ContextDiff, SentContext, SnapshotOrigin, compare_contexts, sent_now
from lcm_core.engine.sessions import settings_for_session
from lcm_core.engine.wrapper import FocusOverlay, wrap_brief
from lcm_core.operations.assembly import assemble_context, with_turn_answers
from lcm_core.store.context import stored_items
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.focus import list_briefs
from lcm_core.store.listing import Snapshot, SnapshotItem, get_snapshot

#: A budget that every item fits: which of them were sent is known.
_BOUNDLESS: Final = 2**53


class RebuiltSnapshot(Record, frozen=True):
    """The messages of a snapshot."""

    assembled: Assembled  #: with text as stored today; budget and weights as they were noted
    places: tuple[int | None, ...]  #: of each item that was sent, among the messages; None: its row is gone
    gone: tuple[SnapshotItem, ...]  #: were sent, and their rows are gone
    not_kept: int  #: messages of the host's own list, of which nothing was stored
    exact: bool  #: the hash says: these are the messages that were sent

    @property
    def messages(self) -> tuple[SentMessage, ...]:
        """As they would be sent today."""
        return self.assembled.messages


async def rebuild_snapshot(reader: Reader, one: Snapshot, zone: tzinfo | None) -> RebuiltSnapshot:
    """What was sent then, from the rows of today; *zone* for a snapshot that names none.

    Rows that say something else than they did make it inexact; which ones is not known.
    """
    rules = NAMED.get(one.rules) or engine_rules(reader.schema)
    where = _zone(one.zone) or zone
    chosen = [*one.sent, *one.dropped, *one.cut]
    items = [_context_item(item) for item in chosen if item.kind in _STORED]
    stored = await stored_items(reader, _by_ordinal(items), payloads=one.stub_large_tool_payloads)
    resolved = await asyncio.to_thread(resolve_items, stored, None, rules, where)
    context = await with_turn_answers(reader, one.conversation_id, resolved, rules)
    briefs = await _briefs(reader, one, rules, where)
    everything = sorted((*briefs, *context.items), key=lambda item: item.ordinal)
    settings = AssemblySettings(
        _BOUNDLESS,
        one.fresh_tail_count,
        one.fresh_tail_max_tokens,
        stub_large_tool_payloads=one.stub_large_tool_payloads,
    )
    whole = await asyncio.to_thread(assemble, ContextMessages(tuple(everything)), settings, rules)
    assembled, places = _as_noted(one, whole)
    existing = {_ref(item) for item in everything}
    return RebuiltSnapshot(
        assembled,
        places,
        tuple(item for item in one.sent if item.ref is not None and item.ref not in existing),
        sum(item.kind is OriginKind.LIVE for item in one.sent),
        assembled.messages_hash == one.messages_hash,
    )


def _sent_then(one: Snapshot, found: RebuiltSnapshot) -> SentContext:
    """A snapshot as one side of a comparison: what is left of its messages, and what was noted of them."""
    taken = SnapshotOrigin(one.id, one.created_at, found.exact, len(found.gone), found.not_kept)
    return SentContext(
        found.messages, one.budget, one.sent_tokens, one.evicted, one.rules, one.messages_hash, None, taken
    )


def _as_noted(one: Snapshot, whole: Assembled) -> tuple[Assembled, tuple[int | None, ...]]:
    """An assembly without what was cut off last, as it was noted; and the place of each item in it."""
    messages, weights = whole.messages, list(whole.weights)
    if one.cut:
        kept = _kept(one.sent, messages)
        messages, weights = tuple(messages[at] for at in kept), [weights[at] for at in kept]
    places = _places(one.sent, messages)
    for item, place in zip(one.sent, places, strict=True):
        if place is not None:
            weights[place] = item.tokens
    assembled = replace(
        whole, messages=messages, weights=tuple(weights), budget=one.budget, sent_tokens=one.sent_tokens
    )
    return assembled, places


def _kept(items: Sequence[SnapshotItem], messages: Sequence[SentMessage]) -> list[int]:
    """The places of the messages that *items* became, found from the newest back."""
    found: list[int] = []
    end = len(messages)
    for item in reversed(items):  # a result that was made up has the ordinal of its call
        at = next(
            (at for at in reversed(range(end)) if _name(messages[at]) == (item.ordinal, item.ref)), None
        )
        if at is not None:
            found.append(at)
            end = at
    return found[::-1]


def _places(items: Sequence[SnapshotItem], messages: Sequence[SentMessage]) -> tuple[int | None, ...]:
    """The place of each item among some messages: by what it refers to, or in order when it was made up."""
    waiting: defaultdict[tuple[int | None, int | str | None], deque[int]] = defaultdict(deque)
    for at, message in enumerate(messages):
        made_up = message.origin.kind is OriginKind.SYNTHETIC
        waiting[(None, None) if made_up else _name(message)].append(at)
    found: list[int | None] = []
    for item in items:
        known = item.kind is not OriginKind.LIVE
        queue = waiting.get((item.ordinal, item.ref) if item.ref is not None else (None, None))
        found.append(queue.popleft() if queue and known else None)
    return tuple(found)


def _name(message: SentMessage) -> tuple[int | None, int | str | None]:
    origin = message.origin
    return origin.ordinal, origin.message_id or origin.summary_id or origin.brief_id


_STORED: Final = (OriginKind.MESSAGE, OriginKind.SUMMARY)


def _context_item(item: SnapshotItem) -> ContextItem:
    """The item of the context as it was then."""
    ordinal = item.ordinal or 0
    if item.kind is OriginKind.MESSAGE and isinstance(item.ref, int):
        return ContextItem(ordinal, "message", MessageId(item.ref), None, Timestamp(""))
    return ContextItem(ordinal, "summary", None, SummaryId(str(item.ref)), Timestamp(""))


def _by_ordinal(items: list[ContextItem]) -> list[ContextItem]:
    """In the order of the context, each once."""
    return sorted(dict.fromkeys(items), key=lambda item: item.ordinal)


async def _briefs(
    reader: Reader, one: Snapshot, rules: EngineRules, zone: tzinfo | None
) -> list[ResolvedItem]:
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


def _ref(item: ResolvedItem) -> int | str | None:
    origin = item.sent.origin
    return origin.message_id or origin.summary_id or origin.brief_id


def _zone(name: str | None) -> tzinfo | None:
    try:
        return None if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


# -- comparing ---------------------------------------------------------------------------------------------


class ComparedContext(Record, frozen=True):
    """A context to be assembled, one that was assembled already, or a snapshot."""

    conversation_id: ConversationId
    settings: AssemblySettings
    rules: EngineRules | None = None  #: None: those of the engine that wrote the file
    assembled: SentContext | None = None
    snapshot_id: str | None = None  #: or the beginning of it
    budget_of_snapshot: bool = False  #: assembled under the budget of the other side, if that is a snapshot
    #: what an operator set: rules in it may give the session another fresh tail; None: that of the settings
    engine: EngineSettings | None = None


async def read_sides(
    reader: Reader, sides: Sequence[ComparedContext], zone: tzinfo | None, *, with_history: bool = False
) -> list[SentContext]:
    """What some contexts send; *with_history* also counts what was ever said, for their metadata.

    Raises:
        NotFoundError: there is no such conversation or snapshot.
        UsageError: several snapshots begin so.
    """
    noted: list[Snapshot | None] = []
    keys: dict[ConversationId, str | None] = {}
    for side in sides:
        if side.assembled is None:
            conversation = await get_conversation(reader, side.conversation_id)
            keys[side.conversation_id] = conversation.session_key
        wanted = side.snapshot_id
        noted.append(None if wanted is None else await get_snapshot(reader, side.conversation_id, wanted))
    budget = next((one.budget for one in noted if one is not None), None)
    found: list[SentContext] = []
    for side, one in zip(sides, noted, strict=True):
        if side.assembled is not None:
            found.append(side.assembled)
        elif one is not None:
            found.append(_sent_then(one, await rebuild_snapshot(reader, one, zone)))
        else:
            settings = side.settings
            if side.engine is not None:
                tail = settings_for_session(side.engine, keys[side.conversation_id]).fresh_tail_count
                settings = replace(settings, fresh_tail_count=tail.value if tail.is_set else None)
            if side.budget_of_snapshot and budget is not None:
                settings = replace(settings, budget=budget)
            assembled = await assemble_context(
                reader,
                side.conversation_id,
                settings,
                zone=zone,
                rules=side.rules,
                with_history=with_history,
            )
            found.append(sent_now(assembled))
    return found


async def read_comparison(
    reader: Reader, old: ComparedContext, new: ComparedContext, zone: tzinfo | None
) -> ContextDiff:
    """What is different between two contexts of one database.

    Raises:
        NotFoundError: there is no such conversation or snapshot.
        UsageError: several snapshots begin so.
    """
    left, right = await read_sides(reader, (old, new), zone)
    return await asyncio.to_thread(compare_contexts, left, right)
