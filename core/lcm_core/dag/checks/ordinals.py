"""The order of a context whose renumbering was cut short (A9), or where old stands behind new (A10, A12).

A resequencing goes through ordinals that no list has (docs/format.md, "Numbering"): below zero, the first
item first, so that they count backwards; or far above, which keeps the order. Which of it happened shows in
the time that the items cover, and where that proves nothing there is no fix.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lcm_core.dag.checks.facts import ABNORMAL_ORDINAL, Structure
from lcm_core.records import ContextItem, SummaryId


def true_order(structure: Structure) -> list[int] | None:
    """Places in the list as the items belong; None: nothing tells."""
    items = structure.items
    possible = list(dict.fromkeys(_orders([item.ordinal for item in items])))
    if len(possible) == 1:
        return list(possible[0])
    doubtful = _doubtful(structure)
    certain = [[items[at] for at in order if at not in doubtful] for order in possible]
    proven = (order for order, held in zip(possible, certain, strict=True) if is_in_order(structure, held))
    found = next(proven, None)
    return None if found is None else list(found)


def _orders(ordinals: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders that an interrupted renumbering may have come from; first as it stands."""
    places = range(len(ordinals))
    yield tuple(places)
    if ordinals and ordinals[-1] >= ABNORMAL_ORDINAL:
        yield tuple(sorted(places, key=lambda at: ordinals[at] % ABNORMAL_ORDINAL))
    below = [at for at in places if ordinals[at] < 0]
    if below:
        others, turned = places[len(below) :], below[::-1]
        yield (*turned, *others)
        yield (*others, *turned)


def _doubtful(structure: Structure) -> frozenset[int]:
    """Places of items that tell nothing: what stands twice, and what a summary beside it covers."""
    refs = [item.message_id if item.summary_id is None else item.summary_id for item in structure.items]
    counts = Counter(refs)
    found = set()
    for at, item in enumerate(structure.items):
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        if counts[refs[at]] > 1 or (place is not None and structure.linked[place] == 2):
            found.add(at)
    return frozenset(found)


def is_in_order(structure: Structure, items: Sequence[ContextItem]) -> bool:
    """Whether items begin no earlier than those before them; what covers nothing stands anywhere."""
    starts = [start for item in items if (start := _start(structure, item)) is not None]
    return all(before <= after for before, after in pairwise(starts))


def _start(structure: Structure, item: ContextItem) -> int | None:
    span = _span(structure, item)
    return None if span is None else span[0]


def _span(structure: Structure, item: ContextItem) -> tuple[int, int] | None:
    """First and last place that an item covers; None when that is nothing of this conversation."""
    if item.message_id is not None:
        place = structure.messages.position.get(item.message_id)
        return None if place is None else (place, place)
    return structure.spans.get(SummaryId(item.summary_id or ""))


def told_order(structure: Structure, items: Sequence[ContextItem]) -> list[int] | None:
    """Places in *items* as they belong by what they cover; None where that does not tell one order.

    It does when each covers something, none covers what lies within another one's run of messages, and the
    recorded times say the same as seq.
    """
    spans = [_span(structure, item) for item in items]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    order = sorted(range(len(items)), key=known.__getitem__)
    if any(known[one][1] >= known[other][0] for one, other in pairwise(order)):
        return None
    return None if any(behind_newer(structure, [items[at] for at in order])) else order


def behind_newer(structure: Structure, items: Sequence[ContextItem]) -> Iterator[ContextItem]:
    """The items that stand behind something newer: by time, and messages also by seq.

    What a transplant copied stands in front of the rest, whenever it was said.
    """
    newest_start, last_place = 0.0, -1
    for item in items:
        place = None if item.message_id is None else structure.messages.position.get(item.message_id)
        node = None if item.summary_id is None else structure.nodes.get(item.summary_id)
        if place is not None:
            ends, back = structure.messages.days[place], place < last_place
            last_place = max(last_place, place)
        elif node is not None:
            span = structure.spans.get(node.summary_id)
            if span is not None and span[1] < structure.copied:
                continue
            ends, back = _day(node.latest), False
        else:
            continue
        if back or (ends and ends < newest_start):
            yield item
        if node is not None:
            newest_start = max(newest_start, _day(node.earliest))


def _day(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value
