"""A context as it is shown: what is wrong with its items, what they add up to, its lines, and how it is read.

Pure functions over the items and entries of `lcm_core.store.context`, for the app and the command line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from enum import StrEnum
from itertools import accumulate

from lcm_core.base.records import (
    ContextItems,
    ConversationId,
    Gap,
    ItemId,
)
from lcm_core.base.text import depth_name
from lcm_core.base.values import Record
from lcm_core.engine.markers import NONE_WRONG, Wrong
from lcm_core.engine.rules import CompactionRules, FreshTail, TailRules, fresh_tail
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry, Weight
from lcm_core.store.database import Reader
from lcm_core.store.focus import focus_overlay


class ItemFault(StrEnum):
    """What can be wrong with an item of a context (docs/spec/doctor.md, "Family A: the context")."""

    DANGLING = "dangling"  #: its row is gone
    DUPLICATE = "duplicate"  #: the same row is elsewhere too
    FOREIGN = "foreign"  #: its row belongs to another conversation
    ORDINAL = "ordinal"  #: negative or huge
    TYPE = "type"  #: the type does not say what it refers to


class Found(Record, frozen=True):
    """A finding at one item, in words."""

    finding: ItemFault
    text: str


class Group(Record, frozen=True):
    """A part of a context of one sort."""

    name: str  #: ``D2``, ``D1``, ``L`` for leaves, or a role
    depth: int | None  #: of summaries
    role: str | None  #: of messages
    protected: bool  #: within the fresh tail
    count: int
    tokens: int


class Totals(Record, frozen=True):
    """What a context adds up to; tokens are stored estimates, and a dangling item counts none."""

    items: int
    messages: int
    summaries: int
    tokens: int
    groups: tuple[Group, ...]  #: deep summaries first, then messages, those of the fresh tail last
    dangling: int  #: items whose row is gone
    foreign: int  #: items whose row belongs to another conversation

    def share(self, budget: int) -> float:
        """The part of a budget that the context takes; above 1 when it does not fit."""
        return self.tokens / budget


#: Other places of an item that are named.
MOST_NAMED = 20

# -- what is wrong ---------------------------------------------------------------------------------------


def gap_text(gap: Gap) -> str:
    """A gap in words."""
    if gap.first == gap.last:
        return f"gap: ordinal {gap.first:,} is missing"
    return f"gap: ordinals {gap.first:,}–{gap.last:,} are missing"


def findings_at(
    items: ContextItems, place: int, weight: Weight | None, conversation_id: ConversationId
) -> list[Found]:
    """What is wrong with one item whose weight has been read."""
    found = []
    item = items.refs[place]
    if place in items.mismatched and item is not None:
        found.append(Found(ItemFault.TYPE, _mismatch(items, place)))
    if weight is None:
        said = "refers to nothing" if item is None else "row is gone"
        found.append(Found(ItemFault.DANGLING, f"{said}: the engine skips it"))
    elif weight.conversation_id != conversation_id:
        found.append(Found(ItemFault.FOREIGN, f"belongs to conversation {weight.conversation_id}"))
    if item in items.repeated:
        found.append(Found(ItemFault.DUPLICATE, _elsewhere(items, place)))
    if place in items.abnormal:
        said = "negative ordinal" if items.ordinals[place] < 0 else "ordinal out of range"
        found.append(Found(ItemFault.ORDINAL, f"{said}: a resequencing was interrupted"))
    return found


def _elsewhere(items: ContextItems, place: int) -> str:
    """Where else an item is; of very many places the first ones."""
    places = items.repeated[items.refs[place]]
    others = [other for other in places[: MOST_NAMED + 1] if other != place][:MOST_NAMED]
    more = len(places) - 1 - len(others)
    named = ", ".join(f"{items.ordinals[other]:,}" for other in others)
    return f"duplicate: also at {named}{f' and {more:,} other places' if more else ''}"


def _mismatch(items: ContextItems, place: int) -> str:
    held = "a message" if items.summary_ids[place] is None else "a summary"
    if items.message_ids[place] is not None and items.summary_ids[place] is not None:
        held = "both a message and a summary"
    return f"item_type is {items.types[place]}, but it refers to {held}"


# -- sums ------------------------------------------------------------------------------------------------

_ROLES = ("system", "user", "assistant", "tool")


def groups_of(weights: Iterable[Weight], protected: Iterable[Weight] = ()) -> tuple[Group, ...]:
    """What some items are made of: deep summaries first, then messages, the *protected* ones last."""
    sums: dict[tuple[int, str | None, bool], tuple[int, int]] = {}
    for inside, part in ((False, weights), (True, protected)):
        for weight in part:
            sort = (weight.depth or 0, None, False) if weight.role is None else (-1, weight.role, inside)
            count, tokens = sums.get(sort, (0, 0))
            sums[sort] = (count + 1, tokens + weight.tokens)
    return tuple(
        Group(
            depth_name(depth) if role is None else role,
            depth if role is None else None,
            role,
            inside,
            *sums[depth, role, inside],
        )
        for depth, role, inside in sorted(sums, key=_order)
    )


def _order(sort: tuple[int, str | None, bool]) -> tuple[int, bool, int, str]:
    depth, role, inside = sort
    return (-depth, inside, _ROLES.index(role) if role in _ROLES else len(_ROLES), role or "")


def totals_of(entries: Sequence[ContextEntry], tail: FreshTail, conversation_id: ConversationId) -> Totals:
    """What the items of a context add up to."""
    first = tail.first_ordinal
    parts: tuple[list[Weight], list[Weight]] = ([], [])
    for entry in entries:
        if (weight := entry.weight) is not None:
            inside = first is not None and not entry.is_summary and entry.item.ordinal >= first
            parts[inside].append(weight)
    summaries = sum(entry.is_summary for entry in entries)
    weights = [*parts[0], *parts[1]]
    return Totals(
        items=len(entries),
        messages=len(entries) - summaries,
        summaries=summaries,
        tokens=sum(weight.tokens for weight in weights),
        groups=groups_of(*parts),
        dangling=len(entries) - len(weights),
        foreign=sum(weight.conversation_id != conversation_id for weight in weights),
    )


def tail_in(entries: Iterable[ContextEntry], rules: TailRules) -> FreshTail:
    """The fresh tail of a context."""
    return fresh_tail([one for entry in entries if (one := entry.as_message) is not None], rules)


# -- as lines of a list ----------------------------------------------------------------------------------

#: What a line of the list shows, and which: ``("summary", id, occurrence)``, ``("message", id,
#: occurrence)``, ``("item", ordinal, 0)`` for one that refers to nothing, and between items
#: ``("gap", first missing ordinal, 0)``, ``("brief", id, 0)`` and ``("tail", 0, 0)``.
RowKey = tuple[str, int | str, int]

TAIL: RowKey = ("tail", 0, 0)
ITEM_KINDS = frozenset({"summary", "message", "item"})


class ContextView(Record, frozen=True):
    """A context as it is shown: its items with what they refer to, what they add up to, and its lines."""

    conversation_id: ConversationId
    rules: TailRules
    items: ContextItems
    entries: tuple[ContextEntry, ...]  #: one for each item
    overlay: FocusOverlay | None  #: the active focus brief over what it covers
    tail: FreshTail
    totals: Totals
    running: tuple[int, ...]  #: tokens up to and with each item
    keys: tuple[RowKey, ...]  #: one for each line
    places: tuple[int, ...]  #: of the item that each line shows, or that follows a line between items
    wrong: Wrong = NONE_WRONG  #: of its summaries, once that was read

    def findings(self, place: int) -> list[Found]:
        """What is wrong with an item."""
        return findings_at(self.items, place, self.entries[place].weight, self.conversation_id)

    def gap(self, key: RowKey) -> Gap | None:
        """The gap that a line shows."""
        return next((gap for gap in self.items.gaps if gap.first == key[1]), None)

    def is_covered(self, item: ItemId) -> bool:
        """Whether the active focus brief replaces an item."""
        return self.overlay is not None and item in self.overlay.covered

    def tokens_with_brief(self) -> int | None:
        """Stored tokens with the active focus brief in place of what it covers; None without one."""
        if self.overlay is None:
            return None
        covered = (entry for entry in self.entries if entry.item.summary_id in self.overlay.covered)
        return self.totals.tokens - sum(entry.tokens or 0 for entry in covered) + self.overlay.brief.tokens

    def is_protected(self, place: int) -> bool:
        """Whether an item lies in the fresh tail."""
        first = self.tail.first_ordinal
        return first is not None and self.items.ordinals[place] >= first


def view_context(
    conversation_id: ConversationId,
    rules: TailRules,
    items: ContextItems,
    entries: Sequence[ContextEntry],
    overlay: FocusOverlay | None = None,
) -> ContextView:
    """Add a context up, and lay it out as lines."""
    tail = tail_in(entries, rules)
    keys = _item_keys(items)
    between: list[tuple[int, int, RowKey]] = [(gap.place, 0, ("gap", gap.first, 0)) for gap in items.gaps]
    if overlay is not None:
        at = bisect_left(items.ordinals, overlay.at_ordinal)
        between.append((at, 1, ("brief", overlay.brief.brief_id, 0)))
    if tail.first_ordinal is not None:
        between.append((bisect_left(items.ordinals, tail.first_ordinal), 2, TAIL))
    lines: list[RowKey] = []
    places: list[int] = []
    start = 0
    for place, _, key in sorted(between):
        lines += [*keys[start:place], key]
        places += range(start, place + 1)
        start = place
    return ContextView(
        conversation_id,
        rules,
        items,
        tuple(entries),
        overlay,
        tail,
        totals_of(entries, tail, conversation_id),
        tuple(accumulate(entry.tokens or 0 for entry in entries)),
        (*lines, *keys[start:]),
        (*places, *range(start, len(keys))),
    )


def _item_keys(items: ContextItems) -> list[RowKey]:
    """The keys of all items."""
    keys: list[RowKey] = [
        ("summary", item, 0)
        if isinstance(item, str)
        else ("item", ordinal, 0)
        if item is None
        else ("message", item, 0)
        for item, ordinal in zip(items.refs, items.ordinals, strict=True)
    ]
    for places in items.repeated.values():
        for nth, place in enumerate(places):
            keys[place] = (keys[place][0], keys[place][1], nth)
    return keys


def stands_for_item(key: RowKey) -> bool:
    """Whether a line shows an item, not what is between items."""
    return key[0] in ITEM_KINDS


async def read_context(
    reader: Reader, conversation_id: ConversationId, rules: TailRules, zone: tzinfo | None = None
) -> ContextView:
    """A context as it is now, whole and in a thread: 10,000 items take a tenth of a second."""
    return await reader.at_once(_read_context, conversation_id, rules, zone)


async def _read_context(
    reader: Reader, conversation_id: ConversationId, rules: TailRules, zone: tzinfo | None
) -> ContextView:
    items = await store.context_items(reader, conversation_id)
    entries = await store.context_entries(reader, list(items))
    overlay = await focus_overlay(reader, conversation_id, zone)
    return view_context(conversation_id, rules, items, entries, overlay)


def searched_text(entry: ContextEntry) -> str:
    """What a search looks at: the ids, seq and kind of an item as the list writes them, and its preview."""
    depth = "" if entry.kind is None else depth_name(entry.depth or 0)
    seq = "" if entry.seq is None else f"#{entry.seq}"
    item = entry.item
    name = item.summary_id or f"m{item.message_id}"
    return f"{name} {seq} {entry.kind or entry.role or item.item_type} {depth} {entry.preview}"


# -- distance to the next compaction ---------------------------------------------------------------------


class Distance(Record, frozen=True):
    """How far a context is from its next compaction; tokens are stored estimates."""

    tokens: int  #: of all items
    threshold: int  #: above which the engine compacts
    raw: int  #: of raw messages that compaction may touch
    chunk: int | None  #: from which on those alone set it off; None: not in this version

    @property
    def due(self) -> bool:
        """Whether the engine would compact after the next turn."""
        return self.tokens > self.threshold or (self.chunk is not None and self.raw >= self.chunk)

    @property
    def left(self) -> int:
        """How many tokens may still come; 0: it is due. A new message also moves the fresh tail on."""
        total = self.threshold - self.tokens
        return 0 if self.due else total if self.chunk is None else min(total, self.chunk - self.raw)


def distance_of(totals: Totals, rules: CompactionRules, budget: int) -> Distance:
    """The distance of a context under a *budget* (docs/spec/compaction.md, "Sweep").

    The tokens of the prompt, which a host may have seen to be more, are not in the database.
    """
    raw = sum(group.tokens for group in totals.groups if group.role is not None and not group.protected)
    chunk = rules.leaf_chunk_tokens if rules.leaf_trigger else None
    return Distance(totals.tokens, rules.threshold(budget), raw, chunk)
