"""Reading a context again and again while a host writes to it: what changed, and what is in sight."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType
from typing import Final

from lcm_core.assemble.elements import FocusOverlay
from lcm_core.context_items import ContextItems, ItemId
from lcm_core.context_view import ContextView, RowKey, depth_name, fresh_tail_of, view_context
from lcm_core.fresh_tail import FreshTail
from lcm_core.known_context import KnownContext
from lcm_core.records import FocusBrief, SummaryId
from lcm_core.store import context as store
from lcm_core.store.briefs import active_brief, focus_overlay
from lcm_core.store.context import ContextEntry, Weight
from lcm_core.store.database import Reader

#: Items that fill the largest screen.
SIGHT: Final = 80
#: Raw messages at the end that are weighed first, above what the rule of the fresh tail asks for.
TAIL_SPARE: Final = 64
#: Lists longer than this are laid out in a thread.
LONG: Final = 5_000
NOTHING: Final[Mapping[ItemId, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FoundOverlay:
    """An overlay and what it was found from: it is looked for again when that changes."""

    brief: FocusBrief | None
    summary_ids: tuple[SummaryId | None, ...]
    overlay: FocusOverlay | None


@dataclass(frozen=True, slots=True)
class Fetched:
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
    entries = await store.entries_of(reader, [items.item(place) for place in places])
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
    """Where the items stand whose entries are read: those in sight and new ones; at first the beginning."""
    if not len(before.items):
        start = max(0, (selected or 0) - SIGHT // 2)
        held = range(len(view.items))
        return list(dict.fromkeys(place for place in view.places[start : start + SIGHT] if place in held))
    ids = view.items.refs
    wanted = {*sight, *(key[1] for key in fresh[-SIGHT:])}
    # Most stand where they stood, or were appended.
    likely = {*sight.values(), *range(max(0, len(ids) - SIGHT), len(ids))}
    found = [place for place in sorted(likely) if place < len(ids) and ids[place] in wanted]
    if {ids[place] for place in found} != wanted:
        found = [place for place, item in enumerate(ids) if item in wanted]
    return found[: 3 * SIGHT]


async def find_item(reader: Reader, items: ContextItems, needle: str, places: Sequence[int]) -> int | None:
    """The first of some *places* whose id, kind, role or preview holds *needle*, ignoring case."""
    folded = needle.casefold()
    entries = await store.entries_of(reader, [items.item(place) for place in places])
    found = zip(places, entries, strict=True)
    return next((place for place, entry in found if folded in searched_text(entry).casefold()), None)


def searched_text(entry: ContextEntry) -> str:
    """What a search looks at: the ids, seq and kind of an item as the list writes them, and its preview."""
    depth = "" if entry.kind is None else depth_name(entry.depth or 0)
    seq = "" if entry.seq is None else f"#{entry.seq}"
    item = entry.item
    name = item.summary_id or f"m{item.message_id}"
    return f"{name} {seq} {entry.kind or entry.role or item.item_type} {depth} {entry.preview}"
