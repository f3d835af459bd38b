"""A context as it is shown: what is wrong with its items, what they add up to, its lines, and how it is read.

Pure functions over the items and weights of `lcm_core.store.context`, for the app and the command line.
`KnownContext` is what is known of a context whose rows are read page by page, `read_context` reads it again
while a host writes. A weight that is not in a mapping has not been read yet, one that is None has no row.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final

from lcm_core.base.records import (
    ABNORMAL_ORDINAL,
    ContextItems,
    ConversationId,
    FocusBrief,
    Gap,
    ItemId,
    SummaryId,
)
from lcm_core.base.text import depth_name, fold, sought_as
from lcm_core.base.values import Record, field
from lcm_core.engine.rules import CompactionRules, FreshTail, TailRules, fresh_tail
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.store import context as store
from lcm_core.store.context import ContextEntry, Weight
from lcm_core.store.database import Reader
from lcm_core.store.focus import active_brief, focus_overlay
from lcm_core.store.statistics import ContextMessage

Weights = Mapping[ItemId, Weight | None]


class ItemFault(StrEnum):
    """What can be wrong with an item of a context (docs/engine/doctor.md, "Family A: the context")."""

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
    item, ordinal = items.refs[place], items.ordinals[place]
    if place in items.mismatched and item is not None:
        found.append(Found(ItemFault.TYPE, _mismatch(items, place)))
    if weight is None:
        said = "refers to nothing" if item is None else "row is gone"
        found.append(Found(ItemFault.DANGLING, f"{said}: the engine skips it"))
    elif weight.conversation_id != conversation_id:
        found.append(Found(ItemFault.FOREIGN, f"belongs to conversation {weight.conversation_id}"))
    if item in items.repeated:
        found.append(Found(ItemFault.DUPLICATE, _elsewhere(items, place)))
    if ordinal < 0:
        found.append(Found(ItemFault.ORDINAL, "negative ordinal: a resequencing was interrupted"))
    elif ordinal >= ABNORMAL_ORDINAL:
        found.append(Found(ItemFault.ORDINAL, "ordinal out of range: a resequencing was interrupted"))
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


_Sort = tuple[int, str | None]  #: depth of a summary, or -1 and the role of a message


class Tally:
    """Sums over a context from its first item on, as far as weights have been read."""

    def __init__(self, conversation_id: ConversationId) -> None:
        self.running: list[int] = []  #: tokens up to and with each item
        self._conversation_id = conversation_id
        self._sums: dict[_Sort, tuple[int, int]] = {}
        self._dangling = 0
        self._foreign = 0
        self._summaries = 0

    def extend(self, ids: Sequence[ItemId], weights: Weights) -> None:
        """Go on up to the first item whose weight has not been read."""
        total = self.running[-1] if self.running else 0
        for place in range(len(self.running), len(ids)):
            item = ids[place]
            if item not in weights:
                return
            weight = weights[item]
            self._summaries += isinstance(item, str)
            if weight is None:
                self._dangling += 1
            else:
                total += weight.tokens
                self._foreign += weight.conversation_id != self._conversation_id
                _count(self._sums, weight)
            self.running.append(total)

    def totals(self, items: ContextItems, weights: Weights, tail: FreshTail | None) -> Totals | None:
        """What all items add up to; None while a weight has not been read.

        Of the items only those in the fresh tail are looked at.
        """
        if len(self.running) < len(items):
            return None
        first = tail.first_ordinal if tail is not None else None
        start = len(items) if first is None else bisect_left(items.ordinals, first)
        protected: dict[_Sort, tuple[int, int]] = {}
        for item in items.refs[start:]:
            weight = weights[item]
            if weight is not None and weight.role is not None:
                _count(protected, weight)
        return Totals(
            items=len(items),
            messages=len(items) - self._summaries,
            summaries=self._summaries,
            tokens=self.running[-1] if self.running else 0,
            groups=_parted(self._sums, protected),
            dangling=self._dangling,
            foreign=self._foreign,
        )


def _count(sums: dict[_Sort, tuple[int, int]], weight: Weight) -> None:
    sort = (weight.depth or 0, None) if weight.role is None else (-1, weight.role)
    count, tokens = sums.get(sort, (0, 0))
    sums[sort] = (count + 1, tokens + weight.tokens)


def _parted(
    sums: Mapping[_Sort, tuple[int, int]], protected: Mapping[_Sort, tuple[int, int]]
) -> tuple[Group, ...]:
    """The groups of a context, with those of its fresh tail apart."""
    outside = {
        sort: (count - protected.get(sort, (0, 0))[0], tokens - protected.get(sort, (0, 0))[1])
        for sort, (count, tokens) in sums.items()
    }
    parts = [(sort, False, *outside[sort]) for sort in outside if outside[sort][0]]
    parts += [(sort, True, *protected[sort]) for sort in protected]
    return tuple(_group(*part) for part in sorted(parts, key=_order))


def totals_from(sums: store.ContextSums, tail: Iterable[ContextMessage]) -> Totals:
    """What a context adds up to, from its sums and the messages of its fresh tail; nothing is foreign."""
    protected: dict[_Sort, tuple[int, int]] = {}
    for one in tail:
        count, tokens = protected.get((-1, one.role), (0, 0))
        protected[-1, one.role] = count + 1, tokens + one.tokens
    return Totals(
        items=sums.items,
        messages=sums.items - sums.summaries,
        summaries=sums.summaries,
        tokens=sum(tokens for _, tokens in sums.sorts.values()),
        groups=_parted(sums.sorts, protected),
        dangling=sums.items - sum(count for count, _ in sums.sorts.values()),
        foreign=0,
    )


def totals_of(
    items: ContextItems, weights: Weights, tail: FreshTail | None, conversation_id: ConversationId
) -> Totals | None:
    """What the items of a context add up to; None while a weight has not been read."""
    tally = Tally(conversation_id)
    tally.extend(items.refs, weights)
    return tally.totals(items, weights, tail)


_ROLES = ("system", "user", "assistant", "tool")


def groups_of(weights: Iterable[Weight]) -> tuple[Group, ...]:
    """What some items are made of, without a look at the fresh tail: deep summaries first, then messages."""
    sums: dict[_Sort, tuple[int, int]] = {}
    for weight in weights:
        _count(sums, weight)
    return tuple(_group(*part) for part in sorted(((sort, False, *sums[sort]) for sort in sums), key=_order))


def _order(part: tuple[_Sort, bool, int, int]) -> tuple[int, bool, int, str]:
    (depth, role), protected, _, _ = part
    return (-depth, protected, _ROLES.index(role) if role in _ROLES else len(_ROLES), role or "")


def _group(sort: _Sort, protected: bool, count: int, tokens: int) -> Group:
    depth, role = sort
    if role is not None:
        return Group(role, None, role, protected, count, tokens)
    return Group(depth_name(depth), depth, None, False, count, tokens)


def fresh_tail_of(
    items: ContextItems,
    weights: Weights,
    rules: TailRules,
) -> FreshTail | None:
    """The fresh tail of a context; None while too few weights near its end have been read.

    Looks at no more of the context than the rule needs.
    """
    raw: list[ContextMessage] = []
    has_user = not rules.keeps_turn_whole
    for place in range(len(items) - 1, -1, -1):
        item = items.refs[place]
        if item is None or isinstance(item, str):
            continue
        if item not in weights:
            return None
        weight = weights[item]
        if weight is None:
            continue
        raw.append(ContextMessage(item, items.ordinals[place], weight.role or "", weight.tokens))
        has_user = has_user or weight.role == "user"
        if len(raw) > rules.fresh_tail_count and has_user:
            break
    raw.reverse()
    return fresh_tail(raw, rules)


# -- as lines of a list ----------------------------------------------------------------------------------

#: What a line of the list shows, and which: ``("summary", id, occurrence)``, ``("message", id,
#: occurrence)``, ``("item", ordinal, 0)`` for one that refers to nothing, and between items
#: ``("gap", first missing ordinal, 0)``, ``("brief", id, 0)`` and ``("tail", 0, 0)``.
RowKey = tuple[str, int | str, int]

TAIL: RowKey = ("tail", 0, 0)
ITEM_KINDS = frozenset({"summary", "message", "item"})


class ContextView(Record, frozen=True):
    """A context as the lines of a list: its items, and what is between them."""

    items: ContextItems = field(default_factory=ContextItems)
    tail: FreshTail | None = None  #: None: not known yet
    overlay: FocusOverlay | None = None  #: the active focus brief over what it covers
    item_keys: list[RowKey] = field(default_factory=list)  #: one for each item
    keys: Sequence[RowKey] = ()  #: one for each line
    places: Sequence[int] = ()  #: of the item that each line shows, or that follows a line between items


def goes_on(before: ContextView, after: ContextView) -> bool:
    """Whether of a list that was shown *before* every item is shown *after* as it was, but for its weight.

    Whether it lies in the fresh tail is another question.
    """
    return before.overlay == after.overlay and (
        before.items is after.items
        or (
            len(before.items) > 0
            and before.items.repeated == after.items.repeated
            and after.items.begins_with(before.items)
        )
    )


def moved_tail(before: FreshTail | None, after: FreshTail | None) -> range:
    """The ordinals that have joined or left the fresh tail; all there can be while it is not known."""
    if before is None or after is None:
        return range(-(2**63), 2**63)
    ends = [ABNORMAL_ORDINAL if one.first_ordinal is None else one.first_ordinal for one in (before, after)]
    return range(min(ends), max(ends))


def view_context(
    items: ContextItems,
    tail: FreshTail | None,
    overlay: FocusOverlay | None,
    before: ContextView | None = None,
) -> ContextView:
    """Lay a context out as lines; what is known from *before* of the same items is not made again."""
    same = before is not None and before.items is items
    keys = before.item_keys if before is not None and same else _item_keys(items, before)
    between: list[tuple[int, int, RowKey]] = [(gap.place, 0, ("gap", gap.first, 0)) for gap in items.gaps]
    if overlay is not None:
        at = bisect_left(items.ordinals, overlay.at_ordinal)
        between.append((at, 1, ("brief", overlay.brief.brief_id, 0)))
    if tail is not None and tail.first_ordinal is not None:
        between.append((bisect_left(items.ordinals, tail.first_ordinal), 2, TAIL))
    lines: list[RowKey] = []
    places: list[int] = []
    start = 0
    for place, _, key in sorted(between):
        lines += keys[start:place]
        places += range(start, place)
        lines.append(key)
        places.append(place)
        start = place
    lines += keys[start:]
    places += range(start, len(keys))
    return ContextView(items, tail, overlay, keys, lines, places)


def _item_keys(items: ContextItems, before: ContextView | None) -> list[RowKey]:
    """The keys of all items; those of a beginning that *before* has too are the same objects."""
    keys: list[RowKey] = []
    if before is not None and not before.items.repeated and items.begins_with(before.items):
        keys += before.item_keys
    known = len(keys)
    keys += [
        ("summary", item, 0)
        if isinstance(item, str)
        else ("item", ordinal, 0)
        if item is None
        else ("message", item, 0)
        for item, ordinal in zip(items.refs[known:], items.ordinals[known:], strict=True)
    ]
    for places in items.repeated.values():
        for nth, place in enumerate(places):
            keys[place] = (keys[place][0], keys[place][1], nth)
    return keys


# -- as far as it has been read ----------------------------------------------------------------------------


class KnownContext:
    """A context as far as it has been read; every answer says when it is not known yet."""

    def __init__(self, conversation_id: ConversationId, rules: TailRules) -> None:
        self.conversation_id = conversation_id
        self.rules = rules
        self.view = ContextView()
        self.weights: dict[ItemId, Weight | None] = {}
        self.totals: Totals | None = None  #: None: not everything has been read
        self._tally = Tally(conversation_id)
        self._alike: dict[Weight, Weight] = {}  #: equal weights are kept once: there are few of them
        self._next = 0  #: place of the next item to verify
        self._unverified = 0  #: how many are left

    def adopt(self, view: ContextView) -> None:
        """Take over a list that was read again; weights are kept, and are due to be read again."""
        items, known = view.items, self.view.items
        if items is not known and not items.begins_with(known):
            self._tally = Tally(self.conversation_id)
            present = set(items.refs)
            self.weights = {item: weight for item, weight in self.weights.items() if item in present}
        if items is not known or view.tail != self.view.tail:
            self.totals = None
        self.view = view
        self._unverified = len(items)
        self._sum_up()

    def learn(self, weights: Mapping[ItemId, Weight | None]) -> bool:
        """Take in what was read of some items; True when something that was known has changed."""
        known = self.weights
        changed = False
        for item, weight in weights.items():
            if item not in known:
                known[item] = weight and self._alike.setdefault(weight, weight)
            elif known[item] != weight:
                known[item], changed = weight, True
        if changed:
            self._tally, self.totals = Tally(self.conversation_id), None
        view = self.view
        tail = fresh_tail_of(view.items, known, self.rules) if view.items.complete else None
        if tail is not None and tail != view.tail:
            self.view = view_context(view.items, tail, view.overlay, view)
            self.totals = None
        self._sum_up()
        return changed

    def unread(self, limit: int) -> list[ItemId]:
        """The first items whose weight has not been read, in the order of the context."""
        ids = self.view.items.refs
        rest = (ids[place] for place in range(self.read, len(ids)))
        return list(dict.fromkeys(islice((item for item in rest if item not in self.weights), limit)))

    def unverified(self, limit: int) -> list[ItemId]:
        """The next items whose weight was read before the list was; none when all have been read again.

        Goes round and round under a host that writes without a pause: no item waits for others twice.
        """
        ids = self.view.items.refs
        limit = min(limit, self._unverified)
        self._next = self._next if self._next < len(ids) else 0
        found = ids[self._next : self._next + limit]
        self._next += len(found)
        self._unverified -= len(found)
        return list(dict.fromkeys(found))

    @property
    def read(self) -> int:
        """How many items have been read, from the top."""
        return len(self._tally.running)

    def running_total(self, place: int) -> int | None:
        """Tokens up to and with the item at *place*; None while one before it has not been read."""
        return self._tally.running[place] if place < self.read else None

    def findings(self, place: int) -> list[Found]:
        """What is wrong with an item, as far as it has been read."""
        item = self.view.items.refs[place]
        weight = self.weights.get(item)
        if item not in self.weights:
            return []
        return findings_at(self.view.items, place, weight, self.conversation_id)

    def gap(self, key: RowKey) -> Gap | None:
        """The gap that a line shows."""
        return next((gap for gap in self.view.items.gaps if gap.first == key[1]), None)

    def is_covered(self, item: ItemId) -> bool:
        """Whether the active focus brief replaces an item."""
        overlay = self.view.overlay
        return overlay is not None and item in overlay.covered

    def tokens_with_brief(self) -> int | None:
        """Stored tokens with the active focus brief in place of what it covers; None without one."""
        overlay, totals = self.view.overlay, self.totals
        if overlay is None or totals is None:
            return None
        weights = [self.weights.get(item) for item in self.view.items.refs if item in overlay.covered]
        return totals.tokens - sum(weight.tokens for weight in weights if weight) + overlay.brief.tokens

    def is_protected(self, place: int) -> bool:
        """Whether an item lies in the fresh tail."""
        tail = self.view.tail
        first = tail.first_ordinal if tail is not None else None
        return first is not None and self.view.items.ordinals[place] >= first

    def _sum_up(self) -> None:
        items = self.view.items
        self._tally.extend(items.refs, self.weights)
        if self.totals is None and items.complete:
            self.totals = self._tally.totals(items, self.weights, self.view.tail)


def stands_for_item(key: RowKey) -> bool:
    """Whether a line shows an item, not what is between items."""
    return key[0] in ITEM_KINDS


# -- reading it again and again ----------------------------------------------------------------------------


#: Items that fill the largest screen.
SIGHT: Final = 80
#: Raw messages at the end that are weighed first, above what the rule of the fresh tail asks for.
TAIL_SPARE: Final = 64
#: Lists longer than this are laid out in a thread.
LONG: Final = 5_000
NOTHING: Final[Mapping[ItemId, int]] = MappingProxyType({})


class FoundOverlay(Record, frozen=True):
    """An overlay and what it was found from: it is looked for again when that changes."""

    brief: FocusBrief | None
    summary_ids: tuple[SummaryId | None, ...]
    overlay: FocusOverlay | None


class Fetched(Record, frozen=True):
    """A context as it is now: laid out, with what is in sight."""

    view: ContextView  #: that of before, when nothing in it has changed
    weights: Mapping[ItemId, Weight | None]
    entries: Mapping[ItemId, ContextEntry]
    fresh: tuple[RowKey, ...]  #: items that were not in the list before
    overlay: FoundOverlay
    selected: RowKey | None = None  #: the line that was asked for


async def read_context(
    reader: Reader,
    known: KnownContext,
    *,
    sight: Mapping[ItemId, int] = NOTHING,
    select: Sequence[str] | None = None,
    limit: int | None = None,
    overlay: FoundOverlay | None = None,
    zone: tzinfo | None = None,
) -> Fetched:
    """Read what has changed of a context since *known*, and what is in *sight* anew.

    *sight* gives each item with the place where it stood. *limit* asks for the first items only; *select* is
    a kind and an id, around which entries are read when nothing is known yet. *known* is not touched:
    `KnownContext.adopt` and `learn` take the answer in.
    """
    before = known.view
    if limit is None:
        items = await store.items_now(reader, known.conversation_id, before.items)
    else:
        items = await store.context_items(reader, known.conversation_id, limit=limit)
    over = await _overlay(reader, known, items, overlay, zone)
    weights = await store.weights_of(reader, _end_of(items, known))
    tail = fresh_tail_of(items, ChainMap(weights, known.weights), known.rules) if items.complete else None
    view: ContextView = before
    fresh: tuple[RowKey, ...] = ()
    if items is not before.items or over.overlay != before.overlay or tail != before.tail:
        arguments = (before, items, tail, over.overlay)
        long = len(items) > LONG
        view, fresh = await asyncio.to_thread(_laid_out, *arguments) if long else _laid_out(*arguments)
    selected = _line_of(view, select) if select else None
    places = _places(view, before, sight, fresh, selected)
    entries = await store.context_entries(reader, [items.item(place) for place in places])
    found = {items.refs[place]: entry for place, entry in zip(places, entries, strict=True)}
    weights.update({item: entry.weight for item, entry in found.items()})
    return Fetched(view, weights, found, fresh, over, view.keys[selected] if selected is not None else None)


async def _overlay(
    reader: Reader, known: KnownContext, items: ContextItems, found: FoundOverlay | None, zone: tzinfo | None
) -> FoundOverlay:
    brief = await active_brief(reader, known.conversation_id)
    if brief is None:
        return FoundOverlay(None, (), None)
    if found is not None and found.brief == brief and found.summary_ids == items.summary_ids:
        return found
    return FoundOverlay(brief, items.summary_ids, await focus_overlay(reader, known.conversation_id, zone))


def _end_of(items: ContextItems, known: KnownContext) -> list[ItemId]:
    """The raw messages near the end, in which the fresh tail most likely lies."""
    if not items.complete:
        return []
    wanted = known.rules.fresh_tail_count + TAIL_SPARE
    found: list[ItemId] = []
    for item in reversed(items.refs):
        if not isinstance(item, str) and item is not None:
            found.append(item)
            if len(found) >= wanted:
                break
    return found


def _laid_out(
    before: ContextView, items: ContextItems, tail: FreshTail | None, overlay: FocusOverlay | None
) -> tuple[ContextView, tuple[RowKey, ...]]:
    view = view_context(items, tail, overlay, before)
    return view, _fresh(before, view)


def _fresh(before: ContextView, view: ContextView) -> tuple[RowKey, ...]:
    """The items of a list that the one before did not hold, when that was complete."""
    if not before.items.complete or not before.items.signature:
        return ()
    known = len(before.items)
    if view.items.begins_with(before.items):
        return tuple(view.item_keys[known:])
    held = set(before.item_keys)
    return tuple(key for key in view.item_keys if key not in held)


def _line_of(view: ContextView, select: Sequence[str]) -> int | None:
    wanted = tuple(map(str, select))
    for line, key in enumerate(view.keys):
        if tuple(map(str, key))[: len(wanted)] == wanted:
            return line
    return None


def _places(
    view: ContextView,
    before: ContextView,
    sight: Mapping[ItemId, int],
    fresh: Sequence[RowKey],
    selected: int | None,
) -> list[int]:
    """Where the items are whose entries are read: those in sight and new ones; at first the beginning."""
    if not len(before.items):
        start = max(0, (selected or 0) - SIGHT // 2)
        held = range(len(view.items))
        return list(dict.fromkeys(place for place in view.places[start : start + SIGHT] if place in held))
    ids = view.items.refs
    wanted = {*sight, *(key[1] for key in fresh[-SIGHT:])}
    # Most are where they were, or were appended.
    likely = {*sight.values(), *range(max(0, len(ids) - SIGHT), len(ids))}
    found = [place for place in sorted(likely) if place < len(ids) and ids[place] in wanted]
    if {ids[place] for place in found} != wanted:
        found = [place for place, item in enumerate(ids) if item in wanted]
    return found[: 3 * SIGHT]


async def find_item(reader: Reader, items: ContextItems, needle: str, places: Sequence[int]) -> int | None:
    """The first of some *places* whose id, kind, role or preview holds *needle* in any spelling."""
    sought = sought_as(needle)
    entries = await store.context_entries(reader, [items.item(place) for place in places])
    found = zip(places, entries, strict=True)
    return next((place for place, entry in found if sought in fold(searched_text(entry))), None)


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
    """The distance of a context under a *budget* (docs/engine/compaction.md, "Sweep").

    The tokens of the prompt, which a host may have seen to be more, are not in the database.
    """
    raw = sum(group.tokens for group in totals.groups if group.role is not None and not group.protected)
    chunk = rules.leaf_chunk_tokens if rules.leaf_trigger else None
    return Distance(totals.tokens, rules.threshold(budget), raw, chunk)
